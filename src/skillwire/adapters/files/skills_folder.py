"""Installed skills on disk, and their lock.

Everything is relative to one root: a project, or the user's home. A change works in a staging folder inside
each skills folder, so that putting a skill in place is a rename on one file system; what a crash left there
is removed by the next change, which can tell because it holds the lock file.

Trust: the root may be a cloned repository. A skills folder whose parents lead out of the root is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import storage_error, write_atomically
from skillwire.errors import ConflictError, Place, TrustError
from skillwire.model.install import Lock
from skillwire.resolver.lock import LOCK_NAME, decode_lock, encode_lock
from skillwire.trust.archive import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from skillwire.model.install import Placement, StagedSkill

_STAGING: Final = ".skillwire-staging"
_BUSY: Final = ".skillwire-busy"


class FileSkillsFolder:
    """Fills :class:`skillwire.ports.SkillsFolder`.

    Args:
        root: the project or the home folder.
        lock_path: of ``skills.lock``; in the root unless given.
    """

    def __init__(self, root: Path, lock_path: Path | None = None) -> None:
        self.root = root
        self.lock_path = lock_path or root / LOCK_NAME

    def read_lock(self) -> Lock:
        """Return the lock; an empty one when there is none."""
        try:
            content = self.lock_path.read_bytes()
        except FileNotFoundError:
            return Lock()
        except OSError as error:
            raise storage_error(error, self.lock_path) from error
        return decode_lock(content, str(self.lock_path))

    def installed_files(self, placement: Placement, name: str) -> Mapping[str, str] | None:
        """Return ``path → SHA-256`` of what stands where ``name`` is or would be; None when nothing does.

        Where copies differ, or a link is not the one that we make, the difference shows under a key that no
        lock holds, so that it counts as changed.
        """
        found: dict[str, str] | None = None
        for folder in placement.folders:
            path = self.inside(folder) / name
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                return {f"{folder}/{name}": "is not a folder"}
            if path.is_dir():
                files = dict(_hash_files(path))
                if found is not None and found != files:
                    return {f"{folder}/{name}": "differs from the other copies"}
                found = files
        for folder in placement.links:
            path = self.inside(folder) / name
            if os.path.lexists(path) and not _is_our_link(path, self.root, placement, name):
                return {f"{folder}/{name}": "is not our link"}
        return found

    def change(self) -> FolderChange:
        """Begin a change; only one at a time."""
        return FolderChange(self)

    def inside(self, folder: str) -> Path:
        """Return the path of ``folder``, which must lie in the root, links resolved.

        Raises:
            TrustError: ``FOLDER_OUTSIDE``.
        """
        path = self.root / folder
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise TrustError("FOLDER_OUTSIDE", f"{folder} leads out of {self.root}", place=Place(str(path)))
        return path


def _hash_files(folder: Path) -> Iterator[tuple[str, str]]:
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)  # noqa: PTH118  # a pathlib object per file costs more than reading it
            relative = os.path.relpath(path, folder).replace(os.sep, "/")
            if os.path.islink(path):  # noqa: PTH114  # as above
                yield relative, "is a link"
            else:
                with open(path, "rb") as file:  # noqa: PTH123  # as above
                    yield relative, hashlib.file_digest(file, "sha256").hexdigest()


def _link_target(root: Path, link_folder: str, placement: Placement, name: str) -> str:
    return os.path.relpath(root / placement.folders[0] / name, (root / link_folder).resolve())


def _is_our_link(path: Path, root: Path, placement: Placement, name: str) -> bool:
    return path.is_symlink() and path.resolve() == (root / placement.folders[0] / name).resolve()


class FolderChange:
    """Fills :class:`skillwire.ports.SkillsFolderChange`: staged, then renamed, undone on any failure."""

    def __init__(self, folder: FileSkillsFolder) -> None:
        self._folder = folder
        self._steps: list[Callable[[], None]] = []
        self._undo: list[Callable[[], object]] = []
        self._stagings: dict[str, Path] = {}
        self._taken = 0
        self._busy = _lock_file(folder.root / _BUSY)

    def stage(self, skill: StagedSkill) -> None:
        """Write ``skill`` aside."""
        for folder in skill.placement.folders:
            staged = self._staging(folder) / skill.name
            unpack(skill.files, staged)
            self._steps.append(partial(self._replace, folder, skill.name, staged))
        for folder in skill.placement.links:
            staged = self._staging(folder) / skill.name
            target = _link_target(self._folder.root, folder, skill.placement, skill.name)
            with _storage(staged):
                staged.symlink_to(target, target_is_directory=True)
            self._steps.append(partial(self._replace, folder, skill.name, staged))

    def take_away(self, name: str, placement: Placement) -> None:
        """Remove ``name`` at :meth:`commit`."""
        for folder in (*placement.folders, *placement.links):
            self._steps.append(partial(self._replace, folder, name, None))

    def commit(self, lock: Lock) -> None:
        """Put everything in place and write ``lock``; after a failure everything stands as before."""
        try:
            for step in self._steps:
                step()
            write_atomically(self._folder.lock_path, encode_lock(lock))
        except BaseException:
            for undo in reversed(self._undo):
                undo()
            raise
        finally:
            self._steps.clear()
            self._undo.clear()

    def close(self) -> None:
        """End the change; what was not committed leaves nothing behind."""
        for staging in self._stagings.values():
            shutil.rmtree(staging, ignore_errors=True)
            _remove_empty(staging.parent, self._folder.root)
        self._stagings.clear()
        _unlock_file(self._busy, self._folder.root / _BUSY)

    def _replace(self, folder: str, name: str, staged: Path | None) -> None:
        """Move what stands at ``name`` aside, and ``staged`` there; both can be undone."""
        place = self._folder.inside(folder) / name
        with _storage(place):
            if os.path.lexists(place):
                self._taken += 1
                aside = self._staging(folder) / f"{name}.{self._taken}"
                place.rename(aside)
                self._undo.append(partial(aside.rename, place))
            if staged is not None:
                staged.rename(place)
                self._undo.append(partial(place.rename, staged))

    def _staging(self, folder: str) -> Path:
        """Return the staging folder inside ``folder``, after removing what a crash left there."""
        if folder not in self._stagings:
            parent = self._folder.inside(folder)
            with _storage(parent):
                parent.mkdir(parents=True, exist_ok=True)
                for left in parent.glob(f"{_STAGING}-*"):
                    shutil.rmtree(left)
                staging = parent / f"{_STAGING}-{secrets.token_hex(6)}"
                staging.mkdir(mode=0o700)
            self._stagings[folder] = staging
        return self._stagings[folder]


@contextlib.contextmanager
def _storage(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove ``folder`` and its parents up to ``root`` as far as they are empty: we may have made them."""
    while folder != root and root in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return  # it holds something, so it stays
        folder = folder.parent


def _lock_file(path: Path) -> int:
    """Take the lock that keeps two changes apart; it ends with the process, however that ends."""
    import fcntl  # noqa: PLC0415  # POSIX; only a change needs it

    while True:
        with _storage(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            message = "another skillwire is changing these skills"
            raise ConflictError("FOLDER_BUSY", message, place=Place(str(path))) from error
        # The file may have been removed by its last holder between our open and our lock: lock the one that stands.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)


def _unlock_file(handle: int, path: Path) -> None:
    path.unlink(missing_ok=True)
    os.close(handle)
