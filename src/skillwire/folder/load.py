"""Reading and checking the folder of a skill, and its identifiers in each protocol.

:func:`check_folder` reads one folder and reports everything wrong with it; no content makes it raise.
:func:`load_folder` returns the skill or raises one error. A folder loads when no finding is an error at the level:
*strict* before publishing, *lenient* before importing. A skill has one identifier per protocol: what the folder states,
or a documented default (specs §0). They are stored side by side and never derived from each other. Spec: specs §0,
§1.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from skillwire import limits
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, ValidationError, first_of
from skillwire.folder.files import read_files
from skillwire.folder.frontmatter import SkillMd, parse_skill_md
from skillwire.folder.lint import FolderContent, text_files
from skillwire.folder.lint.code import lint_entrypoint, lint_scripts, lint_secrets
from skillwire.folder.lint.documents import lint_descriptor, lint_manifest, lint_skill_md
from skillwire.folder.lint.text import lint_hidden, lint_links
from skillwire.folder.manifest import Manifest, read_manifest
from skillwire.folder.rules import CheckLevel, Findings
from skillwire.model.skill import (
    SKILL_MD,
    SKILL_TOML,
    FileContent,
    Finding,
    Identifiers,
    is_skill_name,
    is_version,
)
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

DESCRIPTOR: Final = "descriptor.json"
DEFAULT_VERSION: Final = "0.1.0"
_NAMED: Final = 8  # findings in a message
T = TypeVar("T")
_ODD_PATH: Final = re.compile(r"[^ -~]|[\\?#\[\]]")
#: Adds findings about a folder.
Judge = Callable[[FolderContent, Findings], None]
_FAMILIES: Final[tuple[Judge, ...]] = (
    lint_skill_md, lint_manifest, lint_entrypoint, lint_descriptor, lint_links, lint_hidden, lint_scripts,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadedFolder:
    """A skill as its folder states it, with every file's bytes, ``SKILL.md`` first."""

    path: Path
    name: str  # the folder's, or the frontmatter's where the folder's is not a skill name
    version: str
    skill_md: SkillMd
    manifest: Manifest
    descriptor: Mapping[str, Any] | None  # the decoded descriptor.json
    files: tuple[FileContent, ...]
    findings: tuple[Finding, ...] = ()  # warnings and notes

    @property
    def description(self) -> str:
        """What the skill does and when to use it."""
        return self.skill_md.description


class CheckedFolder(NamedTuple):
    """What :func:`check_folder` found: the skill, unless a finding is an error, every finding, and the files read."""

    path: Path
    folder: LoadedFolder | None
    findings: tuple[Finding, ...]
    files: tuple[FileContent, ...]


def load_folder(path: Path, *, level: CheckLevel = "strict") -> LoadedFolder:
    """Return the skill in the folder ``path``.

    Raises NotFoundError (``SKILL_NOT_FOUND``), ValidationError (``SKILL_INVALID``, with every error in ``details``).
    """
    checked = check_folder(path, level=level)
    if checked.folder is not None:
        return checked.folder
    raise refused_folder(checked.findings, str(path))


def refused_folder(findings: Iterable[Finding], source: str) -> SkillwireError:
    """Return the error for a folder that is no valid skill, with every error among ``findings`` in its details."""
    errors = [finding for finding in findings if finding.level == "error"]
    if any(error.code == "NO_SKILL_MD" for error in errors):
        fix = "Name the folder of a skill, or create one with skillwire init."
        return NotFoundError("SKILL_NOT_FOUND", "there is no SKILL.md", place=SourceLocation(source), fix=fix)
    details = {"findings": errors}
    if len(errors) == 1:
        message, place = f"{errors[0].code}: {errors[0].message}", errors[0].place
        return ValidationError("SKILL_INVALID", message, place=place, fix=errors[0].fix, details=details)
    message = f"{len(errors)} errors: {name_places(errors)}"
    fix = f"Correct each of them; to see them again: skillwire check {shlex.quote(source)}"
    return ValidationError("SKILL_INVALID", message, place=SourceLocation(source), fix=fix, details=details)


def name_places(findings: Sequence[Finding]) -> str:
    """Return the codes of findings with their places, of many the first."""
    return first_of([f"{one.code} ({one.place})" for one in findings], _NAMED)


def check_folder(path: Path, *, level: CheckLevel = "strict", judges: Sequence[Judge] = ()) -> CheckedFolder:
    """Read the folder ``path`` and apply every rule, and ``judges``, the rules that a protocol adds.

    Trust: the folder is hostile; reading is bounded, links are resolved within it.
    """
    findings = Findings(level)
    return check_files(path, read_files(str(path), findings), findings, judges)


