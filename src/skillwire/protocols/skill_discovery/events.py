"""What a node tells whoever drives it. Changes of the registry are told as they are: :class:`Change`.

A change that says ``suspected`` asks for a probe of the skill's endpoint; whoever makes one tells its answer to
:meth:`~skillwire.protocols.skill_discovery.node.DiscoveryNode.answered_probe`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.protocols.skill_discovery.listing import Change

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


class Discovered(NamedTuple):
    """The answers to a discovery, collected: each skill with where it was heard of."""

    request: str
    skills: tuple[tuple[SkillRecord, Peer], ...]


class SceneJoined(NamedTuple):
    """We are in a scene."""

    scene: str
    answer: SceneAnswer


class SceneMissing(NamedTuple):
    """Nobody here has the scene that we asked for. ``is_certain`` says whether somebody said so, or nobody answered."""

    scene: str
    is_certain: bool


class GroupChanged(NamedTuple):
    """Something has changed in a group that we are in; told once, however many agents tell it."""

    group_id: str
    event: GroupEvent
    agent_id: str
    skill_id: str
    status: HealthStatus


NodeEvent = Change | Acknowledged | Discovered | SceneJoined | SceneMissing | GroupChanged
