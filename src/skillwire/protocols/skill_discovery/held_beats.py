"""Beats that wait to be verified: most of them say what is known, and a signature costs more than all the rest.

A heartbeat that says HEALTHY of a skill that is listed as HEALTHY and is not suspected changes nothing but when it was
heard last, and nobody asks for that until silence would come to something. So up to three such beats of a skill are
held as they came. After the third they are verified, the newest first until one is good, which counts from when it came
and makes the others worthless. Nothing that is not verified ever counts, and whoever fills the places with forged beats
only has the next ones verified at once.

The last waits a moment for those of other skills: to verify many in a row costs less for each, since what that takes is
in the processor's cache.

Once a beat was forged, it is otherwise for some minutes. A skill is suspected after two missed beats, and asked then
whether it is there. If that waited for beats that are forged, they would leave no time to ask: the skill would be
UNHEALTHY at once. So only two wait then, and are verified before the skill would be suspected. Registrations never
wait, though most of them say what is listed: each is acknowledged, and may be the first by another key.

What a skill beats is the same each time but for its timestamp and signature. So a beat is known by the bytes before
those two, and is not read any further until it counts. What is longer than a beat can be is none, and is not held.
Spec: SDP §8; specs §3.

Trust: what is held is a stranger's; of a skill it is at most 1.3 KB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.identity import Judgement
    from skillwire.protocols.skill_discovery.keyring import KeyRing
    from skillwire.protocols.skill_discovery.listing import Key
    from skillwire.protocols.skill_discovery.replay import ReplayGuard
    from skillwire.wire.node import Peer

_TYPE: Final = b"SKILL_HEARTBEAT:"
#: Between the skill and the timestamp.
_STATUS: Final = b";HEALTHY;"
#: Bytes of the longest: two identifiers of 128 characters, a timestamp of 14, and a signature, which has at most 122.
_LONGEST: Final = 420
_PLACES: Final = 3
#: The same for so many seconds after a beat was forged.
_FEW_PLACES: Final = 2
_DISTRUST: Final = 600.0
#: Seconds that the last beat waits for those of others.
_MOMENT: Final = 0.25
#: Of a timestamp in milliseconds.
_DIGITS: Final = 14


class _Beat(NamedTuple):
    """A beat, its timestamp, and when and where from it came."""

    data: bytes
    timestamp: int
    came: Moment
    source: Peer


class _Skill:
    """A skill that beats: its key, the stream of its beats, the bytes with which they begin, and those that wait."""

    __slots__ = ("beats", "head", "key", "stream")

    def __init__(self, key: Key, head: bytes) -> None:
        self.key = key
        self.head = head
        self.stream = "Heartbeat", *key
        self.beats: list[_Beat] = []


class HeldBeats:
    """The beats of one node that wait.

    Args:
        is_well: whether a skill is listed, HEALTHY, and not suspected.
        on_alive: is told the skill, the timestamp, where a good beat came from, and when.
        ring: whose key is whose.
        replay: the newest timestamp of each stream.
        window: seconds that a timestamp may differ from our clock.
        stopped: counts what was forged.
    """

    def __init__(
        self,
        is_well: Callable[[Key], bool],
        on_alive: Callable[[Key, int, Peer, Moment], object],
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
        self._ready: list[_Skill] = []
        self._due = 0.0
        self._forged = float("-inf")
        self._skills: dict[Key, _Skill] = {}
        self._heads: dict[bytes, _Skill] = {}

    def takes(self, data: bytes, source: Peer, now: Moment) -> bool:
        """Whether a datagram is a beat that is held; False for what is to be looked at now."""
        read = self._read(data)
        if read is None:
            return False
        skill, timestamp = read
        beats, places = skill.beats, self._places(now.steady)
        if beats and (timestamp <= beats[-1].timestamp or len(beats) >= places):  # one of them is worth nothing
            self.settle(skill.key)
            return False
        is_new = bool(beats) or timestamp > self._replay.newest_of(skill.stream)
        if not is_new or not self._is_well(skill.key) or abs(timestamp - now.wall * 1000) > self._window_ms:
            return False
        if self._judgement_of(skill.key, now) is None:
            return False
        beats.append(_Beat(data, timestamp, now, source))
        if len(beats) >= places:
            if not self._ready:
                self._due = now.steady + _MOMENT
            self._ready.append(skill)
        return True

    def timer(self) -> float | None:
        """Return when beats are to be verified."""
        return self._due if self._ready else None

    def on_timer(self, now: float) -> None:
        """Verify the beats of those whose places are taken."""
        if not self._ready or now < self._due:
            return
        ready, self._ready = self._ready, []
        for skill in ready:
            if len(skill.beats) >= self._places(now):  # otherwise they were looked at before
                self.settle(skill.key)

    def holds(self, key: Key) -> bool:
        """Whether a beat of a skill waits."""
        skill = self._skills.get(key)
        return skill is not None and bool(skill.beats)

    def newest(self, key: Key, now: float) -> float:
        """Return when the last beat came that waits, by the steady clock; long ago when one was forged lately."""
        return self._skills[key].beats[-1].came.steady if self._places(now) == _PLACES else float("-inf")

    def settle(self, key: Key) -> None:
        """Verify what is held of a skill until one is good; nothing of it is held any more."""
        if (skill := self._skills.get(key)) is None:
            return
        beats, skill.beats = skill.beats, []
        for beat in reversed(beats):
            judgement = self._judgement_of(key, beat.came)
            if judgement is not None and self._verify(skill, beat, judgement):
                return

    def clear(self, key: Key) -> None:
        """Hold nothing of a skill any more, since something newer is good."""
        if (skill := self._skills.get(key)) is not None:
            skill.beats.clear()

    def forget(self, key: Key) -> None:
        """Forget a skill that is not listed any more."""
        if (skill := self._skills.pop(key, None)) is not None:
            del self._heads[skill.head]

    def _places(self, now: float) -> int:
        """Return how many beats of a skill may wait; ``now`` is of the steady clock."""
        return _PLACES if now > self._forged + _DISTRUST else _FEW_PLACES

    def _read(self, data: bytes) -> tuple[_Skill, int] | None:
        """Return the skill and the timestamp of a beat that says HEALTHY; None for what is no such beat."""
        if not data.startswith(_TYPE) or len(data) > _LONGEST:
            return None
        head, _, rest = data.partition(_STATUS)
        digits = rest.partition(b";")[0]
        if not digits.isdigit() or len(digits) > _DIGITS or digits.startswith(b"0"):
            return None
        skill = self._heads.get(head) or self._meet(head)
        return None if skill is None else (skill, int(digits))

    def _meet(self, head: bytes) -> _Skill | None:
        """Return the skill whose beats begin like this; None unless it is well."""
        agent_id, _, skill_id = head[len(_TYPE) :].partition(b";")
        key = agent_id.decode("ascii", "replace"), skill_id.decode("ascii", "replace")
        if not self._is_well(key):
            return None
        skill = self._skills[key] = self._heads[head] = _Skill(key, head)
        return skill

    def _judgement_of(self, key: Key, now: Moment) -> Judgement | None:
        """Return what is known of the key that speaks for a skill; None when none does."""
        judgement = self._ring.judgement_of(key[0], now.wall)
        return None if judgement is None or judgement.standing_of(*key) is None else judgement

    def _verify(self, skill: _Skill, beat: _Beat, judgement: Judgement) -> bool:
        """Whether a beat is good; if so it counts from when it came, and what waits is worth nothing more."""
        data, timestamp, came, source = beat
        if timestamp <= self._replay.newest_of(skill.stream):
            return False
        signed, _, signature = data.rpartition(b";")
        if not judgement.key.verifies(signed, signature.decode("ascii", "replace")):
            self._stopped["forged"] += 1
            self._forged = came.steady
            return False
        skill.beats.clear()
        self._replay.keep(skill.stream, timestamp, data, came.wall)
        self._on_alive(skill.key, timestamp, source, came)
        return True
