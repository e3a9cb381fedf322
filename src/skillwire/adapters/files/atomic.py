"""The user's folders for settings, cache and state; atomic file writes; lock files between processes.

The XDG variables decide where the folders are, on every system; the defaults are XDG's, and ``LOCALAPPDATA`` on
Windows. ``SKILLWIRE_HOME`` puts all three under one folder, for containers and tests. A reader of a file written here
sees the old bytes or the new ones, never a part of either.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.errors import ConflictError, SourceLocation, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator


def config_directory() -> Path:
    """Return the folder of the user's ``skillwire.toml``."""
    return _directory("config", "XDG_CONFIG_HOME", ".config")


def cache_directory() -> Path:
    """Return the folder of what can be fetched or made again: indexes, artifacts, build records."""
    return _directory("cache", "XDG_CACHE_HOME", ".cache")


def state_directory() -> Path:
    """Return the folder of what must last: known origins, the server's blobs and database."""
    return _directory("state", "XDG_STATE_HOME", ".local/state")


def make_folder(folder: str | Path, *, mode: int = 0o777) -> None:
    """Make ``folder`` unless it exists; raises OSError. A new state folder above it is accessible to its owner only.

    The state folder shows which origins the user works with and what a change was about to do.
    """
    state = str(state_directory())
    if f"{folder}/".startswith(f"{state}/"):
        os.makedirs(state, mode=0o700, exist_ok=True)  # noqa: PTH103  # text: add makes a folder for each skill
    os.makedirs(folder, mode=mode, exist_ok=True)  # noqa: PTH103  # same


def _directory(part: str, variable: str, default: str) -> Path:
    if home := os.environ.get("SKILLWIRE_HOME"):
        return Path(home) / part
    if base := os.environ.get(variable):
        return Path(base) / "skillwire"
    if local := os.environ.get("LOCALAPPDATA"):
        return Path(local) / "skillwire" / part
    return Path.home() / default / "skillwire"


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Write ``content`` beside ``path`` and rename it into place; missing parents are made. Raises StorageError.

    With ``durable`` the bytes are synced to the disk, for content that cannot be made again.
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
    return StorageError("STORAGE", f"{error.strerror or error}", place=SourceLocation(str(path)))


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn what the system refuses inside into ``STORAGE`` at ``path``."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def take_lock(path: Path, *, wait: bool) -> int:
    """Lock the file ``path``, which is made if needed; return the handle for :func:`release_lock`.

    The lock ends with the process. With ``wait`` the call waits for the current holder.

    Raises:
        ConflictError: ``FOLDER_BUSY`` when another process holds it and ``wait`` is not set.
        StorageError: ``STORAGE``.
    """
    import fcntl  # noqa: PLC0415  # POSIX; only a change needs it

    while True:
        handle = _open(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # Its last holder may have removed the file between our open and our lock: lock the current one.
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
    """Lock a folder while the returned handle is open; None where the system cannot.

    Raises ConflictError (``FOLDER_BUSY``).
    """
    import fcntl  # noqa: PLC0415  # POSIX; only a change needs it

    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # absent or unreadable: the change itself reports the reason
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
    """Hold the lock of a file inside the ``with`` block; waits for the current holder.

    Raises StorageError (``STORAGE``).
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
    return ConflictError("FOLDER_BUSY", "another skillwire is changing these skills", place=SourceLocation(str(path)))
