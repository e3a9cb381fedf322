"""Installed skills on disk, and changes to them that happen as a whole or not at all.

Everything is relative to one root: a project, or the user's home. Skills folders are compared by their real paths:
where ``.claude/skills`` is a link to ``.agents/skills``, a skill in one needs no link in the other. A change works in a
staging folder inside each skills folder, so that placing a skill is a rename on one file system.

Each rename is recorded in a journal before it happens, with the lock file's content before and after; the disk shows
whether it happened. So an interruption at any point can be undone, by this process or by the next one that reads the
lock or begins a change, also repeatedly. A mark in the journal, or the lock's new content, shows that a change is
complete; with the old content each rename is undone. Other content was written by a third party, such as ``git pull``:
then nothing is undone, replaced skills are kept, and the user learns where. The journal lies in the user's state
folder, because a cloned repository could contain one. It is not synced: a killed process loses nothing that it wrote,
and a journal cut by a power failure belongs to a change that had not begun.

The next change removes left staging folders; it keeps replaced skills in them, since their journal may be in another
state directory. Two locks exclude concurrent changes: a file in the state directory named after the root, and the root
folder itself for processes with different state directories.

Trust: the root may be a cloned repository. A skills folder outside the root is refused; links are not followed, and
only regular files are opened, because a FIFO would block and opening a device may have effects.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn

from skillwire import limits
from skillwire.adapters.files import atomic
from skillwire.adapters.files.atomic import release_lock, storage_error, storage_errors, take_lock, write_atomically
from skillwire.errors import ConflictError, SourceLocation, StorageError, TrustError
from skillwire.model.ref import Files, InstallLocation, Lock, LockedSkill
from skillwire.model.skill import FileContent, Finding
from skillwire.resolver.lockfile import LOCK_NAME, decode_lock, encode_lock
from skillwire.trust.archive import unpack
from skillwire.trust.paths import VERSION_CONTROL

_LINK: Final = "is a link"
_NO_FILE: Final = "is not a file"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hash_folder(folder: Path) -> dict[str, str]:
    """Return ``path → SHA-256`` of the files below ``folder``; links get a text that no lock contains."""
    found = {}
    for directory, folders, names in os.walk(folder, onerror=_refuse):
        for name in (*names, *folders):
            path = os.path.join(directory, name)  # noqa: PTH118  # a pathlib object per file costs more than reading it
            if (content := _describe(path)) is not None:
                relative = os.path.relpath(path, folder).replace(os.sep, "/")
                # A name that is not UTF-8 could not be printed.
                found[os.fsencode(relative).decode(errors="backslashreplace")] = content
    return found


def _describe(path: str) -> str | None:
    """Return the digest of the file at ``path``, or a text for a link or special file; None for a folder."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            return None
        if not stat.S_ISREG(mode):
            return _LINK if stat.S_ISLNK(mode) else _NO_FILE
        with open(os.open(path, _READ), "rb") as file:  # noqa: PTH123  # from a handle, so that the flags hold
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return hashlib.file_digest(file, "sha256").hexdigest() if is_file else _NO_FILE
    except OSError as error:
        if error.errno == errno.ELOOP:
            return _LINK  # it became one since we looked
        raise storage_error(error, Path(path)) from error


def _refuse(error: OSError) -> NoReturn:
    raise storage_error(error, Path(error.filename)) from error


#: How the names of our folders inside a skills folder begin: of changes under way, and of what could not be undone.
STAGING: Final = ".skillwire-staging"
KEPT: Final = ".skillwire-kept"
#: A replaced skill in a staging folder.
_ASIDE: Final = re.compile(r".+\.[0-9]+", re.DOTALL)


class Replacement(NamedTuple):
    """A planned replacement: ``place`` moves to ``aside``, then ``staged`` to ``place``; None where nothing moves."""

    place: Path
    aside: Path | None
    staged: Path | None

    def undo(self) -> None:
        """Undo as much of it as has happened."""
        if self.staged is not None:
            _undo_rename(self.staged, self.place)
        if self.aside is not None:
            _undo_rename(self.place, self.aside)


