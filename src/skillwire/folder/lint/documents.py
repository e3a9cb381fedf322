"""Rules about SKILL.md, skill.toml and descriptor.json.

The rules about YAML ask whether other readers find in a frontmatter what ours finds: all values as text, by libyaml's
rules. The most used installer and most agents read with npm's ``yaml`` or ``js-yaml`` or with PyYAML, which give some
plain values another type; npm's ``yaml`` also refuses a comment right after a quote, and quoted text that continues
without indentation. An installer that gets a number for a name skips the skill silently.
``tests/interop/test_frontmatter_readers.py`` compares these rules with those readers. Spec: specs §1.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Any, Final

from skillwire import limits
from skillwire.errors import SourceLocation, did_you_mean
from skillwire.folder.frontmatter import BOM, FIELDS, SkillMd
from skillwire.folder.lint import FolderContent
from skillwire.folder.manifest import entry_points
from skillwire.folder.rules import Findings
from skillwire.folder.scaffold import PLACEHOLDERS
from skillwire.model.skill import SKILL_MD, is_skill_name, is_version
from skillwire.trust.hidden_text import excerpt, neutralise

#: Where plain text is no text: YAML 1.1 (PyYAML) and 1.2 (yaml, js-yaml) together.
TYPED: Final = re.compile(
    r"~|null|true|false|yes|no|on|off|[-+]?\.inf|\.nan|[-+]?0x[\da-f_]+|[-+]?0o?[0-7_]+|[-+]?0b[01_]+"
    r"|[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[-+]?\d+)?|[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.\d*)?"
    r"|\d{4}-\d\d?-\d\d?(?:(?:[Tt]|\s+)\d\d?:\d\d:\d\d(?:\.\d*)?\s*(?:Z|[-+]\d\d?(?::?\d\d)?)?)?",
    re.IGNORECASE,
)
_VALUE: Final = re.compile(r"\s*:\s+(\"[^\"]*\"|'[^']*'|[^\s#|>](?:.*?[^\s])??)(?=\s+#|\s*$)")
_COMMENT: Final = re.compile(r"\s#.*")
#: A quoted value, or the mark of a block of lines, and the comment right after it.
_MARKED: Final = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[|>][-+\d]{0,2})(#?)""", re.DOTALL)


def lint_yaml(skill_md: SkillMd, findings: Findings) -> None:
    """Judge whether simpler and stricter readers, the reference validator among them, read the same frontmatter."""
    for place in skill_md.flows:
        findings.add("FLOW_STYLE", "a list or map is written in brackets", place)
    lines = skill_md.head.split("\n")
    for offset, line in enumerate(lines):
        if "---" in line:
            message = "some readers end the frontmatter at these three hyphens"
            findings.add("FRONTMATTER_HYPHENS", message, _line(skill_md, line, offset, line.index("---"), 3))
        if "\t" in line:
            findings.add("FRONTMATTER_YAML", "a tab", _line(skill_md, line, offset, line.index("\t"), 1))
    _lint_marked(skill_md, lines, findings)
    metadata = skill_md.fields.get("metadata")
    values: list[tuple[tuple[str, ...], Any]] = [((key,), value) for key, value in skill_md.fields.items()]
    values += [(("metadata", key), value) for key, value in (metadata if isinstance(metadata, dict) else {}).items()]
    for path, value in values:
        place = skill_md.place(*path)
        of_value = _value_place(place)
        if path[-1] == "<<" or value in ("=", "<<"):
            findings.add("FRONTMATTER_YAML", "some readers give = and << a meaning", place)
        elif isinstance(value, str) and TYPED.fullmatch(value) and _is_plain(value, place, lines):
            findings.add("FRONTMATTER_TYPED", f"{value} is not text to every reader of YAML", of_value)


