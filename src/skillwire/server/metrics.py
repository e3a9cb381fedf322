"""What the server counts; :mod:`skillwire.server.metrics` tells it.

Counting happens once a request on the event loop, so it is a few additions in plain tables. No label ever holds what
a client sent: a request is counted under the *route* that answered it, one of a fixed set, so strangers cannot make
the tables grow.

What the server counts, as the text that Prometheus reads.

The library takes 2 MiB and is imported with the first request for that text: a server that nobody watches never pays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from skillwire.model.access import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from skillwire.server.catalog_service import Watch
    from skillwire.server.execution_stats import ExecutionStats
    from skillwire.server.revision import Revision


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


class LanCounters(Protocol):
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
        executions: ExecutionStats | None = None,
        lan: LanCounters | None = None,
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


def render_metrics(metrics: Metrics) -> bytes:
    """Return ``metrics``, and what the system tells of this process."""
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(metrics))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _MetricsCollector(Collector):
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
        durations = HistogramMetricFamily("skillwire_request_seconds", "Time to answer a request.", labels=["route"])
        for route, histogram in sorted(self._metrics.durations.items()):
            durations.add_metric([route], *_histogram(histogram))
        yield durations
        watch = self._metrics.watch()
        yield GaugeMetricFamily("skillwire_watching", "1 while changes of the folders are followed.", watch.alive)
        interruptions = CounterMetricFamily("skillwire_watch_interruptions", "Times that they were no longer followed.")
        interruptions.add_metric([], watch.interruptions)
        yield interruptions
        revision = self._metrics.current()
        if revision is not None:
            yield from _catalog(revision)
        if self._metrics.executions is not None:
            yield from _executions(self._metrics.executions)
        if self._metrics.network is not None:
            yield from _network(self._metrics.network)


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
    figures.look()
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
