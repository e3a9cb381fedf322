"""How many more executions may wait: of one caller, and of all."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import ConflictError

if TYPE_CHECKING:
    from skillwire.ports import ExecutionLedger

#: For how long the numbers of those who wait are taken as they were counted: when they let one in, and when they do
#: not, since executions that have ended are not told of.
_COUNT_SECONDS: Final = 5.0
_FULL_SECONDS: Final = 0.25
_FULL_PAUSE: Final = 10  # seconds until it is worth asking again


class Room:
    """Room for executions that wait or run. The ledger counts them now and then; what is accepted here is added.

    Args:
        ledger: where they are.
        per_caller: how many of one caller there may be.
    """

    def __init__(self, ledger: ExecutionLedger, per_caller: int) -> None:
        self._ledger = ledger
        self._per_caller = per_caller
        self._waiting: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()  # since the last count began
        self._all = 0
        self._counting = asyncio.Lock()
        self._counted = float("-inf")

    @property
    def is_known(self) -> bool:
        """Whether the numbers are of now, or nearly so."""
        return time.monotonic() - self._counted <= _COUNT_SECONDS

    async def look(self, caller: str) -> None:
        """Count again if it is time, or if ``caller`` would be refused by numbers that may be too high.

        Whom the numbers of before let in does not wait for a count of somebody else.
        """
        if self.is_full(caller) or not (self.is_known or self._counting.locked()):
            async with self._counting:
                seconds = _FULL_SECONDS if self.is_full(caller) else _COUNT_SECONDS
                if time.monotonic() - self._counted > seconds:
                    await self._count()

    async def _count(self) -> None:
        self._counted = time.monotonic()
        self._taken.clear()
        counted = await asyncio.to_thread(self._ledger.waiting)
        self._waiting = Counter(counted) + self._taken  # some of these twice, until the next count
        self._all = self._waiting.total()
        self._counted = time.monotonic()

    def is_full(self, caller: str) -> bool:
        """Whether too much waits already, as far as is known."""
        return self._waiting[caller] >= self._per_caller or self._all >= limits.EXECUTION_WAITING_IN_ALL

    def check(self, caller: str) -> None:
        """Refuse when too much waits already.

        Raises:
            ConflictError: ``TOO_MANY_EXECUTIONS``.
        """
        if self._waiting[caller] >= self._per_caller:
            raise too_many(f"{self._waiting[caller]:,} executions of this caller wait already")
        if self._all >= limits.EXECUTION_WAITING_IN_ALL:
            raise too_many("the ledger holds as many executions that wait as it may")

    def take(self, caller: str) -> None:
        """Count one that was accepted."""
        self._waiting[caller] += 1
        self._taken[caller] += 1
        self._all += 1


def too_many(message: str) -> ConflictError:
    """Return the error that sends somebody away for a while."""
    fix = f"Try again in {_FULL_PAUSE} seconds. Whoever runs the server: let more run at once, see [executions]."
    return ConflictError("TOO_MANY_EXECUTIONS", message, fix=fix, details={"retry_after": _FULL_PAUSE})