def _undo_rename(source: Path, destination: Path) -> None:
    """Undo a rename if it has happened; it has not when its source exists. Raises OSError."""
    if not os.path.lexists(source) and os.path.lexists(destination):
        destination.rename(source)


def write_journal(
    path: Path, rows: Sequence[Replacement], stagings: Iterable[Path], *, before: bytes | None, after: bytes
) -> None:
    """Record the renames and staging folders before the first rename, and the lock's content before and after."""
    document = {
        "before": _digest(before),
        "after": _digest(after),
        "rows": [[None if part is None else str(part) for part in row] for row in rows],
        "stagings": [str(staging) for staging in stagings],
    }
    with storage_errors(path):
        path.write_text(json.dumps(document), "ascii")


def mark_committed(path: Path) -> None:
    """Mark the change of the journal at ``path`` as complete, whatever the lock holds later. Raises StorageError."""
    with storage_errors(path):
        document = json.loads(path.read_bytes())
    write_atomically(path, json.dumps({**document, "committed": True}).encode("ascii"))


def recover(path: Path, lock_path: Path) -> list[Path]:
    """Undo, or clean up after, the change whose journal is at ``path``; return the folders kept in doubt.

    The caller holds the lock that every change holds. Raises StorageError (``STORAGE``); the journal then stays.
    """
    kept: list[Path] = []
    with storage_errors(path):
        if not path.exists():
            return kept
        try:
            document = json.loads(path.read_bytes())
        except ValueError:  # half written: the change had not begun
            path.unlink()
            return kept
        outcome: Literal["complete", "undo", "keep"] = "complete"
        if not document.get("committed"):
            lock = _digest(lock_path.read_bytes() if lock_path.exists() else None)
            outcome = "undo" if lock == document["before"] else "complete" if lock == document["after"] else "keep"
        if outcome == "undo":
            for row in reversed(document["rows"]):
                Replacement(*(None if part is None else Path(part) for part in row)).undo()  # type: ignore[arg-type]  # the first is never None
        for staging in map(Path, document["stagings"]):
            if outcome == "keep" and holds_asides(staging):
                kept.append(keep_staging(staging))
            else:
                remove_staging(staging)
        path.unlink()
    return kept


def holds_asides(staging: Path) -> bool:
    """Whether ``staging`` holds something that a change moved aside. Raises OSError."""
    return staging.is_dir() and any(_ASIDE.fullmatch(path.name) for path in staging.iterdir())


def keep_staging(staging: Path) -> Path:
    """Rename a staging folder so that no later change removes it; return its new path. Raises OSError."""
    # A cloned repository may have brought a folder of any name along, but not of one that is made up now.
    return staging.rename(staging.with_name(f"{KEPT}-{os.urandom(6).hex()}"))


