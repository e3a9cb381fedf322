"""Errors of Skill Sharing: seven codes, one form, both spellings read.

:data:`ERRORS` is the protocol's table. :func:`code_for` finds a row for every error of ours, by its kind if it has none
of its own. Spec: SSP §8; specs §2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import (
    ConflictError,
    DecodeError,
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    StorageError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.protocols.skill_sharing.messages import ErrorBody, RetryAdvice
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise


class ErrorRow(NamedTuple):
    """One category: its statuses, ours first, the error that a client raises, and the retry advice."""

    statuses: tuple[int, ...]
    raised: type[SkillwireError]
    meaning: str
    retry: RetryAdvice | None = None


def _advice(pause: int, attempts: int) -> RetryAdvice:
    return RetryAdvice(suggested_delay_ms=pause, max_attempts=attempts)


#: Code → row. Spec: SSP §8.1; the advice is that of §8.3.
ERRORS: Final[dict[str, ErrorRow]] = {
    "VALIDATION_ERROR": ErrorRow((422, 400), ValidationError, "The document does not fit the schema."),
    "AUTH_REQUIRED": ErrorRow((401,), FetchError, "Valid credentials were not provided.", _advice(0, 1)),
    "PERMISSION_DENIED": ErrorRow((403,), FetchError, "The credentials are valid and do not suffice."),
    "SKILL_NOT_FOUND": ErrorRow((404, 410), NotFoundError, "There is no such skill."),
    "INVOCATION_TIMEOUT": ErrorRow((504, 408), FetchError, "The execution took too long.", _advice(1000, 3)),
    "ENDPOINT_UNREACHABLE": ErrorRow((503, 502), FetchError, "The endpoint could not be reached.", _advice(2000, 3)),
    "VERSION_INCOMPATIBLE": ErrorRow((422,), ValidationError, "The protocol's versions do not fit together."),
}
#: Other spellings of a code, such as the blueprint's. Spec: specs §2.
SPELLINGS: Final = {"EXECUTION_TIMEOUT": "INVOCATION_TIMEOUT"}

_BY_CLASS: Final[dict[type[SkillwireError], str]] = {
    NotFoundError: "SKILL_NOT_FOUND",
    FetchError: "ENDPOINT_UNREACHABLE",
    StorageError: "ENDPOINT_UNREACHABLE",
    TrustError: "PERMISSION_DENIED",
    UsageError: "VALIDATION_ERROR",
    DecodeError: "VALIDATION_ERROR",
    ValidationError: "VALIDATION_ERROR",
    ConflictError: "VALIDATION_ERROR",
    SkillwireError: "ENDPOINT_UNREACHABLE",
}
_SHOWN: Final = 500


def code_for(error: SkillwireError) -> str:
    """Return the protocol's code for an error of ours."""
    if error.code in ERRORS:
        return error.code
    return next(_BY_CLASS[kind] for kind in type(error).__mro__ if kind in _BY_CLASS)


def error_body(
    code: str, message: str, details: object = UNSET, retry: RetryAdvice | None = None
) -> Mapping[str, ErrorBody]:
    """Return an error in the unified form, with the row's retry advice by default. Spec: SSP §8.2."""
    advice = retry or ERRORS[code].retry
    return {"error": ErrorBody(code=code, message=message, details=details, retry=advice or UNSET)}


def encode_error(error: SkillwireError) -> tuple[int, bytes]:
    """Return the status and body of an error."""
    code = code_for(error)
    return ERRORS[code].statuses[0], msgspec.json.encode(error_body(code, error.message, details_of(error, code)))


def details_of(error: SkillwireError, code: str) -> Any:
    """Return the details of an error with this code: its facts, or a list of violations. Spec: SSP §8.3.1."""
    facts = {name: fact for name, fact in error.details.items() if name != "retry_after"}
    if code != "VALIDATION_ERROR":
        return facts or UNSET
    expected = "an InvocationRequest, as JSON" if isinstance(error, DecodeError) else None
    one = {"path": "", "message": error.message, "expected": expected, "actual": None, **facts}
    return facts.get("errors", [one])


def decode_error(data: bytes, *, status: int, source: str) -> SkillwireError:
    """Return the error in a provider's response, or one by its status.

    Trust: hostile. Texts are bounded and cleaned of hidden characters; the body never makes this raise.
    """
    try:
        document = load_json(data, max_bytes=limits.DESCRIPTOR_BYTES, source=source)
    except DecodeError:  # a proxy's page or no body: the status is used
        document = None
    found = document.get("error") if isinstance(document, dict) else None
    error: Mapping[str, Any] = found if isinstance(found, dict) else {}
    code = error.get("code")
    code = SPELLINGS.get(code, code) if isinstance(code, str) else None
    if code not in ERRORS:
        code = next((code for code, row in ERRORS.items() if status in row.statuses), "ENDPOINT_UNREACHABLE")
    message = error.get("message")
    text = neutralise(message[:_SHOWN]) if isinstance(message, str) and message else ERRORS[code].meaning
    details = {"status": status, "details": read_details(error.get("details")), "retry": _retry(error.get("retry"))}
    return ERRORS[code].raised(code, text, place=SourceLocation(source), details=details)


def read_details(details: object) -> object:
    """Return the details; the blueprint's list of violations as the specification writes it."""
    violations = details.get("violations") if isinstance(details, dict) else None
    if not isinstance(violations, list):
        return details
    return [
        {
            "path": one.get("field"),
            "message": "is not valid",
            **{key: one.get(key) for key in ("expected", "actual")},
        }
        for one in violations
        if isinstance(one, dict)
    ]


def _retry(advice: object) -> dict[str, float] | None:
    if not isinstance(advice, dict):
        return None
    numbers = {key: advice[key] for key in ("suggested_delay_ms", "max_attempts") if key in advice}
    fits = all(type(value) in {int, float} and value >= 0 for value in numbers.values())
    return numbers if fits else None
