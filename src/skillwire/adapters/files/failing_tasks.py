"""What does not work in running servers, for ``skillwire doctor``: a file for each process with failing tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from skillwire.adapters.files.atomic import read_state, state_directory, write_atomically
from skillwire.errors import SkillwireError

_FOLDER: Final = "failing"


def write_failing_tasks(failing: Mapping[str, str]) -> None:
    """Record the failing tasks of this process with their codes. Where the disk fails, ``doctor`` finds that itself."""
    path = state_directory() / _FOLDER / f"{os.getpid()}.json"
    with suppress(SkillwireError, OSError):
        if failing:
            write_atomically(path, json.dumps(failing).encode(), mode=0o600)
        else:
            path.unlink(missing_ok=True)


def read_failing_tasks() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the number of each running process with failing tasks, and the tasks with their codes."""
    for path in sorted((state_directory() / _FOLDER).glob("[0-9]*.json")):
        with suppress(ProcessLookupError, PermissionError):  # it was killed; its number may be another user's now
            os.kill(int(path.stem), 0)
            yield path.stem, read_state(path)
