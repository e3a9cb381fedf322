"""Installed skills on disk, and their lock.

Everything is relative to one root: a project, or the user's home. Skills folders are compared by where they
really are: in a project whose ``.claude/skills`` is a link to ``.agents/skills`` the two are one, and what
stands in the first needs no link in the second.

Trust: the root may be a cloned repository. A skills folder whose parents lead out of the root is refused.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.adapters.files.atomic import storage_error, storage_errors
from skillwire.adapters.files.folder_change import FolderChange, journal_path
from skillwire.adapters.files.folder_hashes import hash_folder
from skillwire.errors import ConflictError, Place, TrustError
from skillwire.model.install import Lock, Placement
from skillwire.resolver.lock import LOCK_NAME, decode_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from skillwire.model.finding import Finding


class FileSkillsFolder:
    """Fills :class:`skillwire.ports.SkillsFolder`.

    Args:
        root: the project or the home folder.
        lock_path: of ``skills.lock``; in the root unless given.
        report: is told what an interrupted change has left and could not be put back.
    """

    def __init__(
        self, root: Path, lock_path: Path | None = None, report: Callable[[Finding], object] = lambda _: None
    ) -> None:
        self.root = root
        self.report = report
        self.lock_path = lock_path or root / LOCK_NAME
        self._real_root = os.path.realpath(root)

    def read_lock(self) -> Lock:
        """Return the lock; an empty one when there is none. What a killed change left is undone before."""
        if journal_path(self.inside(".")).exists():
            with contextlib.suppress(ConflictError):  # no killed one's: another process is at it right now
                self.change().close()
        try:
            content = self.lock_path.read_bytes()
        except FileNotFoundError:
            return Lock()
        except OSError as error:
            raise storage_error(error, self.lock_path) from error
        return decode_lock(content, str(self.lock_path))

    def installed_files(self, placement: Placement, name: str) -> Mapping[str, str] | None:
        """Return ``path → SHA-256`` of what stands where ``name`` is or would be; None when no copy does.

        Where copies differ, or a link is not the one that we make, the difference shows under a key that no
        lock holds, so that it counts as changed. That a copy or link is absent shows in :meth:`missing_places`.
        """
        placement = self.distinct(placement)
        found: dict[str, str] | None = None
        for folder in placement.folders:
            path = self.inside(folder) / name
            if not os.path.lexists(path):
                continue
            with storage_errors(path):
                is_folder = path.is_dir() and not path.is_symlink()
            if not is_folder:
                return {f"{folder}/{name}": "is not a folder"}
            files = hash_folder(path)
            if found is not None and found != files:
                return {f"{folder}/{name}": "differs from the other copies"}
            found = files
        for folder in placement.links:
            path = self.inside(folder) / name
            if os.path.lexists(path) and not self._is_our_link(path, placement, name):
                return {f"{folder}/{name}": "is not our link"}
        return found

    def missing_places(self, placement: Placement, name: str) -> tuple[str, ...]:
        """Return each ``folder/name`` of ``placement`` where neither a copy nor a link stands, all or some."""
        placement = self.distinct(placement)
        folders = (*placement.folders, *placement.links)
        return tuple(f"{folder}/{name}" for folder in folders if not os.path.lexists(self.inside(folder) / name))

    def change(self) -> FolderChange:
        """Begin a change; only one at a time."""
        return FolderChange(self)

    def inside(self, folder: str) -> Path:
        """Return where ``folder`` really is, which must be in the root.

        Raises:
            TrustError: ``FOLDER_OUTSIDE``.
        """
        path = os.path.join(self.root, folder)  # noqa: PTH118  # text, as this is asked several times for each skill
        real = os.path.realpath(path)
        if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
            raise TrustError("FOLDER_OUTSIDE", f"{folder} leads out of {self.root}", place=Place(path))
        return Path(real)

    def distinct(self, placement: Placement) -> Placement:
        """Return ``placement`` without the folders and links that really are an earlier one's folder."""
        if len(placement.folders) + len(placement.links) == 1:
            return placement
        seen: set[Path] = set()
        return Placement(
            tuple(self._not_seen(placement.folders, seen)),
            tuple(self._not_seen(placement.links, seen)),
        )

    def _not_seen(self, folders: Iterable[str], seen: set[Path]) -> Iterator[str]:
        for folder in folders:
            real = self.inside(folder)
            if real not in seen:
                seen.add(real)
                yield folder

    def _is_our_link(self, path: Path, placement: Placement, name: str) -> bool:
        return path.is_symlink() and real_path(path) == real_path(self.inside(placement.folders[0]) / name)


def real_path(path: Path) -> Path:
    """Return ``path`` without links; unlike :meth:`pathlib.Path.resolve` it raises nothing for a loop of links."""
    return Path(os.path.realpath(path))
