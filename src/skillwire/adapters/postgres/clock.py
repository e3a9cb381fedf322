"""The time of a shared database, for the servers that share it.

Leases and deadlines are compared by several machines, whose clocks differ. So the time is that of the database: its
distance from the local steady clock is measured at the start, every minute and after each lost connection. What the
local wall clock shows changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.connection import Connection
from skillwire.errors import StorageError
from skillwire.model.execution import Moment

#: The start of the clock, the same in all servers.
BOOT: Final = "postgresql"
#: Seconds between two measurements, and between two looks whether a connection was lost.
_MEASURED_SECONDS: Final = 60.0
_LOOK: Final = 1.0
#: How often one measurement asks; the quickest answer counts.
_TRIES: Final = 3
_NOW: Final = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"
#: It goes on while a machine sleeps, which time.monotonic does not everywhere.
_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class PostgresClock:
    """Fills :class:`skillwire.ports.Clock`; ``steady`` returns the seconds of a local clock that is never set."""

    def __init__(
        self, database: PostgresDatabase, steady: Callable[[], float] = lambda: time.clock_gettime(_STEADY)
    ) -> None:
        self._database = database
        self._steady = steady
        self._offset: float | None = None

    def __call__(self) -> Moment:
        if self._offset is None:
            raise RuntimeError("the clock of the database was not measured yet")
        now = self._steady() + self._offset
        return Moment(now, now, BOOT)

    async def measure(self) -> None:
        """Measure the clock of the database. Raises StorageError (``DATABASE``)."""

        async def ask(connection: Connection) -> tuple[float, float]:
            best = float("inf"), 0.0
            for _ in range(_TRIES):
                began = self._steady()
                there: float = await connection.value(_NOW)
                took = self._steady() - began
                best = min(best, (took, there - began - took / 2))
            return best

        self._offset = (await self._database.read(ask))[1]

    async def keep(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Measure every minute and after each lost connection, until it is cancelled."""
        counters, measured, lost = self._database.counters, self._steady(), -1
        while True:
            await sleep(_LOOK)
            if self._steady() - measured >= _MEASURED_SECONDS or counters.reconnects != lost:
                lost = counters.reconnects
                try:
                    await self.measure()
                except StorageError:  # it is measured when the database is back
                    lost = -1
                measured = self._steady()
