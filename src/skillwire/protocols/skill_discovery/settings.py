"""The settings of discovery: intervals and limits, and the configuration files that set them.

:mod:`~skillwire.protocols.skill_discovery.setting_keys` lists the keys; the documentation and a test use it. Files have
milliseconds, as in the text, and values have seconds. The text names two settings twice: ``udp.broadcastInterval`` is
``healthCheck.heartbeatInterval``, ``udp.timeout`` is ``healthCheck.timeout``, and ``healthCheck`` wins. So a file
exactly as in 13.2 gives our defaults. ``retryCount`` is how often a suspect is asked for a heartbeat. The DHT and
SkillCenter settings are validated and not used yet, which :attr:`LanSettings.notes` reports. ``cache``, ``healthCheck``
and ``dht`` may stand below ``discovery`` or beside it.

An unknown key is an error with its place. Spec: SDP §5.1, §6.4, §8.2, §11.1, §13.2; specs §3.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from skillwire.errors import DecodeError, SourceLocation, ValidationError
from skillwire.protocols.skill_discovery.messages import Profile, Reason
from skillwire.protocols.skill_discovery.setting_keys import KEYS
from skillwire.trust.guarded_yaml import load_yaml_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """How fast, how patient and how careful a node is. Durations are in seconds.

    Args:
        heartbeat_interval: between two heartbeats of a skill.
        suspect_missed: heartbeats missed until a skill is suspected, and probed.
        unhealthy_missed: heartbeats missed until it is UNHEALTHY.
        retry_count: how often a suspect is asked for a sign of life before that.
        eviction: of silence, after which it is forgotten.
        good_beats: in a row that make an UNHEALTHY skill HEALTHY again.
        flap_limit: how often it may become UNHEALTHY before it is held down; each time counts half after
            ``flap_half_life``.
        flap_half_life: see ``flap_limit``.
        hold_down: that a flapping skill has to be good before it is HEALTHY again.
        mass_share: of all skills; when more than this share is silent, the network is suspected and nothing evicted.
        mass_least: skills that have to be silent for that.
        hint_interval: between two probes of a skill that was found by mDNS alone.
        stale: of silence, after which a skill is forgotten even when the network is suspected.
        announce_interval: between two registrations of a skill that has nothing new to say.
        retries: pauses before what was not acknowledged is sent again; short, since 30 % may be lost.
        reports: pauses before a change of status is sent again, which has no acknowledgment.
        goodbye_pauses: before a goodbye is sent again.
        answer_delay: shortest and longest pause before an answer to the group, so that not all answer at once.
        searches: pauses before a question is asked again.
        patience: that answers to a discovery are collected at most.
        quiet: without news, after which a search for one provider ends before its patience: longer than the longest
            pause before an answer.
        quiet_all: the same of a search for all; longer than the first two pauses before a question is asked again, less
            the pause before an answer, so that each is asked twice.
        unheard: that a search waits for an agent whose skill only others answered.
        not_found_patience: that others may still know a scene that one agent does not know.
        window: that a message's timestamp may differ from our clock.
        proof: that an address stays proven.
        challenge: in which a challenge has to be answered.
        rate: datagrams a second that are read from one source, beside the heartbeats that it owes.
        burst: datagrams that a source may send at once.
        amplification: how many times larger than a question the answers may be, before the address is proven.
        registry_seen: that an agent which acknowledged is counted on to acknowledge again.
    """

    heartbeat_interval: float = 5.0
    suspect_missed: int = 2
    unhealthy_missed: int = 3
    retry_count: int = 3
    eviction: float = 30.0
    good_beats: int = 2
    flap_limit: float = 3.0
    flap_half_life: float = 60.0
    hold_down: float = 30.0
    mass_share: float = 0.15
    mass_least: int = 3
    hint_interval: float = 30.0
    stale: float = 600.0
    announce_interval: float = 120.0
    retries: tuple[float, ...] = (0.15, 0.15, 0.2, 0.2, 0.25, 0.3, 0.3)
    reports: tuple[float, ...] = (0.1, 0.1, 0.15, 0.15, 0.15, 0.15, 0.2, 0.2, 0.25, 0.25)
    goodbye_pauses: tuple[float, ...] = (0.1, 0.15)
    answer_delay: tuple[float, float] = (0.02, 0.12)
    searches: tuple[float, ...] = (0.3, 0.4, 0.5, 0.5)
    patience: float = 2.0
    quiet: float = 0.15
    quiet_all: float = 0.4
    unheard: float = 1.5
    not_found_patience: float = 0.6
    window: float = 30.0
    proof: float = 600.0
    challenge: float = 10.0
    rate: float = 20.0
    burst: float = 60.0
    amplification: float = 3.0
    registry_seen: float = 240.0


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The local cache. Spec: SDP §11.1.

    Args:
        enabled: whether there is one.
        ttl: seconds that an entry is good for.
        max_size: entries.
        refresh_before_expiry: seconds before its end in which an entry is asked for again.
    """

    enabled: bool = True
    ttl: float = 300.0
    max_size: int = 1000
    refresh_before_expiry: float = 60.0


