"""The metrics of the server in the text format of Prometheus.

The library takes 2 MiB, so it is imported with the first request for ``/metrics``.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from skillwire.model.access import Access

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.model.dht import DhtStatus
    from skillwire.server.background import BackgroundTasks
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.metrics import ExecutionStats, Histogram, LanCount, Metrics


def render_metrics(
    metrics: Metrics,
    catalog: CatalogService,
    executions: ExecutionStats,
    background: BackgroundTasks,
    *,
    network: LanCount | None,
    dht: DhtStatus | None,
) -> bytes:
    """Return the metrics of the server and of its process; ``network`` and ``dht`` are None without that part."""

    class ServerMetrics(Collector):
        def collect(self) -> Iterator[Metric]:
            requests = CounterMetricFamily("skillwire_requests", "Requests answered.", labels=["route", "status"])
            for (route, status), number in sorted(metrics.requests.items()):
                requests.add_metric([route, str(status)], number)
            yield requests
            yield _labelled(CounterMetricFamily, "response_bytes", "Bytes of bodies sent.", "route", metrics.bytes)
            durations = HistogramMetricFamily(
                "skillwire_request_seconds", "Time to answer a request.", labels=["route"]
            )
            for route, histogram in sorted(metrics.durations.items()):
                durations.add_metric([route], *_histogram(histogram))
            yield durations
            watch, revision = catalog.watch, catalog.current
            yield GaugeMetricFamily("skillwire_watching", "1 while changes of the folders are followed.", watch.alive)
            yield CounterMetricFamily(
                "skillwire_watch_interruptions", "Times that they were no longer followed.", watch.interruptions
            )
            text = "Blobs that were damaged or missing, and made again."
            yield CounterMetricFamily("skillwire_lost_blobs", text, catalog.lost_blobs)
            if revision is not None:
                broken = sum(one.access is Access.PUBLIC for one in revision.broken)
                for name, text, value in (
                    ("catalog_revision", "Rises with each change of what is public.", revision.catalog.revision),
                    ("skills", "Public skills.", revision.skills),
                    ("broken_skills", "Folders of such skills that cannot be published as they are.", broken),
                ):
                    yield GaugeMetricFamily(f"skillwire_{name}", text, value)
            # Of the executions of all skills together, so that no skill is named.
            yield _labelled(GaugeMetricFamily, "executions", "Executions in the ledger.", "status", executions.statuses)
            yield GaugeMetricFamily(
                "skillwire_executions_running", "Executions that a worker or a person has.", executions.running
            )
            yield CounterMetricFamily(
                "skillwire_executions_accepted", "Executions that were accepted.", executions.accepted
            )
            yield _labelled(
                CounterMetricFamily, "executions_ended", "Executions that have ended.", "outcome", executions.ended
            )
            for name, text, histogram in (
                ("execution", "Time from when an execution was accepted to its end.", executions.seconds),
                ("execution_wait", "Time from when an execution was accepted to when it was begun.", executions.waits),
            ):
                buckets, total = _histogram(histogram)
                yield HistogramMetricFamily(f"skillwire_{name}_seconds", text, buckets=buckets, sum_value=total)
            text = "Times that a background task failed."
            yield _labelled(CounterMetricFamily, "task_failures", text, "task", dict(background.failures))
            text = "1 for each background task that does not work now."
            yield _labelled(GaugeMetricFamily, "task_failing", text, "task", dict.fromkeys(list(background.failing), 1))
            if network is not None:  # without the names of its agents
                yield _labelled(
                    GaugeMetricFamily, "lan_skills", "Skills listed on the local network.", "status", network.statuses
                )
                yield CounterMetricFamily("skillwire_lan_datagrams", "Datagrams that came.", network.received)
                text = "Datagrams not acted on, and other trouble."
                yield _labelled(CounterMetricFamily, "lan_dropped", text, "reason", network.dropped)
            if dht is not None:  # without addresses
                silent = sum(not is_reached for _, is_reached in dht.bootstrap)
                for name, text, value in (
                    ("nodes", "Nodes in the table.", dht.nodes),
                    ("records", "Records held for others, tombstones included.", dht.held),
                    ("record_bytes", "Their size.", dht.held_bytes),
                    ("own_skills", "Skills that this server announces.", len(dht.own)),
                    ("bootstrap_unreachable", "Configured bootstrap nodes that do not answer.", silent),
                ):
                    yield GaugeMetricFamily(f"skillwire_dht_{name}", text, value)
                text = "What the node did: puts, gets, datagrams, and refusals by reason."
                yield _labelled(CounterMetricFamily, "dht_events", text, "event", dht.counters)

    registry = CollectorRegistry()
    registry.register(ServerMetrics())
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _labelled(
    kind: type[CounterMetricFamily | GaugeMetricFamily], name: str, text: str, label: str, values: Mapping[Any, float]
) -> Metric:
    family = kind(f"skillwire_{name}", text, labels=[label])
    for value, number in sorted(values.items()):
        family.add_metric([value], number)
    return family


def _histogram(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Return how many durations are at most each bound, and the sum of all."""
    bounds = (*map(str, histogram.bounds), "+Inf")
    return list(zip(bounds, map(float, accumulate(histogram.slots)), strict=True)), histogram.total
