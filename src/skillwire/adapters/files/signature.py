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
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.folder.files import is_junk

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Longer than a tick of any file system's clock that keeps fractions of a second (Linux: 10 ms at most).
_TICK_NS: Final = 50_000_000


class Signature(NamedTuple):
    """What a folder looked like; ``settled`` when an equal signature later means an unchanged folder."""

    value: str
    settled: bool


def sign_folder(folder: str) -> Signature:
    """Return the signature of ``folder``; that of an empty one when it cannot be read."""
    now = time.time_ns()
    newest = 0
    hasher = hashlib.blake2b(digest_size=16)
    for line, changed in _entries(folder, ""):
        hasher.update(line)
        newest = max(newest, changed)
    return Signature(hasher.hexdigest(), now - newest > _TICK_NS)


def _entries(folder: str, prefix: str) -> Iterator[tuple[bytes, int]]:
    try:
        with os.scandir(folder) as found:
            entries = sorted((entry for entry in found if not is_junk(entry.name)), key=lambda entry: entry.name)
    except OSError as error:  # the folder went away or is closed to us; who reads it next says so
        yield f"{prefix}\0{error.errno}\n".encode("utf-8", "surrogateescape"), 0
        return
    for entry in entries:
        try:
            seen = entry.stat(follow_symlinks=False)
        except OSError:  # it went away between two calls; the folder's own times differ then
            continue
        path = prefix + entry.name
        line = f"{path}\0{seen.st_mode}\0{seen.st_size}\0{seen.st_mtime_ns}\0{seen.st_ctime_ns}\0{seen.st_ino}\n"
        yield line.encode("utf-8", "surrogateescape"), seen.st_ctime_ns
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path, path + "/")
