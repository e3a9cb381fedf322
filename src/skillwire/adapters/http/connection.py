"""What both drivers share: connections with deadlines, idle connections, name resolution, and the rules of repetition.

A socket's timeout starts again with each byte. So every operation here gets the remaining time of the whole request,
and a server that sends one byte a second is cut off when that time is over.

Names are resolved by the system, so ``/etc/hosts``, search domains and multicast DNS work as in other programs. Literal
addresses, ``localhost`` and names under it (RFC 6761 §6.3) need no lookup. A test or user may pass another
:data:`Resolver`; every address must pass the policy either way.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from skillwire import limits
from skillwire.adapters.http.proxies import Proxy, check_peer
from skillwire.errors import FetchError, SkillwireError, SourceLocation, TrustError, in_seconds
from skillwire.model.url import Origin, Url, is_ipv4
from skillwire.trust.address import AddressPolicy, is_localhost
from skillwire.version import VERSION
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.http1 import ResponseReader

if TYPE_CHECKING:
    import ssl


USER_AGENT: Final = f"skillwire/{VERSION}"

_REPEATABLE: Final = frozenset({"GET", "HEAD"})


def timeout_error(request: HttpRequest) -> FetchError:
    """Return the error for a request that exceeded its time."""
    return FetchError(
        "TIMEOUT", f"no whole answer within {in_seconds(request.timeout)}", place=SourceLocation(request.url)
    )


def may_repeat(request: HttpRequest, reader: ResponseReader, error: FetchError) -> bool:
    """Whether a request may be sent again: its idle connection closed before it arrived (RFC 9112 §9.3.1)."""
    return error.code == "CONNECTION_LOST" and not reader.started and request.method in _REPEATABLE


def more_serious(first: SkillwireError | None, second: SkillwireError) -> SkillwireError:
    """Return which of two addresses' failures to report: the first one, but a refusal before anything else."""
    return second if first is None or (isinstance(second, TrustError) and not isinstance(first, TrustError)) else first


def no_address_error(url: Url) -> FetchError:
    """Return the error for a name without addresses."""
    return FetchError("HOST_NOT_FOUND", f"no address for {url.host}", place=SourceLocation(str(url)))


#: Returns the addresses of a name, best first; raises ``FetchError`` ``HOST_NOT_FOUND``. May block.
Resolver = Callable[[str], Sequence[str]]


def known_addresses(host: str) -> tuple[str, ...] | None:
    """Return the addresses of a host that needs no lookup, None for any other."""
    if ":" in host or is_ipv4(host):
        return (host,)
    return ("127.0.0.1", "::1") if is_localhost(host) else None


def look_up(resolve: Resolver, host: str, proxy: Proxy | None) -> Sequence[str]:
    """Return the addresses of a host, or of the proxy of that name; the error about a proxy states its variable."""
    try:
        return resolve(host)
    except FetchError as error:
        if proxy is not None:
            error.message += f"; it is the proxy that {proxy.variable} names"
            error.fix = f"Correct {proxy.variable}, unset it, or exempt the host with NO_PROXY."
        raise


def socket_address(address: str, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """Return the address tuple for a socket, with the interface's number. Raises OSError for an unknown interface."""
    host, mark, zone = address.partition("%")
    if not mark:
        return address, port
    try:
        return host, port, 0, int(zone) if zone.isdigit() else socket.if_nametoindex(zone)
    except OSError as error:
        raise OSError(error.errno, f"this machine has no interface {zone}") from error


def resolve_host(host: str) -> Sequence[str]:
    """Ask the system for the addresses of a name; blocks. Raises FetchError (``HOST_NOT_FOUND``)."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchError("HOST_NOT_FOUND", f"no address for {host}: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class IdleConnection(Protocol):
    """A connection to an ``address`` that passed the address policy."""

    address: str

    def is_quiet(self) -> bool:
        """Whether nothing came since the last answer."""

    def close(self) -> None:
        """Close it."""


C = TypeVar("C", bound=IdleConnection)


class ConnectionPool(Generic[C]):
    """Idle connections by origin, the oldest closed when there are too many. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[Origin, C]] = []  # oldest first

    def take(self, policy: AddressPolicy, url: Url, proxy: Proxy | None = None) -> C | None:
        """Return the newest usable connection for the origin of ``url``; ``policy`` may have changed."""
        while (connection := self._newest(url.origin)) is not None:
            with contextlib.suppress(TrustError):  # the next connection reports the reason
                check_peer(policy, url, proxy, connection.address)
                if connection.is_quiet():
                    return connection
            connection.close()
        return None

    def _newest(self, origin: Origin) -> C | None:
        with self._lock:
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index][0] == origin:
                    return self._idle.pop(index)[1]
        return None

    def keep(self, origin: Origin, connection: C) -> None:
        """Keep ``connection``."""
        with self._lock:
            self._idle.append((origin, connection))
            over, self._idle = self._idle[: -limits.HTTP_KEPT], self._idle[-limits.HTTP_KEPT :]
        for _, oldest in over:
            oldest.close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


