"""Rules about hidden text: in SKILL.md and its references an error, in other files a warning.

A byte order mark at the beginning of a file is no hidden text; for SKILL.md it has a rule of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.folder.files import SKILL_MD
from skillwire.trust.hidden_text import find_hidden, neutralise, reveal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.folder.content import FolderContent, TextFile
    from skillwire.folder.findings import Findings
    from skillwire.trust.hidden_text import Hidden

#: How many runs of one file are told one by one.
_TOLD: Final = 5
_SHOWN: Final = 120


def lint_hidden(content: FolderContent, findings: Findings) -> None:
    """Judge the text of every file of a folder."""
    for file in content.texts:
        runs = find_hidden(file.text)
        if runs and runs[0] == (0, 1, "byte order mark"):
            runs = runs[1:]
        if runs:
            _tell(file, runs, findings)
        elif file.path == SKILL_MD:
            _lint_fields(content, findings)


def _tell(file: TextFile, runs: list[Hidden], findings: Findings) -> None:
    code = "HIDDEN_CHARACTERS" if file.path.lower().endswith((".md", ".txt")) else "HIDDEN_IN_FILE"
    for run in runs[:_TOLD]:
        message = _describe(file.text[run.start : run.start + run.length], run)
        if run is runs[min(_TOLD, len(runs)) - 1] and len(runs) > _TOLD:
            message += f", and {len(runs) - _TOLD} more places in this file"
        findings.add(code, message, file.place(run.start, run.start + run.length))


def _lint_fields(content: FolderContent, findings: Findings) -> None:
    """Judge what escapes in the frontmatter spell: the file shows a backslash, the reader gets the character."""
    if content.skill_md is None:
        return
    for path, text in _texts(content.skill_md.fields, ()):
        for run in find_hidden(text)[:1]:
            message = (
                f"an escape in {neutralise('.'.join(path))} spells {_describe(text[run.start :][: run.length], run)}"
            )
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


def _describe(characters: str, run: Hidden) -> str:
    first = f"U+{ord(characters[0]):04X}"
    said = f"1 hidden character, a {run.name} ({first})"
    if run.length > 1:
        said = f"{run.length} hidden characters, the first a {run.name} ({first})"
    spelled = neutralise(reveal(characters))
    return f"{said}, spelling {spelled[:_SHOWN]!r}" if spelled else said
