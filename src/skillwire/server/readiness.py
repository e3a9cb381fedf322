"""Whether the server can serve and store: the disk, the schema, and how far it is behind the registry.

Probes are public and may come often, so each look serves all probes of the next seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, Protocol

from skillwire import limits
from skillwire.errors import StorageError

_LOOK_SECONDS: Final = 2.0


class StoreHealth(Protocol):
    """What a database reports about itself; :class:`skillwire.adapters.sql.connection.Database` fills it."""

    def statistics(self) -> Mapping[str, float]:
        """Return totals since the start: ``wait_seconds``, ``reconnects``, ``failovers``, ``notifications``."""

    async def find_obstacle(self) -> str:
        """Return why a write would fail now, such as a full disk or a pending migration; empty when nothing is known.

        Raises StorageError.
        """


class Lag(NamedTuple):
    """Changes of the registry that are not served here, and the seconds since the oldest of them was noticed."""

    changes: int
    seconds: float


class ReadinessCheck:
    """Looks at ``store``, and compares ``revision`` of the registry with the one that is ``reached`` here."""

    def __init__(
        self,
        store: StoreHealth,
        clock: Callable[[], float],
        reached: Callable[[], int] = int,
        revision: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self.store = store
        self.lag: Lag | None = None
        self.obstacle = ""
        self._clock = clock
        self._reached = reached
        self._revision = revision
        self._target = 0
        self._since = 0.0
        self._looked = float("-inf")
        self._lock = asyncio.Lock()

    @property
    def is_stale(self) -> bool:
        """Whether the server has been behind the registry for too long."""
        return self.lag is not None and self.lag.seconds > limits.REGISTRY_STALE_SECONDS

    async def look(self) -> None:
        """Look again, unless that was done a moment ago."""
        async with self._lock:
            if self._clock() - self._looked < _LOOK_SECONDS:
                return
            try:
                async with asyncio.timeout(limits.READINESS_SECONDS):
                    self.obstacle = await self.store.find_obstacle()
                    if self._revision is not None:
                        self._compare(self._reached(), await self._revision())
            except StorageError as error:
                self.obstacle = f"the database fails: {error.message}"
            except TimeoutError:
                self.obstacle = f"the database fails: no answer within {limits.READINESS_SECONDS} s"
            self._looked = self._clock()

    def _compare(self, reached: int, revision: int) -> None:
        """Note how far the server is behind ``revision``, and since when it has been behind what was known then."""
        now = self._clock()
        if reached >= min(self._target, revision):  # a database that went back has less than what was known
            self._target, self._since = revision, now
        self.lag = Lag(max(0, revision - reached), now - self._since if reached < self._target else 0.0)
