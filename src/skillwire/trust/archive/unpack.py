"""Writing a plan to the disk as a whole or not at all.

Files are written into a staging folder beside the destination, open to the user only, which is then renamed into place.
Every folder is entered and every file created by name inside an open folder, without following a link or opening an
existing file. So no concurrent change can redirect a write. A failure or interrupt removes the staging folder.

Modes are 0755 for folders and executable files and 0644 for others, reduced by the user's umask. Nothing is synced:
after a power failure ``skillwire verify`` reports what is missing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from skillwire.errors import ConflictError, SourceLocation, StorageError
from skillwire.model.skill import FileContent
from skillwire.trust.archive.plan import ArchivePlan, plan_files

_STAGING_PREFIX: Final = ".skillwire-"

_ENTER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = "new"


def unpack(plan: ArchivePlan | Iterable[FileContent], destination: Path) -> None:
    """Write the files of ``plan``, or plain files, which are planned first, as the new folder ``destination``.

    Raises:
        ConflictError: ``DESTINATION_EXISTS``. StorageError: ``STORAGE``.
        ValidationError, TrustError: as :func:`skillwire.trust.archive.plan_files`.
    """
    plan = plan if isinstance(plan, ArchivePlan) else plan_files(plan)
    place = SourceLocation(str(destination))
    try:
        # The folder around the destination is the user's choice, links included; below it none is followed.
        parent = os.open(destination.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.lstat(destination.name, dir_fd=parent)
                raise ConflictError("DESTINATION_EXISTS", "something is there already", place=place)
            _write_and_rename(plan, parent, destination.name)
        finally:
            os.close(parent)
    except OSError as error:
        raise StorageError("STORAGE", f"cannot unpack: {error.strerror}", place=place) from error


def _write_and_rename(plan: ArchivePlan, parent: int, destination: str) -> None:
    name = _STAGING_PREFIX + os.urandom(8).hex()
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
        staging = os.open(name, _ENTER, dir_fd=parent)
        try:
            _write(plan.files, staging)
            os.rename(_NEW, destination, src_dir_fd=staging, dst_dir_fd=parent)
        finally:
            os.close(staging)
        os.rmdir(name, dir_fd=parent)
    except BaseException:
        import shutil  # noqa: PLC0415 - only a failure needs it, and it costs 5 ms

        shutil.rmtree(name, ignore_errors=True, dir_fd=parent)  # the failure that led here is the one to report
        raise


def _write(files: Iterable[FileContent], staging: int) -> None:
    """Write ``files``, sorted by path, into a new folder; at most one handle for each level is open."""
    os.mkdir(_NEW, 0o755, dir_fd=staging)
    handles = [os.open(_NEW, _ENTER, dir_fd=staging)]
    entered: list[str] = []
    try:
        for path, content, executable in files:
            *folders, name = path.split("/")
            if folders != entered:
                while entered != folders[: len(entered)]:  # leave what is not on the way; make and enter the others
                    os.close(handles.pop())
                    entered.pop()
                for folder in folders[len(entered) :]:
                    os.mkdir(folder, 0o755, dir_fd=handles[-1])
                    handles.append(os.open(folder, _ENTER, dir_fd=handles[-1]))
                    entered.append(folder)
            _write_file(name, content, 0o755 if executable else 0o644, handles[-1])
    finally:
        for handle in handles:
            os.close(handle)


def _write_file(name: str, content: bytes | memoryview, mode: int, folder: int) -> None:
    handle = os.open(name, _CREATE, mode, dir_fd=folder)
    try:
        written = os.write(handle, content)
        while written < len(content):
            written += os.write(handle, memoryview(content)[written:])
    finally:
        os.close(handle)
