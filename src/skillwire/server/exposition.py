"""What the server counts, as the text that Prometheus reads.

The library takes 2 MiB and is imported with the first request for that text: a server that nobody watches never pays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from skillwire.model.access import Access
from skillwire.server.metrics import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from skillwire.server.metrics import Metrics
    from skillwire.server.revision import Revision


def expose(metrics: Metrics) -> bytes:
    """Return ``metrics``, and what the system tells of this process."""
    registry = CollectorRegistry()
    registry.register(_Counted(metrics))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Counted(Collector):
    """Gives the library what ``metrics`` holds."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield all of it."""
        requests = CounterMetricFamily("skillwire_requests", "Requests answered.", labels=["route", "status"])
        for (route, status), number in sorted(self._metrics.requests.items()):
            requests.add_metric([route, str(status)], number)
        yield requests
        sent = CounterMetricFamily("skillwire_response_bytes", "Bytes of bodies sent.", labels=["route"])
        for route, size in sorted(self._metrics.bytes.items()):
            sent.add_metric([route], size)
        yield sent
        yield self._durations()
        watch = self._metrics.watch()
        yield GaugeMetricFamily("skillwire_watching", "1 while changes of the folders are followed.", watch.alive)
        interruptions = CounterMetricFamily("skillwire_watch_interruptions", "Times that they were no longer followed.")
        interruptions.add_metric([], watch.interruptions)
        yield interruptions
        revision = self._metrics.current()
        if revision is not None:
            yield from _catalog(revision)

    def _durations(self) -> Metric:
        family = HistogramMetricFamily("skillwire_request_seconds", "Time to answer a request.", labels=["route"])
        for route, slots in sorted(self._metrics.slots.items()):
            total, buckets = 0, []
            for bound, number in zip((*map(str, BUCKETS), "+Inf"), slots, strict=True):
                total += number
                buckets.append((bound, float(total)))
            family.add_metric([route], buckets, self._metrics.seconds[route])
        return family


def _catalog(revision: Revision) -> Iterator[Metric]:
    broken = sum(one.access is Access.PUBLIC for one in revision.broken)
    for name, text, value in (
        ("catalog_revision", "Rises with each change of what everybody may know of.", revision.catalog.revision),
        ("skills", "Skills that are open to everybody.", revision.skills),
        ("broken_skills", "Folders of such skills that cannot be published as they are.", broken),
    ):
        yield GaugeMetricFamily(f"skillwire_{name}", text, value)
