"""Repairs of a skill's folder for ``check --fix``: only findings that have one right answer.

A repair changes one line of the frontmatter, the line ends of a script or a file's executable bit, never the text
below the frontmatter: a changed SKILL.md must be read with the same body and, beside the repaired fields, the same
values, or it is left alone. Where the frontmatter is no YAML, the texts of the lines that are put into quotes must come
back as they are. Links and files behind links are left alone, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillwire.errors import SkillwireError
from skillwire.folder.frontmatter import BOM, parse_skill_md, split_body
from skillwire.folder.lint.documents import TYPED
from skillwire.model.skill import SKILL_MD, FileContent, Finding, is_skill_name

#: A key with a value on its line: what stands before the value, the value, what follows it.
_FIELD: Final = re.compile(
    r"(\s*[\w-]+:[ ]+)(\"[^\"\\]*\"|'[^']*'|[^\s\"'#|>&*!\[{](?:[^#]*[^\s#])?)(\s*(?:\s#.*)?)", re.DOTALL
)
#: A key with a text without quotes, which YAML may refuse; a comment after it counts as text.
_TEXT: Final = re.compile(r"(\s*[\w-]+:[ ]+)([^\s\"'#|>&*!\[{](?:(?!\s#\s).)*[^\s])(\s*)", re.DOTALL)
_SHORT_VERSION: Final = re.compile(r"([\"']?)((?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))?)\1", re.ASCII)
_COMMA: Final = re.compile(r"\s*,\s*(?![^()]*\))")
_FRONTMATTER: Final = frozenset(
    {"BYTE_ORDER_MARK", "NAME_FOLDER", "FRONTMATTER_TYPED", "ALLOWED_TOOLS_COMMA", "VERSION_FORM", "YAML_SYNTAX"}
)
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


def _fix_skill_md(folder: Path, file: FileContent, findings: Sequence[Finding]) -> FileContent:
    name = folder.name or folder.resolve().name
    data = bytes(file.content).removeprefix(BOM)
    if any(finding.code == "YAML_SYNTAX" for finding in findings):
        return file._replace(content=_quote_texts(data))
    lines = data.decode("utf-8").split("\n")
    for finding in findings:
        number = (finding.place.line or 0) - 1
        found = _FIELD.fullmatch(lines[number]) if 0 < number < len(lines) else None
        if found is not None:
            repaired = _full_version(found[2]) if found[1].strip() == "version:" else ""
            lines[number] = found[1] + (repaired or _repaired(finding.code, found[2], name)) + found[3]
    fixed = "\n".join(lines).encode()
    try:
        old, new = parse_skill_md(data), parse_skill_md(fixed)
    except SkillwireError:  # such as a description that skill.toml has
        return file
    changed = ("name", "allowed-tools", "version")
    same = {**old.fields, **{key: new.fields.get(key) for key in changed if key in old.fields}}
    if "version" in old.metadata:
        same["metadata"] = {**old.metadata, "version": new.metadata.get("version")}
    is_safe = (new.body, dict(new.fields)) == (old.body, same)
    return file._replace(content=fixed if is_safe else data)


def _quote_texts(data: bytes) -> bytes:
    """Return a SKILL.md with quotes around each text that is no YAML without; as it is where another fault is left."""
    lines = data.decode("utf-8").split("\n")
    texts: dict[int, str] = {}
    while True:
        fixed = "\n".join(lines).encode()
        try:
            read = parse_skill_md(fixed)
            break
        except SkillwireError as error:
            number = ((error.place and error.place.line) or 0) - 1
            found = _TEXT.fullmatch(lines[number]) if 0 < number < len(lines) else None
            if error.code != "YAML_SYNTAX" or found is None or number in texts:
                return data
            texts[number] = found[2]
            escaped = found[2].replace("\\", "\\\\").replace('"', '\\"')
            lines[number] = f'{found[1]}"{escaped}"{found[3]}'
    for number, text in texts.items():
        path = next((path for path, place in read.places.items() if place.line == number + 1), ())
        value: Any = read.fields
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value != text:
            return data
    return fixed if split_body(fixed) == split_body(data) else data


def _full_version(value: str) -> str:
    """Return a version of one or two numbers with all three, in quotes; empty for any other value."""
    found = _SHORT_VERSION.fullmatch(value)
    return f'"{found[2]}{".0" * (2 - found[2].count("."))}"' if found else ""


def _repaired(code: str, value: str, name: str) -> str:
    if code == "NAME_FOLDER" and is_skill_name(name):
        return f'"{name}"' if TYPED.fullmatch(name) else name
    if code == "FRONTMATTER_TYPED" and TYPED.fullmatch(value):
        return f'"{value}"'
    return _COMMA.sub(" ", value) if code == "ALLOWED_TOOLS_COMMA" else value
