"""What does not work in running servers, for ``skillwire doctor``: a file for each process with failing tasks."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import read_state, state_directory, write_atomically
from skillwire.errors import SkillwireError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FOLDER: Final = "failing"


def write_failing(failing: Mapping[str, str]) -> None:
    """Record the failing tasks of this process with their codes, and remove the records of processes that have ended.

    Nothing is raised: where the disk fails, ``doctor`` finds that by itself.
    """
    own = state_directory() / _FOLDER / f"{os.getpid()}.json"
    with suppress(SkillwireError, OSError):
        for path in own.parent.glob("*.json"):
            if path == own or not _is_running(path):
                path.unlink(missing_ok=True)
        if failing:
            write_atomically(own, json.dumps(dict(failing)).encode(), mode=0o600)


def read_failing() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the number of each process with failing tasks, and the tasks with their codes."""
    for path in sorted((state_directory() / _FOLDER).glob("*.json")):
        if _is_running(path):
            yield path.stem, read_state(path)


def _is_running(path: Path) -> bool:
    try:
        os.kill(int(path.stem), 0)
    except PermissionError:  # another user's
        return True
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    return True
