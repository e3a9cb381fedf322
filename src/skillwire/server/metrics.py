"""What the server counts; :mod:`skillwire.server.prometheus` renders it.

Counting happens once a request on the event loop, so it is a few additions in plain tables. No label ever holds what
a client sent: a request is counted under one of a fixed set of labels, so no client can make the tables grow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What requests are counted as: a prepared index, one of a scope, a file, an artifact, Skill Sharing, an execution,
#: JSON-RPC, MCP, a page, ``/healthz`` and the like, or nothing.
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
