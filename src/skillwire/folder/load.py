"""From a skill's folder to what is published: reading and checking it, its identifiers, its files and its artifact.

:func:`check_folder` reads one folder and reports everything wrong with it; no content makes it raise.
:func:`load_folder` returns the skill or raises one error. A folder loads when no finding is an error at the level:
*strict* before publishing, *lenient* before importing. A skill has one identifier per protocol: what the folder states,
or a documented default (specs §0). They are stored side by side and never derived from each other.

:func:`prepare` applies the strict rules and returns a :class:`PreparedSkill`, or a :class:`RefusedFolder` with every
finding, so the other skills can be published. A skill that is ``SKILL.md`` alone is its own artifact; others are
packed. For Skill Sharing a folder provides its ``descriptor.json``, else fields of ``skill.toml``, else defaults: an
instruction is ``knowledge``, an action an ``api`` (specs §0).

A skill that becomes private must be closed even if the same edit breaks it. So the access of a folder that cannot be
published is read separately, and doubt closes: an unknown or unreadable value is *private*, and where the files differ
the narrowest applies. A folder that states nothing is public. Spec: specs §0, §1; ASD Distribution Guidance.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from skillwire import limits
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, UsageError, ValidationError
from skillwire.folder.files import read_files
from skillwire.folder.frontmatter import SkillMd, parse_skill_md
from skillwire.folder.lint import FolderContent, text_files
from skillwire.folder.lint.code import lint_entrypoint, lint_scripts, lint_secrets
from skillwire.folder.lint.documents import lint_descriptor, lint_manifest, lint_skill_md
from skillwire.folder.lint.text import lint_hidden, lint_links
from skillwire.folder.manifest import Input, Manifest, load_action, read_manifest
from skillwire.folder.pack import pack
from skillwire.folder.rules import CheckLevel, Findings
from skillwire.model.access import Access, narrowest_access
from skillwire.model.digest import Digest
from skillwire.model.skill import (
    SKILL_MD,
    SKILL_TOML,
    Artifact,
    FileContent,
    Finding,
    Identifiers,
    Kind,
    SharedInput,
    Sharing,
    Skill,
    SkillFile,
    is_skill_name,
    is_version,
)
from skillwire.trust.archive import read_archive
from skillwire.trust.guarded_json import load_json
from skillwire.trust.guarded_toml import load_toml
from skillwire.trust.hidden_text import neutralise

DESCRIPTOR: Final = "descriptor.json"
DEFAULT_VERSION: Final = "0.1.0"
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
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ValidationError(
        "SKILL_INVALID",
        f"{errors[0].code}: {errors[0].message}{more}",
        place=errors[0].place,
        fix=errors[0].fix,
        details={"findings": [f"{error.code}: {error.message} ({error.place})" for error in errors]},
    )


def check_folder(path: Path, *, level: CheckLevel = "strict", judges: Sequence[Judge] = ()) -> CheckedFolder:
    """Read the folder ``path`` and apply every rule, and ``judges``, the rules that a protocol adds.

    Trust: the folder is hostile; reading is bounded, links are resolved within it.
    """
    findings = Findings(level)
    return _judge(path, read_files(str(path), findings), findings, judges)


def _judge(path: Path, files: tuple[FileContent, ...], findings: Findings, judges: Sequence[Judge]) -> CheckedFolder:
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


def packed_files(skill: Skill, artifact: bytes) -> list[bytes]:
    """Return the bytes of each file of ``skill``, in the order of its files. Raises as the archive reader, KeyError."""
    if skill.artifact.artifact_type == "skill-md":
        return [artifact]
    found = {file.path: bytes(file.content) for file in read_archive(artifact).files}
    return [found[file.path] for file in skill.files]


#: How alike a key must be to be taken for a mistyped ``access``, on the scale of :mod:`difflib`: "acess" is.
_ALIKE: Final = 0.8


_PUBLISHER: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?", re.ASCII)


class InvalidFolder(NamedTuple):
    """A folder that cannot be published as it is; ``serving`` while its last good version is published.

    ``is_public`` when that version is; anonymous clients do not learn the name of any other folder. ``access`` is the
    narrowest that is known; ``closed`` when the last good version had a wider one.
    """

    folder: str
    serving: bool
    findings: tuple[Finding, ...]
    is_public: bool = False
    access: Access = Access.PRIVATE
    closed: bool = False

    @property
    def name(self) -> str:
        """The folder's own name."""
        return Path(self.folder).name


