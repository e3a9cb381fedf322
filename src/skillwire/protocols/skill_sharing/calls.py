"""Calling a skill: the requests for invocation, status, result and cancellation, and their responses as values.

``POST`` and ``PUT`` carry an InvocationRequest. The protocol does not define how ``GET`` and ``DELETE`` carry inputs;
they go into the query, text unchanged and other values as JSON **[ours]**. ``Idempotency-Key`` and ``Prefer: wait`` are
ours as well; other servers ignore them. A credential is sent in header fields to the URL's origin only, never in a body
and never through a redirect (:mod:`skillwire.wire.fetch`).

A response is an InvocationResponse, an error, or, to an invocation, the output itself **[ours]**. Text for people is
bounded and cleaned of hidden characters; the output is unchanged data. Trust: every response is hostile; only
``DecodeError`` and ``ValidationError`` are raised, and an error response becomes a value.
Spec: SSP §5.3, §5.4, §5.5, §7.2, §7.4, §8.2; specs §2.
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
from skillwire.errors import FetchError, SkillwireError, SourceLocation, UsageError, ValidationError
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.errors import SPELLINGS, decode_error
from skillwire.protocols.skill_sharing.messages import Caller, InvocationContext, InvocationRequest
from skillwire.protocols.skill_sharing.rules import execution_url
from skillwire.protocols.skill_sharing.validation import convert
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import content_type, fetch, is_json
from skillwire.wire.pacing import retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.model.execution import Priority
    from skillwire.protocols.skill_sharing.messages import (
        AuthConfig,
        ErrorBody,
        InvocationEndpoint,
        InvocationResponse,
        SkillDescriptor,
    )
    from skillwire.wire.exchange import Flow, HttpResponse


_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304
_UNAVAILABLE: Final = 503
#: After these it is unknown whether the request has arrived.
_UNKNOWN: Final = frozenset({502, _UNAVAILABLE, 504})
_SUCCESS: Final = range(200, 300)
#: What tells an InvocationResponse from an output that happens to be an object.
_MARKS: Final = ("execution_id", "status", "skill_id")
_MESSAGE_LENGTH: Final = 1000
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}", re.ASCII)
_MOMENT: Final = re.compile(r"[0-9T:.+\-Zz ]{1,40}", re.ASCII)
_TEXT: Final = re.compile(r"text/.*|application/(?:xml|yaml|javascript|toml)|.*\+(?:xml|yaml)", re.ASCII)


class Output(NamedTuple):
    """An output that came without an InvocationResponse: any JSON value, a text, or bytes, by its media type."""

    value: Any
    content_type: str


class Answer(NamedTuple):
    """A response. At most one of ``response``, ``output`` and ``error`` is set; none means that nothing has changed.

    Args:
        status: HTTP status.
        error: about the request; the execution's own failure is in ``response``.
        retry_after: seconds to wait, from ``Retry-After`` or the error's advice.
        most_retries: from the error, if given.
        etag: of the returned status.
        location: of the status, from ``Location``.
        waited: whether the server waited as ``Prefer: wait`` asked.
        takes_keys: whether the server supports ``Idempotency-Key``.
        is_put_off: 503 with ``Retry-After``: the server accepts nothing now.
    """

    status: int
    response: InvocationResponse | None = None
    output: Output | None = None
    error: SkillwireError | None = None
    retry_after: float | None = None
    most_retries: float | None = None
    etag: str | None = None
    location: str | None = None
    waited: bool = False
    takes_keys: bool = False
    is_put_off: bool = False

    @property
    def is_permanent(self) -> bool:
        """Whether one of our reasons shows that repeating the request is useless."""
        details = self.error.details.get("details") if self.error is not None else None
        return isinstance(details, dict) and details.get("reason") == "not_granted"

    @property
    def may_be_accepted(self) -> bool:
        """Whether the call may be running in spite of this response.

        A gateway that lost its server (502, 504) does not know. A 503 without ``Retry-After`` reports a failure, such
        as our ledger's commit; with it, the call was not accepted. Spec: RFC 9110 §15.6.
        """
        return self.status in _UNKNOWN and not self.is_put_off and not self.is_permanent


def read_answer(answer: HttpResponse, *, may_be_output: bool = False, execution_id: str | None = None) -> Answer:
    """Return a response as a value.

    Args:
        answer: the HTTP response.
        may_be_output: whether it may be the output itself: of an invocation or a result, not of a status.
        execution_id: of the requested execution.

    Raises:
        DecodeError: invalid JSON with a JSON content type.
        ValidationError: ``VALIDATION_ERROR`` for a malformed one, ``ID_DIFFERS`` for another execution's.
        FetchError: ``CONTENT_TYPE`` for anything but a status, where a status was requested.
    """
    headers = answer.headers
    read = Answer(
        answer.status,
        retry_after=retry_after(headers),
        is_put_off=answer.status == _UNAVAILABLE and retry_after(headers) is not None,
        etag=headers.get("etag"),
        location=headers.get("location"),
        waited="wait" in headers.get("preference-applied", "").lower(),
    )
    if answer.status == _NOT_MODIFIED:
        return read
    if answer.status not in _SUCCESS:
        return _read_error(answer, read)
    value = _json_of(answer)
    if value is not UNSET and isinstance(value, dict) and all(mark in value for mark in _MARKS):
        return read._replace(response=_read_response(value, answer.url, execution_id))
    if not may_be_output:
        what = "an answer that is not the status of an execution"
        raise FetchError("CONTENT_TYPE", f"{what} came with {answer.status}", place=SourceLocation(answer.url))
    return read._replace(output=_read_output(answer, value))


def _read_error(answer: HttpResponse, read: Answer) -> Answer:
    error = decode_error(answer.body, status=answer.status, source=answer.url)
    advice = error.details.get("retry")
    if not isinstance(advice, dict):
        return read._replace(error=error)
    hint = read.retry_after if read.retry_after is not None else advice["suggested_delay_ms"] / 1000
    return read._replace(error=error, retry_after=hint, most_retries=advice["max_attempts"])


def _json_of(answer: HttpResponse) -> Any:
    """Return the JSON value of a response that is or may be JSON; UNSET for others."""
    found = content_type(answer)
    if not answer.body or not (found == "application/json" or found.endswith("+json")):
        return UNSET
    return load_json(answer.body, max_bytes=limits.CALL_ANSWER_BYTES, source=answer.url)


def _read_output(answer: HttpResponse, value: Any) -> Output:
    found = content_type(answer)
    if value is not UNSET or not answer.body or answer.status == _NO_CONTENT:
        return Output(None if value is UNSET else value, found)
    if _TEXT.fullmatch(found):
        try:
            return Output(answer.body.decode(), found)
        except UnicodeDecodeError:  # of another encoding, which the caller may know
            pass
    return Output(answer.body, found)


def _read_response(value: object, source: str, execution_id: str | None) -> InvocationResponse:
    response: InvocationResponse = convert(value, "InvocationResponse", source=source)
    _check_id(response.execution_id, source)
    if execution_id is not None and response.execution_id != execution_id:
        message = f"asked for the execution {execution_id}, the provider returned another"
        raise ValidationError("ID_DIFFERS", message, place=SourceLocation(source))
    stamps = response.timestamps
    return msgspec.structs.replace(
        response,
        skill_id=neutralise(response.skill_id[:_MESSAGE_LENGTH]),
        error=_harmless(response.error) if response.error else UNSET,
        timestamps=msgspec.structs.replace(
            stamps,
            created_at=_moment(stamps.created_at),
            updated_at=_moment(stamps.updated_at),
            completed_at=_moment(stamps.completed_at) if stamps.completed_at else UNSET,
        ),
    )


def _check_id(execution_id: str, source: str) -> None:
    """Check an id that becomes a part of URLs, of a file and of what people type."""
    is_dots = execution_id in {".", ".."}  # they stay what they are when they are percent-encoded, and climb
    is_plain = bool(execution_id) and execution_id.isprintable() and not is_dots
    if not is_plain or len(execution_id.encode()) > limits.EXECUTION_ID_BYTES:
        message = f"not the id of an execution: {ascii(execution_id)[:80]}"
        raise ValidationError("FIELD", message, place=SourceLocation(f"{source}#/execution_id"))


def _harmless(error: ErrorBody) -> ErrorBody:
    code = SPELLINGS.get(error.code, error.code)
    return msgspec.structs.replace(
        error,
        code=code if _CODE.fullmatch(code) else "EXECUTION_FAILED",
        message=neutralise(error.message[:_MESSAGE_LENGTH]),
    )


def _moment(text: str) -> str:
    """Return a moment as the provider writes it, or nothing where that is no moment."""
    return text if _MOMENT.fullmatch(text) else ""


_BEARER: Final = "Bearer "
_IN_BODY: Final = frozenset({"POST", "PUT"})
_KEY: Final = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?", re.ASCII)
_KEY_FIELD: Final = "idempotency-key"
_REFUSED: Final = 300
_ACCEPT: Final = "application/json, */*;q=0.5"
_MARGIN: Final = 20.0  # seconds that an answer may take beyond what the server was asked to wait


class InvocationOptions(NamedTuple):
    """What accompanies the inputs of a call; ``timeout`` in seconds, None for no limit."""

    caller_id: str
    caller_type: str = "user"
    trace_id: str | None = None
    priority: Priority | None = None
    timeout: float | None = None


def encode_invocation(skill_id: str, inputs: Mapping[str, Any], about: InvocationOptions) -> bytes:
    """Return the InvocationRequest of a call. Spec: SSP §5.3. Raises ValidationError (``VALIDATION_ERROR``)."""
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
    about: InvocationOptions,
    *,
    key: str,
    credential: Mapping[str, str],
    wait: float | None = None,
) -> HttpRequest:
    """Return the request that calls a skill.

    Args:
        descriptor: of the skill, checked.
        inputs: checked, with defaults.
        about: what accompanies the inputs.
        key: idempotency key: the provider executes the call once.
        credential: the header fields that carry it; see :func:`credential_fields`.
        wait: seconds that the provider is asked to wait for the end.

    Raises:
        ValidationError: ``DESCRIPTOR`` for an endpoint that does not take JSON, ``URL`` for inputs too long for one,
            ``VALIDATION_ERROR`` for inputs that JSON cannot express.
        UsageError: ``USAGE`` for an invalid key.
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


