"""What a provider answers when a skill is called: bytes to a value that nothing in them can surprise.

An answer is an InvocationResponse, or an error, or, to an invocation, neither: then it is the output itself, which a
provider that needs no time may send **[ours]**. Texts that are shown to people are bounded and without hidden
characters; the output is data and stays as it came.

Spec: SSP §5.4, §8.2; specs §2. Trust: every answer is hostile; nothing but ``DecodeError`` and ``ValidationError``
escapes, and an answer that is an error becomes a value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import FetchError, Place, SkillwireError, ValidationError
from skillwire.protocols.skill_sharing.errors import SPELLINGS, decode_error
from skillwire.protocols.skill_sharing.validation import convert
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.fetch import content_type
from skillwire.wire.pace import retry_after

if TYPE_CHECKING:
    from skillwire.protocols.skill_sharing.messages import ErrorBody, InvocationResponse
    from skillwire.wire.exchange import HttpResponse

_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304
_UNAVAILABLE: Final = 503
#: After these nobody knows whether the request has arrived.
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
    """What came. One of ``response``, ``output`` and ``error`` is there, or none: then nothing has changed.

    Args:
        status: of HTTP.
        error: what the provider says went wrong with the request; the outcome of the execution is in ``response``.
        retry_after: seconds that the server asks to wait; from ``Retry-After``, else from the error's own advice.
        most_retries: how often it may be asked again, where the error says so.
        etag: of the status that was told.
        location: where the status is told, as ``Location`` says.
        waited: whether the server has waited, as ``Prefer: wait`` asked it to.
        takes_keys: whether it says that it takes ``Idempotency-Key``.
        is_put_off: whether the server takes nothing now, and says when it does: 503 with ``Retry-After``.
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
        """Whether the provider says by a reason of ours that asking again does not help."""
        details = self.error.details.get("details") if self.error is not None else None
        return isinstance(details, dict) and details.get("reason") == "not_granted"

    @property
    def may_be_accepted(self) -> bool:
        """Whether a call that was answered so may be under way all the same, as far as nobody knows better.

        A gateway that has lost its server (502, 504) does not know. Who puts a call off has not taken it; a 503 without
        a time says only that something failed, and with ours that is the ledger's commit. Spec: RFC 9110 §15.6.
        """
        return self.status in _UNKNOWN and not self.is_put_off and not self.is_permanent


def read_answer(answer: HttpResponse, *, may_be_output: bool = False, execution_id: str | None = None) -> Answer:
    """Return what an answer says.

    Args:
        answer: as it came.
        may_be_output: whether it may be the output itself: of an invocation or a result, not of a status.
        execution_id: of the execution that was asked for.

    Raises:
        DecodeError: not JSON, where it says that it is.
        ValidationError: ``VALIDATION_ERROR`` for an InvocationResponse that is malformed, ``ID_DIFFERS`` for one of
            another execution.
        FetchError: ``CONTENT_TYPE`` for something else than a status, where one was asked for.
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
        raise FetchError("CONTENT_TYPE", f"{what} came with {answer.status}", place=Place(answer.url))
    return read._replace(output=_read_output(answer, value))


def _read_error(answer: HttpResponse, read: Answer) -> Answer:
    error = decode_error(answer.body, status=answer.status, source=answer.url)
    advice = error.details.get("retry")
    if not isinstance(advice, dict):
        return read._replace(error=error)
    hint = read.retry_after if read.retry_after is not None else advice["suggested_delay_ms"] / 1000
    return read._replace(error=error, retry_after=hint, most_retries=advice["max_attempts"])


def _json_of(answer: HttpResponse) -> Any:
    """Return the JSON value of an answer that says that it is JSON, or may be; UNSET of any other."""
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
        message = f"asked for the execution {execution_id}, the provider tells of another"
        raise ValidationError("ID_DIFFERS", message, place=Place(source))
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
        raise ValidationError("FIELD", message, place=Place(f"{source}#/execution_id"))


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
