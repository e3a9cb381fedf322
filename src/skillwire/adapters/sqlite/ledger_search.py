"""Looking through the ledger, newest first, page by page; a page costs the same wherever it is.

What has ended is found by indexes on whose it is, of which skill it is, and what ran it, each together with the status.
What has not ended is found by the indexes of what waits, of tasks, and of what somebody has. So what is accepted is put
into no index for the sake of whoever may look for it later. A trace has no index at all: a page of one looks at so many
executions and no more, and where it stopped the next page goes on.

What the ledger says to who counts: how many executions there are, and which were accepted and ended since.

Read from the rows, so that what any process on this database accepts and runs is counted, and nothing is counted twice
or forgotten with a process.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.sqlite.ledger_queue import HELD, WAITING
from skillwire.adapters.sqlite.ledger_rows import SELECT, read_execution
from skillwire.errors import UsageError
from skillwire.model.execution import ExecutionQuery, ExecutionStatus, FoundExecutions, OpenTasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from sqlite3 import Connection

    from skillwire.adapters.sqlite.database import Database
    from skillwire.model.execution import Execution, TaskOwner


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
        f"executions INDEXED BY executions_held WHERE {HELD}",
    ),
}
_ENDED: Final = "status IN ('completed', 'failed', 'timeout')"
_KINDS: Final = ("python", "http", "human", "function")
_WHOSE: Final[dict[TaskOwner, str]] = {
    "open": "worker IS NULL",
    "mine": "worker = :worker",
    "others": "worker IS NOT NULL AND worker <> :worker",
}


def search(connection: Connection, query: ExecutionQuery) -> FoundExecutions:
    """Return a page of the executions that ``query`` asks for.

    Raises:
        UsageError: ``CURSOR`` when ``query.after`` is none of ours.
    """
    if query.after is not None and not _CURSOR.fullmatch(query.after):
        raise UsageError("CURSOR", "this cursor is none of ours")
    if query.trace_id is not None:
        return _search_by_scanning(connection, query)
    with _snapshot(connection):
        numbers = {number for place in _index_queries(query) for number in _newest(connection, query, place)}
        page = heapq.nlargest(query.limit, numbers)
        return FoundExecutions(_read(connection, page), str(page[-1]) if len(numbers) > len(page) and page else None)


def count(connection: Connection, query: ExecutionQuery) -> Mapping[ExecutionStatus, int]:
    """Return how many executions ``query`` would find, by status, were its statuses and its place not given.

    Of a trace those are counted that the first page looks at.
    """
    counted: Counter[ExecutionStatus] = Counter()
    if query.trace_id is not None:
        for execution in _read(connection, _scan_numbers(connection, query._replace(after=None, statuses=None))[0]):
            counted[execution.status] += 1
        return counted
    with _snapshot(connection):
        for status in ExecutionStatus:
            for where, values in _index_queries(query._replace(statuses=(status,))):
                counted[status] += connection.execute(f"SELECT count(*) FROM {where}", values).fetchone()[0]  # noqa: S608  # constants
    return +counted


def tasks(connection: Connection, worker: str, whose: TaskOwner, limit: int) -> OpenTasks:
    """Return the most urgent tasks that nobody has, ``worker`` has, or others have; and how many there are of each."""
    source = f"FROM executions INDEXED BY executions_tasks WHERE {_TASK}"
    values = {"worker": worker, "limit": limit}
    statement = f"SELECT number {source} AND {_WHOSE[whose]} ORDER BY deadline, number LIMIT :limit"
    numbers = [row[0] for row in connection.execute(statement, values)]
    counts = {
        one: connection.execute(f"SELECT count(*) {source} AND {_WHOSE[one]}", values) for one in _WHOSE
    }  # constants
    return OpenTasks(_read(connection, numbers), {one: cursor.fetchone()[0] for one, cursor in counts.items()})


@contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    """Read all of it as it was at one moment, so that nothing is missed that goes from one index to another."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


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


def _newest(connection: Connection, query: ExecutionQuery, place: _Where) -> Iterator[int]:
    """Yield the numbers of one page and one more."""
    where, values = place
    if query.after is not None:
        where, values = f"{where} AND number < ?", (*values, int(query.after))
    statement = f"SELECT number FROM {where} ORDER BY number DESC LIMIT ?"  # noqa: S608  # constants
    return (row[0] for row in connection.execute(statement, (*values, query.limit + 1)))


def _read(connection: Connection, numbers: Iterable[int]) -> tuple[Execution, ...]:
    """Return executions by their numbers, in that order."""
    found = (connection.execute(f"{SELECT} WHERE number = ?", (number,)).fetchone() for number in numbers)
    return tuple(read_execution(row) for row in found)


