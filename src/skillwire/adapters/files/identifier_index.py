"""Which packages share an identifier, in 32 bytes for each package.

Of the skills of a site, one has a name, or an identifier in another protocol. So a change of one package concerns those
that share one with it, and those that share one with these: mostly none of 50,000.

An entry is 32 bits of the hash of an identifier and the number of the package that has it; the entries are sorted. Two
identifiers with one hash make packages related that are not, which are then compared in vain.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from skillwire.folder.load import IdentifiedSkill

_BITS: Final = 32
_MASK: Final = (1 << _BITS) - 1


def hash_identifiers(skill: IdentifiedSkill) -> set[int]:
    """Return the hashes of a skill's name and of its other identifiers."""
    return {hash_name(skill.name), *(_hash(place, one) for place, one in enumerate(skill.identifiers[:3], 1))}


def hash_name(name: str) -> int:
    """Return the hash of a skill's name."""
    return _hash(0, name)


def _hash(place: int, identifier: str) -> int:
    return hash((place, identifier)) & _MASK


class IdentifierIndex:
    """The numbers of packages by the hashes of their identifiers."""

    def __init__(self, skills: Iterable[tuple[int, IdentifiedSkill]] = ()) -> None:
        entries = sorted(one << _BITS | number for number, skill in skills for one in hash_identifiers(skill))
        self._entries = array("Q", entries)

    def add(self, number: int, hashes: Iterable[int]) -> None:
        """Add the hashes of a package."""
        for one in hashes:
            insort(self._entries, one << _BITS | number)

    def remove(self, number: int, hashes: Iterable[int]) -> None:
        """Remove the hashes of a package, which it has."""
        for one in hashes:
            del self._entries[bisect_left(self._entries, one << _BITS | number)]

    def related(self, hashes: set[int], hashes_of: Callable[[int], set[int]]) -> set[int]:
        """Return the numbers with one of the hashes, and with one of the hashes of these, and so on."""
        found, waiting, seen = set[int](), set(hashes), set(hashes)
        while waiting:
            for number in self._with(waiting.pop()):
                if number not in found:
                    found.add(number)
                    more = hashes_of(number) - seen
                    seen |= more
                    waiting |= more
        return found

    def _with(self, one: int) -> Iterator[int]:
        place = bisect_left(self._entries, one << _BITS)
        while place < len(self._entries) and self._entries[place] >> _BITS == one:
            yield self._entries[place] & _MASK
            place += 1
