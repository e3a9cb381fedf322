"""The network of tests: what arrives, when, where, and that it is the same again."""

from collections.abc import Sequence
from random import Random

import pytest
from tests.support.lan import GROUP_KEY

from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.node import DiscoveryNode
from skillwire.testing.fake_network import EPOCH, FakeNetwork, VirtualClock
from skillwire.wire.node import Datagram, Node, Peer


class Caller:
    """A node that sends something each second, and keeps what it hears."""

    def __init__(self, to: Peer | None = None, *, is_silent: bool = False) -> None:
        self.to, self.next, self.heard = to, None if is_silent else 1.0, list[tuple[float, float, bytes, Peer]]()

    def receive(self, data: bytes, source: Peer, now: Moment) -> None:
        self.heard.append((now.steady, now.wall, data, source))

    def datagrams_to_send(self, now: Moment) -> Sequence[Datagram]:
        return [Datagram(f"{now.steady}".encode(), self.to)]

    def events(self, now: Moment) -> Sequence[str]:  # noqa: ARG002 - the form of a node
        return [f"heard {len(self.heard)}"] if self.heard else []

    def timer(self) -> float | None:
        return self.next

    def on_timer(self, now: Moment) -> None:
        self.next = now.steady + 1


def lines(network, count=3, **options):
    """Put some callers into the group."""
    callers = [Caller() for _ in range(count)]
    for number, caller in enumerate(callers):
        network.add(f"10.0.0.{number + 1}", caller, is_in_group=True, **options)
    return callers


def test_time_passes_when_it_is_told_to():
    clock = VirtualClock()
    clock.move_to(5.0)
    clock.move_to(3.0)
    assert clock.moment(-2.0) == (EPOCH + 3.0, 5.0, "")


def test_what_is_sent_to_the_group_reaches_everybody_in_it_and_what_is_sent_to_one_nobody_else():
    network = FakeNetwork(1)
    callers = lines(network)
    network.add("10.0.0.9", alone := Caller(Peer("10.0.0.1", 40_000)))
    network.run(1.5)
    assert [len(caller.heard) for caller in (*callers, alone)] == [4, 3, 3, 0]
    assert {source.host for *_, source in callers[0].heard} == {f"10.0.0.{number}" for number in (1, 2, 3, 9)}
    assert all(1.0 < at < 1.01 for at, *_ in callers[0].heard)


def test_a_datagram_for_another_port_or_nobody_reaches_nobody():
    network = FakeNetwork(1)
    network.add("10.0.0.1", Caller(Peer("10.0.0.2", 9)))
    network.add("10.0.0.2", heard := Caller(Peer("10.0.0.3", 40_000)))
    network.run(5)
    assert heard.heard == []
    assert network.sent == 10


@pytest.mark.parametrize(
    ("loss", "duplication", "low", "high"), [(0.3, 0.0, 0.6, 0.8), (0.0, 0.5, 1.7, 2.2), (1, 0, 0, 0)]
)
def test_loss_and_duplication_are_the_shares_that_were_asked_for(loss, duplication, low, high):
    network = FakeNetwork(4, loss=loss, duplication=duplication)
    lines(network, 2)
    network.run(500.5)
    assert low <= network.delivered / (2 * network.sent) <= high


def test_what_was_sent_later_may_arrive_earlier():
    network = FakeNetwork(1, latency=(0.0, 5.0))
    (caller,) = lines(network, 1)
    network.run(60)
    sent = [float(data) for _, _, data, _ in caller.heard]
    assert sent != sorted(sent)


def test_partitions_crashes_and_clocks():
    network = FakeNetwork(1)
    first, second, third = lines(network, skew=7.0)
    network.partition(["10.0.0.1"])
    network.run(1.5)
    assert [len(caller.heard) for caller in (first, second, third)] == [1, 2, 2]
    assert not network.reaches("10.0.0.1", "10.0.0.2")
    network.heal()
    network.crash("10.0.0.3")
    network.run(1)
    assert [len(caller.heard) for caller in (first, second, third)] == [3, 4, 2]
    assert network.reaches("10.0.0.1", "10.0.0.2")
    assert not network.reaches("10.0.0.1", "10.0.0.3")
    at, wall, *_ = first.heard[0]
    assert wall == EPOCH + at + 7.0


def test_events_are_told_with_the_host_and_actions_done_in_time():
    told: list[tuple[str, str]] = []
    network = FakeNetwork(1, on_event=lambda host, event: told.append((host, event)))
    network.add("10.0.0.1", Caller(is_silent=True))
    network.at(2.0, lambda: network.inject(b"x", Peer("10.0.0.7", 1), "10.0.0.1"))
    network.run(1.9)
    assert told == []
    network.run(0.1)
    assert told == [("10.0.0.1", "heard 1")]


def test_a_run_can_be_had_again_from_its_seed():
    def run(seed):
        network = FakeNetwork(seed, loss=0.3, duplication=0.2, latency=(0.0, 2.0))
        callers = lines(network)
        network.run(30)
        return [caller.heard for caller in callers]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_the_node_of_skill_discovery_has_the_form_of_a_node() -> None:
    random = Random(1)  # noqa: S311 - nothing is secret here
    node: Node[object] = DiscoveryNode("agent-001", identity=GROUP_KEY, authority=GROUP_KEY, random=random)
    assert node.timer() is None
