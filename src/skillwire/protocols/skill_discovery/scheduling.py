"""What is to be done when: one time for each thing, moved or taken back in constant time.

What is remembered of strangers, who can make up as much as they like: the newest, and so many of them.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

K = TypeVar("K")

#: Times that hold no more, since their thing was moved, and are kept all the same.
_MOVED: Final = 64

#: Says when something is due next, by the steady clock.
Timer = Callable[[], float | None]


class TimerQueue(Generic[K]):
    """Things that are due at a time, in seconds of the steady clock."""

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, int]] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._numbers = count()

    def set(self, thing: K, due: float) -> None:
        """Let ``thing`` be done at ``due``, and not when it was to be done before."""
        number = next(self._numbers)
        self._due[thing] = due, number
        heappush(self._timers, (due, number, thing))
        if len(self._timers) > 2 * len(self._due) + _MOVED:  # most of them are for times that hold no more
            self._timers = [(due, number, thing) for thing, (due, number) in self._due.items()]
            heapify(self._timers)

    def cancel(self, thing: K) -> None:
        """Let ``thing`` not be done."""
        self._due.pop(thing, None)

    def __contains__(self, thing: K) -> bool:
        return thing in self._due

    def pop(self, now: float) -> K | None:
        """Return the next thing that is due, which is then no more; None when nothing is."""
        while self._timers and self._timers[0][0] <= now:
            due, number, thing = heappop(self._timers)
            if self._due.get(thing) == (due, number):
                del self._due[thing]
                return thing
        return None

    def timer(self) -> float | None:
        """Return when something is due next."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][:2]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None


V = TypeVar("V")


class BoundedDict(dict[K, V]):
    """A mapping in which whatever was put last stands last, and the first makes room when there are too many.

    Args:
        most: entries that are kept.
    """

    def __init__(self, most: float) -> None:
        super().__init__()
        self._most = most

    def put(self, key: K, value: V) -> K | None:
        """Put an entry last; return the key of the one that has made room for it, None for none."""
        self.pop(key, None)
        self[key] = value
        if len(self) <= self._most:
            return None
        first = next(iter(self))
        del self[first]
        return first
