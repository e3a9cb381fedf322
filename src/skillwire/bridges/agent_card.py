"""An agent card of A2A for the skills executed here: ``/.well-known/agent-card.json``.

The card lists callable skills for directories and agents that collect cards. They are called by Skill Sharing, and by
the Skills Protocol where that is open; A2A allows interfaces with bindings of their own, and the card names those two.
``message/send`` is not implemented: an agent that speaks only A2A's bindings finds none here, instead of failing with
its first call. Spec: specs §5; A2A 1.0 §4.4.1, §5.8 (custom bindings).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from skillwire.registry.search import profile_of
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.model.skill import Skill

CARD_PATH: Final = "/.well-known/agent-card.json"
SPEC_VERSION: Final = "1.0"
#: Our bindings, and their paths: A2A asks for a URI, which nobody else could mean something else by.
SHARING_BINDING: Final = "urn:x-skillwire:binding:skill-sharing:1.0"
RPC_BINDING: Final = "urn:x-skillwire:binding:skills-protocol:0.1"

_JSON: Final = ["application/json"]
_encode: Final = msgspec.json.Encoder().encode


def executed(skills: Iterable[Skill]) -> list[Skill]:
    """Return those of ``skills`` that are run by their publisher, by name."""
    return sorted((skill for skill in skills if skill.action is not None), key=lambda skill: skill.name)


def encode_card(
    skills: Iterable[Skill], publisher: str, site: str, interfaces: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Return the agent card of ``site``, an address without a final slash.

    Args:
        skills: the executed skills.
        publisher: of the skills.
        site: address of the site.
        interfaces: the path and the binding of each.
    """
    listed = list(skills)
    number = "1 skill" if len(listed) == 1 else f"{len(listed)} skills"
    return _encode(
        {
            "name": publisher,
            "description": f"Runs {number} of {publisher}; each is called by itself, with arguments as JSON.",
            "supportedInterfaces": [
                {"url": f"{site}{path}", "protocolBinding": binding, "protocolVersion": SPEC_VERSION}
                for path, binding in interfaces
            ],
            "provider": {"organization": publisher, "url": f"{site}/"},
            "version": VERSION,
            "capabilities": {"streaming": False, "pushNotifications": False},
            "defaultInputModes": _JSON,
            "defaultOutputModes": _JSON,
            "skills": [_skill(skill) for skill in listed],
        }
    )


def _skill(skill: Skill) -> dict[str, Any]:
    # Tags have to be there, and may not be none.
    tags = list(profile_of(skill).tag) or [skill.kind]
    return {"id": skill.name, "name": skill.name, "description": skill.description, "tags": tags}
