"""Lint rules, by what they look at; :mod:`skillwire.folder.rules` has a row for each.

Rules read one folder's files, its parsed documents, and its text files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from skillwire.errors import SourceLocation
from skillwire.folder.frontmatter import SkillMd
from skillwire.folder.manifest import Manifest
from skillwire.model.skill import FileContent
from skillwire.trust.guarded_json import place_of_range
from skillwire.trust.guarded_toml import toml_place

_TEXT_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class TextFile:
    """One file of the folder as text; ``path`` is its path in the skill, ``source`` names it in messages."""

    path: str
    source: str
    text: str
    executable: bool

    def place(self, start: int, end: int) -> SourceLocation:
        """Return the place of ``text[start:end]``."""
        return place_of_range(self.text, start, end, self.source)


@dataclass(frozen=True, slots=True)
class FolderContent:
    """A folder during the check; a document is None when it is absent or unreadable."""

    root: str
    name: str
    files: tuple[FileContent, ...]
    skill_md: SkillMd | None
    manifest: Manifest
    descriptor: Mapping[str, object] | None
    texts: tuple[TextFile, ...]

    def place(self, path: str) -> SourceLocation:
        """Return the place of the file at ``path`` in the skill."""
        return SourceLocation(f"{self.root}/{path}")

    def manifest_place(self, *path: str) -> SourceLocation:
        """Return the place of a key of ``skill.toml``."""
        text = next((file.text for file in self.texts if file.path == "skill.toml"), "")
        return toml_place(text, path, f"{self.root}/skill.toml")


def text_files(root: str, files: tuple[FileContent, ...]) -> Iterator[TextFile]:
    """Yield the files that are text: UTF-8 without NUL, of at most 1 MiB."""
    for path, content, executable in files:
        data = bytes(content)
        if len(data) > _TEXT_BYTES or b"\0" in data:
            continue
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:  # a picture, a font: no rule reads it
            continue
        yield TextFile(path, f"{root}/{path}", text, executable)
