"""Searching and counting the ledger, newest first, page by page; a page costs the same wherever it is.

Executions that have ended are found by indexes on caller, skill and executor, each together with the status. Those in
progress are found by the indexes of what waits, of tasks, and of what is held, so accepting an execution maintains no
index that only a search needs. A trace has no index at all: one page of a trace scans a bounded number of executions,
and the next page goes on where it stopped.

Statistics are read from the rows too, so they cover every process that uses the database, and survive each of them.
Where several transactions commit at once, their numbers and times are not in the order of the commits. So the schema
has views that place each row behind those that were there before it, up to where no open transaction precedes one.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final

from skillwire import limits
from skillwire.adapters.sql.connection import Connection
from skillwire.adapters.sql.ledger_queue import CLAIMED, WAITING
from skillwire.adapters.sql.ledger_rows import SELECT, read_execution
from skillwire.errors import UsageError
from skillwire.model.execution import (
    EndedExecution,
    Execution,
    ExecutionQuery,
    ExecutionStatus,
    FoundExecutions,
    LedgerStatistics,
    OpenTasks,
    StatisticsCursor,
    TaskOwner,
)

_CURSOR: Final = re.compile(r"[0-9]{1,18}")
_ACCEPTED, _RUNNING = ExecutionStatus.ACCEPTED, ExecutionStatus.RUNNING
#: A task for people that has not ended; as its index has it.
_TASK: Final = "executor = 'human' AND completed IS NULL"
_WAITING_TASKS: Final = f"executions INDEXED BY executions_tasks WHERE {_TASK} AND worker IS NULL AND status = "
_LANES: Final = f"executions INDEXED BY executions_lanes WHERE {WAITING} AND status = "
#: Where executions are that have not ended. What else is asked of them stands in these indexes, too.
_OPEN: Final = {
    _ACCEPTED: (f"{_LANES}'accepted'", f"{_WAITING_TASKS}'accepted'"),
    _RUNNING: (
        f"{_LANES}'running'",
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


async def search(connection: Connection, query: ExecutionQuery) -> FoundExecutions:
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


async def count(connection: Connection, query: ExecutionQuery) -> Mapping[ExecutionStatus, int]:
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


async def tasks(connection: Connection, worker: str, whose: TaskOwner, limit: int) -> OpenTasks:
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


async def statistics(connection: Connection, after: StatisticsCursor, until: float, limit: int) -> LedgerStatistics:
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
    statuses = await count(connection, ExecutionQuery())
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
