"""The page of the local network: what the server's agent knows of it, for operators.

What a skill does tells itself: a change makes the page anew at once. That a skill was heard again, as before, is no
change, so the page is made anew every few seconds, too, and says how long ago each was heard.
"""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from skillwire.model.lan import LanSnapshot
from skillwire.server.executions_console.stream import Streams
from skillwire.web.lan_page import lan_page
from skillwire.web.lan_query import read_lan_filters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skillwire.server.executions_console.request import ConsoleRequest
    from skillwire.web.lan_query import LanFilters

#: Seconds: as often as a skill is heard that has nothing new to say.
_BEAT: Final = 5.0


class Network(Protocol):
    """What the page needs of :class:`skillwire.server.lan.service.LanService`."""

    trouble: str

    def snapshot(self) -> LanSnapshot | None:
        """Return what is known; None while there is no network."""

    async def changed(self, since: int, seconds: float) -> int:
        """Return the number of the last change, when it is more than ``since`` or after ``seconds``."""


class LanPages:
    """Answers what concerns the local network.

    Args:
        network: what is shown.
        clock: seconds since the epoch.
        beat: seconds after which a page that is looked at is made anew, though nothing has changed.
    """

    def __init__(self, network: Network, clock: Callable[[], float] = time.time, beat: float = _BEAT) -> None:
        self._network = network
        self._clock = clock
        self._beat = beat
        self._streams = Streams(self._changed)

    def close(self) -> None:
        """End the streams of live pages."""
        self._streams.close()

    async def show(self, request: ConsoleRequest) -> None:
        """Answer with the page; without a network, with the reason."""
        filters = read_lan_filters(request.scope["query_string"])
        html = await self._page(filters, request, part=False)
        trouble = self._network.snapshot() is None
        await request.show(html, HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK)

    async def follow(self, request: ConsoleRequest, is_good: Callable[[], Awaitable[bool]]) -> None:
        """Send what changes of the page whenever it does."""
        filters = read_lan_filters(request.scope["query_string"])
        await self._streams.serve(
            lambda: self._page(filters, request, part=True), is_good, request.receive, request.send
        )

    async def _page(self, filters: LanFilters, request: ConsoleRequest, *, part: bool) -> str:
        now = self._clock()
        snapshot = self._network.snapshot()
        trouble = "" if snapshot else self._network.trouble or "this server is not on the network yet"
        known = snapshot or LanSnapshot("", now, (), ())
        return await asyncio.to_thread(lan_page, known, now, filters, request.frame, part=part, trouble=trouble)

    async def _changed(self, since: int, seconds: float) -> int:
        """Return a number that rises with every change, and with every beat of the clock."""
        beats, gone = divmod(time.monotonic(), self._beat)
        number = await self._network.changed(since - int(beats), min(seconds, self._beat - gone))
        return number + int(time.monotonic() // self._beat)
