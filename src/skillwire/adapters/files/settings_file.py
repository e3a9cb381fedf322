"""The settings files: the project's ``skillwire.toml``, here or in a parent folder, and the user's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.adapters.files.atomic import config_directory, home_directory, read_bounded
from skillwire.errors import DecodeError, SourceLocation, StorageError
from skillwire.limits import SETTINGS_BYTES
from skillwire.resolver.settings import (
    SETTINGS_FILE,
    Settings,
    SettingsLayer,
    environment_layer,
    join_discovery,
    merge_settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.protocols.skill_discovery.settings import LanSettings


def load_settings(project: Path, environment: Mapping[str, str]) -> Settings:
    """Return the settings for ``project``, without command-line options. Raises UsageError (``SETTING_FORM``)."""
    return merge_settings(*settings_layers(project, environment))


def settings_layers(project: Path, environment: Mapping[str, str]) -> list[SettingsLayer]:
    """Return the settings of environment, project file and user file. Raises DecodeError, StorageError."""
    project_file = find_project_file(project)
    layers = [_read(project_file, is_project=True) if project_file else None, _read(user_file())]
    return [environment_layer(environment), *filter(None, layers)]


def read_discovery_file(path: str) -> bytes:
    """Return the bytes of the file that ``SKILLWIRE_DISCOVERY`` names. Raises StorageError, DecodeError."""
    content = _content(Path(path).expanduser())
    if content is None:
        fix = "Correct SKILLWIRE_DISCOVERY."
        raise StorageError("STORAGE", "the file does not exist", place=SourceLocation(path), fix=fix)
    return content


def own_discovery(project: Path | str = ".") -> LanSettings:
    """Return the settings of the local network for ``project``: its own and the user's, joined.

    Raises as :func:`load_settings` and :func:`~skillwire.resolver.settings.join_discovery`.
    """
    return join_discovery(load_settings(Path(project), os.environ).discovery, read_discovery_file)


def user_file() -> Path:
    """Return the path of the user's own settings file, which may not exist."""
    return config_directory() / SETTINGS_FILE


def find_project_file(project: Path) -> Path | None:
    """Return the settings file of ``project``: here, or in a parent up to the repository's root or the home folder."""
    resolved = project.resolve()
    home = home_directory()
    for folder in (resolved, *resolved.parents):
        if (folder / SETTINGS_FILE).is_file():
            return folder / SETTINGS_FILE
        if folder == home or (folder / ".git").exists():
            return None
    return None


def _content(path: Path) -> bytes | None:
    content = read_bounded(path, SETTINGS_BYTES + 1)
    if content is not None and len(content) > SETTINGS_BYTES:
        raise DecodeError("LIMIT_SIZE", f"more than {SETTINGS_BYTES} bytes", place=SourceLocation(str(path)))
    return content


def _read(path: Path, *, is_project: bool = False) -> SettingsLayer | None:
    content = _content(path)
    if content is None:
        return None
    from skillwire.trust.guarded_toml import load_toml, toml_place  # noqa: PLC0415  # most projects have no such file

    source = str(path)
    values, text = load_toml(content, source=source), content.decode()
    places = {key: toml_place(text, (key,), source) for key in values}
    below = {path: toml_place(text, ("discovery", *path), source) for path in _paths(values.get("discovery"))}
    return SettingsLayer(source, values, is_project, places, below)


def _paths(table: object, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in table.items() if isinstance(table, dict) else ():
        yield (*above, key)
        yield from _paths(value, (*above, key))


def local_authority_folder(settings: LanSettings) -> Path | None:
    """Return the folder of the authority that the settings name, if it is on this machine."""
    name = settings.authority or settings.renew_from
    return Path(name) if name and "://" not in name else None
