"""Announcements: the skills of a revision as an agent offers them, and their health.

A datagram can be read by every machine on the network, so only public skills are announced. A skill that does not fit
into a datagram is skipped, with the reason. Skills are read first and announced later, so that the service can start
what they need in between. An announcement that fails is repeated at the next update. A status report that fails is not:
heartbeats say the same. Spec: SDP §2, §8.1; specs §0, §3.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Reason, Register, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer, check_record_size
from skillwire.server.lan.health import GOOD, UNCHECKED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.model.lan import LanChange, LanSnapshot
    from skillwire.model.skill import Skill
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.lan.health import HealthReading, SkillHealth
    from skillwire.server.revision import Revision


#: The type of a skill whose folder names none.
_USUAL_TYPE: Final = SkillType.TOOL
#: The longest values of the fields that the agent fills in.
_LONGEST_ADDRESS: Final = "2001:1db8:1111:2222:3333:4444:5555:6666"
_LONGEST_SIGNATURE: Final = "A" * 96
_LONGEST_TIME: Final = 10**13 - 1


class Announcement(NamedTuple):
    """The offers by the name of the skill, in order, and the skills that cannot be announced, with the reason."""

    offers: dict[str, Offer]
    skipped: dict[str, str]


def make_announcement(
    skills: Iterable[Skill], endpoint: Endpoint, agent_id: str, scenes: tuple[str, ...] = ()
) -> Announcement:
    """Return the announcement of public skills; of too many, the first. Each joins ``scenes`` beside its own."""
    offers: dict[str, Offer] = {}
    skipped: dict[str, str] = {}
    for skill in skills:
        offer = make_offer(skill, endpoint)
        offer = offer._replace(scenes=tuple(dict.fromkeys((*offer.scenes, *scenes))))
        reason = _flaw(offer, agent_id)
        if reason is None and len(offers) >= limits.LAN_SKILLS_PER_AGENT:
            reason = f"an agent announces at most {int(limits.LAN_SKILLS_PER_AGENT):,} skills"
        if reason is None:
            offers[skill.name] = offer
        else:
            skipped[skill.name] = reason
    return Announcement(offers, skipped)


def make_offer(skill: Skill, endpoint: Endpoint) -> Offer:
    """Return the offer of a skill. Spec: SDP §2.1; specs §0."""
    return Offer(
        skill.identifiers.skill_discovery if skill.identifiers is not None else skill.name,
        skill.version,
        _USUAL_TYPE if skill.skill_type is None else SkillType(skill.skill_type),
        endpoint,
        skill.capabilities,
        skill.scenes,
    )


def _flaw(offer: Offer, agent_id: str) -> str | None:
    """Return why an offer fits into no registration, or no answer; None when it fits from any address."""
    endpoint = offer.endpoint if offer.endpoint.host else Endpoint(_LONGEST_ADDRESS, offer.endpoint.port)
    longest = Register(
        agent_id, *offer._replace(endpoint=endpoint), timestamp=_LONGEST_TIME, signature=_LONGEST_SIGNATURE
    )
    try:
        encode(longest)
        check_record_size(longest)
    except ValidationError as error:
        return error.message
    return None


class Agent(Protocol):
    """What a service needs of :class:`skillwire.adapters.lan.agent.LanAgent`."""

    agent_id: str
    trust: LanTrust | None

    @property
    def counters(self) -> Mapping[str, int]:
        """Dropped datagrams and failures, by reason."""

    @property
    def received(self) -> int:
        """How many datagrams came."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for the operator."""

    async def start(self) -> None:
        """Start. Raises FetchError (``LAN_UNAVAILABLE``), ConflictError (``LAN_NAME``)."""

    async def stop(self, reason: Reason = Reason.SHUTDOWN) -> None:
        """Unregister every skill, and stop."""

    def announce(self, offers: Iterable[Offer]) -> None:
        """Offer exactly these skills."""

    def report(self, skill_id: str, status: HealthStatus, detail: str = "") -> None:
        """Send the new status of a skill."""

    def snapshot(self) -> LanSnapshot:
        """Return the network as it is known."""

    def listen(self) -> AsyncIterator[LanChange]:
        """Return the changes from now on."""


