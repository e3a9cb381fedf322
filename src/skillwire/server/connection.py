"""One connection of a client: what the HTTP library leaves to others.

The library reads a head however long it is and however slowly it comes. Here a head has at most
:data:`~skillwire.limits.SERVER_HEAD_BYTES`, and a request has to arrive whole within
:data:`~skillwire.limits.SERVER_REQUEST_SECONDS`; the first one counts from the moment the connection is made.

One timer for each connection looks now and then whether a request is overdue; setting one for each request would
cost a tenth of the time that an answer takes.

The library writes the head of an answer and its body one after the other, which costs two system calls and the
client two reads. Here what is written within one turn of the event loop leaves together.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skillwire import limits
from skillwire.server.problems import HEAD_TOO_LARGE, REQUEST_TIMEOUT

if TYPE_CHECKING:
    import asyncio

    from skillwire.server.problems import Problem


class Connection(HttpToolsProtocol):
    """The library's connection, bounded. Trust: the bytes are a stranger's."""

    _timer: asyncio.TimerHandle | None = None
    #: When the request that is arriving began; None while none is.
    _began: float | None = None
    #: Of the head that is arriving; None while a body is.
    _head_bytes: int | None = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, and expect a request soon."""
        joined = _JoinedWrites(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", joined))
        self._expect()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head has become too long."""
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes:
            self._expect()
            if self._head_bytes > limits.SERVER_HEAD_BYTES:
                self._refuse(HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._expect()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._head_bytes = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """It is whole, and what comes next is another head."""
        self._head_bytes = 0
        self._began = None
        super().on_message_complete()

    def _expect(self) -> None:
        if self._began is None:
            self._began = self.loop.time()

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(limits.SERVER_REQUEST_SECONDS / 2, self._look)

    def _look(self) -> None:
        """Refuse a request that is overdue."""
        if self._began is not None and self.loop.time() - self._began >= limits.SERVER_REQUEST_SECONDS:
            self._refuse(REQUEST_TIMEOUT)
        elif not self.transport.is_closing():
            self._look_later()

    def _refuse(self, problem: Problem) -> None:
        """Say what is wrong, unless an answer is under way, and close."""
        if self.cycle is None or self.cycle.response_complete:
            body = problem.body()
            status = HTTPStatus(problem.status)
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode("ascii") + body)
        self.transport.close()


class _JoinedWrites:
    """A transport that hands on at the end of a turn what was written in it."""

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write ``data`` at the end of this turn."""
        if data:
            if not self._parts:
                self._loop.call_soon(self._flush)
            self._parts.append(data)

    def close(self) -> None:
        """Write what is left, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif parts:
            self._transport.writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