def submit(request: HttpRequest) -> Flow[Answer]:
    """Send a request of :func:`invocation`. Raises as the driver and :func:`read_answer` do."""
    response = yield from fetch(request)
    return read_answer(response, may_be_output=True)


def status_headers(url: str) -> Flow[Answer]:
    """Ask an endpoint for its options; only ``status`` and ``takes_keys`` of the answer are set."""
    response = yield from fetch(HttpRequest(url, "OPTIONS", max_bytes=limits.CALL_ANSWER_BYTES))
    fields = response.headers.get("access-control-allow-headers", "").lower().split(",")
    return Answer(response.status, takes_keys=response.status < _REFUSED and _KEY_FIELD in map(str.strip, fields))


def fetch_status(
    url: str,
    credential: Mapping[str, str],
    *,
    execution_id: str | None = None,
    etag: str | None = None,
    wait: float | None = None,
) -> Flow[Answer]:
    """Ask how far an execution is; for something other than ``etag``, for at most ``wait`` seconds, where given."""
    headers = {**credential, "Accept": "application/json", **_preferring(wait)}
    if etag is not None:
        headers["If-None-Match"] = etag
    request = HttpRequest(url, headers=headers, max_bytes=limits.CALL_ANSWER_BYTES, timeout=(wait or 0.0) + _MARGIN)
    response = yield from fetch(request)
    return read_answer(response, execution_id=execution_id)


