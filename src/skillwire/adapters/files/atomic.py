"""The user's folders for settings, cache and state; atomic file writes; lock files between processes; state files.

The XDG variables decide where the folders are, on every system; the defaults are XDG's, and ``LOCALAPPDATA`` on
Windows. ``SKILLWIRE_HOME`` puts all three under one folder, for containers and tests. A reader of a file written here
sees the old bytes or the new ones, never a part of either.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from skillwire.errors import ConflictError, DecodeError, SourceLocation, StorageError, ValidationError
from skillwire.limits import STATE_FILE_BYTES
from skillwire.trust.guarded_json import load_json

_FOR_OTHERS: Final = 0o077
_NO_HOME: Final = Path("/nonexistent")  # as Debian has it
#: Of a folder that is read-only, another user's, or below a home that does not exist.
_NOT_WRITABLE: Final = frozenset({errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS})


def config_directory() -> Path:
    """Return the folder of the user's ``skillwire.toml``."""
    return _directory("config", "XDG_CONFIG_HOME", ".config")


def cache_directory() -> Path:
    """Return the folder of what can be fetched or made again: indexes, artifacts, build records."""
    return _directory("cache", "XDG_CACHE_HOME", ".cache")


def state_directory() -> Path:
    """Return the folder of what must last: known origins, the server's blobs and database."""
    return _directory("state", "XDG_STATE_HOME", ".local/state")


def _directory(part: str, variable: str, default: str) -> Path:
    if home := os.environ.get("SKILLWIRE_HOME"):
        return Path(home) / part
    if base := os.environ.get(variable):
        return Path(base) / "skillwire"
    if local := os.environ.get("LOCALAPPDATA"):
        return Path(local) / "skillwire" / part
    return home_directory() / default / "skillwire"


def home_directory() -> Path:
    """Return the user's home, or a folder that does not exist for a user without one."""
    try:
        return Path.home()
    except RuntimeError:
        return _NO_HOME


def check_state_directory() -> None:
    """Make the folder of state. Raises StorageError (``STORAGE``) unless it can be written."""
    folder = state_directory()
    with storage_errors(folder):
        make_folder(folder, mode=0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "the folder cannot be written")


def make_folder(folder: str | Path, *, mode: int = 0o777) -> None:
    """Make ``folder`` unless it exists; raises OSError. Only the owner can access a new state folder above it."""
    state = str(state_directory())
    if f"{folder}/".startswith(f"{state}/"):  # it shows the user's origins and what a change was about to do
        os.makedirs(state, mode=0o700, exist_ok=True)  # noqa: PTH103  # text: add makes a folder for each skill
    os.makedirs(folder, mode=mode, exist_ok=True)  # noqa: PTH103  # same


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Write beside ``path`` and rename into place; ``durable`` syncs to the disk first. Raises StorageError."""
    folder, name = os.path.split(path)
    temporary = f"{folder or '.'}/.{name}.{os.urandom(6).hex()}.tmp"
    with storage_errors(path):
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


def write_all(handle: int, data: bytes | bytearray) -> None:
    """Write all of ``data`` to a descriptor. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


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
        folder = holder = os.path.dirname(path)  # noqa: PTH120  # text, as above
        holders = []
        while holder and not os.path.isdir(holder):  # noqa: PTH112  # same
            holder = os.path.dirname(holder)  # noqa: PTH120  # same
            holders.append(holder or ".")
        make_folder(folder)
        for holder in holders if durable else ():  # a new folder lasts when the one that holds it is synced
            sync_folder(holder)
        return os.open(path, flags, mode)


