"""What was found on the local network before: the cache of SDP 11, as a value without a file and without a clock.

An entry is good for its lifetime, and is forgotten earlier when its skill says goodbye, changes its health or is
refreshed by hand, or, where it was verified, when others are trusted than before. When there are too many, those go
that were updated longest ago, of these who would be called last. Before an entry ends it wants to be asked for again.
Times are seconds since the epoch.

A file that is no cache is an empty one, which :attr:`LanCache.fault` says. Spec: SDP §11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import DecodeError
from skillwire.model.lan import FoundVia
from skillwire.protocols.skill_discovery.configuration import CacheSettings
from skillwire.resolver.lan_cache_form import Entry, is_writable, read, write

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from skillwire.model.lan import LanChange, LanSkill

#: Agent and skill; and the endpoint where the agent is not known.
Key = tuple[str, str, str]
#: Skill, host and port.
Place = tuple[str, str, int]

#: Seconds that a clock may have been set back by without the cache being of another time.
_CLOCK: Final = 60.0
#: What a change leaves of an entry: nothing, but for a skill that has registered.
_KEPT_BY: Final = frozenset({"registered", "updated"})
_IGNORED: Final = frozenset({"scene", "notice", "missed"})


class LanCache:
    """What was found before.

    Args:
        settings: how much is kept, and how long.
    """

    def __init__(self, settings: CacheSettings | None = None) -> None:
        self._settings = settings or CacheSettings()
        self._entries: dict[Key, Entry] = {}
        self._seen: dict[Place, dict[Key, None]] = {}  # of these, where it was seen who vouches for them
        self._trust = ""
        self.fault: DecodeError | None = None
        self.is_changed = False

    @classmethod
    def read(cls, data: bytes, settings: CacheSettings | None, now: float, source: str = "cache") -> Self:
        """Return the cache that a file holds; an empty one with a :attr:`fault` when it holds none.

        Args:
            data: the file.
            settings: as for :class:`LanCache`; a lifetime that is shorter now counts for old entries too.
            now: seconds since the epoch; what has ended by then, or is of the future, is not taken.
            source: name of the file, for the fault.
        """
        cache = cls(settings)
        try:
            entries, cache._trust = read(data, source)
        except DecodeError as error:
            cache.fault, cache.is_changed = error, True
            return cache
        if cache._settings.enabled:
            for entry in entries:
                cache._take(entry, now)
            cache._make_room()
        return cache

    def write(self) -> bytes:
        """Return the file, UTF-8. Spec: SDP §11.3."""
        self.is_changed = False
        return write(sorted(self._entries.values(), key=_rank), self._trust)

    def trust(self, trust: str) -> None:
        """Go by another trust than before: whoever was certified may be so no more, and is asked for anew.

        Args:
            trust: digest of the certificates and revocations that others are held against.
        """
        if trust == self._trust:
            return
        for key in [key for key, entry in self._entries.items() if entry.skill.is_verified]:
            self._drop(key)
        self._trust = trust
        self.is_changed = True

    def put(self, skills: Iterable[LanSkill], now: float) -> None:
        """Keep what was found; what cannot be written is not kept.

        What was merely told of a skill, by mDNS or another agent, neither takes the place of what was seen of who
        vouches for it, nor makes it last longer; only that nothing answers there is taken from it.
        """
        if not self._settings.enabled:
            return
        for skill in skills:
            if not skill.is_trust_known and (key := self._seen_of(skill)) is not None:
                if not skill.is_usable:
                    known = self._entries[key]
                    self._keep(known._replace(skill=known.skill._replace(status=skill.status)))
                    self.is_changed = True
                continue
            updated = int(now * 1000)
            entry = Entry(
                skill._replace(found_via=FoundVia.CACHE, heard=updated / 1000, is_stale=False),
                updated,
                updated + int(self._settings.ttl * 1000),
            )
            if is_writable(entry):
                self._keep(entry)
                self.is_changed = True
        self._make_room()

    def skills(self, now: float) -> list[LanSkill]:
        """Return what is good at ``now``, the provider that is called first first; what has ended is forgotten."""
        ended = [key for key, entry in self._entries.items() if entry.expires <= now * 1000]
        for key in ended:
            self._drop(key)
        return [entry.skill for entry in sorted(self._entries.values(), key=_rank)]

    def to_refresh(self, now: float) -> list[LanSkill]:
        """Return what ends soon and wants to be asked for again, what ends first first. Spec: SDP §11.1."""
        edge = (now + self._settings.refresh_before_expiry) * 1000
        soon = [entry for entry in self._entries.values() if now * 1000 < entry.expires <= edge]
        return [entry.skill for entry in sorted(soon, key=lambda entry: entry.expires)]

    def hear(self, change: LanChange) -> None:
        """Take what has happened on the network: a goodbye or a change of health ends an entry. Spec: SDP §11.2."""
        if change.skill is None or change.kind in _IGNORED:
            return
        for key in {_key(change.skill), _key(change.skill._replace(agent_id=""))} & self._entries.keys():
            self._drop(key)
        if change.kind in _KEPT_BY:
            self.put([change.skill], change.at)

    def forget(self, skill_id: str = "") -> None:
        """Forget a skill, or everything: somebody wants to see what is there now. Spec: SDP §11.2."""
        for key in [key for key in self._entries if skill_id in {"", key[1]}]:
            self._drop(key)

    def __len__(self) -> int:
        return len(self._entries)

    def _take(self, entry: Entry, now: float) -> None:
        at = now * 1000
        expires = min(entry.expires, entry.updated + int(self._settings.ttl * 1000))
        if entry.updated > at + _CLOCK * 1000 or expires <= at:
            self.is_changed = True
            return
        known = self._entries.get(_key(entry.skill))
        if known is None or known.updated < entry.updated:
            self._keep(entry._replace(expires=expires))

    def _seen_of(self, told: LanSkill) -> Key | None:
        """Return what is kept of a skill at its endpoint, if it was seen who vouches for it."""
        seen = self._seen.get(told.place, {})
        if told.agent_id:
            return key if (key := _key(told)) in seen else None
        return next(iter(seen), None)

    def _make_room(self) -> None:
        more = len(self._entries) - self._settings.max_size
        if more > 0:
            worst_first = sorted(self._entries, key=lambda key: self._entries[key].skill.call_order, reverse=True)
            by_age = sorted(worst_first, key=lambda key: self._entries[key].updated)
            for key in by_age[:more]:
                self._drop(key)

    def _keep(self, entry: Entry) -> None:
        """Keep an entry in place of what was kept of that skill."""
        key = _key(entry.skill)
        if key in self._entries:
            self._drop(key)
        self._entries[key] = entry
        if entry.skill.is_trust_known:
            self._seen.setdefault(entry.skill.place, {})[key] = None

    def _drop(self, key: Key) -> None:
        place = self._entries.pop(key).skill.place
        seen = self._seen.get(place, {})
        seen.pop(key, None)
        if not seen:
            self._seen.pop(place, None)
        self.is_changed = True


def _key(skill: LanSkill) -> Key:
    return skill.agent_id, skill.skill_id, "" if skill.agent_id else skill.endpoint


def _rank(entry: Entry) -> tuple[str, tuple[int, bool, str, str, str]]:
    """Return the order of entries: by skill, and of one skill's providers as they are called."""
    return entry.skill.skill_id, entry.skill.call_order
