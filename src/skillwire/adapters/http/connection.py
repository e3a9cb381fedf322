"""One connection to one address, with a deadline on everything it does.

A timeout on a socket starts anew with each byte that drips in. So every operation here gets what is left of the
whole request's time, and a server that sends a byte a second is cut off when the request's time is over.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Final

from skillwire.adapters.http.names import socket_address
from skillwire.adapters.http.rules import timed_out
from skillwire.errors import FetchError, Place

if TYPE_CHECKING:
    import ssl

    from skillwire.model.url import Url
    from skillwire.wire.exchange import HttpRequest

_RECEIVE_BYTES: Final = 64 * 1024  # a larger buffer costs more to allocate than it saves in calls


class Deadline:
    """The moment by which ``request`` must be answered, last byte included."""

    def __init__(self, request: HttpRequest) -> None:
        self._end = time.monotonic() + request.timeout
        self._request = request

    def remaining(self) -> float:
        """Return the seconds that are left, more than 0.

        Raises:
            FetchError: ``TIMEOUT`` when none are.
        """
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise self.passed()
        return seconds

    def passed(self) -> FetchError:
        """Return the error that says that the time is over."""
        return timed_out(self._request)


def is_quiet(descriptor: int) -> bool:
    """Whether nothing waits to be read from a socket: neither its end, nor bytes that nobody asked for."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return not poll.poll(0)


class Connection:
    """A connected socket that has passed the address policy.

    Args:
        address: what it is connected to.
        sock: connected, and past the TLS handshake where there is one.
    """

    def __init__(self, address: str, sock: socket.socket) -> None:
        self.address = address
        self._socket = sock

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send all of ``data``."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._within(deadline).send(rest) :]

    def receive(self, deadline: Deadline) -> bytes:
        """Return what has arrived, at least one byte; empty when the peer has ended the connection."""
        return self._within(deadline).recv(_RECEIVE_BYTES)

    def _within(self, deadline: Deadline) -> socket.socket:
        self._socket.settimeout(deadline.remaining())
        return self._socket

    def is_quiet(self) -> bool:
        """Whether nothing came since the last answer."""
        return is_quiet(self._socket.fileno())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def open_connection(url: Url, address: str, seconds: float, context: ssl.SSLContext | None) -> Connection:
    """Connect to ``address``, and speak TLS there as the host of ``url``.

    Args:
        url: whose scheme, host and port are meant.
        address: one that the policy has allowed; nothing is looked up here.
        seconds: for connecting and the handshake.
        context: for https.

    Raises:
        FetchError: ``CONNECT_FAILED``, ``TLS_FAILED``.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    end = time.monotonic() + seconds
    try:
        sock.settimeout(seconds)
        sock.connect(socket_address(address, url.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(max(end - time.monotonic(), 0.001))
        return Connection(address, sock if context is None else _secure(sock, url, context))
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            message = f"cannot connect to {url.host} ({address}, port {url.port}): {error.strerror or error}"
            raise FetchError("CONNECT_FAILED", message, place=Place(str(url))) from error
        raise


def _secure(sock: socket.socket, url: Url, context: ssl.SSLContext) -> ssl.SSLSocket:
    import ssl  # noqa: PLC0415 - the caller has a context, so it is imported already

    from skillwire.adapters.http.tls import tls_failure  # noqa: PLC0415 - as above

    try:
        # A TLS stream that ends without saying so was cut; without this it would pass for an end.
        return context.wrap_socket(sock, server_hostname=url.name, suppress_ragged_eofs=False)
    except ssl.SSLError as error:
        raise tls_failure(url, error) from error
