"""Whether others can tell of a skill that fits into a registration.

A registration names its agent once, and no scene's group; an answer names who asks, and the group of a scene has a name
that is longer than the scene's. What no answer has room for would be listed and never found, so it is neither offered
nor taken. Spec: specs §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import Place, ValidationError
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.codec import can_be_told
from skillwire.protocols.skill_discovery.messages import SkillRecord

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.messages import Register
    from skillwire.protocols.skill_discovery.route_agent import Offer

#: Bytes of a registration whose record is short enough to be told, whatever is in it.
_SURELY_TOLD: Final = 900


def record_of(skill: Register | Offer) -> SkillRecord:
    """Return a skill as it is told to who asks. Spec: SDP §3.2."""
    return SkillRecord(skill.skill_id, skill.version, skill.endpoint, skill.capabilities, skill.scenes)


def check_scenes(skill: Register | Offer) -> None:
    """Refuse a skill in a scene whose group would have no name.

    Raises:
        ValidationError: ``DATAGRAM_FIELD`` with the name of the skill.
    """
    for scene in skill.scenes:
        if len(scene) > scenes.LONGEST:
            message = f"a scene has a name of {len(scene)} letters, and up to {scenes.LONGEST} count"
            fix = f"Shorten {scene[:20]}..."
            raise ValidationError("DATAGRAM_FIELD", message, place=Place(skill.skill_id), fix=fix)


def check_told(skill: Register | Offer, size: int = limits.DATAGRAM_BYTES) -> None:
    """Refuse a skill that fits into a registration, and that nobody could tell of.

    Args:
        skill: whose fields have their form.
        size: bytes of its registration, if there is one.

    Raises:
        ValidationError: as :func:`check_scenes`; ``DATAGRAM_SIZE`` when it does not fit into an answer.
    """
    check_scenes(skill)
    if size > _SURELY_TOLD and not can_be_told(record_of(skill)):
        raise ValidationError("DATAGRAM_SIZE", "too long to be told to who asks", place=Place(skill.skill_id))
