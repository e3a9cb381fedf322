"""Installed skills on disk, and changes to them that happen as a whole or not at all.

Everything is relative to one root: a project, or the user's home. Skills folders are compared by their real paths:
where ``.claude/skills`` is a link to ``.agents/skills``, a skill in one needs no link in the other.

A change works in a staging folder inside each skills folder, so that placing a skill is a rename on one file system.
Each rename is recorded in the :mod:`~skillwire.adapters.files.journal` before it happens, and the disk shows whether it
happened; so an interruption at any point can be undone, by this process or by the next one that reads the lock or
begins a change. Leftover staging folders are removed by the next change; replaced skills found in them are kept, since
their journal may be in another state directory. Two locks exclude concurrent changes: a file in the state directory
named after the root, and the root folder itself for processes with different state directories.

Trust: the root may be a cloned repository. A skills folder outside the root is refused; links are not followed, and
only regular files are opened, because a FIFO would block and opening a device may have effects.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.adapters.files.atomic import (
    lock_folder,
    release_lock,
    state_directory,
    storage_error,
    storage_errors,
    take_lock,
    write_atomically,
)
from skillwire.adapters.files.journal import (
    STAGING,
    Replacement,
    aside_name,
    holds_asides,
    keep_staging,
    mark_committed,
    recover,
    remove_staging,
    write_journal,
)
from skillwire.errors import ConflictError, SourceLocation, StorageError, TrustError
from skillwire.model.install import InstallLocation, Lock
from skillwire.model.skill import Finding
from skillwire.resolver.lockfile import LOCK_NAME, decode_lock, encode_lock
from skillwire.trust.archive import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import NoReturn

    from skillwire.model.skill import FileContent


_LINK: Final = "is a link"
_NO_FILE: Final = "is not a file"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hash_folder(folder: Path) -> dict[str, str]:
    """Return ``path → SHA-256`` in hexadecimal of the files below ``folder``. Raises StorageError (``STORAGE``).

    A link or special file gets a text that no lock file contains.
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
    """Return the digest of the file at ``path``, or a text for a link or special file; None for a folder."""
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


class _Move(NamedTuple):
    """A rename that may have happened; it has not when its source exists."""

    source: Path
    destination: Path

    def undo(self) -> None:
        if not os.path.lexists(self.source) and os.path.lexists(self.destination):
            self.destination.rename(self.source)


