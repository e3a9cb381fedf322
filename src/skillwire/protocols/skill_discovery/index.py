"""Finding the skills of one registry by capability, scene and type, at a cost that no peer can raise.

Any peer may send queries as fast as datagrams are read, so the cost of a query is bounded whatever is registered. Each
listed skill has a number, and each name a set of numbers. A large set is the bits of one integer: the intersection of
two sets of ten thousand takes less than a microsecond, and a datagram has space for some dozens of names. Small sets
are tuples, because a peer can make up very many names. The providers of a scene are kept in order, which changes when a
skill comes, goes, or can no longer be called, and not with a query. Spec: SDP §3.1, §4.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from skillwire.protocols.skill_discovery.health import Key, ListedSkill
from skillwire.protocols.skill_discovery.messages import Discover, HealthStatus

#: Most members of a set that is a tuple.
_FEW: Final = 8
#: The sort key of a provider in its scenes (unverified, refused, UNKNOWN, since when, its key), and its number.
_Rank = tuple[bool, bool, bool, int, Key, int]


class _Names:
    """The skills that have each name: some numbers, or the bits of one integer."""

    def __init__(self) -> None:
        self._sets: dict[str, tuple[int, ...] | int] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def add(self, name: str, number: int) -> None:
        found = self._sets.get(name, ())
        if isinstance(found, int):
            self._sets[name] = found | 1 << number
        elif number not in found:
            found = (*found, number)
            self._sets[name] = found if len(found) <= _FEW else _bits(found)

    def remove(self, name: str, number: int) -> None:
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
    """Finds the skills of one registry; hints are not among them."""

    def __init__(self) -> None:
        self._capabilities = _Names()
        self._scenes = _Names()
        self._types = _Names()
        self._tables = self._capabilities, self._scenes, self._types
        self._orders: dict[str, list[_Rank]] = {}
        self._entries: dict[Key, tuple[int, ListedSkill]] = {}  # the number, and the skill as it was indexed
        self.since: dict[Key, int] = {}  # when each registered first, for its rank
        self._keys: list[Key] = []
        self._free: list[int] = []
        self._all = self._usable = self._verified = 0

    def put(self, listed: ListedSkill) -> None:
        """Index a skill, in place of its former record."""
        key = listed.key
        if (old := self._entries.get(key)) is not None:
            number, before = old
            if _names(before) == _names(listed):
                is_moved = self._rank(number, before) != self._rank(number, listed)
                if is_moved or before.health.status != listed.health.status:
                    self._remove_from_order(*old)
                    self._put_in_order(key, number, listed)
                return
            self.remove(key)
        if self._free:
            number = self._free.pop()
            self._keys[number] = key
        else:
            number = len(self._keys)
            self._keys.append(key)
        self._all |= 1 << number
        for table, names in zip(self._tables, _names(listed), strict=True):
            for name in names:
                table.add(name, number)
        self._put_in_order(key, number, listed)

    def remove(self, key: Key) -> None:
        """Remove a skill, if it is there."""
        old = self._entries.pop(key, None)
        if old is None:
            return
        number, listed = old
        self._remove_from_order(number, listed)
        for table, names in zip(self._tables, _names(listed), strict=True):
            for name in names:
                table.remove(name, number)
        self._all &= ~(1 << number)
        self._free.append(number)

    def find(self, query: Discover, most: int) -> list[Key]:
        """Return at most ``most`` skills that pass the filters: usable ones first, and of those the verified ones."""
        bits = self._all
        if query.capabilities:
            bits &= self._capabilities.all_of(query.capabilities)
        if bits and query.scenes:
            bits &= self._scenes.any_of(query.scenes)
        if bits and query.skill_types:
            bits &= self._types.any_of(query.skill_types)
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

    def provider(self, scene: str, capabilities: Collection[str]) -> Key | None:
        """Return the first usable provider of a scene that has all these capabilities."""
        if not capabilities:
            return next(iter(self.providers(scene, 1)), None)
        able = self._scenes.any_of((scene,)) & self._usable & self._capabilities.all_of(capabilities)
        if not able:
            return None
        digits = f"{able:0{len(self._keys)}b}"  # reading a digit is cheaper than shifting
        return next(key for *_, key, number in self._orders[scene] if digits[~number] == "1")

    def providers(self, scene: str, most: int) -> list[Key]:
        """Return the first usable providers of a scene, in their order."""
        return [key for *_, key, _ in self._orders.get(scene, ())[:most]]

    def rank(self, key: Key) -> _Rank:
        """Return the sort key of a skill among the providers of a scene."""
        return self._rank(*self._entries[key])

    def _rank(self, number: int, listed: ListedSkill) -> _Rank:
        key, health = listed.key, listed.health
        is_unknown = health.status is HealthStatus.UNKNOWN
        return not listed.is_verified, health.is_refused, is_unknown, self.since.get(key, 0), key, number

    def _put_in_order(self, key: Key, number: int, listed: ListedSkill) -> None:
        self._entries[key] = number, listed
        bit = 1 << number
        if listed.is_verified:
            self._verified |= bit
        if listed.health.is_usable:
            self._usable |= bit
            rank = self._rank(number, listed)
            for scene in set(listed.registration.scenes):
                insort(self._orders.setdefault(scene, []), rank)

    def _remove_from_order(self, number: int, listed: ListedSkill) -> None:
        bit = 1 << number
        self._verified &= ~bit
        self._usable &= ~bit
        if listed.health.is_usable:
            rank = self._rank(number, listed)
            for scene in set(listed.registration.scenes):
                order = self._orders[scene]
                del order[bisect_left(order, rank)]
                if not order:
                    del self._orders[scene]


def _names(listed: ListedSkill) -> tuple[tuple[str, ...], ...]:
    message = listed.registration
    return message.capabilities, message.scenes, (message.skill_type,)


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def _numbers(bits: int) -> Iterator[int]:
    digits = bin(bits)
    end = len(digits)
    at = digits.rfind("1")
    while at >= 0:
        yield end - 1 - at
        at = digits.rfind("1", 0, at)
