"""Limits on what waits: executions in the queue, and requests that take long.

A request that waits for a run or uploads a blob holds a connection and little else, so one address could take every
place. Each caller has a share. Anonymous callers of one network have twice that share, since neighbouring addresses
often belong to one person, and all anonymous callers together leave a quarter to authenticated ones. Trust: callers
are untrusted.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import ConflictError, in_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skillwire.ports import Clock, ExecutionLedger


_ANONYMOUS: Final = "address "
_ALL_ANONYMOUS: Final = "anonymous"
#: Bits of the network that an anonymous caller's address belongs to, by IP version.
_NETWORK_BITS: Final = {4: 24, 6: 48}


class ConcurrencyLimit:
    """Bounds requests at one time; ``bounds`` returns how many in all, and of one ``owner`` (a caller's name)."""

    def __init__(self, bounds: Callable[[], tuple[int, int]]) -> None:
        self._bounds = bounds
        self._taken: Counter[str] = Counter()
        self._all = 0

    def has_capacity(self, owner: str) -> bool:
        """Whether ``owner`` may have one more."""
        in_all, of_caller = self._bounds()
        shares = {owner: of_caller}
        if owner.startswith(_ANONYMOUS):
            shares |= {_network_of(owner): 2 * of_caller, _ALL_ANONYMOUS: in_all - in_all // 4}
        return self._all < in_all and all(self._taken[whose] < share for whose, share in shares.items())

    @contextmanager
    def occupy(self, owner: str) -> Iterator[None]:
        """Count one more while the context lasts, whatever the capacity."""
        whose = [owner, _network_of(owner), _ALL_ANONYMOUS] if owner.startswith(_ANONYMOUS) else [owner]
        self._all += 1
        self._taken.update(whose)
        try:
            yield
        finally:
            self._all -= 1
            self._taken.subtract(whose)
            for one in whose:
                if not self._taken[one]:
                    del self._taken[one]


@lru_cache(maxsize=1024)  # callers repeat
def _network_of(owner: str) -> str:
    address = owner.removeprefix(_ANONYMOUS)
    try:
        network = ipaddress.ip_network(address)
    except ValueError:  # the name of a socket
        return f"near {address}"
    return f"near {network.supernet(new_prefix=_NETWORK_BITS[network.version])}"


#: Seconds for which a count is believed: when it lets a caller in, and when it does not, since ends are not noticed
#: between two counts.
_COUNT_SECONDS: Final = 5.0
_FULL_SECONDS: Final = 0.25
_FULL_PAUSE: Final = 10  # seconds until it is worth asking again


class QueueQuota:
    """Bounds executions that wait or run, by periodic counts of the ledger and what was accepted here since."""

    def __init__(self, ledger: ExecutionLedger, per_caller: int, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._per_caller = per_caller
        self._waiting: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()  # since the last count began
        self._all = 0
        self._counting = asyncio.Lock()
        self._counted = float("-inf")

    @property
    def is_known(self) -> bool:
        """Whether the numbers are of now, or nearly so."""
        return self._clock().steady - self._counted <= _COUNT_SECONDS

    async def refresh(self, caller: str) -> None:
        """Count again if it is time, or if ``caller`` would be refused by numbers that may be too high.

        A caller that the last count lets in does not wait for another caller's count.
        """
        if self.is_full(caller) or not (self.is_known or self._counting.locked()):
            async with self._counting:
                seconds = _FULL_SECONDS if self.is_full(caller) else _COUNT_SECONDS
                if self._clock().steady - self._counted > seconds:
                    self._counted = self._clock().steady
                    self._taken.clear()
                    counted = await self._ledger.waiting()
                    self._waiting = Counter(counted) + self._taken  # some of these twice, until the next count
                    self._all = self._waiting.total()
                    self._counted = self._clock().steady

    def is_full(self, caller: str) -> bool:
        """Whether too much waits already, as far as is known."""
        return self._waiting[caller] >= self._per_caller or self._all >= limits.EXECUTION_WAITING_IN_ALL

    def check(self, caller: str) -> None:
        """Refuse when too much waits already. Raises ConflictError (``TOO_MANY_EXECUTIONS``)."""
        if self._waiting[caller] >= self._per_caller:
            raise queue_full_error(f"{self._waiting[caller]:,} executions of this caller wait already")
        if self._all >= limits.EXECUTION_WAITING_IN_ALL:
            raise queue_full_error("the ledger holds as many executions that wait as it may")

    def take(self, caller: str) -> None:
        """Count one that was accepted."""
        self._waiting[caller] += 1
        self._taken[caller] += 1
        self._all += 1


def queue_full_error(message: str) -> ConflictError:
    """Return the error that asks the caller to try again later."""
    pause = in_seconds(_FULL_PAUSE)
    fix = f"Try again in {pause}. The operator of the server can let more run at once, see [executions]."
    return ConflictError("TOO_MANY_EXECUTIONS", message, fix=fix, details={"retry_after": _FULL_PAUSE})
