"""The keys of a discovery configuration, one row each, and the readers of their values. Spec: SDP §13.2.

A value has its type in TOML and JSON, and is text in YAML (``is_text``). A reader raises ValueError with the end of the
sentence "KEY must ...".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from skillwire.errors import DecodeError, ValidationError
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.codec import read_endpoint, read_identifier
from skillwire.protocols.skill_discovery.messages import Profile, Reason

if TYPE_CHECKING:
    from enum import StrEnum

    E = TypeVar("E", bound=StrEnum)


#: Takes a value and whether it is a text that stands for one.
Read = Callable[[object, bool], Any]

_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,11}", re.ASCII)
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,9})?", re.ASCII)
_WORDS: Final = {"true": True, "false": False}
_TEXT_LENGTH: Final = 2048
_LONGEST_AGENT: Final = 118  # of 128: a question is named by it, a dot, and a number
_MOST_TEXTS: Final = 64
_IPV6: Final = 6
_EXAMPLES: Final = {4: "224.0.0.1", _IPV6: "ff12::d431"}


def flag(value: object, is_text: bool) -> bool:  # noqa: FBT001 - the form of a reader
    """Return a yes or no."""
    found = _WORDS.get(value) if is_text and isinstance(value, str) else value
    if isinstance(found, bool):
        return found
    raise ValueError("must be true or false")


def text(value: object, is_text: bool) -> str:  # noqa: ARG001, FBT001 - the form of a reader
    """Return a text of one line."""
    if isinstance(value, str) and 0 < len(value) <= _TEXT_LENGTH and value.isprintable():
        return value
    raise ValueError("must be a text of one line")


def texts(value: object, is_text: bool) -> tuple[str, ...]:  # noqa: FBT001 - the form of a reader
    """Return a list of texts; one alone may stand without a list."""
    items = [value] if isinstance(value, str) else value
    if isinstance(items, list) and len(items) <= _MOST_TEXTS:
        return tuple(text(item, is_text) for item in items)
    raise ValueError(f"must be a list of at most {_MOST_TEXTS} texts")


def whole(least: int, most: int) -> Read:
    """Return a reader of whole numbers."""

    def read(value: object, is_text: bool) -> int:  # noqa: FBT001 - the form of a reader
        found = int(value) if is_text and isinstance(value, str) and _WHOLE.fullmatch(value) else value
        if isinstance(found, int) and not isinstance(found, bool) and least <= found <= most:
            return found
        raise ValueError(f"must be a whole number from {least} to {most}")

    return read


def number(least: float, most: float) -> Read:
    """Return a reader of numbers."""

    def read(value: object, is_text: bool) -> float:  # noqa: FBT001 - the form of a reader
        found = float(value) if is_text and isinstance(value, str) and _NUMBER.fullmatch(value) else value
        if isinstance(found, int | float) and not isinstance(found, bool) and least <= found <= most:
            return float(found)
        raise ValueError(f"must be a number from {least} to {most}")

    return read


def milliseconds(least: int, most: int) -> Read:
    """Return a reader of milliseconds, which gives seconds."""
    count = whole(least, most)

    def read(value: object, is_text: bool) -> float:  # noqa: FBT001 - the form of a reader
        try:
            return float(count(value, is_text)) / 1000
        except ValueError as error:
            raise ValueError(f"{error}, in milliseconds") from None

    return read


def group(version: int) -> Read:
    """Return a reader of multicast groups of one IP version; none of version 6 is an empty text."""
    refused = f"must be an IPv{version} multicast address, such as {_EXAMPLES[version]}"

    def read(value: object, is_text: bool) -> str:  # noqa: ARG001, FBT001 - the form of a reader
        if value == "" and version == _IPV6:
            return ""
        try:
            address = ipaddress.ip_address(value if isinstance(value, str) and "%" not in value else "")
        except ValueError:
            raise ValueError(refused) from None
        if address.version != version or not address.is_multicast:
            raise ValueError(refused)
        return str(address)

    return read


def agent(value: object, is_text: bool) -> str:  # noqa: ARG001, FBT001 - the form of a reader
    """Return an agent's identifier, with room for what tells its questions from each other."""
    try:
        if len(name := read_identifier(value if isinstance(value, str) else "")) <= _LONGEST_AGENT:
            return name
    except DecodeError:
        pass
    raise ValueError(f"must be letters, digits, dots, hyphens and underscores, at most {_LONGEST_AGENT}")


