"""A simulated network for nodes: loss, duplicates, reordering, partitions, crashes, clock skew; without waiting.

    network = FakeNetwork(seed=1, loss=0.3)
    network.add("192.168.1.10", node, is_in_group=True)
    network.run(60)

The seed makes a run repeatable. A datagram to the group reaches every member on the same side of a partition, its
sender included, as with sockets. Events go to ``on_event`` with their host.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from skillwire.model.execution import Moment
from skillwire.wire.node import Datagram, Node, Peer

#: The start of virtual time, in seconds since the epoch: the registration of SDP 2.1.
EPOCH = 1_707_868_800.0


class VirtualClock:
    """Time as a number, starting at ``epoch`` by its wall clock."""

    def __init__(self, epoch: float = EPOCH) -> None:
        self.epoch = epoch
        self.steady = 0.0

    def moment(self, skew: float = 0.0) -> Moment:
        """Return the time, by a wall clock that is ``skew`` seconds ahead."""
        return Moment(self.epoch + self.steady + skew, self.steady)

    def move_to(self, steady: float) -> None:
        """Set the time to ``steady`` seconds after the start, never back."""
        self.steady = max(self.steady, steady)


_PORT = 40_000


@dataclass(slots=True)
class _Host:
    """One machine with one node; ``due``: its timer's time, other timers in the queue are ignored."""

    peer: Peer
    node: Node[Any]
    is_in_group: bool
    skew: float
    due: float | None = None


class FakeNetwork:
    """Carries datagrams between nodes, and gives them the time.

    Args:
        seed: of all random choices.
        loss: share of datagrams that never arrive.
        duplication: share that arrives twice.
        latency: shortest and longest delay in seconds; a later datagram may arrive earlier.
        on_event: called with each event of a node and its host.
    """

    def __init__(
        self,
        seed: int,
        *,
        loss: float = 0.0,
        duplication: float = 0.0,
        latency: tuple[float, float] = (0.0002, 0.003),
        on_event: Callable[[str, Any], object] = lambda *_: None,
    ) -> None:
        self.clock = VirtualClock()
        self.loss = loss
        self.duplication = duplication
        self.latency = latency
        self.on_event = on_event
        self.sent = 0
        self.delivered = 0
        self._random = Random(seed)  # noqa: S311 - a simulation has to be repeatable
        self._hosts: dict[str, _Host] = {}
        self._group: list[_Host] = []
        self._sides: dict[str, int] = {}
        self._numbers = count()
        self._queue: list[tuple[float, int, Callable[[], object]]] = []

    def add(self, host: str, node: Node[Any], *, is_in_group: bool = False, skew: float = 0.0) -> Peer:
        """Put a node at a free IP address; return its peer. ``skew``: seconds that its wall clock is ahead."""
        found = self._hosts[host] = _Host(Peer(host, _PORT), node, is_in_group, skew)
        if is_in_group:
            self._group.append(found)
        self.tend(host)
        return found.peer

    def crash(self, host: str) -> None:
        """Remove a node at once, as after a power failure."""
        found = self._hosts.pop(host)
        if found.is_in_group:
            self._group.remove(found)

    def partition(self, *sides: Collection[str]) -> None:
        """Connect the hosts of each side only with each other; those of no side stay together."""
        self._sides = {host: number for number, hosts in enumerate(sides, 1) for host in hosts}

    def heal(self) -> None:
        """Connect all hosts."""
        self._sides = {}

    def reaches(self, host: str, other: str) -> bool:
        """Whether both hosts exist, on one side."""
        return {host, other} <= self._hosts.keys() and self._sides.get(host, 0) == self._sides.get(other, 0)

    def moment(self, host: str) -> Moment:
        """Return the time at a host."""
        return self.clock.moment(self._hosts[host].skew)

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Call ``action`` after ``seconds``."""
        heappush(self._queue, (self.clock.steady + seconds, next(self._numbers), action))

    def inject(self, data: bytes, source: Peer, host: str) -> None:
        """Deliver a datagram to a host now, with any source address."""
        self._deliver(self._hosts[host], data, source)

    def tend(self, host: str) -> None:
        """Handle events and timer of a node after a direct call to it."""
        self._tend(self._hosts[host])

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.clock.steady + seconds
        while self._queue and self._queue[0][0] <= end:
            due, _, action = heappop(self._queue)
            self.clock.move_to(due)
            action()
        self.clock.move_to(end)

    def _tend(self, host: _Host) -> None:
        for event in host.node.events(self.clock.moment(host.skew)):
            self.on_event(host.peer.host, event)
        due = host.node.timer()
        if due is not None and (host.due is None or due < host.due):
            host.due = due
            heappush(self._queue, (due, next(self._numbers), lambda: self._fire(host, due)))

    def _fire(self, host: _Host, due: float) -> None:
        if host.due != due or self._hosts.get(host.peer.host) is not host:
            return
        host.due = None
        now = self.clock.moment(host.skew)
        host.node.on_timer(now)
        for datagram in host.node.datagrams_to_send(now):
            self._send(host, datagram)
        self._tend(host)

    def _send(self, sender: _Host, datagram: Datagram) -> None:
        self.sent += 1
        receivers = tuple(self._group)
        if datagram.to is not None:
            found = self._hosts.get(datagram.to.host)
            receivers = (found,) if found is not None and found.peer == datagram.to else ()
        for receiver in receivers:
            if self._sides and not self.reaches(sender.peer.host, receiver.peer.host):
                continue
            while self._random.random() >= self.loss:
                delay = self._random.uniform(*self.latency)
                deliver: Callable[[], object] = partial(self._deliver, receiver, datagram.data, sender.peer)
                heappush(self._queue, (self.clock.steady + delay, next(self._numbers), deliver))
                if self._random.random() >= self.duplication:
                    break

    def _deliver(self, receiver: _Host, data: bytes, source: Peer) -> None:
        if self._hosts.get(receiver.peer.host) is receiver:
            self.delivered += 1
            receiver.node.receive(data, source, self.clock.moment(receiver.skew))
            self._tend(receiver)
