"""Streams of server-sent events that are open in a server: how many, for how long, and what ends them.

A stream ends when whoever reads it goes, when what writes it returns, and when the server is told to stop.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.server.headers import encode_fields
from skillwire.server.invocation.events import until_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.types import Receive, Send

#: Seconds until a line shows that a quiet stream lives.
HEARTBEAT: Final = 15.0
#: That line.
STILL_HERE: Final = b": still here\n\n"
_FIELDS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Cookie",
}


class OpenStreams:
    """The streams of one kind."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether no other may begin: there are enough, or the server stops."""
        return self._is_closed or len(self._open) >= limits.CONSOLE_STREAMS

    def close(self) -> None:
        """End all, and let no more begin: the server stops."""
        self._is_closed = True
        for task in self._open:
            task.cancel()

    async def keep(self, write: Callable[[Send], Coroutine[None, None, None]], receive: Receive, send: Send) -> None:
        """Send the head of a stream, then what ``write`` sends for as long as its reader stays, then its end."""
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": encode_fields(_FIELDS)})
        writing = asyncio.create_task(write(send))
        leaving = asyncio.create_task(until_gone(receive))
        self._open.add(writing)
        try:
            await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.discard(writing)
            for task in (writing, leaving):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await writing
        await send({"type": "http.response.body", "body": b""})


def part(data: bytes) -> dict[str, object]:
    """Return the message that carries a piece of a stream."""
    return {"type": "http.response.body", "body": data, "more_body": True}
