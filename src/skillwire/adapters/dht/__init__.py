"""The DHT: sockets, files and tasks around the pure node of Skill Discovery.

Here is the file with the state of this machine's node, for ``skillwire dht status``: the node writes it every few
seconds.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import msgspec

from skillwire import limits
from skillwire.adapters.files.atomic import read_bounded, state_directory, write_atomically
from skillwire.errors import SkillwireError
from skillwire.model.lan import DhtStatus

_NAME: Final = "dht-status.json"
_FRESH: Final = 10.0  # seconds after which the node that wrote it counts as stopped


class _Kept(msgspec.Struct, array_like=True):
    process: int
    at: float
    state: DhtStatus


def write_status(folder: Path, state: DhtStatus) -> None:
    """Write the state of this process's node into the folder of its agent. Raises: StorageError."""
    write_atomically(folder / _NAME, msgspec.json.encode(_Kept(os.getpid(), time.time(), state)), mode=0o600)


def read_status() -> tuple[int, DhtStatus] | None:
    """Return process and state of a node that runs for this user, of any agent; None without one."""
    folder = state_directory() / "lan"
    for path in (folder / _NAME, *sorted(folder.glob(f"agents/*/{_NAME}"))):
        try:
            kept = msgspec.json.decode(read_bounded(path, limits.STATE_FILE_BYTES) or b"", type=_Kept)
            os.kill(kept.process, 0)
        except (SkillwireError, ValueError, OSError, OverflowError):  # no file, no state in it, no such process
            continue
        if 0 <= time.time() - kept.at < _FRESH:
            return kept.process, kept.state
    return None
