"""A DHT of many nodes in virtual time: ``python bench/dht_simulation.py [NODES MINUTES]``.

Every minute a fifth of the nodes ends without a word and as many new ones start; a tenth of all datagrams is lost.
Every fifth node announces one skill. Random nodes look for skills whose publishers live and have announced them for
ten seconds. All nodes share a group key, so that a signature costs little; the code is that of a real node.

Without arguments it runs 1,000 nodes for an hour of virtual time, then 100, 200, 400 and 800 nodes for five minutes
each: their datagrams per node and minute, and the round trips of a lookup, give the line that is drawn on to 100,000.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from comparison import Goal, compare
from skillwire.protocols.skill_discovery.dht.node import DhtNode
from skillwire.protocols.skill_discovery.dht.records import DhtOffer, name_key
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.server.run import keep_what_is_loaded
from skillwire.testing.fake_network import FakeNetwork
from skillwire.wire.node import Peer

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.dht.node import Finished

CHURN: Final = 0.2  # of the nodes, in a minute
LOSS: Final = 0.1
BOOTSTRAP: Final = 3  # nodes that do not end
EVERY: Final = 5  # node that announces a skill
ANNOUNCED: Final = 10.0  # seconds after which a skill has to be found
BUDGET: Final = 5.0  # seconds of a lookup
LOOKUPS: Final = 200.0  # in a minute
JOINS: Final = 50.0  # nodes a second at the start
PORT: Final = 40_000
SIZES: Final = (100, 200, 400, 800)


class Outcome(NamedTuple):
    """Of one run: lookups, those that found the live record, their seconds, datagrams per node and minute."""

    lookups: int
    found: int
    seconds: list[float]
    datagrams: float

    @property
    def share(self) -> float:
        """The percentage of lookups that found a live record."""
        return 100 * self.found / max(1, self.lookups)


class Simulation:
    """The nodes, the lookups under way, and what they gave."""

    def __init__(self, nodes: int, seed: int = 21) -> None:
        self.random = Random(seed)  # noqa: S311 - a simulation has to be repeatable
        self.network = FakeNetwork(seed, loss=LOSS, latency=(0.005, 0.06), on_event=self._take)
        self.nodes: dict[str, DhtNode] = {}
        self.since: dict[str, float] = {}  # when each node that announces a skill did so first
        self.looked: dict[tuple[str, int], str] = {}  # who looks, and for whose skill
        self.lookups = self.found = 0
        self.seconds: list[float] = []
        self._key = GroupKey(b"one secret for all of the nodes")
        self._started = 0
        for _ in range(nodes):
            self._start()
            self.network.run(1 / JOINS)

    def run(self, minutes: float) -> Outcome:
        """Let time pass, with nodes that end and start and lookups."""
        network, begun = self.network, self.network.clock.steady
        sent, end = network.sent, begun + minutes * 60
        change, lookup = 60 / (CHURN * len(self.nodes)), 60 / LOOKUPS
        next_change, next_lookup = begun + change, begun + lookup
        while (now := min(next_change, next_lookup)) < end:
            network.run(now - network.clock.steady)
            if now == next_change:
                self._end_one()
                self._start()
                next_change += change
            else:
                self._look()
                next_lookup += lookup
        datagrams = (network.sent - sent) / len(self.nodes) / minutes
        network.run(BUDGET + 1)
        return Outcome(self.lookups, self.found, self.seconds, datagrams)

    def _start(self) -> None:
        number, self._started = self._started, self._started + 1
        host = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        name = f"agent-{number}"
        node = DhtNode(name, identity=self._key, authority=self._key, random=Random(number))  # noqa: S311 - as above
        self.nodes[host] = node
        self.network.add(host, node)
        moment = self.network.moment(host)
        node.bootstrap([Peer(f"10.0.0.{one}", PORT) for one in range(BOOTSTRAP) if one != number], moment)
        if number % EVERY == 0:
            node.offer([DhtOffer(f"skill-{host}", "1.0.0", "tool-skill", f"http://{host}:8000/")], moment)
            self.since[host] = moment.steady
        self.network.tend(host)

    def _end_one(self) -> None:
        host = self.random.choice([host for host in self.nodes if not self._is_bootstrap(host)])
        del self.nodes[host]
        self.since.pop(host, None)
        self.network.crash(host)
        self.looked = {
            asked: publisher for asked, publisher in self.looked.items() if host not in {asked[0], publisher}
        }

    @staticmethod
    def _is_bootstrap(host: str) -> bool:
        return host in {f"10.0.0.{one}" for one in range(BOOTSTRAP)}

    def _look(self) -> None:
        now = self.network.clock.steady
        ready = [host for host, since in self.since.items() if since + ANNOUNCED < now]
        if not ready:
            return
        publisher, asker = self.random.choice(ready), self.random.choice(list(self.nodes))
        number = self.nodes[asker].find([name_key(f"skill-{publisher}")], self.network.moment(asker), BUDGET)
        self.looked[asker, number] = publisher
        self.network.tend(asker)

    def _take(self, host: str, event: Finished) -> None:
        publisher = self.looked.pop((host, event.number), None)
        if publisher is not None:  # a lookup whose asker or publisher ended meanwhile is not counted
            self.lookups += 1
            self.found += any(record.skill_id == f"skill-{publisher}" for record in event.records)
            self.seconds.append(event.seconds)


def simulate(nodes: int, minutes: float) -> Outcome:
    """Run a simulation and print its figures."""
    began = time.perf_counter()
    simulation = Simulation(nodes)
    simulation.network.run(30)
    outcome = simulation.run(minutes)
    p95 = statistics.quantiles(outcome.seconds, n=20)[-1]
    print(
        f"{nodes} nodes, {minutes:g} min: {outcome.found} of {outcome.lookups} lookups found a live record "
        f"({outcome.share:.3f} %), median {statistics.median(outcome.seconds) * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms; "
        f"{outcome.datagrams:.0f} datagrams per node and minute; {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return outcome


def main(nodes: int = 1000, minutes: float = 60.0) -> None:
    """Measure and print."""
    keep_what_is_loaded()
    outcome = simulate(nodes, minutes)
    what = f"DHT: lookups of {nodes} nodes that find a live record, 20 % churn a minute, 10 % loss"
    compare(what, [outcome.share], [100.0], Goal("at least", 0.999), peer="all lookups", unit="%")
    if len(sys.argv) > 1:
        return
    points = [(math.log2(size), simulate(size, 5.0)) for size in SIZES]
    for name, values in (
        ("datagrams per node and minute", [one.datagrams for _, one in points]),
        ("median seconds of a lookup", [statistics.median(one.seconds) for _, one in points]),
    ):
        slope, base = statistics.linear_regression([doublings for doublings, _ in points], values)
        drawn = base + slope * math.log2(100_000)
        print(f"{name} = {base:.3g} + {slope:.3g} log2(nodes): {drawn:.3g} at 100,000 nodes (calculated)")


if __name__ == "__main__":
    main(*(kind(one) for kind, one in zip((int, float), sys.argv[1:], strict=False)))
