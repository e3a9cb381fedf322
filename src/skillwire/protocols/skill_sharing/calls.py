"""Calling a skill: the requests for invocation, status, result and cancellation, and their responses as values.

``POST`` and ``PUT`` carry an InvocationRequest. The protocol does not define how ``GET`` and ``DELETE`` carry inputs;
they go into the query, text unchanged and other values as JSON **[extension]**. Other servers ignore
``Idempotency-Key`` and ``Prefer: wait``, which are extensions as well. A credential is sent in header fields to the
URL's origin only, never in a body and never through a redirect (:mod:`skillwire.wire.fetch`).

A response is an InvocationResponse, an error, or, to an invocation, the output itself **[extension]**. Text for people
is bounded and cleaned of hidden characters; the output is unchanged data. Trust: every response is hostile; only
``DecodeError`` and ``ValidationError`` are raised, and an error response becomes a value.
Spec: SSP §5.3, §5.4, §5.5, §7.2, §7.4, §8.2; specs §2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation, UsageError, ValidationError
from skillwire.model.execution import Priority
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.codec import execution_url
from skillwire.protocols.skill_sharing.errors import SPELLINGS, decode_error, read_details
from skillwire.protocols.skill_sharing.messages import (
    AuthConfig,
    Caller,
    InvocationContext,
    InvocationEndpoint,
    InvocationRequest,
    InvocationResponse,
    SkillDescriptor,
)
from skillwire.protocols.skill_sharing.validation import convert
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse
from skillwire.wire.fetch import content_type, fetch, is_json
from skillwire.wire.pacing import retry_after

_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304
_UNAVAILABLE: Final = 503
#: What file servers answer to a POST, and providers only with an error in JSON.
_NO_CALLS: Final = frozenset({404, 405, 501})
#: After these the request may or may not have arrived.
_UNKNOWN: Final = frozenset({502, _UNAVAILABLE, 504})
_SUCCESS: Final = range(200, 300)
#: The fields that distinguish an InvocationResponse from an output that is an object.
_MARKS: Final = ("execution_id", "status", "skill_id")
_MESSAGE_LENGTH: Final = 1000
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}", re.ASCII)
_MOMENT: Final = re.compile(r"[0-9T:.+\-Zz ]{1,40}", re.ASCII)
_TEXT: Final = re.compile(r"text/.*|application/(?:xml|yaml|javascript|toml)|.*\+(?:xml|yaml)", re.ASCII)
_json: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_BEARER: Final = "Bearer "
_IN_BODY: Final = frozenset({"POST", "PUT"})
_KEY: Final = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?", re.ASCII)
_REFUSED: Final = 300
_ACCEPT: Final = "application/json, */*;q=0.5"
_MARGIN: Final = 20.0  # seconds that an answer may take beyond the time that the server was asked to wait


class Output(NamedTuple):
    """An output without an InvocationResponse: any JSON value, a text, or bytes, by its media type."""

    value: Any
    content_type: str


class Answer(NamedTuple):
    """A response. At most one of ``response``, ``output`` and ``error`` is set; none means that nothing has changed.

    Args:
        error: about the request; the execution's own failure is in ``response``.
        retry_after: seconds to wait, from ``Retry-After`` or the error's advice.
        waited: whether the server waited as ``Prefer: wait`` asked.
        takes_keys: whether the server supports ``Idempotency-Key``.
        is_put_off: 503 with ``Retry-After``: the server accepts nothing now.
        is_of_files: a refusal as of a static site, whose server has files only.
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
    is_of_files: bool = False

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


def read_answer(
    answer: HttpResponse, *, may_be_output: bool = False, execution_id: str | None = None, skill_id: str | None = None
) -> Answer:
    """Return a response as a value; ``may_be_output`` for an invocation or a result, not for a status.

    Raises DecodeError, ValidationError (``ID_DIFFERS`` for another execution's or another skill's), FetchError
    (``CONTENT_TYPE``).
    """
    headers = answer.headers
    read = Answer(
        answer.status,
        retry_after=retry_after(headers),
        is_put_off=answer.status == _UNAVAILABLE and retry_after(headers) is not None,
        is_of_files=answer.status in _NO_CALLS and not is_json(content_type(answer)),
        etag=headers.get("etag"),
        location=headers.get("location"),
        waited="wait" in headers.get("preference-applied", "").lower(),
    )
    if answer.status == _NOT_MODIFIED:
        return read
    if answer.status not in _SUCCESS:
        error = decode_error(answer.body, status=answer.status, source=answer.url)
        advice = error.details.get("retry")
        if not isinstance(advice, dict):
            return read._replace(error=error)
        hint, delay = read.retry_after, advice.get("suggested_delay_ms")  # the blueprint lets either field be absent
        hint = delay / 1000 if hint is None and delay is not None else hint
        return read._replace(error=error, retry_after=hint, most_retries=advice.get("max_attempts"))
    found = content_type(answer)
    value: Any = UNSET
    if answer.body and (found == "application/json" or found.endswith("+json")):
        value = load_json(answer.body, max_bytes=limits.CALL_ANSWER_BYTES, source=answer.url)
    if value is not UNSET and isinstance(value, dict) and all(mark in value for mark in _MARKS):
        return read._replace(response=_read_response(value, answer.url, execution_id, skill_id))
    if not may_be_output:
        message = f"the answer with status {answer.status} is not the status of an execution"
        raise FetchError("CONTENT_TYPE", message, place=SourceLocation(answer.url))
    if value is UNSET:
        value = _read_output(answer, found)
    return read._replace(output=Output(value, found))


