"""The settings: one table, and the order in which places are read.

Flags of a command win over the environment, that over ``skillwire.toml`` in the project, that over the user's file. A
project may be an untrusted clone, so its file cannot set trust and addresses: those rows are for the environment and
the user's own file. The docs and ``tests/unit/test_docs.py`` read the table.

The tables ``[discovery]`` of the project and of the user are joined key by key; the project's wins for the addresses
and pace that it may set, and trust, name, interfaces and reach are for the user's own file. A file that the environment
names replaces both. Spec: SDP §13.2. Trust: a project's table is hostile.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.errors import SourceLocation, UsageError, did_you_mean

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.settings import LanSettings

SETTINGS_FILE: Final = "skillwire.toml"
#: Keys of ``discovery`` that a project cannot set.
OWN_DISCOVERY_KEYS: Final = (
    "agentId",
    "trust",
    "skillCenter",
    "dht",
    "udp.interfaces",
    "udp.ttl",
    "udp.datagramsPerSecond",
)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError("must be a list of texts")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("must be a text")


def _flag(value: object) -> bool:
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    found = words.get(value.lower()) if isinstance(value, str) else value
    if isinstance(found, bool):
        return found
    raise ValueError("must be true or false")


_SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGE: Final = re.compile(r"([0-9]{1,5})([mhdw])", re.ASCII)


def _age(value: object) -> str:
    if value == "" or (isinstance(value, str) and _AGE.fullmatch(value)):
        return str(value)
    raise ValueError("must be a whole number and m, h, d or w, such as 3d")


def seconds_of_age(age: str) -> float:
    """Return the seconds of the setting ``min_age``; 0 for an empty one."""
    found = _AGE.fullmatch(age)
    return float(found[1]) * _SECONDS[found[2]] if found else 0.0


def _table(value: object) -> object:
    """Return a table, or the name of its file; discovery validates it."""
    if isinstance(value, dict | str):
        return value
    raise ValueError("must be a table")


def choice_of(*allowed: str) -> Callable[[object], str]:
    """Return a reader that accepts these words alone."""

    def read(value: object) -> str:
        if value in allowed:
            return str(value)
        raise ValueError(f"must be one of {', '.join(allowed)}")

    return read


class Setting(NamedTuple):
    """One row: environment variable, how to read a value, the default, its meaning, whether a project may set it."""

    environment: str
    read: Callable[[object], Any]
    default: Any
    meaning: str
    in_project: bool = True


SETTINGS: Final[dict[str, Setting]] = {
    "sources": Setting(
        "SKILLWIRE_SOURCES",
        _texts,
        (),
        "where bare names and find look: origins; in your own file also lan:, the local network",
    ),
    "skills": Setting(
        "SKILLWIRE_SKILLS", _texts, (), "references, each with a version or range, that add installs alone"
    ),
    "registry": Setting(
        "SKILLWIRE_REGISTRY",
        _text,
        "",
        "registry that publish, the registry's commands and scene request use",
        in_project=False,
    ),
    "trusted_origins": Setting(
        "SKILLWIRE_TRUSTED_ORIGINS", _texts, (), "origins to install from without a question", in_project=False
    ),
    "only_trusted": Setting(
        "SKILLWIRE_ONLY_TRUSTED", _flag, False, "refuse every other origin instead of asking", in_project=False
    ),
    "min_age": Setting(
        "SKILLWIRE_MIN_AGE", _age, "", "age of a version, such as 3d, before it is taken unasked", in_project=False
    ),
    "allow": Setting(
        "SKILLWIRE_ALLOW", _texts, (), "private hosts and networks that may be connected to", in_project=False
    ),
    "agents": Setting("SKILLWIRE_AGENTS", _texts, (), "agents to install for when --agent is not given"),
    "install": Setting("SKILLWIRE_INSTALL", choice_of("link", "copy"), "link", "how other agents' folders are filled"),
    "offline": Setting("SKILLWIRE_OFFLINE", _flag, False, "use only what is in the cache"),
    "credential_store": Setting(
        "SKILLWIRE_CREDENTIAL_STORE",
        choice_of("file", "keyring"),
        "file",
        "where login puts secrets; keyring needs the extra keyring",
        in_project=False,
    ),
    "discovery": Setting(
        "SKILLWIRE_DISCOVERY",
        _table,
        (),
        "how the local network is searched: a table, or in the environment a file with it",
    ),
}


class DiscoverySource(NamedTuple):
    """The table of one place for discovery on the local network, or the name of its file.

    ``places``: path of a key in the table → its location.
    """

    value: object
    place: SourceLocation
    is_project: bool
    places: Mapping[tuple[str, ...], SourceLocation] = {}


class Settings(NamedTuple):
    """The settings in force. ``own_sources`` are those that the user named, not the project.

    ``discovery`` has the tables of all places, first the one that wins, for :func:`join_discovery`.
    """

    sources: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    registry: str = ""
    trusted_origins: tuple[str, ...] = ()
    only_trusted: bool = False
    min_age: str = ""
    allow: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    install: str = "link"
    offline: bool = False
    credential_store: str = "file"
    own_sources: frozenset[str] = frozenset()
    discovery: tuple[DiscoverySource, ...] = ()


class SettingsLayer(NamedTuple):
    """The settings of one place: the environment or a file, ``source`` in errors.

    ``places``: key → environment variable or line of the file; ``discovery_places`` likewise for the keys below
    ``discovery``, by their path.
    """

    source: str
    values: Mapping[str, object]
    is_project: bool = False
    places: Mapping[str, SourceLocation] = {}
    discovery_places: Mapping[tuple[str, ...], SourceLocation] = {}

    def place_of(self, key: str) -> SourceLocation:
        """Return the location of ``key``."""
        return self.places.get(key, SourceLocation(self.source))


class SettingValue(NamedTuple):
    """A value and its location; ``place`` is None for the default."""

    value: object
    place: SourceLocation | None


class TracedSetting(NamedTuple):
    """A setting in force, and the values of lower places that it hides, the default last."""

    key: str
    value: object
    place: SourceLocation | None
    hidden: tuple[SettingValue, ...]


def environment_layer(environment: Mapping[str, str]) -> SettingsLayer:
    """Return the settings of the environment."""
    rows = {key: row.environment for key, row in SETTINGS.items() if row.environment in environment}
    values = {key: environment[variable] for key, variable in rows.items()}
    places = {key: SourceLocation(variable) for key, variable in rows.items()}
    return SettingsLayer("environment", values, places=places)


def merge_settings(*layers: SettingsLayer) -> Settings:
    """Return the settings in force; earlier layers win. Raises ``SETTING_FORM`` with the place."""
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        for key, value in layer.values.items():
            merged[key] = _read(key, value, layer)
    own = [layer.values["sources"] for layer in layers if "sources" in layer.values and not layer.is_project]
    merged["discovery"] = tuple(
        DiscoverySource(
            layer.values["discovery"], layer.place_of("discovery"), layer.is_project, layer.discovery_places
        )
        for layer in layers
        if "discovery" in layer.values
    )
    return Settings(**merged, own_sources=frozenset(source for sources in own for source in _texts(sources)))


def trace_settings(*layers: SettingsLayer) -> list[TracedSetting]:
    """Return every setting with its location and hidden values; earlier layers win."""
    merge_settings(*layers)  # raises for unknown keys, which have no row below
    traced = []
    for key, row in SETTINGS.items():
        said = [SettingValue(_read(key, layer.values[key], layer), layer.place_of(key)) for layer in layers
                if key in layer.values]  # fmt: skip
        first, *hidden = [*said, SettingValue(row.default, None)]
        traced.append(TracedSetting(key, first.value, first.place, tuple(hidden)))
    return traced


def _read(key: str, value: object, layer: SettingsLayer) -> object:
    place = layer.place_of(key)
    row = SETTINGS.get(key)
    if row is None:
        fix = did_you_mean(key, SETTINGS, n=1) or f"Remove it; known settings are {', '.join(SETTINGS)}."
        raise UsageError("SETTING_FORM", f"unknown setting {ascii(key)[:60]}", place=place, fix=fix)
    if layer.is_project and not row.in_project:
        fix = f"Set it in your own {SETTINGS_FILE}, or as {row.environment}: a project must not decide whom you trust."
        raise UsageError("SETTING_FORM", f"a project's file cannot set {key}", place=place, fix=fix)
    try:
        found = row.read(value)
    except ValueError as error:
        name = row.environment if layer.source == "environment" else key
        raise UsageError("SETTING_FORM", f"{name} {error}", place=place) from error
    if layer.is_project and key == "sources" and "lan:" in found:  # it opens addresses that datagrams announce
        fix = f"Set it in your own {SETTINGS_FILE}, or as {row.environment}."
        raise UsageError("SETTING_FORM", "a project's file cannot name lan: as a source", place=place, fix=fix)
    return found


def join_discovery(sources: Sequence[DiscoverySource], read_file: Callable[[str], bytes]) -> LanSettings:
    """Return the settings of the local network in force.

    Args:
        sources: of :attr:`Settings.discovery`, first the one that wins.
        read_file: returns the bytes of a file.

    Raises:
        ValidationError: ``DISCOVERY_CONFIGURATION``. UsageError: ``SETTING_FORM`` for a key that a project may not set.
    """
    from skillwire.protocols.skill_discovery import settings as lan  # noqa: PLC0415  # takes a while to import
    from skillwire.trust.guarded_toml import load_toml, toml_place  # noqa: PLC0415  # loads tomllib

    for source in sources:
        if isinstance(path := source.value, str) and not source.is_project:
            data, folder = read_file(path), os.path.dirname(path)  # noqa: PTH120  # a text, no access
            if path.lower().endswith((".yaml", ".yml")):
                return lan.read_discovery_yaml(data, path, folder=folder)
            place = partial(toml_place, data.decode("utf-8", "replace"), source=path)
            return lan.read_discovery(load_toml(data, source=path), path, place=place, folder=folder)
    joined: dict[str, Any] = {}
    folder = ""
    for source in reversed(sources):
        if not isinstance(source.value, dict):
            raise UsageError("SETTING_FORM", "discovery must be a table", place=source.place)
        lan.read_discovery(source.value, source.place.source, place=partial(_discovery_place, [source]))
        if source.is_project:
            for key in _key_paths(source.value):
                if any(f"{key}.".startswith(f"{own}.") for own in (*OWN_DISCOVERY_KEYS, "discovery")):
                    where = "your own skillwire.toml, whose path skillwire config path prints"
                    fix = f"Set it in {where}, or in the file that SKILLWIRE_DISCOVERY names."
                    message = f"a project's file cannot set discovery.{key}"
                    raise UsageError("SETTING_FORM", message, place=source.place, fix=fix)
        else:
            folder = os.path.dirname(source.place.source)  # noqa: PTH120  # a text, no access
        _join_tables(joined, source.value)
    if not joined:
        return lan.LanSettings()
    return lan.read_discovery(joined, "discovery", place=partial(_discovery_place, sources), folder=folder)


def _discovery_place(sources: Sequence[DiscoverySource], path: tuple[str, ...]) -> SourceLocation:
    """Return the location of a key of the joined table: in the first source that has it, else the first source."""
    return next((source.places[path] for source in sources if path in source.places), sources[0].place)


def _key_paths(table: object, before: str = "") -> Iterator[str]:
    """Yield the path of each key without a table; a key may contain dots itself."""
    if not isinstance(table, dict):
        yield before.removesuffix(".")
        return
    for key, value in table.items():
        yield from _key_paths(value, f"{before}{key}.")


def _join_tables(joined: dict[str, Any], table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            _join_tables(joined.setdefault(key, {}), value)
        else:
            joined[key] = value
