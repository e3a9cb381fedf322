"""A static site in a folder that may also hold other files, replaced as a whole by each build.

A build writes into a staging folder inside the site, from several processes at once, and renames everything into place
at the end: artifacts first, then files, then the indexes that name them, the site's own index last. An interrupted
build leaves the old site as it was.

The manifest lists what builds made: one line per skill, from which the skill's paths follow, one for its pages, with
their source, and one per other file. So
10,000 lines stand for 100,000 files, and two manifests compare quickly. Its first line names the layout. Only listed
files are replaced or removed; any other file in the way stops the build before it changes anything. The manifest is
extended before the renames and reduced after the removals, so it always covers what builds made, and the next build
can finish after a crash. Trust: a manifest may come from elsewhere with its site, so its paths are checked.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

from skillwire.adapters.files.atomic import open_locked, storage_errors
from skillwire.errors import ConflictError, SourceLocation, TrustError
from skillwire.model.skill import Skill
from skillwire.protocols.agent_skills.server import artifact_name, skill_paths
from skillwire.protocols.skill_sharing import descriptor_path

MANIFEST: Final = ".skillwire-manifest"
_FIRST_LINE: Final = "skillwire site 1"
_STAGE: Final = ".skillwire-stage"
_SHOWN: Final = 3


def skill_line(skill: Skill, *, described: bool) -> str:
    """Return the line of ``skill``, which may have a descriptor. The paths of its files hold no control characters."""
    kind = "described" if described else "skill"
    return "\t".join((kind, skill.name, artifact_name(skill), *(file.path for file in skill.files)))


def file_line(path: str) -> str:
    """Return the line of a file that belongs to no skill; ``path`` is below the site."""
    return f"file\t{path}"


def line_paths(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paths below the site for the manifest's ``lines``."""
    for line in lines:
        kind, *rest = line.split("\t")
        if kind == "file":
            yield rest[0]
        elif kind == "pages":
            yield from (f"skills/{rest[1]}{end}" for end in rest[2:])
        else:
            name, artifact, *files = rest
            for path in skill_paths(name, artifact, files):
                yield path[1:]
            if kind == "described":
                yield descriptor_path(name)[1:]