def fetch_result(url: str, credential: Mapping[str, str], *, execution_id: str | None = None) -> Flow[Answer]:
    """Ask for what an execution gave: an InvocationResponse with it, or, from some providers, the output itself."""
    headers = {**credential, "Accept": _ACCEPT}
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=limits.CALL_ANSWER_BYTES))
    return read_answer(response, may_be_output=True, execution_id=execution_id)


def cancel(url: str, credential: Mapping[str, str], *, execution_id: str | None = None) -> Flow[Answer]:
    """Cancel an execution by ``DELETE`` of its status **[ours]**; the answer shows how it ended."""
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
    """Return the status URL of an execution; None when the descriptor has none. Spec: SSP §5.5."""
    return execution_url(endpoint.status_url, execution_id) if endpoint.status_url else None


def result_url(endpoint: InvocationEndpoint, execution_id: str) -> str | None:
    """Return the result URL of an execution; None when the descriptor has none. Spec: SSP §5.5."""
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
        raise ValidationError("DESCRIPTOR", message, place=SourceLocation(f"{endpoint.url}#/endpoint/content_type"))
    return wanted


def _with_query(url: str, inputs: Mapping[str, Any]) -> str:
    encoded = {
        name: _bytes_of(value, str) if isinstance(value, str) else _json_bytes(value) for name, value in inputs.items()
    }
    pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in encoded.items())
    if not pairs:
        return url
    return str(parse_url(f"{url}{'&' if '?' in url else '?'}{pairs}"))


def _json_bytes(value: Any) -> bytes:
    return _bytes_of(value, partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def _bytes_of(value: Any, spell: Callable[[Any], str]) -> bytes:
    try:
        return spell(value).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValidationError("VALIDATION_ERROR", f"the inputs are no JSON: {error}") from None
