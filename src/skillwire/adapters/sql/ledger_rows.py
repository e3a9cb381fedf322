"""Executions as rows of the ledger: how they are read and changed, which are next, found and counted.

**Queue.** A claim reads the front of the queue first. If every execution there must wait, because a caller at its quota
queued thousands, the claim reads lanes instead: a lane is the waiting executions of one caller and one skill. Lanes at
their quota are skipped whole; the first executions of the others are taken in the order of the queue. Each read is
bounded, and the next walk over the lanes begins where this one stopped. So the cost of a claim does not grow with the
queue, and no execution starves behind others that may not run. A worker reads its own queue only. Quotas count over all
queues.

**Search.** Newest first, page by page; every page costs the same. Indexes on caller, skill and executor, each with the
status, find executions that have ended. The indexes of waiting executions, tasks and claimed executions find those in
progress, so accepting an execution maintains no index that only a search needs. A trace has no index: one page of a
trace scans a bounded number of executions, and the next page begins where it stopped.

**Counted.** Statistics are read from the rows too, so they cover every process that uses the database, and survive each
of them. Where several transactions commit at once, their numbers and times are not in the order of the commits. So the
schema has views that place each row behind those that were there before it, up to where no open transaction precedes
one.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.sql import Connection
from skillwire.errors import UsageError
from skillwire.executions.states import EXPLAINED, State, Transition
from skillwire.model.execution import (
    FINAL,
    Attachments,
    Claim,
    EndedExecution,
    Event,
    Execution,
    ExecutionQuery,
    ExecutionStatus,
    Failure,
    FoundExecutions,
    LedgerStatistics,
    Moment,
    OpenTasks,
    OutputBlob,
    Priority,
    Quota,
    StatisticsCursor,
    TaskOwner,
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
    return Event(now.wall, step.what, step.by, step.failure.message if step.failure and step.what in EXPLAINED else "")


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


#: What waits for a worker; as the indexes have it, word by word.
WAITING: Final = "worker IS NULL AND completed IS NULL AND executor <> 'human'"
#: What a worker, or a person, has.
CLAIMED: Final = "worker IS NOT NULL AND status = 'running'"
#: How many rows at the beginning of the queue are looked at first, and how many when none of those may run.
_LOOKS: Final = (64, 1024)
#: How many lanes one walk visits, and how many rows of each it looks at.
_LANES_PER_WALK: Final = 256
_ROWS_PER_LANE: Final = 64
#: How many rows more than may be taken are read at once, since some may have no room beside the others.
_SPARE: Final = 32

#: Conditions on a row that no index covers.
_MAY_RUN: Final = (
    "deadline > ? AND executor IN (SELECT value FROM json_each(?))"
    " AND (executor <> 'function' OR ? OR digest IN (SELECT value FROM json_each(?)))"
)
# The inner queries read an index alone; rows are read only for the entries that remain.
_FRONT: Final = (
    "SELECT number, turn, execution_id, caller, skill FROM executions WHERE number IN"  # noqa: S608  # constants
    " (SELECT number FROM (SELECT number, not_before, caller, skill FROM executions INDEXED BY executions_waiting"
    f" WHERE {WAITING} AND queue = ? ORDER BY turn LIMIT ?) AS front WHERE not_before <= ?"
    " AND caller NOT IN (SELECT value FROM json_each(?)) AND skill NOT IN (SELECT value FROM json_each(?)))"
    f" AND {_MAY_RUN} ORDER BY turn, number LIMIT ?"
)
_HAS_MORE: Final = (
    f"SELECT 1 FROM executions INDEXED BY executions_waiting WHERE {WAITING}"  # noqa: S608  # the same
    " AND queue = ? LIMIT 1 OFFSET ?"
)
_NEXT_SKILL: Final = (
    f"SELECT caller, skill FROM executions INDEXED BY executions_lanes WHERE {WAITING}"  # noqa: S608  # the same
    " AND caller = ? AND skill > ? ORDER BY skill LIMIT 1"
)
_NEXT_CALLER: Final = (
    f"SELECT caller, skill FROM executions INDEXED BY executions_lanes WHERE {WAITING}"  # noqa: S608  # the same
    " AND caller > ? ORDER BY caller, skill LIMIT 1"
)
_HEADS: Final = (
    "SELECT number, turn, execution_id, caller, skill FROM executions WHERE number IN"  # noqa: S608  # the same
    f" (SELECT number FROM executions INDEXED BY executions_lanes WHERE {WAITING} AND caller = ? AND skill = ?"
    f" AND queue = ? ORDER BY turn LIMIT {_ROWS_PER_LANE}) AND not_before <= ? AND {_MAY_RUN}"
    " ORDER BY turn, number LIMIT ?"
)
_COUNT_HELD: Final = (
    "SELECT caller, skill, count(*) FROM executions INDEXED BY executions_held"  # noqa: S608  # the same
    f" WHERE {CLAIMED} AND executor <> 'human' GROUP BY caller, skill"
)


#: Its number, its turn, its ID, its caller, its skill.
_Row = tuple[int, float, str, str, str]
#: A caller, and a skill.
#: A lane: the waiting executions of one caller and one skill, by their names.
_Lane = tuple[str, str]
_FIRST_LANE: Final[_Lane] = ("", "")


class _Quotas:
    """What callers and skills may have beyond what they have; and what was taken, in order."""

    def __init__(self, held: Iterable[tuple[str, str, int]], quota: Quota, limit: int) -> None:
        self.left = limit
        self.taken: dict[str, None] = {}
        self._callers: Counter[str] = Counter()
        self._skills: Counter[str] = Counter()
        self._quota = quota
        for caller, skill, number in held:
            self._callers[caller] += number
            self._skills[skill] += number

    def is_caller_full(self, caller: str) -> bool:
        return self._callers[caller] >= self._quota.per_caller

    def is_skill_full(self, skill: str) -> bool:
        return self._skills[skill] >= self._quota.per_skill_of(skill)

    def take(self, row: _Row) -> None:
        _, _, execution_id, caller, skill = row
        is_full = not self.left or self.is_caller_full(caller) or self.is_skill_full(skill)
        if is_full or execution_id in self.taken:
            return
        self._callers[caller] += 1
        self._skills[skill] += 1
        self.taken[execution_id] = None
        self.left -= 1

    def full(self) -> tuple[str, str]:
        """Return the callers, and the skills, that have as much as they may, as JSON."""
        callers = [name for name, number in self._callers.items() if number >= self._quota.per_caller]
        skills = [name for name in {*self._skills, *self._quota.skills} if self.is_skill_full(name)]
        return json.dumps(callers), json.dumps(skills)


class Queue:
    """The queue of a ledger. It remembers only where its last walk over the lanes stopped."""

    def __init__(self) -> None:
        self._stopped = _FIRST_LANE

    async def choose(self, connection: Connection, now: Moment, quota: Quota, limit: int) -> list[str]:
        """Return the IDs of at most ``limit`` executions that may run now, those whose turn it is."""
        executors, functions = (json.dumps(sorted(names or ())) for names in (quota.executors, quota.functions))
        may_run = (now.wall, executors, quota.functions is None, functions)
        room = _Quotas(await connection.rows(_COUNT_HELD), quota, limit)
        for look in _LOOKS:
            taken = -1
            while room.left and taken < len(room.taken):
                taken = len(room.taken)
                most = room.left + taken + _SPARE
                asked = (quota.queue, look, now.wall, *room.full(), *may_run, most)
                for row in await connection.rows(_FRONT, asked):
                    room.take(row)
            if not room.left or await connection.row(_HAS_MORE, (quota.queue, look)) is None:
                return list(room.taken)
        heads = [
            await connection.rows(_HEADS, (*lane, quota.queue, now.wall, *may_run, limit))
            async for lane in self._lanes(connection, room)
        ]
        for row in heapq.merge(*heads, key=lambda row: (row[1], row[0])):  # by turn and number
            room.take(row)
        return list(room.taken)

    async def _lanes(self, connection: Connection, room: _Quotas) -> AsyncIterator[_Lane]:
        """Yield lanes with room, from where the last walk stopped, and once around at most."""
        began = lane = self._stopped
        is_full, has_turned = False, began == _FIRST_LANE
        for _ in range(_LANES_PER_WALK):
            found: _Lane | None = None
            if not is_full:  # another lane of the same caller
                found = await connection.row(_NEXT_SKILL, lane)
            found = found or await connection.row(_NEXT_CALLER, lane[:1])
            if found is None and not has_turned:
                lane, is_full, has_turned = _FIRST_LANE, False, True
                continue
            if found is None or (has_turned and began != _FIRST_LANE and found > began):
                self._stopped = _FIRST_LANE
                return
            lane, is_full = found, room.is_caller_full(found[0])
            if not is_full and not room.is_skill_full(lane[1]):
                yield lane
        self._stopped = lane


_CURSOR: Final = re.compile(r"[0-9]{1,18}")
_ACCEPTED, _RUNNING = ExecutionStatus.ACCEPTED, ExecutionStatus.RUNNING
#: A task for people that has not ended; as its index has it.
_TASK: Final = "executor = 'human' AND completed IS NULL"
_WAITING_TASKS: Final = f"executions INDEXED BY executions_tasks WHERE {_TASK} AND worker IS NULL AND status = "
_LANES_WITH_STATUS: Final = f"executions INDEXED BY executions_lanes WHERE {WAITING} AND status = "
#: Indexes of unfinished executions, by status; they cover the other columns that queries filter by.
_OPEN: Final = {
    _ACCEPTED: (f"{_LANES_WITH_STATUS}'accepted'", f"{_WAITING_TASKS}'accepted'"),
    _RUNNING: (
        f"{_LANES_WITH_STATUS}'running'",
        f"{_WAITING_TASKS}'running'",
        f"executions INDEXED BY executions_held WHERE {CLAIMED}",
    ),
}
_ENDED: Final = "status IN ('completed', 'failed', 'timeout')"
_KINDS: Final = ("python", "http", "human", "function")
_URGENCY: Final = "CASE priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 ELSE 2 END"
_WHOSE: Final[dict[TaskOwner, str]] = {
    "open": "worker IS NULL",
    "mine": "worker = ?",
    "others": "worker IS NOT NULL AND worker <> ?",
}


async def search_executions(connection: Connection, query: ExecutionQuery) -> FoundExecutions:
    """Return a page of the executions that match ``query``. Raises UsageError (``CURSOR``)."""
    if query.after is not None and not _CURSOR.fullmatch(query.after):
        raise UsageError("CURSOR", "the cursor is invalid")
    if query.trace_id is not None:
        numbers, end = await _scan_numbers(connection, query)
        page = numbers[: query.limit]
        after = page[-1] if len(numbers) > len(page) else end
        return FoundExecutions(await _read(connection, page), None if after is None else str(after))
    newest = {number for place in _index_queries(query) for number in await _newest(connection, query, place)}
    page = heapq.nlargest(query.limit, newest)
    return FoundExecutions(await _read(connection, page), str(page[-1]) if len(newest) > len(page) and page else None)


async def count_executions(connection: Connection, query: ExecutionQuery) -> Mapping[ExecutionStatus, int]:
    """Count what ``query`` finds, by status, without its statuses and cursor; of a trace, on the first page only."""
    counted: Counter[ExecutionStatus] = Counter()
    if query.trace_id is not None:
        for execution in await _read(
            connection, (await _scan_numbers(connection, query._replace(after=None, statuses=None)))[0]
        ):
            counted[execution.status] += 1
        return counted
    for status in ExecutionStatus:
        for where, values in _index_queries(query._replace(statuses=(status,))):
            counted[status] += await connection.value(f"SELECT count(*) FROM {where}", values)  # noqa: S608  # constants
    return +counted


async def find_tasks(connection: Connection, worker: str, whose: TaskOwner, limit: int) -> OpenTasks:
    """Return the most urgent tasks that are open, that ``worker`` has, or that others have, and how many of each."""
    source = f"FROM executions INDEXED BY executions_tasks WHERE {_TASK}"
    where, values = _WHOSE[whose], {one: (worker,) * where.count("?") for one, where in _WHOSE.items()}
    statement = f"SELECT number {source} AND {where} ORDER BY {_URGENCY}, deadline, number LIMIT ?"
    numbers = [row[0] for row in await connection.rows(statement, (*values[whose], limit))]
    counts = {
        one: await connection.value(f"SELECT count(*) {source} AND {condition}", values[one])
        for one, condition in _WHOSE.items()
    }
    return OpenTasks(await _read(connection, numbers), counts)


_Where = tuple[str, tuple[Any, ...]]


def _index_queries(query: ExecutionQuery) -> Iterator[_Where]:
    """Yield where the executions are that ``query`` asks for: an index, and what is asked of it."""
    wanted = {column: getattr(query, column) for column in ("caller", "skill", "executor")}
    asked = {column: value for column, value in wanted.items() if value is not None}
    if query.statuses is None and not asked:
        yield "executions WHERE true", ()
        return
    conditions, values = "".join(f" AND {column} = ?" for column in asked), tuple(asked.values())
    first = next(iter(asked), "executor")
    for status in ExecutionStatus if query.statuses is None else query.statuses:
        for place in _OPEN.get(status, ()):
            yield place + conditions, values
        if status not in _OPEN:
            ended = f"executions INDEXED BY executions_of_{first} WHERE {_ENDED} AND status = ?"
            for kind in () if asked else _KINDS:  # the order of the index is one within each of them
                yield f"{ended} AND executor = ?", (status.value, kind)
            if asked:
                yield ended + conditions, (status.value, *values)


async def _newest(connection: Connection, query: ExecutionQuery, place: _Where) -> list[int]:
    where, values = place
    if query.after is not None:
        where, values = f"{where} AND number < ?", (*values, int(query.after))
    statement = f"SELECT number FROM {where} ORDER BY number DESC LIMIT ?"  # noqa: S608  # constants
    return [row[0] for row in await connection.rows(statement, (*values, query.limit + 1))]


async def _read(connection: Connection, numbers: Iterable[int]) -> tuple[Execution, ...]:
    return tuple([read_execution(await connection.row(f"{SELECT} WHERE number = ?", (number,))) for number in numbers])


async def _scan_numbers(connection: Connection, query: ExecutionQuery) -> tuple[list[int], int | None]:
    """Return which of so many executions are asked for, and the last that was looked at; None for the last of all."""
    wanted = {column: getattr(query, column) for column in ("trace_id", "skill", "caller", "executor")}
    asked = {column: value for column, value in wanted.items() if value is not None}
    conditions = " AND ".join(f"{column} = ?" for column in asked)
    if query.statuses is not None:
        conditions += f" AND status IN ({', '.join(repr(status.value) for status in query.statuses)})"
    newest = await connection.value("SELECT coalesce(max(number), 0) FROM executions")
    begin = newest + 1 if query.after is None else min(int(query.after), newest + 1)
    end = max(begin - limits.EXECUTIONS_LOOKED_AT, 0)
    statement = f"SELECT number FROM executions WHERE number < ? AND number >= ? AND {conditions} ORDER BY number DESC"  # noqa: S608  # constants
    found = [row[0] for row in await connection.rows(statement, (begin, end, *asked.values()))]
    has_more = await connection.row("SELECT 1 FROM executions WHERE number < ? LIMIT 1", (end,)) is not None
    return found, end if has_more else None


_SELECT_ENDED: Final = """
SELECT place, number, completed, status, failure, created, timeline FROM endings
WHERE (place, number) > (?, ?) AND place < (SELECT ended_before FROM settled) AND +completed >= ?
ORDER BY place, number LIMIT ?
"""
_COUNT_RUNNING: Final = "SELECT count(*) FROM executions WHERE worker IS NOT NULL AND status = 'running'"

_OLDEST_QUEUED: Final = """
SELECT min(created) FROM executions WHERE completed IS NULL AND status = 'accepted' AND executor <> 'human'
"""


async def read_statistics(
    connection: Connection, after: StatisticsCursor, until: float, limit: int
) -> LedgerStatistics:
    """Return the counts now, and what was accepted and ended since ``after``; see the port."""
    # Numbers beyond those of the database are of one before it was restored, or of a primary that was ahead.
    end, ended_before = await connection.row("SELECT accepted_before, ended_before FROM settled")
    begin, after = after.accepted, after._replace(place=min(after.place, ended_before))
    if begin is None:
        query = "SELECT accepted_in + 1 FROM arrivals WHERE created < ? ORDER BY number DESC LIMIT 1"
        begin = await connection.value(query, (after.since,)) or 0
    begin = min(begin, end)
    query = "SELECT count(*) FROM arrivals WHERE accepted_in >= ? AND accepted_in < ? AND created >= ?"
    accepted = await connection.value(query, (begin, end, after.since))
    rows = await connection.rows(_SELECT_ENDED, (after.place, after.ended, after.since, limit))
    rows = list(takewhile(lambda row: row[2] <= until, rows))
    running = await connection.value(_COUNT_RUNNING)
    statuses = await count_executions(connection, ExecutionQuery())
    place, number = rows[-1][:2] if rows else (after.place, after.ended)
    ended = []
    for _, _, at, status, failure, created, timeline in rows:
        events = map(json.loads, timeline.splitlines())
        claimed = next((event[0] for event in events if event[1] == "claim"), None)
        waited = None if claimed is None else max(0.0, claimed - created)
        outcome = json.loads(failure)[0] if failure else status
        ended.append(EndedExecution(outcome, waited, max(0.0, at - created)))
    oldest = await connection.value(_OLDEST_QUEUED)
    cursor = StatisticsCursor(after.since, place, number, end)
    return LedgerStatistics(statuses, running, accepted, ended, cursor, oldest)
