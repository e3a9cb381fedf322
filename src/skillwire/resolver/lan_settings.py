"""The settings of the local network: the tables of all places, joined.

The tables ``[discovery]`` of the project's ``skillwire.toml`` and of the user's own are joined key by key; the
project's wins for the addresses and pace that it may set. Trust, name, interfaces and reach are for the user's own
file, since a project may be an untrusted clone. A file that the environment names replaces both.

Spec: SDP §13.2. Trust: a project's table is hostile.
"""

from __future__ import annotations

import os.path
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from skillwire.errors import SourceLocation, UsageError
from skillwire.protocols.skill_discovery.settings import LanSettings, read_discovery, read_discovery_yaml
from skillwire.trust.guarded_toml import load_toml, toml_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from skillwire.resolver.settings import DiscoverySource

#: Keys that a project cannot set.
OWN: Final = ("agentId", "trust", "skillCenter", "dht", "udp.interfaces", "udp.ttl", "udp.datagramsPerSecond")
_YAML: Final = (".yaml", ".yml")


def join_discovery(sources: Sequence[DiscoverySource], read_file: Callable[[str], bytes]) -> LanSettings:
    """Return the settings in force.

    Args:
        sources: of :attr:`skillwire.resolver.settings.Settings.discovery`, first the one that wins.
        read_file: returns the bytes of a file.

    Raises:
        ValidationError: ``DISCOVERY_CONFIGURATION``. UsageError: ``SETTING_FORM`` for a key that a project may not set.
    """
    for source in sources:
        if isinstance(source.value, str) and not source.is_project:
            return _read_file(source.value, read_file)
    joined: dict[str, Any] = {}
    folder = ""
    for source in reversed(sources):
        if not isinstance(source.value, dict):
            raise UsageError("SETTING_FORM", "discovery must be a table", place=source.place)
        read_discovery(source.value, source.place.source, place=partial(_place, [source]))
        if source.is_project:
            for path in _paths(source.value):
                if any(f"{path}.".startswith(f"{own}.") for own in (*OWN, "discovery")):
                    where = "your own skillwire.toml, whose path skillwire config path prints"
                    fix = f"Set it in {where}, or in the file that SKILLWIRE_DISCOVERY names."
                    message = f"a project's file cannot set discovery.{path}"
                    raise UsageError("SETTING_FORM", message, place=source.place, fix=fix)
        else:
            folder = os.path.dirname(source.place.source)  # noqa: PTH120  # a text, no access
        _join(joined, source.value)
    if not joined:
        return LanSettings()
    return read_discovery(joined, "discovery", place=partial(_place, sources), folder=folder)


def _read_file(path: str, read_file: Callable[[str], bytes]) -> LanSettings:
    data, folder = read_file(path), os.path.dirname(path)  # noqa: PTH120  # a text, no access
    if path.lower().endswith(_YAML):
        return read_discovery_yaml(data, path, folder=folder)
    document = load_toml(data, source=path)
    return read_discovery(
        document, path, place=lambda key: toml_place(data.decode("utf-8", "replace"), key, path), folder=folder
    )


def _place(sources: Sequence[DiscoverySource], path: tuple[str, ...]) -> SourceLocation:
    """Return the location of a key of the joined table: in the first source that has it, else the first source."""
    return next((source.places[path] for source in sources if path in source.places), sources[0].place)


def _paths(table: object, before: str = "") -> Iterator[str]:
    """Yield the path of each key without a table; a key may contain dots itself."""
    if not isinstance(table, dict):
        yield before.removesuffix(".")
        return
    for key, value in table.items():
        yield from _paths(value, f"{before}{key}.")


def _join(joined: dict[str, Any], table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            _join(joined.setdefault(key, {}), value)
        else:
            joined[key] = value
