"""What was found on the local network before, in ``lan.json`` of the cache folder. Spec: SDP §11."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.model.lan import LanChange, LanSkill
    from skillwire.protocols.skill_discovery.configuration import CacheSettings


class LanMemory:
    def __init__(self, settings: CacheSettings, clock: Callable[[], float]) -> None:
        self._skills: dict[tuple[str, str], LanSkill] = {}

    def put(self, skills: Iterable[LanSkill]) -> None:
        for skill in skills:
            self._skills[skill.agent_id, skill.skill_id] = skill

    def skills(self) -> list[LanSkill]:
        return []

    def hear(self, change: LanChange) -> None:
        pass

    def write(self) -> None:
        pass
