"""Executions as rows of the ledger, and the one function that changes their state, within the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from skillwire.adapters.sql.connection import Connection
from skillwire.executions.states import NOTED, State, Transition
from skillwire.model.execution import (
    FINAL,
    Attachments,
    Claim,
    Event,
    Execution,
    ExecutionStatus,
    Failure,
    Moment,
    OutputBlob,
    Priority,
)

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
encode_json: Final = json.JSONEncoder(separators=(",", ":")).encode


def execution_row(execution: Execution) -> tuple[Any, ...]:
    """Return the values of :data:`COLUMNS`, as plain as they are kept: SQLite asks an enum ten times what it is."""
    one, is_repeatable, is_forgotten = execution, int(execution.is_repeatable), int(execution.output_forgotten)
    failure = one.failure and encode_json(one.failure)
    attachments = one.attachments and encode_json(one.attachments)
    timeline = "".join([f"{encode_json(event)}\n" for event in one.timeline])
    return (
        *(one.execution_id, one.skill, one.skill_id, one.version, one.digest, one.executor),
        *(one.caller, one.caller_id, one.caller_type, one.created, one.updated, one.deadline, one.timeout, one.turn),
        *(one.priority.value, one.status.value, one.trace_id, one.attempt, one.worker, one.not_before),
        *(one.max_attempts, one.backoff, is_repeatable, one.completed, one.output_blob, is_forgotten),
        *(failure, one.webhook, one.callbacks, one.queue, timeline, one.task, one.inputs, one.output),
        attachments,
    )


async def insert(connection: Connection, executions: Sequence[Execution]) -> None:
    """Insert new executions, many with one statement.

    A thread releases the interpreter for each statement, and waits to get it back beside a busy event loop.
    """
    rows = [execution_row(execution) for execution in executions]
    done = 0
    for number, statement in _INSERTS.items():
        while len(rows) - done >= number:
            await connection.run(statement, tuple(chain.from_iterable(rows[done : done + number])))
            done += number
    mounts = [
        (digest, one.execution_id) for one in executions if one.attachments for _, digest in one.attachments.mounts
    ]
    if mounts:
        await connection.run_many("INSERT INTO run_mounts VALUES (?, ?) ON CONFLICT DO NOTHING", mounts)


def read_execution(row: Sequence[Any]) -> Execution:
    """Return the execution that a row of :data:`SELECT` holds."""
    fields = dict(zip(_READ, row, strict=True))
    fields["priority"] = Priority(fields["priority"])
    fields["status"] = ExecutionStatus(fields["status"])
    fields["is_repeatable"] = bool(fields["is_repeatable"])
    fields["output_forgotten"] = bool(fields["output_forgotten"])
    fields["failure"] = fields["failure"] and Failure(*json.loads(fields["failure"]))
    fields["timeline"] = tuple(Event(*json.loads(line)) for line in fields["timeline"].splitlines())
    if fields["attachments"]:
        blobs, mounts, code = json.loads(fields["attachments"])
        fields["attachments"] = Attachments(tuple(blobs), tuple((name, digest) for name, digest in mounts), code)
    fields["log"] = fields["log"] or ""
    fields["blobs"] = tuple(OutputBlob(*one) for one in json.loads(fields["blobs"] or "[]"))
    return Execution(**fields)


def read_state(row: Sequence[Any]) -> State:
    """Return the state that a row of the columns :data:`STATE` holds."""
    status, attempt, worker, not_before, deadline, max_attempts, backoff, is_repeatable, losses = row
    own = (attempt, worker, not_before, deadline, max_attempts, backoff, bool(is_repeatable), losses)
    return State(ExecutionStatus(status), *own)


async def find(connection: Connection, execution_id: str) -> Execution | None:
    """Return an execution."""
    row = await connection.row(f"{SELECT} WHERE execution_id = ?", (execution_id,))
    return None if row is None else read_execution(row)


async def state_of(connection: Connection, execution_id: str) -> State | None:
    """Return what decides about an execution."""
    query = f"SELECT {STATE} FROM executions WHERE execution_id = ?"  # noqa: S608  # a constant
    row = await connection.row(query, (execution_id,))
    return None if row is None else read_state(row)


async def claimed_state(connection: Connection, claim: Claim) -> State | None:
    """Return the state of what is claimed, if the claim holds."""
    state = await state_of(connection, claim.execution_id)
    return state if state is not None and state.holds(claim) else None


async def apply_transition(
    connection: Connection,
    execution_id: str,
    what: Transition,
    now: Moment,
    *,
    worker: str | None = None,
    by: str = "",
    not_before: float | None = None,
    failure: Failure | None = None,
    lease: tuple[float | None, str | None] = (None, None),
) -> bool:
    """Let an event happen to an execution, if it can; return whether it did."""
    state = await state_of(connection, execution_id)
    after = state.step(what, worker=worker, not_before=not_before) if state else None
    if after is None:
        return False
    is_final = after.status in FINAL
    note = failure.message if failure and what in NOTED else ""
    values: dict[str, Any] = {
        "status": after.status.value,
        "attempt": after.attempt,
        "max_attempts": after.max_attempts,
        "losses": after.losses,
        "worker": after.worker,
        "not_before": after.not_before,
        "updated": now.wall,
        "lease_until": lease[0],
        "lease_boot": lease[1],
        "completed": now.wall if is_final else None,
        "failure": encode_json(failure) if failure and is_final else None,
    }
    query = (
        f"UPDATE executions SET {', '.join(f'{name} = ?' for name in values)}, timeline = timeline || ?,"  # noqa: S608  # constants
        " callback_at = CASE WHEN webhook IS NOT NULL AND ? THEN ? END WHERE execution_id = ?"
    )
    event = f"{encode_json(Event(now.wall, what, by, note))}\n"
    await connection.run(query, (*values.values(), event, is_final, now.wall, execution_id))
    return True