def one_of(kind: type[E], *, without: Collection[E] = ()) -> Read:
    """Return a reader of the values of an enumeration, ``without`` some."""
    values = {member.value: member for member in kind if member not in without}

    def read(value: object, is_text: bool) -> E:  # noqa: ARG001, FBT001 - the form of a reader
        if isinstance(value, str) and value in values:
            return values[value]
        raise ValueError(f"must be one of {', '.join(values)}")

    return read


def web_address(value: object, is_text: bool) -> str:  # noqa: FBT001 - the form of a reader
    """Return a URL as it is written."""
    try:
        parse_url(text(value, is_text))
    except ValidationError as error:
        raise ValueError(f"must be a URL: {error.message}") from None
    return str(value)


def places(value: object, is_text: bool) -> tuple[str, ...]:  # noqa: FBT001 - the form of a reader
    """Return a list of ``host`` and ``port`` as ``host:port``. Spec: SDP §6.4."""
    if not isinstance(value, list) or len(value) > _MOST_TEXTS:
        raise ValueError("must be a list of host and port")
    return tuple(_place(item, is_text) for item in value)


def _place(item: object, is_text: bool) -> str:  # noqa: FBT001 - the form of a reader
    if not isinstance(item, Mapping) or set(item) != {"host", "port"}:
        raise ValueError("must be a list of host and port, and nothing else in it")
    port = whole(1, 65_535)(item["port"], is_text)
    host = text(item["host"], is_text)
    try:
        return str(read_endpoint(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
    except DecodeError:
        raise ValueError(f"must be a list of host and port; {ascii(host)[:60]} is no host") from None


class SettingKey(NamedTuple):
    """One key: how its value is read, what it means, and what it sets.

    ``sets`` is an attribute of ``LanSettings``; ``cache.NAME`` or ``figures.NAME`` one of theirs; empty for what
    nothing uses yet.
    """

    read: Read
    meaning: str
    sets: str = ""


_LATER_DHT: Final = "of the DHT; accepted, and used by nothing yet"
_LATER_CENTER: Final = "of SkillCenter; accepted, and used by nothing yet"
_SECOND: Final = milliseconds(1_000, 3_600_000)
_DAY: Final = 86_400_000
_LONG: Final = milliseconds(0, _DAY)
_SOME: Final = milliseconds(1, _DAY)

#: Path below ``discovery`` → key.
KEYS: Final[dict[str, SettingKey]] = {
    "agentId": SettingKey(agent, "name of this agent; made once and kept when absent", "agent_id"),
    "goodbye": SettingKey(
        one_of(Reason, without=(Reason.ERROR,)),
        "reason of goodbyes when a server ends: `SHUTDOWN` (default), `MAINTENANCE` or `UPGRADE`",
        "goodbye_reason",
    ),
    "udp.enabled": SettingKey(flag, "speak by multicast; `true` by default", "multicast"),
    "udp.multicastGroup": SettingKey(group(4), "IPv4 group; `224.0.0.1` by default", "group"),
    "udp.multicastGroup6": SettingKey(group(6), 'IPv6 group, `""` for none; `ff12::d431` by default', "group6"),
    "udp.port": SettingKey(whole(1, 65_535), "port of the groups; `54321` by default", "port"),
    "udp.ttl": SettingKey(whole(0, 255), "networks that a datagram may cross; `1` by default", "ttl"),
    "udp.interfaces": SettingKey(texts, "list of names or addresses; all that are up by default", "interfaces"),
    "udp.broadcastInterval": SettingKey(
        _SECOND, "the same as `healthCheck.heartbeatInterval`, which wins", "figures.heartbeat_interval"
    ),
    "udp.timeout": SettingKey(_SECOND, "the same as `healthCheck.timeout`, which wins", "figures.eviction"),
    "udp.announceInterval": SettingKey(
        _SECOND, "ms between registrations that say nothing new; `120000` by default", "figures.announce_interval"
    ),
    "udp.patience": SettingKey(
        milliseconds(50, 60_000), "ms that answers are collected at most; `2000` by default", "figures.patience"
    ),
    "udp.quiet": SettingKey(
        milliseconds(0, 60_000),
        "ms without news that end the search for one provider; `150` by default",
        "figures.quiet",
    ),
    "udp.quietAll": SettingKey(
        milliseconds(0, 60_000),
        "ms without news that end the search for all; `400` by default",
        "figures.quiet_all",
    ),
    "udp.datagramsPerSecond": SettingKey(
        number(1, 10_000), "read from one source, beside its heartbeats; `20` by default", "figures.rate"
    ),
    "mdns.enabled": SettingKey(flag, "publish and browse by mDNS; `true` by default", "mdns"),
    "mdns.probeInterval": SettingKey(
        _SECOND, "ms between probes of a skill found by mDNS alone; `30000` by default", "figures.hint_interval"
    ),
    "trust.profile": SettingKey(
        one_of(Profile), "`open`: what the text signs is signed; `signed`: everything is", "profile"
    ),
    "trust.useUnverified": SettingKey(flag, "use skills with uncertified keys; `false` by default", "use_unverified"),
    "trust.roots": SettingKey(texts, "files with certificates that are trusted, PEM or DER", "roots"),
    "trust.intermediates": SettingKey(texts, "files with certificates between roots and leaves", "intermediates"),
    "trust.revocations": SettingKey(texts, "files or https URLs of signed lists of what was revoked", "revocations"),
    "trust.groupKeyFile": SettingKey(text, "file with a secret that all share: HMAC, not ECDSA", "group_key_file"),
    "trust.renewFrom": SettingKey(text, "URL or folder of the authority that renews our certificate", "renew_from"),
    "trust.authority": SettingKey(text, "folder of `skillwire ca init`, where a server certifies others", "authority"),
    "healthCheck.heartbeatInterval": SettingKey(
        _SECOND, "ms between heartbeats; `5000` by default", "figures.heartbeat_interval"
    ),
    "healthCheck.timeout": SettingKey(
        _SECOND, "ms of silence until a skill is forgotten; `30000` by default", "figures.eviction"
    ),
    "healthCheck.retryCount": SettingKey(
        whole(0, 20),
        "how often a silent skill is asked for a beat; `3` by default",
        "figures.retry_count",
    ),
    "healthCheck.unhealthyThreshold": SettingKey(
        whole(1, 100), "heartbeats missed until it is UNHEALTHY; `3` by default", "figures.unhealthy_missed"
    ),
    "healthCheck.suspectThreshold": SettingKey(
        whole(1, 100),
        "heartbeats missed until it is suspected and probed; `2` by default",
        "figures.suspect_missed",
    ),
    "healthCheck.goodBeats": SettingKey(
        whole(1, 100), "good heartbeats until it is HEALTHY again; `2` by default", "figures.good_beats"
    ),
    "healthCheck.flapLimit": SettingKey(
        number(1, 1000), "falls after which it is held down; `3` by default", "figures.flap_limit"
    ),
    "healthCheck.flapHalfLife": SettingKey(
        _SOME,
        "ms in which a fall counts half; `60000` by default",
        "figures.flap_half_life",
    ),
    "healthCheck.holdDown": SettingKey(_LONG, "ms that it is held down; `30000` by default", "figures.hold_down"),
    "healthCheck.massShare": SettingKey(
        number(0, 1),
        "share of all skills whose silence is the network's; `0.15` by default",
        "figures.mass_share",
    ),
    "healthCheck.massLeast": SettingKey(
        whole(1, 100_000), "skills that have to be silent for that; `3` by default", "figures.mass_least"
    ),
    "healthCheck.staleTimeout": SettingKey(
        _LONG, "ms of silence until it is forgotten even then; `600000` by default", "figures.stale"
    ),
    "cache.enabled": SettingKey(flag, "keep what was found; `true` by default", "cache.enabled"),
    "cache.ttl": SettingKey(_SOME, "ms that it is good for; `300000` by default", "cache.ttl"),
    "cache.maxSize": SettingKey(whole(1, 20_000), "skills that are kept; `1000` by default", "cache.max_size"),
    "cache.refreshBeforeExpiry": SettingKey(
        _LONG,
        "ms before its end in which a skill is asked for again; `60000` by default",
        "cache.refresh_before_expiry",
    ),
    "dht.enabled": SettingKey(flag, _LATER_DHT),
    "dht.bootstrapNodes": SettingKey(places, _LATER_DHT),
    "dht.replicationFactor": SettingKey(whole(1, 100), _LATER_DHT),
    "skillCenter.enabled": SettingKey(flag, _LATER_CENTER),
    "skillCenter.url": SettingKey(web_address, _LATER_CENTER),
    "skillCenter.timeout": SettingKey(milliseconds(1, 3_600_000), _LATER_CENTER),
    "skillCenter.cache.enabled": SettingKey(flag, _LATER_CENTER),
    "skillCenter.cache.ttl": SettingKey(_SOME, _LATER_CENTER),
}
