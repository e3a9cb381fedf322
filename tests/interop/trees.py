"""A folder's files as values, to compare with another's to the last byte."""

import os
from collections.abc import Iterator
from pathlib import Path


def tree(folder: Path) -> dict[str, bytes]:
    """Return path → content of every file that belongs to the skill in ``folder``."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in _files(folder)}


def trees(folder: Path) -> dict[str, dict[str, bytes]]:
    """Return name → tree of every skill in ``folder``."""
    return {skill_md.parent.name: tree(skill_md.parent) for skill_md in folder.glob("*/SKILL.md")}


def executables(folder: Path) -> set[str]:
    """Return the paths of the files in ``folder`` that may be executed."""
    return {str(path.relative_to(folder)) for path in _files(folder) if os.access(path, os.X_OK)}


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        # Tests of the examples run their scripts, and Python leaves this beside them.
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