def _search_by_scanning(connection: Connection, query: ExecutionQuery) -> FoundExecutions:
    """Return what is asked for of so many executions; the next page begins behind them."""
    numbers, end = _scan_numbers(connection, query)
    page = numbers[: query.limit]
    after = page[-1] if len(numbers) > len(page) else end
    return FoundExecutions(_read(connection, page), None if after is None else str(after))


def _scan_numbers(connection: Connection, query: ExecutionQuery) -> tuple[list[int], int | None]:
    """Return which of so many executions are asked for, and the last that was looked at; None for the last of all."""
    wanted = {column: getattr(query, column) for column in ("trace_id", "skill", "caller", "executor")}
    asked = {column: value for column, value in wanted.items() if value is not None}
    conditions = " AND ".join(f"{column} = ?" for column in asked)
    if query.statuses is not None:
        conditions += f" AND status IN ({', '.join(repr(status.value) for status in query.statuses)})"
    newest = connection.execute("SELECT coalesce(max(number), 0) FROM executions").fetchone()[0]
    begin = newest + 1 if query.after is None else min(int(query.after), newest + 1)
    end = max(begin - limits.EXECUTIONS_LOOKED_AT, 0)
    statement = f"SELECT number FROM executions WHERE number < ? AND number >= ? AND {conditions} ORDER BY number DESC"  # noqa: S608  # constants
    found = [row[0] for row in connection.execute(statement, (begin, end, *asked.values()))]
    has_more = connection.execute("SELECT 1 FROM executions WHERE number < ? LIMIT 1", (end,)).fetchone() is not None
    return found, end if has_more else None


_SELECT_ENDED: Final = """
SELECT completed, number, coalesce(json_extract(failure, '$[0]'), status), created, timeline
FROM executions INDEXED BY executions_ended
WHERE completed IS NOT NULL AND completed >= ? AND (completed, number) > (?, ?) AND completed <= ?
ORDER BY completed, number LIMIT ?
"""
_COUNT_RUNNING: Final = "SELECT count(*) FROM executions WHERE worker IS NOT NULL AND status = 'running'"


class EndedCursor(NamedTuple):
    """How far what has ended was read: up to the execution of this number, which ended then."""

    completed: float
    number: int = 0


class EndedExecution(NamedTuple):
    """An execution that has ended: ``completed`` or the reason why not, and seconds from when it was accepted.

    ``waited`` until somebody first began it, None for one that nobody began; ``took`` until its end.
    """

    place: EndedCursor
    outcome: str
    waited: float | None
    took: float


class SqliteExecutionStats:
    """Reads what is counted of the ledger in ``database``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def statuses(self) -> Mapping[str, int]:
        """Return how many executions there are, by status."""
        with self._database.reading() as connection:
            return {status.value: number for status, number in count(connection, ExecutionQuery()).items()}

    def running(self) -> int:
        """Return how many a worker, or a person, has at this moment."""
        with self._database.reading() as connection:
            return int(connection.execute(_COUNT_RUNNING).fetchone()[0])

    def last_before(self, created: float) -> int:
        """Return the number of the last execution that was accepted before a time; 0 when there is none."""
        query = "SELECT number FROM executions WHERE created < ? ORDER BY number DESC LIMIT 1"
        with self._database.reading() as connection:
            row = connection.execute(query, (created,)).fetchone()
        return row[0] if row else 0

    def accepted(self, after: int) -> tuple[int, int]:
        """Return how many were accepted behind the number ``after``, and the last number."""
        query = "SELECT count(*), coalesce(max(number), ?1) FROM executions WHERE number > ?1"
        with self._database.reading() as connection:
            count, last = connection.execute(query, (after,)).fetchone()
        return count, last

    def ended(self, after: EndedCursor, until: float, limit: int) -> Sequence[EndedExecution]:
        """Return what has ended behind ``after`` and not later than ``until``, oldest first, at most ``limit``."""
        with self._database.reading() as connection:
            rows = connection.execute(_SELECT_ENDED, (after.completed, *after, until, limit)).fetchall()
        return [
            EndedExecution(
                EndedCursor(completed, number), outcome, _waited(created, timeline), max(0.0, completed - created)
            )
            for completed, number, outcome, created, timeline in rows
        ]


def _waited(created: float, timeline: str) -> float | None:
    for line in timeline.splitlines():
        at, what, *_ = json.loads(line)
        if what == "claim":
            return max(0.0, float(at) - created)
    return None
