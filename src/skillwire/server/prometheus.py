"""The metrics of the server in the text format of Prometheus.

:data:`METRICS` is the list of all: names and units follow the conventions of Prometheus. Each label has few values,
and no client can choose one. The library takes 2 MiB, so it is imported with the first request for ``/metrics``.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from skillwire.model.access import Access
from skillwire.server.monitoring import Histogram
from skillwire.version import VERSION

if TYPE_CHECKING:
    from skillwire.model.lan import DhtStatus
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.execution_service import ExecutionService
    from skillwire.server.monitoring import ExecutionStats, LanCount, Metrics, ReadinessCheck

_COUNTER, _GAUGE, _HISTOGRAM = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily


class Family(NamedTuple):
    """The type of a metric, what it counts, and the names of its labels."""

    kind: type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]
    text: str
    labels: tuple[str, ...] = ()


#: Name without ``skillwire_`` (counters get ``_total``) → the metric.
METRICS: Final = {
    "build_info": Family(_GAUGE, "1, labelled with the versions of skillwire and Python.", ("version", "python")),
    "requests": Family(_COUNTER, "Requests answered.", ("route", "status")),
    "response_bytes": Family(_COUNTER, "Bytes of bodies sent.", ("route",)),
    "request_seconds": Family(_HISTOGRAM, "Time to answer a request.", ("route",)),
    "watching": Family(_GAUGE, "1 while changes of the folders are followed."),
    "watch_interruptions": Family(_COUNTER, "Times that they were no longer followed."),
    "lost_blobs": Family(_COUNTER, "Blobs that were damaged or missing, and made again."),
    "catalog_revision": Family(_GAUGE, "Rises with each change of what is public."),
    "skills": Family(_GAUGE, "Public skills."),
    "broken_skills": Family(_GAUGE, "Folders of such skills that cannot be published as they are."),
    "registry_lag_changes": Family(_GAUGE, "Changes of the registry that this server does not serve yet."),
    "registry_lag_seconds": Family(_GAUGE, "Time since the oldest of them was noticed."),
    "executions": Family(_GAUGE, "Executions in the ledger, of all skills together.", ("status",)),
    "executions_running": Family(_GAUGE, "Executions that a worker or a person has."),
    "executions_oldest_queued_seconds": Family(_GAUGE, "Age of the oldest execution that waits for a worker."),
    "executions_accepted": Family(_COUNTER, "Executions that were accepted."),
    "executions_ended": Family(_COUNTER, "Executions that have ended.", ("outcome",)),
    "lease_expiries": Family(_COUNTER, "Executions whose worker was lost, noticed by this process."),
    "execution_seconds": Family(_HISTOGRAM, "Time from when an execution was accepted to its end."),
    "execution_wait_seconds": Family(_HISTOGRAM, "Time from when an execution was accepted to when it was begun."),
    "store_wait_seconds": Family(_COUNTER, "Time that writes or calls waited for a turn or a connection."),
    "store_reconnects": Family(_COUNTER, "Connections to the database that were lost."),
    "store_failovers": Family(_COUNTER, "Times that another host of the database was the primary."),
    "store_notifications": Family(_COUNTER, "Notifications that other servers sent."),
    "task_failures": Family(_COUNTER, "Times that a background task failed.", ("task",)),
    "task_failing": Family(_GAUGE, "1 for each background task that does not work now.", ("task",)),
    "lan_skills": Family(_GAUGE, "Skills listed on the local network.", ("status",)),
    "lan_datagrams": Family(_COUNTER, "Datagrams that came."),
    "lan_dropped": Family(_COUNTER, "Datagrams not acted on, and other trouble.", ("reason",)),
    "dht_nodes": Family(_GAUGE, "Nodes in the table."),
    "dht_records": Family(_GAUGE, "Records held for others, tombstones included."),
    "dht_record_bytes": Family(_GAUGE, "Their size."),
    "dht_own_skills": Family(_GAUGE, "Skills that this server announces."),
    "dht_bootstrap_unreachable": Family(_GAUGE, "Configured bootstrap nodes that do not answer."),
    "dht_events": Family(_COUNTER, "What the node did: puts, gets, datagrams, and refusals by reason.", ("event",)),
}


def render_metrics(
    metrics: Metrics,
    catalog: CatalogService,
    executions: ExecutionStats,
    service: ExecutionService,
    readiness: ReadinessCheck,
    *,
    network: LanCount | None,
    dht: DhtStatus | None,
) -> bytes:
    """Return the metrics of the server and of its process; ``network`` and ``dht`` are None without that part."""
    watch, revision = catalog.watch, catalog.current
    values: dict[str, Any] = {
        "build_info": {(VERSION, platform.python_version()): 1},
        "requests": {(route, str(status)): number for (route, status), number in metrics.requests.items()},
        "response_bytes": metrics.bytes,
        "request_seconds": metrics.durations,
        "watching": watch.alive,
        "watch_interruptions": watch.interruptions,
        "lost_blobs": catalog.lost_blobs,
        "executions": executions.statuses,
        "executions_running": executions.running,
        "executions_oldest_queued_seconds": executions.oldest_queued,
        "executions_accepted": executions.accepted,
        "executions_ended": executions.ended,
        "lease_expiries": service.lease_expiries,
        "execution_seconds": executions.seconds,
        "execution_wait_seconds": executions.waits,
        "task_failures": dict(service.background.failures),
        "task_failing": dict.fromkeys(list(service.background.failing), 1),
        **{f"store_{name}": value for name, value in readiness.store.statistics().items()},
    }
    if revision is not None:
        values["catalog_revision"] = revision.catalog.revision
        values["skills"] = revision.skills
        values["broken_skills"] = sum(one.access is Access.PUBLIC for one in revision.broken)
    if readiness.lag is not None:
        values["registry_lag_changes"], values["registry_lag_seconds"] = readiness.lag
    if network is not None:  # without the names of its agents
        values |= {"lan_skills": network.statuses, "lan_datagrams": network.received, "lan_dropped": network.dropped}
    if dht is not None:  # without addresses
        values |= {"dht_nodes": dht.nodes, "dht_records": dht.held, "dht_record_bytes": dht.held_bytes}
        values["dht_own_skills"] = len(dht.own)
        values["dht_bootstrap_unreachable"] = sum(not is_reached for _, is_reached in dht.bootstrap)
        values["dht_events"] = dht.counters

    class ServerMetrics(Collector):
        def collect(self) -> Iterator[Metric]:
            return (_metric(name, values[name]) for name in METRICS if name in values)

    registry = CollectorRegistry()
    registry.register(ServerMetrics())
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _metric(name: str, value: Any) -> Metric:
    """Return the metric with its value: one, or one for each value of the labels."""
    known = METRICS[name]
    family = known.kind(f"skillwire_{name}", known.text, labels=known.labels)
    for labels, number in sorted(value.items()) if isinstance(value, Mapping) else [((), value)]:
        named = labels if isinstance(labels, tuple) else (labels,)
        if isinstance(family, HistogramMetricFamily):
            family.add_metric(named, *_buckets(number))
        else:
            family.add_metric(named, number)
    return family


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Return how many durations are at most each bound, and the sum of all."""
    bounds = (*map(str, histogram.bounds), "+Inf")
    return list(zip(bounds, map(float, accumulate(histogram.slots)), strict=True)), histogram.total
