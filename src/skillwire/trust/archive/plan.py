"""The plan of an unpacking: the files that will exist, decided before the first one is written.

Entries of either format are put into a tree in memory. No two may have the same
:func:`~skillwire.trust.paths.collision_key`, and none may be below a link. Then every link is followed inside the tree
as a system would: component by component, links on the way in turn, ``..`` to the parent of the current folder. So a
chain of links that escapes only as a whole is detected. Each link is resolved once, so links that name each other many
times cost no more. A link becomes a copy of its target, which cannot be redirected later and works on systems without
links. A plan contains only files; folders are implied. Spec: ASD Archive Structure, Archive Safety.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, TrustError, ValidationError
from skillwire.model.skill import SKILL_MD, FileContent
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path, collision_key, show

#: Characters of a path in the details of a refusal.
_PATH_SHOWN: Final = 200


class Entry(NamedTuple):
    """One member of an archive with a checked name; its link is not yet followed."""

    kind: Literal["file", "folder", "symlink", "hardlink"]
    path: str  # checked; empty for the root folder itself
    content: bytes | memoryview = b""  # a view of the archive reader's bytes
    executable: bool = False
    target: bytes = b""  # of a link, as in the archive


def entry_path(name: bytes, *, folder: bool) -> str:
    """Return the checked path of an entry without a leading ``./`` and a folder's final ``/``."""
    if folder and name in {b".", b"./"}:
        return ""
    name = name.removeprefix(b"./")
    if folder and len(name) > 1:
        name = name.removesuffix(b"/")
    return _check_path(name)


def _check_path(name: str | bytes) -> str:
    try:
        return check_path(name)
    except TrustError as error:
        raise _refused(error.code, error.message, name) from None


def _refused(code: str, message: str, path: str | bytes) -> TrustError:
    """Return the refusal of an entry; its ``details`` name the path."""
    start = path[:_PATH_SHOWN]
    text = start.decode(errors="backslashreplace") if isinstance(start, bytes) else start
    return TrustError(code, message, details={"path": neutralise(text)})


def plausible_size(archive_size: int) -> int:
    """Return the bytes that an archive of ``archive_size`` bytes may inflate to without being a bomb."""
    return max(limits.ARCHIVE_RATIO_FLOOR_BYTES, limits.ARCHIVE_RATIO * archive_size)


def check_file_size(size: int, name: str | bytes) -> None:
    """Refuse a file whose declared size is too large. Raises TrustError (``ARCHIVE_FILE_SIZE``)."""
    if size > limits.ARCHIVE_FILE_BYTES:
        message = f"{show(name)} has {size:,} bytes, at most {limits.ARCHIVE_FILE_BYTES:,}"
        raise _refused("ARCHIVE_FILE_SIZE", message, name)


def malformed(message: str) -> DecodeError:
    """Return the error for an archive that is damaged or contradicts itself."""
    return DecodeError("ARCHIVE_MALFORMED", message)


class Link:
    """A symbolic or hard link, its place, and its resolved target."""

    __slots__ = ("folder", "found", "hard", "path", "target")

    def __init__(self, path: str, folder: Folder, target: bytes, *, hard: bool) -> None:
        self.path, self.folder, self.target, self.hard = path, folder, target, hard
        self.found: Folder | FileContent | None = None


class Folder:
    """A folder; its children are ``(name as written, node)`` by collision key."""

    __slots__ = ("children", "parent")

    def __init__(self, parent: Folder | None) -> None:
        self.parent = parent
        self.children: dict[str, tuple[str, Folder | FileContent | Link]] = {}


