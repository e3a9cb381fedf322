"""Downloads on their way into a blob folder, kept when they break off.

``partial/<digest>`` holds the first bytes of an artifact, as they came. One process writes it, which holds a lock on
the file; another one that wants the same artifact fetches it into memory. Nothing there is trusted: the bytes are
hashed when they are taken up again, and only a file whose digest is the expected one becomes a blob, by a rename.
Nothing is synced to the disk, since what a power cut garbles fails its digest and is fetched anew.

Whoever drives the conversation may let go (:meth:`FileDownload.close`) while a thread still receives: from then on it
takes nothing, so that no byte ever goes to whatever file has got the same descriptor since.

When a download begins, those that nobody has continued for days are removed, and so are the oldest beyond a number
and a total size.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import threading
import time
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.files.atomic import storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPEN: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class FileDownload:
    """Fills :class:`skillwire.ports.Download`; what an earlier one left is taken up.

    Args:
        path: where it lies until it is whole.
        place: where it lies then.
    """

    def __init__(self, path: Path, place: Path) -> None:
        self.size = 0
        self._path = path
        self._place = place
        self._hash = hashlib.sha256()
        self._turn = threading.Lock()
        self._closed = False
        self._handle = self._open(0)
        if self._handle is not None:
            self._take_up(self._handle)

    def begin(self, position: int) -> bool:
        """Go on at ``position``, which is 0 or the size; False when the disk or another process does not let us."""
        with self._turn:
            if self._handle is None and not self._closed:
                with contextlib.suppress(OSError):  # a disk that takes nothing costs the continuing, not the download
                    self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
                    prune(self._path.parent)
                self._handle = self._open(os.O_CREAT)
            if self._handle is not None and position != self.size:
                os.ftruncate(self._handle, 0)
                os.lseek(self._handle, 0, os.SEEK_SET)
                self.size, self._hash = 0, hashlib.sha256()
            return self._handle is not None and position == self.size

    def append(self, data: bytes | bytearray) -> None:
        """Write the next bytes.

        Raises:
            StorageError: ``STORAGE``; then nothing is kept, since the room is needed.
        """
        with self._turn:
            try:
                self._write(data)
            except OSError as error:
                self._discard()
                raise storage_error(error, self._path) from error

    def _write(self, data: bytes | bytearray) -> None:
        if self._handle is None:
            raise OSError(errno.EBADF, "the download was ended")
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._handle, rest) :]
        self._hash.update(data)
        self.size += len(data)

    def digest(self) -> str:
        """Return the digest of what was written."""
        return f"sha256:{self._hash.hexdigest()}"

    def keep(self) -> None:
        """Rename it to its place.

        Raises:
            StorageError: ``STORAGE``.
        """
        try:
            self._place.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            self._path.rename(self._place)
        except OSError as error:
            raise storage_error(error, self._place) from error
        finally:
            self.close()

    def discard(self) -> None:
        """Remove it; another one may begin in its place."""
        with self._turn:
            self._discard()

    def _discard(self) -> None:
        self.size, self._hash = 0, hashlib.sha256()
        self._let_go()

    def close(self) -> None:
        """Let go of the file, which stays unless there is nothing in it; nothing is taken any more."""
        with self._turn:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        if self._handle is not None:
            if not self.size:
                self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None

    def _take_up(self, handle: int) -> None:
        while piece := os.read(handle, limits.DOWNLOAD_PIECE_BYTES):
            self._hash.update(piece)
            self.size += len(piece)

    def _open(self, flags: int) -> int | None:
        """Open and lock the file; None when it is not there, or another process has it."""
        try:
            handle = os.open(self._path, _OPEN | flags, _FILE_MODE)
        except OSError:  # absent, or not for us: the download goes without
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have renamed or removed the file between our open and our lock.
            if os.path.samestat(os.fstat(handle), self._path.lstat()):
                return handle
        except OSError:  # held by another process, or gone: as above
            pass
        os.close(handle)
        return None


def prune(folder: Path) -> None:
    """Remove downloads that are too old, too many or too large together, except those that a process is writing.

    What is no regular file is none of ours and stays; one that cannot be removed keeps none of the others.

    Raises:
        OSError: the folder cannot be read.
    """
    newest_first = sorted(_statuses(folder), key=lambda row: -row[0].st_mtime)
    oldest = time.time() - limits.DOWNLOADS_KEPT_SECONDS
    total = 0
    for number, (status, path) in enumerate(newest_first, 1):
        total += status.st_size
        # One more is about to begin.
        is_over = number >= limits.DOWNLOADS_KEPT or total > limits.DOWNLOADS_KEPT_BYTES
        if is_over or status.st_mtime < oldest:
            with contextlib.suppress(OSError):  # gone, held by a process that writes it, or not ours to remove
                _remove(path)


def _statuses(folder: Path) -> Iterator[tuple[os.stat_result, Path]]:
    for path in folder.iterdir():
        try:
            status = path.lstat()
        except OSError:  # another process has removed it in between
            continue
        if stat.S_ISREG(status.st_mode):
            yield status, path


def _remove(path: Path) -> None:
    handle = os.open(path, _OPEN)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(handle)
