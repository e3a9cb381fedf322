"""Webhooks: what a callback contains, how it is signed, and when it is sent again.

The form is Standard Webhooks: a JSON payload with ``type``, ``timestamp`` and ``data``, signed with HMAC-SHA256 over
``id.timestamp.body``. A caller's secret is derived from the server's key, so none is stored; an anonymous caller gets
one secret for each execution. :func:`verify_webhook` is the receiver's side.

Spec: Standard Webhooks 1.0 (standardwebhooks.com). Callbacks are an extension of SSP §5.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import random
import time
from collections.abc import Mapping
from email.message import Message
from typing import Any, Final

from skillwire import limits
from skillwire.errors import TrustError, ValidationError
from skillwire.executions.view import format_timestamp
from skillwire.model.execution import Execution, ExecutionStatus
from skillwire.model.url import parse_url

#: What a receiver reads of a request. Spec: Standard Webhooks, "Webhook Headers".
ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
_PREFIX: Final = "whsec_"
_VERSION: Final = "v1"
_CONTEXT: Final = b"skillwire webhook 1\0"
_SIGNATURES: Final = 16

#: Seconds between a failed delivery and the next; after the last one no more are made.
#: Spec: Standard Webhooks, "Deliverability and reliability".
DELAYS: Final = (5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0)
#: A delay is longer by up to this part of it, so that what failed together does not come back together.
_JITTER: Final = 0.2
#: The statuses by which a receiver says that it wants nothing more.
GONE: Final = 410

TYPES: Final = {
    ExecutionStatus.COMPLETED: "execution.completed",
    ExecutionStatus.FAILED: "execution.failed",
    ExecutionStatus.TIMEOUT: "execution.timeout",
}


def read_callback_url(text: str) -> str:
    """Return the webhook of a ``Callback-Url``. Raises ValidationError. The address policy is checked elsewhere."""
    try:
        url = parse_url(text)
    except ValidationError as error:
        raise ValidationError(
            "VALIDATION_ERROR", f"Callback-Url: {error.message}", details={"actual": text[:200]}
        ) from error
    return str(url)


def webhook_owner(execution: Execution) -> str:
    """Return the owner of the secret that signs an execution's webhook: the principal, or the execution."""
    is_known = not execution.caller.startswith("address ")
    return execution.caller if is_known else f"execution {execution.execution_id}"


def webhook_secret(key: bytes, owner: str) -> str:
    """Return the secret of ``owner`` (see :func:`webhook_owner`), ``whsec_`` and 32 bytes in base64."""
    return _PREFIX + base64.b64encode(hmac.digest(key, _CONTEXT + owner.encode(), hashlib.sha256)).decode()


def payload(execution: Execution, response: bytes) -> bytes:
    """Return the body of an ended execution's webhook; ``response`` is its InvocationResponse, as JSON."""
    timestamp = format_timestamp(execution.updated if execution.completed is None else execution.completed)
    return b'{"type":"%b","timestamp":"%b","data":%b}' % (
        TYPES[execution.status].encode(),
        timestamp.encode(),
        response,
    )


def sign(secret: str, message_id: str, body: bytes, now: float) -> dict[str, str]:
    """Return the header fields of a request, with its signature; ``now`` is in seconds since the epoch."""
    timestamp = str(int(now))
    return {
        ID: message_id,
        TIMESTAMP: timestamp,
        SIGNATURE: _signature(_key(secret), message_id, timestamp, body),
        "content-type": "application/json",
    }


def message_id(execution: Execution) -> str:
    """Return what a receiver knows a webhook by, the same for each time that it is sent."""
    return "msg_" + execution.execution_id.removeprefix("exec-")


def next_delivery(failed: int, now: float, *, chance: float | None = None) -> float | None:
    """Return when to try again after ``failed`` deliveries, None to give up; ``chance`` is random unless given."""
    if not 1 <= failed <= len(DELAYS):
        return None
    part = random.random() if chance is None else chance  # noqa: S311  # spreads load, protects nothing
    return now + DELAYS[failed - 1] * (1 + _JITTER * part)


def verify_webhook(
    secret: str, headers: Mapping[str, str] | Message, body: bytes | str, *, now: float | None = None
) -> Any:
    """Return the payload of a webhook with a valid signature: ``type``, ``timestamp``, ``data``.

    A webhook may come more than once, with the same ``webhook-id``.

    Args:
        secret: the ``Webhook-Secret`` of the accepted execution.
        headers: of the request, their names in any case.
        body: as received, byte for byte.
        now: seconds since the epoch; the clock's unless given.

    Raises:
        TrustError: ``WEBHOOK_SIGNATURE``. Answer with 400 and use nothing of the request.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    data = body.encode() if isinstance(body, str) else body
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not fields.get(name)]
    if missing:
        raise TrustError("WEBHOOK_SIGNATURE", f"the request has no {missing[0]}")
    timestamp = fields[TIMESTAMP]
    if not (timestamp.isascii() and timestamp.isdigit()) or len(timestamp) > _SIGNATURES:
        raise TrustError("WEBHOOK_SIGNATURE", "webhook-timestamp is no time")
    if abs((time.time() if now is None else now) - int(timestamp)) > limits.WEBHOOK_TOLERANCE_SECONDS:
        raise TrustError("WEBHOOK_SIGNATURE", "webhook-timestamp is too old, or to come; check the clock")
    expected = _signature(_key(secret), fields[ID], timestamp, data).encode()
    good = False
    for given in fields[SIGNATURE].split(" ")[:_SIGNATURES]:
        good |= hmac.compare_digest(given.encode(), expected)
    if not good:
        raise TrustError("WEBHOOK_SIGNATURE", "no signature is of this secret and this body")
    try:
        return json.loads(data)
    except ValueError as error:
        raise TrustError("WEBHOOK_SIGNATURE", "the body is signed, but no JSON") from error


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise TrustError("WEBHOOK_SIGNATURE", "the secret is not whsec_ and base64") from error


def _signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    signed = b".".join((message_id.encode("utf-8", "replace"), timestamp.encode(), body))
    return f"{_VERSION},{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"
