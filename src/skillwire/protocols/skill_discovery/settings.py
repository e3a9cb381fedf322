"""The settings of discovery: intervals and limits, and the configuration files that set them.

:data:`KEYS` has one row for each key; the documentation and a test use it. Files have milliseconds, as in the text, and
values have seconds. The text names two settings twice: ``udp.broadcastInterval`` is ``healthCheck.heartbeatInterval``,
``udp.timeout`` is ``healthCheck.timeout``, and ``healthCheck`` wins. So a file exactly as in 13.2 gives our defaults.
``cache``, ``healthCheck`` and ``dht`` may stand below ``discovery`` or beside it. An unknown key is an error with its
place. Spec: SDP §5.1, §6.4, §8.2, §11.1, §13.2; specs §3.
"""

from __future__ import annotations

import ipaddress
import json
import os.path
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from skillwire.errors import DecodeError, SkillwireError, SourceLocation, ValidationError
from skillwire.model.lan import host_and_port
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.codec import read_endpoint, read_identifier
from skillwire.protocols.skill_discovery.messages import Profile, Reason
from skillwire.trust.guarded_yaml import load_yaml_mapping

E = TypeVar("E", bound=StrEnum)

#: Seconds between two puts of an own record in the DHT, at least and at most.
PUT_AGAIN: Final = 60.0, 120.0


