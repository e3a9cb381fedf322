"""The settings: one table of what can be set, and the one order in which places are read.

Flags of a command win over the environment, that over ``skillwire.toml`` in the project, that over the
user's file. A project may be an untrusted clone, so its file cannot say whom the user trusts or where
connections may lead: those rows are for the environment and the user's own file. The table is walked by the
docs and by ``tests/unit/test_docs.py``.

Trust: a project's file is hostile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.errors import SourceLocation, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SETTINGS_FILE: Final = "skillwire.toml"


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError("must be a list of texts")


def _flag(value: object) -> bool:
    words = {True: True, False: False, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if (
        isinstance(value, bool | str)
        and (found := words.get(value.lower() if isinstance(value, str) else value)) is not None
    ):
        return found
    raise ValueError("must be true or false")


def _table(value: object) -> object:
    """Take a table, or the name of a file that holds it; it is read where discovery is spoken."""
    if isinstance(value, dict | str):
        return value
    raise ValueError("must be a table")


def _choice(*allowed: str) -> Callable[[object], str]:
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
    "sources": Setting("SKILLWIRE_SOURCES", _texts, (), "origins in which a bare name, and find, are looked up"),
    "trusted_origins": Setting(
        "SKILLWIRE_TRUSTED_ORIGINS", _texts, (), "origins to install from without a question", in_project=False
    ),
    "only_trusted": Setting(
        "SKILLWIRE_ONLY_TRUSTED", _flag, False, "refuse every other origin instead of asking", in_project=False
    ),
    "allow": Setting(
        "SKILLWIRE_ALLOW", _texts, (), "private hosts and networks that may be connected to", in_project=False
    ),
    "agents": Setting("SKILLWIRE_AGENTS", _texts, (), "agents to install for when --agent is not given"),
    "install": Setting("SKILLWIRE_INSTALL", _choice("link", "copy"), "link", "how other agents' folders are filled"),
    "offline": Setting("SKILLWIRE_OFFLINE", _flag, False, "use only what is in the cache"),
    "credential_store": Setting(
        "SKILLWIRE_CREDENTIAL_STORE",
        _choice("file", "keyring"),
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
    """What one place says of discovery on the local network: its table, or the name of a file that holds it.

    ``places`` says where the keys of the table stand, by their path in it.
    """

    value: object
    place: SourceLocation
    is_project: bool
    places: Mapping[tuple[str, ...], SourceLocation] = {}


class Settings(NamedTuple):
    """The settings in force. ``own_sources`` are those that the user named, not the project.

    ``discovery`` is what each place says of it, unread, the one that wins first: these tables are joined
    (:mod:`skillwire.resolver.lan_settings`), so that a project cannot do away with what the user trusts.
    """

    sources: tuple[str, ...] = ()
    trusted_origins: tuple[str, ...] = ()
    only_trusted: bool = False
    allow: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    install: str = "link"
    offline: bool = False
    credential_store: str = "file"
    own_sources: frozenset[str] = frozenset()
    discovery: tuple[DiscoverySource, ...] = ()


class SettingsLayer(NamedTuple):
    """What one place says: a file's table, or the environment, under the place's name for errors.

    ``places`` says where each key stands: a variable of the environment, or a line of a file. ``discovery_places`` says
    it of the keys below ``discovery``, by their path there.
    """

    source: str
    values: Mapping[str, object]
    is_project: bool = False
    places: Mapping[str, SourceLocation] = {}
    discovery_places: Mapping[tuple[str, ...], SourceLocation] = {}

    def place_of(self, key: str) -> SourceLocation:
        """Return where ``key`` is set."""
        return self.places.get(key, SourceLocation(self.source))


class SettingValue(NamedTuple):
    """What one place sets; ``place`` is None for the default."""

    value: object
    place: SourceLocation | None


class TracedSetting(NamedTuple):
    """A setting in force, and what lies hidden below it: what lower places say, the default last."""

    key: str
    value: object
    place: SourceLocation | None
    hidden: tuple[SettingValue, ...]


def environment_layer(environment: Mapping[str, str]) -> SettingsLayer:
    """Return what the environment sets."""
    rows = {key: row.environment for key, row in SETTINGS.items() if row.environment in environment}
    values = {key: environment[variable] for key, variable in rows.items()}
    return SettingsLayer(
        "environment", values, places={key: SourceLocation(variable) for key, variable in rows.items()}
    )


def merge_settings(*layers: SettingsLayer) -> Settings:
    """Return the settings in force; earlier layers win.

    Raises:
        UsageError: ``SETTING_FORM`` for an unknown key or a malformed value, with its place.
    """
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
    """Return every setting, where its value comes from and what that hides; earlier layers win.

    Raises:
        UsageError: ``SETTING_FORM``, as :func:`merge_settings` does.
    """
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
        raise UsageError("SETTING_FORM", f"unknown setting {ascii(key)[:60]}", place=place, fix=_known_settings(key))
    if layer.is_project and not row.in_project:
        fix = f"Set it in your own {SETTINGS_FILE}, or as {row.environment}: a project must not decide whom you trust."
        raise UsageError("SETTING_FORM", f"a project's file cannot set {key}", place=place, fix=fix)
    try:
        return row.read(value)
    except ValueError as error:
        name = row.environment if layer.source == "environment" else key
        raise UsageError("SETTING_FORM", f"{name} {error}", place=place) from error


def _known_settings(key: str) -> str:
    import difflib  # noqa: PLC0415  # only an error needs it

    if close := difflib.get_close_matches(key, SETTINGS, n=1):
        return f"Did you mean {close[0]}?"
    return f"Remove it; known settings are {', '.join(SETTINGS)}."
