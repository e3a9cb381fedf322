"""Pages that stay live: a stream of server-sent events that carries a part of the page anew whenever it may differ.

A stream ends when its page is closed, its session ends, the server is told to stop, or after
:data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`; the page begins another where that makes sense. However much happens,
a page gets a few events a second at most.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.server.headers import encode_fields
from skillwire.server.invocation.events import until_gone

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Send

_HEARTBEAT: Final = 15.0
#: Between two events.
_PAUSE: Final = 0.4
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_FIELDS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Cookie",
}
_FULL: Final = {"Content-Length": "0", "Cache-Control": "no-store", "Retry-After": "30"}


class Streams:
    """The live pages that are open.

    Args:
        changed: waits for a change, see :meth:`skillwire.server.invocation.desk.Desk.changed`.
    """

    def __init__(self, changed: Callable[[int, float], Awaitable[int]]) -> None:
        self._changed = changed
        self._open: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def close(self) -> None:
        """End all streams and begin no more: the server stops."""
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
        await send({"type": "http.response.start", "status": 200, "headers": encode_fields(_FIELDS)})
        writing = asyncio.create_task(self._write(make, is_good, send))
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

    async def _write(
        self, make: Callable[[], Awaitable[str]], is_good: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        number, last = -1, ""
        end = time.monotonic() + limits.CONSOLE_STREAM_SECONDS
        await send(_body(b"retry: 2000\n\n"))
        while time.monotonic() < end:
            now = await self._changed(number, _HEARTBEAT)
            if not await is_good():
                await send(_body(_event("ended", "")))
                return
            if now == number:
                await send(_body(b": still here\n\n"))
                continue
            number, html = now, await make()
            if html != last:
                await send(_body(_event("part", html)))
                last = html
            await asyncio.sleep(_PAUSE)


def _event(name: str, html: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(html))
    return f"event: {name}\n{lines}\n".encode("utf-8", "replace")


def _body(data: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": True}
