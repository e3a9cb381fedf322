"""What stands in an installed skill: the SHA-256 of each file, and everything else by what it is.

Trust: the folder may be anyone's. No link is followed, and nothing but a regular file is opened, since a FIFO
would make us wait for ever and a device may do something when it is opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

_LINK: Final = "is a link"
_NO_FILE: Final = "is not a file"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hash_folder(folder: Path) -> dict[str, str]:
    """Return ``path → SHA-256`` in hexadecimal of the files below ``folder``.

    What is a link, to a folder too, or no regular file has a text instead, which no lock holds.

    Raises:
        StorageError: ``STORAGE`` when a file or folder cannot be read.
    """
    return dict(_walk(folder))


def _walk(folder: Path) -> Iterator[tuple[str, str]]:
    for directory, folders, names in os.walk(folder, onerror=_refuse):
        for name in (*names, *folders):
            path = os.path.join(directory, name)  # noqa: PTH118  # a pathlib object per file costs more than reading it
            if (content := _describe(path)) is not None:
                relative = os.path.relpath(path, folder).replace(os.sep, "/")
                # A name that is not UTF-8 could not be printed.
                yield os.fsencode(relative).decode(errors="backslashreplace"), content


def _describe(path: str) -> str | None:
    """Return what stands at ``path``; None for a folder."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            return None
        if not stat.S_ISREG(mode):
            return _LINK if stat.S_ISLNK(mode) else _NO_FILE
        return _hash(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return _LINK  # it became one since we looked
        raise storage_error(error, Path(path)) from error


def _hash(path: str) -> str:
    with open(os.open(path, _READ), "rb") as file:  # noqa: PTH123  # from a handle, so that the flags hold
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return _NO_FILE
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse(error: OSError) -> NoReturn:
    raise storage_error(error, Path(error.filename)) from error
