"""Repairs of a skill's folder for ``check --fix``: only findings that have one right answer.

A repair changes one line of the frontmatter, the line ends of a script or a file's executable bit, never the text
below the frontmatter: a changed SKILL.md must be read with the same body and, beside the repaired fields, the same
values, or it is left alone. Links and files behind links are left alone, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from skillwire.errors import SkillwireError
from skillwire.folder.frontmatter import BOM, parse_skill_md
from skillwire.folder.lint.documents import TYPED
from skillwire.model.skill import SKILL_MD, FileContent, Finding, is_skill_name

#: A key with a value on its line: what stands before the value, the value, what follows it.
_FIELD: Final = re.compile(
    r"(\s*[\w-]+:[ ]+)(\"[^\"\\]*\"|'[^']*'|[^\s\"'#|>&*!\[{](?:[^#]*[^\s#])?)(\s*(?:\s#.*)?)", re.DOTALL
)
_COMMA: Final = re.compile(r"\s*,\s*(?![^()]*\))")
_FRONTMATTER: Final = frozenset({"BYTE_ORDER_MARK", "NAME_FOLDER", "FRONTMATTER_TYPED", "ALLOWED_TOOLS_COMMA"})
_SCRIPT: Final = frozenset({"SCRIPT_LINE_ENDS", "SCRIPT_NOT_EXECUTABLE"})


class Fix(NamedTuple):
    """A file before and after its repair."""

    path: Path
    before: FileContent
    after: FileContent


def plan_fixes(folder: Path, findings: Iterable[Finding]) -> list[Fix]:
    """Return the repairs of the skill in ``folder`` for its ``findings``; nothing is written. Raises OSError."""
    found: dict[Path, list[Finding]] = {}
    for finding in findings:
        path = Path(finding.place.source)
        codes = _FRONTMATTER if path == folder / SKILL_MD else _SCRIPT
        if finding.code in codes and path.is_relative_to(folder):
            found.setdefault(path, []).append(finding)
    fixes = []
    for path, rows in found.items():
        if path.resolve() == folder.resolve() / path.relative_to(folder):  # no link, and behind none
            data = path.read_bytes()
            before = FileContent(str(path), data, executable=bool(path.stat().st_mode & 0o111))
            is_skill_md = path == folder / SKILL_MD
            after = _fix_skill_md(folder, before, rows) if is_skill_md else _fix_script(before, rows)
            fixes += [Fix(path, before, after)] if before != after else []
    return fixes


def _fix_script(script: FileContent, findings: Iterable[Finding]) -> FileContent:
    for finding in findings:
        if finding.code == "SCRIPT_LINE_ENDS":
            script = script._replace(content=bytes(script.content).replace(b"\r\n", b"\n"))
        else:
            script = script._replace(executable=True)
    return script


def _fix_skill_md(folder: Path, file: FileContent, findings: Iterable[Finding]) -> FileContent:
    name = folder.name or folder.resolve().name
    data = bytes(file.content).removeprefix(BOM)
    lines = data.decode("utf-8").split("\n")
    for finding in findings:
        number = (finding.place.line or 0) - 1
        found = _FIELD.fullmatch(lines[number]) if 0 < number < len(lines) else None
        if found is not None:
            lines[number] = found[1] + _repaired(finding.code, found[2], name) + found[3]
    fixed = "\n".join(lines).encode()
    try:
        old, new = parse_skill_md(data), parse_skill_md(fixed)
    except SkillwireError:  # such as a description that skill.toml has
        return file
    same = {**old.fields, **{key: new.fields.get(key) for key in ("name", "allowed-tools") if key in old.fields}}
    is_safe = (new.body, dict(new.fields)) == (old.body, same)
    return file._replace(content=fixed if is_safe else data)


def _repaired(code: str, value: str, name: str) -> str:
    if code == "NAME_FOLDER" and is_skill_name(name):
        return f'"{name}"' if TYPED.fullmatch(name) else name
    if code == "FRONTMATTER_TYPED" and TYPED.fullmatch(value):
        return f'"{value}"'
    return _COMMA.sub(" ", value) if code == "ALLOWED_TOOLS_COMMA" else value
