"""How it is told that a call was not accepted, or a question about one not answered.

Each error of ours has one of the protocol's seven codes; :data:`ROWS` holds those that HTTP has a status of its own
for. What failed inside is told as a failure and no more: the log has the rest. Spec: SSP §8.1, §8.2, §8.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import structlog
from msgspec import UNSET

from skillwire.errors import DecodeError, StorageError, UsageError
from skillwire.protocols.skill_sharing.errors import ERRORS, code_for, error_body
from skillwire.protocols.skill_sharing.messages import RetryAdvice
from skillwire.server.problems import Problem

if TYPE_CHECKING:
    from skillwire.errors import SkillwireError

_MS: Final = 1000
_ATTEMPTS: Final = 3


class Row(NamedTuple):
    """The status and the protocol's code that tell an error; ``reason`` is what the details say of it."""

    status: int
    code: str
    reason: str = ""


#: Our code → row. An error that is not here has the first status of the protocol's row for it.
ROWS: Final[dict[str, Row]] = {
    "LIMIT_SIZE": Row(413, "VALIDATION_ERROR"),
    "MEDIA_TYPE": Row(415, "VALIDATION_ERROR"),
    "TOO_MANY_EXECUTIONS": Row(429, "ENDPOINT_UNREACHABLE", "too_many_executions"),
    "PAGE_REFUSED": Row(403, "PERMISSION_DENIED", "page_refused"),
    "DATABASE": Row(503, "ENDPOINT_UNREACHABLE", "storage"),
}


def problem_of(error: SkillwireError) -> Problem:
    """Return the answer that tells an error."""
    if isinstance(error, StorageError):
        structlog.get_logger("skillwire.executions").error("the ledger failed", error=str(error))
        error = StorageError(error.code, "The server cannot keep or read executions at the moment")
    row, pause = row_of(error), error.details.get("retry_after")
    advice, fields = None, {}
    if isinstance(pause, int):
        advice = RetryAdvice(suggested_delay_ms=pause * _MS, max_attempts=_ATTEMPTS)
        fields = {"Retry-After": str(pause)}
    written = msgspec.json.encode(error_body(row.code, error.message, _details(error, row), advice))
    return Problem(row.status, row.code, error.message, fields=fields, written=written)


def row_of(error: SkillwireError) -> Row:
    """Return how an error is told; there is a way for every error of ours."""
    code = code_for(error)
    return ROWS.get(error.code) or Row(400 if isinstance(error, UsageError) else ERRORS[code].statuses[0], code)


def _details(error: SkillwireError, row: Row) -> Any:
    """Return the list of what is wrong with a request, or else the facts. Spec: SSP §8.3.1."""
    if isinstance(error, DecodeError):
        return [{"path": "", "message": error.message, "expected": "an InvocationRequest, as JSON", "actual": None}]
    if row.code == "VALIDATION_ERROR" and "errors" in error.details:
        return error.details["errors"]
    facts = {name: fact for name, fact in error.details.items() if name != "retry_after"}
    return {**facts, "reason": row.reason} if row.reason else facts or UNSET
