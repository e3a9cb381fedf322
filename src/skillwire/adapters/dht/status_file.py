"""The state of this machine's node in a file, for ``skillwire dht status``: the node writes it every few seconds."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import msgspec

from skillwire import limits
from skillwire.adapters.files.atomic import read_bounded, state_directory, write_atomically
from skillwire.errors import SkillwireError
from skillwire.model.dht import DhtStatus

_NAME: Final = "dht-status.json"
_FRESH: Final = 10.0  # seconds after which the node that wrote it counts as stopped


class _Kept(msgspec.Struct, array_like=True):
    process: int
    at: float
    state: DhtStatus


def write(folder: Path, state: DhtStatus) -> None:
    """Write the state of this process's node into the folder of its agent. Raises: StorageError."""
    write_atomically(folder / _NAME, msgspec.json.encode(_Kept(os.getpid(), time.time(), state)), mode=0o600)


def read() -> tuple[int, DhtStatus] | None:
    """Return process and state of the node that runs for this user; None without one."""
    try:
        content = read_bounded(state_directory() / "lan" / _NAME, limits.STATE_FILE_BYTES)
        kept = msgspec.json.decode(content or b"", type=_Kept)
        os.kill(kept.process, 0)
    except (SkillwireError, ValueError, OSError, OverflowError):  # no file, no state in it, no such process
        return None
    return (kept.process, kept.state) if 0 <= time.time() - kept.at < _FRESH else None
