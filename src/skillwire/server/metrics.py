"""What the server counts; :mod:`skillwire.server.exposition` tells it.

Counting happens once a request on the event loop, so it is a few additions in plain tables. No label ever holds what
a client sent: a request is counted under the *route* that answered it, one of a fixed set, so strangers cannot make
the tables grow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.server.revision import Revision
    from skillwire.server.watch import Watch

#: What answered: a prepared index, one of a scope, a file, an artifact, Skill Sharing, a page, ``/healthz`` and the
#: like, or nothing.
Route = Literal["index", "scope", "file", "artifact", "sharing", "page", "service", "none"]

#: Upper bounds of the slots that durations are counted in, in seconds; one more holds what is longer.
BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """Counts requests: ``requests`` by route and status, ``bytes`` and ``seconds`` by route, ``slots`` of durations.

    Args:
        current: returns the revision that is served, or None before the first.
        watch: returns whether changes of the folders are followed.
    """

    def __init__(self, current: Callable[[], Revision | None], watch: Callable[[], Watch]) -> None:
        self.current = current
        self.watch = watch
        self.requests: Counter[tuple[Route, int]] = Counter()
        self.bytes: Counter[Route] = Counter()
        self.seconds: Counter[Route] = Counter()
        self.slots: dict[Route, list[int]] = {}

    def count(self, route: Route, status: int, sent: int, seconds: float) -> None:
        """Count one request: what answered it, how, with how many bytes of body, and how long it took."""
        self.requests[route, status] += 1
        self.bytes[route] += sent
        self.seconds[route] += seconds  # type: ignore[assignment]  # Counter is typed for int and adds floats
        slots = self.slots.get(route)
        if slots is None:
            slots = self.slots[route] = [0] * (len(BUCKETS) + 1)
        slots[bisect_left(BUCKETS, seconds)] += 1
