"""Executions as rows of the ledger, and the functions that change their state, within the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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
#: The same with what :func:`state_in` needs beside an execution.
SELECT_STATE: Final = f"SELECT {', '.join(_READ)}, losses FROM executions"  # noqa: S608  # constants
#: Executions whose IDs are in a value of JSON.
NAMED: Final = "execution_id IN (SELECT value FROM json_each(?))"
_ROW: Final = f"({', '.join('?' * len(COLUMNS))})"
#: How many rows are inserted at once → the statement. They are few, so that all of them stay prepared.
_INSERTS: Final = {
    rows: f"INSERT INTO executions ({', '.join(COLUMNS)}) VALUES {', '.join([_ROW] * rows)}"  # noqa: S608  # same
    for rows in (64, 16, 4, 1)
}
#: The columns of :func:`read_state`.
STATE: Final = "status, attempt, worker, not_before, deadline, max_attempts, backoff, is_repeatable, losses"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
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


def state_in(execution: Execution, losses: int) -> State:
    """Return the state of an execution."""
    one = execution
    own = (one.attempt, one.worker, one.not_before, one.deadline, one.max_attempts, one.backoff, one.is_repeatable)
    return State(one.status, *own, losses)


async def find(connection: Connection, execution_id: str) -> Execution | None:
    """Return an execution."""
    row = await connection.row(f"{SELECT} WHERE execution_id = ?", (execution_id,))
    return None if row is None else read_execution(row)


async def state_of(connection: Connection, execution_id: str) -> State | None:
    """Return what decides about an execution, which nothing else changes until the transaction ends."""
    query = f"SELECT {STATE} FROM executions WHERE execution_id = ?{connection.locked}"  # noqa: S608  # constants
    row = await connection.row(query, (execution_id,))
    return None if row is None else read_state(row)


async def claimed_state(connection: Connection, claim: Claim) -> State | None:
    """Return the state of what is claimed, if the claim holds."""
    state = await state_of(connection, claim.execution_id)
    return state if state is not None and state.holds(claim) else None


class Step(NamedTuple):
    """An event that happens to an execution: who caused it, and what else it changes."""

    what: Transition
    by: str = ""
    worker: str | None = None
    not_before: float | None = None
    failure: Failure | None = None
    lease: tuple[float | None, str | None] = (None, None)
    also: Mapping[str, Any] = NOTHING  # columns that apply_step sets


#: What a step sets, in the order of the values of :func:`_values`.
_SET: Final = (
    *("status = ?", "attempt = ?", "max_attempts = ?", "losses = ?", "worker = ?", "not_before = ?", "updated = ?"),
    *("lease_until = ?", "lease_boot = ?", "completed = ?", "failure = ?", "timeline = timeline || ?"),
    "callback_at = CASE WHEN webhook IS NOT NULL THEN CAST(? AS DOUBLE PRECISION) END",
)
_UPDATE: Final = f"UPDATE executions SET {', '.join(_SET)}"  # noqa: S608  # constants


def _values(after: State, step: Step, now: Moment) -> tuple[Any, ...]:
    end = now.wall if after.status in FINAL else None
    failure = encode_json(step.failure) if step.failure and end is not None else None
    event = f"{encode_json(_event(step, now))}\n"
    own = (after.status.value, after.attempt, after.max_attempts, after.losses, after.worker, after.not_before)
    return (*own, now.wall, *step.lease, end, failure, event, end)


def _event(step: Step, now: Moment) -> Event:
    return Event(now.wall, step.what, step.by, step.failure.message if step.failure and step.what in NOTED else "")


def claimed_by(execution: Execution, step: Step, now: Moment) -> Execution:
    """Return an execution as it is after a claim."""
    return replace(
        execution,
        status=ExecutionStatus.RUNNING,
        attempt=execution.attempt + 1,
        worker=step.worker,
        updated=now.wall,
        timeline=(*execution.timeline, _event(step, now)),
    )


async def apply_step(connection: Connection, execution_id: str, state: State | None, step: Step, now: Moment) -> bool:
    """Let an event happen to an execution in this state, if it can; return whether it did."""
    after = state.step(step.what, worker=step.worker, not_before=step.not_before) if state else None
    if after is not None:
        more = "".join(f", {name} = ?" for name in step.also)
        values = (*_values(after, step, now), *step.also.values(), execution_id)
        await connection.run(f"{_UPDATE}{more} WHERE execution_id = ?", values)
    return after is not None


async def apply_steps(connection: Connection, steps: Iterable[tuple[str, State, Step]], now: Moment) -> list[str]:
    """Let events happen to executions in these states; return the IDs of those to which they did."""
    rows = [
        (*_values(after, step, now), execution_id)
        for execution_id, state, step in steps
        if (after := state.step(step.what, worker=step.worker, not_before=step.not_before)) is not None
    ]
    await connection.run_many(f"{_UPDATE} WHERE execution_id = ?", rows)
    return [row[-1] for row in rows]
