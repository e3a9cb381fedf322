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
import stat
from contextlib import closing
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, UsageError
from skillwire.folder.files import SKILL_MD
from skillwire.folder.load import check_files, check_folder, identify
from skillwire.folder.manifest import load_action
from skillwire.folder.pack import pack
from skillwire.folder.rules import Findings
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.execution import PATTERN
from skillwire.model.skill import Artifact, SharedInput, Sharing, Skill, SkillFile
from skillwire.trust.guarded_json import load_json
from skillwire.trust.guarded_toml import load_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skillwire.folder.load import CheckedFolder, Judge, LoadedFolder
    from skillwire.folder.manifest import Input
    from skillwire.model.skill import FileContent, Finding, Kind


_FIELD: Final = "access"
#: How alike a key must be to be taken for a mistyped ``access``, on the scale of :mod:`difflib`: "acess" is.
_ALIKE: Final = 0.8
#: From the widest to the narrowest.
_ORDER: Final = (Access.PUBLIC, Access.RESTRICTED, Access.PRIVATE)
_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


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


def narrowest_access(*accesses: Access) -> Access:
    """Return the one of ``accesses`` that lets in the fewest; public when there is none."""
    return max(accesses, key=_ORDER.index, default=Access.PUBLIC)


def decode_access(value: object) -> Access:
    """Return the access that ``value`` spells; private when it spells none."""
    return Access(value) if isinstance(value, str) and value in set(Access) else Access.PRIVATE


def read_access(path: Path) -> Access:
    """Return the access that ``skill.toml`` and ``descriptor.json`` in the folder ``path`` state.

    Trust: both may hold anything; reading is bounded and never raises.
    """
    return narrowest_access(*_in_manifest(path / "skill.toml"), *_in_descriptor(path / "descriptor.json"))


def _in_manifest(file: Path) -> Iterator[Access]:
    try:
        data = _content(file, limits.TOML_BYTES)
        document = {} if data is None else load_toml(data)
    except (OSError, SkillwireError):  # the access is unknown; another check reports the reason
        yield Access.PRIVATE
        return
    if _FIELD in document:
        yield decode_access(document[_FIELD])
    elif any(_is_misplaced(key, value) for key, value in _values(document)):
        yield Access.PRIVATE


def _in_descriptor(file: Path) -> Iterator[Access]:
    try:
        data = _content(file, limits.DESCRIPTOR_BYTES)
        document = {} if data is None else load_json(data, max_bytes=limits.DESCRIPTOR_BYTES)
    except (OSError, SkillwireError):  # as above
        document = None
    if not isinstance(document, dict):
        yield Access.PRIVATE
    elif _FIELD in document:
        yield decode_access(document[_FIELD])
    elif any(_is_misplaced(key, value) for key, value in document.items()):
        yield Access.PRIVATE


