"""From a host to the addresses it may be connected as.

The system's resolver is asked, so ``/etc/hosts``, search domains and multicast DNS mean what they mean to every
other program. What needs no asking is not asked: literal addresses, and ``localhost`` with all names under it,
which are loopback whatever a DNS server says (RFC 6761 §6.3). A test, or a user with a resolver of their own,
hands another :data:`Resolver` to the driver; either way each address still has to pass the policy.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from skillwire.errors import FetchError
from skillwire.model.url import is_ipv4
from skillwire.trust.address import is_localhost

#: Returns the addresses of a name, best first; raises ``FetchError`` ``HOST_NOT_FOUND``. May block.
Resolver = Callable[[str], Sequence[str]]


def known_addresses(host: str) -> tuple[str, ...] | None:
    """Return the addresses of a host that needs no lookup, None for any other."""
    if ":" in host or is_ipv4(host):
        return (host,)
    return ("127.0.0.1", "::1") if is_localhost(host) else None


def socket_address(address: str, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """Return what a socket is connected to: with the number of the interface where the address names one.

    Raises:
        OSError: this machine has no such interface.
    """
    host, mark, zone = address.partition("%")
    if not mark:
        return address, port
    return host, port, 0, int(zone) if zone.isdigit() else _interface(zone)


def _interface(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError as error:
        raise OSError(error.errno, f"this machine has no interface {name}") from error


def look_up(host: str) -> Sequence[str]:
    """Ask the system for the addresses of a name; blocks for as long as the system takes.

    Raises:
        FetchError: ``HOST_NOT_FOUND``.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchError("HOST_NOT_FOUND", f"no address for {host}: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