@dataclass(frozen=True, slots=True)
class LanSettings:
    """How an agent takes part in a local network. Paths are as the file writes them, from its folder on.

    Args:
        multicast: whether datagrams are sent and heard at all.
        group: IPv4 multicast group.
        group6: IPv6 multicast group; empty for none.
        port: of both groups.
        ttl: networks that a datagram may cross; 1 stays on the link.
        interfaces: names or addresses; empty for all that are up.
        mdns: whether DNS-SD is spoken too.
        profile: which messages are signed.
        use_unverified: whether skills with uncertified keys are used.
        agent_id: our name; made once and kept when it is empty.
        goodbye_reason: of goodbyes at a regular end. Spec: SDP §9.1.
        group_key_file: with a secret that all agents share, HMAC instead of ECDSA.
        roots: files with certificates that are trusted.
        intermediates: files with certificates between them and leaves.
        revocations: files or https URLs of signed lists of what was taken back.
        renew_from: URL of the server, or folder of the authority, that renews our certificate.
        authority: folder of the SkillCenter CA, where this server certifies others.
        cache: the local cache.
        figures: of the protocol.
        notes: settings that are not used yet.
        places: where a file says it, by the name of the value here, for errors that are found later.
    """

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
    cache: CacheSettings = field(default_factory=CacheSettings)
    figures: DiscoverySettings = field(default_factory=DiscoverySettings)
    notes: tuple[str, ...] = ()
    places: Mapping[str, SourceLocation] = field(default_factory=dict, compare=False, repr=False)


#: Tables that the text writes at the top in one section and below ``discovery`` in another.
_BESIDE: Final = ("cache", "healthCheck", "dht")
_TABLES: Final = frozenset(key.rpartition(".")[0] for key in KEYS)
_DEFAULT: Final = DiscoverySettings()
#: Of its life, in which an entry is refreshed where the file does not say: a minute of the text's five.
_REFRESH_SHARE: Final = 0.2
_PATHS: Final = frozenset({"roots", "intermediates", "revocations", "group_key_file", "renew_from", "authority"})
_NOTES: Final = {
    "dht": "dht: there is no DHT yet; these settings are accepted and used by nothing",
    "skillCenter": "skillCenter: there is no SkillCenter yet; these settings are accepted and used by nothing",
}


def read_discovery(
    document: Mapping[str, Any],
    source: str,
    *,
    place: Callable[[Path], SourceLocation] | None = None,
    folder: str = "",
    is_text: bool = False,
) -> LanSettings:
    """Return what a configuration says.

    Args:
        document: the table ``discovery``, or a document that has it, and ``cache``, ``healthCheck`` and ``dht`` beside
            it where it does not have them below.
        source: name of the file, for errors.
        place: says where the key at a path of ``document`` stands; the file as a whole when absent.
        folder: that relative paths begin at.
        is_text: whether every value is a text, as YAML is read here.

    Raises:
        ValidationError: ``DISCOVERY_CONFIGURATION`` with the place, and what to write instead.

    Spec: SDP §13.2.
    """
    reading = _Reading(place or (lambda _: SourceLocation(source)), is_text=is_text)
    found = reading.values(document)
    settings: dict[str, dict[str, Any]] = {"": {}, "cache": {}, "figures": {}}
    for path, value in found.items():  # in the order of KEYS, so that healthCheck comes after udp
        table, _, name = KEYS[path].sets.rpartition(".")
        if name:
            settings[table][name] = _from(folder, value) if name in _PATHS else value
    figures = settings["figures"]
    if "ttl" in settings["cache"]:
        settings["cache"].setdefault("refresh_before_expiry", settings["cache"]["ttl"] * _REFRESH_SHARE)
    if "unhealthy_missed" in figures:  # suspected before, whatever the file says of suspicion
        figures.setdefault("suspect_missed", max(1, min(_DEFAULT.suspect_missed, figures["unhealthy_missed"] - 1)))
    made = LanSettings(
        **settings[""],
        cache=CacheSettings(**settings["cache"]),
        figures=DiscoverySettings(**figures),
        notes=tuple(note for table, note in _NOTES.items() if any(path.startswith(f"{table}.") for path in found)),
        places={KEYS[path].sets: reading.place_of(path) for path in found if KEYS[path].sets in _PATHS},
    )
    reading.check_together(made)
    return made


