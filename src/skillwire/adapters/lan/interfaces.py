"""Which addresses of this machine take part in discovery: one for each interface and family, a *link*.

An endpoint that is announced has to be reached by others, so an address that means something together with an
interface's name alone (``fe80::…``) is used only on a machine that has no other, and loopback where there is nothing
else. Within an interface the first fitting address of each family counts. Spec: SDP §5.1.
"""

from __future__ import annotations

import socket
import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import UsageError
from skillwire.model.url import without_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GET_FLAGS: Final = 0x8913  # SIOCGIFFLAGS
_UP: Final = 0x1
_LOOPBACK: Final = 0x8
_MULTICAST: Final = 0x1000
#: Links at most: a machine with hundreds of containers has as many interfaces, and each link is a node of its own.
_MOST: Final = 16


class LinkAddress(NamedTuple):
    """Where one link is.

    Args:
        interface: name of the interface.
        number: of the interface.
        host: address, IPv6 without a zone.
        flags: of the interface, as the system has them; what is not known counts as up.
    """

    interface: str
    number: int
    host: str
    flags: int = _UP | _MULTICAST

    @property
    def family(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.host else 4

    @property
    def name(self) -> str:
        """What tells this link from others, and stays when its address changes: ``eth0/4``."""
        return f"{self.interface}/{self.family}"

    @property
    def is_up(self) -> bool:
        """Whether the interface is up."""
        return bool(self.flags & _UP)

    @property
    def is_loopback(self) -> bool:
        """Whether it reaches this machine only."""
        return ip_address(self.host).is_loopback


def present() -> list[LinkAddress]:
    """Return all addresses of this machine.

    Raises:
        UsageError: ``LAN_UNAVAILABLE`` when the extra ``lan`` is not installed.
    """
    try:
        import ifaddr  # noqa: PLC0415  # an extra
    except ImportError:
        message, fix = "the library that lists interfaces is missing", "Install it: pip install 'skillwire[lan]'"
        raise UsageError("LAN_UNAVAILABLE", message, fix=fix) from None
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for adapter in ifaddr.get_adapters():
            flags = _flags(asked, adapter.name)
            for ip in adapter.ips:
                host = ip.ip if isinstance(ip.ip, str) else ip.ip[0]
                found.append(LinkAddress(adapter.name, adapter.index or 0, without_zone(host), flags))
    return found


def _flags(asked: socket.socket, name: str) -> int:
    """Return the flags of an interface; as if it were up where the system is asked otherwise."""
    if sys.platform != "linux":
        return _UP | _MULTICAST
    from fcntl import ioctl  # noqa: PLC0415  # not on every system

    try:
        answer = ioctl(asked, _GET_FLAGS, struct.pack("16sh14x", name.encode()[:15], 0))
    except OSError:  # it went away meanwhile
        return 0
    flags: int = struct.unpack("16xH14x", answer)[0]
    return flags


def links(addresses: Iterable[LinkAddress], wanted: Sequence[str] = (), *, has_ipv6: bool = True) -> list[LinkAddress]:
    """Return the links to use.

    Args:
        addresses: of this machine.
        wanted: names of interfaces, or addresses; empty for what fits.
        has_ipv6: whether there is a group of IPv6.
    """
    able = [one for one in addresses if one.flags & _UP and (has_ipv6 or one.family == 4)]  # noqa: PLR2004 - a family
    if wanted:
        exact = [one for one in able if one.host in wanted]
        return _one_each(exact + sorted((one for one in able if one.interface in wanted and _is_able(one)), key=_rank))
    able = [one for one in able if one.flags & (_MULTICAST | _LOOPBACK) and _is_able(one)]
    for rank in range(3):
        if fitting := [one for one in able if _rank(one) == rank]:
            return _one_each(fitting)
    return []


def why_none(addresses: Sequence[LinkAddress], wanted: Sequence[str]) -> str:
    """Return why :func:`links` finds none, as part of a sentence."""
    known = {name for one in addresses for name in (one.interface, one.host)}
    if missing := [name for name in wanted if name not in known]:
        return f"this machine has no interface, and no address, {' or '.join(missing)}"
    why = "no interface is up that takes multicast"
    return f"{', '.join(wanted)}: {why}" if wanted else why


def _is_able(one: LinkAddress) -> bool:
    """Whether multicast leads anywhere: there is no route for it by ``::1``, which is used only by that name."""
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
    """Return an address as the core compares them: IPv4 for IPv4-mapped, a zone only where it is needed.

    Args:
        host: as the system gives it.
        index: of the interface that it came in by.
    """
    bare, _, zone = host.partition("%")
    if ":" not in bare:
        return bare
    address: IPv4Address | IPv6Address = IPv6Address(bare)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{bare}%{zone or index}" if address.is_link_local and (zone or index) else bare
