"""From a revision to what is announced on the local network: everybody's skills, and no others.

Who may see what was decided when the revision was made. What everybody may use is announced; a restricted or private
skill never is, since a datagram is read by whoever is on the network. A skill that has no form in a datagram is left
out, with the reason, and the others are announced. Spec: SDP §2.1; specs §0, §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.messages import Endpoint, Register, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.tellable import check_told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.model.skill import Skill

#: Of a skill whose folder says nothing of it.
_USUAL_TYPE: Final = SkillType.TOOL
#: The longest that may stand where the agent writes the address that it sends from, and where it signs.
_LONGEST_ADDRESS: Final = "2001:1db8:1111:2222:3333:4444:5555:6666"
_LONGEST_SIGNATURE: Final = "A" * 96
_LONGEST_TIME: Final = 10**13 - 1


class Left(NamedTuple):
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
    left: tuple[Left, ...] = ()


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
    left: list[Left] = []
    for skill in skills:
        offer = make_offer(skill, endpoint)
        offer = offer._replace(scenes=tuple(dict.fromkeys((*offer.scenes, *scenes))))
        reason = _flaw(offer, agent_id)
        if reason is None and len(offers) >= limits.LAN_SKILLS_PER_AGENT:
            reason = f"an agent announces at most {int(limits.LAN_SKILLS_PER_AGENT):,} skills"
        if reason is None:
            offers[skill.name] = offer
        else:
            left.append(Left(skill.name, reason))
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
        check_told(longest)
    except ValidationError as error:
        return error.message
    return None
