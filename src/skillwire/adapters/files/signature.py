"""The signature of a folder: whether anything in it changed, without reading a file.

It covers what the system says of each entry that can belong to a skill: path, kind, size, mode, inode, and both
times. An editor that keeps size and modification time still changes the inode or the time of change, which no
program can set.

Two changes within one tick of the file system's clock look alike. So a signature whose newest change is hardly
in the past is not *settled*: it says what was seen, but the same signature later does not prove that nothing changed.
"""

from __future__ import annotations

import hashlib
import os
import time
from stat import S_ISDIR
from typing import Final, NamedTuple

from skillwire.folder.files import is_junk

#: Longer than a tick of any file system's clock that keeps fractions of a second (Linux: 10 ms at most).
_TICK_NS: Final = 50_000_000


class Signature(NamedTuple):
    """What a folder looked like; ``settled`` when an equal signature later means an unchanged folder."""

    value: str
    settled: bool


def sign_folder(folder: str) -> Signature:
    """Return the signature of ``folder``; one of its own for a folder that cannot be read."""
    now = time.time_ns()
    lines: list[str] = []
    newest = _collect(folder, "", lines)
    text = "\n".join(sorted(lines)).encode("utf-8", "surrogateescape")
    return Signature(hashlib.blake2b(text, digest_size=16).hexdigest(), now - newest > _TICK_NS)


def _collect(folder: str, prefix: str, lines: list[str]) -> int:
    """Add a line for each entry to ``lines``; return the time of the newest change, in nanoseconds."""
    newest = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if is_junk(name):
                    continue
                seen = entry.stat(follow_symlinks=False)
                mode, changed = seen.st_mode, seen.st_ctime_ns
                line = f"{prefix}{name}\0{mode}\0{seen.st_size}\0{seen.st_mtime_ns}\0{changed}\0{seen.st_ino}"
                lines.append(line)
                if changed > newest:  # noqa: PLR1730  # a call for each of 50,000 files is felt
                    newest = changed
                if S_ISDIR(mode):
                    newest = max(newest, _collect(entry.path, f"{prefix}{name}/", lines))
    except OSError as error:  # something went away or is closed to us; who reads it next says so
        lines.append(f"{prefix}\0{error.errno}")
    return newest
