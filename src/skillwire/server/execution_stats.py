"""Figures about executions for :mod:`skillwire.server.metrics`: all that happened on this database since the start.

They are read from the ledger when somebody asks, and no more often than every few seconds: whoever accepts and runs
executions pays nothing for them. What ended in the last seconds is left for the next look, since two ends may be
written in another order than they happened. Where the wall clock is set back, ends are not counted until it has caught
up.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from skillwire.adapters.sqlite.ledger_search import EndedCursor
from skillwire.errors import StorageError, one_line
from skillwire.model.execution import ExecutionStatus
from skillwire.server.metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.sqlite.ledger_search import SqliteExecutionStats


#: Upper bounds of the slots, in seconds: from a function of this process to a task of a person.
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
_CACHE_SECONDS: Final = 5.0  # seconds
_SETTLE_SECONDS: Final = 5.0  # seconds
_AT_ONCE: Final = 1_000
#: So many ends are read in one look; what is left comes with the next.
_MOST: Final = 100_000


class ExecutionStats:
    """What is counted: ``statuses`` and ``running`` now, ``accepted``, ``ended``, ``seconds`` and ``waits`` since.

    Args:
        source: reads the ledger.
        has_ledger: whether there is one, so that who only looks makes none.
        clock: seconds since the epoch.
    """

    def __init__(
        self, source: SqliteExecutionStats, has_ledger: Callable[[], bool], clock: Callable[[], float] = time.time
    ) -> None:
        self.statuses = dict.fromkeys(map(str, ExecutionStatus), 0)
        self.running = 0
        self.accepted = 0
        self.ended: Counter[str] = Counter()
        self.seconds = Histogram(BUCKETS)
        self.waits = Histogram(BUCKETS)
        self._source = source
        self._has_ledger = has_ledger
        self._clock = clock
        self._began = clock()
        self._place = EndedCursor(self._began)
        self._number: int | None = None
        self._looked = float("-inf")
        self._lock = threading.Lock()

    def look(self) -> None:
        """Read what is new, unless that was done a moment ago; what cannot be read now is read later."""
        with self._lock:
            now = self._clock()
            if 0 <= now - self._looked < _CACHE_SECONDS or not self._has_ledger():
                return
            self._looked = now
            try:
                self._count()
                self._read_ends(now - _SETTLE_SECONDS)
            except StorageError as error:
                structlog.get_logger("skillwire.executions").error("the ledger failed", error=one_line(error))

    def _count(self) -> None:
        found = self._source.statuses()
        self.statuses = {status: found.get(status, 0) for status in self.statuses}
        self.running = self._source.running()
        if self._number is None:
            self._number = self._source.last_before(self._began)
        accepted, self._number = self._source.accepted(self._number)
        self.accepted += accepted

    def _read_ends(self, until: float) -> None:
        for _ in range(_MOST // _AT_ONCE):
            ends = self._source.ended(self._place, until, _AT_ONCE)
            for end in ends:
                self.ended[end.outcome] += 1
                self.seconds.count(end.took)
                if end.waited is not None:
                    self.waits.count(end.waited)
                self._place = end.place
            if len(ends) < _AT_ONCE:
                return