def read_manifest(site: Path) -> frozenset[str] | None:
    """Return the lines of the site's manifest, or None. Raises TrustError (``SITE_MANIFEST``) for an unknown form."""
    path = site / MANIFEST
    try:
        first, *lines = path.read_text("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return None
    if first != _FIRST_LINE or not all(map(_is_sound, filter(None, lines))):
        raise TrustError("SITE_MANIFEST", "not a manifest that this version wrote", place=SourceLocation(str(path)))
    return frozenset(filter(None, lines))


def write_manifest(site: Path, lines: Iterable[str], stage: Path) -> None:
    """Write the manifest of ``site``: into ``stage`` first, so that a crash leaves no other file in the site."""
    written = stage / MANIFEST
    written.write_bytes("\n".join((_FIRST_LINE, *sorted(lines), "")).encode())
    written.replace(site / MANIFEST)


def _is_sound(line: str) -> bool:
    kind, *rest = line.split("\t")
    if kind == "pages":
        return len(rest) > 1
    return len(rest) == 1 if kind == "file" else kind in {"skill", "described"} and len(rest) > 1 and "." in rest[1]


class SiteChanges(NamedTuple):
    """Numbers of files that a commit wrote and removed."""

    written: Annotated[int, "Files written"]
    removed: Annotated[int, "Files removed"]


class SiteFolder:
    """One build of a site, from staging to :meth:`commit`; a context manager that holds the staging folder.

    With ``force`` it also builds in a folder with other files, and replaces those in the way. ``made`` is its manifest.
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self.path = path
        # A name of its own: workers of a build that was killed may go on writing to theirs for a moment.
        self.stage = path / _STAGE / secrets.token_hex(8)
        self.made: frozenset[str] = frozenset()
        self._force = force
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Read the manifest and make the staging folder.

        Raises ConflictError (``SITE_FOREIGN``, ``FOLDER_BUSY``), TrustError (``SITE_MANIFEST``), StorageError.
        """
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            made = read_manifest(self.path)
            if made is None and not self._force and any(entry.name != _STAGE for entry in self.path.iterdir()):
                raise _foreign("there are files that no build made", self.path)
            self.made = made or frozenset()
            self._lock = _take(self.stage.parent)
            self.stage.mkdir()
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            shutil.rmtree(self.stage.parent, ignore_errors=True)  # the next build removes any rest
            os.close(self._lock)
            self._lock = None

    def commit(self, lines: frozenset[str]) -> SiteChanges:
        """Put the staged files in place and remove files of earlier builds that the manifest ``lines`` lacks.

        Raises as :meth:`__enter__`; after ``SITE_FOREIGN`` nothing has changed.
        """
        old, new = frozenset(line_paths(self.made - lines)), frozenset(line_paths(lines - self.made))
        with storage_errors(self.path):
            moves = self._plan(old)
            stale = sorted(old - new)
            for path in stale:
                # Trust: ``path`` follows from the manifest.
                parent = (self.path / path).parent
                if ".." in path.split("/") or not parent.resolve().is_relative_to(self.path.resolve()):
                    place = SourceLocation(str(self.path / MANIFEST))
                    raise TrustError("SITE_MANIFEST", f"the manifest leads out of the site: {path[:80]!r}", place=place)
            if new:
                write_manifest(self.path, lines | self.made, self.stage)
            for path in moves:
                self._put(path)
            removed = sum(map(self._remove, stale))
            if old or new:
                write_manifest(self.path, lines, self.stage)
        self.made = lines
        changed = sum(path in old or path not in new for path in moves if not (self.path / path).is_dir())
        return SiteChanges(len(new - old) + changed, removed)

    def _plan(self, old: frozenset[str]) -> list[str]:
        """Return the staged files that differ from those in place, in the order to move them."""
        moves = []
        in_the_way: list[str] = []
        for path in _units(str(self.stage), str(self.path), ""):
            target = self.path / path
            if os.path.lexists(target):
                if _same(self.stage / path, target):
                    continue
                in_the_way += _files(target, path)
            moves.append(path)
        in_the_way = [path for path in in_the_way if path not in old and file_line(path) not in self.made]
        if in_the_way and not self._force:
            made = frozenset(line_paths(self.made))
            if foreign := [path for path in in_the_way if path not in made]:
                more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
                message = f"no build made what is in the way: {', '.join(foreign[:_SHOWN])}{more}"
                raise _foreign(message, self.path / foreign[0])
        return sorted(moves, key=_rank)

    def _put(self, path: str) -> None:
        source, target = f"{self.stage}/{path}", f"{self.path}/{path}"
        is_folder = os.path.isdir(source) or os.path.isdir(target)  # noqa: PTH112  # strings, for their number
        if is_folder and os.path.lexists(target):
            for name in list(_files(self.path / path, path)):  # a file has become a folder, or the other way round
                self._remove(name)
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120  # same
        os.replace(source, target)  # noqa: PTH105  # same

    def _remove(self, path: str) -> bool:
        """Remove one file, and the folders that this leaves empty; return whether it was there."""
        target = self.path / path
        if not os.path.lexists(target) or (target.is_dir() and not target.is_symlink()):
            return False
        target.unlink()
        with suppress(OSError):  # a folder that holds something else stays
            for folder in target.parents:
                if folder == self.path:
                    break
                folder.rmdir()
        return True


def _take(stage: Path) -> int:
    while True:
        stage.mkdir(exist_ok=True)
        try:
            handle = open_locked(stage, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except BlockingIOError:
            message = "another build is writing this site"
            raise ConflictError("FOLDER_BUSY", message, place=SourceLocation(str(stage.parent))) from None
        if handle is not None:  # else another build ended at this moment and took the folder with it
            for entry in stage.iterdir():
                try:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                except OSError as error:
                    # A worker of a killed build still writes there; the end of this build removes its last files.
                    if error.errno not in {errno.ENOTEMPTY, errno.ENOENT}:
                        raise
            return handle


def _units(stage: str, site: str, prefix: str) -> Iterator[str]:
    """Yield what one rename each can put in place: files, and folders that the site lacks."""
    with os.scandir(f"{stage}/{prefix}") as entries:
        found = list(entries)
    for entry in found:
        path = prefix + entry.name
        target = f"{site}/{path}"
        if entry.is_dir() and os.path.isdir(target) and not os.path.islink(target):  # noqa: PTH112, PTH114  # as above
            yield from _units(stage, site, path + "/")
        else:
            yield path


def _files(target: Path, path: str) -> Iterator[str]:
    """Yield the path of the file ``target``, or of all files of that folder; ``path`` is its path below the site."""
    if target.is_dir() and not target.is_symlink():
        for entry in target.iterdir():
            yield from _files(entry, f"{path}/{entry.name}")
    elif os.path.lexists(target):
        yield path


def _same(source: Path, target: Path) -> bool:
    if not source.is_file() or target.is_symlink() or not target.is_file():
        return False
    return source.stat().st_size == target.stat().st_size and source.read_bytes() == target.read_bytes()


def _rank(path: str) -> int:
    """Order renames so that no index names what is not there yet: the one of the whole site comes last."""
    if path.startswith(".well-known/") and path.count("/") == 1:
        return 2
    if path in {".well-known", ".well-known/skills/index.json", ".well-known/agent-skills/index.json"}:
        return 3
    return 1 if path.startswith("@") or path.endswith("/index.json") else 0


def _foreign(message: str, path: Path) -> ConflictError:
    return ConflictError("SITE_FOREIGN", message, place=SourceLocation(str(path)))
