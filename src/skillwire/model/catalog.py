"""The catalog: an immutable snapshot of what is published, with a rising revision.

A change makes the next snapshot; whoever holds the old one goes on reading it. Access is decided here,
once: every protocol starts from :meth:`Catalog.visible_to`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skillwire.model.access import Access

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skillwire.model.access import Principal
    from skillwire.model.skill import Skill


@dataclass(frozen=True, slots=True)
class Catalog:
    """Published skills by name, sorted by name."""

    revision: int = 0
    skills: Mapping[str, Skill] = field(default_factory=dict)

    @classmethod
    def of(cls, skills: Iterable[Skill], revision: int = 0) -> Catalog:
        """Return a snapshot of ``skills``, sorted by name."""
        return cls(revision, {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)})

    def visible_to(self, principal: Principal) -> Catalog:
        """Return the part of the snapshot that ``principal`` may see: public skills, and what was granted."""
        visible = {
            name: skill
            for name, skill in self.skills.items()
            if skill.access is Access.PUBLIC or name in principal.grants
        }
        return self if len(visible) == len(self.skills) else Catalog(self.revision, visible)
