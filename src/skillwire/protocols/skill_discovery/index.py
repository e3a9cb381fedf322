"""The index of a registry: finds skills by capability, scene and type, and keeps the providers of a scene in order.

Any peer may send queries as fast as datagrams are read, so the cost of a query is bounded whatever is registered. Each
listed skill has a number, and each name a set of numbers. A large set is the bits of one integer: the intersection of
two sets of ten thousand takes less than a microsecond, and a datagram has room for some dozens of names. Small sets are
tuples, because a peer can make up very many names. The providers of a scene are kept in order, which changes when a
skill comes, goes, or can no longer be called, and not with a query. Spec: SDP §3.1, §4; specs §3 "Scene groups".
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.protocols.skill_discovery.messages import HealthStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from skillwire.protocols.skill_discovery.health import Key, ListedSkill
    from skillwire.protocols.skill_discovery.messages import Discover

#: Most members of a set that is a tuple.
_FEW: Final = 8
#: The sort key of a provider in its scenes (unverified, UNKNOWN, its key), and its number.
_Rank = tuple[bool, bool, "Key", int]


class _Entry(NamedTuple):
    """A skill as it was indexed."""

    number: int
    listed: ListedSkill


class _Names:
    """The skills that have each name: some numbers, or the bits of one integer."""

    def __init__(self) -> None:
        self._sets: dict[str, tuple[int, ...] | int] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def add(self, name: str, number: int, bit: int) -> None:
        """Give the skill with this number, whose bit is ``bit``, a name."""
        found = self._sets.get(name, ())
        if isinstance(found, int):
            self._sets[name] = found | bit
        elif number not in found:
            found = (*found, number)
            self._sets[name] = found if len(found) <= _FEW else _bits(found)

    def remove(self, name: str, number: int) -> None:
        """Take a name from a skill."""
        found = self._sets.get(name, ())
        if isinstance(found, int):
            bits = found & ~(1 << number)
            self._sets[name] = bits if bits.bit_count() > _FEW else tuple(_numbers(bits))
        elif rest := tuple(one for one in found if one != number):
            self._sets[name] = rest
        else:
            self._sets.pop(name, None)

    def all_of(self, names: Iterable[str]) -> int:
        """Return the skills that have all of some names; there is at least one name."""
        bits = -1
        for name in names:
            found = self._sets.get(name, ())
            bits &= found if isinstance(found, int) else _bits(found)
            if not bits:
                break
        return bits

    def any_of(self, names: Iterable[str]) -> int:
        """Return the skills that have one of some names."""
        bits = 0
        few: set[int] = set()
        for name in names:
            found = self._sets.get(name, ())
            if isinstance(found, int):
                bits |= found
            else:
                few.update(found)
        return bits | _bits(few)


class Index:
    """The skills of one registry that can be found; hints are not among them."""

    def __init__(self) -> None:
        self._capabilities = _Names()
        self._scenes = _Names()
        self._types = _Names()
        self._orders: dict[str, list[_Rank]] = {}
        self._entries: dict[Key, _Entry] = {}
        self._keys: list[Key] = []
        self._free: list[int] = []
        self._all = self._usable = self._verified = 0

    def put(self, listed: ListedSkill) -> None:
        """Index a skill, in place of its former record."""
        key = listed.key
        old = self._entries.get(key)
        if old is not None:
            if _names(old.listed) == _names(listed):
                if _stands(old.listed) != _stands(listed):
                    self._take_from_order(key, old)
                    self._put_in_order(key, _Entry(old.number, listed))
                return
            self.remove(key)
        if self._free:
            number = self._free.pop()
            self._keys[number] = key
        else:
            number = len(self._keys)
            self._keys.append(key)
        bit = 1 << number
        self._all |= bit
        capabilities, scenes, skill_type = _names(listed)
        for name in capabilities:
            self._capabilities.add(name, number, bit)
        for name in scenes:
            self._scenes.add(name, number, bit)
        self._types.add(skill_type, number, bit)
        self._put_in_order(key, _Entry(number, listed))

    def remove(self, key: Key) -> None:
        """Remove a skill, if it is there."""
        old = self._entries.get(key)
        if old is None:
            return
        number = old.number
        self._take_from_order(key, old)
        capabilities, scenes, skill_type = _names(old.listed)
        for name in capabilities:
            self._capabilities.remove(name, number)
        for name in scenes:
            self._scenes.remove(name, number)
        self._types.remove(skill_type, number)
        self._all &= ~(1 << number)
        self._free.append(number)
        del self._entries[key]

    def find(self, wanted: Discover, most: int) -> list[Key]:
        """Return at most ``most`` skills that pass the filters: usable ones first, and of those the verified ones."""
        bits = self._all
        if wanted.capabilities:
            bits &= self._capabilities.all_of(wanted.capabilities)
        if bits and wanted.scenes:
            bits &= self._scenes.any_of(wanted.scenes)
        if bits and wanted.skill_types:
            bits &= self._types.any_of(wanted.skill_types)
        found: list[Key] = []
        usable = bits & self._usable
        for part in (usable & self._verified, usable & ~self._verified, bits & ~self._usable):
            found += [self._keys[number] for number in islice(_numbers(part), most - len(found))]
        return found

    def certified(self) -> int:
        """Return how many skills are certified."""
        return self._verified.bit_count()

    def in_scene(self, scene: str) -> list[Key]:
        """Return the skills of a scene, usable or not."""
        return [self._keys[number] for number in _numbers(self._scenes.any_of((scene,)))]

    def scenes(self) -> list[str]:
        """Return the scenes that skills take part in, by name."""
        return sorted(self._scenes)

    def provides(self, scene: str, capabilities: Collection[str]) -> bool:
        """Return whether a usable provider of a scene has all these capabilities."""
        return self._able(scene, capabilities) != 0

    def provider(self, scene: str, capabilities: Collection[str]) -> Key | None:
        """Return the first usable provider of a scene that has all these capabilities."""
        able = self._able(scene, capabilities)
        if not able:
            return None
        order = self._orders[scene]
        if not capabilities:
            return order[0][2]
        digits = f"{able:0{len(self._keys)}b}"  # reading a digit is cheaper than shifting
        return next(key for _, _, key, number in order if digits[~number] == "1")

    def providers(self, scene: str, most: int) -> list[Key]:
        """Return the first usable providers of a scene, in their order."""
        return [key for _, _, key, _ in self._orders.get(scene, ())[:most]]

    def _able(self, scene: str, capabilities: Collection[str]) -> int:
        bits = self._scenes.any_of((scene,)) & self._usable
        return bits & self._capabilities.all_of(capabilities) if bits and capabilities else bits

    def _put_in_order(self, key: Key, entry: _Entry) -> None:
        self._entries[key] = entry
        listed, bit = entry.listed, 1 << entry.number
        if listed.is_verified:
            self._verified |= bit
        if listed.health.is_usable:
            self._usable |= bit
            rank = _rank(key, entry)
            for scene in set(listed.registration.scenes):
                insort(self._orders.setdefault(scene, []), rank)

    def _take_from_order(self, key: Key, entry: _Entry) -> None:
        listed, bit = entry.listed, 1 << entry.number
        self._verified &= ~bit
        self._usable &= ~bit
        if listed.health.is_usable:
            rank = _rank(key, entry)
            for scene in set(listed.registration.scenes):
                order = self._orders[scene]
                del order[bisect_left(order, rank)]
                if not order:
                    del self._orders[scene]


def _rank(key: Key, entry: _Entry) -> _Rank:
    number, listed = entry
    return not listed.is_verified, listed.health.status is HealthStatus.UNKNOWN, key, number


def _names(listed: ListedSkill) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    message = listed.registration
    return message.capabilities, message.scenes, message.skill_type


def _stands(listed: ListedSkill) -> tuple[bool, bool, bool]:
    """Return what decides the order of a skill among others."""
    return listed.is_verified, listed.health.is_usable, listed.health.status is HealthStatus.UNKNOWN


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def _numbers(bits: int) -> Iterator[int]:
    """Return the numbers of a set in ascending order."""
    digits = bin(bits)
    end = len(digits)
    at = digits.rfind("1")
    while at >= 0:
        yield end - 1 - at
        at = digits.rfind("1", 0, at)
