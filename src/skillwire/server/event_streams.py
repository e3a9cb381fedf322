"""Open streams of server-sent events, and live pages: a stream that sends a part of its page when that may differ.

A stream ends with its reader, with its content, and with the server. A live page's stream also ends with its session,
or after :data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`; the page opens another where that makes sense. A page gets a
few events a second at most.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from starlette.types import Receive, Send

from skillwire import limits
from skillwire.server.http import encode_fields
from skillwire.server.responses import run_while_connected

#: Seconds until a line shows that a quiet stream lives.
_HEARTBEAT: Final = 15.0
#: Between two events.
_PAUSE: Final = 0.4
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_FULL: Final = {"Content-Length": "0", "Cache-Control": "no-store", "Retry-After": "30"}
_FIELDS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Cookie",
}


class PageStreams:
    """The open live pages; ``changed`` waits for a change, as ``ExecutionService.changed`` does."""

    def __init__(self, changed: Callable[[int, float], Awaitable[int]]) -> None:
        self._changed = changed
        self._open: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def close(self) -> None:
        """End all, and let no more begin: the server stops."""
        self._is_closed = True
        for task in self._open:
            task.cancel()

    async def serve(
        self, make: Callable[[], Awaitable[str]], is_good: Callable[[], Awaitable[bool]], receive: Receive, send: Send
    ) -> None:
        """Send what ``make`` returns whenever something changed, for as long as ``is_good``."""
        if self._is_closed or len(self._open) >= limits.CONSOLE_STREAMS:
            fields = encode_fields(_FULL)
            await send({"type": "http.response.start", "status": HTTPStatus.SERVICE_UNAVAILABLE, "headers": fields})
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": encode_fields(_FIELDS)})
        writing = asyncio.create_task(self._write(make, is_good, send))
        self._open.add(writing)
        try:
            await run_while_connected(writing, receive)
        finally:
            self._open.discard(writing)
        if not writing.cancelled():
            writing.result()
        await send({"type": "http.response.body", "body": b""})

    async def _write(
        self, make: Callable[[], Awaitable[str]], is_good: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        number, last = -1, ""
        end = time.monotonic() + limits.CONSOLE_STREAM_SECONDS
        await send(_part(b"retry: 2000\n\n"))
        while time.monotonic() < end:
            now = await self._changed(number, _HEARTBEAT)
            if not await is_good():
                await send(_part(_event("ended", "")))
                return
            if now == number:
                await send(_part(b": still here\n\n"))
                continue
            number, html = now, await make()
            if html != last:
                await send(_part(_event("part", html)))
                last = html
            await asyncio.sleep(_PAUSE)


def _part(data: bytes) -> dict[str, object]:
    """Return the message that carries a piece of a stream."""
    return {"type": "http.response.body", "body": data, "more_body": True}


def _event(name: str, html: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(html))
    return f"event: {name}\n{lines}\n".encode("utf-8", "replace")
