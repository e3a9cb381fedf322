"""What the server counts, in the form of Prometheus.

Counting happens once a request on the event loop, so it is a few additions in plain tables; the library comes in
when someone reads them. No label ever holds what a client sent: a request is counted under the *route* that
answered it, one of a fixed set, so strangers cannot make the tables grow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from skillwire.server.revision import Revision

#: What answered: a prepared index, one of a scope, a file, an artifact, a page, ``/healthz`` and the like, or nothing.
Route = Literal["index", "scope", "file", "artifact", "page", "service", "none"]

_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics(Collector):
    """Counts requests; reads the rest from the current revision when asked.

    Args:
        current: returns the revision that is served, or None before the first.
    """

    def __init__(self, current: Callable[[], Revision | None]) -> None:
        self._current = current
        self._requests: Counter[tuple[Route, int]] = Counter()
        self._bytes: Counter[Route] = Counter()
        self._seconds: Counter[Route] = Counter()
        self._slots: dict[Route, list[int]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def count(self, route: Route, status: int, sent: int, seconds: float) -> None:
        """Count one request: what answered it, how, with how many bytes of body, and how long it took."""
        self._requests[route, status] += 1
        self._bytes[route] += sent
        self._seconds[route] += seconds  # type: ignore[assignment]  # Counter is typed for int and adds floats
        slots = self._slots.get(route)
        if slots is None:
            slots = self._slots[route] = [0] * (len(_BUCKETS) + 1)
        slots[bisect_left(_BUCKETS, seconds)] += 1

    def expose(self) -> bytes:
        """Return everything in the text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield what is exposed; called by the registry."""
        requests = CounterMetricFamily("skillwire_requests", "Requests answered.", labels=["route", "status"])
        for (route, status), number in sorted(self._requests.items()):
            requests.add_metric([route, str(status)], number)
        yield requests
        sent = CounterMetricFamily("skillwire_response_bytes", "Bytes of bodies sent.", labels=["route"])
        for route, size in sorted(self._bytes.items()):
            sent.add_metric([route], size)
        yield sent
        yield self._durations()
        yield from self._catalog()

    def _durations(self) -> Metric:
        family = HistogramMetricFamily("skillwire_request_seconds", "Time to answer a request.", labels=["route"])
        for route, slots in sorted(self._slots.items()):
            total, buckets = 0, []
            for bound, number in zip((*map(str, _BUCKETS), "+Inf"), slots, strict=True):
                total += number
                buckets.append((bound, float(total)))
            family.add_metric([route], buckets, self._seconds[route])
        return family

    def _catalog(self) -> Iterator[Metric]:
        revision = self._current()
        if revision is None:
            return
        for name, text, value in (
            ("catalog_revision", "Rises with each change of what is published.", revision.number),
            ("skills", "Skills that are published.", revision.skills),
            ("broken_skills", "Skill folders that cannot be published as they are.", len(revision.broken)),
        ):
            yield GaugeMetricFamily(f"skillwire_{name}", text, value)
