"""How an execution is shown: its JSON, its instants, and its name in logs. Spec: SSP §5.4, §8.

The ID of an anonymous caller's execution is the caller's secret: it is enough to follow and to cancel the execution,
and more people read logs than may read executions. So a log shows the beginning of an ID, which finds the execution
and leaves 96 random bits to guess.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET

from skillwire.model.execution import Execution, ExecutionStatus, Failure
from skillwire.protocols.skill_sharing.errors import ERRORS
from skillwire.protocols.skill_sharing.messages import ErrorBody, InvocationResponse, Timestamps


def format_timestamp(instant: float) -> str:
    """Return ``2025-07-01T12:00:00Z`` for seconds since the epoch."""
    seconds, milliseconds = divmod(round(instant * 1000), 1000)
    return f"{_second(seconds)}.{milliseconds:03}Z" if milliseconds else f"{_second(seconds)}Z"


@lru_cache(maxsize=64)  # most are of these seconds
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


_SECRET: Final = 24  # hexadecimal digits
_ID: Final = re.compile(rf"(exec-(?:[0-9a-f]{{12}})?[0-9a-f]{{8}})[0-9a-f]{{{_SECRET}}}")


def without_ids(text: str) -> str:
    """Return a text, such as an ID, with each ID in it shortened to what logs may show."""
    return _ID.sub(r"\1", text) if "exec-" in text else text


#: An instant in seconds since the epoch, until the year 9999.
_Instant = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]


class ListedExecution(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a list of executions."""

    execution_id: Annotated[str, "ID"]
    skill: Annotated[str, "Skill"]
    version: Annotated[str, "Version"]
    status: Annotated[ExecutionStatus, "Status"]
    executor: Annotated[str, "What runs it"]
    caller: Annotated[str, "Caller, as the server knows it"]
    created: Annotated[_Instant, "Time of acceptance, seconds since the epoch"]
    updated: Annotated[_Instant, "Time of the last change"]
    completed: Annotated[_Instant | None, "Time of the end; null before it"]


class ExecutionList(msgspec.Struct, forbid_unknown_fields=True):
    """The newest executions, and the number of all by status."""

    at: _Instant
    counts: dict[ExecutionStatus, int]
    executions: list[ListedExecution]


def list_executions(
    executions: Iterable[Execution], counts: Mapping[ExecutionStatus, int], now: float
) -> ExecutionList:
    """Return executions as a list for programs; inputs, outputs and failures are not in it."""
    fields = ListedExecution.__struct_fields__
    rows = [ListedExecution(**{name: getattr(one, name) for name in fields}) for one in executions]
    return ExecutionList(now, dict(counts), rows)


#: Stands for an output; no JSON text has it.
_PLACE: Final = b"\0"
_encoder: Final = msgspec.json.Encoder()


def encode_execution(execution: Execution, output: bytes | None = None) -> bytes:
    """Return an execution as the protocol writes it; ``output`` is what it gave, JSON as bytes."""
    return _encoder.encode(
        InvocationResponse(
            execution_id=execution.execution_id,
            status=execution.status,
            skill_id=execution.skill_id,
            output=UNSET if output is None else msgspec.Raw(output),
            error=_error(execution.failure) if execution.failure else UNSET,
            timestamps=Timestamps(
                created_at=format_timestamp(execution.created),
                updated_at=format_timestamp(execution.updated),
                completed_at=UNSET if execution.completed is None else format_timestamp(execution.completed),
            ),
        )
    )


def frame_of(execution: Execution) -> tuple[bytes, bytes]:
    """Return what stands before the output of an execution that completed, and behind it: see encode_execution."""
    head, _, tail = encode_execution(execution, _PLACE).partition(_PLACE)
    return head, tail


def tag_of(body: bytes) -> str:
    """Return the strong entity tag of an answer."""
    return tag_of_digest(hashlib.sha256(body))


def tag_of_digest(digest: hashlib._Hash) -> str:
    """Return the strong entity tag of an answer that has this digest, a SHA-256."""
    return f'"{digest.hexdigest()[:32]}"'


def _error(failure: Failure) -> ErrorBody:
    row = ERRORS.get(failure.code)
    details: dict[str, Any] = {**failure.details, "reason": failure.reason}
    return ErrorBody(
        code=failure.code, message=failure.message, details=details, retry=(row.retry if row else None) or UNSET
    )
