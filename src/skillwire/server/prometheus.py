"""What the server counts, in the text format of Prometheus.

The library takes 2 MiB, so it is imported with the first request for ``/metrics``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from skillwire.model.access import Access

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.execution_stats import ExecutionStats
    from skillwire.server.metrics import Histogram, LanCount, Metrics
    from skillwire.server.revision import Revision


def render_metrics(
    metrics: Metrics, catalog: CatalogService, executions: ExecutionStats, network: LanCount | None
) -> bytes:
    """Return what the server and the system count of this process; ``network`` is None without a local network."""
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(metrics, catalog, executions, network))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _MetricsCollector(Collector):
    def __init__(
        self, metrics: Metrics, catalog: CatalogService, executions: ExecutionStats, network: LanCount | None
    ) -> None:
        self._metrics = metrics
        self._catalog = catalog
        self._executions = executions
        self._network = network

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
        durations = HistogramMetricFamily("skillwire_request_seconds", "Time to answer a request.", labels=["route"])
        for route, histogram in sorted(self._metrics.durations.items()):
            durations.add_metric([route], *_histogram(histogram))
        yield durations
        watch = self._catalog.watch
        yield GaugeMetricFamily("skillwire_watching", "1 while changes of the folders are followed.", watch.alive)
        interruptions = CounterMetricFamily("skillwire_watch_interruptions", "Times that they were no longer followed.")
        interruptions.add_metric([], watch.interruptions)
        yield interruptions
        if self._catalog.current is not None:
            yield from _catalog(self._catalog.current)
        yield from _executions(self._executions)
        if self._network is not None:
            yield from _network(self._network)


def _network(counted: LanCount) -> Iterator[Metric]:
    """Yield what is counted on the local network; nobody on it is named."""
    skills = GaugeMetricFamily("skillwire_lan_skills", "Skills listed on the local network.", labels=["status"])
    for status, number in sorted(counted.statuses.items()):
        skills.add_metric([status], number)
    yield skills
    yield CounterMetricFamily("skillwire_lan_datagrams", "Datagrams that came.", counted.received)
    dropped = CounterMetricFamily(
        "skillwire_lan_dropped", "Datagrams not acted on, and other trouble.", labels=["reason"]
    )
    for reason, number in sorted(counted.dropped.items()):
        dropped.add_metric([reason], number)
    yield dropped


def _executions(figures: ExecutionStats) -> Iterator[Metric]:
    """Yield what is counted of executions; of all skills together, so that none is named."""
    statuses = GaugeMetricFamily("skillwire_executions", "Executions in the ledger.", labels=["status"])
    for status, number in figures.statuses.items():
        statuses.add_metric([status], number)
    yield statuses
    yield GaugeMetricFamily(
        "skillwire_executions_running", "Executions that a worker or a person has.", figures.running
    )
    yield CounterMetricFamily("skillwire_executions_accepted", "Executions that were accepted.", figures.accepted)
    ended = CounterMetricFamily("skillwire_executions_ended", "Executions that have ended.", labels=["outcome"])
    for outcome, number in sorted(figures.ended.items()):
        ended.add_metric([outcome], number)
    yield ended
    for name, text, histogram in (
        ("execution", "Time from when an execution was accepted to its end.", figures.seconds),
        ("execution_wait", "Time from when an execution was accepted to when it was begun.", figures.waits),
    ):
        buckets, total = _histogram(histogram)
        yield HistogramMetricFamily(f"skillwire_{name}_seconds", text, buckets=buckets, sum_value=total)


def _histogram(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Return how many durations are at most each bound, and the sum of all."""
    total, buckets = 0, []
    for bound, number in zip((*map(str, histogram.bounds), "+Inf"), histogram.slots, strict=True):
        total += number
        buckets.append((bound, float(total)))
    return buckets, histogram.total


def _catalog(revision: Revision) -> Iterator[Metric]:
    broken = sum(one.access is Access.PUBLIC for one in revision.broken)
    for name, text, value in (
        ("catalog_revision", "Rises with each change of what everybody may know of.", revision.catalog.revision),
        ("skills", "Skills that are open to everybody.", revision.skills),
        ("broken_skills", "Folders of such skills that cannot be published as they are.", broken),
    ):
        yield GaugeMetricFamily(f"skillwire_{name}", text, value)