class FolderChange:
    """Fills :class:`skillwire.ports.SkillsFolderChange`."""

    def __init__(self, folder: FileSkillsFolder) -> None:
        self._folder = folder
        self._root = folder.inside(".")
        self._steps: list[tuple[Path, Path | None]] = []
        self._moves: list[_Move] = []
        self._stagings: dict[Path, Path] = {}
        self._made: list[Path] = []
        self._placed: set[Path] = set()
        self._busy_path = busy_path(self._root)
        self._busy = take_lock(self._busy_path, wait=False)
        self._root_handle: int | None = None
        self._is_journaled = False
        try:
            self._root_handle = lock_folder(self._root)
            for kept in recover(journal_path(self._root), folder.lock_path):
                self._tell_kept(kept)
        except BaseException:
            self.close()
            raise

    def stage(self, name: str, files: Sequence[FileContent], location: InstallLocation) -> None:
        """Write a skill aside. When that fails, nothing of it is put in place."""
        placement = self._folder.distinct(location)
        ready: list[tuple[Path, Path]] = []
        for folder in placement.folders:
            parent = self._folder.inside(folder)
            staged = self._staging(parent) / name
            unpack(files, staged)
            ready.append((parent / name, staged))
        for folder in placement.links:
            parent = self._folder.inside(folder)
            staged = self._staging(parent) / name
            # Both are where they really are: a link is followed from its real folder, not from how we came there.
            target = os.path.relpath(self._folder.inside(placement.folders[0]) / name, parent)
            with storage_errors(staged):
                staged.symlink_to(target, target_is_directory=True)
            ready.append((parent / name, staged))
        self._placed.update(place for place, _ in ready)
        self._steps += ready

    def take_away(self, name: str, placement: InstallLocation) -> None:
        """Remove ``name`` at :meth:`commit`, except where this change puts it."""
        for folder in (*placement.folders, *placement.links):
            self._steps.append((self._folder.inside(folder) / name, None))

    def commit(self, lock: Lock) -> None:
        """Put everything in place and write ``lock``; a failure restores the previous state.

        Raises StorageError (``STORAGE``); when something could not be restored, the message says where it is kept.
        """
        path, content = self._folder.lock_path, encode_lock(lock)
        with storage_errors(path):
            before = path.read_bytes() if path.exists() else None
        try:
            rows = self._planned()
            if rows:
                journal = journal_path(self._root)
                self._is_journaled = True
                write_journal(journal, rows, self._stagings.values(), before=before, after=content)
            for row in rows:
                self._replace(row)
            write_atomically(path, content)
        except BaseException as error:
            if broken := self._undo(before):
                raise self._keep(broken) from error
            raise
        finally:
            self._steps.clear()
            self._moves.clear()
        if self._is_journaled:
            # Nothing is undone from here on. A disk that refuses this costs nothing: the lock tells the same, for now.
            with contextlib.suppress(StorageError):
                mark_committed(journal_path(self._root))

    def close(self) -> None:
        """End the change; what was not committed leaves nothing behind."""
        try:
            self._clean()
        except BaseException:  # an interruption, most likely: what it kept from being removed is removed now
            self._clean()
            raise
        finally:
            if self._root_handle is not None:
                os.close(self._root_handle)
                self._root_handle = None
            release_lock(self._busy, self._busy_path)

    def _clean(self) -> None:
        for staging in self._stagings.values():
            remove_staging(staging)
        for parent in self._stagings:
            self._remove_empty(parent)
        self._stagings.clear()
        if self._is_journaled:
            journal_path(self._root).unlink(missing_ok=True)

    def _planned(self) -> list[Replacement]:
        """Return what is to be moved where, each place once; what was put somewhere is not taken away from there."""
        rows: dict[Path, Replacement] = {}
        for number, (place, staged) in enumerate(self._steps, 1):
            if place in rows or (staged is None and place in self._placed):
                continue
            with storage_errors(place):
                exists = os.path.lexists(place)
            aside = self._staging(place.parent) / aside_name(place.name, number) if exists else None
            rows[place] = Replacement(place, aside, staged)
        return list(rows.values())

    def _replace(self, row: Replacement) -> None:
        with storage_errors(row.place):
            if row.aside is not None:
                self._move(row.place, row.aside)
            if row.staged is not None:
                self._move(row.staged, row.place)

    def _move(self, source: Path, destination: Path) -> None:
        self._moves.append(_Move(source, destination))
        source.rename(destination)

    def _undo(self, lock_content: bytes | None) -> list[Path]:
        """Undo every move and restore the lock; return the places where that failed."""
        undos: list[Callable[[], None]] = [
            partial(self._restore_lock, lock_content),  # first: as long as it is the new one, all would count as done
            *(move.undo for move in reversed(self._moves)),
        ]
        for undo in undos * 2:  # what the first round left, say because a second interruption came, the second does
            # One failure must not keep the others from being undone; it shows below.
            with contextlib.suppress(BaseException):
                undo()
        broken = [place for move in self._moves if not os.path.lexists(move.source) for place in move]
        places = [place for place in broken if place.parent not in self._stagings.values()]
        try:
            self._restore_lock(lock_content)
        except (OSError, StorageError):
            places.append(self._folder.lock_path)
        return places

    def _restore_lock(self, content: bytes | None) -> None:
        path = self._folder.lock_path
        if content is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)

    def _keep(self, broken: list[Path]) -> StorageError:
        """Keep the staging folders under names that no later change removes; return the error to raise."""
        kept = []
        for staging in self._stagings.values():
            try:
                kept.append(keep_staging(staging))
            except OSError:
                kept.append(staging)  # it stays in place, which the message reports
        self._stagings.clear()
        places = ", ".join(dict.fromkeys(str(path) for path in broken))
        folders = ", ".join(str(path) for path in kept)
        return StorageError(
            "STORAGE",
            f"the change failed and could not be undone at {places}",
            place=SourceLocation(str(broken[0])),
            fix=f"move what stood there back from {folders}" if kept else None,
        )

    def _tell_kept(self, kept: Path) -> None:
        message = "a change was interrupted, and what stood there before it is kept here"
        fix = f"Move what you want to keep out of {kept}, then remove it; skillwire verify shows the differences."
        self._folder.report(Finding("SKILLS_KEPT", "warning", message, SourceLocation(str(kept)), fix))

    def _staging(self, parent: Path) -> Path:
        """Return the staging folder inside ``parent``, after clearing away what a crash left there."""
        if parent not in self._stagings:
            with storage_errors(parent):
                self._make(parent)
                for left in parent.glob(f"{STAGING}-*"):
                    self._clear(left)
                staging = parent / f"{STAGING}-{os.urandom(6).hex()}"
                self._stagings[parent] = staging
                staging.mkdir(mode=0o700)
        return self._stagings[parent]

    def _clear(self, left: Path) -> None:
        """Remove what a crash left, except skills of the user that no journal of ours knows, which are kept."""
        if left.is_symlink() or not left.is_dir():
            left.unlink()
        elif holds_asides(left):
            self._tell_kept(keep_staging(left))
        else:
            import shutil  # noqa: PLC0415  # only after a crash

            shutil.rmtree(left)

    def _make(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        self._made += [path for path in missing if self._root in path.parents]
        folder.mkdir(parents=True, exist_ok=True)

    def _remove_empty(self, folder: Path) -> None:
        """Remove ``folder`` if it is empty, and the parents that this change made, or our ``.agents``."""
        ours = {folder, *self._made}
        if folder.parent.name == ".agents":
            ours.add(folder.parent)
        while folder in ours and self._root in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                return  # it holds something, so it stays
            folder = folder.parent


def busy_path(root: Path) -> Path:
    """Return the lock file of changes below ``root``, where it really is."""
    return state_directory() / "locks" / hashlib.sha256(os.fsencode(root)).hexdigest()


def journal_path(root: Path) -> Path:
    """Return the journal of the change that is being made below ``root``, where it really is."""
    return busy_path(root).with_suffix(".journal")


class FileSkillsFolder:
    """Fills :class:`skillwire.ports.SkillsFolder`.

    Args:
        root: the project or the home folder.
        lock_path: of ``skills.lock``; in the root by default.
        report: called with a finding for each leftover that an interrupted change could not restore.
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

    def installed_files(self, placement: InstallLocation, name: str) -> Mapping[str, str] | None:
        """Return ``path → SHA-256`` of the installed files of ``name``; None when no copy exists.

        A copy that differs, or an unexpected link, appears under a key that no lock contains, so it counts as a change.
        :meth:`missing_places` reports absent copies and links.
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
            is_ours = path.is_symlink() and real_path(path) == real_path(self.inside(placement.folders[0]) / name)
            if os.path.lexists(path) and not is_ours:
                return {f"{folder}/{name}": "is not our link"}
        return found

    def missing_places(self, placement: InstallLocation, name: str) -> tuple[str, ...]:
        """Return each ``folder/name`` of ``placement`` without a copy or link."""
        placement = self.distinct(placement)
        folders = (*placement.folders, *placement.links)
        return tuple(f"{folder}/{name}" for folder in folders if not os.path.lexists(self.inside(folder) / name))

    def change(self) -> FolderChange:
        """Begin a change; only one at a time."""
        return FolderChange(self)

    def inside(self, folder: str) -> Path:
        """Return the real path of ``folder``, which must be in the root. Raises TrustError (``FOLDER_OUTSIDE``)."""
        path = os.path.join(self.root, folder)  # noqa: PTH118  # text, as this is asked several times for each skill
        real = os.path.realpath(path)
        if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
            raise TrustError("FOLDER_OUTSIDE", f"{folder} leads out of {self.root}", place=SourceLocation(path))
        return Path(real)

    def distinct(self, placement: InstallLocation) -> InstallLocation:
        """Return ``placement`` without the folders and links that really are an earlier one's folder."""
        if len(placement.folders) + len(placement.links) == 1:
            return placement
        seen: set[Path] = set()
        return InstallLocation(
            tuple(self._not_seen(placement.folders, seen)),
            tuple(self._not_seen(placement.links, seen)),
        )

    def _not_seen(self, folders: Iterable[str], seen: set[Path]) -> Iterator[str]:
        for folder in folders:
            real = self.inside(folder)
            if real not in seen:
                seen.add(real)
                yield folder


def real_path(path: Path) -> Path:
    """Return ``path`` without links; unlike :meth:`pathlib.Path.resolve` it raises nothing for a loop of links."""
    return Path(os.path.realpath(path))
