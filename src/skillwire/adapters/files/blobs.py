"""Blobs in a folder: immutable bytes, each in a file named by its digest; and downloads on their way there.

``ab/cdef…`` holds the bytes whose SHA-256 is ``abcdef…``. A blob is written beside its place and renamed, so it is
complete or absent. Content that can be made again is not synced to the disk: after a power cut a file may be damaged,
which :meth:`FileBlobs.has` finds by size, :meth:`FileBlobs.read` and :meth:`FileBlobs.path` by digest; a damaged blob
counts as absent. ``path`` hashes a file once in a process, and again after its inode, time or size has changed.
Several servers may share a folder. Each holds a shared lock while it serves; a server removes unused blobs only when it
holds the only lock.

``partial/<digest>`` holds the first bytes of an interrupted download. One process writes it under a lock; another that
wants the same artifact fetches it into memory. Nothing there is trusted: the bytes are hashed again on resumption, and
only a file with the expected digest becomes a blob. A caller may close a download (:meth:`FileDownload.close`) while a
thread still receives: later bytes are dropped and never reach a file that reuses the descriptor. Each new download
removes old partial ones beyond a number, an age and a total size.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Final

from skillwire import limits
from skillwire.adapters.files.atomic import (
    make_folder,
    open_locked,
    storage_error,
    storage_errors,
    sync_folder,
    write_all,
    write_atomically,
)
from skillwire.errors import DecodeError
from skillwire.model.digest import Digest

_OPEN: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_VERIFIED_FILES: Final = 4_096  # only blobs too large for memory are used as files


class FileDownload:
    """Fills :class:`skillwire.ports.Download`; resumes an earlier part. ``path`` becomes ``place`` when complete."""

    def __init__(self, path: Path, place: Path) -> None:
        self.size = 0
        self._path = path
        self._place = place
        self._hash = hashlib.sha256()
        self._turn = threading.Lock()
        self._closed = False
        self._handle = self._open(0)
        if self._handle is not None:
            while piece := os.read(self._handle, limits.DOWNLOAD_PIECE_BYTES):
                self._hash.update(piece)
                self.size += len(piece)

    def begin(self, position: int) -> bool:
        """Continue at ``position``, 0 or the size; False when the disk or another process prevents it."""
        with self._turn:
            if self._handle is None and not self._closed:
                with contextlib.suppress(OSError):  # without it the download cannot be resumed, only made
                    self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
                    prune(self._path.parent)
                self._handle = self._open(os.O_CREAT)
            if self._handle is not None and position != self.size:
                os.ftruncate(self._handle, 0)
                os.lseek(self._handle, 0, os.SEEK_SET)
                self._reset()
            return self._handle is not None and position == self.size

    def append(self, data: bytes | bytearray) -> None:
        """Write the next bytes. Raises StorageError (``STORAGE``) and removes the part, to free the space."""
        with self._turn:
            if self._handle is None:
                raise storage_error(OSError(errno.EBADF, "the download has ended"), self._path)
            try:
                write_all(self._handle, data)
            except OSError as error:
                self._reset()
                self._release()
                raise storage_error(error, self._path) from error
            self._hash.update(data)
            self.size += len(data)

    def digest(self) -> str:
        """Return the digest of what was written."""
        return f"sha256:{self._hash.hexdigest()}"

    def keep(self) -> None:
        """Move the complete download to its place. Raises StorageError (``STORAGE``)."""
        try:
            with storage_errors(self._place):
                self._place.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
                self._path.rename(self._place)
        finally:
            self.close()

    def discard(self) -> None:
        """Remove the file; another download may begin in its place."""
        with self._turn:
            self._reset()
            self._release()

    def _reset(self) -> None:
        self.size, self._hash = 0, hashlib.sha256()

    def close(self) -> None:
        """Release the file, and remove an empty one; later bytes are dropped."""
        with self._turn:
            self._closed = True
            self._release()

    def _release(self) -> None:
        if self._handle is not None:
            if not self.size:
                self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None

    def _open(self, flags: int) -> int | None:
        """Open and lock the file; None when it does not exist, or another process has it."""
        try:
            return open_locked(self._path, _OPEN | flags, mode=_FILE_MODE)
        except OSError:  # absent, held by another process, or not for us: the download does without
            return None


def prune(folder: Path) -> None:
    """Remove downloads that are too old, too many or too large together, except those being written. Raises OSError."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process has removed it in between
            if stat.S_ISREG((status := path.lstat()).st_mode):
                found.append((status, path))
    oldest, total = time.time() - limits.DOWNLOADS_KEPT_SECONDS, 0
    for number, (status, path) in enumerate(sorted(found, key=lambda row: -row[0].st_mtime), 1):
        total += status.st_size
        # One more is about to begin.
        is_over = number >= limits.DOWNLOADS_KEPT or total > limits.DOWNLOADS_KEPT_BYTES
        if is_over or status.st_mtime < oldest:
            with contextlib.suppress(OSError):  # gone, locked by a process that writes it, or not ours to remove
                handle = os.open(path, _OPEN)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(handle)


