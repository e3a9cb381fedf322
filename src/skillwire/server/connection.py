"""One connection of a client: what the HTTP library leaves to others.

The library reads a head however long it is and however slowly it comes. Here a head has at most
:data:`~skillwire.limits.SERVER_HEAD_BYTES`, and a request has to arrive whole within
:data:`~skillwire.limits.SERVER_REQUEST_SECONDS`; the first one counts from the moment the connection is made.

One timer for each connection looks now and then whether a request is overdue; setting one for each request would
cost a tenth of the time that an answer takes.

The library writes the head of an answer and its body one after the other, which costs two system calls and the
client two reads. Here what is written within one turn of the event loop leaves together.

An index that is prepared is answered at once, without the application: two thirds of the time of such an answer
would go into a task, a scope and messages for it. Whatever is unusual about the request or the connection goes
the ordinary way, on which the application gives the same answer.

Clients send the same head again and again, byte for byte. One that was answered so is remembered with its answer as
long as the revision stays, and the next time it is not even parsed.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from skillwire import limits
from skillwire.server.headers import join_fields
from skillwire.server.problems import HEAD_TOO_LARGE, REQUEST_TIMEOUT

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from skillwire.server.application import Application
    from skillwire.server.headers import Fields
    from skillwire.server.prepared import Ready
    from skillwire.server.problems import Problem

#: A longer head is not remembered.
_REMEMBERED: Final = 1 * limits.KIB

#: Fields with which a request goes the ordinary way: it has a body, came through a proxy that says for whom, or says
#: who asks.
_UNUSUAL: Final = frozenset(
    {
        *(b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"x-forwarded-for"),
        *(b"authorization", b"x-api-key", b"x-signature"),
    }
)


class Connection(HttpToolsProtocol):
    """The library's connection to an :class:`~skillwire.server.application.Application`, bounded.

    Trust: the bytes are a stranger's.
    """

    _timer: asyncio.TimerHandle | None = None
    #: When the request that is arriving began; None while none is.
    _began: float | None = None
    #: Of the head that is arriving; None while a body is.
    _head_bytes: int | None = 0
    #: Whether the request that is arriving has been answered already.
    _is_answered = False
    #: What came last, if a request began with it.
    _chunk: bytes | None = None
    #: Since when nothing has come after an answer at once; the library itself watches what it has answered.
    _idle_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, and expect a request soon."""
        joined = _JoinedWrites(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", joined))
        self._application = cast("Application", self.config.app)
        self._expect()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head has become too long."""
        self._chunk = data if self._head_bytes == 0 else None
        if self._chunk is not None and self._answer_again(data):
            return
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes:
            self._expect()
            if self._head_bytes > limits.SERVER_HEAD_BYTES:
                self._refuse(HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins. What the application would be told of it is gathered if it takes that way."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._idle_since = None
        self._expect()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._head_bytes = None
        self._is_answered = self._answer()
        if not self._is_answered:
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()  # makes the scope, and resets what has been read
            self.url, self.expect_100_continue = url, expects
            self.headers.extend(headers)  # the scope holds this list
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """It is whole, and what comes next is another head."""
        self._head_bytes = 0
        self._began = None
        if self._is_answered:
            self._idle_since = self.loop.time()
        else:
            super().on_message_complete()

    def _is_free(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_crowded(self) -> bool:
        """Whether the library is going to refuse the request."""
        limit = self.limit_concurrency
        return limit is not None and (len(self.connections) >= limit or len(self.tasks) >= limit)

    def _is_usual(self) -> bool:
        return (
            self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and _UNUSUAL.isdisjoint([name for name, _ in self.headers])
        )

    def _may_answer(self) -> bool:
        return self._is_free() and not self.flow.write_paused and not self._is_crowded()

    def _answer(self) -> bool:
        """Answer at once, if the answer is known and nothing is unusual; return whether that was done."""
        if not self._may_answer() or not self._is_usual():
            return False
        head = self._chunk if self._chunk is not None and _is_one_head(self._chunk) else None
        ready = self._application.answer_at_once(self.url, self.parser.get_method(), self.headers, self.client, head)
        if ready is None:
            return False
        self._write(ready)
        return True

    def _answer_again(self, data: bytes) -> bool:
        """Answer what was answered before; return whether that was done."""
        if not self._may_answer():
            return False
        ready = self._application.answer_again(data, self.client)
        if ready is None:
            return False
        self._unset_keepalive_if_required()
        self._write(ready)
        self._began = None
        self._idle_since = self.loop.time()
        return True

    def _write(self, ready: Ready) -> None:
        head = b"%s%s\r\n" % (ready.head, _lines_of(self.server_state.default_headers))
        self.transport.writelines((head, ready.body) if ready.body else (head,))
        self.server_state.total_requests += 1

    def _expect(self) -> None:
        if self._began is None:
            self._began = self.loop.time()

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(limits.SERVER_REQUEST_SECONDS / 2, self._look)

    def _look(self) -> None:
        """Refuse a request that is overdue; close a connection that is idle."""
        now = self.loop.time()
        if self._began is not None and now - self._began >= limits.SERVER_REQUEST_SECONDS:
            self._refuse(REQUEST_TIMEOUT)
        elif self._idle_since is not None and now - self._idle_since >= limits.SERVER_IDLE_SECONDS:
            self.transport.close()
        elif not self.transport.is_closing():
            self._look_later()

    def _refuse(self, problem: Problem) -> None:
        """Say what is wrong, unless an answer is under way, and close."""
        if self._is_free():
            body = problem.body()
            status = HTTPStatus(problem.status)
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode("ascii") + body)
        self.transport.close()


def _is_one_head(data: bytes) -> bool:
    """Whether ``data`` is one whole head and nothing behind it; a request with a body does not come here."""
    return (
        len(data) <= _REMEMBERED
        and data.endswith(b"\r\n\r\n")
        and data.count(b"\n") == data.count(b"\r\n")
        and (data.count(b"\r\n\r\n") == 1)
    )


_default_lines: tuple[Fields, bytes] = ([], b"")


def _lines_of(fields: Fields) -> bytes:
    """Return the fields that the library sends with every answer, such as the date; it makes them anew each second."""
    global _default_lines  # noqa: PLW0603  # one server in a process, and one thread that answers
    if _default_lines[0] is not fields:
        _default_lines = (fields, join_fields(fields))
    return _default_lines[1]


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

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Write ``parts`` now, behind what was written before."""
        if self._parts:
            self._flush()
        self._transport.writelines(parts)

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
