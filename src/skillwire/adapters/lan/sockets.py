"""The interfaces and sockets of this machine that discovery uses.

A *link* is one interface and address family. An announced endpoint has to be reachable, so link-local addresses are
used only on a machine without others, and loopback without any. Each link has two sockets. Requests leave from a port
of their own, and answers come back to it: at the group's port, which all processes of a machine share, a unicast would
reach only one of them. The socket of the group hears only its own interface (``IP_MULTICAST_ALL`` off). Once open,
sockets raise nothing: failures are counted, and :attr:`LinkSockets.is_broken` reports sockets that cannot recover.
Spec: SDP §5.1; specs §3.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import sys
from abc import ABC, abstractmethod
from fcntl import ioctl
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import UsageError
from skillwire.model.url import without_zone
from skillwire.wire.node import Peer

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from skillwire.protocols.skill_discovery.settings import LanSettings

_GET_FLAGS: Final = 0x8913  # SIOCGIFFLAGS
_UP: Final = 0x1 | 0x40  # and running: a cable is in, a bridge has a port
_LOOPBACK: Final = 0x8
_MULTICAST: Final = 0x1000
_IPV4: Final = 4
_LINK_LOCAL: Final = IPv6Network("fe80::/64")
#: Links at most: a machine with hundreds of containers has as many interfaces, and each link is a node of its own.
_MOST: Final = 16


class LinkAddress(NamedTuple):
    """The address of one link, IPv6 without a zone, on an interface with its number and its flags."""

    interface: str
    number: int
    host: str
    flags: int = _UP | _MULTICAST
    prefix: int | None = None  # bits of its network; None for the host alone

    @property
    def family(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.host else 4

    @property
    def name(self) -> str:
        """What tells this link from others, and stays when its address changes: ``eth0/4``."""
        return f"{self.interface}/{self.family}"

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks whose hosts are on the link: its own, and for IPv6 the link-local one."""
        own = ip_network(self.host if self.prefix is None else f"{self.host}/{self.prefix}", strict=False)
        return (own,) if own.version == _IPV4 else (own, _LINK_LOCAL)

    @property
    def is_up(self) -> bool:
        """Whether the interface is up and has a carrier."""
        return self.flags & _UP == _UP

    @property
    def is_loopback(self) -> bool:
        """Whether it reaches this machine only."""
        return ip_address(self.host).is_loopback


def present() -> list[LinkAddress]:
    """Return all addresses of this machine. Raises: UsageError: ``LAN_UNAVAILABLE`` without the extra ``lan``."""
    try:
        import ifaddr  # noqa: PLC0415  # an extra
    except ImportError:
        message, fix = "the library that lists interfaces is missing", "Install skillwire with the extra lan"
        raise UsageError("LAN_UNAVAILABLE", message, fix=fix) from None
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for adapter in ifaddr.get_adapters():
            flags = _flags(asked, adapter.name)
            for ip in adapter.ips:
                host = ip.ip if isinstance(ip.ip, str) else ip.ip[0]
                number, prefix = adapter.index or 0, ip.network_prefix
                found.append(LinkAddress(adapter.name, number, without_zone(host), flags, prefix))
    return found


def _flags(asked: socket.socket, name: str) -> int:
    """Return the flags of an interface; as if it were up where the system is asked otherwise."""
    if sys.platform != "linux":
        return _UP | _MULTICAST
    try:
        answer = ioctl(asked, _GET_FLAGS, struct.pack("16sh14x", name.encode()[:15], 0))
    except OSError:  # it went away meanwhile
        return 0
    flags: int = struct.unpack("16xH14x", answer)[0]
    return flags


def links(addresses: Iterable[LinkAddress], wanted: Sequence[str] = (), *, has_ipv6: bool = True) -> list[LinkAddress]:
    """Return the links to use: the ``wanted`` interfaces and addresses, or all that fit."""
    able = [one for one in addresses if one.is_up and (has_ipv6 or one.family == 4)]  # noqa: PLR2004 - a family
    if wanted:
        exact = [one for one in able if one.host in wanted]
        return _one_each(exact + sorted((one for one in able if one.interface in wanted and _is_able(one)), key=_rank))
    able = [one for one in able if one.flags & (_MULTICAST | _LOOPBACK) and _is_able(one)]
    for rank in range(3):
        if fitting := [one for one in able if _rank(one) == rank]:
            return _one_each(fitting)
    return []


