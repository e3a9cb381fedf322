"""Beats that wait to be verified: most of them say what is known, and a signature costs more than all the rest.

A heartbeat that says HEALTHY of a skill that is listed as HEALTHY and is not suspected changes nothing but when it was
heard last, and nobody asks for that until silence would come to something. So up to two such beats of a skill are held
as they came; the third is verified when it comes, and makes them worthless. When silence would come to something before
that, what is held is verified, the newest first, and counts from when it came. Nothing that is not verified ever
counts, and whoever fills the places with forged beats only has the next ones verified at once. Spec: SDP §8; specs §3.

Trust: what is held is a stranger's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.protocols.skill_discovery.codec import signed_part

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.keyring import KeyRing
    from skillwire.protocols.skill_discovery.listing import Key
    from skillwire.protocols.skill_discovery.replay import ReplayGuard

_TYPE: Final = b"SKILL_HEARTBEAT:"
_PARTS: Final = 5
_STATUS: Final = b"HEALTHY"
_PLACES: Final = 2
#: Of a timestamp in milliseconds.
_DIGITS: Final = 14


class _Beat(NamedTuple):
    """A beat, its timestamp, and when it came."""

    data: bytes
    timestamp: int
    came: Moment


class HeldBeats:
    """The beats of one node that wait.

    Args:
        is_well: whether a skill is listed, HEALTHY, and not suspected.
        on_alive: is told the skill, the timestamp, and the steady time at which a good beat came.
        ring: whose key is whose.
        replay: the newest timestamp of each stream.
        window: seconds that a timestamp may differ from our clock.
        stopped: counts what was forged.
    """

    def __init__(
        self,
        is_well: Callable[[Key], bool],
        on_alive: Callable[[Key, int, float], object],
        *,
        ring: KeyRing,
        replay: ReplayGuard,
        window: float,
        stopped: Counter[str],
    ) -> None:
        self._is_well = is_well
        self._on_alive = on_alive
        self._ring = ring
        self._replay = replay
        self._window_ms = window * 1000
        self._stopped = stopped
        self._held: dict[Key, list[_Beat]] = {}

    def takes(self, data: bytes, now: Moment) -> bool:
        """Whether a datagram is a beat that is held; False for what is to be looked at now."""
        if not data.startswith(_TYPE) or len(data) > limits.DATAGRAM_BYTES or (read := _read(data)) is None:
            return False
        key, timestamp = read
        held = self._held.get(key, ())
        if held and timestamp <= held[-1].timestamp:  # one of them is worth nothing
            self.settle(key)
            return False
        can_wait = (
            len(held) < _PLACES
            and self._is_well(key)
            and timestamp > self._replay.newest_of(("Heartbeat", *key))
            and abs(timestamp - now.wall * 1000) <= self._window_ms
            and self._ring.judgement_of(key[0], now.wall) is not None
        )
        if can_wait:
            self._held.setdefault(key, []).append(_Beat(data, timestamp, now))
        return can_wait

    def holds(self, key: Key) -> bool:
        """Whether a beat of a skill waits."""
        return key in self._held

    def newest(self, key: Key) -> float:
        """Return when the last beat came that waits, by the steady clock."""
        return self._held[key][-1].came.steady

    def settle(self, key: Key) -> None:
        """Verify what is held of a skill until one is good; nothing of it is held any more."""
        for beat in reversed(self._held.pop(key, ())):
            stream = "Heartbeat", *key
            judgement = self._ring.judgement_of(key[0], beat.came.wall)
            if judgement is None or beat.timestamp <= self._replay.newest_of(stream):
                continue
            if judgement.key.verifies(signed_part(beat.data), beat.data.rpartition(b";")[2].decode("ascii", "replace")):
                self._replay.keep(stream, beat.timestamp, beat.data, beat.came.wall)
                self._on_alive(key, beat.timestamp, beat.came.steady)
                return
            self._stopped["forged"] += 1

    def forget(self, key: Key) -> None:
        """Hold nothing of a skill any more."""
        self._held.pop(key, None)


def _read(data: bytes) -> tuple[Key, int] | None:
    """Return the skill and the timestamp of a beat that says HEALTHY; None for any other datagram."""
    parts = data[len(_TYPE) :].split(b";")
    if len(parts) != _PARTS or parts[2] != _STATUS or not parts[3].isdigit() or len(parts[3]) > _DIGITS:
        return None
    return (parts[0].decode("ascii", "replace"), parts[1].decode("ascii", "replace")), int(parts[3])
