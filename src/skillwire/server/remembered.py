"""Requests whose answer is known without parsing them.

Clients send the same head again and again, byte for byte. What a head means does not change, and what it is answered
does not while the revision stays; so a head that was answered at once is kept with its answer. Only a request of
nobody in particular, whole and alone in what came, gets here (:mod:`skillwire.server.connection`). Trust: the heads are
a stranger's; their number and size are bounded, and the oldest goes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from skillwire import limits

if TYPE_CHECKING:
    from skillwire.server.prepared import Ready

T = TypeVar("T")


class Remembered(NamedTuple):
    """The answer that a request got, and what the log says of the request: its method and its path."""

    ready: Ready
    method: str
    path: str


class RememberedHeads(Generic[T]):
    """Head → what it meant in one revision."""

    def __init__(self) -> None:
        self._number = 0
        self._meanings: dict[bytes, T] = {}

    def find(self, head: bytes, revision: int) -> T | None:
        """Return what ``head`` meant in the revision of this number, or None."""
        return self._meanings.get(head) if revision == self._number else None

    def keep(self, head: bytes, revision: int, meaning: T) -> None:
        """Keep ``meaning``, unless the head is long."""
        if len(head) > limits.SERVER_REMEMBERED_HEAD_BYTES:
            return
        if revision != self._number:
            self._number = revision
            self._meanings.clear()
        if len(self._meanings) >= limits.SERVER_REMEMBERED_HEADS:
            del self._meanings[next(iter(self._meanings))]
        self._meanings[head] = meaning
