"""What an HTTP request asks of an execution: its body, its query, its fields.

Trust: all of it is a stranger's. What proves who the caller is, is taken out of the body before anything else is done
with it. Spec: SSP §5.3; specs §2; the fields are ours, but ``Prefer`` (RFC 7240).
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import SkillwireError, ValidationError
from skillwire.invocation.accept import check_key, wrong
from skillwire.invocation.webhook import read_callback_url
from skillwire.protocols.skill_sharing.messages import Caller, InvocationRequest
from skillwire.protocols.skill_sharing.validation import parse_as
from skillwire.server.headers import read_fields
from skillwire.server.query import read_pairs
from skillwire.wire.fetch import is_json

if TYPE_CHECKING:
    from skillwire.invocation.offer import Offer
    from skillwire.model.execution import Webhook
    from skillwire.server.headers import Fields
    from skillwire.server.invocation.endpoints import Meant

_WAIT: Final = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,6})\"?(?:$|[,;\s])", re.IGNORECASE)
_PARAMETERS: Final = 200
_ID_LENGTH: Final = 256
_FIELDS: Final = (b"content-type", b"prefer", b"idempotency-key", b"callback-url", b"if-none-match", b"accept")


class Asked(NamedTuple):
    """The fields of a request that matter here; ``wait`` in seconds."""

    content_type: str
    wait: int
    key: str | None
    webhook: Webhook | None
    tags: str
    accept: str


def read_asked(fields: Fields) -> Asked:
    """Return what the fields of a request ask for.

    Raises:
        ValidationError: ``VALIDATION_ERROR`` for a key or a callback that is none.
    """
    found = read_fields(fields, *_FIELDS)
    wait = _WAIT.search(found.get(b"prefer", ""))
    key, callback = found.get(b"idempotency-key"), found.get(b"callback-url")
    return Asked(
        found.get(b"content-type", ""),
        min(int(wait[1]), limits.EXECUTION_WAIT_SECONDS) if wait else 0,
        None if key is None else check_key(key),
        None if callback is None else read_callback_url(callback),
        found.get(b"if-none-match", ""),
        found.get(b"accept", ""),
    )


def read_request(body: bytes, content_type: str) -> InvocationRequest:
    """Return the invocation in a body.

    Raises:
        DecodeError: it is no JSON. ValidationError: ``VALIDATION_ERROR``, ``MEDIA_TYPE``.
    """
    if content_type and not is_json(content_type):
        raise ValidationError("MEDIA_TYPE", f"the body is {ascii(content_type)[:60]}, and only JSON is read")
    request: InvocationRequest = parse_as(
        body, "InvocationRequest", max_bytes=limits.EXECUTION_REQUEST_BYTES, source="request"
    )
    return request


def asked_for(meant: Meant, body: bytes) -> str:
    """Return the skill that a request names: by its id if the body is an invocation, else as its path does."""
    with suppress(SkillwireError):
        return read_request(body, "").skill_id[:_ID_LENGTH]
    return meant.skill


def shown_credentials(request: InvocationRequest) -> Fields:
    """Return what a caller proves itself by in the body, as the header fields that say the same. Ours."""
    shown = request.caller.credentials or {}
    key, token = shown.get("api_key"), shown.get("access_token")
    if isinstance(key, str):
        return [(b"x-api-key", key.encode("latin-1", "replace"))]
    if isinstance(token, str):
        return [(b"authorization", b"Bearer " + token.encode("latin-1", "replace"))]
    return []


def without_credentials(request: InvocationRequest) -> InvocationRequest:
    """Return a request without what its caller proved itself by."""
    if request.caller.credentials is UNSET:
        return request
    caller = Caller(id=request.caller.id, type=request.caller.type)
    return InvocationRequest(caller=caller, skill_id=request.skill_id, inputs=request.inputs, context=request.context)


def request_of_query(query: bytes, offer: Offer, caller: str) -> InvocationRequest:
    """Return the invocation that the query of a GET or DELETE spells: an input a parameter. Ours.

    Raises:
        UsageError: ``QUERY``. ValidationError: ``VALIDATION_ERROR`` for a name that stands twice, or bad JSON.
    """
    inputs: dict[str, Any] = {}
    for name, text in read_pairs(query, _PARAMETERS):
        if name in inputs:
            raise wrong(f"/inputs/{name[:100]}", "is given twice", "one value", None)
        inputs[name] = _value(name, text, offer)
    who = Caller(id=caller or "anonymous", type="service")
    return InvocationRequest(caller=who, skill_id=offer.skill_id, inputs=inputs)


def _value(name: str, text: str, offer: Offer) -> Any:
    if name in offer.text_inputs:
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise wrong(f"/inputs/{name[:100]}", "must be JSON", "JSON", text[:100]) from None