def remove_staging(folder: Path) -> None:
    """Remove a staging folder; if that fails, the next change in that skills folder removes it."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError:  # it holds something
        _remove_tree(folder, ignore_errors=True)


def _remove_tree(folder: Path, *, ignore_errors: bool = False) -> None:
    import shutil  # noqa: PLC0415  # an installation starts without it, which saves 3 ms

    shutil.rmtree(folder, ignore_errors=ignore_errors)


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


class FolderChange:
    """Fills :class:`skillwire.ports.SkillsFolderChange`."""

    def __init__(self, folder: FileSkillsFolder) -> None:
        self._folder = folder
        self._root = folder.inside(".")
        self._steps: list[tuple[Path, Path | None]] = []
        self._moves: list[tuple[Path, Path]] = []  # sources and destinations
        self._stagings: dict[Path, Path] = {}
        self._made: list[Path] = []
        self._placed: set[Path] = set()
        self._busy_path = busy_path(self._root)
        self._busy = take_lock(self._busy_path, wait=False)
        self._root_handle: int | None = None
        self._is_journaled = False
        try:
            self._root_handle = atomic.lock_folder(self._root)
            for kept in recover(journal_path(self._root), folder.lock_path):
                self._report_kept(kept)
        except BaseException:
            self.close()
            raise

    def stage(self, name: str, files: Sequence[FileContent], location: InstallLocation) -> None:
        """Write a skill into the staging folders; a failure leaves nothing in place."""
        placement = self._folder.distinct(location)
        ready: list[tuple[Path, Path]] = []
        for number, folder in enumerate((*placement.folders, *placement.links)):
            parent = self._folder.inside(folder)
            staged = self._staging(parent) / name
            if number < len(placement.folders):
                unpack(files, staged)
            else:  # real paths: a link is followed from its real folder
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
        """Put everything in place and write ``lock``; a failure restores the previous state. Raises StorageError."""
        path, content = self._folder.lock_path, encode_lock(lock)
        with storage_errors(path):
            before = path.read_bytes() if path.exists() else None
        try:
            replacements: dict[Path, Replacement] = {}
            for number, (place, staged) in enumerate(self._steps, 1):
                if place in replacements or (staged is None and place in self._placed):
                    continue  # a skill that this change placed is not removed
                with storage_errors(place):
                    exists = os.path.lexists(place)
                aside = self._staging(place.parent) / f"{place.name}.{number}" if exists else None
                replacements[place] = Replacement(place, aside, staged)
            rows = list(replacements.values())
            if rows:
                journal = journal_path(self._root)
                self._is_journaled = True
                write_journal(journal, rows, self._stagings.values(), before=before, after=content)
            for row in rows:
                with storage_errors(row.place):
                    if row.aside is not None:
                        self._move(row.place, row.aside)
                    if row.staged is not None:
                        self._move(row.staged, row.place)
            write_atomically(path, content)
        except BaseException as error:
            if broken := self._undo(before):
                raise self._keep(broken) from error
            raise
        finally:
            self._steps.clear()
            self._moves.clear()
        if self._is_journaled:
            # Nothing is undone from here on. A failure here is harmless: the lock shows the same, for now.
            with contextlib.suppress(StorageError):
                mark_committed(journal_path(self._root))

    def close(self) -> None:
        """End the change and remove what was not committed."""
        try:
            self._clean()
        except BaseException:  # most likely an interruption: the rest is removed now
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

    def _move(self, source: Path, destination: Path) -> None:
        self._moves.append((source, destination))
        source.rename(destination)

    def _undo(self, lock_content: bytes | None) -> list[Path]:
        """Undo every move and restore the lock; return the places where that failed."""
        undos: list[Callable[[], None]] = [
            partial(self._restore_lock, lock_content),  # first: with the new lock all would count as complete
            *(partial(_undo_rename, *move) for move in reversed(self._moves)),
        ]
        for undo in undos * 2:  # the second round completes one that a second interruption cut short
            # One failure must not keep the others from being undone; it shows below.
            with contextlib.suppress(BaseException):
                undo()
        broken = [place for move in self._moves if not os.path.lexists(move[0]) for place in move]
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
            fix=f"Move the replaced skills back from {folders}." if kept else None,
        )

    def _report_kept(self, kept: Path) -> None:
        message = "a change was interrupted, and the skill that it replaced is kept here"
        fix = f"Move what you want to keep out of {kept}, then remove it; skillwire verify shows the differences."
        self._folder.report(Finding("SKILLS_KEPT", "warning", message, SourceLocation(str(kept)), fix))

    def _staging(self, parent: Path) -> Path:
        """Return the staging folder inside ``parent``, after removing what a crash left there."""
        if parent not in self._stagings:
            with storage_errors(parent):
                missing = [path for path in (parent, *parent.parents) if not path.exists()]
                self._made += [path for path in missing if self._root in path.parents]
                parent.mkdir(parents=True, exist_ok=True)
                for left in parent.glob(f"{STAGING}-*"):
                    if left.is_symlink() or not left.is_dir():
                        left.unlink()
                    elif holds_asides(left):
                        self._report_kept(keep_staging(left))
                    else:
                        _remove_tree(left)
                staging = parent / f"{STAGING}-{os.urandom(6).hex()}"
                self._stagings[parent] = staging
                staging.mkdir(mode=0o700)
        return self._stagings[parent]

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
    """Return the lock file of changes below ``root``, a real path."""
    return atomic.state_directory() / "locks" / hashlib.sha256(os.fsencode(root)).hexdigest()


def journal_path(root: Path) -> Path:
    """Return the journal of the change below ``root``, a real path."""
    return busy_path(root).with_suffix(".journal")


class FileSkillsFolder:
    """Fills :class:`skillwire.ports.SkillsFolder` for a project or home folder.

    ``report`` is called with a finding for each leftover that an interrupted change could not restore.
    """

    def __init__(
        self, root: Path, lock_path: Path | None = None, report: Callable[[Finding], object] = lambda _: None
    ) -> None:
        self.root = root
        self.report = report
        self.lock_path = lock_path or root / LOCK_NAME
        self._real_root = os.path.realpath(root)

    def read_lock(self) -> Lock:
        """Return the lock, empty without one, after undoing what a killed change left."""
        if journal_path(self.inside(".")).exists():
            with contextlib.suppress(ConflictError):  # another process is making the change right now
                self.change().close()
        with storage_errors(self.lock_path):
            try:
                content = self.lock_path.read_bytes()
            except FileNotFoundError:
                return Lock()
        return decode_lock(content, str(self.lock_path))

    def installed_files(self, placement: InstallLocation, name: str) -> Mapping[str, str] | None:
        """Return ``path → SHA-256`` of the installed files of ``name``; None when no copy exists.

        A copy that differs, or an unexpected link, appears under a key that no lock contains, so it counts as a change.
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

    def read_files(self, locked: LockedSkill) -> Files:
        """Return the files of an installed skill that its lock names, as they are on disk; those that are there."""
        found = []
        for path in locked.files:
            with contextlib.suppress(OSError, TrustError):
                place = self.inside(f"{locked.placement.folders[0]}/{locked.name}/{path}")
                with open(os.open(place, _READ), "rb") as file:  # noqa: PTH123  # from a handle, so that the flags hold
                    state = os.fstat(file.fileno())
                    if stat.S_ISREG(state.st_mode):
                        content = file.read(limits.ARCHIVE_FILE_BYTES)
                        found.append(FileContent(path, content, bool(state.st_mode & stat.S_IXUSR)))
        return tuple(found)

    def missing_places(self, placement: InstallLocation, name: str) -> tuple[str, ...]:
        """Return each ``folder/name`` of ``placement`` without a copy or link."""
        placement = self.distinct(placement)
        folders = (*placement.folders, *placement.links)
        return tuple(f"{folder}/{name}" for folder in folders if not os.path.lexists(self.inside(folder) / name))

    def change(self) -> FolderChange:
        """Begin a change; only one at a time."""
        return FolderChange(self)

    def inside(self, folder: str) -> Path:
        """Return the real path of ``folder``, in the root and not in version control. Raises TrustError.

        Its code is ``FOLDER_OUTSIDE``. Files below ``.git`` could be hooks, and a clone may have a link to there.
        """
        path = os.path.join(self.root, folder)  # noqa: PTH118  # text, as this is asked several times for each skill
        real = os.path.realpath(path)
        if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
            raise TrustError("FOLDER_OUTSIDE", f"{folder} leads out of {self.root}", place=SourceLocation(path))
        if not VERSION_CONTROL.isdisjoint(real[len(self._real_root) :].lower().split("/")):
            raise TrustError("FOLDER_OUTSIDE", f"{folder} leads into version control", place=SourceLocation(path))
        return Path(real)

    def distinct(self, placement: InstallLocation) -> InstallLocation:
        """Return ``placement`` without the folders and links that really are an earlier one's folder."""
        if len(placement.folders) + len(placement.links) == 1:
            return placement
        first: dict[Path, str] = {}
        for folder in (*placement.folders, *placement.links):
            first.setdefault(self.inside(folder), folder)
        kept = [*first.values()]
        folders = tuple(dict.fromkeys(folder for folder in placement.folders if folder in kept))
        return InstallLocation(folders, tuple(folder for folder in kept if folder not in folders))


def real_path(path: Path) -> Path:
    """Return ``path`` without links; unlike :meth:`pathlib.Path.resolve` a loop of links raises nothing."""
    return Path(os.path.realpath(path))
