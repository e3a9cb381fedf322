"""The messages of Skill Discovery: one value for each type of datagram.

A message is frozen, and compares by its type and its fields. ``timestamp`` is in milliseconds since the epoch.
``signature`` is the last field of the datagram; it is empty in a value that is not signed yet, and in the types that
the text leaves unsigned, unless the profile is *signed*. No value can be part of a cycle, so the garbage collector need
not track them. Spec: SDP §2, §3, §8, §9, §10; specs §3 for the messages that the text names without writing them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class Profile(StrEnum):
    """How much is signed: what the text writes, or everything, by one more field. Spec: specs §3."""

    OPEN = "open"
    SIGNED = "signed"


class SkillType(StrEnum):
    """What kind of service a skill is. Spec: SDP §2.1; specs §0 for the last."""

    ENTERPRISE = "enterprise-skill"
    TOOL = "tool-skill"
    INTEGRATION = "integration-skill"
    INFRASTRUCTURE = "infrastructure-skill"


class HealthStatus(StrEnum):
    """The health of a skill. A heartbeat has any but ``UNKNOWN``, which a registry shows before it. Spec: SDP §8.1."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"
    MAINTENANCE = "MAINTENANCE"
    OFFLINE = "OFFLINE"
    UNKNOWN = "UNKNOWN"


class Outcome(StrEnum):
    """The outcome of a registration or a goodbye. Spec: SDP §2.3."""

    SUCCESS = "SUCCESS"
    DUPLICATE = "DUPLICATE"
    INVALID = "INVALID"
    UNAUTHORIZED = "UNAUTHORIZED"


#: The answers to a registration that is listed.
ACCEPTED: Final = frozenset({Outcome.SUCCESS, Outcome.DUPLICATE})


class Reason(StrEnum):
    """The reason of a goodbye. Spec: SDP §9.1."""

    SHUTDOWN = "SHUTDOWN"
    ERROR = "ERROR"
    MAINTENANCE = "MAINTENANCE"
    UPGRADE = "UPGRADE"


class GroupEvent(StrEnum):
    """The events in notices to the members of a scene group **[ours]**."""

    MEMBER_JOINED = "MEMBER_JOINED"
    MEMBER_LEFT = "MEMBER_LEFT"
    STATUS_CHANGED = "STATUS_CHANGED"
    PRIMARY_CHANGED = "PRIMARY_CHANGED"


class Endpoint(Struct, frozen=True, gc=False):
    """Where a skill is reached. ``host`` is an IPv4 address, an IPv6 address without brackets, or a name."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Message(Struct, frozen=True, gc=False, kw_only=True):
    """Any message."""

    signature: str = ""


class Register(Message, frozen=True, gc=False):
    """The registration of a skill. Spec: SDP §2.1."""

    agent_id: str
    skill_id: str
    version: str
    skill_type: SkillType
    endpoint: Endpoint
    capabilities: tuple[str, ...]
    scenes: tuple[str, ...]
    timestamp: int


class RegisterAck(Message, frozen=True, gc=False):
    """The answer to a registration. **[ours]**: ``message`` begins with the skill's identifier. Spec: SDP §2.3."""

    agent_id: str
    status: Outcome
    message: str
    timestamp: int


class Unregister(Message, frozen=True, gc=False):
    """The goodbye of a skill. Spec: SDP §9.1."""

    agent_id: str
    skill_id: str
    reason: Reason
    timestamp: int


class UnregisterAck(Message, frozen=True, gc=False):
    """The answer to a goodbye. Spec: SDP §9.2; specs §3."""

    agent_id: str
    skill_id: str
    status: Outcome
    timestamp: int


class Discover(Message, frozen=True, gc=False):
    """A search for skills; an empty filter matches every skill. Spec: SDP §3.1."""

    requester_id: str
    capabilities: tuple[str, ...]
    scenes: tuple[str, ...]
    skill_types: tuple[SkillType, ...]
    timestamp: int


#: Build metadata of the version of a skill that only a suspected outage keeps listed. SemVer ignores it.
STALE: Final = "stale"


