"""How a registry finds skills: by capability, scene and type, and the providers of a scene in their order.

Anybody may ask, and as often as datagrams are read, so what one question costs has to be bounded, whatever is
registered. Each skill that is listed has a number, and who has a name is a set of numbers. A set of many is held as the
bits of one integer: to cut two sets of ten thousand takes less than a microsecond, so a question is answered exactly by
cutting and joining the sets that it names, of which a datagram has room for some dozens. Sets of a few are held as they
are: a stranger may make up very many names.

Who provides a scene is kept in order, which changes when a skill comes, goes, or may be called no more, and not when
somebody asks. Spec: SDP §3.1, §4; specs §3 "Scene groups".
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.protocols.skill_discovery.messages import HealthStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from skillwire.protocols.skill_discovery.health import Key, Listed
    from skillwire.protocols.skill_discovery.messages import Discover

#: Of a set that is held as it is.
_FEW: Final = 8


#: Where a provider stands in its scenes: whether it is unverified, whether it is UNKNOWN, its key; and its number.
_Rank = tuple[bool, bool, "Key", int]


class _Entry(NamedTuple):
    """A skill as it was indexed."""

    number: int
    listed: Listed


class _Names:
    """Who has a name: a few numbers, or the bits of one."""

    def __init__(self) -> None:
        self._sets: dict[str, tuple[int, ...] | int] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def add(self, name: str, number: int, bit: int) -> None:
        """Let one have a name; ``bit`` is the number's."""
        found = self._sets.get(name, ())
        if isinstance(found, int):
            self._sets[name] = found | bit
        elif number not in found:
            found = (*found, number)
            self._sets[name] = found if len(found) <= _FEW else _bits(found)

    def remove(self, name: str, number: int) -> None:
        """Let one have it no more."""
        found = self._sets.get(name, ())
        if isinstance(found, int):
            bits = found & ~(1 << number)
            self._sets[name] = bits if bits.bit_count() > _FEW else tuple(_numbers(bits))
        elif rest := tuple(one for one in found if one != number):
            self._sets[name] = rest
        else:
            self._sets.pop(name, None)

    def all_of(self, names: Iterable[str]) -> int:
        """Return who has all these names, of which there is at least one."""
        bits = -1
        for name in names:
            found = self._sets.get(name, ())
            bits &= found if isinstance(found, int) else _bits(found)
            if not bits:
                break
        return bits

    def any_of(self, names: Iterable[str]) -> int:
        """Return who has one of these names."""
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
    """The skills of one registry that are found; hints are not."""

    def __init__(self) -> None:
        self._capabilities = _Names()
        self._scenes = _Names()
        self._types = _Names()
        self._orders: dict[str, list[_Rank]] = {}
        self._entries: dict[Key, _Entry] = {}
        self._keys: list[Key] = []
        self._free: list[int] = []
        self._all = self._usable = self._verified = 0

    def put(self, listed: Listed) -> None:
        """Index a skill as it is now."""
        key = listed.key
        old = self._entries.get(key)
        if old is not None:
            if _names(old.listed) == _names(listed):
                if _stands(old.listed) != _stands(listed):
                    self._take_from_order(key, old)
                    self._put_in_order(key, _Entry(old.number, listed))
                return
            self.drop(key)
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

    def drop(self, key: Key) -> None:
        """Forget a skill; nothing happens when it is not there."""
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
        """Return at most so many that pass the filters: first who may be called, of these who is verified."""
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
        """Return how many are certified."""
        return self._verified.bit_count()

    def in_scene(self, scene: str) -> list[Key]:
        """Return the skills of a scene, whether they may be called or not."""
        return [self._keys[number] for number in _numbers(self._scenes.any_of((scene,)))]

    def scenes(self) -> list[str]:
        """Return the scenes that skills are in, by name."""
        return sorted(self._scenes)

    def provides(self, scene: str, capabilities: Collection[str]) -> bool:
        """Whether a provider of a scene that may be called has all these capabilities."""
        return self._able(scene, capabilities) != 0

    def provider(self, scene: str, capabilities: Collection[str]) -> Key | None:
        """Return the first of these; None when there is none."""
        able = self._able(scene, capabilities)
        if not able:
            return None
        order = self._orders[scene]
        if not capabilities:
            return order[0][2]
        digits = f"{able:0{len(self._keys)}b}"  # to look at a digit is cheaper than to shift
        return next(key for _, _, key, number in order if digits[~number] == "1")

    def providers(self, scene: str, most: int) -> list[Key]:
        """Return the first of a scene's providers that may be called, in their order."""
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


def _names(listed: Listed) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    message = listed.registration
    return message.capabilities, message.scenes, message.skill_type


def _stands(listed: Listed) -> tuple[bool, bool, bool]:
    """Return what decides where a skill stands among others."""
    return listed.is_verified, listed.health.is_usable, listed.health.status is HealthStatus.UNKNOWN


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def _numbers(bits: int) -> Iterator[int]:
    """Return the numbers of a set, from the least."""
    digits = bin(bits)
    end = len(digits)
    at = digits.rfind("1")
    while at >= 0:
        yield end - 1 - at
        at = digits.rfind("1", 0, at)