@dataclass(frozen=True, slots=True)
class DhtSettings:
    """How a node takes part in the DHT. Spec: SDP §6.4, §13.2."""

    enabled: bool = False
    bootstrap: tuple[tuple[str, int], ...] = ()  # host or address, and port
    replication_factor: int = 3  # nodes that acknowledge a put before it counts as done
    port: int = 6881
    k: int = 8  # nodes of a bucket, and nodes that store a record
    announces_restricted: bool = False  # skills with restricted access
    bind: tuple[str, ...] = ()  # addresses to listen on, at most one IPv4 and one IPv6; all by default


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """How fast, how patient and how careful a node is. Durations are in seconds."""

    heartbeat_interval: float = 5.0
    suspect_missed: int = 2  # heartbeats until a skill is suspected, and probed
    unhealthy_missed: int = 3  # heartbeats until it is UNHEALTHY
    retry_count: int = 3  # requests for a heartbeat of a suspect
    timeout: float = 30.0  # of silence, after which a skill is removed
    good_heartbeats: int = 2  # in a row, that make an UNHEALTHY skill HEALTHY again
    flap_limit: float = 3.0  # times UNHEALTHY after which it is held down; one counts half after `flap_half_life`
    flap_half_life: float = 60.0
    hold_down: float = 30.0
    mass_share: float = 0.15  # when more than this share of all skills is silent, the network is suspected
    mass_least: int = 3  # the fewest silent skills for which it is suspected
    hint_interval: float = 30.0  # between probes of a skill that was found by mDNS alone
    stale_timeout: float = 600.0  # of silence, after which a skill is removed though the network is suspected
    announce_interval: float = 120.0  # between registrations without a change
    # Pauses before an unacknowledged registration is sent again; short, since 30 % may be lost.
    retries: tuple[float, ...] = (0.15, 0.15, 0.2, 0.2, 0.25, 0.3, 0.3)
    # The same of a change of status, which is never acknowledged.
    reports: tuple[float, ...] = (0.1, 0.1, 0.15, 0.15, 0.15, 0.15, 0.2, 0.2, 0.25, 0.25)
    goodbye_pauses: tuple[float, ...] = (0.1, 0.15)
    answer_delay: tuple[float, float] = (0.02, 0.12)  # shortest and longest, so that not all agents answer at once
    searches: tuple[float, ...] = (0.3, 0.4, 0.5, 0.5)  # pauses before a request is repeated
    patience: float = 2.0  # that answers are collected at most
    quiet: float = 0.15  # that ends a search for one provider: longer than any answer delay
    quiet_all: float = 0.4  # that ends a search for all: each is asked twice before
    not_found_patience: float = 0.6  # that other agents may still know a scene
    window: float = 30.0  # that a timestamp may differ from our clock
    proof: float = 600.0  # that an address stays proven
    challenge: float = 10.0  # that an answer to a challenge may take
    rate: float = 20.0  # datagrams a second that are read from one source, beside the heartbeats that it owes
    burst: float = 60.0  # datagrams that a source may send at once
    amplification: float = 3.0  # bytes of answers for each byte from an unproven address
    registry_seen: float = 240.0  # that a registry counts after its last acknowledgment

    @property
    def unheard(self) -> float:
        """Seconds that a search waits for an agent whose skill only others answered; part of its patience."""
        return 0.75 * self.patience


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The local cache; durations are in seconds. Spec: SDP §11.1."""

    enabled: bool = True
    ttl: float = 300.0
    max_size: int = 1000  # entries
    refresh_before_expiry: float = 60.0


@dataclass(frozen=True, slots=True)
class LanSettings:
    """How an agent takes part in a local network. Paths begin at the folder of the file; :data:`KEYS` explains each."""

    multicast: bool = True
    group: str = "224.0.0.1"
    group6: str = "ff12::d431"
    port: int = 54321
    ttl: int = 1
    interfaces: tuple[str, ...] = ()
    mdns: bool = True
    profile: Profile = Profile.OPEN
    use_unverified: bool = False
    agent_id: str = ""
    goodbye_reason: Reason = Reason.SHUTDOWN
    group_key_file: str = ""
    roots: tuple[str, ...] = ()
    intermediates: tuple[str, ...] = ()
    revocations: tuple[str, ...] = ()
    renew_from: str = ""
    authority: str = ""
    tls_port: int = 0
    uses_center: bool = True
    center_url: str = ""
    center_timeout: float = 10.0
    keeps_center: bool = True
    center_ttl: float = 300.0
    hedges: bool = False
    cache: CacheSettings = field(default_factory=CacheSettings)
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    dht: DhtSettings = field(default_factory=DhtSettings)
    # Where a file sets a path, by the name of the value here, for errors that are found later.
    places: Mapping[str, SourceLocation] = field(default_factory=dict, compare=False, repr=False)


class YamlText(str):
    """A scalar of a YAML file, which is text whatever it stands for."""

    __slots__ = ()


#: Returns a value, or raises ValueError with the end of the sentence "KEY must ...".
Read = Callable[[object], Any]

_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,11}", re.ASCII)
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,9})?", re.ASCII)
_TEXT_LENGTH: Final = 2048
_LONGEST_AGENT: Final = 118  # of 128: a request is named by it, a dot, and a number
_MOST_TEXTS: Final = 64
_IPV6: Final = 6
_EXAMPLES: Final = {4: "224.0.0.1", _IPV6: "ff12::d431"}


def flag(value: object) -> bool:
    """Return a boolean."""
    found = {"true": True, "false": False}.get(value) if isinstance(value, YamlText) else value
    if isinstance(found, bool):
        return found
    raise ValueError("must be true or false")


def text(value: object) -> str:
    """Return a text of one line."""
    if isinstance(value, str) and 0 < len(value) <= _TEXT_LENGTH and value.isprintable():
        return str(value)
    raise ValueError("must be a text of one line")


def texts(value: object) -> tuple[str, ...]:
    """Return a list of texts; one alone may stand without a list."""
    items = [value] if isinstance(value, str) else value
    if isinstance(items, list) and len(items) <= _MOST_TEXTS:
        return tuple(text(item) for item in items)
    raise ValueError(f"must be a list of at most {_MOST_TEXTS} texts")


def number(least: float, most: float, kind: type[int | float] = float) -> Read:
    """Return a reader of numbers, or of whole ones."""
    form, what = (_NUMBER, "a number") if kind is float else (_WHOLE, "a whole number")

    def read(value: object) -> float:
        found = kind(value) if isinstance(value, YamlText) and form.fullmatch(value) else value
        if isinstance(found, int | kind) and not isinstance(found, bool) and least <= found <= most:
            return kind(found)
        raise ValueError(f"must be {what} from {least} to {most}")

    return read


integer: Final = partial(number, kind=int)


def milliseconds(least: int, most: int) -> Read:
    """Return a reader of milliseconds, which gives seconds."""
    count = integer(least, most)

    def read(value: object) -> float:
        try:
            return float(count(value)) / 1000
        except ValueError as error:
            raise ValueError(f"{error}, in milliseconds") from None

    return read


def group(version: int) -> Read:
    """Return a reader of multicast groups of one IP version; an empty text is no group of version 6."""
    refused = f"must be an IPv{version} multicast address, such as {_EXAMPLES[version]}"

    def read(value: object) -> str:
        if value == "" and version == _IPV6:
            return ""
        try:
            address = ipaddress.ip_address(str(value) if isinstance(value, str) and "%" not in value else "")
        except ValueError:
            raise ValueError(refused) from None
        if address.version != version or not address.is_multicast:
            raise ValueError(refused)
        return str(address)

    return read


def agent(value: object) -> str:
    """Return an agent's identifier, short enough for the names of its requests."""
    try:
        if len(name := read_identifier(str(value) if isinstance(value, str) else "")) <= _LONGEST_AGENT:
            return name
    except DecodeError:
        pass
    raise ValueError(f"must be letters, digits, dots, hyphens and underscores, at most {_LONGEST_AGENT}")


