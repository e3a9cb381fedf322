"""What the ledger says to who counts: how many executions there are, and which were accepted and ended since.

Read from the rows, so that what any process on this database accepts and runs is counted, and nothing is counted twice
or forgotten with a process.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.adapters.sqlite.ledger_search import count
from skillwire.model.ledger import ExecutionQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.adapters.sqlite.database import Database

_ENDED: Final = """
SELECT completed, number, coalesce(json_extract(failure, '$[0]'), status), created, timeline
FROM executions INDEXED BY executions_ended
WHERE completed IS NOT NULL AND completed >= ? AND (completed, number) > (?, ?) AND completed <= ?
ORDER BY completed, number LIMIT ?
"""
_RUNNING: Final = "SELECT count(*) FROM executions WHERE worker IS NOT NULL AND status = 'running'"


class CountedUntil(NamedTuple):
    """How far what has ended was read: up to the execution of this number, which ended then."""

    completed: float
    number: int = 0


class Ended(NamedTuple):
    """An execution that has ended: ``completed`` or the reason why not, and seconds from when it was accepted.

    ``waited`` until somebody first began it, None for one that nobody began; ``took`` until its end.
    """

    place: CountedUntil
    outcome: str
    waited: float | None
    took: float


class SqliteFigures:
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
            return int(connection.execute(_RUNNING).fetchone()[0])

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

    def ended(self, after: CountedUntil, until: float, limit: int) -> Sequence[Ended]:
        """Return what has ended behind ``after`` and not later than ``until``, oldest first, at most ``limit``."""
        with self._database.reading() as connection:
            rows = connection.execute(_ENDED, (after.completed, *after, until, limit)).fetchall()
        return [
            Ended(CountedUntil(completed, number), outcome, _waited(created, timeline), max(0.0, completed - created))
            for completed, number, outcome, created, timeline in rows
        ]


def _waited(created: float, timeline: str) -> float | None:
    for line in timeline.splitlines():
        at, what, *_ = json.loads(line)
        if what == "claim":
            return max(0.0, float(at) - created)
    return None
