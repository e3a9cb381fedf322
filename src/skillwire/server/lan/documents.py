"""What the server tells of the network, as JSON: one form for ``/lan.json`` and ``/lan/events``.

Names are those of Skill Discovery's own JSON (SDP §4.3, §11.3); instants are seconds since the epoch. What others sent
is told as it is: whoever shows it neutralises it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.lan import LanChange, LanScene, LanSkill, LanSnapshot

_encode = msgspec.json.Encoder().encode


def encode_snapshot(snapshot: LanSnapshot | None, trouble: str, counters: Mapping[str, int]) -> bytes:
    """Return all that is known; without a network, why there is none."""
    if snapshot is None:
        return _encode({"agentId": None, "trouble": trouble or "not on the LAN yet", "skills": [], "scenes": []})
    return _encode(
        {
            "agentId": snapshot.agent_id,
            "at": snapshot.at,
            "isSuspected": snapshot.is_suspected,
            "skills": [_skill(skill) for skill in snapshot.skills],
            "scenes": [_scene(scene) for scene in snapshot.scenes],
            "counters": dict(counters),
        }
    )


def encode_change(change: LanChange) -> bytes:
    """Return one change; with ``reason`` where it is known why a skill is gone."""
    document: dict[str, Any] = {"kind": change.kind, "at": change.at}
    if change.skill is not None:
        document["skill"] = _skill(change.skill)
    if change.reason:
        document["reason"] = change.reason
    if change.scene is not None:
        document["scene"] = _scene(change.scene)
    return _encode(document)


def _skill(skill: LanSkill) -> dict[str, Any]:
    return {
        "agentId": skill.agent_id,
        "skillId": skill.skill_id,
        "version": skill.version,
        "skillType": skill.skill_type,
        "endpoint": skill.endpoint,
        "capabilities": skill.capabilities,
        "scenes": skill.scenes,
        "status": skill.status,
        "trust": skill.trust,
        "foundVia": skill.found_via.value,
        "heard": skill.heard,
        "isStale": skill.is_stale,
    }


def _scene(scene: LanScene) -> dict[str, Any]:
    members = [
        {"agentId": member.agent_id, "skillId": member.skill_id, "role": member.role} for member in scene.members
    ]
    return {"sceneId": scene.name, "groupId": scene.group_id, "members": members}