def explain_no_links(addresses: Sequence[LinkAddress], wanted: Sequence[str]) -> str:
    """Return why :func:`links` finds none, as part of a sentence."""
    known = {name for one in addresses for name in (one.interface, one.host)}
    if missing := [name for name in wanted if name not in known]:
        return f"this machine has no interface and no address {' or '.join(missing)}"
    why = "no interface is up that takes multicast"
    return f"{', '.join(wanted)}: {why}" if wanted else why


def _is_able(one: LinkAddress) -> bool:
    """Return whether an address can send multicast: ``::1`` has no multicast route."""
    return not (one.is_loopback and one.family == 6)  # noqa: PLR2004 - a family


def _rank(one: LinkAddress) -> int:
    """0 for what others reach, 1 for what they reach by an interface's name, 2 for loopback."""
    if one.is_loopback:
        return 2
    return 1 if ip_address(one.host).is_link_local else 0


def _one_each(addresses: Sequence[LinkAddress]) -> list[LinkAddress]:
    found: dict[str, LinkAddress] = {}
    for one in addresses:
        found.setdefault(one.name, one)
    return sorted(found.values(), key=lambda one: (one.family, one.interface))[:_MOST]


def plain_host(host: str, index: int = 0) -> str:
    """Return an address as the core compares them: IPv4 for IPv4-mapped, a zone only where it is needed."""
    bare, _, zone = host.partition("%")
    if ":" not in bare:
        return bare
    address: IPv4Address | IPv6Address = IPv6Address(bare)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{bare}%{zone or index}" if address.is_link_local and (zone or index) else bare


#: Larger than the limit of a datagram, so that longer ones are recognised.
RECEIVE_BYTES: Final = 2048
#: For bursts that come while Python does something else: 20,000 datagrams a second for 0.3 s.
_BUFFER: Final = 4 * 1024 * 1024
#: Datagrams that are read before the loop does something else.
_BATCH: Final = 256
#: The interface or the address is another by now; what is only unreachable may be back in a moment.
_FATAL: Final = frozenset({errno.ENODEV, errno.ENXIO, errno.EADDRNOTAVAIL, errno.EBADF})
# Linux has these; Python does not name them.
_IP_MULTICAST_ALL: Final = 49
_IPV6_MULTICAST_ALL: Final = 29
_SO_RCVBUFFORCE: Final = 33


class UdpSockets(ABC):
    """Sockets that raise nothing once they are open; ``is_broken`` is whether they cannot recover."""

    def __init__(self, counters: Counter[str], on_trouble: Callable[[], object]) -> None:
        self.is_broken = False
        self.sockets: list[socket.socket] = []
        self._counters = counters
        self._on_trouble = on_trouble

    @abstractmethod
    def send(self, data: bytes, to: Peer | None) -> None:
        """Send a datagram to a peer, or to the group."""

    def read(self, sock: socket.socket) -> Iterator[tuple[bytes, Peer]]:
        """Yield what has arrived, as many datagrams as are read at once."""
        try:
            for _ in range(_BATCH):
                yield self._receive(sock)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:  # also what a router said of something that we sent
            self._failed("receive", error)

    def _receive(self, sock: socket.socket) -> tuple[bytes, Peer]:
        data, source = sock.recvfrom(RECEIVE_BYTES)
        is_ipv4 = len(source) == 2  # noqa: PLR2004  # host and port; the family of a socket is slow to read
        return data, Peer(*source) if is_ipv4 else Peer(plain_host(source[0], source[3]), source[1])

    def attach(self, loop: asyncio.AbstractEventLoop, read: Callable[[socket.socket], object]) -> None:
        """Have the loop call ``read`` with a socket when data is there."""
        for sock in self.sockets:
            loop.add_reader(sock, read, sock)

    def detach(self, loop: asyncio.AbstractEventLoop) -> None:
        """End :meth:`attach`."""
        for sock in self.sockets:
            loop.remove_reader(sock)

    def close(self) -> None:
        """Close all."""
        for sock in self.sockets:
            sock.close()
        self.sockets.clear()

    def _send(self, sock: socket.socket, data: bytes, target: tuple[str | int, ...]) -> None:
        try:
            sock.sendto(data, target)
        except BlockingIOError:
            self._counters["send buffer full"] += 1
        except OSError as error:
            self._failed("send", error)

    def _failed(self, what: str, error: OSError) -> None:
        name = error.strerror or type(error).__name__
        self._counters[f"{what}: {name}"] += 1
        if isinstance(error, ConnectionRefusedError):  # no process listens there any more
            return
        self.is_broken = self.is_broken or error.errno in _FATAL
        self._on_trouble()

    def _new(self, family: socket.AddressFamily) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_DGRAM, socket.IPPROTO_UDP)
        self.sockets.append(sock)
        sock.setblocking(False)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        return sock


