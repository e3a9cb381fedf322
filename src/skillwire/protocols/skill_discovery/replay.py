"""What keeps a signed message from counting twice, or late.

Three things together: a window around our clock; the newest timestamp of each agent, skill and message type, which
outlives a restart when it is kept; and the digest of the message that had it, which tells one that was sent again,
since nobody acknowledged it, from one that only claims the same time. What is older than the window needs no memory,
so the memory is that of a minute. Spec: specs §3 "replay".
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING

from skillwire import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Message type, agent, and skill or scene.
Stream = tuple[str, str, str]


class Freshness(StrEnum):
    """What a timestamp says of a message."""

    FRESH = "fresh"
    REPEATED = "repeated"  # the very same message as the newest one
    OLD = "old"  # not newer than one that came
    OUTSIDE = "outside"  # of the window


class ReplayGuard:
    """The newest message of each stream.

    Args:
        window: seconds that a timestamp may differ from our clock, either way.
        kept: what :meth:`changed` gave before a restart, the newest of each stream.
    """

    def __init__(self, window: float, kept: Iterable[tuple[Stream, int]] = ()) -> None:
        self.window = window
        self._window_ms = window * 1000
        self._newest: dict[Stream, tuple[int, bytes]] = {stream: (timestamp, b"") for stream, timestamp in kept}
        self._changed: set[Stream] = set()

    def judge(self, stream: Stream, timestamp: int, data: bytes, now: float) -> Freshness:
        """Return how fresh a message is; keep nothing, since its signature may be wrong.

        Args:
            stream: that it belongs to.
            timestamp: in milliseconds since the epoch.
            data: the datagram.
            now: seconds since the epoch.
        """
        if abs(timestamp - now * 1000) > self._window_ms:
            return Freshness.OUTSIDE
        newest, digest = self._newest.get(stream, (-1, b""))
        if timestamp > newest:
            return Freshness.FRESH
        is_same = timestamp == newest and digest == hashlib.sha256(data).digest()
        return Freshness.REPEATED if is_same else Freshness.OLD

    def keep(self, stream: Stream, timestamp: int, data: bytes, now: float) -> None:
        """Take note of a fresh message whose signature is good."""
        if len(self._newest) >= limits.LAN_STREAMS and stream not in self._newest:
            self._forget(now)
        self._newest[stream] = timestamp, hashlib.sha256(data).digest()
        self._changed.add(stream)

    def newest_of(self, stream: Stream) -> int:
        """Return the newest timestamp of a stream; -1 when nothing came."""
        return self._newest.get(stream, (-1, b""))[0]

    def changed(self) -> list[tuple[Stream, int]]:
        """Return the newest timestamp of each stream that had a message since the last call, to be kept."""
        changed, self._changed = self._changed, set()
        return [(stream, self._newest[stream][0]) for stream in changed]

    def _forget(self, now: float) -> None:
        """Forget what the window refuses anyway; were that nothing, the oldest tenth."""
        edge = now * 1000 - self._window_ms
        self._newest = {stream: kept for stream, kept in self._newest.items() if kept[0] >= edge}
        if len(self._newest) >= limits.LAN_STREAMS:
            by_age = sorted(self._newest, key=lambda stream: self._newest[stream][0])
            for stream in by_age[: len(by_age) // 10]:
                del self._newest[stream]
        self._changed &= self._newest.keys()
