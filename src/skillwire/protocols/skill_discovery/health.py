"""The health of a skill as it is seen from elsewhere: a value, and the steps that change it.

What a skill says of itself counts at once, except that it is well again: after it was UNHEALTHY that takes good beats
in a row, and longer when it flaps. Silence is told by the clock of who listens: after two missed beats a skill is
*suspected*, after three it is UNHEALTHY, after thirty seconds it is forgotten. Before each of the last two its endpoint
is probed once: an answer puts off what silence would do next. A newer beat refutes a suspicion.

:data:`TRANSITIONS` is the whole of it, as h11 has its states: what follows on what. Flapping is damped as routers damp
a route that comes and goes: every fall counts as a penalty that decays, and too much of it holds the skill down.
Spec: SDP §8; specs §3. Time is an argument, in seconds that only grow.

How a registry lists skills: the values, and what changes in them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.protocols.skill_discovery.messages import HealthStatus

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.messages import Register
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


HEALTHY, DEGRADED, UNHEALTHY = HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.UNHEALTHY
MAINTENANCE, OFFLINE, UNKNOWN = HealthStatus.MAINTENANCE, HealthStatus.OFFLINE, HealthStatus.UNKNOWN

#: A skill of these may be called.
USABLE: Final = frozenset({HEALTHY, DEGRADED, UNKNOWN})
#: A skill of these takes good beats in a row to get well.
FALLEN: Final = frozenset({UNHEALTHY, OFFLINE})


class Event(StrEnum):
    """What happens to the health of a skill."""

    GOOD = "good"  # a beat says HEALTHY, and that is not enough yet
    RECOVERED = "recovered"  # the same, and it is enough
    DEGRADED = "degraded"  # a beat says so
    MAINTENANCE = "maintenance"
    UNHEALTHY = "unhealthy"
    OFFLINE = "offline"
    MISSED = "missed"  # too many beats were missed


_REPORTED: Final = {
    Event.DEGRADED: DEGRADED,
    Event.MAINTENANCE: MAINTENANCE,
    Event.UNHEALTHY: UNHEALTHY,
    Event.OFFLINE: OFFLINE,
    Event.RECOVERED: HEALTHY,
}
TRANSITIONS: Final[dict[HealthStatus, dict[Event, HealthStatus]]] = {
    HEALTHY: {**_REPORTED, Event.GOOD: HEALTHY, Event.MISSED: UNHEALTHY},
    DEGRADED: {**_REPORTED, Event.GOOD: DEGRADED, Event.MISSED: UNHEALTHY},
    MAINTENANCE: {**_REPORTED, Event.GOOD: MAINTENANCE, Event.MISSED: UNHEALTHY},
    UNKNOWN: {**_REPORTED, Event.GOOD: UNKNOWN, Event.MISSED: UNHEALTHY},
    UNHEALTHY: {**_REPORTED, Event.GOOD: UNHEALTHY, Event.MISSED: UNHEALTHY},
    OFFLINE: {**_REPORTED, Event.GOOD: OFFLINE, Event.MISSED: UNHEALTHY},
}
_EVENTS: Final = {status: event for event, status in _REPORTED.items()}


class Health(NamedTuple):
    """How a skill is, as far as we know.

    Args:
        status: what we say.
        heard: when the last sign of life came.
        good: beats in a row that said HEALTHY.
        is_suspect: whether it missed beats.
        is_excused: whether the probe that was made for it was answered.
        is_stale: whether it would have been forgotten, were the network not suspected.
        penalty: for falling, as of ``fell``.
        fell: when it last became UNHEALTHY.
        held_until: before which it is not HEALTHY again.
    """

    status: HealthStatus
    heard: float
    good: int = 0
    is_suspect: bool = False
    is_excused: bool = False
    is_stale: bool = False
    penalty: float = 0.0
    fell: float = 0.0
    held_until: float = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether the skill may be called."""
        return self.status in USABLE


def alive(health: Health, now: float) -> Health:
    """Return the health after a sign of life that says nothing of how the skill is."""
    return health._replace(heard=now, is_suspect=False, is_excused=False, is_stale=False)


class Overdue(StrEnum):
    """What the silence of a skill has come to."""

    NOTHING = "nothing"
    SUSPECTED = "suspected"
    MISSED = "missed"
    EXPIRED = "expired"


