"""Writing a file so that a reader sees the old bytes or the new ones, never half of either."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from skillwire.adapters.files.directories import make_folder
from skillwire.errors import Place, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Write ``content`` beside ``path`` and rename it into place; missing parents are made.

    With ``durable`` it is on the disk when this returns, for what cannot be made again.

    Raises:
        StorageError: ``STORAGE``, with the path.
    """
    folder, name = os.path.split(path)
    temporary = f"{folder or '.'}/.{name}.{os.urandom(6).hex()}.tmp"
    try:
        try:
            with open(_create(temporary, mode, durable=durable), "wb") as file:  # from a handle: mode and O_EXCL hold
                file.write(content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)  # noqa: PTH105  # text: add writes one blob for each skill
            if durable:
                sync_folder(folder or ".")
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108  # same
            raise
    except OSError as error:
        raise storage_error(error, path) from error


def sync_folder(folder: str | Path) -> None:
    """Have the names in ``folder`` on the disk when this returns."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _create(path: str, mode: int, *, durable: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, mode)
    except FileNotFoundError:  # most often the folder is there, and one call is enough
        folder = os.path.dirname(path)  # noqa: PTH120  # text, as above
        holders = list(_holders_of_new_folders(folder)) if durable else []
        make_folder(folder)
        for holder in holders:  # the name of a new folder lasts when the one that holds it is synced
            sync_folder(holder)
        return os.open(path, flags, mode)


def _holders_of_new_folders(folder: str) -> Iterator[str]:
    while folder and not os.path.isdir(folder):  # noqa: PTH112  # same
        folder = os.path.dirname(folder)  # noqa: PTH120  # same
        yield folder or "."


def storage_error(error: OSError, path: Path) -> StorageError:
    """Return ``error`` as ours, with the path and the system's own words."""
    return StorageError("STORAGE", f"{error.strerror or error}", place=Place(str(path)))


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn what the system refuses inside into ``STORAGE`` at ``path``."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error
