"""Liveness: what a registry does with skills that fall silent.

Each skill has one timer. It is set for the moment at which silence would change something; a sign of life does not move
it: the timer is checked when it fires and set anew. So a thousand heartbeating skills cost next to nothing.

When more than a share of all skills is silent at once, the network is suspected and not the skills: they are kept and
marked *stale*, and removed only when they stay silent long after the others came back. An untrusted peer can register
skills and let them fall silent, so the share is counted for each level of trust, and says nothing about skills that
are trusted more. Spec: SDP §8; specs §3.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from skillwire.protocols.skill_discovery import health as states
from skillwire.protocols.skill_discovery.health import Change, Overdue, What

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from skillwire.protocols.skill_discovery.health import Health, Key, Listed
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


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
        self._settings = settings
        self._skills = skills
        self._hints = hints
        self._certified = certified
        self._on_change = on_change
        self._forget = forget
        self._suspect = settings.suspect_missed * settings.heartbeat_interval
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
            at = max(now - self._leave(known), states.next_step(known.health, self._settings))
            health, silence = states.silent(known.health, at, self._settings)
            if silence is Overdue.EXPIRED:
                self._expire(known, now)
            else:
                self._is_silent(known, health, silence)

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
