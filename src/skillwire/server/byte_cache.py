"""A cache that is bounded by the bytes it holds; what was used longest ago goes first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Keeps values by key, at most ``bound`` bytes of them; used by one thread.

    A value of more than a quarter of the bound is not kept: it would push out everything else.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: K) -> V | None:
        """Return the value, or None."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep ``value``, which takes ``size`` bytes."""
        if key in self._kept or size > self._bound // 4:
            return
        self._kept[key] = (value, size)
        self.size += size
        while self.size > self._bound:
            self.size -= self._kept.popitem(last=False)[1][1]
