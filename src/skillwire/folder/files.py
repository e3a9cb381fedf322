"""The files of a skill's folder with their bytes, and the skill folders below a root.

Each file is opened once without following a link, and the open file is examined, so a change between the two steps has
no effect. A symbolic link to a target within the folder is published as a copy; any other link is an error. Files of
editors, tools and version control are excluded with a note, files that usually hold secrets with a warning. A build
reads ten thousand folders, and three files take about 60 µs. Spec: specs §0.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from errno import EHOSTDOWN, EIO, EMFILE, ENFILE, ENOMEM, ENOTCONN, ESTALE, ETIMEDOUT
from functools import lru_cache
from pathlib import Path
from typing import Final

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, StorageError, TrustError
from skillwire.folder.rules import CheckLevel, Findings
from skillwire.model.skill import SKILL_MD, FileContent, Finding
from skillwire.trust.paths import check_path, collision_key

_JUNK: Final = re.compile(
    r"\.(?:DS_Store|AppleDouble|Trashes|Spotlight-V100|fseventsd|directory|git|hg|svn|bzr"
    r"|idea|vscode|venv|tox|nox|mypy_cache|ruff_cache|pytest_cache|hypothesis|coverage)"
    r"|Thumbs\.db|desktop\.ini|__pycache__|__MACOSX|node_modules|\._.*|.*\.py[co]|.*~|#.*#|\..*\.sw[a-p]|.*\.(?:orig|rej|bak)"
)
_PRIVATE: Final = re.compile(
    r"\.env(?:\.(?!example$|sample$|template$).*)?|\.netrc|\.npmrc|\.pypirc|\.git-credentials|\.aws|\.ssh|\.gnupg|\.kube"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|.*\.(?:p12|pfx|keystore|jks)"
)
#: Errors of the machine or of a network disk, which say nothing about the folder that was being read.
_MACHINE_ERRORS: Final = frozenset({EHOSTDOWN, EIO, EMFILE, ENFILE, ENOMEM, ENOTCONN, ESTALE, ETIMEDOUT})
_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def raise_machine_error(error: OSError, path: str) -> None:
    """Raise StorageError (``STORAGE``) for an error that says nothing about ``path``: nothing follows from it."""
    if is_machine_error(error):
        raise StorageError("STORAGE", f"{error.strerror}", place=SourceLocation(path)) from error


def is_machine_error(error: OSError | None) -> bool:
    """Whether the machine failed, or a network disk."""
    return error is not None and error.errno in _MACHINE_ERRORS


def read_files(root: str, findings: Findings) -> tuple[FileContent, ...]:
    """Return the skill's files below ``root`` by path, ``SKILL.md`` first; add what is wrong. Raises StorageError."""
    walk = _Walk(root, findings)
    walk.folder(root, "")
    files = sorted(walk.files, key=lambda file: (file.path != SKILL_MD, file.path))
    taken: dict[str, str] = {}
    for file in files:
        first = taken.setdefault(collision_key(file.path), file.path)
        if first != file.path:
            error = TrustError("PATH_COLLISION", f"{file.path} and {first} are one file on some systems")
            findings.add_error(error, SourceLocation(f"{root}/{file.path}"))
    return tuple(files)


@lru_cache(maxsize=4096)  # skills name their files alike
def is_junk(name: str) -> bool:
    """Whether a file or folder of this name never belongs to a skill."""
    return _JUNK.fullmatch(name) is not None


