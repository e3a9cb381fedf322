"""One connection of the asynchronous driver: a request out, the bytes of one answer in."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

from skillwire.adapters.http.connection import is_quiet
from skillwire.adapters.http.names import socket_address
from skillwire.errors import FetchError, Place, SkillwireError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from skillwire.model.url import Url
    from skillwire.wire.exchange import HttpResponse
    from skillwire.wire.http1 import ResponseReader


class Stream(asyncio.Protocol):
    """A connected transport that has passed the address policy.

    Args:
        address: what it is connected to.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._answer: asyncio.Future[HttpResponse] | None = None
        self._on_bytes: Callable[[int], object] = lambda _: None

    def is_quiet(self) -> bool:
        """Whether it is open and nothing came since the last answer, not even to the loop."""
        if self._transport is None or self._transport.is_closing():
            return False
        return is_quiet(self._transport.get_extra_info("socket").fileno())

    def close(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    async def converse(
        self, message: bytes, reader: ResponseReader, on_bytes: Callable[[int], object] = lambda _: None
    ) -> HttpResponse:
        """Send a request and return its answer, its body not yet content-decoded.

        ``on_bytes`` is told the size of each piece that comes.

        Raises:
            FetchError: as ``reader`` does; ``CONNECTION_LOST``.
        """
        if self._transport is None or self._transport.is_closing():
            raise reader.lost("it was closed")
        self._reader, self._answer, self._on_bytes = reader, self._loop.create_future(), on_bytes
        self._transport.write(message)
        try:
            return await self._answer
        finally:
            self._reader = self._answer = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport. Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand ``data`` to the reader. Called by the loop."""
        if self._reader is None:
            self.close()  # bytes that nobody asked for would pass for the next answer
        else:
            self._on_bytes(len(data))
            self._settle(self._reader.feed, data)

    def eof_received(self) -> None:
        """Take the end of what the peer sends. Called by the loop."""
        if self._reader is not None and not self._was_cut():
            self._settle(self._reader.end)

    def _was_cut(self) -> bool:
        """Whether a TLS stream ended without saying so, which asyncio does not tell from an orderly end."""
        secure = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        try:
            return secure is not None and secure.read(1) != b""
        except OSError:
            return True  # it still waits for more

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is still awaited. Called by the loop."""
        if self._reader is not None and self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._reader.lost(str(exc or "it ended")))

    def _settle(self, read: Callable[..., HttpResponse | None], *data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()
            return
        try:
            response = read(*data)
        except SkillwireError as error:
            self._answer.set_exception(error)
            self.close()
        else:
            if response is not None:
                self._answer.set_result(response)


async def open_stream(url: Url, address: str, seconds: float, context: ssl.SSLContext | None) -> Stream:
    """Connect to ``address``, and speak TLS there as the host of ``url``.

    Args:
        url: whose scheme, host and port are meant.
        address: one that the policy has allowed; nothing is looked up here.
        seconds: for connecting and the handshake.
        context: for https.

    Raises:
        FetchError: ``CONNECT_FAILED``, ``TLS_FAILED``.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _connect(url, address, context)
    except OSError as error:
        message = f"cannot connect to {url.host} ({address}, port {url.port}): {str(error) or 'timed out'}"
        raise FetchError("CONNECT_FAILED", message, place=Place(str(url))) from error


async def _connect(url: Url, address: str, context: ssl.SSLContext | None) -> Stream:
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, socket_address(address, url.port))
    except BaseException:
        sock.close()
        raise
    # From here on the loop owns the socket, and closes it when something fails.
    if context is None:
        return (await loop.create_connection(lambda: Stream(address), sock=sock))[1]
    import ssl  # noqa: PLC0415 - the caller has a context, so it is imported already

    from skillwire.adapters.http.tls import tls_failure  # noqa: PLC0415 - as above

    try:
        made = await loop.create_connection(lambda: Stream(address), sock=sock, ssl=context, server_hostname=url.name)
    except ssl.SSLError as error:
        raise tls_failure(url, error) from error
    return made[1]
