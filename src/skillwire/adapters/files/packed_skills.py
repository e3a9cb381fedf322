"""Thousands of skills by name in little memory: each is kept packed, in a file, and read when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skillwire.adapters.files.skill_rows import unpack_skill
from skillwire.model.skill import Skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Rows(Protocol):
    """Skills as :func:`~skillwire.adapters.files.skill_rows.pack_skill` makes them, by number."""

    def __getitem__(self, number: int, /) -> bytes: ...


class SkillChanges(NamedTuple):
    """What differs between two mappings of skills, as names."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class PackedSkills(Mapping[str, Skill]):
    """A read-only mapping of name to skill, in the order of ``numbers``: name → number of its row in ``rows``."""

    __slots__ = ("_numbers", "_rows")

    def __init__(self, numbers: Mapping[str, int], rows: Rows) -> None:
        self._numbers = numbers
        self._rows = rows

    def __getitem__(self, name: str) -> Skill:
        return unpack_skill(self.packed(name))

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def with_finding(self, code: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of ``names`` whose skill was published with a finding of this code."""
        written = code.encode()
        return tuple(
            name
            for name in names
            if written in self.packed(name) and any(finding.code == code for finding in self[name].findings)
        )

    @property
    def rows(self) -> Rows:
        """Where the skills are."""
        return self._rows

    def number(self, name: str) -> int:
        """Return the number of a skill's row."""
        return self._numbers[name]

    def packed(self, name: str) -> bytes:
        """Return the skill as :func:`~skillwire.adapters.files.skill_rows.pack_skill` made it."""
        return self._rows[self._numbers[name]]

    def changes_since(self, before: PackedSkills) -> SkillChanges:
        """Return what is added, changed and removed here, compared with ``before``."""
        earlier = before._numbers
        return SkillChanges(
            added=tuple(name for name in self._numbers if name not in earlier),
            changed=tuple(name for name in self._numbers if name in earlier and self._differs(name, before)),
            removed=tuple(name for name in earlier if name not in self._numbers),
        )

    def _differs(self, name: str, before: PackedSkills) -> bool:
        if self._rows is before._rows and self._numbers[name] == before._numbers[name]:
            return False
        return self.packed(name) != before.packed(name)
