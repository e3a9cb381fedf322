"""Scene groups: who provides a scene, in which order, and how the first of them is reached.

A group is made from what is registered and from nothing else, so agents that list the same have the same groups:
whoever has a certified key stands before who has none, who is well before who is unknown, then by name. The first is
PRIMARY, the others are BACKUP; when the first can no longer be called, the next one is PRIMARY. A skill that recovers
takes its place again after two good beats, or later when it flaps. The order is kept in
:mod:`~skillwire.protocols.skill_discovery.index`. Spec: SDP §4; specs §3 "Scene groups".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.messages import (
    ConnectionInfo,
    GroupMember,
    SceneAnswer,
    SkillInfo,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.protocols.skill_discovery.listing import Listed

#: Members that are told of; more would not fit into a datagram.
MEMBERS: Final = 6
_INSTANCE: Final = "-001"
_GROUP: Final = "group-"
#: Of a scene's name, whose group has a name, too.
LONGEST: Final = int(limits.LAN_IDENTIFIER_LENGTH) - len(_GROUP + _INSTANCE)


def scene_id(scene: str) -> str:
    """Return the identifier of a scene's one instance on this network."""
    return f"{scene}{_INSTANCE}"


def group_id(scene: str) -> str:
    """Return the identifier of its group, the same for all agents."""
    return f"{_GROUP}{scene_id(scene)}"


def answer(scene: str, able: Listed, providers: Sequence[Listed]) -> SceneAnswer:
    """Return what somebody is told who asks for a scene. Spec: SDP §4.3; specs §3.

    An API key is never told; nor is how a provider takes one, which it does not register: it says that itself, with the
    key. Paths of a provider begin at its root unless it says otherwise there, so no base path is told.

    Args:
        scene: its name.
        able: the first provider that can do what is asked for.
        providers: the first :data:`MEMBERS` of all, in their order.
    """
    message = able.registration
    place = message.endpoint
    info = ConnectionInfo("http", place.host, place.port, endpoint=str(place))
    skill = SkillInfo(message.skill_id, message.version, message.capabilities)
    members = tuple(GroupMember(*one.key, "BACKUP" if rank else "PRIMARY") for rank, one in enumerate(providers))
    return SceneAnswer(scene_id(scene), group_id(scene), info, skill, members)


def shorter(found: SceneAnswer) -> SceneAnswer | None:
    """Return an answer that tells less; None when it tells the least.

    First it names fewer BACKUP members, then fewer capabilities, and the PRIMARY as long as anything else can go.
    """
    facts, skill = (found.scene_id, found.group_id, found.connection_info), found.skill_info
    if len(found.members) > 1:
        return SceneAnswer(*facts, skill, found.members[:-1])
    if skill.capabilities:
        half = skill.capabilities[: len(skill.capabilities) // 2]
        return SceneAnswer(*facts, SkillInfo(skill.skill_id, skill.version, half), found.members)
    return SceneAnswer(*facts, skill, ()) if found.members else None