def _values(table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the keys of ``table`` and of the tables in it: what is added below a table's head belongs to that."""
    for key, value in table.items():
        yield key, value
        if isinstance(value, dict):
            yield from _values(value)


def _is_misplaced(key: str, value: object) -> bool:
    return isinstance(value, str) and bool(get_close_matches(key.lower(), (_FIELD,), cutoff=_ALIKE))


def _content(file: Path, most: int) -> bytes | None:
    """Return at most ``most`` + 1 bytes of ``file``; None when it does not exist. Raises OSError."""
    if not os.path.lexists(file):
        return None
    with closing(open(file, "rb", buffering=0, opener=_open)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(f"{file} is no file")
        return stream.read(most + 1)


def _open(name: str, _: int) -> int:
    return os.open(name, _OPEN)


_DESCRIPTOR: Final = "descriptor.json"
_CAPABILITY: Final = {"instruction": "knowledge", "action": "api"}
_BLOB: Final = "blob"


def sharing_of(folder: LoadedFolder, kind: str) -> Sharing:
    """Return the Skill Sharing facts of ``folder``; ``kind`` is ``instruction`` or ``action``."""
    manifest, written = folder.manifest, folder.descriptor or {}
    return Sharing(
        name=_text(written, "name") or (folder.skill_md.metadata.get("title") or folder.name.replace("-", " ").title()),
        description=_text(written, "description") or folder.description,
        version=_text(written, "version") or folder.version,
        capability_type=_text(written, "capability_type") or manifest.capability_type or _CAPABILITY[kind],
        tags=_tags(folder),
        inputs=tuple(_input(name, value) for name, value in manifest.inputs.items()),
        auth=manifest.auth,
        output=manifest.output,
        endpoint=manifest.endpoint,
        descriptor=next((Digest.of(bytes(file.content)) for file in folder.files if file.path == _DESCRIPTOR), None),
    )


def access_of(folder: LoadedFolder) -> Access:
    """Return the access in ``skill.toml``, else in ``descriptor.json``, else public."""
    if "access" in folder.manifest.document:
        return folder.manifest.access
    written = folder.descriptor or {}
    return decode_access(written["access"]) if "access" in written else Access.PUBLIC


def _text(document: Any, field: str) -> str | None:
    value = document.get(field)
    return value if isinstance(value, str) else None


def _tags(folder: LoadedFolder) -> tuple[str, ...]:
    written = (folder.descriptor or {}).get("tags")
    if isinstance(written, list):
        return tuple(tag for tag in written if isinstance(tag, str))
    return folder.manifest.tags


def _input(name: str, value: Input) -> SharedInput:
    """Return an input as Skill Sharing has it: a blob is handed over as a text, its id."""
    if value.input_type != _BLOB:
        return SharedInput(name, value.input_type, value.description, value.required, value.default, value.schema)
    schema = {**(value.schema or {}), "pattern": PATTERN}
    return SharedInput(name, "string", value.description, value.required, value.default, schema)


_MARKDOWN: Final = "text/markdown"


@dataclass(frozen=True, slots=True)
class PreparedSkill:
    """A skill ready to be published.

    ``skill.files`` and ``files`` have the same order, ``SKILL.md`` first. ``artifact`` holds the bytes of
    ``skill.artifact``.
    """

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
    """A folder that is not published, with all findings, at least one of them an error.

    ``access`` limits an earlier version that is still published; private when the folder does not state it clearly.
    """

    path: Path
    findings: tuple[Finding, ...]
    access: Access


def prepare(path: Path, publisher: str, *, judges: Sequence[Judge] = ()) -> PreparedSkill | RefusedFolder:
    """Return the skill in the folder ``path`` ready to be published, or the reasons why it is not.

    Args:
        path: a folder with a ``SKILL.md``; see :func:`skillwire.folder.files.find_folders`.
        publisher: the provider's part of identifiers, such as ``example-corp``.
        judges: see :func:`skillwire.folder.load.check_folder`.

    Trust: the folder may hold anything; its content never raises.
    """
    prepared = _prepare(check_folder(path, level="strict", judges=judges), publisher)
    return replace(prepared, access=read_access(path)) if isinstance(prepared, RefusedFolder) else prepared


def prepare_files(
    name: str, files: tuple[FileContent, ...], publisher: str, *, judges: Sequence[Judge] = ()
) -> PreparedSkill | RefusedFolder:
    """Return the skill ``name`` made of ``files`` without a folder, as :func:`prepare` does."""
    return _prepare(check_files(Path(name), files, judges=judges), publisher)


def _prepare(examination: CheckedFolder, publisher: str) -> PreparedSkill | RefusedFolder:
    path, folder = examination.path, examination.folder
    if folder is None:
        return RefusedFolder(path, examination.findings, Access.PRIVATE)
    try:
        return _prepared(folder, publisher)
    except SkillwireError as error:
        findings = Findings("strict")
        findings.extend(examination.findings)
        findings.add_error(error, SourceLocation(str(path)))
        return RefusedFolder(path, tuple(findings), Access.PRIVATE)


def _prepared(folder: LoadedFolder, publisher: str) -> PreparedSkill:
    files = tuple(
        SkillFile(file.path, len(file.content), Digest.of(bytes(file.content)), file.executable)
        for file in folder.files
    )
    artifact, content = _artifact(folder, files)
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
    )
    return PreparedSkill(folder.path, skill, folder.files, content, folder)


def _artifact(folder: LoadedFolder, files: tuple[SkillFile, ...]) -> tuple[Artifact, bytes]:
    """Return what a client downloads: the one file as it is, or the files packed."""
    if len(files) == 1 and files[0].path == SKILL_MD:
        content = bytes(folder.files[0].content)
        return Artifact("skill-md", _MARKDOWN, ".md", len(content), files[0].digest), content
    packed = pack(folder.files)
    digest = Digest.of(packed.content)
    return Artifact("archive", packed.media_type, packed.extension, len(packed.content), digest), packed.content
