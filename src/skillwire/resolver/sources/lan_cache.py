"""What was found on the local network before: the cache of SDP 11, as a value without a file and without a clock.

An entry is good for its lifetime, and is forgotten earlier when its skill says goodbye, changes its health or is
refreshed by hand, or, where it was verified, when others are trusted than before. When there are too many, those go
that were updated longest ago, of these who would be called last. Before an entry ends it wants to be asked for again.
Times are seconds since the epoch.

A file that is no cache is an empty one, which :attr:`LanCache.fault` says. Spec: SDP §11.

The file of what was found on the local network before, which has the form of SDP 11.3, byte for byte.

That form knows one provider of a skill, no agent and no trust; where there is more to say, ``providers`` says it beside
``skills`` **[ours]**, and ``trust`` by whose certificates that counts. A reader of the standard form alone sees the
provider that would be called first. Spec: SDP §11.3.

Trust: the file is our own, and may still be damaged or replaced: it is read as untrusted.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation
from skillwire.model.lan import FoundVia, LanSkill
from skillwire.protocols.skill_discovery import codec as kinds
from skillwire.protocols.skill_discovery.messages import HealthStatus, SkillType
from skillwire.protocols.skill_discovery.settings import CacheSettings
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from skillwire.model.lan import LanChange


_ZONE: Final = re.compile(r"%([A-Za-z0-9._-]{1,15})\](?=:[0-9]+\Z)", re.ASCII)
_STATUSES: Final = frozenset(HealthStatus)
_TYPES: Final = frozenset(SkillType) | {""}
_LATEST: Final = 10**14
_TRUST: Final = re.compile(r"[0-9a-f]{0,64}", re.ASCII)


class Entry(NamedTuple):
    """One skill that was found; ``updated`` and ``expires`` in milliseconds since the epoch, as the file has them."""

    skill: LanSkill
    updated: int
    expires: int


def decode_lan_cache(data: bytes, source: str) -> tuple[list[Entry], str]:
    """Return the entries of a file, and by which trust those are verified that are.

    Raises:
        DecodeError: with its place, whatever is wrong.
    """
    document = load_json(data, max_bytes=limits.LAN_CACHE_BYTES, source=source)
    reading = _Reading(source)
    cache = reading.mapping(document, "the cache")
    skills = reading.mapping(cache.get("skills"), "skills")
    providers = reading.mapping(cache.get("providers", {}), "providers")
    trust = cache.get("trust", "")
    if not isinstance(trust, str) or not _TRUST.fullmatch(trust):
        reading.refuse("trust is no digest")
    entries: list[Entry] = []
    for skill_id, one in skills.items():
        listed = providers.get(skill_id, [])
        if not isinstance(listed, list):
            reading.refuse(f"providers of {ascii(skill_id)[:60]} are no list")
        own = [reading.entry(skill_id, provider) for provider in listed]
        first = reading.entry(skill_id, one)
        places = {(entry.skill.endpoint, entry.skill.version, entry.updated) for entry in own}
        if (first.skill.endpoint, first.skill.version, first.updated) not in places:
            own.insert(0, first._replace(skill=first.skill._replace(agent_id="", is_verified=False, skill_type="")))
        entries += own
    return entries, trust


class _Reading:
    """Reads a document, and says what is wrong with it."""

    def __init__(self, source: str) -> None:
        self._source = source

    def refuse(self, message: str) -> Any:
        raise DecodeError("LAN_CACHE", message, place=SourceLocation(self._source))

    def mapping(self, value: object, what: str) -> Mapping[str, Any]:
        return value if isinstance(value, dict) else self.refuse(f"{what} is no object")

    def entry(self, skill_id: str, value: object) -> Entry:
        """Return one provider of a skill."""
        found = self.mapping(value, ascii(skill_id)[:60])

        def get(name: str, read: Callable[[Any], Any], default: Any = None) -> Any:
            try:
                return read(found.get(name, default))
            except (DecodeError, TypeError, ValueError, AttributeError):
                return self.refuse(f"{ascii(skill_id)[:60]} has no good {name}")

        try:
            kinds.read_identifier(skill_id)
        except DecodeError:
            self.refuse(f"{ascii(skill_id)[:60]} is no identifier")
        host, port = get("endpoint", _endpoint)
        updated, expires = get("lastUpdated", _time), get("expiresAt", _time)
        skill = LanSkill(
            get("agentId", lambda text: kinds.read_identifier(text) if text != "" else "", ""),
            skill_id,
            get("version", kinds.VERSION.read),
            get("skillType", _one_of(_TYPES), ""),
            host,
            port,
            get("capabilities", _names),
            get("scenes", _names),
            get("status", _one_of(_STATUSES)),
            get("isVerified", _flag, default=False),
            FoundVia.CACHE,
            updated / 1000,
        )
        return Entry(skill, updated, expires)


def _endpoint(text: str) -> tuple[str, int]:
    """Return host and port; an address that means something on one link alone keeps the name of the interface."""
    zone = _ZONE.search(text)
    place = kinds.read_endpoint(text[: zone.start()] + "]" + text[zone.end() :] if zone else text)
    return (f"{place.host}%{zone[1]}" if zone else place.host), place.port


def _time(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LATEST:
        return value
    raise ValueError


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and len(value) <= limits.LAN_LIST_ENTRIES:
        return tuple([kinds.read_identifier(name) for name in value])
    raise ValueError


def _one_of(values: frozenset[str]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if isinstance(value, str) and value in values:
            return str(value)
        raise ValueError

    return read


def is_writable(entry: Entry) -> bool:
    """Whether it can be read again as it was."""
    try:
        return decode_lan_cache(encode_lan_cache([entry]), "") == ([entry], "")
    except (DecodeError, UnicodeEncodeError):
        return False


def encode_lan_cache(entries: Iterable[Entry], trust: str = "") -> bytes:
    """Return the file with these entries, sorted by skill.

    Args:
        entries: in their order.
        trust: digest of what verified entries are verified by; empty for nothing.
    """
    by_skill: dict[str, list[Entry]] = {}
    for entry in entries:
        by_skill.setdefault(entry.skill.skill_id, []).append(entry)
    skills = {name: _object(_told(providers[0]), 2) for name, providers in by_skill.items()}
    more = {
        name: "[\n" + ",\n".join(f"      {_object(_own(one) | _told(one), 3)}" for one in providers) + "\n    ]"
        for name, providers in by_skill.items()
        if len(providers) > 1 or _own(providers[0]) != _NOTHING
    }
    document = {"skills": _object(skills, 1)} | ({"providers": _object(more, 1)} if more else {})
    document |= {"trust": json.dumps(trust)} if trust else {}
    return f"{_object(document, 0)}\n".encode()


def _object(members: Mapping[str, str], depth: int) -> str:
    """Return an object as SDP 11.3 sets it: a member a line, indented by two."""
    if not members:
        return "{}"
    inner = "  " * (depth + 1)
    lines = ",\n".join(f"{inner}{json.dumps(name)}: {value}" for name, value in members.items())
    return f"{{\n{lines}\n{'  ' * depth}}}"


def _told(entry: Entry) -> dict[str, str]:
    """Return the members of SDP 11.3."""
    skill = entry.skill
    values: dict[str, object] = {
        "endpoint": skill.endpoint,
        "version": skill.version,
        "capabilities": skill.capabilities,
        "scenes": skill.scenes,
        "status": str(skill.status),
        "lastUpdated": entry.updated,
        "expiresAt": entry.expires,
    }
    return {name: json.dumps(value) for name, value in values.items()}


def _own(entry: Entry) -> dict[str, str]:
    """Return what that form does not say."""
    values = {
        "agentId": entry.skill.agent_id,
        "skillType": str(entry.skill.skill_type),
        "isVerified": entry.skill.is_verified,
    }
    return {name: json.dumps(value) for name, value in values.items()}


_NOTHING: Final = {"agentId": '""', "skillType": '""', "isVerified": "false"}


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
            entries, cache._trust = decode_lan_cache(data, source)
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
        return encode_lan_cache(sorted(self._entries.values(), key=_rank), self._trust)

    def trust(self, trust: str) -> None:
        """Set which certificates are trusted; verified entries of another trust are dropped.

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

        An unsigned report of a skill, by mDNS or another agent, neither replaces a verified entry nor extends it; only
        its failed health is taken.
        """
        if not self._settings.enabled:
            return
        for skill in skills:
            if not skill.is_trust_known and (key := self._verified_key(skill)) is not None:
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
        """Forget a skill, or everything. Spec: SDP §11.2."""
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

    def _verified_key(self, skill: LanSkill) -> Key | None:
        """Return the key of the verified entry of a skill at its endpoint."""
        seen = self._seen.get(skill.place, {})
        if skill.agent_id:
            return key if (key := _key(skill)) in seen else None
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
