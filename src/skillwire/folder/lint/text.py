"""Rules about hidden text and about links in Markdown.

Hidden text is an error in SKILL.md and its references, a warning in other files. A byte order mark at the beginning of
a file is not hidden text; SKILL.md has a separate rule. Relative links must lead to files of the folder, one
level deep. Links inside code are examples and are ignored, as are targets with placeholders.
Spec: ASD Progressive Disclosure (level 3).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple
from urllib.parse import unquote

from skillwire.folder.lint import FolderContent, TextFile
from skillwire.folder.rules import Findings
from skillwire.model.skill import SKILL_MD
from skillwire.trust.hidden_text import describe_hidden, find_hidden, neutralise

#: How many runs of one file are reported one by one.
_MOST_HIDDEN: Final = 5
_SHOWN: Final = 120


def lint_hidden(content: FolderContent, findings: Findings) -> None:
    """Judge the text of every file of a folder, and what escapes in the frontmatter spell."""
    for file in content.texts:
        runs = find_hidden(file.text)
        if runs and runs[0] == (0, 1, "byte order mark"):
            runs = runs[1:]
        code = "HIDDEN_CHARACTERS" if file.path.lower().endswith((".md", ".txt")) else "HIDDEN_IN_FILE"
        for number, run in enumerate(runs[:_MOST_HIDDEN], 1):
            message = describe_hidden(file.text[run.start : run.start + run.length], run)
            if number == _MOST_HIDDEN < len(runs):
                message += f", and {len(runs) - _MOST_HIDDEN} more places in this file"
            findings.add(code, message, file.place(run.start, run.start + run.length))
        if file.path == SKILL_MD and not runs and content.skill_md is not None:
            # The file shows a backslash, a reader of YAML gets the character.
            for path, text in _texts(content.skill_md.fields, ()):
                for run in find_hidden(text)[:1]:
                    spelled = describe_hidden(text[run.start :][: run.length], run)
                    message = f"an escape in {neutralise('.'.join(path))} spells {spelled}"
                    findings.add("HIDDEN_CHARACTERS", message, content.skill_md.place(*path[:2]))


def _texts(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, path)


_CODE: Final = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*+\n(?:.*\n)*?(?: {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<tick>`++)[^`\n]++(?P=tick)",
    re.MULTILINE,
)
_INLINE: Final = re.compile(r"\]\([ \t]*(?:<([^<>\n]+)>(?=[\s)])|([^\s()<>]+(?:\([^\s()]*\)[^\s()]*)?))")
_DEFINITION: Final = re.compile(r"^ {0,3}\[[^\]\n]+\]:[ \t]*<?([^\s<>]+)", re.MULTILINE)
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:|//|#")
_OF_ONE_MACHINE: Final = re.compile(r"/|~|[A-Za-z]:[\\/]|file:")
_PLACEHOLDER: Final = re.compile(r"[{}$*<>|]|\.\.\.")
_MOST_LINKS: Final = 1_000
_MOST_BROKEN_LINKS: Final = 50


class _Link(NamedTuple):
    target: str
    start: int
    end: int


def lint_links(content: FolderContent, findings: Findings) -> None:
    """Judge the links of every Markdown file of a folder."""
    paths = {file.path for file in content.files}
    places = paths | {path[:end] for path in paths for end, letter in enumerate(path) if letter == "/"}
    direct: set[str] = {SKILL_MD}
    deeper: list[tuple[_Page, _Link, str]] = []
    for file in content.texts:
        if not file.path.lower().endswith(".md"):
            continue
        page = _Page(file, findings)
        for link in _links(file.text):
            path = page.lint(link, places)
            if path and file.path == SKILL_MD:
                direct.add(path)
            elif path and path.lower().endswith(".md") and path != file.path:
                deeper.append((page, link, path))
    for page, link, path in deeper:
        if path not in direct:
            message = f"{neutralise(path)} is reached through {neutralise(page.file.path)} only"
            page.report("REFERENCE_DEPTH", message, link)


class _Page:
    """One Markdown file; its code sections are located when the first doubtful link is met."""

    def __init__(self, file: TextFile, findings: Findings) -> None:
        self.file = file
        self._findings = findings
        self._code: list[tuple[int, int]] | None = None
        self._reported = 0

    def lint(self, link: _Link, places: AbstractSet[str]) -> str | None:
        """Judge one link; return the path in the folder that it leads to, if any."""
        shown = neutralise(link.target[:_SHOWN])
        if _OF_ONE_MACHINE.match(link.target):
            self.report("LINK_ABSOLUTE", f"{shown} is a path of one machine", link)
            return None
        path = _path_of(self.file.path, link.target)
        if path in places or path == ".":
            return path
        where = "leads out of the folder" if path.startswith("..") else "leads to no file of the folder"
        self.report("LINK_BROKEN", f"{shown} {where}", link)
        return None

    def report(self, code: str, message: str, link: _Link) -> None:
        if self._code is None:
            self._code = [span.span() for span in _CODE.finditer(self.file.text)]
        if self._reported < _MOST_BROKEN_LINKS and not any(start <= link.start < end for start, end in self._code):
            self._reported += 1
            self._findings.add(code, message, self.file.place(link.start, link.end))


def _links(text: str) -> Iterator[_Link]:
    found = list(_INLINE.finditer(text))
    if "]:" in text:
        found += _DEFINITION.finditer(text)
    for link in found[:_MOST_LINKS]:
        group = link.lastindex or 0
        target = link[group]
        if target.startswith("//") or _PLACEHOLDER.search(target):
            continue
        if _OF_ONE_MACHINE.match(target) or not _SCHEME.match(target):
            yield _Link(target, *link.span(group))


def _path_of(page: str, target: str) -> str:
    """Return the path in the folder that a link of ``page`` leads to, or one that begins with ``..``."""
    relative = unquote(re.split(r"[?#]", target, maxsplit=1)[0])
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), relative))
