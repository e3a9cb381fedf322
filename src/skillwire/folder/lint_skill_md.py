"""Rules about SKILL.md: its fields, its form, its body. Spec: specs §1, strict and lenient."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import Place
from skillwire.folder.files import SKILL_MD
from skillwire.folder.frontmatter import BOM
from skillwire.folder.lint_yaml import lint_yaml
from skillwire.folder.scaffold import PLACEHOLDERS
from skillwire.model.name import is_skill_name
from skillwire.model.semver import is_version
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from skillwire.folder.content import FolderContent
    from skillwire.folder.findings import Findings
    from skillwire.folder.frontmatter import SkillMd

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
    if data.startswith(BOM):
        place = Place(f"{content.root}/{SKILL_MD}", 1, 1)
        findings.add("BYTE_ORDER_MARK", "the file begins with a byte order mark", place)
    if is_link_text(data):
        place = Place(f"{content.root}/{SKILL_MD}", 1, 1)
        findings.add("SYMLINK_TEXT", "the whole file is one path, as the text of a symbolic link is", place)
    skill_md = content.skill_md
    if skill_md is None:
        return
    _lint_name(skill_md, content.name, findings)
    lint_yaml(skill_md, findings)
    _lint_fields(skill_md, findings)
    _lint_lengths(skill_md, findings)
    _lint_version(skill_md, content, findings)
    _lint_body(skill_md, findings)
    _lint_placeholders(content, findings)


def is_link_text(data: bytes) -> bool:
    """Whether the whole file is the text of a symbolic link: one path, and nothing else."""
    return _LINK_TEXT.fullmatch(data) is not None and b"/" in data


def _lint_name(skill_md: SkillMd, folder: str, findings: Findings) -> None:
    shown, place = repr(neutralise(skill_md.name[:80])), skill_md.place("name")
    if not is_skill_name(skill_md.name):
        findings.add("NAME_RULE", f"{shown} is not a name that every reader takes", place)
    if skill_md.name != folder:
        message = f"the skill is named {shown}, its folder {neutralise(folder)!r}"
        findings.add("NAME_FOLDER", message, place)


def _lint_fields(skill_md: SkillMd, findings: Findings) -> None:
    for flaw in skill_md.flaws:
        findings.add("FIELD_FORM", flaw.message, flaw.place or skill_md.place())
    for field in skill_md.unknown:
        message = f"the format has no field {neutralise(field[:80])!r}"
        findings.add("FIELD_UNKNOWN", message, skill_md.place(field))
    for field, value in skill_md.fields.items():
        if value in ("", {}, []) and field in ("license", "compatibility", "metadata", "allowed-tools"):
            findings.add("FIELD_EMPTY", f"{field} is empty", skill_md.place(field))
    if skill_md.allowed_tools and "," in _PARENTHESES.sub("", skill_md.allowed_tools):
        findings.add("ALLOWED_TOOLS_COMMA", "allowed-tools has commas", skill_md.place("allowed-tools"))


def _lint_lengths(skill_md: SkillMd, findings: Findings) -> None:
    """Judge the lengths as written, white space at the ends included, as other validators do."""
    for field, code, most in _LENGTHS:
        value = skill_md.fields.get(field)
        if isinstance(value, str) and len(value) > most:
            findings.add(code, f"{field} has {len(value)} characters, at most {most}", skill_md.place(field))


def _lint_version(skill_md: SkillMd, content: FolderContent, findings: Findings) -> None:
    version = skill_md.metadata.get("version")
    if version is not None and not is_version(version):
        message = f"{neutralise(version[:80])!r} is not a version such as 1.0.0"
        findings.add("VERSION_FORM", message, skill_md.place("metadata", "version"))
    elif version is None and content.manifest.version is None:
        findings.add("VERSION_MISSING", "the skill has no version", skill_md.place())


def _lint_body(skill_md: SkillMd, findings: Findings) -> None:
    body = skill_md.body
    place = Place(skill_md.source, skill_md.body_line)
    if not body or body.isspace():
        findings.add("BODY_EMPTY", "nothing stands below the frontmatter", place)
    lines = body.count("\n")
    if lines >= limits.SKILL_MD_LINES:
        findings.add("BODY_LINES", f"the body has {lines} lines, fewer than {limits.SKILL_MD_LINES} are advised", place)
    tokens = len(body) // _CHARACTERS_A_TOKEN
    if tokens >= limits.SKILL_MD_TOKENS:
        message = f"the body has some {tokens} tokens, fewer than {limits.SKILL_MD_TOKENS} are advised"
        findings.add("BODY_TOKENS", message, place)


def _lint_placeholders(content: FolderContent, findings: Findings) -> None:
    """Judge whether the words of a template are still there."""
    for file in content.texts:
        if file.path == SKILL_MD:
            for words in PLACEHOLDERS:
                start = file.text.find(words)
                if start >= 0:
                    findings.add(
                        "PLACEHOLDER", "these are the words of a template", file.place(start, start + len(words))
                    )