def one_of(kind: type[E], *, without: Collection[E] = ()) -> Read:
    """Return a reader of the values of an enumeration, ``without`` some."""
    values = {member.value: member for member in kind if member not in without}

    def read(value: object) -> E:
        if isinstance(value, str) and value in values:
            return values[value]
        raise ValueError(f"must be one of {', '.join(values)}")

    return read


def web_address(value: object) -> str:
    """Return a URL as it is written."""
    try:
        parse_url(text(value))
    except ValidationError as error:
        raise ValueError(f"must be a URL: {error.message}") from None
    return str(value)


def places(value: object) -> tuple[tuple[str, int], ...]:
    """Return a list of hosts, each with its port. Spec: SDP §6.4."""
    if not isinstance(value, list) or len(value) > _MOST_TEXTS:
        raise ValueError("must be a list of host and port")
    return tuple(map(_place, value))


def _place(item: object) -> tuple[str, int]:
    if not isinstance(item, Mapping) or set(item) != {"host", "port"}:
        raise ValueError("must be a list of host and port, and nothing else in it")
    port, host = integer(1, 65_535)(item["port"]), text(item["host"])
    try:
        endpoint = read_endpoint(host_and_port(host, port))
    except DecodeError:
        raise ValueError(f"must be a list of host and port; {ascii(host)[:60]} is no host") from None
    return endpoint.host, endpoint.port


class SettingKey(NamedTuple):
    """One key: its reader, its meaning, and the attribute of ``LanSettings`` that it sets."""

    read: Read
    meaning: str
    sets: str

    @property
    def description(self) -> str:
        """The meaning with the default, as a file writes it."""
        default = attrgetter(self.sets)(LanSettings())
        if default in ("", ()) or self.meaning.startswith("the same"):
            return self.meaning
        if isinstance(default, float):
            default = float(f"{default * 1000 if self.meaning.startswith('ms ') else default:g}")
        shown = default if isinstance(default, str) else json.dumps(default).removesuffix(".0")
        return f"{self.meaning}; `{shown}` by default"


_SECOND: Final = milliseconds(1_000, 3_600_000)
_MINUTE: Final = milliseconds(0, 60_000)
_LONG: Final = milliseconds(0, 86_400_000)
_SOME: Final = milliseconds(1, 86_400_000)