class Tree:
    """The tree of one archive."""

    def __init__(self) -> None:
        self.root = Folder(None)
        self._folders = {"": self.root}

    def add(self, entry: Entry) -> None:
        """Put ``entry`` in its place. Raises TrustError (``PATH_COLLISION``, ``LINK_THROUGH``)."""
        if entry.kind == "folder":
            self._folder(entry.path)
            return
        above, _, name = entry.path.rpartition("/")
        folder = self._folder(above, below=entry.path)
        key = collision_key(name)
        if key in folder.children:
            raise _collision(entry.path, folder.children[key][0])
        node: FileContent | Link
        if entry.kind == "file":
            node = FileContent(entry.path, entry.content, entry.executable)
        else:
            node = Link(entry.path, folder, entry.target, hard=entry.kind == "hardlink")
        folder.children[key] = name, node

    def _folder(self, path: str, below: str | None = None) -> Folder:
        """Return the folder at ``path``, made where it is missing; ``below`` is the entry that needs it."""
        known = self._folders.get(path)
        if known is not None:
            return known
        above, _, name = path.rpartition("/")
        parent = self._folder(above, below or path)
        key = collision_key(name)
        existing = parent.children.get(key)
        if existing is not None:
            if below is not None and existing[0] == name and isinstance(existing[1], Link):
                raise _refused("LINK_THROUGH", f"{show(below)} is below the link {show(path)}", below)
            raise _collision(path, existing[0])
        folder = self._folders[path] = Folder(parent)
        parent.children[key] = name, folder
        return folder

    def resolve(self, link: Link, hops: int = 0) -> Folder | FileContent:
        """Return the folder or file that ``link`` leads to. Raises TrustError (a ``LINK_...`` or ``PATH_...`` code)."""
        if link.found is None:
            if hops > limits.ARCHIVE_LINK_HOPS:
                raise _refused("LINK_LOOP", f"the link {show(link.path)} is never followed to an end", link.path)
            node: Folder | FileContent = self.root if link.hard else link.folder
            for part in _target(link).split("/"):
                if not isinstance(node, Folder):
                    raise _dangling(link)
                if part == "..":
                    if node.parent is None:
                        raise _escape(link)
                    node = node.parent
                elif part not in {"", "."}:
                    node = self._child(node, part, link, hops)
            if link.hard and isinstance(node, Folder):
                raise _dangling(link)
            link.found = node
        return link.found

    def _child(self, folder: Folder, name: str, link: Link, hops: int) -> Folder | FileContent:
        written, node = folder.children.get(collision_key(name), ("", None))
        if node is None or written != name:
            raise _dangling(link)
        if not isinstance(node, Link):
            return node
        if link.hard and not node.hard:
            message = f"the hard link {show(link.path)} leads to or through a symbolic link"
            raise _refused("LINK_THROUGH", message, link.path)
        return self.resolve(node, hops + 1)


def _target(link: Link) -> str:
    if len(link.target) > limits.ARCHIVE_PATH_BYTES:
        raise _refused("PATH_TOO_LONG", f"the target of the link {show(link.path)} is too long", link.path)
    try:
        target = link.target.decode()
    except UnicodeDecodeError as error:
        message = f"the target of the link {show(link.path)} is not UTF-8"
        raise _refused("PATH_INVALID", message, link.path) from error
    if "\\" in target:
        raise _refused("PATH_WINDOWS", f"the target of the link {show(link.path)} holds a backslash", link.path)
    if target.startswith("/"):
        raise _escape(link)
    return target


def _collision(path: str, other: str) -> TrustError:
    return _refused("PATH_COLLISION", f"{show(path)} has the place of {show(other)}", path)


def _escape(link: Link) -> TrustError:
    return _refused("LINK_ESCAPE", f"the link {show(link.path)} leads out, to {show(link.target)}", link.path)


def _dangling(link: Link) -> TrustError:
    return _refused("LINK_DANGLING", f"the link {show(link.path)} leads to nothing: {show(link.target)}", link.path)


class ArchivePlan(NamedTuple):
    """Files that are safe to write below one folder, sorted by path, ``SKILL.md`` among them.

    ``folder`` is the name of the wrapper folder that they were taken out of, if any.
    """

    files: tuple[FileContent, ...]
    folder: str = ""


