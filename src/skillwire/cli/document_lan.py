"""What commands print with ``--json`` about the local network and its scenes. See :mod:`skillwire.cli.documents`."""

from __future__ import annotations

from typing import Final

from skillwire.cli.document_parts import (
    FINDING,
    REPORT,
    Schema,
    decimal,
    fields,
    flag,
    may_lack,
    or_null,
    some,
    text,
    texts,
)

LAN_SKILL: Final = {
    "agent_id": text("Who offers it; empty when only others tell of it"),
    "skill_id": text("Its identifier in Skill Discovery"),
    "skill_type": text("What it is, such as tool-skill; empty when only others tell of it"),
    "endpoint": text("HOST:PORT of its server"),
    "capabilities": texts("What it can do"),
    "scenes": texts("The scenes that it takes part in"),
    "status": text("How it is", "HEALTHY", "DEGRADED", "UNHEALTHY", "MAINTENANCE", "OFFLINE", "UNKNOWN"),
    "trust": text(
        "Whether its key has a certificate that leads to a configured root; that is not known of what was only told",
        "verified",
        "unverified",
        "not known",
    ),
    "found_via": text("Where it was heard of", "multicast", "mdns", "cache"),
    "heard_at": decimal("When the last sign of life came, in seconds since the epoch"),
    "stale": flag("Whether the network is suspected, and not the skill"),
}
_MEMBERS: Final = some(
    "Who provides it, the PRIMARY first",
    fields(
        "A provider",
        agent_id=text("Whose it is"),
        skill_id=text("Which skill"),
        role=text("What it is in the group", "PRIMARY", "BACKUP"),
    ),
)
_SCENE: Final = {
    "scene": text("Its name"),
    "group_id": text("The group of those who provide it"),
    "members": _MEMBERS,
}
_JOINED: Final = {
    **_SCENE,
    "skill_id": text("The skill that the connection leads to"),
    "version": text("Of that skill"),
    "capabilities": texts("What that skill can do"),
    "connection_info": {
        "type": "object",
        "additionalProperties": {"type": ["string", "integer"]},
        "description": "How it is reached: the keys of SDP 4.3 and endpoint; apiKey and expiresAt if it gave a key, "
        "which goes into the field authHeader. Paths are below basePath",
    },
    "no_key": or_null(
        {**FINDING, "description": "Why there is no key that the provider could have given"},
        "when there is one, or none is handed out",
    ),
}

#: Name and number → what it is, and its fields beside ``schema`` and ``findings``.
DOCUMENTS: Final[dict[str, Schema]] = {
    "scene/1": fields("A scene that was joined.", **_JOINED),
    "scene-list/1": fields(
        "The scenes of the local network.", scenes=some("Each, by name", fields("A scene", **_SCENE))
    ),
    "scene-request/1": fields(
        "What scene request has installed, since nobody on the network provided the scene.",
        scene=text("Its name"),
        skill=text("The skill that was chosen"),
        found_by=text(
            "Whether its source says that it takes part in the scene, or only its words fit", "scene", "words"
        ),
        provided=flag("Whether it is served from now on, with --provide"),
        **REPORT,
    ),
}

#: Why a skill has said goodbye, and why it is forgotten.
_LEFT_FOR: Final = ("shutdown", "error", "maintenance", "upgrade")
_FORGOTTEN_FOR: Final = ("silent", "revoked", "crowded")
_AT: Final = decimal("When, in seconds since the epoch")
_SCENE_CHANGE: Final = fields(
    "Something has happened to the scene, or to a skill in it",
    at=decimal("When, in seconds since the epoch"),
    skill=or_null(fields("The skill, as it is or last was", **LAN_SKILL), "when it is about the scene"),
    scene=or_null(fields("The scene, as it is", **_SCENE), "when it is about a skill"),
    reason=text("Why the skill is gone: empty of all else", "", *_LEFT_FOR, *_FORGOTTEN_FOR),
    notice=or_null(
        fields(
            "What others tell of the group, unsigned, that does not look so from here a heartbeat later",
            scene=text("Its name"),
            group_id=text("The group"),
            event=text("What has happened", "MEMBER_JOINED", "MEMBER_LEFT", "STATUS_CHANGED", "PRIMARY_CHANGED"),
            agent_id=text("Whose skill it is about"),
            skill_id=text("Which skill"),
            status=text("How it is, as for a skill"),
        ),
        "but in the event notice",
    ),
)
SCENE_EVENTS: Final = {
    "joined": fields("The scene was joined", **_JOINED),
    **dict.fromkeys(
        ("registered", "updated", "status", "suspected", "stale", "left", "evicted", "scene", "notice", "missed"),
        _SCENE_CHANGE,
    ),
}
_LISTED: Final = {**LAN_SKILL, "version": text("Its version")}
_LAN_CHANGES: Final = {
    "registered": "A skill is there.",
    "updated": "A skill says something else of itself.",
    "status": "The health of a skill is another one.",
    "suspected": "A skill is silent, and is being asked whether it lives.",
    "stale": "A skill fell silent together with so many others that the network is suspected.",
}
_LEFT: Final = may_lack(
    fields(
        "A skill said goodbye.",
        at=_AT,
        skill=fields("It, as it last was", **_LISTED),
        reason=text("As it says; not there when only mDNS told of it", *_LEFT_FOR),
    ),
    "reason",
)
_EVICTED: Final = may_lack(
    fields(
        "A skill is forgotten.",
        at=_AT,
        skill=fields("It, as it last was", **_LISTED),
        reason=text("It was silent, its certificate was taken back, or it gave way to others", *_FORGOTTEN_FOR),
    ),
    "reason",
)
LAN_EVENTS: Final = {
    "snapshot": fields(
        "All that is known: the first line, and once more after missed",
        at=_AT,
        agent_id=text("Who listens: the name of this machine's agent"),
        network_suspected=flag("Whether so many fell silent that it is the network, and not they"),
        skills=some("Every skill, by agent and name", fields("A skill", **_LISTED)),
        scenes=some("Every scene, by name", fields("A scene", **_SCENE)),
    ),
    **{
        event: fields(meaning, at=_AT, skill=fields("It, as it is or last was", **_LISTED))
        for event, meaning in _LAN_CHANGES.items()
    },
    "left": _LEFT,
    "evicted": _EVICTED,
    "scene": fields(
        "A scene has another PRIMARY, or other members.", at=_AT, scene=fields("The scene, as it is", **_SCENE)
    ),
    "missed": fields("More has happened than could be told: a snapshot follows.", at=_AT),
}
