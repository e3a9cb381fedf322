"""The folders of skills below a root: which there are, and which only look as if they were. Spec: specs §0."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.errors import Place
from skillwire.folder.files import SKILL_MD, is_junk
from skillwire.folder.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from skillwire.folder.rules import CheckLevel
    from skillwire.model.finding import Finding

#: How many folders deep below a root a skill is looked for.
SEARCH_DEPTH: Final = 4
_SKILL_MD_LOWER: Final = SKILL_MD.lower()


def find_folders(root: Path) -> list[Path]:
    """Return ``root`` when it is a skill, else the skills below it, sorted; none inside another.

    Looks at most :data:`SEARCH_DEPTH` folders deep, follows links to folders once, and passes over folders
    whose name begins with a dot or belongs to a tool.
    """
    return [Path(folder) for folder in find_folder_names(str(root))]


def find_folder_names(root: str) -> list[str]:
    """Return the same as :func:`find_folders`, as text: a path object for each of 10,000 folders is felt."""
    return sorted(_find(root, SEARCH_DEPTH, set()), key=lambda folder: folder.split("/"))


def _find(folder: str, depth: int, seen: set[tuple[int, int]]) -> Iterator[str]:
    try:
        state = os.stat(folder)  # noqa: PTH116  # text, for its number
        names = os.listdir(folder)  # noqa: PTH208  # same
    except OSError:
        return  # a folder that cannot be looked into holds no skill that could be read
    if (state.st_dev, state.st_ino) in seen:
        return
    seen.add((state.st_dev, state.st_ino))
    if SKILL_MD in names or any(name.lower() == _SKILL_MD_LOWER for name in names):
        yield folder
    elif depth:
        for entry in _entries(folder):
            if not entry.name.startswith(".") and not is_junk(entry.name) and entry.is_dir():
                yield from _find(entry.path, depth - 1, seen)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []  # it went away at this moment


def find_bare_folders(root: Path, skills: Collection[Path], *, level: CheckLevel = "strict") -> Iterator[Finding]:
    """Yield a finding for each folder beside skills that is none: ``SKILL.md`` may have been forgotten, or misspelt.

    Args:
        root: a folder of skills. Where no skill is directly in it, it holds other things, and nothing is said.
        skills: what :func:`find_folders` found there.
        level: of the check.
    """
    if root not in {skill.parent for skill in skills}:
        return
    holding = {ancestor for skill in skills for ancestor in (skill, *skill.parents)}
    findings = Findings(level)
    for folder in sorted(root.iterdir()):
        passed_over = folder.name.startswith(".") or is_junk(folder.name)
        if folder not in holding and not passed_over and folder.is_dir():
            findings.add("FOLDER_WITHOUT_SKILL", "there is no SKILL.md, here or below", Place(str(folder)))
    yield from findings