#: Path below ``discovery`` → key.
_ROWS: Final[dict[str, tuple[Read, str, str]]] = {
    "agentId": (agent, "name of this agent; made once and kept when absent", "agent_id"),
    "goodbye": (
        one_of(Reason, without=(Reason.ERROR,)),
        "reason of goodbyes when a server ends: `SHUTDOWN`, `MAINTENANCE` or `UPGRADE`", "goodbye_reason"
    ),
    "udp.enabled": (flag, "speak by multicast", "multicast"),
    "udp.multicastGroup": (group(4), "IPv4 group", "group"),
    "udp.multicastGroup6": (group(6), 'IPv6 group, `""` for none', "group6"),
    "udp.port": (integer(1, 65_535), "port of the groups", "port"),
    "udp.ttl": (integer(0, 255), "networks that a datagram may cross", "ttl"),
    "udp.interfaces": (texts, "list of names or addresses; all that are up by default", "interfaces"),
    "udp.broadcastInterval": (
        _SECOND, "the same as `healthCheck.heartbeatInterval`, which wins", "discovery.heartbeat_interval"
    ),
    "udp.timeout": (_SECOND, "the same as `healthCheck.timeout`, which wins", "discovery.timeout"),
    "udp.announceInterval": (_SECOND, "ms between registrations without a change", "discovery.announce_interval"),
    "udp.patience": (milliseconds(50, 60_000), "ms that answers are collected at most", "discovery.patience"),
    "udp.quiet": (_MINUTE, "ms without a new answer that end the search for one provider", "discovery.quiet"),
    "udp.quietAll": (_MINUTE, "ms without a new answer that end the search for all", "discovery.quiet_all"),
    "udp.datagramsPerSecond": (
        number(1, 10_000), "datagrams that are read from one source, beside its heartbeats", "discovery.rate"
    ),
    "mdns.enabled": (flag, "publish and browse by mDNS", "mdns"),
    "mdns.probeInterval": (_SECOND, "ms between probes of a skill found by mDNS alone", "discovery.hint_interval"),
    "trust.profile": (one_of(Profile), "`open` signs what the text signs, `signed` every message", "profile"),
    "trust.useUnverified": (flag, "use skills with uncertified keys", "use_unverified"),
    "trust.roots": (texts, "files with certificates that are trusted, PEM or DER", "roots"),
    "trust.intermediates": (texts, "files with certificates between roots and leaves", "intermediates"),
    "trust.revocations": (texts, "files or https URLs of signed lists of revocations", "revocations"),
    "trust.groupKeyFile": (text, "file with a secret that all agents share: HMAC, not ECDSA", "group_key_file"),
    "trust.renewFrom": (text, "URL or folder of the authority that renews our certificate", "renew_from"),
    "trust.authority": (text, "folder of `skillwire ca init`, where a server certifies others", "authority"),
    "trust.tlsPort": (integer(0, 65_535), "TCP port for connection secrets, any free one for 0", "tls_port"),
    "healthCheck.heartbeatInterval": (_SECOND, "ms between heartbeats", "discovery.heartbeat_interval"),
    "healthCheck.timeout": (_SECOND, "ms of silence until a skill is removed", "discovery.timeout"),
    "healthCheck.retryCount": (integer(0, 20), "requests for a heartbeat of a silent skill", "discovery.retry_count"),
    "healthCheck.unhealthyThreshold": (
        integer(1, 100), "heartbeats missed until a skill is UNHEALTHY", "discovery.unhealthy_missed"
    ),
    "healthCheck.suspectThreshold": (
        integer(1, 100), "heartbeats missed until a skill is suspected and probed", "discovery.suspect_missed"
    ),
    "healthCheck.goodHeartbeats": (
        integer(1, 100), "good heartbeats until a skill is HEALTHY again", "discovery.good_heartbeats"
    ),
    "healthCheck.flapLimit": (
        number(1, 1000), "times UNHEALTHY after which a skill is held down", "discovery.flap_limit"
    ),
    "healthCheck.flapHalfLife": (_SOME, "ms after which such a time counts half", "discovery.flap_half_life"),
    "healthCheck.holdDown": (
        _LONG, "ms in which a skill that is held down does not become HEALTHY", "discovery.hold_down"
    ),
    "healthCheck.massShare": (
        number(0, 1), "the network is suspected when more than this share of all skills is silent",
        "discovery.mass_share"
    ),
    "healthCheck.massLeast": (
        integer(1, 100_000), "the fewest silent skills for which the network is suspected", "discovery.mass_least"
    ),
    "healthCheck.staleTimeout": (
        _LONG, "ms of silence until a skill is removed although the network is suspected", "discovery.stale_timeout"
    ),
    "cache.enabled": (flag, "keep the found skills", "cache.enabled"),
    "cache.ttl": (_SOME, "ms that an entry is valid", "cache.ttl"),
    "cache.maxSize": (integer(1, 20_000), "skills that are kept", "cache.max_size"),
    "cache.refreshBeforeExpiry": (
        _LONG, "ms before its end in which an entry is requested again", "cache.refresh_before_expiry"
    ),
    "dht.enabled": (flag, "find skills in the DHT, and have a server announce its own there", "dht.enabled"),
    "dht.bootstrapNodes": (places, "list of `host` and `port`: nodes to ask first", "dht.bootstrap"),
    "dht.replicationFactor": (
        integer(1, 100), "nodes that must acknowledge a record", "dht.replication_factor"
    ),
    "dht.port": (integer(0, 65_535), "UDP port of a server's node; 0 takes a free one and keeps it", "dht.port"),
    "dht.k": (integer(1, 20), "nodes of one distance that a node knows, and that store a record", "dht.k"),
    "dht.announceRestricted": (
        flag, "announce restricted skills too, never private ones", "dht.announces_restricted"
    ),
    "skillCenter.enabled": (flag, "ask the SkillCenter when the local network has no answer", "uses_center"),
    "skillCenter.url": (web_address, "address of the SkillCenter, such as a registry", "center_url"),
    "skillCenter.timeout": (milliseconds(1, 3_600_000), "ms that its answer may take", "center_timeout"),
    "skillCenter.cache.enabled": (flag, "keep its answers, which the cache gives when it fails", "keeps_center"),
    "skillCenter.cache.ttl": (_SOME, "ms that an answer is kept", "center_ttl"),
    "hedge": (flag, "ask the next source already when one is slower than its usual answers", "hedges"),
}  # fmt: skip
KEYS: Final = {path: SettingKey(*row) for path, row in _ROWS.items()}

