"""What is remembered of strangers, who can make up as much as they like: the newest, and so many of them."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
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
