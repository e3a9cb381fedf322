"""A blob on its way to the disk: written beside the others under no name of theirs, hashed as it comes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import storage_errors, sync_folder
from skillwire.adapters.files.directories import make_folder
from skillwire.errors import DecodeError
from skillwire.model.digest import Digest

if TYPE_CHECKING:
    from pathlib import Path

#: How the names of files begin that are no blobs yet.
NEW: Final = ".new-"
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER_MODE: Final = 0o700
#: For everybody, within a folder that is its owner's: where we are root, the sandbox reads it as somebody else.
_FILE_MODE: Final = 0o444


class FileBlobWriting:
    """Fills :class:`skillwire.ports.BlobWriting`.

    Args:
        folder: of the blobs; made when it is not there.
        max_bytes: of one.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._size = 0
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self._path = folder / f"{NEW}{os.urandom(12).hex()}"
        with storage_errors(self._path):
            make_folder(folder, mode=_FOLDER_MODE)
            self._handle: int | None = os.open(self._path, _FLAGS, 0o600)

    @property
    def size(self) -> int:
        """How many bytes were written."""
        return self._size

    @property
    def digest(self) -> Digest:
        """The digest of what was written."""
        return Digest(f"sha256:{self._hash.hexdigest()}")

    def write(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            DecodeError: ``LIMIT_SIZE``. StorageError: ``STORAGE``.
        """
        self._size += len(data)
        if self._size > self._max_bytes:
            fix = "Hand it in as several blobs, each of them smaller."
            raise DecodeError("LIMIT_SIZE", f"a blob has {self._max_bytes:,} bytes at most", fix=fix)
        self._hash.update(data)
        rest = memoryview(data)
        with storage_errors(self._path):
            while rest:
                rest = rest[os.write(self._open, rest) :]

    def finish(self) -> None:
        """Have all of it on the disk.

        Raises:
            StorageError: ``STORAGE``.
        """
        with storage_errors(self._path):
            os.fchmod(self._open, _FILE_MODE)
            os.fsync(self._open)

    def move(self, place: Path) -> None:
        """Give it its place, in place of another one with the same bytes.

        Raises:
            StorageError: ``STORAGE``.
        """
        with storage_errors(place):
            if not place.parent.is_dir():
                make_folder(place.parent, mode=_FOLDER_MODE)
                sync_folder(place.parent.parent)
            self._path.replace(place)
            sync_folder(place.parent)

    def close(self) -> None:
        """Forget what was written, unless it has its place."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            with contextlib.suppress(FileNotFoundError):  # it has its place
                self._path.unlink()

    @property
    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("this blob is closed")
        return self._handle
