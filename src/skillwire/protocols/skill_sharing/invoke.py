"""What a consumer asks to have a skill executed: invocation, status, result and cancellation, each as an exchange.

``POST`` and ``PUT`` carry an InvocationRequest. The text has no word on how ``GET`` and ``DELETE`` carry inputs; they
go into the query, a text as it is and any other value as JSON **[ours]**. ``Idempotency-Key`` and ``Prefer: wait`` are
ours, too; who does not know them passes them over.

A credential goes to the origin of the URL alone: each exchange is handed the header fields that carry it, and no
redirect takes them elsewhere (:mod:`skillwire.wire.fetch`). It is never part of a body.

Spec: SSP §5.3, §5.5, §7.2, §7.4. Trust: every answer is hostile, and read by
:mod:`~skillwire.protocols.skill_sharing.answers`.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import Place, UsageError, ValidationError
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.answers import Answer, read_answer
from skillwire.protocols.skill_sharing.messages import Caller, InvocationContext, InvocationRequest
from skillwire.protocols.skill_sharing.rules import execution_url
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch, is_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.model.execution import Priority
    from skillwire.protocols.skill_sharing.messages import AuthConfig, InvocationEndpoint, SkillDescriptor
    from skillwire.wire.exchange import Exchange

_BEARER: Final = "Bearer "
_IN_BODY: Final = frozenset({"POST", "PUT"})
_KEY: Final = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?", re.ASCII)
_KEY_FIELD: Final = "idempotency-key"
_REFUSED: Final = 300
_ACCEPT: Final = "application/json, */*;q=0.5"
_MARGIN: Final = 20.0  # seconds that an answer may take beyond what the server was asked to wait


class Circumstances(NamedTuple):
    """What goes with the inputs of a call.

    Args:
        caller_id, caller_type: who calls, as it says itself.
        timeout: seconds that the caller waits; None for as long as it takes.
    """

    caller_id: str
    caller_type: str = "user"
    trace_id: str | None = None
    priority: Priority | None = None
    timeout: float | None = None


def encode_invocation(skill_id: str, inputs: Mapping[str, Any], about: Circumstances) -> bytes:
    """Return the InvocationRequest of a call as bytes. Spec: SSP §5.3.

    Raises:
        ValidationError: ``VALIDATION_ERROR`` for inputs that JSON cannot say.
    """
    milliseconds = UNSET if about.timeout is None else round(about.timeout * 1000)
    context = InvocationContext(
        trace_id=UNSET if about.trace_id is None else about.trace_id,
        priority=UNSET if about.priority is None else about.priority,
        timeout_ms=milliseconds,
    )
    request = InvocationRequest(
        caller=Caller(id=about.caller_id, type=about.caller_type),
        skill_id=skill_id,
        inputs={},
        context=UNSET if context == InvocationContext() else context,
    )
    return _json_bytes({**msgspec.to_builtins(request), "inputs": dict(inputs)})


def invocation(
    descriptor: SkillDescriptor,
    inputs: Mapping[str, Any],
    about: Circumstances,
    *,
    key: str,
    credential: Mapping[str, str],
    wait: float | None = None,
) -> HttpRequest:
    """Return the request that calls a skill.

    Args:
        descriptor: of the skill, checked.
        inputs: checked, with defaults.
        about: what else the provider is told.
        key: under which the provider executes the call once, however often it comes.
        credential: the header fields that carry it; see :func:`credential_fields`.
        wait: seconds that the provider is asked to wait for the end.

    Raises:
        ValidationError: ``DESCRIPTOR`` for an endpoint that wants something else than JSON, ``URL`` for inputs that
            are too long for one, ``VALIDATION_ERROR`` for inputs that JSON cannot say.
        UsageError: ``USAGE`` for a key that no header may hold.
    """
    if not _KEY.fullmatch(key):
        raise UsageError("USAGE", f"an idempotency key has 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable characters")
    endpoint = descriptor.endpoint
    headers = {**credential, "Accept": _ACCEPT, "Idempotency-Key": key, **_preferring(wait)}
    url, body = endpoint.url, None
    if endpoint.method in _IN_BODY:
        headers["Content-Type"] = _content_type(endpoint)
        body = encode_invocation(descriptor.id, inputs, about)
    else:
        url = _with_query(url, inputs)
    return HttpRequest(
        url,
        str(endpoint.method),
        headers=headers,
        body=body,
        max_bytes=limits.CALL_ANSWER_BYTES,
        timeout=_answer_time(endpoint) + (wait or 0.0),
    )


def submit(request: HttpRequest) -> Exchange[Answer]:
    """Call a skill by a request of :func:`invocation`.

    Raises:
        FetchError, TrustError: from the driver.
        DecodeError, ValidationError: as :func:`~skillwire.protocols.skill_sharing.answers.read_answer`.
    """
    response = yield from fetch(request)
    return read_answer(response, may_be_output=True)


def ask_fields(url: str) -> Exchange[Answer]:
    """Ask what may be sent to an endpoint; only ``status`` and ``takes_keys`` of the answer are told.

    Raises:
        FetchError, TrustError: from the driver.
    """
    response = yield from fetch(HttpRequest(url, "OPTIONS", max_bytes=limits.CALL_ANSWER_BYTES))
    fields = response.headers.get("access-control-allow-headers", "").lower().split(",")
    return Answer(response.status, takes_keys=response.status < _REFUSED and _KEY_FIELD in map(str.strip, fields))


def ask_status(
    url: str,
    credential: Mapping[str, str],
    *,
    execution_id: str | None = None,
    etag: str | None = None,
    wait: float | None = None,
) -> Exchange[Answer]:
    """Ask how far an execution is; for something other than ``etag``, for at most ``wait`` seconds, where given."""
    headers = {**credential, "Accept": "application/json", **_preferring(wait)}
    if etag is not None:
        headers["If-None-Match"] = etag
    request = HttpRequest(url, headers=headers, max_bytes=limits.CALL_ANSWER_BYTES, timeout=(wait or 0.0) + _MARGIN)
    response = yield from fetch(request)
    return read_answer(response, execution_id=execution_id)


def fetch_result(url: str, credential: Mapping[str, str], *, execution_id: str | None = None) -> Exchange[Answer]:
    """Ask for what an execution gave: an InvocationResponse with it, or, from some providers, the output itself."""
    headers = {**credential, "Accept": _ACCEPT}
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=limits.CALL_ANSWER_BYTES))
    return read_answer(response, may_be_output=True, execution_id=execution_id)


def cancel(url: str, credential: Mapping[str, str], *, execution_id: str | None = None) -> Exchange[Answer]:
    """Take an execution back, by ``DELETE`` of its status **[ours]**; the answer tells how it ended."""
    headers = {**credential, "Accept": "application/json"}
    request = HttpRequest(url, "DELETE", headers=headers, max_bytes=limits.CALL_ANSWER_BYTES)
    response = yield from fetch(request)
    return read_answer(response, execution_id=execution_id)


def credential_fields(authorization: str | None, header: str | None = None) -> dict[str, str]:
    """Return the header fields that carry a credential.

    Args:
        authorization: the value of ``Authorization``, or the mark of a stored one, which knows its own field.
        header: the field that the descriptor names for an API key. Spec: SSP §7.2.1.
    """
    if authorization is None:
        return {}
    if header is not None and header.lower() != "authorization" and authorization.startswith(_BEARER):
        return {header: authorization.removeprefix(_BEARER)}
    return {"Authorization": authorization}


def credential_header(auth: AuthConfig) -> str | None:
    """Return the header field that a descriptor wants an API key in; None for ``Authorization``."""
    return auth.header if auth.type == "api_key" and auth.header else None


def status_url(endpoint: InvocationEndpoint, execution_id: str) -> str | None:
    """Return where the status of an execution is told; None where the descriptor does not say. Spec: SSP §5.5."""
    return execution_url(endpoint.status_url, execution_id) if endpoint.status_url else None


def result_url(endpoint: InvocationEndpoint, execution_id: str) -> str | None:
    """Return where the result of an execution is; None where the descriptor does not say. Spec: SSP §5.5."""
    return execution_url(endpoint.result_url, execution_id) if endpoint.result_url else None


def _answer_time(endpoint: InvocationEndpoint) -> float:
    """Return the seconds for an answer: a provider may execute the skill before it gives one."""
    seconds = (endpoint.timeout_ms or 0) / 1000 + _MARGIN
    return min(max(seconds, float(limits.HTTP_REQUEST_SECONDS)), float(limits.CALL_ANSWER_SECONDS))


def _preferring(wait: float | None) -> dict[str, str]:
    return {"Prefer": f"wait={int(wait)}"} if wait is not None and wait >= 1 else {}


def _content_type(endpoint: InvocationEndpoint) -> str:
    wanted = (endpoint.content_type or "application/json").strip()
    if not is_json(wanted) or not wanted.isascii():
        message = f"the endpoint wants {ascii(wanted)[1:-1][:80]}, and invocations are written as JSON alone"
        raise ValidationError("DESCRIPTOR", message, place=Place(f"{endpoint.url}#/endpoint/content_type"))
    return wanted


def _with_query(url: str, inputs: Mapping[str, Any]) -> str:
    pairs = "&".join(f"{quote(name, safe='')}={quote(_query_text(value), safe='')}" for name, value in inputs.items())
    if not pairs:
        return url
    return str(parse_url(f"{url}{'&' if '?' in url else '?'}{pairs}"))


def _query_text(value: Any) -> bytes:
    return _bytes_of(value, str) if isinstance(value, str) else _json_bytes(value)


def _json_bytes(value: Any) -> bytes:
    return _bytes_of(value, partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def _bytes_of(value: Any, spell: Callable[[Any], str]) -> bytes:
    try:
        return spell(value).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValidationError("VALIDATION_ERROR", f"the inputs are no JSON: {error}") from None