#: Prefix of the names of unfinished blobs.
NEW: Final = ".new-"
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
#: Readable by all, within a folder of its owner: under root, the sandbox reads it as another user.
_RUN_FILE_MODE: Final = 0o444


class FileBlobWriting:
    """A blob that is being written: hashes the bytes while they go to a temporary file of the blob folder."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.size = 0
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self._path = folder / f"{NEW}{os.urandom(12).hex()}"
        with storage_errors(self._path):
            make_folder(folder, mode=_FOLDER_MODE)
            self._handle: int | None = os.open(self._path, _FLAGS, 0o600)

    @property
    def digest(self) -> Digest:
        """The digest of what was written."""
        return Digest(f"sha256:{self._hash.hexdigest()}")

    def write(self, data: bytes) -> None:
        """Write the next bytes. Raises DecodeError (``LIMIT_SIZE``), StorageError (``STORAGE``)."""
        self.size += len(data)
        if self.size > self._max_bytes:
            fix = "Hand it in as several blobs, each of them smaller."
            raise DecodeError("LIMIT_SIZE", f"a blob has {self._max_bytes:,} bytes at most", fix=fix)
        self._hash.update(data)
        with storage_errors(self._path):
            write_all(self._open, data)

    def finish(self) -> None:
        """Sync the blob to the disk. Raises StorageError (``STORAGE``)."""
        with storage_errors(self._path):
            os.fchmod(self._open, _RUN_FILE_MODE)
            os.fsync(self._open)

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield what was written, at least one piece. Raises StorageError (``STORAGE``)."""
        with storage_errors(self._path), self._path.open("rb") as file:
            yield file.read(size)
            while piece := file.read(size):
                yield piece

    def move(self, place: Path) -> None:
        """Move the blob to ``place``. Raises StorageError (``STORAGE``)."""
        with storage_errors(place):
            if not place.parent.is_dir():
                make_folder(place.parent, mode=_FOLDER_MODE)
                sync_folder(place.parent.parent)
            self._path.replace(place)
            sync_folder(place.parent)

    def close(self) -> None:
        """Remove what was written, unless it was moved to its place."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            self._path.unlink(missing_ok=True)

    @property
    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("this blob is closed")
        return self._handle


class FileBlobs:
    """Fills :class:`~skillwire.ports.BlobStore` with a folder; a ``durable`` one syncs each blob to the disk.

    ``on_lost`` is called with the digest of each blob that was to be read and is absent or damaged, and returns its
    bytes where they can be made again.
    """

    def __init__(self, directory: Path, *, durable: bool = False) -> None:
        self.directory = directory
        self.on_lost: Callable[[Digest], bytes | None] = lambda _: None
        self._durable = durable
        self._lock: int | None = None
        self._verified: dict[Digest, tuple[int, int, int]] = {}  # inode, time and size of the file that was hashed

    def put(self, content: bytes) -> Digest:
        """Store ``content`` and return its digest. Raises StorageError (``STORAGE``)."""
        place = self._place(digest := Digest.of(content))
        if self.has(digest, len(content)):
            with storage_errors(place), contextlib.suppress(FileNotFoundError):  # it may be removed at this moment
                if self._durable:  # its age says since when nothing owns it
                    os.utime(place)
                return digest
        write_atomically(place, content, mode=_FILE_MODE, durable=self._durable)
        return digest

    def read(self, digest: Digest) -> bytes | None:
        """Return the bytes, or None when they are absent or do not match their digest, and cannot be made again."""
        try:
            content = self._place(digest).read_bytes()
        except OSError:  # absent or unreadable
            return self.on_lost(digest)
        return content if Digest.of(content) == digest else self._remove_damaged(digest)

    def has(self, digest: Digest, size: int) -> bool:
        """Whether the bytes are there, judged by their size."""
        try:
            return os.stat(self._name(digest)).st_size == size  # noqa: PTH116  # text: asked 50,000 times at a start
        except OSError:  # as above
            return False

    def path(self, digest: Digest) -> Path | None:
        """Return the file that holds the bytes, or None; its first use hashes it."""
        path = self._place(digest)
        try:
            status = path.stat()
            identity = status.st_ino, status.st_mtime_ns, status.st_size
            if self._verified.get(digest) == identity:
                return path
            with path.open("rb") as file:
                is_intact = hashlib.file_digest(file, "sha256").hexdigest() == digest.hex
        except OSError:  # as above
            return None
        if not is_intact:
            self._remove_damaged(digest)
            return None
        if len(self._verified) >= _VERIFIED_FILES:
            self._verified.clear()
        self._verified[digest] = identity
        return path

    def remove(self, digest: Digest) -> None:
        """Remove a blob, if it exists."""
        self._place(digest).unlink(missing_ok=True)

    def files(self) -> Iterator[tuple[Path, Digest]]:
        """Yield each file with the digest in its name; leftovers of writes have no valid one."""
        for shard in self.directory.glob("[0-9a-f][0-9a-f]"):
            for file in shard.iterdir():
                yield file, Digest(f"sha256:{shard.name}{file.name}")

    def aged(self, before: float) -> Iterator[tuple[Digest, Callable[[], bool]]]:
        """Yield digests of files older than ``before``, and what removes each if it still is. Raises StorageError."""

        def is_old(path: Path) -> bool:
            with contextlib.suppress(FileNotFoundError):  # another write or server may move or remove it
                return path.stat().st_mtime < before
            return False

        def remove(path: Path) -> bool:
            with storage_errors(path):
                if found := is_old(path):
                    path.unlink(missing_ok=True)
                return found

        with storage_errors(self.directory):
            for path, digest in self.files():
                if is_old(path):
                    yield digest, functools.partial(remove, path)

    def download(self, digest: Digest) -> FileDownload:
        """Return the download of a blob, as far as it came; it is beside the blobs until it is whole."""
        return FileDownload(self.directory / "partial" / digest.hex, self._place(digest))

    def lock(self) -> None:
        """Hold the folder, together with others, until :meth:`unlock`: nothing in it is removed meanwhile."""
        if self._lock is None:
            make_folder(self.directory, mode=_FOLDER_MODE)
            self._lock = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def unlock(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove_unused(self, used: Container[Digest]) -> int:
        """Remove the blobs that are not ``used``, unless another process holds the folder; return how many."""
        if self._lock is None:
            return 0
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._lock, fcntl.LOCK_SH)  # a failed conversion may have lost the shared lock
            return 0
        removed = 0
        for file, digest in self.files():
            if digest not in used:  # left-over temporary files included
                file.unlink(missing_ok=True)
                removed += 1
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        return removed

    def _remove_damaged(self, digest: Digest) -> bytes | None:
        self._place(digest).unlink(missing_ok=True)  # else its correct size would keep put from replacing it
        return self.on_lost(digest)

    def _place(self, digest: Digest) -> Path:
        return Path(self._name(digest))

    def _name(self, digest: Digest) -> str:
        name = digest.hex
        return f"{self.directory}/{name[:2]}/{name[2:]}"
