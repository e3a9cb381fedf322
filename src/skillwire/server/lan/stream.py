"""The network as a stream of server-sent events: all that is known, and then each change.

The first event is ``snapshot``; each that follows is a ``change``, or another ``snapshot`` for who was too slow to be
told every change. A stream ends when its reader goes, when it may look no more, when the server stops, or after
:data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.server.event_streams import HEARTBEAT, STILL_HERE, OpenStreams, part
from skillwire.server.lan.documents import encode_change, encode_snapshot
from skillwire.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import Receive, Send

    from skillwire.model.lan import LanChange
    from skillwire.server.lan.service import LanService

#: Seconds in which a reader is believed that it may look, however many changes it is told.
_BELIEVED: Final = 1.0
_CROWDED: Final = Problem(503, "ENDPOINT_UNREACHABLE", "too many follow the LAN already", fields={"Retry-After": "30"})


class LanStreams(OpenStreams):
    """The streams that are open.

    Args:
        service: that is followed.
        heartbeat: seconds until a line shows that a quiet stream lives.
    """

    def __init__(self, service: LanService, heartbeat: float = HEARTBEAT) -> None:
        super().__init__()
        self._service = service
        self._heartbeat = heartbeat

    async def serve(self, may_look: Callable[[], Awaitable[bool]], receive: Receive, send: Send) -> None:
        """Send what happens for as long as whoever asks stays, and ``may_look``."""
        if self.is_full:
            await _CROWDED.send(send)
            return
        changes = self._service.listen()
        if changes is None:
            message = self._service.trouble or "this server is not on the LAN yet"
            await Problem(503, "LAN_UNAVAILABLE", message, fields={"Retry-After": "5"}).send(send)
            return
        await self.keep(partial(self._write, changes, may_look), receive, send)

    async def _write(
        self, changes: AsyncIterator[LanChange], may_look: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        await send(_event(b"snapshot", await encoded_snapshot(self._service)))
        believed = time.monotonic()
        end = believed + limits.CONSOLE_STREAM_SECONDS
        coming = asyncio.ensure_future(anext(changes, None))
        try:
            while time.monotonic() < end:
                done, _ = await asyncio.wait({coming}, timeout=self._heartbeat)
                # Asked by the clock, since a network on which much happens may never be quiet.
                if not done or time.monotonic() >= believed + _BELIEVED:
                    if not await may_look():
                        return
                    believed = time.monotonic()
                if not done:
                    await send(part(STILL_HERE))
                    continue
                change = coming.result()
                if change is None:  # the agent has ended
                    return
                if change.kind == "missed":
                    await send(_event(b"snapshot", await encoded_snapshot(self._service)))
                else:
                    await send(_event(b"change", encode_change(change)))
                coming = asyncio.ensure_future(anext(changes, None))
        finally:
            coming.cancel()


async def encoded_snapshot(service: LanService) -> bytes:
    """Return all that is known now; what changes while it is encoded is not in it."""
    known = service.snapshot(), service.trouble, dict(service.counters)
    return await asyncio.to_thread(encode_snapshot, *known)  # ten thousand skills take a while


def _event(name: bytes, data: bytes) -> dict[str, object]:
    return part(b"event: " + name + b"\ndata: " + data + b"\n\n")  # JSON as we write it has no line ends
