"""Thousands of skills by name in little memory: each is kept packed and unpacked when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from skillwire.adapters.files.skill_rows import unpack_skill
from skillwire.model.skill import Skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class SkillChanges(NamedTuple):
    """What differs between two mappings of skills, as names."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class PackedSkills(Mapping[str, Skill]):
    """A read-only mapping of name to skill, in the order of ``packed``: name → skill as bytes."""

    __slots__ = ("_packed",)

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self._packed = packed

    def __getitem__(self, name: str) -> Skill:
        return unpack_skill(self._packed[name])

    def __contains__(self, name: object) -> bool:
        return name in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def with_finding(self, code: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of ``names`` whose skill was published with a finding of this code."""
        written = code.encode()
        return tuple(
            name
            for name in names
            if written in self._packed[name] and any(finding.code == code for finding in self[name].findings)
        )

    def packed(self, name: str) -> bytes:
        """Return the skill as :func:`~skillwire.adapters.files.skill_rows.pack_skill` made it."""
        return self._packed[name]

    def changes_since(self, before: PackedSkills) -> SkillChanges:
        """Return what is added, changed and removed here, compared with ``before``."""
        earlier = before._packed
        return SkillChanges(
            added=tuple(name for name in self._packed if name not in earlier),
            changed=tuple(name for name, packed in self._packed.items() if earlier.get(name, packed) != packed),
            removed=tuple(name for name in earlier if name not in self._packed),
        )
