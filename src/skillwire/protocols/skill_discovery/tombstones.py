"""Tombstones: who has said goodbye, as long as an older registration could still arrive. Spec: SDP §9.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire import limits

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.listing import Key


class Tombstones:
    """The newest goodbye of each skill that said one lately.

    Args:
        seconds: that each is remembered.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: dict[Key, tuple[int, float]] = {}  # those first that end first

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def add(self, key: Key, timestamp: int, now: float) -> None:
        """Remember one, unless there are too many."""
        self._kept.pop(key, None)
        if len(self._kept) < limits.LAN_SKILLS:
            self._kept[key] = timestamp, now + self._seconds

    def of(self, key: Key) -> int:
        """Return the timestamp of a skill's goodbye; -1 when there is none."""
        return self._kept.get(key, (-1, 0.0))[0]

    def timer(self) -> float | None:
        """Return when one is to be forgotten next."""
        return next(iter(self._kept.values()))[1] if self._kept else None

    def forget(self, now: float) -> None:
        """Forget what is over."""
        while (until := self.timer()) is not None and until <= now:
            del self._kept[next(iter(self._kept))]