def _read_output(answer: HttpResponse, media_type: str) -> str | bytes | None:
    if not answer.body or answer.status == _NO_CONTENT:
        return None
    if _TEXT.fullmatch(media_type):
        with suppress(UnicodeDecodeError):  # in another encoding, which the caller may know
            return answer.body.decode()
    return answer.body


def _read_response(value: object, source: str, execution_id: str | None, skill_id: str | None) -> InvocationResponse:
    match value:
        case {"error": {"retry": dict(retry), **failure}, **rest}:  # the blueprint lets either field be absent
            if "suggested_delay_ms" in retry:
                failure["retry"] = {"max_attempts": 0, **retry}
            value = {**rest, "error": failure}
    response: InvocationResponse = convert(value, "InvocationResponse", source=source)
    found = response.execution_id  # it becomes a part of URLs, of a file and of what people type
    is_dots = found in {".", ".."}  # percent-encoding does not change them, and they lead up
    if not found or not found.isprintable() or is_dots or len(found.encode()) > limits.EXECUTION_ID_BYTES:
        message = f"not the id of an execution: {ascii(found)[:80]}"
        raise ValidationError("FIELD", message, place=SourceLocation(f"{source}#/execution_id"))
    if execution_id is not None and response.execution_id != execution_id:
        message = f"asked for the execution {execution_id}, the provider returned another"
        raise ValidationError("ID_DIFFERS", message, place=SourceLocation(source))
    if skill_id and response.skill_id != skill_id:
        message = f"called the skill {skill_id}, the provider answered for {neutralise(response.skill_id[:80])}"
        raise ValidationError("ID_DIFFERS", message, place=SourceLocation(f"{source}#/skill_id"))
    stamps, error = response.timestamps, response.error
    if error:
        code = SPELLINGS.get(error.code, error.code)
        code = code if _CODE.fullmatch(code) else "EXECUTION_FAILED"
        message, details = neutralise(error.message[:_MESSAGE_LENGTH]), read_details(error.details)
        error = msgspec.structs.replace(error, code=code, message=message, details=details)
    return msgspec.structs.replace(
        response,
        skill_id=neutralise(response.skill_id[:_MESSAGE_LENGTH]),
        error=error,
        timestamps=msgspec.structs.replace(
            stamps,
            created_at=_moment(stamps.created_at),
            updated_at=_moment(stamps.updated_at),
            completed_at=_moment(stamps.completed_at) if stamps.completed_at else UNSET,
        ),
    )


def _moment(text: str) -> str:
    return text if _MOMENT.fullmatch(text) else ""


class InvocationOptions(NamedTuple):
    """The other parts of a call than its inputs; ``timeout`` in seconds, None for no limit."""

    caller_id: str
    caller_type: str = "user"
    trace_id: str | None = None
    priority: Priority | None = None
    timeout: float | None = None


def encode_invocation(skill_id: str, inputs: Mapping[str, Any], about: InvocationOptions) -> bytes:
    """Return the InvocationRequest of a call. Spec: SSP §5.3. Raises ValidationError (``VALIDATION_ERROR``)."""
    context = InvocationContext(
        trace_id=UNSET if about.trace_id is None else about.trace_id,
        priority=UNSET if about.priority is None else about.priority,
        timeout_ms=UNSET if about.timeout is None else round(about.timeout * 1000),
    )
    request = InvocationRequest(
        caller=Caller(id=about.caller_id, type=about.caller_type),
        skill_id=skill_id,
        inputs={},
        context=UNSET if context == InvocationContext() else context,
    )
    return _encode({**msgspec.to_builtins(request), "inputs": dict(inputs)})


