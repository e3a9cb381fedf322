"""Writing a file so that a reader sees the old bytes or the new ones, never half of either."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from skillwire.errors import Place, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write ``content`` beside ``path`` and rename it into place; missing parents are made.

    Raises:
        StorageError: ``STORAGE``, with the path.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(handle, "wb") as file:  # noqa: PTH123  # from a handle, so that mode and O_EXCL hold
                file.write(content)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise storage_error(error, path) from error


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
