"""What a node tells whoever drives it. Changes of the registry are told as they are: :class:`Change`.

A change that says ``suspected`` asks for a probe of the skill's endpoint; whoever makes one tells its answer to
:meth:`~skillwire.protocols.skill_discovery.node.DiscoveryNode.answered_probe`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.protocols.skill_discovery.health import Change
from skillwire.protocols.skill_discovery.identity import Standing

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.messages import (
        GroupEvent,
        HealthStatus,
        Outcome,
        SceneAnswer,
        SkillRecord,
    )
    from skillwire.wire.node import Peer


class Acknowledged(NamedTuple):
    """An agent has answered a registration of ours, otherwise than before."""

    skill_id: str
    by: Peer
    status: Outcome
    message: str


class Found(NamedTuple):
    """One skill as the answers to a discovery tell it.

    Args:
        record: what was said; by who vouches for it, when somebody does.
        source: who said it.
        agent_id: who offers it; empty when nobody has proven to.
        is_verified: whether who said it is certified for the skill, or is the certified agent at its host.
        skill_type: that was asked for, when it was one; answers name none.
    """

    record: SkillRecord
    source: Peer
    agent_id: str = ""
    is_verified: bool = False
    skill_type: str = ""


class Discovered(NamedTuple):
    """The answers to a discovery, collected: each skill at each endpoint once."""

    request: str
    skills: tuple[Found, ...]


class SceneJoined(NamedTuple):
    """We are in a scene.

    Args:
        scene: that was asked for.
        answer: the group, and how its PRIMARY is reached.
        by: who has answered.
        agent_id: who that has proven to be; empty when it has not.
        standing: how that agent stands.
        is_verified: whether it is certified for the skill that it names, or is the certified agent at its host.
    """

    scene: str
    answer: SceneAnswer
    by: Peer
    agent_id: str = ""
    standing: Standing = Standing.NONE
    is_verified: bool = False


class SceneMissing(NamedTuple):
    """Nobody here has the scene that we asked for. ``is_certain`` says whether somebody said so, or nobody answered."""

    scene: str
    is_certain: bool


class GroupChanged(NamedTuple):
    """Something has changed in the group of a scene that we are in; told once, however many agents tell it."""

    scene: str
    group_id: str
    event: GroupEvent
    agent_id: str
    skill_id: str
    status: HealthStatus


class NameTaken(NamedTuple):
    """Somebody has proven to take part under our name with another key."""

    agent_id: str
    by: Peer


class PeerMismatch(NamedTuple):
    """Somebody speaks otherwise than we do, so nothing of it is heard; told once for each host and kind.

    Args:
        by: where.
        said: what it does otherwise: ``speaks the profile open, and we signed``.
    """

    by: Peer
    said: str


NodeEvent = Change | Acknowledged | Discovered | SceneJoined | SceneMissing | GroupChanged | NameTaken | PeerMismatch
