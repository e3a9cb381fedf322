"""What the silence of the skills comes to that are listed: they are suspected, UNHEALTHY, and forgotten.

One timer runs for each skill. It is set when silence would come to something, and a sign of life does not move it: it
looks when it is time, and is set anew. So what a thousand skills say costs next to nothing.

Before a skill is suspected the beats of it are verified that are held. As long as nobody forges any that may be as late
as when it would be UNHEALTHY; see :mod:`~skillwire.protocols.skill_discovery.liveness`.

When more than a share of all skills is silent at once, it is not them: the network is suspected, and what would be
forgotten is kept and marked *stale*. It is forgotten when it stays silent long after the others came back. Anybody can
make up skills and let them fall silent, so that says nothing of who is trusted more: of what is certified only the
silence of what is certified does.
Spec: SDP §8; specs §3.

Whether so many are silent at once that it is not them but the network. Spec: specs §3 "health".

Beats that wait to be verified: most of them say what is known, and a signature costs more than all the rest.

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

from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.protocols.skill_discovery import health as states
from skillwire.protocols.skill_discovery.health import Change, Overdue, What

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.health import Health, Key, Listed
    from skillwire.protocols.skill_discovery.identity import Judgement, KeyRing
    from skillwire.protocols.skill_discovery.limits import ReplayGuard
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


class OutageDetector:
    """The silent ones among those who owe a sign of life alike.

    Args:
        settings: figures; ``mass_share``, ``mass_least`` and ``eviction``.
    """

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self._silent: set[Key] = set()
        self._suspected_until = 0.0

    def add(self, key: Key) -> None:
        """Take note that one is silent."""
        self._silent.add(key)

    def discard(self, key: Key) -> None:
        """Take note that one has spoken, or is gone."""
        self._silent.discard(key)

    def is_suspected(self, now: float) -> bool:
        """Whether it is the network."""
        return now < self._suspected_until

    def judge(self, every: int, now: float) -> None:
        """Look whether it is the network now that one is to be forgotten, of so many in all."""
        silent = len(self._silent)
        if silent >= self._settings.mass_least and silent > self._settings.mass_share * every:
            self._suspected_until = now + self._settings.eviction


class _Trust(IntEnum):
    """How far what is listed is trusted: the first most."""

    CERTIFIED = 0
    UNVERIFIED = 1
    HINT = 2


def _trust_in(known: Listed) -> _Trust:
    return _Trust.HINT if known.is_hint else _Trust.CERTIFIED if known.is_verified else _Trust.UNVERIFIED


class LivenessTimeouts:
    """The timers of one registry.

    Args:
        settings: its figures.
        skills: what it lists, which is changed here.
        hints: which of them are hints.
        certified: says how many of them are certified.
        on_change: is told every change, after it happened.
        forget: takes a skill off the list.
    """

    def __init__(
        self,
        settings: DiscoverySettings,
        skills: dict[Key, Listed],
        hints: Collection[Key],
        *,
        certified: Callable[[], int],
        on_change: Callable[[Change], object],
        forget: Callable[[Listed], object],
    ) -> None:
        self.held: DeferredHeartbeats | None = None
        self._settings = settings
        self._skills = skills
        self._hints = hints
        self._certified = certified
        self._on_change = on_change
        self._forget = forget
        self._suspect = settings.suspect_missed * settings.heartbeat_interval
        self._unhealthy = settings.unhealthy_missed * settings.heartbeat_interval
        self._due: dict[Key, float] = {}
        self._timers: list[tuple[float, Key]] = []
        self._crowds = [OutageDetector(settings) for _ in _Trust]

    def is_network(self, now: float, known: Listed | None = None) -> bool:
        """Whether so many skills fell silent that it is the network; for ``known`` of those trusted as much."""
        trust = _Trust.UNVERIFIED if known is None else _trust_in(known)
        return any(crowd.is_suspected(now) for crowd in self._crowds[: trust + 1])

    def put(self, key: Key, listed: Listed) -> None:
        """List a skill that gave a sign of life, or is new."""
        self._skills[key] = listed
        due, running = self._next_step(listed), self._due.get(key)
        if running is not None:
            for crowd in self._crowds:  # it may have been a hint before
                crowd.discard(key)
        if running is None or due < running:  # otherwise the timer that runs looks when it is time
            self._schedule(key, due)

    def drop(self, key: Key) -> None:
        """Wait no more for a skill that is listed no more."""
        for crowd in self._crowds:
            crowd.discard(key)
        del self._due[key]

    def timer(self) -> float | None:
        """Return when silence comes to something next, or a little earlier."""
        return self._timers[0][0] if self._timers else None

    def on_timer(self, now: float) -> None:
        """Do what silence has come to by now."""
        timers, dues, skills = self._timers, self._due, self._skills
        while timers and timers[0][0] <= now:
            due, key = heappop(timers)
            known = skills.get(key)
            if known is None or dues[key] != due:
                continue
            if now < (then := self._next_step(known)):  # it spoke since
                self._schedule(key, then)
                continue
            if self.held is not None and self.held.holds(key):
                self._look_at_beats(known, self.held, now)
                continue
            at = max(now - self._leave(known), states.next_step(known.health, self._settings))
            health, silence = states.silent(known.health, at, self._settings)
            if silence is Overdue.EXPIRED:
                self._expire(known, now)
            else:
                self._is_silent(known, health, silence)

    def _look_at_beats(self, known: Listed, held: DeferredHeartbeats, now: float) -> None:
        """Have beats verified that are held, unless they would not even be a suspicion, were they good.

        Nobody is listed as HEALTHY by what is not verified for longer than by what is.
        """
        then = min(held.newest(known.key, now) + self._suspect, known.health.heard + self._unhealthy)
        if now >= then:
            held.settle(known.key)
            then = self._next_step(self._skills[known.key])
        self._schedule(known.key, then)

    def _is_silent(self, known: Listed, health: Health, silence: Overdue) -> None:
        key = known.key
        self._skills[key] = changed = known._replace(health=health)
        self._schedule(key, self._next_step(changed))
        if silence is Overdue.MISSED:
            self._crowds[_trust_in(known)].add(key)
            self._on_change(Change(What.STATUS, known, changed))
        if silence is not Overdue.NOTHING:
            self._on_change(Change(What.SUSPECTED, known, changed))

    def _expire(self, known: Listed, now: float) -> None:
        """Forget a skill, unless so many of its kind are silent that it is the network."""
        trust = _trust_in(known)
        crowd = self._crowds[trust]
        crowd.add(known.key)
        crowd.judge(self._count(trust), now)
        if self.is_network(now, known) and now - known.health.heard < self._settings.stale:
            stale = known._replace(health=known.health._replace(is_stale=True))
            self._skills[known.key] = stale
            self._schedule(known.key, now + self._settings.eviction)
            if not known.health.is_stale:
                self._on_change(Change(What.STALE, known, stale))
        else:
            self._forget(known)

    def _count(self, trust: _Trust) -> int:
        """Return how many are listed that are trusted alike."""
        if trust is _Trust.HINT:
            return len(self._hints)
        certified = self._certified()
        return certified if trust is _Trust.CERTIFIED else len(self._skills) - len(self._hints) - certified

    def _leave(self, known: Listed) -> float:
        """Return the seconds that a skill may be silent beyond what beats are owed: a hint owes none."""
        return self._settings.hint_interval - self._suspect if known.is_hint else 0.0

    def _next_step(self, listed: Listed) -> float:
        due = states.next_step(listed.health, self._settings)
        return due + self._leave(listed) if listed.is_hint else due

    def _schedule(self, key: Key, due: float) -> None:
        self._due[key] = due
        heappush(self._timers, (due, key))


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


class _Heartbeat(NamedTuple):
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
        self.beats: list[_Heartbeat] = []


class DeferredHeartbeats:
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
        if self._judgement_for(skill.key, now) is None:
            return False
        beats.append(_Heartbeat(data, timestamp, now, source))
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
            judgement = self._judgement_for(key, beat.came)
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

    def _judgement_for(self, key: Key, now: Moment) -> Judgement | None:
        """Return what is known of the key that speaks for a skill; None when none does."""
        judgement = self._ring.judgement_of(key[0], now.wall)
        return None if judgement is None or judgement.standing_of(*key) is None else judgement

    def _verify(self, skill: _Skill, beat: _Heartbeat, judgement: Judgement) -> bool:
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