def check_files(
    path: Path, files: tuple[FileContent, ...], findings: Findings, judges: Sequence[Judge]
) -> CheckedFolder:
    """Judge files as if they stood in the folder ``path``; ``SKILL.md`` is the first."""
    root = str(path)
    files = _rename_skill_md(files, root, findings)
    documents = {file.path: bytes(file.content) for file in files if file.path in {SKILL_MD, SKILL_TOML, DESCRIPTOR}}

    def read(name: str, decode: Callable[[bytes, str], T], absent: T) -> T:
        """Return the document ``name``, ``absent`` when it is missing or cannot be read."""
        try:
            return decode(documents[name], f"{root}/{name}") if name in documents else absent
        except SkillwireError as error:
            findings.add_error(error)
            return absent

    reported = {finding.place.source for finding in findings}
    if SKILL_MD not in documents and f"{root}/{SKILL_MD}" not in reported:  # there is one, and it cannot be read
        fix = "Write a SKILL.md with a frontmatter that has a name and a description; skillwire init makes one."
        findings.add_error(NotFoundError("NO_SKILL_MD", "the folder has no SKILL.md", fix=fix), SourceLocation(root))
    nothing: tuple[Manifest, list[ValidationError]] = Manifest(), []
    manifest, flaws = read(SKILL_TOML, lambda data, source: read_manifest(data, source=source), nothing)
    stated = manifest.description if manifest.name else None  # with both, skill.toml describes the skill by itself
    skill_md = read(SKILL_MD, lambda data, source: parse_skill_md(data, source=source, description=stated), None)
    for flaw in flaws:
        findings.add_error(flaw)
    content = FolderContent(
        root=root,
        name=path.name or path.resolve().name,
        files=files,
        skill_md=skill_md,
        manifest=manifest,
        descriptor=read(DESCRIPTOR, partial(_read_descriptor, findings), None),
        texts=tuple(text_files(root, files)),
    )
    content = lint_secrets(content, findings)
    for family in (*_FAMILIES, *judges):
        family(content, findings)
    _lint_size(content, findings)
    for file in content.files:  # find_folders looks into no skill
        if file.path.lower().endswith(f"/{SKILL_MD.lower()}"):
            findings.add("SKILL_WITHIN_SKILL", "this is not a skill of its own here", content.place(file.path))
    findings.redact()
    return CheckedFolder(path, _loaded(path, content, findings), tuple(findings), files)


def _lint_size(content: FolderContent, findings: Findings) -> None:
    """Judge the files together, by what other installers take. Spec: specs §1, "Archives we write"."""
    size = sum(len(file.content) for file in content.files)
    if len(content.files) > limits.PUBLISH_FILES:
        findings.add("FILES_MANY", f"the skill has {len(content.files)} files", SourceLocation(content.root))
    if size > limits.PUBLISH_TOTAL_BYTES:
        findings.add("FILES_LARGE", f"the skill has {size} bytes", SourceLocation(content.root))
    for file in content.files:
        if _ODD_PATH.search(file.path):
            message = f"clients of 0.1.0 do not take {neutralise(file.path)!r}"
            findings.add("PATH_ODD", message, content.place(file.path))


def _rename_skill_md(files: tuple[FileContent, ...], root: str, findings: Findings) -> tuple[FileContent, ...]:
    """Return ``files`` with a ``skill.md`` under its right name, when there is no other."""
    if not files or files[0].path == SKILL_MD:
        return files
    for file in files:
        if file.path.lower() == SKILL_MD.lower():
            findings.add("SKILL_MD_CASE", f"the file is called {file.path}", SourceLocation(f"{root}/{file.path}"))
            return (file._replace(path=SKILL_MD), *(other for other in files if other is not file))
    return files


def _read_descriptor(findings: Findings, data: bytes, source: str) -> Mapping[str, object] | None:
    document = load_json(data, max_bytes=limits.DESCRIPTOR_BYTES, source=source)
    if isinstance(document, dict):
        return document
    findings.add("DESCRIPTOR_FORM", "the document is not an object", SourceLocation(source, 1))
    return None


def _loaded(path: Path, content: FolderContent, findings: Findings) -> LoadedFolder | None:
    skill_md = content.skill_md
    if skill_md is None or findings.has_errors:
        return None
    name = content.name if is_skill_name(content.name) else skill_md.name
    if not is_skill_name(name):
        error = ValidationError("NAME_FORM", "neither the folder nor the frontmatter has a name that a skill may have")
        findings.add_error(error, skill_md.place("name"))
        return None
    version = content.manifest.version or skill_md.metadata.get("version", "")
    return LoadedFolder(
        path=path,
        name=name,
        version=version if is_version(version) else DEFAULT_VERSION,
        skill_md=skill_md,
        manifest=content.manifest,
        descriptor=content.descriptor,
        files=content.files,
        findings=tuple(findings),
    )


_PROTOCOLS: Final = {
    "name": "Agent Skills Discovery",
    "skill_sharing": "Skill Sharing",
    "skill_discovery": "Skill Discovery",
    "skills_rpc": "Skills Protocol",
}


class IdentifiedSkill(NamedTuple):
    """A skill's folder, name and other identifiers, for comparison."""

    path: str
    name: str
    identifiers: Identifiers


def identify(folder: LoadedFolder, publisher: str) -> Identifiers:
    """Return the identifiers that ``publisher``'s skill in ``folder`` has. Spec: specs §0."""
    manifest = folder.manifest
    descriptor_id = (folder.descriptor or {}).get("id")
    namespace = manifest.namespace or publisher.lower().replace("-", ".")
    dotted = manifest.name or f"{namespace}.{folder.name.replace('-', '.')}"
    return Identifiers(
        skill_sharing=manifest.sharing_id or descriptor_id or f"{publisher}/{folder.name}",
        skill_discovery=manifest.discovery_id or folder.name,
        skills_rpc=dotted,
        namespace=namespace if dotted.startswith(f"{namespace}.") else "",
    )


def find_collisions(skills: Iterable[IdentifiedSkill]) -> list[Finding]:
    """Return a finding for each skill that shares an identifier with an earlier one; each names both files."""
    findings = Findings("strict")
    taken: dict[tuple[str, str], IdentifiedSkill] = {}
    for skill in skills:
        for field, protocol in _PROTOCOLS.items():
            identifier = getattr(skill.identifiers, field, skill.name)
            first = taken.setdefault((field, identifier), skill)
            if first is not skill:
                message = f"{protocol} has one {identifier!r}: {first.path} and {skill.path}"
                findings.add("IDENTIFIER_COLLISION", message, SourceLocation(f"{skill.path}/SKILL.md"))
                break  # skills with one name collide in every protocol
    return findings