def check_publisher(publisher: str) -> str:
    """Return ``publisher``. Raises UsageError (``PUBLISHER_FORM``) when identifiers and URLs cannot contain it."""
    if not _PUBLISHER.fullmatch(publisher):
        raise UsageError("PUBLISHER_FORM", f"not a publisher's name: {ascii(publisher)[:80]}")
    return publisher


def decode_access(value: object) -> Access:
    """Return the access that ``value`` spells; private when it spells none."""
    return Access(value) if isinstance(value, str) and value in set(Access) else Access.PRIVATE


def _stated_access(checked: CheckedFolder) -> Access:
    """Return the access that ``skill.toml`` and ``descriptor.json`` of a folder with errors state.

    Trust: both may hold anything; this never raises.
    """
    contents = {file.path: bytes(file.content) for file in checked.files}
    return narrowest_access(*(_access_in(name, contents.get(name), checked.path) for name in (SKILL_TOML, DESCRIPTOR)))


def _access_in(name: str, data: bytes | None, folder: Path) -> Access:
    """Return the access in a file: public if it states none, private if it is unclear or could not be read."""
    if data is None:
        return Access.PRIVATE if os.path.lexists(folder / name) else Access.PUBLIC
    try:
        document = load_toml(data) if name == SKILL_TOML else load_json(data, max_bytes=limits.DESCRIPTOR_BYTES)
    except SkillwireError:  # the access is unknown; another check reports the reason
        return Access.PRIVATE
    if not isinstance(document, dict):
        return Access.PRIVATE
    if "access" in document:
        return decode_access(document["access"])
    from difflib import get_close_matches  # noqa: PLC0415  # only a refused folder needs it

    fields = _values(document) if name == SKILL_TOML else document.items()
    misplaced = (value for key, value in fields if get_close_matches(key.lower(), ("access",), cutoff=_ALIKE))
    return Access.PRIVATE if any(isinstance(value, str) for value in misplaced) else Access.PUBLIC


