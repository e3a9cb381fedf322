"""From a folder to what is published: the skill as a value, its files, and the artifact that clients download.

:func:`prepare` applies the strict rules and returns a :class:`PreparedSkill`, or a :class:`RefusedFolder` with every
finding, so the other skills can be published. A skill that is ``SKILL.md`` alone is its own artifact; others are
packed. For Skill Sharing a folder provides its ``descriptor.json``, else fields of ``skill.toml``, else defaults: an
instruction is ``knowledge``, an action an ``api`` (specs §0).

A skill that becomes private must be closed even if the same edit breaks it. So the access of a folder that cannot be
published is read separately, and doubt closes: an unknown or unreadable value is *private*, and where the files differ
the narrowest applies. A folder that states nothing is public. Spec: ASD Distribution Guidance; specs §1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, UsageError
from skillwire.folder.load import DESCRIPTOR, CheckedFolder, Judge, LoadedFolder, check_files, check_folder, identify
from skillwire.folder.manifest import Input, load_action
from skillwire.folder.pack import pack
from skillwire.folder.rules import Findings
from skillwire.model.access import Access, narrowest_access
from skillwire.model.digest import Digest
from skillwire.model.execution import BLOB_PATTERN
from skillwire.model.skill import (
    SKILL_MD,
    SKILL_TOML,
    Artifact,
    FileContent,
    Finding,
    Kind,
    SharedInput,
    Sharing,
    Skill,
    SkillFile,
)
from skillwire.trust.archive import read_archive
from skillwire.trust.guarded_json import load_json
from skillwire.trust.guarded_toml import load_toml


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
    return _prepare(check_files(Path(name), files, Findings("strict"), judges), publisher)


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
