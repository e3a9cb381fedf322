"""Where skillwire keeps its own files: settings, cache and state, each in the user's folder for it.

The XDG variables decide where they are set, on every system; the defaults are XDG's, and ``LOCALAPPDATA``
on Windows. ``SKILLWIRE_HOME`` puts all three under one folder, which suits containers and tests.
"""

from __future__ import annotations

import os
from pathlib import Path


def config_directory() -> Path:
    """Return the folder of the user's ``skillwire.toml``."""
    return _directory("config", "XDG_CONFIG_HOME", ".config")


def cache_directory() -> Path:
    """Return the folder of what can be fetched or made again: indexes, artifacts, build records."""
    return _directory("cache", "XDG_CACHE_HOME", ".cache")


def state_directory() -> Path:
    """Return the folder of what must last: known origins, the server's blobs and database."""
    return _directory("state", "XDG_STATE_HOME", ".local/state")


def make_folder(folder: str | Path, *, mode: int = 0o777) -> None:
    """Make ``folder``, unless it is there; the state folder above it is made for its owner alone.

    Who may look into the state folder sees the origins that somebody uses, and what a change was about to do.

    Raises:
        OSError: it cannot be made.
    """
    state = str(state_directory())
    if f"{folder}/".startswith(f"{state}/"):
        os.makedirs(state, mode=0o700, exist_ok=True)  # noqa: PTH103  # text: add makes a folder for each skill
    os.makedirs(folder, mode=mode, exist_ok=True)  # noqa: PTH103  # same


def _directory(part: str, variable: str, default: str) -> Path:
    if home := os.environ.get("SKILLWIRE_HOME"):
        return Path(home) / part
    if base := os.environ.get(variable):
        return Path(base) / "skillwire"
    if local := os.environ.get("LOCALAPPDATA"):
        return Path(local) / "skillwire" / part
    return Path.home() / default / "skillwire"
