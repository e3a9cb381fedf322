"""JSON documents that commands print with ``--json`` about the local network and its scenes.

See :mod:`skillwire.cli.documents`.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from skillwire.cli.documents import FindingObject, LanSkillObject, ReportFields

LeaveReason = Literal["shutdown", "error", "maintenance", "upgrade"]
EvictReason = Literal["silent", "revoked", "crowded"]


class MemberObject(TypedDict):
    agent_id: Annotated[str, "Agent"]
    skill_id: Annotated[str, "Skill"]
    role: Annotated[Literal["PRIMARY", "BACKUP"], "Role in the group"]


class SceneObject(TypedDict):
    scene: Annotated[str, "Name"]
    group_id: Annotated[str, "Group of its providers"]
    members: Annotated[list[MemberObject], "Providers, the PRIMARY first"]


class JoinedScene(SceneObject):
    skill_id: Annotated[str, "Skill of the connection"]
    version: Annotated[str, "Version of that skill"]
    capabilities: Annotated[list[str], "Capabilities of that skill"]
    connection_info: Annotated[
        dict[str, str | int],
        "Connection: the keys of SDP 4.3 and endpoint; apiKey and expiresAt if a key was issued, which goes into the "
        "header field authHeader. Paths are below basePath",
    ]
    no_key: Annotated[FindingObject | None, "Why the provider issued no key; null if there is one, or none is issued"]


class SceneDocument(JoinedScene):
    """A joined scene"""

    schema: Literal["skillwire/scene/1"]


class SceneListDocument(TypedDict):
    """Scenes of the local network"""

    schema: Literal["skillwire/scene-list/1"]
    scenes: Annotated[list[SceneObject], "Scenes by name"]


class SceneRequestDocument(ReportFields):
    """Installation of scene request for a scene without a provider"""

    schema: Literal["skillwire/scene-request/1"]
    scene: Annotated[str, "Name"]
    skill: Annotated[str, "Chosen skill"]
    found_by: Annotated[Literal["scene", "words"], "Whether the skill declares the scene, or only matches its words"]
    provided: Annotated[bool, "Whether it is served now, with --provide"]


class ListedLanSkill(LanSkillObject):
    version: Annotated[str, "Version"]


class LanEvent(TypedDict):
    """A line of lan"""

    schema: Literal["skillwire/lan/1"]
    at: Annotated[float, "Time in seconds since the epoch"]


class LanSnapshotEvent(LanEvent):
    """The current state: the first line, and again after missed"""

    event: Literal["snapshot"]
    agent_id: Annotated[str, "This machine's agent"]
    network_suspected: Annotated[bool, "Whether so many agents fell silent that a network problem is suspected"]
    skills: Annotated[list[ListedLanSkill], "Skills by agent and name"]
    scenes: Annotated[list[SceneObject], "Scenes by name"]


class LanSkillEvent(LanEvent):
    """A skill appeared, was updated, changed health, fell silent, or fell silent with many others (stale)"""

    event: Literal["registered", "updated", "status", "suspected", "stale"]
    skill: Annotated[ListedLanSkill, "The skill, in its current or last state"]


class LanLeftEvent(LanEvent):
    """A skill said goodbye"""

    event: Literal["left"]
    skill: Annotated[ListedLanSkill, "The skill, in its last state"]
    reason: NotRequired[Annotated[LeaveReason, "Its reason; absent if only mDNS reported it"]]


class LanEvictedEvent(LanEvent):
    """A skill was removed"""

    event: Literal["evicted"]
    skill: Annotated[ListedLanSkill, "The skill, in its last state"]
    reason: NotRequired[Annotated[EvictReason, "It was silent, its certificate was revoked, or others replaced it"]]


class LanSceneEvent(LanEvent):
    """A scene has another PRIMARY or other members"""

    event: Literal["scene"]
    scene: Annotated[SceneObject, "The scene, in its current state"]


class LanMissedEvent(LanEvent):
    """Some changes were missed; a snapshot follows"""

    event: Literal["missed"]


class NoticeObject(TypedDict):
    scene: Annotated[str, "Scene"]
    group_id: Annotated[str, "Group"]
    event: Annotated[Literal["MEMBER_JOINED", "MEMBER_LEFT", "STATUS_CHANGED", "PRIMARY_CHANGED"], "What happened"]
    agent_id: Annotated[str, "Agent of the skill"]
    skill_id: Annotated[str, "Skill"]
    status: Annotated[str, "Health of the skill"]


class SceneJoinedEvent(JoinedScene):
    """The scene was joined"""

    schema: Literal["skillwire/scene-event/1"]
    event: Literal["joined"]


class SceneChangeEvent(TypedDict):
    """A change of the scene or of a skill in it"""

    schema: Literal["skillwire/scene-event/1"]
    event: Literal[
        "registered", "updated", "status", "suspected", "stale", "left", "evicted", "scene", "notice", "missed"
    ]
    at: Annotated[float, "Time in seconds since the epoch"]
    skill: Annotated[LanSkillObject | None, "The skill, in its current or last state; null for a scene"]
    scene: Annotated[SceneObject | None, "The scene, in its current state; null for a skill"]
    reason: Annotated[Literal["", LeaveReason, EvictReason], "Reason of left and evicted; otherwise empty"]
    notice: Annotated[NoticeObject | None, "Unconfirmed notice; null for other events"]


#: What ``Output.document`` takes.
Document = SceneDocument | SceneListDocument | SceneRequestDocument
