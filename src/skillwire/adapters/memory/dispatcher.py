"""A dispatcher for the workers of one event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class LocalDispatcher:
    """Fills :class:`skillwire.ports.Dispatcher`, for the workers of one event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()
