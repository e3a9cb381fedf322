"""The health of registered skills: a value, the steps that change it, and the records that carry it.

A status that a skill reports counts at once, except that it is well again: after it was UNHEALTHY that takes several
good heartbeats in a row, and longer when it flaps. Silence is measured by the listener's clock: after
``suspect_missed`` heartbeats a skill is *suspected*, after ``unhealthy_missed`` it is UNHEALTHY, after the ``timeout``
it is removed. Before each of the last two steps its endpoint is probed once, and an answer postpones the step. A newer
heartbeat refutes a suspicion. A refused probe proves that the server is gone, and the network well.

Flapping is damped as routers damp a route: each fall adds a penalty that decays, and too much of it holds the skill
down. Time is an argument, in seconds that only grow.

When more than a share of all skills is silent at once, and nothing of another host is heard, the network is suspected
and not the skills (:class:`OutageDetector`). Spec: SDP §8; specs §3.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, Literal, NamedTuple

from skillwire.model.lan import GoneReason
from skillwire.protocols.skill_discovery.messages import HealthStatus, Register
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

HEALTHY, UNHEALTHY = HealthStatus.HEALTHY, HealthStatus.UNHEALTHY

#: A skill with one of these may be called.
USABLE: Final = frozenset({HEALTHY, HealthStatus.DEGRADED, HealthStatus.UNKNOWN})
#: After one of these a skill needs several good heartbeats in a row.
FALLEN: Final = frozenset({UNHEALTHY, HealthStatus.OFFLINE})


class Health(NamedTuple):
    """How a skill is, as far as this agent knows. Times are in seconds of the steady clock."""

    status: HealthStatus
    heard: float  # when the last sign of life came
    good: int = 0  # heartbeats in a row that said HEALTHY
    is_suspect: bool = False  # it missed heartbeats
    is_excused: bool = False  # the probe for the current step was answered
    is_stale: bool = False  # only the suspected network keeps it listed
    penalty: float = 0.0  # for flapping, as of `fell`
    fell: float = 0.0  # when it last became UNHEALTHY
    held_until: float = 0.0  # it cannot become HEALTHY before
    is_refused: bool = False  # its endpoint refused the last probe

    @property
    def is_usable(self) -> bool:
        """Whether the skill may be called."""
        return self.status in USABLE


def alive(health: Health, now: float) -> Health:
    """Return the health after a sign of life without a status."""
    return health._replace(heard=now, is_suspect=False, is_excused=False, is_stale=False)


class Overdue(StrEnum):
    """The step that a silence has reached."""

    NOTHING = "nothing"
    SUSPECTED = "suspected"
    MISSED = "missed"
    TIMEOUT = "timeout"


def after_heartbeat(health: Health, status: HealthStatus, now: float, settings: DiscoverySettings) -> Health:
    """Return the health after a heartbeat that says ``status``."""
    if status is HEALTHY and health.status is HEALTHY and not health.is_suspect:
        # Equal to ``_replace``, and faster: nearly every heartbeat comes here.
        return Health(HEALTHY, now, health.good + 1, False, False, *health[5:])
    good = health.good + 1 if status is HEALTHY else 0
    enough = settings.good_heartbeats if health.status in FALLEN else 1
    if status is HEALTHY and (good < enough or now < health.held_until):
        status = health.status  # more good heartbeats are needed
    return _with_status(alive(health, now)._replace(good=good), status, now, settings)


def _with_status(health: Health, status: HealthStatus, now: float, settings: DiscoverySettings) -> Health:
    """Return the health with another status; a fall counts as flapping."""
    if status not in FALLEN or health.status in FALLEN:
        return health._replace(status=status)
    penalty = 1.0 + health.penalty * 0.5 ** ((now - health.fell) / settings.flap_half_life)
    held_until = now + settings.hold_down if penalty >= settings.flap_limit else health.held_until
    return health._replace(status=status, good=0, penalty=penalty, fell=now, held_until=held_until)


def silent(health: Health, now: float, settings: DiscoverySettings) -> tuple[Health, Overdue]:
    """Return the health after the silence until ``now``, and the step that it reached."""
    interval = settings.heartbeat_interval
    is_missing = now >= health.heard + settings.suspect_missed * interval
    if now >= health.heard + settings.timeout:
        return health, Overdue.TIMEOUT
    if is_missing and health.good:
        health = health._replace(good=0)
    if now >= health.heard + settings.unhealthy_missed * interval and health.status not in FALLEN:
        fallen = health._replace(is_suspect=True, is_excused=False)
        return _with_status(fallen, UNHEALTHY, now, settings), Overdue.MISSED
    if is_missing and not health.is_suspect:
        return health._replace(is_suspect=True), Overdue.SUSPECTED
    return health, Overdue.NOTHING


def answered_probe(health: Health, now: float) -> Health:
    """Return the health after the endpoint answered a probe, which counts once for each step of a silence."""
    if health.is_refused:
        health = health._replace(is_refused=False)
    if not health.is_suspect or health.is_excused:
        return health
    return health._replace(heard=now, is_excused=True)


def next_step(health: Health, settings: DiscoverySettings) -> float:
    """Return when silence reaches the next step."""
    if health.status in FALLEN:
        return health.heard + settings.timeout
    missed = settings.unhealthy_missed if health.is_suspect else settings.suspect_missed
    return health.heard + missed * settings.heartbeat_interval


#: ``(agent, skill)``.
Key = tuple[str, str]

#: The facts of a registration; one with the same facts changes nothing.
_FACTS: Final = ("version", "skill_type", "endpoint", "capabilities", "scenes")


class ChangeKind(StrEnum):
    """What changed in a registry."""

    REGISTERED = "registered"
    UPDATED = "updated"
    STATUS = "status"
    SUSPECTED = "suspected"
    STALE = "stale"
    LEFT = "left"
    EVICTED = "evicted"


class ListedSkill(NamedTuple):
    """One skill in a registry."""

    registration: Register
    health: Health
    is_verified: bool  # its key is certified
    host: str  # that it was registered from
    is_hint: bool = False  # it comes from mDNS, which is unsigned, and no agent registered it

    @property
    def key(self) -> Key:
        """Its agent and its name."""
        return self.registration.agent_id, self.registration.skill_id


class Change(NamedTuple):
    """A change of one skill in a registry, with its record before and after; None where it was not listed.

    ``reason`` says why a skill was removed.
    """

    kind: ChangeKind
    before: ListedSkill | None
    after: ListedSkill | None
    reason: Literal["", GoneReason] = ""

    @property
    def listed(self) -> ListedSkill:
        """The newest record of the skill."""
        found = self.after or self.before
        assert found is not None  # noqa: S101 - for the type checker
        return found


def has_facts_of(one: Register, other: Register) -> bool:
    """Return whether two registrations state the same facts."""
    return all(getattr(one, fact) == getattr(other, fact) for fact in _FACTS)


class Trust(IntEnum):
    """How far a listed skill is trusted: the first most."""

    CERTIFIED = 0
    UNVERIFIED = 1
    HINT = 2


def trust_in(listed: ListedSkill) -> Trust:
    """Return how far a listed skill is trusted."""
    return Trust.HINT if listed.is_hint else Trust.CERTIFIED if listed.is_verified else Trust.UNVERIFIED


class OutageDetector:
    """Distinguishes an outage of the network from the silence of single skills.

    An outage ends with the next sign of life from another host than our own, whose messages need no network.
    An untrusted peer can register skills and let them fall silent, so silence is counted for each level of trust, and
    says nothing about skills that are trusted more. Spec: specs §3.
    """

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self._silent: tuple[set[Key], ...] = (set(), set(), set())
        self._suspected_until = [0.0, 0.0, 0.0]
        self.elsewhere = float("-inf")  # when another host was last heard
        #: Seconds in which each live skill is heard.
        self.grace = settings.unhealthy_missed * settings.heartbeat_interval
        self.own_host = ""
        self.is_active = False

    def add(self, listed: ListedSkill) -> None:
        """Count a skill as silent."""
        self._silent[trust_in(listed)].add(listed.key)

    def discard(self, key: Key) -> None:
        """Count a skill no more: it gave a sign of life, or is gone."""
        for silent in self._silent:
            silent.discard(key)

    def judge(self, listed: ListedSkill, total: int, now: float) -> None:
        """Suspect the network when too many of the ``total`` skills with the trust of ``listed`` are silent."""
        trust = trust_in(listed)
        silent = len(self._silent[trust])
        is_mass = silent >= self._settings.mass_least and silent > self._settings.mass_share * total
        if is_mass and now >= self.elsewhere + self.grace:
            self._suspected_until[trust] = now + self._settings.timeout
            self.is_active = True

    def end(self) -> set[Key]:
        """End an outage, since another host is heard; return the silent skills."""
        self._suspected_until, self.is_active = [0.0, 0.0, 0.0], False
        return set().union(*self._silent)

    def is_suspected(self, now: float, trust: Trust = Trust.UNVERIFIED) -> bool:
        """Return whether the network is suspected, as far as it concerns skills with this trust."""
        return any(now < until for until in self._suspected_until[: trust + 1])