def storage_error(error: OSError, path: Path) -> StorageError:
    """Return ``error`` as ours, with the path and the system's own words."""
    folders = (state_directory(), cache_directory(), config_directory())
    fix = "Set SKILLWIRE_HOME to a folder that you may write, or make this one writable."
    is_ours = error.errno in _NOT_WRITABLE and any(path.is_relative_to(folder) for folder in folders)
    place = SourceLocation(str(path))
    return StorageError("STORAGE", f"{error.strerror or error}", place=place, fix=fix if is_ours else None)


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise an OSError of the block as StorageError (``STORAGE``) at ``path``."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def open_locked(
    path: Path, flags: int, *, mode: int = 0o600, operation: int = fcntl.LOCK_EX | fcntl.LOCK_NB
) -> int | None:
    """Open and lock a file or a folder until the handle is closed; None when it is not at ``path`` any more.

    Its last holder may have renamed or removed it between our open and our lock. Raises OSError.
    """
    handle = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(handle, operation)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def take_lock(path: Path, *, wait: bool) -> int:
    """Lock the file ``path`` until the process ends; return the handle. Raises ConflictError (``FOLDER_BUSY``)."""
    operation = fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)
    handle = None
    while handle is None:  # the file that is there now
        try:
            make_folder(path.parent)
            handle = open_locked(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, operation=operation)
        except BlockingIOError as error:
            raise _busy(path) from error
        except OSError as error:
            raise storage_error(error, path) from error
    return handle


def lock_folder(folder: Path) -> int | None:
    """Lock a folder while the returned handle is open; None where the system cannot. Raises as :func:`take_lock`."""
    try:
        return open_locked(folder, os.O_RDONLY | os.O_DIRECTORY)
    except BlockingIOError as error:
        raise _busy(folder) from error
    except OSError:
        # Absent or unreadable: the change itself reports the reason. On a file system, such as NFS, that locks no
        # folders, the lock file has to do.
        return None


def _busy(path: Path) -> ConflictError:
    return ConflictError("FOLDER_BUSY", "another skillwire is changing these skills", place=SourceLocation(str(path)))


def release_lock(handle: int, path: Path) -> None:
    """Unlock ``path``, also for a child process that inherited the handle a moment ago, and remove the file."""
    path.unlink(missing_ok=True)
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file inside the block; waits for the current holder. Raises StorageError (``STORAGE``)."""
    handle = take_lock(path, wait=True)
    try:
        yield
    finally:
        release_lock(handle, path)


def read_bounded(path: Path, most: int, *, owner_only_code: str | None = None, fix: str | None = None) -> bytes | None:
    """Return at most ``most`` bytes of a file, None without one; raises StorageError.

    With ``owner_only_code`` a file that others can read is refused: StorageError with that code and ``fix``.
    """
    with storage_errors(path):
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read(most)
        except FileNotFoundError:
            return None
    if owner_only_code is not None and os.name == "posix" and mode & _FOR_OTHERS:
        message = f"others may read or change it ({mode & 0o777:04o})"
        fix = fix or f"Make it private: chmod 600 {path}"
        raise StorageError(owner_only_code, message, place=SourceLocation(str(path)), fix=fix)
    return content


def read_trust_file(path: Path, most: int) -> bytes:
    """Return the bytes of a trust file of at most ``most`` bytes. Raises ValidationError (``LAN_TRUST``)."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        message = f"it cannot be read: {error.strerror or error}"
        raise ValidationError("LAN_TRUST", message, place=SourceLocation(str(path))) from error
    if len(data) > most:
        raise ValidationError("LAN_TRUST", f"it has more than {most:,} bytes", place=SourceLocation(str(path)))
    return data


def read_state(path: Path, *, owner_only_code: str | None = None, fix: str | None = None) -> dict[str, Any]:
    """Return the JSON object in a state file, empty without one. Raises DecodeError (``STATE_FORM``), StorageError."""
    content = read_bounded(path, STATE_FILE_BYTES + 1, owner_only_code=owner_only_code, fix=fix)
    if content is None:
        return {}
    document = load_json(content, max_bytes=STATE_FILE_BYTES, source=str(path))
    if not isinstance(document, dict):
        raise damaged(path)
    return cast("dict[str, Any]", document)


def damaged(path: Path, fix: str | None = None) -> DecodeError:
    """Return the error about a state file that this version cannot read."""
    return DecodeError("STATE_FORM", f"{path.name} is damaged", place=SourceLocation(str(path)), fix=fix)
