"""Details: what an agent tells over HTTP of the skills that it announces, for whom a datagram has cut the lists.

The document stands at the path ``p`` of its mDNS instances: ``{"agentId": ..., "skills": [...]}`` with ``skillId``,
``capabilities`` and ``scenes`` of each **[ours]**. Nobody has signed it, so it is worth as much as the hint that leads
there. Spec: specs §3 "mDNS: a list that does not fit is cut, more=1, and fetched from p".

Trust: the document is a stranger's; reading raises ``DecodeError`` and nothing else.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery import fields
from skillwire.protocols.skill_discovery.dnssd import is_cut
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.protocols.skill_discovery.messages import Register
    from skillwire.protocols.skill_discovery.route_agent import Offer


class Lists(NamedTuple):
    """What a skill can do, and the scenes that it takes part in."""

    capabilities: tuple[str, ...]
    scenes: tuple[str, ...]


def details_of(agent_id: str, offers: Iterable[Offer]) -> list[dict[str, object]]:
    """Return the ``skills`` of an agent's document: those of which mDNS has cut a list."""
    return [
        {"skillId": offer.skill_id, "capabilities": offer.capabilities, "scenes": offer.scenes}
        for offer in islice(offers, limits.LAN_MDNS_SKILLS)
        if is_cut(agent_id, offer)
    ]


class AgentDetails(NamedTuple):
    """What an agent tells: its name, and the lists of its skills, by their identifiers."""

    agent_id: str
    skills: dict[str, Lists]


def read_details(body: bytes, source: str) -> AgentDetails:
    """Return what an agent tells.

    Args:
        body: the document.
        source: its URL, for errors.

    Raises:
        DecodeError: it is none.
    """
    document = load_json(body, max_bytes=limits.LAN_DETAILS_BYTES, source=source)
    if not isinstance(document, dict):
        raise DecodeError("DATAGRAM", f"{source} is no object")
    agent_id, skills = fields.read_identifier(_text(document.get("agentId"))), document.get("skills")
    found = {}
    for skill in skills if isinstance(skills, list) else ():
        if isinstance(skill, dict):
            name = fields.read_identifier(_text(skill.get("skillId")))
            found[name] = Lists(_names(skill.get("capabilities")), _names(skill.get("scenes")))
    return AgentDetails(agent_id, found)


def completed(hint: Register, details: AgentDetails) -> Register | None:
    """Return a hint with the lists that were cut; None where nothing is told of it, or something else.

    What the hint says has to begin what is told: a list that goes on otherwise is another skill's.
    """
    lists = details.skills.get(hint.skill_id) if details.agent_id == hint.agent_id else None
    if lists is None or not (
        lists.capabilities[: len(hint.capabilities)] == hint.capabilities
        and lists.scenes[: len(hint.scenes)] == hint.scenes
    ):
        return None
    named = {name: getattr(hint, name) for name in hint.__struct_fields__}
    return type(hint)(**named | lists._asdict())


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise DecodeError("DATAGRAM", f"{ascii(value)[:60]} is no text")
    return value


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > limits.LAN_DETAILS_NAMES:
        raise DecodeError("DATAGRAM", "no list of names")
    return tuple(fields.read_identifier(_text(name)) for name in value)
