"""What an agent is told of a publication: which skills it offers, and how each of them is.

It is looked first and told then, so that what has to be there before something is announced can be put between. What
could not be announced is announced with the next look. A report that fails keeps no other back and is not made again:
heartbeats say how the skill is. Spec: SDP §2, §8.1.

From a revision to what is announced on the local network: everybody's skills, and no others.

Who may see what was decided when the revision was made. What everybody may use is announced; a restricted or private
skill never is, since a datagram is read by whoever is on the network. A skill that has no form in a datagram is left
out, with the reason, and the others are announced. Spec: SDP §2.1; specs §0, §3.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Register, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer, check_record_size
from skillwire.server.lan.health import GOOD, UNCHECKED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.model.skill import Skill
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.lan.health import HealthReading, SkillHealth
    from skillwire.server.lan.service import Agent
    from skillwire.server.revision import Revision


#: Of a skill whose folder says nothing of it.
_USUAL_TYPE: Final = SkillType.TOOL
#: The longest that may stand where the agent writes the address that it sends from, and where it signs.
_LONGEST_ADDRESS: Final = "2001:1db8:1111:2222:3333:4444:5555:6666"
_LONGEST_SIGNATURE: Final = "A" * 96
_LONGEST_TIME: Final = 10**13 - 1


class SkippedSkill(NamedTuple):
    """A skill that is not announced, and why."""

    name: str
    reason: str


class Announcement(NamedTuple):
    """What is announced.

    Args:
        offers: by the name of the skill, in order.
        left: what cannot be announced.
    """

    offers: dict[str, Offer]
    left: tuple[SkippedSkill, ...] = ()


def make_announcement(
    skills: Iterable[Skill], endpoint: Endpoint, agent_id: str, scenes: tuple[str, ...] = ()
) -> Announcement:
    """Return what is announced of ``skills``, which everybody may use.

    Args:
        skills: in the order in which they are announced when there are too many.
        endpoint: of this server; an empty host is the address that a datagram is sent from.
        agent_id: of the agent that announces.
        scenes: that every skill takes part in, beside its own.
    """
    offers: dict[str, Offer] = {}
    left: list[SkippedSkill] = []
    for skill in skills:
        offer = make_offer(skill, endpoint)
        offer = offer._replace(scenes=tuple(dict.fromkeys((*offer.scenes, *scenes))))
        reason = _flaw(offer, agent_id)
        if reason is None and len(offers) >= limits.LAN_SKILLS_PER_AGENT:
            reason = f"an agent announces at most {int(limits.LAN_SKILLS_PER_AGENT):,} skills"
        if reason is None:
            offers[skill.name] = offer
        else:
            left.append(SkippedSkill(skill.name, reason))
    return Announcement(offers, tuple(left))


def make_offer(skill: Skill, endpoint: Endpoint) -> Offer:
    """Return a skill as it is offered. Spec: SDP §2.1; specs §0."""
    return Offer(
        skill.identifiers.skill_discovery if skill.identifiers is not None else skill.name,
        skill.version,
        _USUAL_TYPE if skill.skill_type is None else SkillType(skill.skill_type),
        endpoint,
        skill.capabilities,
        skill.scenes,
    )


def _flaw(offer: Offer, agent_id: str) -> str | None:
    """Return why an offer has no form in a datagram; None when it has one, whatever address it is sent from.

    It has one where it can be registered, and others can tell of it.
    """
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


#: So many skills that cannot be announced are named in the log; the rest is counted.
_NAMED: Final = 5


class Announcer:
    """Keeps what is offered and how it is.

    Args:
        publication: what is announced.
        conditions: how its skills are.
    """

    def __init__(self, publication: CatalogService, conditions: SkillHealth) -> None:
        self._publication = publication
        self._conditions = conditions
        self._seen: Revision | None = None
        self._announced: Revision | None = None
        self._skills: dict[str, Skill] = {}
        self._offers: dict[str, Offer] = {}
        self._found: dict[str, HealthReading] = {}
        self._told: dict[str, HealthReading] = {}
        self._statuses: dict[str, HealthStatus] = {}
        self._left: tuple[SkippedSkill, ...] = ()
        self._log = structlog.get_logger("skillwire.lan")

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What is offered now."""
        return tuple(self._offers.values())

    @property
    def has_scenes(self) -> bool:
        """Whether a skill that is offered takes part in a scene."""
        return any(offer.scenes for offer in self._offers.values())

    def status(self, skill_id: str) -> HealthStatus:
        """Return how a skill of ours is, for its heartbeat."""
        return self._statuses.get(skill_id, HealthStatus.HEALTHY)

    def skill_name(self, skill_id: str, scene: str) -> str | None:
        """Return the name of the skill that is announced so in a scene; from any thread."""
        for name, offer in self._offers.items():
            if offer.skill_id == skill_id:
                return name if scene in offer.scenes else None
        return None

    async def look(self, agent_id: str, endpoint: Endpoint, scenes: tuple[str, ...]) -> bool:
        """Find out what is published now and how it is; return whether something is.

        Args:
            agent_id: of who announces it.
            endpoint: of this server.
            scenes: that every skill takes part in, beside its own.
        """
        revision = self._publication.current
        if revision is None:
            return False
        if revision is not self._seen:
            await asyncio.to_thread(self._prepare, revision, agent_id, endpoint, scenes)
            self._seen = revision
        self._found = await self._conditions.look(self._skills, revision.broken)
        self._statuses = {self._offers[name].skill_id: one.status for name, one in self._found.items()}
        return True

    def tell(self, agent: Agent) -> None:
        """Have ``agent`` announce what was found, and report which skills are otherwise than it was told.

        Raises:
            Exception: whatever the agent raised, of several reports the first; all others were made.
        """
        if self._announced is not self._seen:
            agent.announce(self._offers.values())
            self._announced = self._seen
        before, self._told = self._told, self._found
        failures = []
        for name, condition in self._found.items():
            if condition == before.get(name, GOOD):
                continue
            try:
                agent.report(self._offers[name].skill_id, condition.status, condition.detail)
            except Exception as error:  # noqa: BLE001  # raised below, when the others are told
                failures.append(error)
            else:
                self._tell_operator(name, condition, before.get(name, GOOD))
        if failures:
            raise failures[0]

    def _prepare(self, revision: Revision, agent_id: str, endpoint: Endpoint, scenes: tuple[str, ...]) -> None:
        """Make the offers of a revision; in a thread."""
        announcement = make_announcement(revision.catalog.skills.values(), endpoint, agent_id, scenes)
        self._offers = announcement.offers
        self._skills = {name: revision.catalog.skills[name] for name in announcement.offers}
        if announcement.left != self._left:
            for one in announcement.left[:_NAMED]:
                self._log.warning("not announced on the LAN", skill=one.name, reason=one.reason)
            if len(announcement.left) > _NAMED:
                self._log.warning("more are not announced on the LAN", skills=len(announcement.left) - _NAMED)
        self._left = announcement.left

    def _tell_operator(self, name: str, condition: HealthReading, before: HealthReading) -> None:
        if condition == UNCHECKED or (before == UNCHECKED and condition == GOOD):
            return  # a first check that finds nothing is no news, and there may be a thousand
        say = self._log.info if condition.status is HealthStatus.HEALTHY else self._log.warning
        reason = {"reason": condition.detail} if condition.detail else {}
        say("the LAN is told", skill=name, status=condition.status.value, **reason)
