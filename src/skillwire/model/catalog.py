"""The catalog: an immutable snapshot of what is published, with a rising revision.

A change makes the next snapshot; whoever holds the old one goes on reading it. Access is decided here,
once: every protocol starts from :meth:`Catalog.visible_to`, where it lists, or :meth:`Catalog.usable_by`, where it
hands over what a skill holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skillwire.model.access import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
        """Return what ``principal`` may know of: all that is not private, and what was granted. Spec: SSP §4.4."""
        return self._part(lambda skill: skill.access is not Access.PRIVATE or principal.has(skill.name))

    def usable_by(self, principal: Principal) -> Catalog:
        """Return what ``principal`` may read, install and invoke: public, or granted. Spec: SSP §7.3."""
        return self._part(lambda skill: skill.access is Access.PUBLIC or principal.has(skill.name))

    def _part(self, belongs: Callable[[Skill], bool]) -> Catalog:
        part = {name: skill for name, skill in self.skills.items() if belongs(skill)}
        return self if len(part) == len(self.skills) else Catalog(self.revision, part)
