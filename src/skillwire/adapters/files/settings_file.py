"""The settings files: the project's ``skillwire.toml`` (here or in a parent) and the user's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.adapters.files.atomic import storage_error
from skillwire.adapters.files.directories import config_directory
from skillwire.resolver.settings import SETTINGS_FILE, SettingsLayer, environment_layer, merge_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.resolver.settings import Settings


def load_settings(project: Path, environment: Mapping[str, str]) -> Settings:
    """Return the settings in force for ``project``, flags not yet applied.

    Raises:
        UsageError: ``SETTING_FORM``. DecodeError: not TOML. StorageError: a file cannot be read.
    """
    project_file = _project_file(project)
    layers = (
        _read(project_file, is_project=True) if project_file is not None else None,
        _read(config_directory() / SETTINGS_FILE),
    )
    return merge_settings(environment_layer(environment), *filter(None, layers))


def _project_file(project: Path) -> Path | None:
    resolved = project.resolve()
    home = Path.home()
    for folder in (resolved, *resolved.parents):
        if (folder / SETTINGS_FILE).is_file():
            return folder / SETTINGS_FILE
        if folder == home or (folder / ".git").exists():
            return None
    return None


def _read(path: Path, *, is_project: bool = False) -> SettingsLayer | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path) from error
    from skillwire.trust.guarded_toml import load_toml  # noqa: PLC0415  # most projects have no settings file

    return SettingsLayer(str(path), load_toml(content, source=str(path)), is_project)