def plan_entries(entries: Iterable[Entry], *, unwraps: bool = False, inside: str = "") -> ArchivePlan:
    """Return the plan of an archive's entries; ``unwraps`` takes files that are all in one folder out of it.

    Where ``inside`` is the path of a skill, it is taken out alone: beside it only files at the root may be.

    Trust: entries are hostile; copies of links count against the same bounds as files, and linked folders are walked at
    most as often as entries are allowed.

    Raises:
        ValidationError: ``NO_SKILL_MD``.
        TrustError: ``ARCHIVE_ENTRIES``, ``ARCHIVE_TOTAL_SIZE``, ``PATH_COLLISION`` or a ``LINK_...`` code.
    """
    tree = Tree()
    budget = _Budget()
    for entry in entries:
        budget.spend(len(entry.content), entry.path)
        tree.add(entry)
    files = sorted(_files_below(tree.root, "", (tree.root,), tree, budget), key=lambda file: file.path)
    if not any(file.path == SKILL_MD for file in files):
        if inside and any(file.path == f"{inside}/{SKILL_MD}" for file in files):
            return _plan_inside(files, inside)
        wrappers = {file.path.partition("/")[0] for file in files}
        if unwraps and len(wrappers) == 1 and any(file.path == f"{min(wrappers)}/{SKILL_MD}" for file in files):
            (wrapper,) = wrappers
            unwrapped = (file._replace(path=file.path.removeprefix(f"{wrapper}/")) for file in files)
            return ArchivePlan(tuple(unwrapped), wrapper)
        for folder, _, rest in (file.path.partition("/") for file in files):
            if rest == SKILL_MD:
                raise ValidationError("NO_SKILL_MD", f"SKILL.md is in a wrapper folder, {show(folder)}")
        raise ValidationError("NO_SKILL_MD", "there is no SKILL.md at the root")
    return ArchivePlan(tuple(files))


def _plan_inside(files: Iterable[FileContent], inside: str) -> ArchivePlan:
    found = []
    for file in files:
        if file.path.startswith(f"{inside}/"):
            found.append(file._replace(path=file.path.removeprefix(f"{inside}/")))
        elif "/" in file.path:
            message = f"{show(file.path)} is outside of {show(inside)}"
            raise ValidationError("SKILL_OUTSIDE", message, details={"path": neutralise(file.path)[:_PATH_SHOWN]})
    return ArchivePlan(tuple(found), inside.rpartition("/")[2])


def plan_files(files: Iterable[FileContent], *, unwraps: bool = False) -> ArchivePlan:
    """Return the plan of single files under the same rules. Raises as :func:`plan_entries`, and the codes of paths."""
    return plan_entries(map(_file_entry, files), unwraps=unwraps)


def _file_entry(file: FileContent) -> Entry:
    check_file_size(len(file.content), file.path)
    return Entry("file", _check_path(file.path), file.content, file.executable)


class _Budget:
    """What is left of the bounds on entries and bytes, links written as copies included."""

    def __init__(self) -> None:
        self._entries = int(limits.ARCHIVE_ENTRIES)
        self._bytes = int(limits.ARCHIVE_TOTAL_BYTES)

    def spend(self, size: int, path: str) -> None:
        self._entries -= 1
        self._bytes -= size
        if self._entries < 0:
            raise TrustError("ARCHIVE_ENTRIES", f"there are over {limits.ARCHIVE_ENTRIES} entries, at {show(path)}")
        if self._bytes < 0:
            raise TrustError("ARCHIVE_TOTAL_SIZE", f"over {limits.ARCHIVE_TOTAL_BYTES} bytes, at {show(path)}")


def _files_below(
    folder: Folder, prefix: str, trail: tuple[Folder, ...], tree: Tree, budget: _Budget, *, copied: bool = False
) -> Iterable[FileContent]:
    """Yield the files below ``folder`` with links replaced by their targets.

    ``trail`` are the folders being walked: entering one of them again would never end.
    """
    for name, node in folder.children.values():
        path = prefix + name
        found = tree.resolve(node) if isinstance(node, Link) else node
        is_copy = copied or found is not node
        if is_copy:
            _check_path(path)
            budget.spend(0 if isinstance(found, Folder) else len(found.content), path)
        if not isinstance(found, Folder):
            yield FileContent(path, found.content, found.executable)
            continue
        if found in trail:
            raise _refused("LINK_LOOP", f"the link {show(path)} leads to a folder that contains it", path)
        yield from _files_below(found, path + "/", (*trail, found), tree, budget, copied=is_copy)