def _values(table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the keys of ``table`` and of the tables in it: what is added below a table's head belongs to that."""
    for key, value in table.items():
        yield key, value
        if isinstance(value, dict):
            yield from _values(value)


_CAPABILITY: Final = {"instruction": "knowledge", "action": "api"}


def sharing_of(folder: LoadedFolder, kind: str) -> Sharing:
    """Return the Skill Sharing facts of ``folder``; ``kind`` is ``instruction`` or ``action``."""
    manifest, written = folder.manifest, folder.descriptor or {}

    def stated(field: str) -> str | None:
        value = written.get(field)
        return value if isinstance(value, str) else None

    tags = written.get("tags")
    return Sharing(
        name=stated("name") or folder.skill_md.metadata.get("title") or folder.name.replace("-", " ").title(),
        description=stated("description") or folder.description,
        version=stated("version") or folder.version,
        capability_type=stated("capability_type") or manifest.capability_type or _CAPABILITY[kind],
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else manifest.tags,
        inputs=tuple(_input(name, value) for name, value in manifest.inputs.items()),
        auth=manifest.auth,
        output=manifest.output,
        endpoint=manifest.endpoint,
        descriptor=next((Digest.of(bytes(file.content)) for file in folder.files if file.path == DESCRIPTOR), None),
    )


def access_of(folder: LoadedFolder) -> Access:
    """Return the access in ``skill.toml``, else in ``descriptor.json``, else public."""
    if "access" in folder.manifest.document:
        return folder.manifest.access
    written = folder.descriptor or {}
    return decode_access(written["access"]) if "access" in written else Access.PUBLIC


def _input(name: str, value: Input) -> SharedInput:
    """Return an input as Skill Sharing has it: a blob is handed over as a text, its id; an example is in the schema."""
    input_type, schema = value.input_type, value.schema
    if input_type == "blob":
        from skillwire.model.execution import BLOB_PATTERN  # noqa: PLC0415  # structs, which installing needs not

        input_type, schema = "string", {**(schema or {}), "pattern": BLOB_PATTERN}
    if value.example is not None:
        schema = {**(schema or {}), "examples": [value.example]}
    return SharedInput(name, input_type, value.description, value.required, value.default, schema)


@dataclass(frozen=True, slots=True)
class PreparedSkill:
    """A skill ready to be published; ``files`` have the order of ``skill.files``."""

    path: Path
    skill: Skill
    files: tuple[FileContent, ...]
    artifact: bytes
    folder: LoadedFolder

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Warnings and notes."""
        return self.skill.findings


@dataclass(frozen=True, slots=True)
class RefusedFolder:
    """A folder with errors, which is not published; ``access`` limits an earlier version that still is."""

    path: Path
    findings: tuple[Finding, ...]
    access: Access


def prepare(path: Path, publisher: str, *, judges: Sequence[Judge] = ()) -> PreparedSkill | RefusedFolder:
    """Return the skill in the folder ``path`` ready to be published, or the reasons why it is not.

    ``publisher`` is the provider's part of identifiers, such as ``example-corp``; ``judges`` are the protocols' rules.
    Trust: the folder may hold anything; its content never raises.
    """
    checked = check_folder(path, level="strict", judges=judges)
    prepared = _prepare(checked, publisher)
    return replace(prepared, access=_stated_access(checked)) if isinstance(prepared, RefusedFolder) else prepared


def prepare_files(
    name: str, files: tuple[FileContent, ...], publisher: str, *, judges: Sequence[Judge] = ()
) -> PreparedSkill | RefusedFolder:
    """Return the skill ``name`` made of ``files``, ``SKILL.md`` first, without a folder, as :func:`prepare` does."""
    return _prepare(_judge(Path(name), files, Findings("strict"), judges), publisher)


def _prepare(examination: CheckedFolder, publisher: str) -> PreparedSkill | RefusedFolder:
    path, folder = examination.path, examination.folder
    if folder is None:
        return RefusedFolder(path, examination.findings, Access.PRIVATE)
    try:
        files = tuple(
            SkillFile(file.path, len(file.content), Digest.of(bytes(file.content)), file.executable)
            for file in folder.files
        )
        if len(files) == 1 and files[0].path == SKILL_MD:  # it is downloaded as it is
            content = bytes(folder.files[0].content)
            artifact = Artifact("skill-md", "text/markdown", ".md", len(content), files[0].digest)
        else:
            content, extension, media_type = pack(folder.files)
            artifact = Artifact("archive", media_type, extension, len(content), Digest.of(content))
        skill_md, manifest = folder.skill_md, folder.manifest
        kind: Kind = manifest.kind or ("action" if manifest.runtime else "instruction")
        skill = Skill(
            publisher=publisher,
            name=folder.name,
            version=folder.version,
            description=folder.description,
            files=files,
            artifact=artifact,
            license=skill_md.license,
            compatibility=skill_md.compatibility,
            allowed_tools=skill_md.allowed_tools,
            metadata=skill_md.metadata or None,
            access=access_of(folder),
            kind=kind,
            scenes=manifest.scenes,
            capabilities=manifest.capabilities,
            identifiers=identify(folder, publisher),
            sharing=sharing_of(folder, kind),
            action=load_action(manifest) if kind == "action" else None,
            findings=folder.findings,
            skill_type=manifest.skill_type,
            requires=manifest.requires,
        )
        return PreparedSkill(folder.path, skill, folder.files, content, folder)
    except SkillwireError as error:
        findings = Findings("strict")
        findings.extend(examination.findings)
        findings.add_error(error, SourceLocation(str(path)))
        return RefusedFolder(path, tuple(findings), Access.PRIVATE)