class SkillRecord(Struct, frozen=True, gc=False):
    """One skill that was found; its version can end with the mark :data:`STALE`. Spec: SDP §3.2."""

    skill_id: str
    version: str
    endpoint: Endpoint
    capabilities: tuple[str, ...]
    scenes: tuple[str, ...]

    @property
    def is_stale(self) -> bool:
        """Whether the responder suspects the network, and has not heard the skill for 30 s."""
        return self.version.partition("+")[2].rpartition(".")[2] == STALE

    @property
    def plain_version(self) -> str:
        """The version without the mark."""
        return self.version[: -len(f"+{STALE}")] if self.is_stale else self.version


class DiscoverResponse(Message, frozen=True, gc=False):
    """Skills that were found, or a part of them. Spec: SDP §3.2; specs §3."""

    requester_id: str
    skills: tuple[SkillRecord, ...]
    timestamp: int


class Heartbeat(Message, frozen=True, gc=False):
    """A sign of life of a skill, with its status. Spec: SDP §8.1."""

    agent_id: str
    skill_id: str
    status: HealthStatus
    timestamp: int


class StatusUpdate(Message, frozen=True, gc=False):
    """A change of a skill's status between its heartbeats. Spec: SDP §5.2; specs §3."""

    agent_id: str
    skill_id: str
    status: HealthStatus
    detail: str
    timestamp: int


class Challenge(Message, frozen=True, gc=False):
    """``agent_id`` challenges the agent at an address, and names its datagram in the nonce. Spec: SDP §10.3."""

    agent_id: str
    nonce: bytes
    timestamp: int


class ChallengeResponse(Message, frozen=True, gc=False):
    """``agent_id`` proves itself; ``certificate`` is DER, and empty with a group key. Spec: SDP §10.3; specs §3."""

    agent_id: str
    nonce: bytes
    certificate: bytes
    timestamp: int


class SceneQuestion(Message, frozen=True, gc=False):
    """A question for a scene whose provider has some capabilities."""

    agent_id: str
    scene: str
    capabilities: tuple[str, ...]
    timestamp: int


class JoinScene(SceneQuestion, frozen=True, gc=False):
    """An agent joins a scene that it knows of. Spec: SDP §2.2, §3.3; specs §3."""


class RequestScene(SceneQuestion, frozen=True, gc=False):
    """An agent asks for a scene. Spec: SDP §4.2; specs §3."""


class ConnectionInfo(Struct, frozen=True, rename="camel"):
    """How the primary member of a group is reached; its API key is never in a datagram. Spec: SDP §4.3; specs §3."""

    protocol: str
    host: str
    port: int
    base_path: str = ""
    auth_type: str = ""
    auth_header: str = ""
    endpoint: str = ""


class SkillInfo(Struct, frozen=True, rename="camel"):
    """Which skill the primary member is. Spec: SDP §4.3."""

    skill_id: str
    version: str
    capabilities: tuple[str, ...] = ()


class GroupMember(Struct, frozen=True, rename="camel"):
    """One provider in a scene group; ``role`` is ``PRIMARY`` or ``BACKUP`` **[ours]**."""

    agent_id: str
    skill_id: str
    role: str


class SceneAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A scene group in the answer to an agent that joined; ``members`` may be cut. Spec: SDP §2.2, §4.3."""

    scene_id: str
    group_id: str
    connection_info: ConnectionInfo
    skill_info: SkillInfo
    members: tuple[GroupMember, ...] = ()


class JoinSceneResponse(Message, frozen=True, gc=False):
    """``agent_id`` has joined a scene. Spec: SDP §2.2; specs §3."""

    agent_id: str
    answer: SceneAnswer
    timestamp: int


class SceneJoinResponse(JoinSceneResponse, frozen=True, gc=False):
    """``agent_id`` has been given the scene it asked for. Spec: SDP §4.2; specs §3."""


class SceneNotFound(Message, frozen=True, gc=False):
    """The scene that ``agent_id`` asked for is not here. Spec: SDP §4.2; specs §3."""

    agent_id: str
    scene: str
    timestamp: int


class SceneEvent(Message, frozen=True, gc=False):
    """A notice to the members of a group about a change in it. Spec: SDP §8.3, §9.2; specs §3."""

    group_id: str
    event: GroupEvent
    agent_id: str
    skill_id: str
    status: HealthStatus
    timestamp: int


class Unknown(Message, frozen=True, gc=False):
    """A message of an unknown type: counted and ignored."""
