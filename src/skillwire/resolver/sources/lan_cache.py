"""The cache of skills that were found on the local network: a value without a file and without a clock.

An entry is good for its lifetime. It is dropped earlier when its skill leaves, changes its health or is refreshed by
hand, and, if verified, when the trusted certificates change. A full cache drops the entries updated longest ago, among
these the last in call order. Times are seconds since the epoch. A malformed file is read as an empty cache with a
:attr:`LanCache.fault`.

The file has the form of SDP 11.3, byte for byte. That form has one provider of a skill, the first in call order, no
agent and no trust; ``providers`` beside ``skills`` has the rest **[extension]**, and ``trust`` a digest of the
certificates that verified entries depend on.

Spec: SDP §11. Trust: the file is our own, and may be damaged or replaced, so it is read as untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, NamedTuple, Self

import msgspec

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.lan import FoundVia, LanChange, LanSkill
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery import codec as kinds
from skillwire.protocols.skill_discovery.messages import HealthStatus, SkillType
from skillwire.protocols.skill_discovery.settings import CacheSettings
from skillwire.trust.guarded_json import load_json

_ZONE: Final = re.compile(r"%([A-Za-z0-9._-]{1,15})\](?=:[0-9]+\Z)", re.ASCII)
_Time = Annotated[int, msgspec.Meta(ge=0, lt=10**14)]  # milliseconds since the epoch, until the year 5138
_Names = Annotated[list[str], msgspec.Meta(max_length=int(limits.LAN_LIST_ENTRIES))]
#: Seconds that a clock may have been set back without making the cache invalid.
_CLOCK: Final = 60.0
#: Changes after which an entry is kept anew; changes without effect. Any other change drops the entry.
_KEPT_BY: Final = frozenset({"registered", "updated"})
_IGNORED: Final = frozenset({"scene", "missed"})

#: Agent and skill; and the endpoint where the agent is not known.
Key = tuple[str, str, str]


class Entry(NamedTuple):
    """One skill that was found; ``updated`` and ``expires`` in milliseconds since the epoch, as in the file."""

    skill: LanSkill
    updated: int
    expires: int


class _Provider(msgspec.Struct, rename="camel"):
    endpoint: str
    version: str
    capabilities: _Names
    scenes: _Names
    status: HealthStatus
    last_updated: _Time
    expires_at: _Time
    agent_id: str = ""
    skill_type: str = ""
    is_verified: bool = False
    url: str = ""
    digest: str = ""


class _File(msgspec.Struct):
    skills: dict[str, _Provider]
    providers: dict[str, list[_Provider]] = {}
    trust: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{0,64}\Z")] = ""


def decode_lan_cache(data: bytes, source: str) -> tuple[list[Entry], str]:
    """Return the entries of a file, and the trust that verified entries depend on; raise ``LAN_CACHE``."""
    entries: list[Entry] = []
    document = load_json(data, max_bytes=limits.LAN_CACHE_BYTES, source=source)
    try:
        file = msgspec.convert(document, _File)
        for skill_id, one in file.skills.items():
            own = [_entry(skill_id, provider) for provider in file.providers.get(skill_id, [])]
            first = _entry(skill_id, one)
            places = {(entry.skill.endpoint, entry.skill.version, entry.updated) for entry in own}
            if (first.skill.endpoint, first.skill.version, first.updated) not in places:
                own.insert(0, first._replace(skill=first.skill._replace(agent_id="", is_verified=False, skill_type="")))
            entries += own
    except (DecodeError, ValidationError, ValueError) as error:
        raise DecodeError("LAN_CACHE", ascii(error.args[0])[1:-1], place=SourceLocation(source)) from error
    return entries, file.trust


def _entry(skill_id: str, one: _Provider) -> Entry:
    host, port = _endpoint(one.endpoint)
    skill = LanSkill(
        one.agent_id and kinds.read_identifier(one.agent_id),
        kinds.read_identifier(skill_id),
        kinds.VERSION.read(one.version),
        one.skill_type and str(SkillType(one.skill_type)),
        host,
        port,
        tuple(map(kinds.read_identifier, one.capabilities)),
        tuple(map(kinds.read_identifier, one.scenes)),
        one.status.value,
        one.is_verified,
        FoundVia.CACHE,
        one.last_updated / 1000,
        url=one.url and str(parse_url(one.url)).rstrip("/"),
        digest=one.digest and Digest.parse(one.digest),
    )
    return Entry(skill, one.last_updated, one.expires_at)


def _endpoint(text: str) -> tuple[str, int]:
    """Return host and port; a link-local address keeps the name of its interface."""
    zone = _ZONE.search(text)
    place = kinds.read_endpoint(text[: zone.start()] + "]" + text[zone.end() :] if zone else text)
    return (f"{place.host}%{zone[1]}" if zone else place.host), place.port


def is_writable(entry: Entry) -> bool:
    """Whether it would be read again as it is."""
    try:
        return decode_lan_cache(encode_lan_cache([entry]), "") == ([entry], "")
    except (DecodeError, UnicodeEncodeError):
        return False


def encode_lan_cache(entries: Iterable[Entry], trust: str = "") -> bytes:
    """Return the file of these entries, sorted by skill; ``trust`` is empty without verified entries."""
    by_skill: dict[str, list[Entry]] = {}
    for entry in entries:
        by_skill.setdefault(entry.skill.skill_id, []).append(entry)
    skills = {name: _object(_standard_members(providers[0]), 2) for name, providers in by_skill.items()}
    more = {
        name: "[\n"
        + ",\n".join(f"      {_object(_own_members(one) | _standard_members(one), 3)}" for one in providers)
        + "\n    ]"
        for name, providers in by_skill.items()
        if len(providers) > 1 or _own_members(providers[0])
    }
    document = {"skills": _object(skills, 1)} | ({"providers": _object(more, 1)} if more else {})
    document |= {"trust": json.dumps(trust)} if trust else {}
    return f"{_object(document, 0)}\n".encode()


def _object(members: Mapping[str, str], depth: int) -> str:
    """Return an object in the layout of SDP 11.3: a member a line, indented by two."""
    if not members:
        return "{}"
    inner = "  " * (depth + 1)
    lines = ",\n".join(f"{inner}{json.dumps(name)}: {value}" for name, value in members.items())
    return f"{{\n{lines}\n{'  ' * depth}}}"


def _standard_members(entry: Entry) -> dict[str, str]:
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


def _own_members(entry: Entry) -> dict[str, str]:
    skill = entry.skill
    values = {"agentId": skill.agent_id, "skillType": skill.skill_type, "isVerified": skill.is_verified}
    values |= {"url": skill.url, "digest": skill.digest}
    return {name: json.dumps(value) for name, value in values.items() if value}


class LanCache:
    """The skills that were found before; ``settings`` bound their number and lifetime."""

    def __init__(self, settings: CacheSettings | None = None) -> None:
        self._settings = settings or CacheSettings()
        self._entries: dict[Key, Entry] = {}
        # Entries of known trust by place, so that an untrusted hint costs no walk through the cache.
        self._trusted: dict[tuple[str, str, int], dict[Key, None]] = {}
        self._trust = ""
        self.fault: DecodeError | None = None
        self.is_changed = False

    @classmethod
    def read(cls, data: bytes, settings: CacheSettings | None, now: float, source: str = "cache") -> Self:
        """Return the cache of a file; an empty one with a :attr:`fault` for a malformed file.

        Expired entries and those of the future are dropped. A shorter lifetime in ``settings`` applies to old entries.
        """
        cache = cls(settings)
        try:
            entries, cache._trust = decode_lan_cache(data, source)
        except DecodeError as error:
            cache.fault, cache.is_changed = error, True
            return cache
        if cache._settings.enabled:
            for entry in entries:
                expires = min(entry.expires, entry.updated + int(cache._settings.ttl * 1000))
                known = cache._entries.get(_key(entry.skill))
                if entry.updated > (now + _CLOCK) * 1000 or expires <= now * 1000:
                    cache.is_changed = True
                elif known is None or known.updated < entry.updated:
                    cache._keep(entry._replace(expires=expires))
            cache._limit_size()
        return cache

    def write(self) -> bytes:
        """Return the file, UTF-8. Spec: SDP §11.3."""
        self.is_changed = False
        return encode_lan_cache(sorted(self._entries.values(), key=_rank), self._trust)

    def trust(self, trust: str) -> None:
        """Set the digest of trusted certificates and revocations; drop verified entries of another trust."""
        if trust == self._trust:
            return
        for key in [key for key, entry in self._entries.items() if entry.skill.is_verified]:
            self._drop(key)
        self._trust = trust
        self.is_changed = True

    def put(self, skills: Iterable[LanSkill], now: float) -> None:
        """Keep skills that can be written.

        An unsigned report of a skill, by mDNS or another agent, neither replaces nor extends a verified entry; only its
        failed health is used. A record of the DHT may have any agent's name, so it replaces no entry of the local
        network, and an uncertified one no certified one.
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
            old = self._entries.get(_key(skill)) if skill.found_via is FoundVia.DHT else None
            if old is not None and not (old.skill.url and skill.is_verified >= old.skill.is_verified):
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
        self._limit_size()

    def skills(self, now: float) -> list[LanSkill]:
        """Drop expired entries; return the skills, in call order."""
        ended = [key for key, entry in self._entries.items() if entry.expires <= now * 1000]
        for key in ended:
            self._drop(key)
        return [entry.skill for entry in sorted(self._entries.values(), key=_rank)]

    def to_refresh(self, now: float) -> list[LanSkill]:
        """Return the skills that expire soon, the first to expire first. Spec: SDP §11.1."""
        edge = (now + self._settings.refresh_before_expiry) * 1000
        soon = [entry for entry in self._entries.values() if now * 1000 < entry.expires <= edge]
        return [entry.skill for entry in sorted(soon, key=lambda entry: entry.expires)]

    def hear(self, change: LanChange) -> None:
        """Apply a change on the network: a goodbye or a change of health drops an entry. Spec: SDP §11.2."""
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

    def _verified_key(self, skill: LanSkill) -> Key | None:
        """Return the key of an entry of the skill at its endpoint whose trust is known."""
        trusted = self._trusted.get(skill.place, {})
        if skill.agent_id:
            return key if (key := _key(skill)) in trusted else None
        return next(iter(trusted), None)

    def _limit_size(self) -> None:
        excess = len(self._entries) - self._settings.max_size
        if excess > 0:
            worst_first = sorted(self._entries, key=lambda key: self._entries[key].skill.call_order, reverse=True)
            for key in sorted(worst_first, key=lambda key: self._entries[key].updated)[:excess]:
                self._drop(key)

    def _keep(self, entry: Entry) -> None:
        """Put an entry, as the newest, in the place of an earlier one of its skill."""
        key = _key(entry.skill)
        if key in self._entries:
            self._drop(key)
        self._entries[key] = entry
        if entry.skill.is_trust_known:
            self._trusted.setdefault(entry.skill.place, {})[key] = None

    def _drop(self, key: Key) -> None:
        place = self._entries.pop(key).skill.place
        trusted = self._trusted.get(place, {})
        trusted.pop(key, None)
        if not trusted:
            self._trusted.pop(place, None)
        self.is_changed = True


def _key(skill: LanSkill) -> Key:
    return skill.agent_id, skill.skill_id, "" if skill.agent_id else skill.endpoint


def _rank(entry: Entry) -> tuple[str, tuple[int, bool, str, str, str]]:
    """Return the sort key of entries: by skill, then in call order."""
    return entry.skill.skill_id, entry.skill.call_order
