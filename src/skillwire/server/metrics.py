"""What the server counts; :mod:`skillwire.server.exposition` tells it.

Counting happens once a request on the event loop, so it is a few additions in plain tables. No label ever holds what
a client sent: a request is counted under the *route* that answered it, one of a fixed set, so strangers cannot make
the tables grow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.server.invocation.figures import Figures
    from skillwire.server.revision import Revision
    from skillwire.server.watch import Watch

#: What answered: a prepared index, one of a scope, a file, an artifact, Skill Sharing, an execution, JSON-RPC, MCP, a
#: page, ``/healthz`` and the like, or nothing.
Route = Literal["index", "scope", "file", "artifact", "sharing", "execution", "rpc", "mcp", "page", "service", "none"]

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
    """What is counted on the local network.

    Args:
        statuses: how many skills are listed, ours among them, by status.
        received: datagrams that came.
        dropped: those of them that were not acted on, and what else went wrong, by reason.
    """

    statuses: Mapping[str, int]
    received: int
    dropped: Mapping[str, int]


class LanFigures(Protocol):
    """Counts what is on the local network."""

    def count(self) -> LanCount | None:
        """Return what is counted by now; None while there is no network. On the event loop."""


class Metrics:
    """Counts requests: ``requests`` by route and status, ``bytes`` and ``durations`` by route.

    Args:
        current: returns the revision that is served, or None before the first.
        watch: returns whether changes of the folders are followed.
        executions: what is counted of executions; None where there are none.
        lan: what is counted on the local network; None where the server is not on it.
    """

    def __init__(
        self,
        current: Callable[[], Revision | None],
        watch: Callable[[], Watch],
        executions: Figures | None = None,
        lan: LanFigures | None = None,
    ) -> None:
        self.current = current
        self.watch = watch
        self.executions = executions
        self.network: LanCount | None = None
        self._lan = lan
        self.requests: Counter[tuple[Route, int]] = Counter()
        self.bytes: Counter[Route] = Counter()
        self.durations: dict[Route, Histogram] = {}

    def look(self) -> None:
        """Look at what others count who live on the event loop, before all of it is exposed elsewhere."""
        self.network = None if self._lan is None else self._lan.count()

    def count(self, route: Route, status: int, sent: int, seconds: float) -> None:
        """Count one request: what answered it, how, with how many bytes of body, and how long it took."""
        self.requests[route, status] += 1
        self.bytes[route] += sent
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Histogram(BUCKETS)
        durations.count(seconds)
