"""The sockets of a DHT node, the addresses of this machine, and those of other hosts. Spec: SDP §6.4."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from skillwire.adapters.lan.sockets import SystemNetwork, UdpSockets, widen
from skillwire.errors import ConflictError, SourceLocation, UsageError
from skillwire.model.url import without_zone
from skillwire.wire.node import Peer

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence


#: Ports that are tried until one is free for both families.
_TRIES: Final = 16
# Linux has these; Python does not name them.
_IPV6_ADDR_PREFERENCES: Final = 72
_PREFER_PUBLIC: Final = 2


class DhtSockets(UdpSockets):
    """One socket for each of ``hosts``, by default for IPv4 and IPv6 on all addresses, all at one port.

    Raises: ConflictError: ``PORT_IN_USE``; UsageError: ``HOST_UNUSABLE``.
    """

    def __init__(self, port: int, hosts: Sequence[str], counters: Counter[str]) -> None:
        super().__init__(counters, lambda: None)
        for tries in reversed(range(1 if port else _TRIES)):
            self.port = port
            try:
                self._open(hosts)
            except OSError as error:
                self.close()
                if error.errno == errno.EADDRINUSE and tries:
                    continue
                place = SourceLocation(f"UDP port {port}" if port else ", ".join(hosts))
                if error.errno == errno.EADDRINUSE:
                    fix = "Stop that program, or set port in [discovery.dht]; 0 takes a free one and keeps it."
                    raise ConflictError("PORT_IN_USE", f"UDP port {port} is in use", place=place, fix=fix) from error
                message = f"the DHT cannot listen: {error.strerror or error}"
                raise UsageError("HOST_UNUSABLE", message, place=place) from error
            return

    def _open(self, hosts: Sequence[str]) -> None:
        for host in hosts or ("0.0.0.0", "::"):  # noqa: S104 - a node is there for others
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                sock = self._new(family)
            except OSError:
                if host == "::":  # a machine without IPv6
                    continue
                raise
            widen(sock)
            if family == socket.AF_INET6 and sys.platform == "linux":
                # Answers leave from the address that was asked, not from a temporary one.
                sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_ADDR_PREFERENCES, _PREFER_PUBLIC)
            sock.bind((host, self.port))
            self.port = sock.getsockname()[1]

    def send(self, data: bytes, to: Peer | None) -> None:
        """Send a datagram to a peer, unless there is no socket of its family."""
        if to is None:
            return
        family = socket.AF_INET6 if ":" in to.host else socket.AF_INET
        sock = next((one for one in self.sockets if one.family == family), None)
        if sock is None:
            self._counters["send: no such family"] += 1
            return
        host, _, zone = to.host.partition("%")
        scoped = (host, to.port, 0, int(zone) if zone.isdigit() else 0)
        self._send(sock, data, scoped if family == socket.AF_INET6 else scoped[:2])


def present_hosts(network: SystemNetwork) -> tuple[str, ...]:
    """Return the addresses at which others may reach this machine, IPv4 first; loopback where it has no others."""
    try:
        found = [one for one in network.addresses() if one.is_up and not ip_address(one.host).is_link_local]
    except (OSError, UsageError):  # without the extra ``lan`` no change is seen
        return ()
    chosen = [one.host for one in found if not one.is_loopback] or [one.host for one in found]
    return tuple(sorted(chosen, key=lambda host: (":" in host, host)))


async def resolve(host: str, port: int) -> tuple[Peer, ...]:
    """Return the addresses of a host, looked up in a thread; none when its name is not known."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(Peer(without_zone(str(address[0])), port) for *_, address in found))
