"""The catalog: an immutable snapshot of published skills with a rising revision.

A change makes the next snapshot; readers of the old one are unaffected. Access is decided here, once: every protocol
lists :meth:`Catalog.visible_to` and delivers :meth:`Catalog.usable_by`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field

from skillwire.model.access import Access, Principal
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
        """Return what ``principal`` may see: public and restricted skills, and granted ones. Spec: SSP §4.4."""
        return self._part(
            lambda skill: skill.access is not Access.PRIVATE or principal.has(skill.name, skill.publisher)
        )

    def usable_by(self, principal: Principal) -> Catalog:
        """Return what ``principal`` may read, install and invoke: public or granted skills. Spec: SSP §7.3."""
        return self._part(lambda skill: skill.access is Access.PUBLIC or principal.has(skill.name, skill.publisher))

    def only(self, names: Iterable[str]) -> Catalog:
        """Return the skills of these names."""
        return Catalog(self.revision, SkillSubset(self.skills, sorted(names)))

    def without(self, other: Catalog) -> Catalog:
        """Return the skills whose names are not in ``other``."""
        return self.only(() if self.skills is other.skills else self.skills.keys() - other.skills.keys())

    def _part(self, belongs: Callable[[Skill], bool]) -> Catalog:
        names = [name for name, skill in self.skills.items() if belongs(skill)]
        return self if len(names) == len(self.skills) else Catalog(self.revision, SkillSubset(self.skills, names))


class SkillSubset(Mapping[str, Skill]):
    """Some skills of a mapping, by name, each looked up on access."""

    __slots__ = ("_names", "whole")

    def __init__(self, skills: Mapping[str, Skill], names: Iterable[str]) -> None:
        self.whole = skills
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Skill:
        if name not in self._names:
            raise KeyError(name)
        return self.whole[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def keys(self) -> KeysView[str]:
        """Return the names as a set."""
        return self._names.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
