"""The file of what was found on the local network before, which has the form of SDP 11.3, byte for byte.

That form knows one provider of a skill, no agent and no trust; where there is more to say, ``providers`` says it beside
``skills`` **[ours]**, and ``trust`` by whose certificates that counts. Whoever knows the text's form alone reads the
provider that would be called first. Spec: SDP §11.3.

Trust: the file is our own, and may be broken or somebody else's all the same: it is read as a stranger's.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, Place
from skillwire.model.lan import FoundVia, LanSkill
from skillwire.protocols.skill_discovery import fields as kinds
from skillwire.protocols.skill_discovery.messages import HealthStatus, SkillType
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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


def read(data: bytes, source: str) -> tuple[list[Entry], str]:
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
        told = providers.get(skill_id, [])
        if not isinstance(told, list):
            reading.refuse(f"providers of {ascii(skill_id)[:60]} are no list")
        own = [reading.entry(skill_id, provider) for provider in told]
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
        raise DecodeError("LAN_CACHE", message, place=Place(self._source))

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
        return read(write([entry]), "") == ([entry], "")
    except (DecodeError, UnicodeEncodeError):
        return False


def write(entries: Iterable[Entry], trust: str = "") -> bytes:
    """Return the file with these entries, of which those of one skill stand together.

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