def invocation(
    descriptor: SkillDescriptor,
    inputs: Mapping[str, Any],
    about: InvocationOptions,
    *,
    key: str,
    credential: Mapping[str, str],
    wait: float | None = None,
) -> HttpRequest:
    """Return the request that calls a skill, of a checked descriptor with checked inputs.

    The provider executes calls with one idempotency ``key`` once, and is asked to wait ``wait`` seconds for the end.
    ``credential`` is of :func:`credential_fields`.

    Raises:
        ValidationError: ``DESCRIPTOR`` for an endpoint that does not take JSON, ``URL`` for inputs too long for one,
            ``VALIDATION_ERROR`` for inputs that JSON cannot express. UsageError: ``USAGE`` for an invalid key.
    """
    if not _KEY.fullmatch(key):
        raise UsageError("USAGE", f"an idempotency key has 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable characters")
    endpoint = descriptor.endpoint
    headers = {**credential, "Accept": _ACCEPT, "Idempotency-Key": key, **_preferring(wait)}
    url, body = endpoint.url, None
    if endpoint.method in _IN_BODY:
        wanted = (endpoint.content_type or "application/json").strip()
        if not is_json(wanted) or not wanted.isascii():
            message = f"the endpoint takes {ascii(wanted)[1:-1][:80]}, and invocations are JSON"
            raise ValidationError("DESCRIPTOR", message, place=SourceLocation(f"{endpoint.url}#/endpoint/content_type"))
        headers["Content-Type"] = wanted
        body = encode_invocation(descriptor.id, inputs, about)
    else:
        pairs = "&".join(f"{quote(name, safe='')}={quote(_encode(value), safe='')}" for name, value in inputs.items())
        url = str(parse_url(f"{url}{'&' if '?' in url else '?'}{pairs}")) if pairs else url
    # A provider may execute the skill before it answers.
    seconds = max((endpoint.timeout_ms or 0) / 1000 + _MARGIN, float(limits.HTTP_REQUEST_SECONDS))
    timeout = min(seconds, float(limits.CALL_ANSWER_SECONDS)) + (wait or 0.0)
    return HttpRequest(url, str(endpoint.method), headers, body, max_bytes=limits.CALL_ANSWER_BYTES, timeout=timeout)


def submit(request: HttpRequest, skill_id: str) -> Flow[Answer]:
    """Send a request of :func:`invocation`. Raises as the driver and :func:`read_answer` do."""
    response = yield from fetch(request)
    return read_answer(response, may_be_output=True, skill_id=skill_id)


def status_headers(url: str) -> Flow[Answer]:
    """Ask an endpoint for its options; only ``status`` and ``takes_keys`` of the answer are set."""
    response = yield from fetch(HttpRequest(url, "OPTIONS", max_bytes=limits.CALL_ANSWER_BYTES))
    fields = response.headers.get("access-control-allow-headers", "").lower().split(",")
    takes_keys = response.status < _REFUSED and "idempotency-key" in map(str.strip, fields)
    return Answer(response.status, takes_keys=takes_keys)


def fetch_status(
    url: str,
    credential: Mapping[str, str],
    *,
    execution_id: str | None = None,
    skill_id: str | None = None,
    method: str = "GET",
    etag: str | None = None,
    wait: float | None = None,
) -> Flow[Answer]:
    """Fetch an execution's status; the provider may wait up to ``wait`` seconds for one other than ``etag``."""
    headers = {**credential, "Accept": "application/json", **_preferring(wait)}
    if etag is not None:
        headers["If-None-Match"] = etag
    timeout = (wait or 0.0) + _MARGIN
    request = HttpRequest(url, method, headers, max_bytes=limits.CALL_ANSWER_BYTES, timeout=timeout)
    response = yield from fetch(request)
    return read_answer(response, execution_id=execution_id, skill_id=skill_id)


#: Cancels an execution **[extension]**; the answer shows how it ended.
cancel: Final = partial(fetch_status, method="DELETE")


def fetch_result(
    url: str, credential: Mapping[str, str], *, execution_id: str | None = None, skill_id: str | None = None
) -> Flow[Answer]:
    """Fetch an execution's result: an InvocationResponse with it, or, from some providers, the output itself."""
    headers = {**credential, "Accept": _ACCEPT}
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=limits.CALL_ANSWER_BYTES))
    return read_answer(response, may_be_output=True, execution_id=execution_id, skill_id=skill_id)


def credential_fields(authorization: str | None, header: str | None = None) -> dict[str, str]:
    """Return the header fields of a credential; ``header`` is the descriptor's for an API key. Spec: SSP §7.2.1.

    ``authorization`` is the value of ``Authorization``, or the mark of a stored credential.
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


def _preferring(wait: float | None) -> dict[str, str]:
    return {"Prefer": f"wait={int(wait)}"} if wait is not None and wait >= 1 else {}


def _encode(value: Any) -> bytes:
    """Return a text unchanged, and another value as JSON."""
    try:
        text = value if isinstance(value, str) else _json.encode(value)
        return text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValidationError("VALIDATION_ERROR", f"the inputs are no JSON: {error}") from None
