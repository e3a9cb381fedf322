"""The cost of a dropped datagram: ``python bench/lan_dropped.py [ROUNDS]``.

Datagrams beyond a host's rate, and bytes that are no message, should cost little more than reading them from the
socket. Measured is the processor time of the driver on its loop, beside that of reading the same datagrams from a
socket of the same kind without processing. The goal is at most three times that for a host over its rate, so that at
20,000 datagrams a second a registry keeps most of its core for other hosts; and five times for bytes that are no
message, since few are read from one address.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Final

from comparison import Goal, compare
from lan_agents import GROUP, free_port
from skillwire.adapters.clock import moment
from skillwire.adapters.lan.link import Driver
from skillwire.adapters.lan.sockets import LinkAddress, LinkSockets
from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.protocols.skill_discovery.node import DiscoveryNode, Role
from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS: Final = 7
DATAGRAMS: Final = 20_000
#: Sent and then read at once; they fit into a socket's buffer.
_HEAP: Final = 200
_HOST: Final = "127.0.0.1"
_REGISTRATION: Final = b"SKILL_REGISTER:agent-1;skill-1;0.7.0;tool-skill;127.0.0.1:80;user-auth;auth;%d;QUJD"
_KINDS: Final = {
    "of a host that sends too much": (_REGISTRATION, DiscoverySettings(), 3.0),
    "that are no message": (b"SKILL_REGISTER:agent-1;skill-1;0.7;%d", DiscoverySettings(rate=1e9, burst=1e9), 5.0),
}


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    for what, (datagram, figures, most) in _KINDS.items():
        ours, bare = [], []
        for _ in range(rounds):
            ours.append(asyncio.run(_dropped(datagram, figures)) / DATAGRAMS * 1e6)
            bare.append(_read(datagram) / DATAGRAMS * 1e6)
        compare(f"LAN: datagrams {what}", ours, bare, Goal("at most", most), peer="reading them", unit="us")


async def _dropped(datagram: bytes, figures: DiscoverySettings) -> float:
    """Return the processor seconds that an agent takes to drop the datagrams."""
    node = DiscoveryNode(
        "registry",
        identity=self_signed("registry", new_key(), datetime.now(UTC)),
        authority=ChainAuthority(Chain()),
        random=Random(1),  # noqa: S311 - nothing is secret here
        roles=frozenset({Role.MCP_AGENT}),
        settings=figures,
    )
    driver, port = Driver(node, list, moment), free_port()
    sockets = LinkSockets(LinkAddress("lo", 1, _HOST), LanSettings(group=GROUP, port=port), Counter())
    driver.open(sockets)
    try:
        # All of it comes to the socket for answers, which is read as soon as anything is there.
        here = sockets.sockets[0].getsockname()
        taken = 0.0
        for sent in _heaps(datagram, lambda sock, data: sock.sendto(data, here)):
            begin = time.process_time()
            while driver.received < sent:  # noqa: ASYNC110 - sockets give no notice
                await asyncio.sleep(0)
            taken += time.process_time() - begin
        assert sum(node.ingress.stopped.values()) > DATAGRAMS * 0.9, node.ingress.stopped
        return taken
    finally:
        driver.end()


def _read(datagram: bytes) -> float:
    """Return the processor seconds that it takes to read the datagrams."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reader:
        reader.bind((_HOST, 0))
        here, taken, count = reader.getsockname(), 0.0, 0
        for sent in _heaps(datagram, lambda sock, data: sock.sendto(data, here)):
            begin = time.process_time()
            while count < sent:
                reader.recvfrom(2048)
                count += 1
            taken += time.process_time() - begin
        return taken


def _heaps(datagram: bytes, send: Callable[[socket.socket, bytes], object]) -> Iterator[int]:
    """Send a heap of datagrams, and say how many were sent by now; again until all are."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        now = int(time.time() * 1000)
        for sent in range(0, DATAGRAMS, _HEAP):
            for number in range(sent, sent + _HEAP):
                send(sock, datagram % (now + number))
            yield sent + _HEAP


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
