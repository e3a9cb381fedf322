"""A local network in the memory of one process, for agents on a loop with virtual time."""

import asyncio
from collections import deque
from typing import Any

from skillwire.adapters.lan.sockets import LinkAddress
from skillwire.wire.node import Peer

PORT = 40_000
LATENCY = 0.001


class VirtualSockets:
    """Stands in for :class:`skillwire.adapters.lan.sockets.LinkSockets`."""

    is_broken = False

    def __init__(self, network, address):
        self.address = address
        self.own = Peer(address.host, PORT)
        self.sockets = []
        self._network = network
        self._reader = None
        self._arrived: deque[tuple[bytes, Peer]] = deque()

    def attach(self, loop, read):  # noqa: ARG002 - the form of sockets
        self._reader = read
        self._network.open_sockets.append(self)

    def detach(self, loop):  # noqa: ARG002 - the form of sockets
        self._network.open_sockets.remove(self)

    def close(self):
        self._reader = None

    def send(self, data, to):
        self._network.carry(data, self.own, to)

    def read(self, sock):  # noqa: ARG002 - the form of sockets
        while self._arrived:
            yield self._arrived.popleft()

    def arrive(self, data, source):
        if self._reader is not None:
            self._arrived.append((data, source))
            self._reader(None)


class VirtualLan:
    """Carries datagrams between the agents of one test."""

    def __init__(self):
        self.open_sockets = []
        #: Seconds from one host to another, where they are not ``LATENCY``.
        self.latencies: dict[tuple[str, str], float] = {}

    def host(self, address) -> Any:
        """Return the network as the machine with this address sees it: a ``SystemNetwork``."""
        return _Host(self, LinkAddress("eth0", 1, address, prefix=24))

    def carry(self, data, source, to):
        for one in self.open_sockets:
            if to is None or to.host == one.address.host:
                latency = self.latencies.get((source.host, one.address.host), LATENCY)
                asyncio.get_running_loop().call_later(latency, one.arrive, data, source)


class _Host:
    def __init__(self, network, address):
        self._network = network
        self._address = address

    def addresses(self):
        return [self._address]

    def open(self, address, *_):
        return VirtualSockets(self._network, address)