class _Walk:
    def __init__(self, root: str, findings: Findings) -> None:
        self.files: list[FileContent] = []
        self._root = root
        self._findings = findings
        self._bytes = 0
        self._entries = 0
        self._full = False

    def folder(self, path: str, prefix: str) -> None:
        """Read what is in the folder at ``path``; ``prefix`` is its place in the skill, with a final ``/``."""
        empty = True
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if self._full:
                        return
                    empty = False
                    self._entry(entry, prefix + entry.name)
        except OSError as error:
            self._unreadable(error, prefix)
        else:
            if empty and prefix:
                self._add("FOLDER_EMPTY", "the folder is empty", prefix[:-1])

    def _entry(self, entry: os.DirEntry[str], path: str) -> None:
        if _JUNK.fullmatch(entry.name):
            self._add("FILE_EXCLUDED", f"{entry.name} is excluded", path)
        elif _PRIVATE.fullmatch(entry.name):
            self._add("FILE_PRIVATE", f"{entry.name} is excluded", path)
        elif entry.is_symlink():
            self._link(entry.path, path)
        elif entry.is_dir(follow_symlinks=False):
            self._below(entry.path, path)
        elif entry.is_file(follow_symlinks=False):
            self._file(entry.path, path)
        else:
            self._add("FILE_SPECIAL", "this is neither a file nor a folder", path)

    def _below(self, source: str, path: str) -> None:
        if path.count("/") >= limits.ARCHIVE_DEPTH:
            error = TrustError("PATH_TOO_DEEP", f"folders nest more than {limits.ARCHIVE_DEPTH} levels deep")
            self._findings.add_error(error, self._place(path))
        else:
            self.folder(source, path + "/")

    def _link(self, source: str, path: str) -> None:
        """Read what a symbolic link leads to, when that is within the folder."""
        try:
            root = Path(self._root).resolve(strict=True)
            target = Path(source).resolve(strict=True)
        except (OSError, RuntimeError):  # nothing there, or a circle of links
            self._add("LINK_OUTSIDE", "the link leads to nothing", path)
            return
        if not target.is_relative_to(root):
            self._add("LINK_OUTSIDE", "the link leads out of the folder", path)
        elif any(_JUNK.fullmatch(part) or _PRIVATE.fullmatch(part) for part in target.relative_to(root).parts):
            self._add("FILE_EXCLUDED", "the link leads to an excluded file", path)
        elif Path(source).parent.resolve().is_relative_to(target):
            self._add("LINK_CIRCLE", "the link leads to a folder that it is in", path)
        else:
            self._add("LINK_COPIED", "the link is published as a copy", path)
            take = self._below if target.is_dir() else self._file
            take(str(target), path)

    def _file(self, source: str, path: str) -> None:
        try:
            check_path(path)
            descriptor = os.open(source, _OPEN)
            try:
                state = os.fstat(descriptor)
                if not stat.S_ISREG(state.st_mode):
                    self._add("FILE_SPECIAL", "this is neither a file nor a folder", path)
                elif self._fits(state.st_size, path):
                    content = os.read(descriptor, state.st_size)
                    while len(content) < state.st_size and (piece := os.read(descriptor, state.st_size - len(content))):
                        content += piece
                    self.files.append(FileContent(path, content, bool(state.st_mode & stat.S_IXUSR)))
            finally:
                os.close(descriptor)
        except SkillwireError as error:
            self._findings.add_error(error, self._place(path))
        except OSError as error:
            self._unreadable(error, path)

    def _fits(self, size: int, path: str) -> bool:
        self._entries += 1
        self._bytes += size
        if self._entries > limits.ARCHIVE_ENTRIES:
            error = TrustError("ARCHIVE_ENTRIES", f"the folder has more than {limits.ARCHIVE_ENTRIES} files")
        elif size > limits.ARCHIVE_FILE_BYTES:
            error = TrustError("ARCHIVE_FILE_SIZE", f"{size:,} bytes, at most {limits.ARCHIVE_FILE_BYTES:,} in a file")
        elif self._bytes > limits.ARCHIVE_TOTAL_BYTES:
            error = TrustError("ARCHIVE_TOTAL_SIZE", f"the files have more than {limits.ARCHIVE_TOTAL_BYTES} bytes")
        else:
            return True
        self._full = error.code != "ARCHIVE_FILE_SIZE"
        self._findings.add_error(error, self._place(path))
        return False

    def _unreadable(self, error: OSError, path: str) -> None:
        raise_machine_error(error, f"{self._root}/{path}")
        self._add("FILE_UNREADABLE", error.strerror or "it cannot be read", path)

    def _add(self, code: str, message: str, path: str) -> None:
        self._findings.add(code, message, self._place(path))

    def _place(self, path: str) -> SourceLocation:
        return SourceLocation(f"{self._root}/{path}")


#: How many folders deep below a root a skill is looked for.
SEARCH_DEPTH: Final = 4
_SKILL_MD_LOWER: Final = SKILL_MD.lower()


def find_folders(root: Path) -> list[Path]:
    """Return ``root`` if it is a skill, else the skills below it, sorted; none inside another.

    Looks at most :data:`SEARCH_DEPTH` folders deep, follows links to folders once, and skips folders that begin with a
    dot or belong to a tool.
    """
    return [Path(folder) for folder in find_folder_names(str(root))]


def find_folder_names(root: str, unreadable: dict[str, OSError] | None = None) -> list[str]:
    """Return :func:`find_folders` as text, and add to ``unreadable`` the folders that may hold more."""
    found = _find(root, SEARCH_DEPTH, set(), {} if unreadable is None else unreadable)
    return sorted(found, key=lambda folder: folder.split("/"))


def _find(folder: str, depth: int, seen: set[tuple[int, int]], unreadable: dict[str, OSError]) -> Iterator[str]:
    try:
        state = os.stat(folder)  # noqa: PTH116  # text, for its number
        entries = list(os.scandir(folder))
    except OSError as error:
        unreadable[folder] = error
        return
    if (state.st_dev, state.st_ino) in seen:
        return
    seen.add((state.st_dev, state.st_ino))
    if any(entry.name.lower() == _SKILL_MD_LOWER for entry in entries):
        yield folder
    elif depth:
        for entry in entries:
            try:
                is_searched = not entry.name.startswith(".") and not is_junk(entry.name) and entry.is_dir()
            except OSError as error:  # such as a circle of links
                unreadable[entry.path] = error
            else:
                if is_searched:
                    yield from _find(entry.path, depth - 1, seen, unreadable)


def find_bare_folders(root: Path, skills: Collection[Path], *, level: CheckLevel = "strict") -> Iterator[Finding]:
    """Yield a finding for each folder beside skills that contains none: its ``SKILL.md`` may be missing or misspelt.

    ``skills`` is what :func:`find_folders` found in ``root``.
    """
    if root not in {skill.parent for skill in skills}:  # then the folder holds other things
        return
    holding = {ancestor for skill in skills for ancestor in (skill, *skill.parents)}
    findings = Findings(level)
    for folder in sorted(root.iterdir()):
        passed_over = folder.name.startswith(".") or is_junk(folder.name)
        if folder not in holding and not passed_over and folder.is_dir():
            findings.add("FOLDER_WITHOUT_SKILL", "there is no SKILL.md, here or below", SourceLocation(str(folder)))
    yield from findings