class LinkSockets(UdpSockets):
    """The two sockets of a link, open until :meth:`close`. Raises: OSError: the address cannot be used now."""

    def __init__(
        self,
        address: LinkAddress,
        settings: LanSettings,
        counters: Counter[str],
        on_trouble: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(counters, on_trouble)
        self.address = address
        self._family = socket.AF_INET if address.family == _IPV4 else socket.AF_INET6
        group = settings.group if address.family == _IPV4 else settings.group6
        self._group = (group, settings.port) if address.family == _IPV4 else (group, settings.port, 0, address.number)
        self._hears = settings.multicast
        try:
            sock = self._sender = self._new(self._family)
            widen(sock)
            index = self.address.number
            if self._family == socket.AF_INET:
                sock.bind((self.address.host, 0))
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, self._request("0.0.0.0"))  # noqa: S104 - no bind
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, settings.ttl)
                # Other processes of this machine hear us.
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            else:
                sock.bind((self.address.host, 0, 0, index))
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, settings.ttl)
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
            name = sock.getsockname()
            #: Where the datagrams that it sends come from.
            self.own = Peer(plain_host(name[0], index), name[1])
            if self._hears:
                sock = self._new(self._family)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if hasattr(socket, "SO_REUSEPORT"):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                widen(sock)
                if self._family == socket.AF_INET:
                    sock.bind((group, settings.port))
                    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, self._request(group))
                    if sys.platform == "linux":
                        sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
                else:
                    sock.bind((group, settings.port, 0, self.address.number))
                    request = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", self.address.number)
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
                    if sys.platform == "linux":
                        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes, to: Peer | None) -> None:
        """Send a datagram to a peer, or to the group."""
        if to is None:
            if not self._hears:
                return
            target: tuple[str | int, ...] = self._group
        elif self._family == socket.AF_INET:
            target = to.host, to.port
        else:
            target = without_zone(to.host), to.port, 0, self.address.number if "%" in to.host else 0
        self._send(self._sender, data, target)

    def _request(self, group: str) -> bytes:
        """Return ``ip_mreqn``: a group and an interface by its index, since several may have one address."""
        return struct.pack("=4s4si", socket.inet_aton(group), socket.inet_aton(self.address.host), self.address.number)


class SystemNetwork:
    """The interfaces and sockets of this machine; tests give an agent another network."""

    def addresses(self) -> list[LinkAddress]:
        """Return all addresses."""
        return present()

    def open(
        self, address: LinkAddress, settings: LanSettings, counters: Counter[str], on_trouble: Callable[[], object]
    ) -> LinkSockets:
        """Open the sockets of a link. Raises: OSError."""
        return LinkSockets(address, settings, counters, on_trouble)


def widen(sock: socket.socket) -> None:
    """Ask for a large buffer: beyond the system's bound where we may, else up to it."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE if sys.platform == "linux" else socket.SO_RCVBUF, _BUFFER)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
