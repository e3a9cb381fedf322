"""The network as a stream of server-sent events: all that is known, and then each change.

The first event is ``snapshot``; each that follows is a ``change``, or another ``snapshot`` for who was too slow to be
told every change. A stream ends when its reader goes, when it may look no more, when the server stops, or after
:data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.server.headers import encode_fields
from skillwire.server.invocation.events import until_gone
from skillwire.server.lan.documents import encode_change, encode_snapshot
from skillwire.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import Receive, Send

    from skillwire.model.lan import LanChange
    from skillwire.server.lan.service import LanService

_HEARTBEAT: Final = 15.0
_FIELDS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Cookie",
}
_CROWDED: Final = Problem(503, "ENDPOINT_UNREACHABLE", "too many follow the LAN already", fields={"Retry-After": "30"})


class LanStreams:
    """The streams that are open.

    Args:
        service: that is followed.
        heartbeat: seconds until a line shows that a quiet stream lives.
    """

    def __init__(self, service: LanService, heartbeat: float = _HEARTBEAT) -> None:
        self._service = service
        self._heartbeat = heartbeat
        self._open: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def close(self) -> None:
        """End all streams and begin no more: the server stops."""
        self._is_closed = True
        for task in self._open:
            task.cancel()

    async def serve(self, may_look: Callable[[], Awaitable[bool]], receive: Receive, send: Send) -> None:
        """Send what happens for as long as whoever asks stays, and ``may_look``."""
        changes = self._service.listen()
        if self._is_closed or len(self._open) >= limits.CONSOLE_STREAMS:
            await _CROWDED.send(send)
            return
        if changes is None:
            message = self._service.trouble or "this server is not on the LAN yet"
            await Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"}).send(send)
            return
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": encode_fields(_FIELDS)})
        writing = asyncio.create_task(self._write(changes, may_look, send))
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
        self, changes: AsyncIterator[LanChange], may_look: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        await send(_event(b"snapshot", self._snapshot()))
        end = time.monotonic() + limits.CONSOLE_STREAM_SECONDS
        coming = asyncio.ensure_future(anext(changes, None))
        try:
            while time.monotonic() < end:
                done, _ = await asyncio.wait({coming}, timeout=self._heartbeat)
                if not done:
                    if not await may_look():
                        return
                    await send(_part(b": still here\n\n"))
                    continue
                change = coming.result()
                if change is None:  # the agent has ended
                    return
                if change.kind == "missed":
                    await send(_event(b"snapshot", self._snapshot()))
                else:
                    await send(_event(b"change", encode_change(change)))
                coming = asyncio.ensure_future(anext(changes, None))
        finally:
            coming.cancel()

    def _snapshot(self) -> bytes:
        return encode_snapshot(self._service.snapshot(), self._service.trouble, self._service.counters)


def _event(name: bytes, data: bytes) -> dict[str, object]:
    return _part(b"event: " + name + b"\ndata: " + data + b"\n\n")  # JSON as we write it has no line ends


def _part(data: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": True}
