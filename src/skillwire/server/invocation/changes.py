"""Who waits for an execution, or for any, and is told when it changes.

A change of this process names its executions. One of another process is seen by the database alone, and names none, so
everybody looks again. Being woken for nothing does no harm.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable


class Changes:
    """The changes of the ledger, as one event loop hears of them. ``number`` rises with each."""

    def __init__(self) -> None:
        self.number = 0
        self.is_closed = False
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._watchers: set[asyncio.Event] = set()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._watchers) + sum(map(len, self._followers.values()))

    def tell(self, *execution_ids: str) -> None:
        """Say that these changed."""
        self.number += 1
        for execution_id in execution_ids:
            for event in self._followers.get(execution_id, ()):
                event.set()
        for event in self._watchers:
            event.set()

    def tell_all(self) -> None:
        """Say that any may have changed."""
        self.tell(*self._followers)

    def close(self) -> None:
        """Wake everybody for the last time: nobody waits any more."""
        self.is_closed = True
        self.tell_all()

    def follow(self, execution_id: str) -> Following:
        """Begin to listen for changes of one execution: before it is looked up, so that none is missed."""
        return Following(self._followers.setdefault(execution_id, set()), lambda: self._drop(execution_id))

    def _drop(self, execution_id: str) -> None:
        if not self._followers.get(execution_id):
            self._followers.pop(execution_id, None)

    async def beyond(self, since: int, seconds: float) -> int:
        """Return :attr:`number` when it is more than ``since``, or as it is after ``seconds``."""
        if self.number <= since:
            with Following(self._watchers, lambda: None) as following:
                await following.wait(seconds)
        return self.number


class Following:
    """Somebody who listens; a context manager that ends it."""

    def __init__(self, events: set[asyncio.Event], end: Callable[[], None]) -> None:
        self._events = events
        self._end = end
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._events.add(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        self._events.discard(self._event)
        self._end()

    async def wait(self, seconds: float) -> bool:
        """Return whether something was said since the last call, waiting at most ``seconds`` for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        was_told = self._event.is_set()
        self._event.clear()
        return was_told
