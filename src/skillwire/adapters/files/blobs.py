"""Blobs in a folder: immutable bytes, each in a file named by its digest.

``ab/cdef…`` holds the bytes whose SHA-256 is ``abcdef…``. A blob is written beside its place and renamed, so it
is there whole or not at all. What can be made again from the skills is not synced to the disk.
After a power cut a file may be short or garbled: :meth:`FileBlobs.has` judges by the size and
:meth:`FileBlobs.read` by the digest, and what fails is as good as absent.

Several servers may share a folder. Each holds a shared lock as long as it serves; blobs that no catalog uses are
removed only by one that finds itself alone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import write_atomically
from skillwire.adapters.files.directories import make_folder
from skillwire.adapters.files.downloads import FileDownload
from skillwire.model.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class FileBlobs:
    """A :class:`~skillwire.ports.BlobStore` in ``directory``, which is made when the first blob comes.

    One that is ``durable`` has synced a blob to the disk when :meth:`put` returns.
    """

    def __init__(self, directory: Path, *, durable: bool = False) -> None:
        self.directory = directory
        self._durable = durable
        self._lock: int | None = None

    def put(self, content: bytes) -> Digest:
        """Keep ``content``; return its digest.

        Raises:
            StorageError: ``STORAGE`` when it cannot be written.
        """
        digest = Digest.of(content)
        if not self.has(digest, len(content)):
            write_atomically(self._place(digest), content, mode=_FILE_MODE, durable=self._durable)
        return digest

    def read(self, digest: Digest) -> bytes | None:
        """Return the bytes, or None when they are absent or no longer what their digest says."""
        try:
            content = self._place(digest).read_bytes()
        except OSError:  # absent and unreadable mean the same to who asks: make it again
            return None
        if Digest.of(content) != digest:
            self._place(digest).unlink(missing_ok=True)  # else its right size would keep put from mending it
            return None
        return content

    def has(self, digest: Digest, size: int) -> bool:
        """Whether the bytes are there, judged by their size."""
        try:
            return os.stat(self._place(digest)).st_size == size  # noqa: PTH116  # asked 50,000 times at a start
        except OSError:  # absent and unreadable mean the same to who asks: make it again
            return False

    def path(self, digest: Digest) -> Path | None:
        """Return the file that holds the bytes, or None."""
        path = self._place(digest)
        return path if path.is_file() else None

    def remove(self, digest: Digest) -> None:
        """Remove a blob; one that is not there is as good as removed."""
        self._place(digest).unlink(missing_ok=True)

    def files(self) -> Iterator[tuple[Path, Digest]]:
        """Yield each file with the digest that its name says; what was left over of a write has none that is one."""
        for shard in self.directory.glob("[0-9a-f][0-9a-f]"):
            for file in shard.iterdir():
                yield file, Digest(f"sha256:{shard.name}{file.name}")

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
        """Let go of the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove_unused(self, used: Container[Digest]) -> int:
        """Remove the blobs that are not ``used``, unless another process holds the folder; return how many."""
        if self._lock is None or not self._is_alone(self._lock):
            return 0
        removed = 0
        for file, digest in self.files():
            if digest not in used:  # left-over temporary files included
                file.unlink(missing_ok=True)
                removed += 1
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        return removed

    def _is_alone(self, lock: int) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)  # a failed conversion may have lost the shared lock
            return False
        return True

    def _place(self, digest: Digest) -> Path:
        name = digest.hex
        return Path(f"{self.directory}/{name[:2]}/{name[2:]}")