def read_discovery_yaml(data: bytes, source: str, *, folder: str = "") -> LanSettings:
    """Return what a YAML file says, as :func:`read_discovery`.

    Raises:
        DecodeError: ``ENCODING``, ``LIMIT_...`` or ``YAML_...`` with the place.
        ValidationError: ``DISCOVERY_CONFIGURATION`` with the place.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DecodeError("ENCODING", f"byte {error.start} is not UTF-8", place=SourceLocation(source)) from None
    document = load_yaml_mapping(text, source=source)

    def place(path: Path) -> SourceLocation:
        return next((document.places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in document.places),
                    SourceLocation(source))  # fmt: skip

    return read_discovery(document.values, source, place=place, folder=folder, is_text=True)


class _Reading:
    """A document under the eyes of its reader."""

    def __init__(self, place: Callable[[Path], SourceLocation], *, is_text: bool) -> None:
        self._place = place
        self._is_text = is_text
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
            rest = {key: value for key, value in document.items() if key != "discovery"}
            self._table(below, ("discovery",), "", found)
            self._table(rest, (), "", found)
        else:
            self._table(document, (), "", found)
        return {path: found[path] for path in KEYS if path in found}

    def _table(self, content: object, path: Path, prefix: str, found: dict[str, Any]) -> None:
        if not isinstance(content, Mapping):
            if self._is_text and content in ("", None):  # a YAML key with nothing below it
                return
            self._refuse(path, f"{path[-1]} must be a table", "Write its keys below it.")
        for key, value in content.items():
            name, here = f"{prefix}{key}", (*path, str(key))
            if name in _TABLES:
                self._table(value, here, f"{name}.", found)
            elif name in KEYS:
                found[name] = self._value(name, value, here)
            else:
                self._unknown(here, str(key), list(_keys_of(prefix)))

    def _value(self, name: str, value: object, path: Path) -> Any:
        self._paths[name] = path
        try:
            return KEYS[name].read(value, self._is_text)
        except ValueError as error:
            self._refuse(path, f"{path[-1]} {error}", f"{path[-1]}: {KEYS[name].meaning}.")

    def place_of(self, name: str) -> SourceLocation:
        """Return where a key stands that is set."""
        return self._place(self._paths[name])

    def check_together(self, made: LanSettings) -> None:
        """Refuse settings that contradict each other."""
        figures, cache = made.figures, made.cache
        if not (made.multicast or made.mdns):
            message = "discovery is impossible: multicast and mDNS are both turned off"
            self._refuse_key("mdns.enabled", message, "Set enabled = true in udp or in mdns.")
        if figures.suspect_missed > figures.unhealthy_missed:
            self._refuse_key(
                "healthCheck.suspectThreshold",
                "a skill would be suspected later than it is UNHEALTHY",
                f"Write at most unhealthyThreshold, which is {figures.unhealthy_missed}.",
            )
        least = figures.heartbeat_interval * figures.unhealthy_missed
        if figures.eviction <= least:
            key = next((key for key in ("healthCheck.timeout", "udp.timeout") if key in self._paths), "")
            self._refuse_key(
                key or next(reversed(self._paths)),
                "a skill would be forgotten before it is UNHEALTHY",
                f"Write a timeout of more than heartbeatInterval x unhealthyThreshold, which is {least * 1000:.0f} ms.",
            )
        if figures.stale < figures.eviction:
            self._refuse_key(
                "healthCheck.staleTimeout",
                "a skill would be forgotten earlier where the network is suspected",
                f"Write at least the timeout, which is {figures.eviction * 1000:.0f} ms.",
            )
        if cache.refresh_before_expiry >= cache.ttl and "cache.refreshBeforeExpiry" in self._paths:
            self._refuse_key(
                "cache.refreshBeforeExpiry",
                "every entry would be refreshed at once",
                f"Write less than ttl, which is {cache.ttl * 1000:.0f} ms.",
            )

    def _refuse_key(self, name: str, message: str, fix: str) -> NoReturn:
        self._refuse(self._paths.get(name, ()), message, fix)

    def _unknown(self, path: Path, key: str, names: list[str] | tuple[str, ...]) -> NoReturn:
        from difflib import get_close_matches  # noqa: PLC0415  # only an error needs it

        close = get_close_matches(key, [*names, "discovery"] if len(path) == 1 else names, n=1)
        elsewhere = sorted(name for name in (*KEYS, *_TABLES) if name.rpartition(".")[2] == key)
        if close:
            fix = f"Did you mean {close[0]}?"
        elif elsewhere:
            fix = f"It stands at {elsewhere[0]}, below discovery."
        else:
            fix = f"Known are {', '.join(names)}."
        self._refuse(path, f"unknown key {ascii(key)[:60]}", fix)

    def _refuse(self, path: Path, message: str, fix: str) -> NoReturn:
        raise ValidationError("DISCOVERY_CONFIGURATION", message, place=self._place(path), fix=fix)


def _keys_of(prefix: str) -> Iterator[str]:
    """Yield the keys of a table, each once."""
    names = (name.removeprefix(prefix).partition(".")[0] for name in KEYS if name.startswith(prefix))
    yield from dict.fromkeys(names)


def _from(folder: str, value: Any) -> Any:
    """Return paths as they are seen from where we are; URLs stay as they are."""
    if isinstance(value, tuple):
        return tuple(_from(folder, one) for one in value)
    return value if not value or "://" in value else os.path.join(folder, value)  # noqa: PTH118 - a text, no access
