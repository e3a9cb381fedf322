"""The settings: one table of what can be set, and the one order in which places are read.

Flags of a command win over the environment, that over ``skillwire.toml`` in the project, that over the
user's file. A project may be a stranger's clone, so its file cannot say whom the user trusts or where
connections may lead: those rows are for the environment and the user's own file. The table is walked by the
docs and by ``tests/unit/test_docs.py``.

Trust: a project's file is hostile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.errors import Place, UsageError

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
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force. ``own_sources`` are those that the user named, not the project."""

    sources: tuple[str, ...] = ()
    trusted_origins: tuple[str, ...] = ()
    only_trusted: bool = False
    allow: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    install: str = "link"
    offline: bool = False
    own_sources: frozenset[str] = frozenset()


class SettingsLayer(NamedTuple):
    """What one place says: a file's table, or the environment, under the place's name for errors."""

    source: str
    values: Mapping[str, object]
    is_project: bool = False


def environment_layer(environment: Mapping[str, str]) -> SettingsLayer:
    """Return what the environment sets."""
    values = {key: environment[row.environment] for key, row in SETTINGS.items() if row.environment in environment}
    return SettingsLayer("environment", values)


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
    return Settings(**merged, own_sources=frozenset(source for sources in own for source in _texts(sources)))


def _read(key: str, value: object, layer: SettingsLayer) -> object:
    source = layer.source
    row = SETTINGS.get(key)
    if row is None:
        fix = f"Remove it; known settings are {', '.join(SETTINGS)}."
        raise UsageError("SETTING_FORM", f"unknown setting {ascii(key)[:60]}", place=Place(source), fix=fix)
    if layer.is_project and not row.in_project:
        fix = f"Set it in your own {SETTINGS_FILE}, or as {row.environment}: a project must not decide whom you trust."
        raise UsageError("SETTING_FORM", f"a project's file cannot set {key}", place=Place(source), fix=fix)
    try:
        return row.read(value)
    except ValueError as error:
        name = row.environment if source == "environment" else key
        raise UsageError("SETTING_FORM", f"{name} {error}", place=Place(source)) from error