#: Tables that the text writes at the top in one section and below ``discovery`` in another.
_BESIDE: Final = ("cache", "healthCheck", "dht")
_TABLES: Final = frozenset(key.rpartition(".")[0] for key in KEYS)
_DEFAULT: Final = DiscoverySettings()
#: Share of its life in which an entry is refreshed when the file does not say: a minute of the text's five.
_REFRESH_SHARE: Final = 0.2
_PATHS: Final = frozenset({"roots", "intermediates", "revocations", "group_key_file", "renew_from", "authority"})


def read_discovery(
    document: Mapping[str, Any],
    source: str,
    *,
    place: Callable[[Path], SourceLocation] | None = None,
    folder: str = "",
    problems: list[SkillwireError] | None = None,
) -> LanSettings:
    """Return the settings in a configuration: the table ``discovery``, or a document with it.

    ``place`` returns where a key stands; relative paths begin at ``folder``. Spec: SDP §13.2. Raises: ValidationError:
    ``DISCOVERY_CONFIGURATION`` with the place and a fix; given ``problems``, each is added there instead.
    """
    reading = _Reading(place or (lambda _: SourceLocation(source)), problems)
    found = reading.values(document)
    settings: dict[str, dict[str, Any]] = {"": {}, "cache": {}, "discovery": {}, "dht": {}}
    for path, value in found.items():  # in the order of KEYS, so that healthCheck comes after udp
        table, _, name = KEYS[path].sets.rpartition(".")
        settings[table][name] = _from(folder, value) if name in _PATHS else value
    discovery = settings["discovery"]
    if "ttl" in settings["cache"]:
        settings["cache"].setdefault("refresh_before_expiry", settings["cache"]["ttl"] * _REFRESH_SHARE)
    if "unhealthy_missed" in discovery:  # suspected before, whatever the file says of suspicion
        discovery.setdefault("suspect_missed", max(1, min(_DEFAULT.suspect_missed, discovery["unhealthy_missed"] - 1)))
    made = LanSettings(
        **settings[""],
        cache=CacheSettings(**settings["cache"]),
        discovery=DiscoverySettings(**discovery),
        dht=DhtSettings(**settings["dht"]),
        places={KEYS[path].sets: reading.place_of(path) for path in found if KEYS[path].sets in _PATHS},
    )
    reading.refuse_contradictions(made)
    return made


def read_discovery_yaml(data: bytes, source: str, *, folder: str = "") -> LanSettings:
    """Return the settings in a YAML file, as :func:`read_discovery`. Raises: DecodeError, ValidationError."""
    try:
        decoded = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DecodeError("ENCODING", f"byte {error.start} is not UTF-8", place=SourceLocation(source)) from None
    document = load_yaml_mapping(decoded, source=source)
    known = document.places

    def place(path: Path) -> SourceLocation:
        return next((known[path[:n]] for n in range(len(path), 0, -1) if path[:n] in known), SourceLocation(source))

    return read_discovery(_as_yaml(document.values), source, place=place, folder=folder)


def _as_yaml(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_yaml(one) for key, one in value.items()}
    return [_as_yaml(one) for one in value] if isinstance(value, list) else YamlText("" if value is None else value)


