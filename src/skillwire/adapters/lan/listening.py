"""Listeners: whoever wants to be told what changes, each at a pace of its own.

A listener that does not keep up loses what waits for it, and is told so once: who is told ``missed`` looks at
everything again. So nobody who sleeps makes the agent's memory grow.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from skillwire.model.lan import LanChange

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: Changes that wait for one listener.
_WAITING: Final = 4096


class Listener:
    """What waits for one listener: an asynchronous iterator, which ends with the agent."""

    def __init__(self) -> None:
        self._waiting: deque[LanChange] = deque()
        self._is_there = asyncio.Event()
        self._has_ended = False

    def __aiter__(self) -> AsyncIterator[LanChange]:
        return self

    async def __anext__(self) -> LanChange:
        """Return the next change."""
        while not self._waiting:
            if self._has_ended:
                raise StopAsyncIteration
            self._is_there.clear()
            await self._is_there.wait()
        return self._waiting.popleft()

    def put(self, change: LanChange) -> None:
        """Have one more wait."""
        if len(self._waiting) >= _WAITING:
            self._waiting.clear()
            change = LanChange("missed", change.at)
        self._waiting.append(change)
        self._is_there.set()

    def end(self) -> None:
        """Give what waits, and then no more."""
        self._has_ended = True
        self._is_there.set()


class Listeners:
    """All that listen; whoever is forgotten elsewhere is forgotten here."""

    def __init__(self) -> None:
        self._all: WeakSet[Listener] = WeakSet()

    def new(self) -> Listener:
        """Return one more."""
        listener = Listener()
        self._all.add(listener)
        return listener

    def tell(self, change: LanChange) -> None:
        """Tell all."""
        for listener in self._all:
            listener.put(change)

    def end(self) -> None:
        """Tell all that nothing more will come."""
        for listener in self._all:
            listener.end()
