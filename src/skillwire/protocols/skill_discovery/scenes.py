"""Scene groups: who provides a scene, in which order, and how the first of them is reached.

A group is made from what is registered and from nothing else, so agents that list the same have the same groups:
whoever has a certified key stands before who has none, who is well before who is unknown, then by name. The first is
PRIMARY, the others are BACKUP; when the first can no longer be called, the next one is PRIMARY. A skill that recovers
takes its place again after two good beats, or later when it flaps. Spec: SDP §4; specs §3 "Scene groups".
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from skillwire.protocols.skill_discovery.messages import (
    ConnectionInfo,
    GroupMember,
    HealthStatus,
    SceneAnswer,
    SkillInfo,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from skillwire.protocols.skill_discovery.listing import Listed

#: Members that are told of; more would not fit into a datagram.
_MEMBERS: Final = 6


def scene_id(scene: str) -> str:
    """Return the identifier of a scene's one instance on this network."""
    return f"{scene}-001"


def group_id(scene: str) -> str:
    """Return the identifier of its group, the same for all agents."""
    return f"group-{scene_id(scene)}"


def first(providers: Iterable[Listed]) -> Listed | None:
    """Return the PRIMARY of a scene's providers; None when none of them may be called."""
    return min((listed for listed in providers if listed.health.is_usable), key=_rank, default=None)


def _rank(listed: Listed) -> tuple[bool, bool, tuple[str, str]]:
    return not listed.is_verified, listed.health.status is HealthStatus.UNKNOWN, listed.key


def answer(scene: str, providers: Iterable[Listed], capabilities: Collection[str]) -> SceneAnswer | None:
    """Return what somebody is told who asks for a scene: the first provider that has all ``capabilities``.

    None when no provider that may be called has them. An API key is never told. Spec: SDP §4.3; specs §3.
    """
    usable = [listed for listed in providers if listed.health.is_usable]
    able = first(listed for listed in usable if set(capabilities) <= set(listed.registration.capabilities))
    if able is None:
        return None
    message = able.registration
    place = message.endpoint
    info = ConnectionInfo("http", place.host, place.port, endpoint=str(place))
    skill = SkillInfo(message.skill_id, message.version, message.capabilities)
    group = nsmallest(_MEMBERS, usable, key=_rank)
    members = tuple(GroupMember(*listed.key, "BACKUP" if rank else "PRIMARY") for rank, listed in enumerate(group))
    return SceneAnswer(scene_id(scene), group_id(scene), info, skill, members)
