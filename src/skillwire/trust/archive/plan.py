"""The plan of an unpacking: which files there will be, decided before the first one is written.

The entries of an archive are put into a tree in memory. No two may meet in one place, as
:func:`skillwire.trust.paths.collision_key` sees places, and none may stand below a link. Then every link is
followed inside that tree, as the system would follow it, and is planned as a copy of what it leads to: a
copy cannot be turned to point elsewhere later, and works on systems without links. So a plan has files and
nothing else; folders are implied, and one without files vanishes.

Spec: ASD Archive Structure, Archive Safety.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import TrustError, ValidationError
from skillwire.model.skill import FileContent
from skillwire.trust.archive.entries import Entry, check_file_size
from skillwire.trust.archive.tree import Folder, Link, Tree
from skillwire.trust.paths import check_path, show

if TYPE_CHECKING:
    from collections.abc import Iterable

_SKILL_MD: Final = "SKILL.md"


class ArchivePlan(NamedTuple):
    """Files that are safe to write below one folder, sorted by path, ``SKILL.md`` among them."""

    files: tuple[FileContent, ...]


def plan_entries(entries: Iterable[Entry]) -> ArchivePlan:
    """Return the plan of an archive's entries.

    Raises:
        ValidationError: ``NO_SKILL_MD``.
        TrustError: ``ARCHIVE_ENTRIES``, ``ARCHIVE_TOTAL_SIZE``, ``PATH_COLLISION`` or a code that begins
            with ``LINK_``.

    Trust: ``entries`` come from a hostile archive; copies of links count against the same bounds as files,
    and folders that links lead to are walked at most as often as there may be entries.
    """
    tree = Tree()
    budget = _Budget()
    for entry in entries:
        budget.spend(len(entry.content), entry.path)
        tree.add(entry)
    files = [*_files_below(tree.root, "", (tree.root,), tree, budget)]
    files.sort(key=lambda file: file.path)
    _check_skill_md(files)
    return ArchivePlan(tuple(files))


def plan_files(files: Iterable[FileContent]) -> ArchivePlan:
    """Return the plan of files that came one by one, or from a folder, under the same rules.

    Raises:
        ValidationError, TrustError: as :func:`plan_entries`, and the codes of paths.
    """
    return plan_entries(map(_file_entry, files))


def _file_entry(file: FileContent) -> Entry:
    check_file_size(len(file.content), file.path)
    return Entry("file", check_path(file.path), file.content, file.executable)


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
    """Yield the files below ``folder``, links replaced by what they lead to.

    ``trail`` are the folders that are being walked: to enter one of them again would never end.
    """
    for name, node in folder.children.values():
        path = prefix + name
        found = tree.resolve(node) if isinstance(node, Link) else node
        is_copy = copied or found is not node
        if is_copy:
            check_path(path)
            budget.spend(0 if isinstance(found, Folder) else len(found.content), path)
        if not isinstance(found, Folder):
            yield FileContent(path, found.content, found.executable)
            continue
        if found in trail:
            raise TrustError("LINK_LOOP", f"the link {show(path)} leads to a folder that it stands in")
        yield from _files_below(found, path + "/", (*trail, found), tree, budget, copied=is_copy)


def _check_skill_md(files: list[FileContent]) -> None:
    paths = {file.path for file in files}
    if _SKILL_MD in paths:
        return
    for folder in {path.partition("/")[0] for path in paths}:
        if f"{folder}/{_SKILL_MD}" in paths:
            raise ValidationError("NO_SKILL_MD", f"SKILL.md stands in a wrapper folder, {show(folder)}")
    raise ValidationError("NO_SKILL_MD", "there is no SKILL.md at the root")
