"""Executions as rows of the ledger, and back."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from skillwire.invocation.states import State
from skillwire.model.execution import (
    Attachments,
    Event,
    Execution,
    ExecutionStatus,
    Failure,
    OutputBlob,
    Priority,
    Webhook,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from sqlite3 import Connection

#: The columns of an execution, in the order of :func:`execution_row`.
COLUMNS: Final = (
    *("execution_id", "skill", "skill_id", "version", "digest", "executor", "caller", "caller_id", "caller_type"),
    *("created", "updated", "deadline", "timeout", "turn", "priority", "status", "trace_id", "attempt", "worker"),
    *("not_before", "max_attempts", "backoff", "is_repeatable", "completed", "output_blob", "output_forgotten"),
    *("failure", "webhook", "callbacks", "queue", "timeline", "task", "inputs", "output", "attachments"),
)
#: Those, and what no new execution has.
_READ: Final = (*COLUMNS, "log", "blobs")
SELECT: Final = f"SELECT {', '.join(_READ)} FROM executions"  # noqa: S608  # constants
_ROW: Final = f"({', '.join('?' * len(COLUMNS))})"
#: How many rows are inserted at once → the statement. They are few, so that all of them stay prepared.
_INSERTS: Final = {
    rows: f"INSERT INTO executions ({', '.join(COLUMNS)}) VALUES {', '.join([_ROW] * rows)}"  # noqa: S608  # same
    for rows in (64, 16, 4, 1)
}
#: The columns of :func:`read_state`.
STATE: Final = "status, attempt, worker, not_before, deadline, max_attempts, backoff, is_repeatable, losses"
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def execution_row(execution: Execution) -> tuple[Any, ...]:
    """Return the values of :data:`COLUMNS`, as plain as they are kept: SQLite asks an enum ten times what it is."""
    one, is_repeatable, is_forgotten = execution, int(execution.is_repeatable), int(execution.output_forgotten)
    failure = one.failure and written_failure(one.failure)
    webhook = one.webhook and one.webhook.url
    attachments = one.attachments and _encode(one.attachments)
    timeline = "".join([written_event(event) for event in one.timeline])
    return (
        *(one.execution_id, one.skill, one.skill_id, one.version, one.digest, one.executor),
        *(one.caller, one.caller_id, one.caller_type, one.created, one.updated, one.deadline, one.timeout, one.turn),
        *(one.priority.value, one.status.value, one.trace_id, one.attempt, one.worker, one.not_before),
        *(one.max_attempts, one.backoff, is_repeatable, one.completed, one.output_blob, is_forgotten),
        *(failure, webhook, one.callbacks, one.queue, timeline, one.task, one.inputs, one.output),
        attachments,
    )


def insert(connection: Connection, executions: Sequence[Execution]) -> None:
    """Insert new executions, many with one statement.

    A thread lets go of the interpreter for each statement, and then waits for it. Beside a busy event loop the waiting
    takes longer than the work.
    """
    rows = [execution_row(execution) for execution in executions]
    done = 0
    for number, statement in _INSERTS.items():
        while len(rows) - done >= number:
            connection.execute(statement, tuple(chain.from_iterable(rows[done : done + number])))
            done += number
    mounts = [
        (digest, one.execution_id) for one in executions if one.attachments for _, digest in one.attachments.mounts
    ]
    if mounts:
        connection.executemany("INSERT OR IGNORE INTO run_mounts VALUES (?, ?)", mounts)


def read_execution(row: Sequence[Any]) -> Execution:
    """Return the execution that a row of :data:`SELECT` holds."""
    fields = dict(zip(_READ, row, strict=True))
    fields["priority"] = Priority(fields["priority"])
    fields["status"] = ExecutionStatus(fields["status"])
    fields["is_repeatable"] = bool(fields["is_repeatable"])
    fields["output_forgotten"] = bool(fields["output_forgotten"])
    fields["failure"] = fields["failure"] and Failure(*json.loads(fields["failure"]))
    fields["webhook"] = fields["webhook"] and Webhook(fields["webhook"])
    fields["timeline"] = tuple(Event(*json.loads(line)) for line in fields["timeline"].splitlines())
    fields["attachments"] = fields["attachments"] and _read_attachments(fields["attachments"])
    fields["log"] = fields["log"] or ""
    fields["blobs"] = tuple(OutputBlob(*one) for one in json.loads(fields["blobs"] or "[]"))
    return Execution(**fields)


def _read_attachments(text: str) -> Attachments:
    blobs, mounts, code = json.loads(text)
    return Attachments(tuple(blobs), tuple((name, digest) for name, digest in mounts), code)


def read_state(row: Sequence[Any]) -> State:
    """Return the state that a row of the columns :data:`STATE` holds."""
    status, attempt, worker, not_before, deadline, max_attempts, backoff, is_repeatable, losses = row
    own = (attempt, worker, not_before, deadline, max_attempts, backoff, bool(is_repeatable), losses)
    return State(ExecutionStatus(status), *own)


def written_event(event: Event) -> str:
    """Return one line of a timeline."""
    return _encode(event) + "\n"


def written_blobs(blobs: Sequence[OutputBlob]) -> str | None:
    """Return what was handed out as JSON, None for nothing."""
    return _encode(list(blobs)) if blobs else None


def written_failure(failure: Failure) -> str:
    """Return a failure as JSON."""
    return _encode(failure)
