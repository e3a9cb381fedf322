"""The key of a server: 32 random bytes in a file that only its owner reads."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import storage_errors
from skillwire.errors import Place, StorageError

if TYPE_CHECKING:
    from pathlib import Path

_BYTES: Final = 32


def read_server_key(path: Path) -> bytes:
    """Return the key in the file ``path``, which is made when it is not there.

    Raises:
        StorageError: ``STORAGE``; ``SERVER_KEY`` when others may read the file, or it holds no key.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):  # made before, or by another process a moment ago
            _make(path)
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(_BYTES + 1)
    if os.name == "posix" and mode & 0o077:
        message, fix = "others may read it", f"Take that away: chmod 600 {path}"
        raise StorageError("SERVER_KEY", message, place=Place(str(path)), fix=fix)
    if len(key) != _BYTES:
        raise StorageError("SERVER_KEY", f"{len(key)} bytes are no key", place=Place(str(path)))
    return key


def _make(path: Path) -> None:
    """Write a new key beside ``path`` and link it into place, so that no process ever reads half of one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123  # from a handle, so that mode and O_EXCL hold
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    finally:
        temporary.unlink()
