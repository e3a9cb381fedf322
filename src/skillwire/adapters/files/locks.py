"""Lock files: what keeps two processes apart while one of them changes something."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from skillwire.adapters.files.atomic import storage_error
from skillwire.adapters.files.directories import make_folder
from skillwire.errors import ConflictError, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def take_lock(path: Path, *, wait: bool) -> int:
    """Lock a file; return the handle for :func:`release_lock`.

    The lock ends with the process, however that ends. It keeps apart those who use the same file.

    Args:
        path: of the file, which is made, with its folder.
        wait: until the other holder is done; otherwise fail at once.

    Raises:
        ConflictError: ``FOLDER_BUSY`` when another one holds it and ``wait`` is not set.
        StorageError: ``STORAGE``.
    """
    import fcntl  # noqa: PLC0415  # POSIX; only a change needs it

    while True:
        handle = _open(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # Its last holder may have removed the file between our open and our lock: lock the one that stands.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
        except BlockingIOError as error:
            os.close(handle)
            raise _busy(path) from error
        except BaseException as error:
            os.close(handle)
            if isinstance(error, OSError):
                raise storage_error(error, path) from error
            raise
        os.close(handle)


def lock_folder(folder: Path) -> int | None:
    """Lock a folder itself, as long as the returned handle is open; None where that cannot be done.

    Raises:
        ConflictError: ``FOLDER_BUSY`` when another one holds it.
    """
    import fcntl  # noqa: PLC0415  # POSIX; only a change needs it

    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # it is not there yet, or not to be read; what really stands in the way shows in the change
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise _busy(folder) from error
        return None  # a file system, such as NFS, that locks no folders: the lock file alone has to do
    except BaseException:
        os.close(handle)
        raise
    return handle


def release_lock(handle: int, path: Path) -> None:
    """Let the lock go, and remove its file; a child that is just being begun may have the file open, too."""
    import fcntl  # noqa: PLC0415  # POSIX; only a change needs it

    path.unlink(missing_ok=True)
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file meanwhile; wait until nobody else holds it.

    Raises:
        StorageError: ``STORAGE``.
    """
    handle = take_lock(path, wait=True)
    try:
        yield
    finally:
        release_lock(handle, path)


def _open(path: Path) -> int:
    try:
        make_folder(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise storage_error(error, path) from error


def _busy(path: Path) -> ConflictError:
    return ConflictError("FOLDER_BUSY", "another skillwire is changing these skills", place=Place(str(path)))
