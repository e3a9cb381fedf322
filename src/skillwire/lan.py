"""The local network for programs: the faces of ``Client.lan`` and the values they return."""

from __future__ import annotations

from skillwire.client.lan import AsyncLan, Lan
from skillwire.model.lan import LanChange, LanMember, LanScene, LanSkill, LanSnapshot, SceneResult

__all__ = [
    "AsyncLan",
    "Lan",
    "LanChange",
    "LanMember",
    "LanScene",
    "LanSkill",
    "LanSnapshot",
    "SceneResult",
]
