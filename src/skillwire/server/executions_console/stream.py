"""Pages that stay live: a stream of server-sent events that carries a part of the page anew whenever it may differ.

A stream ends when its page is closed, its session ends, the server is told to stop, or after
:data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`; the page begins another where that makes sense. However much happens,
a page gets a few events a second at most.
"""

from __future__ import annotations

import asyncio
import re
import time
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.server.event_streams import HEARTBEAT, STILL_HERE, OpenStreams, part
from skillwire.server.headers import encode_fields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Send

#: Between two events.
_PAUSE: Final = 0.4
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_FULL: Final = {"Content-Length": "0", "Cache-Control": "no-store", "Retry-After": "30"}


class Streams(OpenStreams):
    """The live pages that are open.

    Args:
        changed: waits for a change, see :meth:`skillwire.server.invocation.desk.Desk.changed`.
    """

    def __init__(self, changed: Callable[[int, float], Awaitable[int]]) -> None:
        super().__init__()
        self._changed = changed

    async def serve(
        self, make: Callable[[], Awaitable[str]], is_good: Callable[[], Awaitable[bool]], receive: Receive, send: Send
    ) -> None:
        """Send what ``make`` returns whenever something changed, for as long as ``is_good``."""
        if self.is_full:
            fields = encode_fields(_FULL)
            await send({"type": "http.response.start", "status": HTTPStatus.SERVICE_UNAVAILABLE, "headers": fields})
            await send({"type": "http.response.body", "body": b""})
            return
        await self.keep(partial(self._write, make, is_good), receive, send)

    async def _write(
        self, make: Callable[[], Awaitable[str]], is_good: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        number, last = -1, ""
        end = time.monotonic() + limits.CONSOLE_STREAM_SECONDS
        await send(part(b"retry: 2000\n\n"))
        while time.monotonic() < end:
            now = await self._changed(number, HEARTBEAT)
            if not await is_good():
                await send(part(_event("ended", "")))
                return
            if now == number:
                await send(part(STILL_HERE))
                continue
            number, html = now, await make()
            if html != last:
                await send(part(_event("part", html)))
                last = html
            await asyncio.sleep(_PAUSE)


def _event(name: str, html: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(html))
    return f"event: {name}\n{lines}\n".encode("utf-8", "replace")
