"""What a server reports of itself: whether it is ready, and what it counts.

Readiness is the disk, the schema, and how far the server is behind the registry. Probes are public and may come often,
so each look serves all probes of the next seconds.

Requests are counted on the event loop, so it is a few additions in plain tables; :mod:`skillwire.server.prometheus`
renders them. No label ever holds what a client sent: a request is counted under one of a fixed set of labels, so no
client can make the tables grow. Statistics of executions are read from the ledger when metrics are asked for, at most
every few seconds, so accepting and running executions costs nothing more. Ends of the last seconds are left for the
next reading, because two ends may be stored in another order than they happened. When the wall clock is set back, ends
are not counted until it has caught up.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import structlog

from skillwire import limits
from skillwire.errors import StorageError, one_line
from skillwire.model.execution import ExecutionStatus, StatisticsCursor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.ports import ExecutionLedger


_LOOK_SECONDS: Final = 2.0


class StoreHealth(Protocol):
    """What a database reports about itself; :class:`skillwire.adapters.sql.Database` fills it."""

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


#: Label of a request in the metrics. ``index`` is a prepared index and ``scope`` one of a scope. ``service`` is
#: another route, such as ``/healthz``, OpenAPI or the registry. ``none`` is a request without a route.
RouteLabel = Literal[
    "index", "scope", "file", "artifact", "sharing", "execution", "rpc", "mcp", "page", "service", "none"
]

#: Upper bounds of the slots that durations are counted in, in seconds; one more holds what is longer.
BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Histogram:
    """Durations in slots between ``bounds``, upper ones, in seconds; one more slot holds what is longer."""

    __slots__ = ("bounds", "slots", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.slots = [0] * (len(bounds) + 1)
        self.total = 0.0

    def count(self, seconds: float) -> None:
        """Count one duration."""
        self.slots[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


class LanCount(NamedTuple):
    """Metrics of the network: skills by status, datagrams received, and those dropped and other failures by reason."""

    statuses: Mapping[str, int]
    received: int
    dropped: Mapping[str, int]


class Metrics:
    """Counts requests: ``requests`` by label and status, ``bytes`` and ``durations`` by label."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[RouteLabel, int]] = Counter()
        self.bytes: Counter[RouteLabel] = Counter()
        self.durations: dict[RouteLabel, Histogram] = {}

    def count(self, label: RouteLabel, status: int, sent: int, seconds: float) -> None:
        """Count one request: what answered it, how, with how many bytes of body, and how long it took."""
        self.requests[label, status] += 1
        self.bytes[label] += sent
        durations = self.durations.get(label)
        if durations is None:
            durations = self.durations[label] = Histogram(BUCKETS)
        durations.count(seconds)


#: Upper bounds of the buckets, in seconds: from a function of this process to a task of a person.
EXECUTION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
_CACHE_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 5.0
_AT_ONCE: Final = 5_000
#: How many pages of ends one refresh reads; the rest comes with the next.
_PAGES: Final = 20


class ExecutionStats:
    """Counts: ``statuses`` and ``running`` now; ``accepted``, ``ended``, ``seconds`` and ``waits`` so far.

    ``oldest_queued`` is the age, in seconds, of the oldest execution that waits for a worker.
    """

    def __init__(self, ledger: ExecutionLedger, clock: Callable[[], float] = time.time) -> None:
        self.statuses = dict.fromkeys(map(str, ExecutionStatus), 0)
        self.running = 0
        self.oldest_queued = 0.0
        self.accepted = 0
        self.ended: Counter[str] = Counter()
        self.seconds = Histogram(EXECUTION_BUCKETS)
        self.waits = Histogram(EXECUTION_BUCKETS)
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
            self.oldest_queued = 0.0 if found.oldest is None else max(0.0, self._clock() - found.oldest)
            self.accepted += found.accepted
            for end in found.ended:
                self.ended[end.outcome] += 1
                self.seconds.count(end.took)
                if end.waited is not None:
                    self.waits.count(end.waited)
            if len(found.ended) < _AT_ONCE:
                return
