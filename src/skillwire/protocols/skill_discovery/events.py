"""The values that a node hands out: messages that passed the ingress, and events for its driver.

A change of the registry is an event itself (:class:`~skillwire.protocols.skill_discovery.health.Change`). A change that
says ``suspected``, and :class:`ProbeRequested`, ask the driver to probe the skill's endpoint, and to report the result
to :meth:`~skillwire.protocols.skill_discovery.node.DiscoveryNode.on_probe`.
"""

from __future__ import annotations

from typing import NamedTuple

from skillwire.protocols.skill_discovery.health import Change, ListedSkill
from skillwire.protocols.skill_discovery.identity import Judgement, Standing
from skillwire.protocols.skill_discovery.messages import Message, Outcome, SceneAnswer, SkillRecord
from skillwire.wire.node import Peer


class VerifiedMessage(NamedTuple):
    """A message that passed the ingress, and what is known of its signer. Spec: SDP §10; specs §3."""

    message: Message
    data: bytes
    source: Peer
    standing: Standing = Standing.UNKNOWN_KEY
    judgement: Judgement | None = None  # of the signer's key; None for an unknown key, and for an unsigned message
    is_repeated: bool = False  # the same datagram came before
    is_proven: bool = False  # the signer proved to be at `source`; for an unsigned message, any agent did
    signer: str = ""  # the agent whose key `judgement` is about; for an unsigned message, the one at `source`
    is_released: bool = False  # it was held until now
    refused: tuple[Outcome, str] | None = None  # the answer to a registration that is not judged by its content


class Acknowledged(NamedTuple):
    """An agent answered a registration of ours, with another status than before."""

    skill_id: str
    by: Peer
    status: Outcome
    message: str


class Found(NamedTuple):
    """One skill in the answers to a discovery."""

    record: SkillRecord
    source: Peer  # the responder's address
    agent_id: str = ""  # the agent there, when it answered from the skill's own host, and proved its name
    skill_type: str = ""  # the requested type, when it was one; answers name none


class Discovered(NamedTuple):
    """The collected answers to a discovery: each skill at each endpoint once."""

    request: str
    skills: tuple[Found, ...]


class SceneJoined(NamedTuple):
    """This agent joined a scene; the answer has the group, and how its PRIMARY is reached."""

    scene: str
    answer: SceneAnswer
    by: Peer


class SceneMissing(NamedTuple):
    """No agent provides a requested scene; ``is_certain`` is False when none answered at all."""

    scene: str
    is_certain: bool


class Refused(NamedTuple):
    """A registration of another agent was refused; a few for each host. The names can be empty."""

    by: Peer
    agent_id: str
    skill_id: str
    status: Outcome
    reason: str


class PeerMismatch(NamedTuple):
    """A peer uses another profile or group key, so its messages are ignored; once for each host and kind."""

    by: Peer
    difference: str  # such as `speaks the profile open, and we signed`


class ProbeRequested(NamedTuple):
    """The endpoint of a skill is to be probed: it became PRIMARY, or refused the last probe and is heard."""

    listed: ListedSkill


NodeEvent = Change | Acknowledged | Refused | Discovered | SceneJoined | SceneMissing | PeerMismatch | ProbeRequested