def told(health: Health, status: HealthStatus, now: float, settings: DiscoverySettings) -> Health:
    """Return the health after a beat that says ``status``."""
    if status is HEALTHY and health.status is HEALTHY and not health.is_suspect:
        # As ``_replace`` would; it is what nearly every beat says.
        return Health(HEALTHY, now, health.good + 1, False, False, *health[5:])
    good = health.good + 1 if status is HEALTHY else 0
    event = _EVENTS[status]
    if event is Event.RECOVERED and not _has_recovered(health, good, now, settings):
        event = Event.GOOD
    return _step(alive(health, now)._replace(good=good), event, now, settings)


def _has_recovered(health: Health, good: int, now: float, settings: DiscoverySettings) -> bool:
    enough = settings.good_beats if health.status in FALLEN else 1
    return good >= enough and now >= health.held_until


def _step(health: Health, event: Event, now: float, settings: DiscoverySettings) -> Health:
    status = TRANSITIONS[health.status][event]
    if status not in FALLEN or health.status in FALLEN:
        return health._replace(status=status)
    penalty = 1.0 + health.penalty * 0.5 ** ((now - health.fell) / settings.flap_half_life)
    held_until = now + settings.hold_down if penalty >= settings.flap_limit else health.held_until
    return health._replace(status=status, good=0, penalty=penalty, fell=now, held_until=held_until)


def silent(health: Health, now: float, settings: DiscoverySettings) -> tuple[Health, Overdue]:
    """Return the health as silence has made it by ``now``, and what that silence has come to."""
    beat = settings.heartbeat_interval
    if now >= health.heard + settings.eviction:
        return health, Overdue.EXPIRED
    if now >= health.heard + settings.suspect_missed * settings.heartbeat_interval and health.good:
        health = health._replace(good=0)  # what comes next is the first in a row
    if now >= health.heard + settings.unhealthy_missed * beat and health.status not in FALLEN:
        fallen = health._replace(is_suspect=True, is_excused=False)
        return _step(fallen, Event.MISSED, now, settings), Overdue.MISSED
    if now >= health.heard + settings.suspect_missed * beat and not health.is_suspect:
        return health._replace(is_suspect=True), Overdue.SUSPECTED
    return health, Overdue.NOTHING


def answered_probe(health: Health, now: float) -> Health:
    """Return the health after the endpoint answered a probe: a sign of life, once for each step of a silence."""
    if not health.is_suspect or health.is_excused:
        return health
    return health._replace(heard=now, is_excused=True)


def next_step(health: Health, settings: DiscoverySettings) -> float:
    """Return when silence comes to something next."""
    if not health.is_suspect and health.status not in FALLEN:
        return health.heard + settings.suspect_missed * settings.heartbeat_interval
    if health.status not in FALLEN:
        return health.heard + settings.unhealthy_missed * settings.heartbeat_interval
    return health.heard + settings.eviction


#: ``(agent, skill)``.
Key = tuple[str, str]

#: Facts of a registration; when they are the same, there is nothing new in it.
_FACTS: Final = ("version", "skill_type", "endpoint", "capabilities", "scenes")


class What(StrEnum):
    """What has changed in a registry."""

    REGISTERED = "registered"
    UPDATED = "updated"
    STATUS = "status"
    SUSPECTED = "suspected"
    STALE = "stale"
    LEFT = "left"
    EVICTED = "evicted"


class Listed(NamedTuple):
    """One skill as it is listed.

    Args:
        registration: what it says.
        health: how it is.
        is_verified: whether its key is certified.
        host: where it came from.
        is_hint: whether an unsigned source said it, and nobody registered.
    """

    registration: Register
    health: Health
    is_verified: bool
    host: str
    is_hint: bool = False

    @property
    def key(self) -> Key:
        """The name of its registration."""
        return self.registration.agent_id, self.registration.skill_id


class Change(NamedTuple):
    """One change, and the skill as it was and is; None for before it was there, and after it is gone.

    A skill that is registered after it was a hint was one before. ``reason`` says why one is gone: of a goodbye what it
    says, such as ``shutdown``; of one that is forgotten ``silent``, ``revoked`` where the certificate of its agent was
    taken back, ``crowded`` where it has given way to another one; empty where there is nothing to say.
    """

    what: What
    before: Listed | None
    after: Listed | None
    reason: str = ""

    @property
    def listed(self) -> Listed:
        """The skill, as it is or as it last was."""
        found = self.after or self.before
        assert found is not None  # noqa: S101 - for the type checker; a change is of something
        return found


def has_facts_of(one: Register, other: Register) -> bool:
    """Whether two registrations say the same of their skill."""
    return all(getattr(one, fact) == getattr(other, fact) for fact in _FACTS)
