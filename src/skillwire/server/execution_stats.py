"""Statistics of executions for :mod:`skillwire.server.metrics`, over everything that uses the ledger since the start.

They are read from the ledger when metrics are asked for, at most every few seconds, so accepting and running executions
costs nothing more. Ends of the last seconds are left for the next reading, because two ends may be stored in another
order than they happened. When the wall clock is set back, ends are not counted until it has caught up.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from skillwire.errors import StorageError, one_line
from skillwire.model.execution import ExecutionStatus, StatisticsCursor
from skillwire.server.metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.ports import ExecutionLedger

#: Upper bounds of the buckets, in seconds: from a function of this process to a task of a person.
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
_CACHE_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 5.0
_AT_ONCE: Final = 5_000
#: How many pages of ends one refresh reads; the rest comes with the next.
_PAGES: Final = 20


class ExecutionStats:
    """Counts: ``statuses`` and ``running`` now; ``accepted``, ``ended``, ``seconds`` and ``waits`` so far."""

    def __init__(self, ledger: ExecutionLedger, clock: Callable[[], float] = time.time) -> None:
        self.statuses = dict.fromkeys(map(str, ExecutionStatus), 0)
        self.running = 0
        self.accepted = 0
        self.ended: Counter[str] = Counter()
        self.seconds = Histogram(BUCKETS)
        self.waits = Histogram(BUCKETS)
        self._ledger = ledger
        self._clock = clock
        self._cursor = StatisticsCursor(clock())
        self._read = float("-inf")
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Read what is new, unless that was done a moment ago. Errors are logged, and reading is tried again later."""
        async with self._lock:
            now = self._clock()
            if 0 <= now - self._read < _CACHE_SECONDS:
                return
            self._read = now
            try:
                if await self._ledger.exists():
                    await self._count(now - _SETTLE_SECONDS)
            except StorageError as error:
                structlog.get_logger("skillwire.executions").error("the ledger failed", error=one_line(error))

    async def _count(self, until: float) -> None:
        for _ in range(_PAGES):
            found = await self._ledger.statistics(self._cursor, until, _AT_ONCE)
            counts = {str(status): number for status, number in found.statuses.items()}
            self.statuses = {status: counts.get(status, 0) for status in self.statuses}
            self.running, self._cursor = found.running, found.cursor
            self.accepted += found.accepted
            for end in found.ended:
                self.ended[end.outcome] += 1
                self.seconds.count(end.took)
                if end.waited is not None:
                    self.waits.count(end.waited)
            if len(found.ended) < _AT_ONCE:
                return