RECEIVE_BYTES: Final = 64 * 1024  # a larger buffer costs more to allocate than it saves in calls


class Deadline:
    """The moment by which ``request`` must be answered, last byte included."""

    def __init__(self, request: HttpRequest) -> None:
        self._end = time.monotonic() + request.timeout
        self._request = request

    def remaining(self) -> float:
        """Return the remaining seconds, more than 0. Raises FetchError (``TIMEOUT``)."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise self.passed()
        return seconds

    def passed(self) -> FetchError:
        """Return the error for an exceeded deadline."""
        return timeout_error(self._request)


def is_quiet(descriptor: int) -> bool:
    """Whether a socket has nothing to read: neither its end nor unexpected bytes."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return not poll.poll(0)


class Connection:
    """A connected socket, after its TLS handshake if any, to an ``address`` that passed the policy."""

    def __init__(self, address: str, sock: socket.socket) -> None:
        self.address = address
        self._socket = sock

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of ``data``."""
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(deadline.remaining())
            rest = rest[self._socket.send(rest) :]

    def receive(self, deadline: Deadline) -> bytes:
        """Return at least one byte; empty when the peer has ended the connection."""
        self._socket.settimeout(deadline.remaining())
        return self._socket.recv(RECEIVE_BYTES)

    def is_quiet(self) -> bool:
        """Whether nothing came since the last answer."""
        return is_quiet(self._socket.fileno())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def tunnel_reader(proxy: Proxy) -> ResponseReader:
    """Return the reader of the proxy's answer to ``CONNECT``."""
    return ResponseReader(HttpRequest(str(proxy.url), method="CONNECT"))


def open_connection(
    url: Url, address: str, seconds: float, context: ssl.SSLContext | None, proxy: Proxy | None
) -> Connection:
    """Connect to ``address``, of the host or the proxy, which the policy allowed; with TLS to the host for https.

    ``seconds`` covers connection, tunnel and handshake. Raises FetchError (``CONNECT_FAILED``, ``TLS_FAILED``,
    ``PROXY_REFUSED``).
    """
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    end = time.monotonic() + seconds
    try:
        sock.settimeout(seconds)
        sock.connect(socket_address(address, (proxy.url if proxy else url).port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if proxy is not None and context is not None:
            sock.sendall(proxy.connect_message(url))
            reader, response = tunnel_reader(proxy), None
            while response is None:
                sock.settimeout(max(end - time.monotonic(), 0.001))
                response = reader.feed(data) if (data := sock.recv(RECEIVE_BYTES)) else reader.end()
            proxy.check(response, url, is_tunnel=True)
        sock.settimeout(max(end - time.monotonic(), 0.001))
        if context is not None:
            # A TLS stream that ends without a close message was cut; without this it would pass for an end.
            sock = context.wrap_socket(sock, server_hostname=url.name, suppress_ragged_eofs=False)
        return Connection(address, sock)
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise connect_error(url, address, error, str(error.strerror or error), proxy) from error
        raise


def connect_error(url: Url, address: str, error: OSError, reason: str, proxy: Proxy | None) -> FetchError:
    """Return the error of a failed connection, in the handshake too."""
    if "ssl" in sys.modules:  # else no TLS was tried
        from skillwire.adapters.http.tls import tls_failure  # noqa: PLC0415 - imports ssl, which costs milliseconds

        if (failure := tls_failure(url, error)) is not None:
            return failure
    host, port = url.host, url.port
    if proxy is not None:
        host, port = f"the proxy {proxy.url.host}, which {proxy.variable} names", proxy.url.port
    message = f"cannot connect to {host} ({address}, port {port}): {reason}"
    return FetchError("CONNECT_FAILED", message, place=SourceLocation(str(url)))