def _lint_marked(skill_md: SkillMd, lines: list[str], findings: Findings) -> None:
    """Judge values in quotes and blocks: where their lines begin, and whether a comment touches them."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for place in skill_md.places.values():
        offset, indent = (place.line or 0) - 2, (place.column or 1) - 1
        if not 0 <= offset < len(lines):
            continue
        start = len(lines[offset].partition(":")[0]) + 1
        found = _MARKED.match(skill_md.head, starts[offset] + start)
        if found is None:
            continue
        first, last = (bisect_right(starts, found.start(1)) - 1, bisect_right(starts, found.end(1)) - 1)
        for number in range(first + 1, last + 1):
            line = lines[number]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                message = "a text in quotes goes on without indentation"
                findings.add("FRONTMATTER_YAML", message, _line(skill_md, line, number, 0, 1))
        if found[2]:
            place_of_comment = _line(skill_md, lines[last], last, found.end(1) - starts[last], 1)
            findings.add("FRONTMATTER_YAML", "a comment without a space before it", place_of_comment)


def _is_plain(value: str, place: SourceLocation, lines: list[str]) -> bool:
    """Whether ``value`` is unquoted, after its key or on the next line with content."""
    offset = (place.line or 0) - 2
    if not 0 <= offset < len(lines):
        return False
    rest = (lines[offset].partition(":")[2], *lines[offset + 1 :])
    return next(filter(None, (_COMMENT.sub("", f" {line}").strip() for line in rest)), None) == value


def _value_place(key: SourceLocation) -> SourceLocation:
    """Return the location of the value of a key; that of the key where its line has no value."""
    found = _VALUE.match(key.excerpt or "", (key.end_column or 1) - 1)
    return key._replace(column=found.start(1) + 1, end_column=found.end(1) + 1) if found else key


def _line(skill_md: SkillMd, line: str, offset: int, column: int, width: int) -> SourceLocation:
    return SourceLocation(skill_md.source, offset + 2, column + 1, column + 1 + width, excerpt(line))


_CHARACTERS_A_TOKEN: Final = 4
_LENGTHS: Final = (
    ("description", "DESCRIPTION_LENGTH", limits.DESCRIPTION_LENGTH),
    ("compatibility", "COMPATIBILITY_LENGTH", limits.COMPATIBILITY_LENGTH),
)
_PARENTHESES: Final = re.compile(r"\([^()]*\)")
_LINK_TEXT: Final = re.compile(rb"(?!---)[\w./~-]{1,255}\n?")


def lint_skill_md(content: FolderContent, findings: Findings) -> None:
    """Judge the SKILL.md of a folder."""
    if not content.files or content.files[0].path != SKILL_MD:
        return
    data = bytes(content.files[0].content)
    start = SourceLocation(f"{content.root}/{SKILL_MD}", 1, 1)
    if data.startswith(BOM):
        findings.add("BYTE_ORDER_MARK", "the file begins with a byte order mark", start)
    if is_link_text(data):
        findings.add("SYMLINK_TEXT", "the whole file is one path, as the text of a symbolic link is", start)
    skill_md = content.skill_md
    if skill_md is not None:
        if "description" in skill_md.fields:
            _lint_name(skill_md, content, findings)
            lint_yaml(skill_md, findings)
            _lint_fields(skill_md, findings)
        else:  # the rules of Agent Skills are not those of its fields
            findings.add("SKILLS_PROTOCOL_ONLY", "the frontmatter has no description", skill_md.place())
        version = skill_md.metadata.get("version")
        if version is not None and not is_version(version):
            message = f"{neutralise(version[:80])!r} is not a version such as 1.0.0"
            findings.add("VERSION_FORM", message, _value_place(skill_md.place("metadata", "version")))
        elif version is None and content.manifest.version is None:
            findings.add("VERSION_MISSING", "the skill has no version", skill_md.place())
        _lint_body(skill_md, content, findings)


def _lint_name(skill_md: SkillMd, content: FolderContent, findings: Findings) -> None:
    shown, place = repr(neutralise(skill_md.name[:80])), skill_md.place("name")
    if not is_skill_name(skill_md.name):
        findings.add("NAME_RULE", f"{shown} is not a name that every reader takes", place)
    if skill_md.name != content.name:
        message = f"the skill is named {shown}, its folder {neutralise(content.name)!r}"
        findings.add("NAME_FOLDER", message, place)


def is_link_text(data: bytes) -> bool:
    """Whether the whole file is the text of a symbolic link: one path, and nothing else."""
    return _LINK_TEXT.fullmatch(data) is not None and b"/" in data


def _lint_fields(skill_md: SkillMd, findings: Findings) -> None:
    for flaw in skill_md.flaws:
        findings.add("FIELD_FORM", flaw.message, flaw.place or skill_md.place())
    for field in skill_md.unknown:
        message = f"the format has no field {neutralise(field[:80])!r}"
        near = did_you_mean(field, FIELDS, n=1)
        fix = near and f"{near} Put your own fields under metadata."
        findings.add("FIELD_UNKNOWN", message, skill_md.place(field), fix=fix)
    for field, value in skill_md.fields.items():
        if value in ("", {}, []) and field in ("license", "compatibility", "metadata", "allowed-tools"):
            findings.add("FIELD_EMPTY", f"{field} is empty", skill_md.place(field))
    if skill_md.allowed_tools and "," in _PARENTHESES.sub("", skill_md.allowed_tools):
        findings.add("ALLOWED_TOOLS_COMMA", "allowed-tools has commas", skill_md.place("allowed-tools"))
    for field, code, most in _LENGTHS:  # white space at the ends included, as other validators do
        value = skill_md.fields.get(field)
        if isinstance(value, str) and len(value) > most:
            findings.add(code, f"{field} has {len(value)} characters, at most {most}", skill_md.place(field))


def _lint_body(skill_md: SkillMd, content: FolderContent, findings: Findings) -> None:
    body = skill_md.body
    place = SourceLocation(skill_md.source, skill_md.body_line)
    if not body or body.isspace():
        findings.add("BODY_EMPTY", "there is nothing below the frontmatter", place)
    lines, tokens = body.count("\n"), len(body) // _CHARACTERS_A_TOKEN
    if lines >= limits.SKILL_MD_LINES:
        findings.add("BODY_LINES", f"the body has {lines} lines, fewer than {limits.SKILL_MD_LINES} are advised", place)
    if tokens >= limits.SKILL_MD_TOKENS:
        message = f"the body has some {tokens} tokens, fewer than {limits.SKILL_MD_TOKENS} are advised"
        findings.add("BODY_TOKENS", message, place)
    for file in content.texts:
        for words in PLACEHOLDERS if file.path == SKILL_MD else ():
            start = file.text.find(words)
            if start >= 0:
                place = file.place(start, start + len(words))
                findings.add("PLACEHOLDER", "these are the words of a template", place)


def lint_manifest(content: FolderContent, findings: Findings) -> None:
    """Judge the skill.toml of a folder."""
    manifest = content.manifest
    for path, known in manifest.unknown.items():
        message = f"there is no field {'.'.join(path)[:120]!r}"
        near = did_you_mean(path[-1], sorted(known), n=1)
        findings.add("MANIFEST_UNKNOWN", message, content.manifest_place(*path), fix=near)
    for name, table in {one.path: one.table for one in reversed([*entry_points(manifest)])}.items():  # its first table
        if not any(file.path == name for file in content.files):
            findings.add(
                "ENTRYPOINT_ABSENT", f"the folder has no file {name}", content.manifest_place(table, "entrypoint")
            )
    skill_md = content.skill_md
    if skill_md is None:
        return
    version = skill_md.metadata.get("version", manifest.version)
    if manifest.version is not None and version != manifest.version:
        message = f"skill.toml gives the version {manifest.version}, SKILL.md {version!r}"
        findings.add("MANIFEST_DIFFERS", message, content.manifest_place("version"))


def lint_descriptor(content: FolderContent, findings: Findings) -> None:
    """Judge the descriptor.json of a folder beside skill.toml; its form is judged by Skill Sharing's own rule."""
    manifest, descriptor = content.manifest, content.descriptor
    stated_twice = {
        "id": manifest.sharing_id,
        "version": manifest.version,
        "capability_type": manifest.capability_type,
        "access": manifest.access.value if "access" in manifest.document else None,
    }
    for field, stated in stated_twice.items():
        if descriptor is not None and stated is not None and descriptor.get(field, stated) != stated:
            message = f"skill.toml has the {field} {stated}, descriptor.json another one"
            findings.add("DESCRIPTOR_DIFFERS", message, SourceLocation(f"{content.root}/descriptor.json", 1))


def lint_executor(content: FolderContent, findings: Findings) -> None:
    """Refuse a folder that claims to be a function: a rule for folders, not for files that are made of functions."""
    if (content.manifest.executor or {}).get("kind") == "function":
        message = "a skill that is a function does not come from a folder"
        findings.add("EXECUTOR_FUNCTION", message, content.manifest_place("executor", "kind"))
