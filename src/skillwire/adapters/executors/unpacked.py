"""Skills as folders that are ready to run: unpacked from a blob store, kept, shared, and removed when there are many.

A folder is named by the digest of its artifact. It is made aside, synced, renamed into place and never changed, so any
number of sandboxes and servers use it at once, and a power cut leaves no half file. A user holds a lock on the folder
itself, which ends with the process; only folders without a lock are removed, the longest unused first.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from skillwire import limits
from skillwire.adapters.files.atomic import make_folder, open_locked, storage_errors, sync_folder
from skillwire.errors import SourceLocation, StorageError
from skillwire.model.skill import Skill, SkillFile
from skillwire.ports import BlobStore

_MAKING: Final = ".making-"
_GOING: Final = ".going-"
_ABANDONED_SECONDS: Final = 600.0  # a skill is unpacked in less than one


class UnpackedSkills:
    """The unpacked skills in a folder of their own; at most ``keep`` skills and ``keep_bytes`` of them."""

    def __init__(
        self,
        folder: Path,
        blobs: BlobStore,
        *,
        keep: int = limits.UNPACKED_SKILLS,
        keep_bytes: int = limits.UNPACKED_BYTES,
    ) -> None:
        self._folder = folder
        self._blobs = blobs
        self._keep, self._keep_bytes = keep, keep_bytes

    def lock(self, skill: Skill) -> LockedFolder:
        """Return the unpacked folder of ``skill``, locked until closed. Raises StorageError (``STORAGE``)."""
        size = sum(file.size for file in skill.files)
        path = self._folder / f"{skill.artifact.digest.hex}-{size}"
        with storage_errors(path):
            while (locked := _lock(path)) is None:
                self._make(path, skill)
                self._evict(keep=path)
            os.utime(locked.descriptor)
            return locked

    def _make(self, path: Path, skill: Skill) -> None:
        make_folder(self._folder, mode=0o700)
        making = self._folder / f"{_MAKING}{os.urandom(8).hex()}"
        making.mkdir()
        try:
            for file in skill.files:
                self._write(making, file)
            for folder in (making, *filter(Path.is_dir, making.rglob("*"))):
                folder.chmod(0o755)  # whatever the umask: a server that is root runs the skill as somebody else
                sync_folder(folder)
            try:
                making.rename(path)
            except OSError as error:
                if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:  # those: another process made the same before
                    raise
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def _write(self, root: Path, file: SkillFile) -> None:
        content = self._blobs.read(file.digest)
        if content is None:
            fix = "Call the skill again: the server makes the blob again."
            raise StorageError("STORAGE", "a blob was damaged or missing", place=SourceLocation(file.path), fix=fix)
        path = root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:  # noqa: PTH123  # from a handle
            stream.write(content)
            os.fchmod(stream.fileno(), 0o555 if file.executable else 0o444)
            stream.flush()
            os.fsync(stream.fileno())

    def _evict(self, keep: Path) -> None:
        """Remove what is too much, and what killed processes left half made; never ``keep``."""
        rows: list[tuple[float, Path]] = []
        for path in self._folder.iterdir():
            with suppress(OSError):  # removed meanwhile
                rows.append((path.stat().st_mtime, path))
        count, size = 0, 0
        for used, path in sorted(rows, reverse=True):
            if path.name.startswith("."):
                if used < time.time() - _ABANDONED_SECONDS or path.name.startswith(_GOING):
                    self._remove(path)
                continue
            count, size = count + 1, size + int(path.name.rpartition("-")[2])
            if path != keep and (count > self._keep or size > self._keep_bytes):
                self._remove(path)

    def _remove(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # it was made, or removed, meanwhile
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            going = self._folder / f"{_GOING}{os.urandom(8).hex()}"
            path.rename(going)  # whoever locks it now sees that it is not at its place any more
            shutil.rmtree(going, ignore_errors=True)
        except OSError:  # somebody uses it, or removes it as well
            return
        finally:
            os.close(descriptor)


class LockedFolder:
    """A folder that stays as long as this is not closed."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def close(self) -> None:
        """Unlock it."""
        os.close(self.descriptor)


def _lock(path: Path) -> LockedFolder | None:
    """Lock the folder against removal; None when it is not there."""
    try:
        descriptor = open_locked(path, os.O_RDONLY | os.O_DIRECTORY, operation=fcntl.LOCK_SH)
    except FileNotFoundError:
        return None
    return None if descriptor is None else LockedFolder(path, descriptor)
