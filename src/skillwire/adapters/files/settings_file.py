"""The settings files: the project's ``skillwire.toml``, here or in a parent folder, and the user's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.adapters.files.atomic import config_directory, storage_error
from skillwire.errors import DecodeError, SourceLocation, StorageError
from skillwire.limits import SETTINGS_BYTES
from skillwire.resolver.settings import SETTINGS_FILE, SettingsLayer, environment_layer, merge_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.resolver.settings import Settings


def load_settings(project: Path, environment: Mapping[str, str]) -> Settings:
    """Return the settings in force for ``project``, without command-line options.

    Raises:
        UsageError: ``SETTING_FORM``. DecodeError: not TOML, or too large. StorageError: a file cannot be read.
    """
    return merge_settings(*settings_layers(project, environment))


def settings_layers(project: Path, environment: Mapping[str, str]) -> list[SettingsLayer]:
    """Return the settings of the environment, the project's file and the user's file, where present.

    Raises:
        DecodeError: not TOML, or too large. StorageError: a file cannot be read.
    """
    project_file = find_project_file(project)
    files = (
        _read(project_file, is_project=True) if project_file is not None else None,
        _read(user_file()),
    )
    return [environment_layer(environment), *filter(None, files)]


def read_discovery_file(path: str) -> bytes:
    """Return the bytes of the file that ``SKILLWIRE_DISCOVERY`` names.

    Raises StorageError, or DecodeError if too large.
    """
    content = _content(Path(path).expanduser())
    if content is None:
        raise StorageError(
            "STORAGE", "there is no such file", place=SourceLocation(path), fix="Correct SKILLWIRE_DISCOVERY."
        )
    return content


def user_file() -> Path:
    """Return where the user's own settings are, or would be."""
    return config_directory() / SETTINGS_FILE


def find_project_file(project: Path) -> Path | None:
    """Return the settings file of ``project``: here, or in a parent up to the repository's root or the home folder."""
    resolved = project.resolve()
    home = Path.home()
    for folder in (resolved, *resolved.parents):
        if (folder / SETTINGS_FILE).is_file():
            return folder / SETTINGS_FILE
        if folder == home or (folder / ".git").exists():
            return None
    return None


def _content(path: Path) -> bytes | None:
    """Return the bytes of a file; None when it is not there."""
    try:
        with path.open("rb") as file:
            content = file.read(SETTINGS_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path) from error
    if len(content) > SETTINGS_BYTES:
        raise DecodeError("LIMIT_SIZE", f"more than {SETTINGS_BYTES} bytes", place=SourceLocation(str(path)))
    return content


def _read(path: Path, *, is_project: bool = False) -> SettingsLayer | None:
    content = _content(path)
    if content is None:
        return None
    from skillwire.trust.guarded_toml import load_toml  # noqa: PLC0415  # most projects have no settings file

    values = load_toml(content, source=str(path))
    from skillwire.trust.guarded_toml import toml_place  # noqa: PLC0415  # as above

    text, source = content.decode(), str(path)
    places = {key: toml_place(text, (key,), source) for key in values}
    below = {path: toml_place(text, ("discovery", *path), source) for path in _paths(values.get("discovery"))}
    return SettingsLayer(source, values, is_project, places, below)


def _paths(table: object, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the keys of a table, and of those below it."""
    for key, value in table.items() if isinstance(table, dict) else ():
        yield (*above, key)
        yield from _paths(value, (*above, key))