#: Skipped skills that are named in the log; the others are counted.
_NAMED: Final = 5


class Announcer:
    """Keeps the offers of an agent and their health."""

    def __init__(self, catalog: CatalogService, health: SkillHealth) -> None:
        self._catalog = catalog
        self._health = health
        self._seen: Revision | None = None
        self._announced: Revision | None = None
        self._skills: dict[str, Skill] = {}
        self._offers: dict[str, Offer] = {}
        self._found: dict[str, HealthReading] = {}
        self._reported: dict[str, HealthReading] = {}
        self._statuses: dict[str, HealthStatus] = {}
        self._skipped: dict[str, str] = {}
        self._log = structlog.get_logger("skillwire.lan")

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The current offers."""
        return tuple(self._offers.values())

    @property
    def has_scenes(self) -> bool:
        """Whether an offered skill takes part in a scene."""
        return any(offer.scenes for offer in self._offers.values())

    def status(self, skill_id: str) -> HealthStatus:
        """Return the status of a skill for its heartbeat."""
        return self._statuses.get(skill_id, HealthStatus.HEALTHY)

    def skill_name(self, skill_id: str, scene: str) -> str | None:
        """Return the name of the skill that is announced under an identifier in a scene; from any thread."""
        for name, offer in self._offers.items():
            if offer.skill_id == skill_id:
                return name if scene in offer.scenes else None
        return None

    async def look(self, agent_id: str, endpoint: Endpoint, scenes: tuple[str, ...]) -> bool:
        """Read the published skills and their health; return whether a revision is published."""
        revision = self._catalog.current
        if revision is None:
            return False
        if revision is not self._seen:
            await asyncio.to_thread(self._prepare, revision, agent_id, endpoint, scenes)
            self._seen = revision
        self._found = await self._health.look(self._skills, revision.broken)
        self._statuses = {self._offers[name].skill_id: one.status for name, one in self._found.items()}
        return True

    def announce(self, agent: Agent) -> None:
        """Have ``agent`` announce the skills, and report those whose health changed; raises its first failure last."""
        if self._announced is not self._seen:
            agent.announce(self._offers.values())
            self._announced = self._seen
        before, self._reported = self._reported, self._found
        failures = []
        for name, condition in self._found.items():
            if condition == before.get(name, GOOD):
                continue
            try:
                agent.report(self._offers[name].skill_id, condition.status, condition.detail)
            except Exception as error:  # noqa: BLE001  # raised below, after the other reports
                failures.append(error)
            else:
                self._log_health(name, condition, before.get(name, GOOD))
        if failures:
            raise failures[0]

    def _prepare(self, revision: Revision, agent_id: str, endpoint: Endpoint, scenes: tuple[str, ...]) -> None:
        """Make the offers of a revision; called in a thread."""
        announcement = make_announcement(revision.catalog.skills.values(), endpoint, agent_id, scenes)
        self._offers = announcement.offers
        self._skills = {name: revision.catalog.skills[name] for name in announcement.offers}
        if announcement.skipped != self._skipped:
            for name, reason in list(announcement.skipped.items())[:_NAMED]:
                self._log.warning("not announced on the LAN", skill=name, reason=reason)
            if len(announcement.skipped) > _NAMED:
                self._log.warning("more are not announced on the LAN", skills=len(announcement.skipped) - _NAMED)
        self._skipped = announcement.skipped

    def _log_health(self, name: str, condition: HealthReading, before: HealthReading) -> None:
        if condition == UNCHECKED or (before == UNCHECKED and condition == GOOD):
            return  # the first good check of a skill is not logged
        log = self._log.info if condition.status is HealthStatus.HEALTHY else self._log.warning
        reason = {"reason": condition.detail} if condition.detail else {}
        log("reported a skill's health on the LAN", skill=name, status=condition.status.value, **reason)
