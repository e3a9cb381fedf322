"""Errors of the Skills Protocol: the codes of JSON-RPC, and six of ours.

:data:`ERRORS` lists the numbers, :data:`NUMBERS` maps our error codes to them; :func:`number_of` finds a number for
every error, by its kind if its code has no row. ``data`` adds our code, the place, the fix and whether a retry may
help. The client is a program, so a fix is sent only if the error or :data:`FIXES` has one; the advice of
:data:`skillwire.codes.CODES` is for people at a terminal. A failed execution is not an error but a result with
``status`` ``failed``. Spec: JSON-RPC 2.0 §5.1; specs §4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from skillwire.codes import CODES
from skillwire.errors import (
    ConflictError,
    DecodeError,
    FetchError,
    NotFoundError,
    PendingError,
    SkillwireError,
    SourceLocation,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.trust.hidden_text import neutralise

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SKILL_NOT_FOUND: Final = -32001
FILE_NOT_FOUND: Final = -32002
PATH_REFUSED: Final = -32003
PERMISSION_DENIED: Final = -32004
RUN_PENDING: Final = -32005
TOO_MANY_RUNS: Final = -32006

#: Number → what it means, as each message begins.
ERRORS: Final[dict[int, str]] = {
    PARSE_ERROR: "Parse error",
    INVALID_REQUEST: "Invalid Request",
    METHOD_NOT_FOUND: "Method not found",
    INVALID_PARAMS: "Invalid params",
    INTERNAL_ERROR: "Internal error",
    SKILL_NOT_FOUND: "Skill not found",
    FILE_NOT_FOUND: "File not found",
    PATH_REFUSED: "Path refused",
    PERMISSION_DENIED: "Permission denied",
    RUN_PENDING: "Run goes on",
    TOO_MANY_RUNS: "Too many runs",
}
#: Code of ours → number. JSON that we cannot read is what the request was; every other document is a parameter.
NUMBERS: Final[dict[str, int]] = {
    code: number
    for number, codes in {
        PARSE_ERROR: "JSON_SYNTAX JSON_UNICODE JSON_DEPTH JSON_DUPLICATE_KEY JSON_NUMBER",
        INVALID_REQUEST: "RPC_REQUEST",
        METHOD_NOT_FOUND: "RPC_METHOD",
        SKILL_NOT_FOUND: "SKILL_NOT_FOUND",
        FILE_NOT_FOUND: "FILE_NOT_FOUND BLOB_NOT_FOUND",
        PATH_REFUSED: "PATH_TRAVERSAL PATH_ABSOLUTE PATH_WINDOWS PATH_INVALID PATH_TOO_LONG PATH_TOO_DEEP "
        "PATH_FORBIDDEN PATH_COLLISION",
        PERMISSION_DENIED: "PERMISSION_DENIED AUTH_REQUIRED ACCESS_DENIED BLOB_ROOM",
        RUN_PENDING: "RUN_PENDING",
        TOO_MANY_RUNS: "TOO_MANY_EXECUTIONS",
    }.items()
    for code in codes.split()
}
_WELL_FORMED: Final = "Send a JSON document in UTF-8, as RFC 8259 has it."
#: Code of ours → the fix for a client of the protocol, where the error itself has none.
FIXES: Final[dict[str, str]] = {
    "JSON_SYNTAX": _WELL_FORMED,
    "JSON_UNICODE": _WELL_FORMED,
    "JSON_DEPTH": "Nest arrays and objects less deeply.",
    "JSON_DUPLICATE_KEY": "Write each name once in an object.",
    "JSON_NUMBER": "Write numbers that are so large as texts.",
    "SKILL_NOT_FOUND": "List the skills with list_skills.",
    "PERMISSION_DENIED": "Send a credential that this was opened to, or do without it.",
    "AUTH_REQUIRED": "Send a credential with the request, such as an API key in X-API-Key.",
    "VALIDATION_ERROR": "Change the input that the message names; describe_skill lists a skill's inputs.",
    "TOO_MANY_EXECUTIONS": "Wait until others have ended, and call again.",
    "RUN_PENDING": "Do not call it again, or it runs twice. GET /executions/ID of the server shows its status.",
    "PAGE_REFUSED": "Send a credential, or have the server's operator list the page's origin in origins below [rpc].",
    "BLOB_NOT_FOUND": "Make it with create_blob, and give the blob_id that it returns.",
    "BLOB_KIND": "Write it as type/subtype; application/octet-stream fits everything.",
    "BLOB_ROOM": "Wait until other blobs have expired, and send it again.",
    "STORAGE": "Call again later.",
    "DATABASE": "Call again later.",
}
_BY_KIND: Final[dict[type[SkillwireError], int]] = {
    UsageError: INVALID_PARAMS,
    DecodeError: INVALID_PARAMS,
    ValidationError: INVALID_PARAMS,
    ConflictError: INVALID_PARAMS,
    NotFoundError: FILE_NOT_FOUND,
    TrustError: PERMISSION_DENIED,
    PendingError: RUN_PENDING,
    SkillwireError: INTERNAL_ERROR,
}
#: Number → the error that a client raises, unless ``data`` names a code of ours that has this number.
_RAISED: Final[dict[int, tuple[type[SkillwireError], str]]] = {
    PARSE_ERROR: (ValidationError, "RPC_REQUEST"),
    INVALID_REQUEST: (ValidationError, "RPC_REQUEST"),
    METHOD_NOT_FOUND: (NotFoundError, "RPC_METHOD"),
    INVALID_PARAMS: (ValidationError, "RPC_PARAMS"),
    INTERNAL_ERROR: (FetchError, "ENDPOINT_UNREACHABLE"),
    SKILL_NOT_FOUND: (NotFoundError, "SKILL_NOT_FOUND"),
    FILE_NOT_FOUND: (NotFoundError, "FILE_NOT_FOUND"),
    PATH_REFUSED: (TrustError, "PATH_INVALID"),
    PERMISSION_DENIED: (FetchError, "PERMISSION_DENIED"),
    RUN_PENDING: (PendingError, "RUN_PENDING"),
    TOO_MANY_RUNS: (ConflictError, "TOO_MANY_EXECUTIONS"),
}
_CLOSER: Final[dict[str, type[SkillwireError]]] = {
    **{code: TrustError for code, number in NUMBERS.items() if number == PATH_REFUSED},
    "BLOB_NOT_FOUND": NotFoundError,
    "AUTH_REQUIRED": FetchError,
    "BLOB_ROOM": ConflictError,
}
#: Exit code → the error that a client raises for a code of ours about parameters, such as ``CURSOR``.
_OF_PARAMS: Final[dict[int | None, type[SkillwireError]]] = {
    kind.exit_code: kind for kind in (ValidationError, UsageError, ConflictError)
}
_SHOWN: Final = 500
_DATA_BYTES: Final = 4096


def number_of(error: SkillwireError) -> int:
    """Return the number of an error."""
    if error.code in NUMBERS:
        return NUMBERS[error.code]
    return next(_BY_KIND[kind] for kind in type(error).__mro__ if kind in _BY_KIND)


def fix_of(error: SkillwireError) -> str | None:
    """Return the fix for a client of the protocol, or None."""
    return error.fix or FIXES.get(error.code)


def error_object(error: SkillwireError) -> dict[str, Any]:
    """Return the ``error`` of an answer; ``data`` has our code, fix, place and details. Spec: JSON-RPC §5.1."""
    number, shown, fix = number_of(error), error.diagnostics(), fix_of(error)
    is_retryable = shown.retryable and number != RUN_PENDING  # it would run twice
    data: dict[str, Any] = {"code": shown.code, **({"fix": fix} if fix else {}), "retryable": is_retryable}
    if shown.place is not None:
        data["place"] = str(shown.place)
    if shown.details:
        data["details"] = dict(shown.details)
    return {"code": number, "message": f"{ERRORS[number]}: {shown.message}", "data": data}


def raised_error(error: Mapping[str, Any], source: str) -> SkillwireError:
    """Return the error in a server's ``error`` member; ``source`` is the endpoint's URL.

    Trust: hostile. Texts are bounded and cleaned of hidden characters; this never raises.
    """
    number = error.get("code")
    known = number if isinstance(number, int) and number in ERRORS else INTERNAL_ERROR
    kind, code = _RAISED[known]
    data = error.get("data")
    data = data if isinstance(data, dict) else {}
    closer = data.get("code")
    if isinstance(closer, str) and (fitting := _closer_kind(closer, known)) is not None:
        kind, code = fitting, closer
    message, where = _text(error.get("message")), _text(data.get("place"))
    return kind(
        code,
        message.removeprefix(f"{ERRORS[known]}: ") or ERRORS[known],  # the code says that much
        place=SourceLocation(f"{source}#{where}" if where.startswith("/") else source),
        fix=_text(data.get("fix")) or None,
        details={
            "rpc_code": number if isinstance(number, int) else None,
            "data": data if len(msgspec.json.encode(data)) <= _DATA_BYTES else {},
        },
    )


def _closer_kind(code: str, number: int) -> type[SkillwireError] | None:
    """Return the error class of ``code`` if it is more specific than that of ``number``."""
    if code in _CLOSER:
        return _CLOSER[code] if NUMBERS[code] == number else None
    if number != INVALID_PARAMS or code in NUMBERS or code not in CODES:
        return None
    return _OF_PARAMS.get(CODES[code].exit_code)


def _text(value: object) -> str:
    return neutralise(value[:_SHOWN]) if isinstance(value, str) else ""
