"""The values that a node hands out: messages that passed the ingress, and events for its driver.

A change of the registry is an event itself (:class:`~skillwire.protocols.skill_discovery.health.Change`). A change that
says ``suspected`` asks the driver to probe the skill's endpoint, and to report an answer to
:meth:`~skillwire.protocols.skill_discovery.node.DiscoveryNode.answered_probe`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.protocols.skill_discovery.health import Change
from skillwire.protocols.skill_discovery.identity import Standing

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.identity import Judgement
    from skillwire.protocols.skill_discovery.messages import (
        GroupEvent,
        HealthStatus,
        Message,
        Outcome,
        SceneAnswer,
        SkillRecord,
    )
    from skillwire.wire.node import Peer


class VerifiedMessage(NamedTuple):
    """A message that passed the ingress, and what is known of its signer. Spec: SDP §10; specs §3.

    Args:
        message: its content.
        data: the datagram.
        source: where it came from.
        standing: of its signer.
        judgement: of the signer's key; None for an unknown key, and for an unsigned message.
        is_repeated: whether the same datagram came before.
        is_proven: whether its signer proved to be at ``source``; for an unsigned message, whether any agent did.
        signer: the agent whose key ``judgement`` is about.
        proves: digest of the answer to us that the signer proved to have sent; empty for any other message.
        is_released: whether it was held until now.
        refused: what a registration is answered that counts for nothing; None when its content decides.
    """

    message: Message
    data: bytes
    source: Peer
    standing: Standing = Standing.UNKNOWN_KEY
    judgement: Judgement | None = None
    is_repeated: bool = False
    is_proven: bool = False
    signer: str = ""
    proves: bytes = b""
    is_released: bool = False
    refused: tuple[Outcome, str] | None = None


class Acknowledged(NamedTuple):
    """An agent answered a registration of ours, with another status than before."""

    skill_id: str
    by: Peer
    status: Outcome
    message: str


class Found(NamedTuple):
    """One skill in the answers to a discovery.

    Args:
        record: its facts, from the most trusted responder.
        source: that responder's address.
        agent_id: the agent that offers it; empty when no agent proved to.
        is_verified: whether the responder is certified for the skill, or is the certified agent at its host.
        skill_type: the requested type, when it was one; answers name none.
    """

    record: SkillRecord
    source: Peer
    agent_id: str = ""
    is_verified: bool = False
    skill_type: str = ""


class Discovered(NamedTuple):
    """The collected answers to a discovery: each skill at each endpoint once."""

    request: str
    skills: tuple[Found, ...]


class SceneJoined(NamedTuple):
    """This agent joined a scene.

    Args:
        scene: the requested scene.
        answer: the group, and how its PRIMARY is reached.
        by: the responder's address.
        agent_id: the agent that the responder proved to be; empty when it did not.
        standing: that agent's.
        is_verified: whether it is certified for the skill that it names, or is the certified agent at its host.
    """

    scene: str
    answer: SceneAnswer
    by: Peer
    agent_id: str = ""
    standing: Standing = Standing.NONE
    is_verified: bool = False


class SceneMissing(NamedTuple):
    """No agent provides a requested scene; ``is_certain`` is False when none answered at all."""

    scene: str
    is_certain: bool


class GroupChanged(NamedTuple):
    """Another agent reports a change in the group of a scene that this agent joined; not signed."""

    scene: str
    group_id: str
    event: GroupEvent
    agent_id: str
    skill_id: str
    status: HealthStatus


class NameTaken(NamedTuple):
    """Another agent proved to use our name, with another key."""

    agent_id: str
    by: Peer


class PeerMismatch(NamedTuple):
    """A peer uses another profile or group key, so its messages are ignored; once for each host and kind.

    Args:
        by: its address.
        said: the difference, such as ``speaks the profile open, and we signed``.
    """

    by: Peer
    said: str


NodeEvent = Change | Acknowledged | Discovered | SceneJoined | SceneMissing | GroupChanged | NameTaken | PeerMismatch
