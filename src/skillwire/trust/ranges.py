"""Where the packets to an IP address end: the table behind :mod:`skillwire.trust.address`.

The table is our own, after the IANA special-purpose registries. ``ipaddress.is_global`` answers "is this routed",
not "where does the packet end": it lets 64:ff9b::/96, 2002::/16 and multicast pass, and its answer changes between
patch releases of Python. IPv6 addresses that carry an IPv4 address inside are never public here: what a gateway
makes of them is not ours to see. Each family's rows cover every address, and the first row that matches wins.
"""

from __future__ import annotations

import functools
import re
from enum import StrEnum
from typing import Final, NamedTuple

from skillwire.errors import ValidationError
from skillwire.model.url import is_ipv4


class Reach(StrEnum):
    """What kind of place an address is."""

    PUBLIC = "a public address"
    LOOPBACK = "a loopback address (this machine)"
    PRIVATE = "a private address (the local network)"
    LINK_LOCAL = "a link-local address (the local network)"
    METADATA = "the address of a cloud metadata service"
    SPECIAL = "a special-purpose address"
    NOWHERE = "not the address of a host"


class Network(NamedTuple):
    """A range of addresses of one IP version, as whole numbers, both ends included."""

    version: int
    first: int
    last: int

    def covers(self, address: Address) -> bool:
        """Whether ``address`` lies in the range."""
        return address.version == self.version and self.first <= address.number <= self.last


class Address(NamedTuple):
    """An IP address as a whole number."""

    version: int
    number: int


_RANGES_V4: Final = (
    ("169.254.169.254/32", Reach.METADATA),  # AWS, Azure, Google and most others
    ("169.254.170.2/32", Reach.METADATA),  # AWS containers
    ("100.100.100.200/32", Reach.METADATA),  # Alibaba
    ("192.0.0.192/32", Reach.METADATA),  # Oracle
    ("127.0.0.0/8", Reach.LOOPBACK),
    ("10.0.0.0/8", Reach.PRIVATE),
    ("172.16.0.0/12", Reach.PRIVATE),
    ("192.168.0.0/16", Reach.PRIVATE),
    ("100.64.0.0/10", Reach.PRIVATE),  # shared space: carriers and overlay networks
    ("169.254.0.0/16", Reach.LINK_LOCAL),
    ("0.0.0.0/32", Reach.NOWHERE),  # unspecified; Linux takes it for loopback
    ("0.0.0.0/8", Reach.SPECIAL),  # "this network"
    ("192.0.0.0/24", Reach.SPECIAL),  # protocol assignments
    ("192.0.2.0/24", Reach.SPECIAL),  # documentation
    ("192.88.99.0/24", Reach.SPECIAL),  # 6to4 relays
    ("198.18.0.0/15", Reach.SPECIAL),  # benchmarks
    ("198.51.100.0/24", Reach.SPECIAL),  # documentation
    ("203.0.113.0/24", Reach.SPECIAL),  # documentation
    ("224.0.0.0/4", Reach.NOWHERE),  # multicast
    ("255.255.255.255/32", Reach.NOWHERE),  # broadcast
    ("240.0.0.0/4", Reach.SPECIAL),  # reserved
    ("0.0.0.0/0", Reach.PUBLIC),
)

_RANGES_V6: Final = (
    ("fd00:ec2::254/128", Reach.METADATA),  # AWS
    ("::1/128", Reach.LOOPBACK),
    ("fc00::/7", Reach.PRIVATE),
    ("fe80::/10", Reach.LINK_LOCAL),
    ("2001::/23", Reach.SPECIAL),  # protocol assignments; Teredo carries an IPv4 address
    ("2001:db8::/32", Reach.SPECIAL),  # documentation
    ("2002::/16", Reach.SPECIAL),  # 6to4 carries an IPv4 address
    ("3fff::/20", Reach.SPECIAL),  # documentation
    ("2000::/3", Reach.PUBLIC),
    ("::/128", Reach.NOWHERE),  # unspecified
    ("ff00::/8", Reach.NOWHERE),  # multicast
    ("::/0", Reach.SPECIAL),  # IPv4-mapped, translated (64:ff9b::/96), site-local, unassigned
)

_PREFIX: Final = re.compile(r"[0-9]{1,3}", re.ASCII)


def read_address(text: str) -> Address:
    """Return ``text`` as an address; the zone of a link-local one (``%eth0``) does not count.

    Raises:
        ValidationError: ``URL`` when ``text`` is not an address in its usual form.
    """
    if is_ipv4(text):
        a, b, c, d = text.split(".")
        return Address(4, (int(a) << 24) | (int(b) << 16) | (int(c) << 8) | int(d))
    import ipaddress  # noqa: PLC0415 - costs milliseconds, which only IPv6 needs to pay

    try:
        return Address(6, int(ipaddress.IPv6Address(text)))
    except ValueError:
        raise ValidationError("URL", f"not an IP address: {text[:80]!r}") from None


def read_network(text: str) -> Network:
    """Return ``text``, a network such as ``10.0.0.0/8`` or a single address, as a range.

    Raises:
        ValidationError: ``URL`` when ``text`` is neither, or when bits are set behind the prefix.
    """
    base, slash, prefix = text.partition("/")
    version, first = read_address(base)
    width = 32 if version == 4 else 128  # noqa: PLR2004 - the IP version, and the bits of its addresses
    if slash and not (_PREFIX.fullmatch(prefix) and int(prefix) <= width):
        raise ValidationError("URL", f"not a network: {text[:80]!r}")
    hosts = (1 << (width - int(prefix) if slash else 0)) - 1
    if first & hosts:
        raise ValidationError("URL", f"a network with bits set behind its prefix: {text[:80]!r}")
    return Network(version, first, first | hosts)


def classify(address: Address) -> Reach:
    """Return where the packets to ``address`` end."""
    return next(reach for network, reach in _table(address.version) if network.covers(address))


@functools.cache
def _table(version: int) -> tuple[tuple[Network, Reach], ...]:
    rows = _RANGES_V4 if version == 4 else _RANGES_V6  # noqa: PLR2004 - the IP version
    return tuple((read_network(text), reach) for text, reach in rows)
