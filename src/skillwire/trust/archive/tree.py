"""An archive's entries as a tree in memory, and links followed in it.

Links are followed as the system would: component by component, a link met on the way followed in turn,
``..`` going to the parent of where the walk *is*. So a chain of links of which none escapes as text, but
all of them together do, is seen. What one link leads to is found once and remembered, so that links which
name each other many times cost no more than links which do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.model.skill import FileContent
from skillwire.trust.paths import collision_key, show

if TYPE_CHECKING:
    from skillwire.trust.archive.entries import Entry


class Link:
    """A symbolic or hard link, where it stands, and what it was found to lead to."""

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
        """Put ``entry`` in its place, and the folders above it.

        Raises:
            TrustError: ``PATH_COLLISION`` or ``LINK_THROUGH``.
        """
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
                raise TrustError("LINK_THROUGH", f"{show(below)} stands below the link {show(path)}")
            raise _collision(path, existing[0])
        folder = self._folders[path] = Folder(parent)
        parent.children[key] = name, folder
        return folder

    def resolve(self, link: Link, hops: int = 0) -> Folder | FileContent:
        """Return the folder or file that ``link`` leads to.

        Raises:
            TrustError: ``LINK_ESCAPE``, ``LINK_DANGLING``, ``LINK_LOOP``, ``LINK_THROUGH``,
                ``PATH_TOO_LONG``, ``PATH_WINDOWS`` or ``PATH_INVALID``.
        """
        if link.found is None:
            if hops > limits.ARCHIVE_LINK_HOPS:
                raise TrustError("LINK_LOOP", f"the link {show(link.path)} is never followed to an end")
            link.found = self._walk(link, hops)
        return link.found

    def _walk(self, link: Link, hops: int) -> Folder | FileContent:
        node: Folder | FileContent = self.root if link.hard else link.folder
        for part in _target(link).split("/"):
            if not isinstance(node, Folder):
                raise _dangling(link)
            if part in {"", "."}:
                continue
            node = self._parent(node, link) if part == ".." else self._child(node, part, link, hops)
        if link.hard and isinstance(node, Folder):
            raise _dangling(link)
        return node

    def _parent(self, node: Folder, link: Link) -> Folder:
        if node.parent is None:
            raise _escape(link)
        return node.parent

    def _child(self, folder: Folder, name: str, link: Link, hops: int) -> Folder | FileContent:
        written, node = folder.children.get(collision_key(name), ("", None))
        if node is None or written != name:
            raise _dangling(link)
        if not isinstance(node, Link):
            return node
        if link.hard and not node.hard:
            raise TrustError("LINK_THROUGH", f"the hard link {show(link.path)} leads to or through a symbolic link")
        return self.resolve(node, hops + 1)


def _target(link: Link) -> str:
    if len(link.target) > limits.ARCHIVE_PATH_BYTES:
        raise TrustError("PATH_TOO_LONG", f"the target of the link {show(link.path)} is too long")
    try:
        target = link.target.decode()
    except UnicodeDecodeError as error:
        raise TrustError("PATH_INVALID", f"the target of the link {show(link.path)} is not UTF-8") from error
    if "\\" in target:
        raise TrustError("PATH_WINDOWS", f"the target of the link {show(link.path)} holds a backslash")
    if target.startswith("/"):
        raise _escape(link)
    return target


def _collision(path: str, other: str) -> TrustError:
    return TrustError("PATH_COLLISION", f"{show(path)} stands where there is {show(other)} already")


def _escape(link: Link) -> TrustError:
    return TrustError("LINK_ESCAPE", f"the link {show(link.path)} leads out, to {show(link.target)}")


def _dangling(link: Link) -> TrustError:
    return TrustError("LINK_DANGLING", f"the link {show(link.path)} leads to nothing: {show(link.target)}")