class _Reading:
    def __init__(self, place: Callable[[Path], SourceLocation], problems: list[SkillwireError] | None) -> None:
        self._place = place
        self._problems = problems
        self._paths: dict[str, Path] = {}

    def values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that are set, by their keys, in the order of :data:`KEYS`."""
        found: dict[str, Any] = {}
        if "discovery" in document:
            below = document["discovery"]
            for key in document:
                if key != "discovery" and key not in _BESIDE:
                    self._unknown((key,), key, ("discovery", *_BESIDE))
                if key in _BESIDE and isinstance(below, Mapping) and key in below:
                    self._refuse((key,), f"{key} stands twice, below discovery too", "Keep one of the two.")
            self._table(below, ("discovery",), "", found)
        self._table({key: value for key, value in document.items() if key != "discovery"}, (), "", found)
        return {path: found[path] for path in KEYS if path in found}

    def _table(self, content: object, path: Path, prefix: str, found: dict[str, Any]) -> None:
        if not isinstance(content, Mapping):
            if isinstance(content, YamlText) and not content:  # a YAML key with nothing below it
                return
            self._refuse(path, f"{path[-1]} must be a table", "Write its keys below it.")
            return
        for key, value in content.items():
            name, here = f"{prefix}{key}", (*path, str(key))
            if name in _TABLES:
                self._table(value, here, f"{name}.", found)
            elif name in KEYS:
                self._paths[name] = here
                try:
                    found[name] = KEYS[name].read(value)
                except ValueError as error:
                    self._refuse(here, f"{key} {error}", f"{key}: {KEYS[name].description}.")
            else:
                names = (one.removeprefix(prefix).partition(".")[0] for one in KEYS if one.startswith(prefix))
                self._unknown(here, str(key), dict.fromkeys(names))

    def place_of(self, name: str) -> SourceLocation:
        return self._place(self._paths[name])

    def refuse_contradictions(self, made: LanSettings) -> None:
        discovery, cache = made.discovery, made.cache
        least = discovery.heartbeat_interval * discovery.unhealthy_missed
        timeout = next((key for key in ("healthCheck.timeout", "udp.timeout") if key in self._paths), "")
        checks = (
            (made.multicast or made.mdns or made.dht.enabled or (made.uses_center and made.center_url), "mdns.enabled",
             "discovery is impossible: multicast, mDNS, the DHT and the SkillCenter are all turned off",
             "Set enabled = true in udp, in mdns or in dht, or a url in skillCenter."),
            (discovery.suspect_missed <= discovery.unhealthy_missed, "healthCheck.suspectThreshold",
             "a skill would be suspected later than it is UNHEALTHY",
             f"Write at most unhealthyThreshold, which is {discovery.unhealthy_missed}."),
            (discovery.timeout > least, timeout or next(reversed(self._paths), ""),
             "a skill would be removed before it is UNHEALTHY",
             f"Write a timeout of more than heartbeatInterval x unhealthyThreshold, which is {least * 1000:.0f} ms."),
            (discovery.stale_timeout >= discovery.timeout, "healthCheck.staleTimeout",
             "a skill would be removed earlier when the network is suspected",
             f"Write at least the timeout, which is {discovery.timeout * 1000:.0f} ms."),
            (cache.refresh_before_expiry < cache.ttl or "cache.refreshBeforeExpiry" not in self._paths,
             "cache.refreshBeforeExpiry", "every entry would be refreshed at once",
             f"Write less than ttl, which is {cache.ttl * 1000:.0f} ms."),
        )  # fmt: skip
        for is_right, key, message, fix in checks:
            if not is_right:
                self._refuse(self._paths.get(key, ()), message, fix)

    def _unknown(self, path: Path, key: str, names: Iterable[str]) -> None:
        names = list(names)
        close = get_close_matches(key, [*names, "discovery"] if len(path) == 1 else names, n=1)
        elsewhere = sorted(name for name in (*KEYS, *_TABLES) if name.rpartition(".")[2] == key)
        if close:
            fix = f"Did you mean {close[0]}?"
        elif elsewhere:
            fix = f"It stands at {' or '.join(elsewhere)}, below discovery."
        else:
            fix = f"Known are {', '.join(names)}."
        self._refuse(path, f"unknown key {ascii(key)[:60]}", fix)

    def _refuse(self, path: Path, message: str, fix: str) -> None:
        problem = ValidationError("DISCOVERY_CONFIGURATION", message, place=self._place(path), fix=fix)
        if self._problems is None:
            raise problem
        self._problems.append(problem)


def _from(folder: str, value: Any) -> Any:
    """Return paths below ``folder``; URLs stay as they are."""
    if isinstance(value, tuple):
        return tuple(_from(folder, one) for one in value)
    return value if not value or "://" in value else os.path.join(folder, value)  # noqa: PTH118 - a text, no access
