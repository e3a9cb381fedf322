"""A skill as bytes and back: for records on disk, for worker processes, and to keep thousands in little memory.

The form is ours alone and may change with any version. 10,000 skills of four files are 7 MB in it, and 37 MB as
values; reading one takes 15 µs.

What a list of hits tells of a skill, read from its bytes without the rest: 2 µs where the whole skill takes 15.

Thousands of skills by name in little memory: each is kept packed, in a file, and read when it is asked for.

Rows of bytes in a file without a name, each found by its number: what thousands of skills hold, outside of memory.

The system keeps what is read often at hand and drops it when memory is short, which it cannot do with what a process
holds. The file vanishes with the process, however that ends. One thread adds rows while any number of others read.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import finalize

import msgspec

from skillwire.adapters.files.atomic import make_folder
from skillwire.errors import SourceLocation, StorageError
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.skill import (
    Action,
    Artifact,
    Finding,
    HealthCheck,
    Identifiers,
    Permissions,
    SharedInput,
    Sharing,
    Skill,
    SkillFile,
)
from skillwire.registry.search import skill_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def pack_skill(skill: Skill) -> bytes:
    """Return ``skill`` as bytes."""
    artifact, names = skill.artifact, skill.identifiers
    return _encoder.encode(
        (
            skill.publisher,
            skill.name,
            skill.version,
            skill.description,
            [(file.path, file.size, bytes.fromhex(file.digest.hex), file.executable) for file in skill.files],
            (
                artifact.artifact_type,
                artifact.media_type,
                artifact.extension,
                artifact.size,
                bytes.fromhex(artifact.digest.hex),
            ),
            skill.license,
            skill.compatibility,
            skill.allowed_tools,
            skill.metadata,
            skill.access.value,
            skill.kind,
            skill.scenes,
            skill.capabilities,
            names and tuple(names),
            skill.sharing and _sharing_row(skill.sharing),
            skill.action
            and (
                *skill.action[:3],
                tuple(skill.action.permissions),
                dict(skill.action.settings),
                skill.action.idempotent,
                skill.action.health and tuple(skill.action.health),
            ),
            finding_rows(skill.findings),
            skill.skill_type,
        )
    )


def unpack_skill(data: bytes) -> Skill:
    """Return the skill that :func:`pack_skill` made ``data`` of."""
    publisher, name, version, description, files, artifact, *optional = _decoder.decode(data)
    license_, compatibility, allowed_tools, metadata, access, kind, scenes, capabilities, names, *rest = optional
    sharing, action, findings, *later = rest  # the ledger may hold rows from before there were later ones
    artifact_type, media_type, extension, size, digest = artifact
    return Skill(
        publisher=publisher,
        name=name,
        version=version,
        description=description,
        files=tuple([SkillFile(path, size, _digest(of), executable) for path, size, of, executable in files]),
        artifact=Artifact(artifact_type, media_type, extension, size, _digest(digest)),
        license=license_,
        compatibility=compatibility,
        allowed_tools=allowed_tools,
        metadata=metadata,
        access=Access(access),
        kind=kind,
        scenes=tuple(scenes),
        capabilities=tuple(capabilities),
        identifiers=names and Identifiers(*names),
        sharing=sharing and _read_sharing(sharing),
        action=action and _read_action(action),
        findings=read_findings(findings),
        skill_type=later[0] if later else None,
    )


def _sharing_row(sharing: Sharing) -> list[Any]:
    return [*sharing[:-1], sharing.descriptor and bytes.fromhex(sharing.descriptor.hex)]


def _read_sharing(row: list[Any]) -> Sharing:
    name, description, version, capability_type, tags, inputs, auth, output, endpoint, descriptor = row
    return Sharing(
        name=name,
        description=description,
        version=version,
        capability_type=capability_type,
        tags=tuple(tags),
        inputs=tuple(SharedInput(*one) for one in inputs),
        auth=auth,
        output=output,
        endpoint=endpoint,
        descriptor=descriptor and _digest(descriptor),
    )


def _read_action(row: list[Any]) -> Action:
    executor, entrypoint, export, (network, secrets), settings, idempotent, *later = row
    permissions = Permissions(tuple(network), tuple(secrets))
    health = HealthCheck(*later[0]) if later and later[0] else None
    return Action(executor, entrypoint, export, permissions, settings, idempotent, health)


def finding_rows(findings: Iterable[Finding]) -> list[Any]:
    """Return ``findings`` as plain lists."""
    return [(code, level, message, tuple(place), fix) for code, level, message, place, fix in findings]


def read_findings(rows: Iterable[Any]) -> tuple[Finding, ...]:
    """Return what :func:`finding_rows` made ``rows`` of."""
    return tuple(
        [Finding(code, level, message, SourceLocation(*place), fix) for code, level, message, place, fix in rows]
    )


def _digest(raw: bytes) -> Digest:
    return Digest("sha256:" + raw.hex())


class _File(msgspec.Struct, array_like=True):
    path: str


class _Artifact(msgspec.Struct, array_like=True):
    artifact_type: str
    media_type: str
    extension: str
    size: int
    digest: bytes


class SkillSummary(msgspec.Struct, array_like=True):
    """The fields of :func:`skillwire.adapters.files.skill_store.pack_skill` that are told, and those between them."""

    publisher: str
    name: str
    version: str
    description: str
    files: list[_File]
    artifact: _Artifact
    license: str | None
    compatibility: msgspec.Raw
    allowed_tools: msgspec.Raw
    metadata: msgspec.Raw
    access: str
    skill_type: str
    scenes: msgspec.Raw
    capabilities: msgspec.Raw
    identifiers: tuple[str, ...] | None

    @property
    def kind(self) -> str:
        """See :func:`skillwire.registry.search.skill_kind`."""
        return skill_kind(self.skill_type, (file.path for file in self.files))

    @property
    def digest(self) -> str:
        """The digest of its artifact, in hexadecimal digits."""
        return self.artifact.digest.hex()


_summary_decoder = msgspec.msgpack.Decoder(SkillSummary)


def read_summary(packed: bytes) -> SkillSummary:
    """Return what is told of the skill that ``packed`` is."""
    return _summary_decoder.decode(packed)


class Rows(Protocol):
    """Skills as :func:`~skillwire.adapters.files.skill_store.pack_skill` makes them, by number."""

    def __getitem__(self, number: int, /) -> bytes: ...


class SkillChanges(NamedTuple):
    """What differs between two mappings of skills, as names."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class PackedSkills(Mapping[str, Skill]):
    """A read-only mapping of name to skill, in the order of ``numbers``: name → number of its row in ``rows``."""

    __slots__ = ("_numbers", "_rows")

    def __init__(self, numbers: Mapping[str, int], rows: Rows) -> None:
        self._numbers = numbers
        self._rows = rows

    def __getitem__(self, name: str) -> Skill:
        return unpack_skill(self.packed(name))

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def with_finding(self, code: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of ``names`` whose skill was published with a finding of this code."""
        written = code.encode()
        return tuple(
            name
            for name in names
            if written in self.packed(name) and any(finding.code == code for finding in self[name].findings)
        )

    @property
    def rows(self) -> Rows:
        """Where the skills are."""
        return self._rows

    def number(self, name: str) -> int:
        """Return the number of a skill's row."""
        return self._numbers[name]

    def packed(self, name: str) -> bytes:
        """Return the skill as :func:`~skillwire.adapters.files.skill_store.pack_skill` made it."""
        return self._rows[self._numbers[name]]

    def changes_since(self, before: PackedSkills) -> SkillChanges:
        """Return what is added, changed and removed here, compared with ``before``."""
        earlier = before._numbers
        return SkillChanges(
            added=tuple(name for name in self._numbers if name not in earlier),
            changed=tuple(name for name in self._numbers if name in earlier and self._differs(name, before)),
            removed=tuple(name for name in earlier if name not in self._numbers),
        )

    def _differs(self, name: str, before: PackedSkills) -> bool:
        if self._rows is before._rows and self._numbers[name] == before._numbers[name]:
            return False
        return self.packed(name) != before.packed(name)


class RowFile:
    """Rows in ``directory``. The file is made with the first row, and the folder when it is missing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ends = array("Q", [0])
        self._file = -1

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> bytes:
        start, size = self._ends[number], self._ends[number + 1] - self._ends[number]
        try:
            row = os.pread(self._file, size, start)
        except OSError as error:
            raise self._failure(error) from error
        if len(row) != size:
            raise StorageError("STORAGE", "a file in use was cut short", place=SourceLocation(str(self._directory)))
        return row

    def add(self, row: bytes) -> int:
        """Keep ``row``; return its number.

        Raises:
            StorageError: ``STORAGE`` when it cannot be written.
        """
        end = self._ends[-1]
        try:
            if self._file < 0:
                self._open()
            written = 0
            while written < len(row):
                written += os.pwrite(self._file, row[written:], end + written)
        except OSError as error:
            raise self._failure(error) from error
        self._ends.append(end + len(row))  # from now on others may read it
        return len(self._ends) - 2

    def _open(self) -> None:
        make_folder(self._directory, mode=0o700)
        self._file, path = tempfile.mkstemp(dir=self._directory, prefix=".rows-")
        finalize(self, os.close, self._file)
        os.unlink(path)  # noqa: PTH108  # tempfile gives a text

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(
            "STORAGE", f"rows cannot be kept: {error.strerror}", place=SourceLocation(str(self._directory))
        )
