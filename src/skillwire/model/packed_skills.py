"""Published skills in packed form: bytes for records on disk and worker processes, and to keep thousands in memory.

The form is private and may change with any version. 10,000 skills of four files take 7 MB packed and 37 MB as values.
Unpacking a skill takes 15 µs; reading only the fields that lists show takes 3 µs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from skillwire.errors import SourceLocation
from skillwire.model.access import Access
from skillwire.model.catalog import SkillSubset
from skillwire.model.digest import Digest
from skillwire.model.skill import (
    Action,
    Artifact,
    ArtifactType,
    Finding,
    HealthCheck,
    Identifiers,
    Permissions,
    SharedInput,
    Sharing,
    Skill,
    SkillFile,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def pack_skill(skill: Skill) -> bytes:
    """Return ``skill`` as bytes."""
    artifact, action, sharing = skill.artifact, skill.action, skill.sharing
    return _encoder.encode(
        (
            skill.publisher,
            skill.name,
            skill.version,
            skill.description,
            [(file.path, file.size, bytes.fromhex(file.digest.hex), file.executable) for file in skill.files],
            (*artifact[:-1], bytes.fromhex(artifact.digest.hex)),
            skill.license,
            skill.compatibility,
            skill.allowed_tools,
            skill.metadata,
            skill.access.value,
            skill.kind,
            skill.scenes,
            skill.capabilities,
            skill.identifiers,
            sharing and (*sharing[:-1], sharing.descriptor and bytes.fromhex(sharing.descriptor.hex)),
            action and action._replace(settings=dict(action.settings)),
            finding_rows(skill.findings),
            skill.skill_type,
            skill.requires,
            skill.state,
        )
    )


def unpack_skill(data: bytes) -> Skill:
    """Return the skill that :func:`pack_skill` packed."""
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
        requires=tuple(later[1]) if len(later) > 1 else (),
        state=tuple(later[2]) if len(later) > 2 and later[2] else None,  # noqa: PLR2004  # the place in the row
    )


def _read_sharing(row: list[Any]) -> Sharing:
    *texts, tags, inputs, auth, output, endpoint, descriptor = row
    shared = tuple(SharedInput(*one) for one in inputs)
    return Sharing._make((*texts, tuple(tags), shared, auth, output, endpoint, descriptor and _digest(descriptor)))


def _read_action(row: list[Any]) -> Action:
    executor, entrypoint, export, (network, secrets), settings, idempotent, *later = row
    permissions = Permissions(tuple(network), tuple(secrets))
    health = HealthCheck(*later[0]) if later and later[0] else None
    return Action(executor, entrypoint, export, permissions, settings, idempotent, health)


def finding_rows(findings: Iterable[Finding]) -> list[Any]:
    """Return ``findings`` as plain lists."""
    return [(code, level, message, tuple(place), fix) for code, level, message, place, fix in findings]


def read_findings(rows: Iterable[Any]) -> tuple[Finding, ...]:
    """Return the findings of :func:`finding_rows`."""
    return tuple(
        [Finding(code, level, message, SourceLocation(*place), fix) for code, level, message, place, fix in rows]
    )


def _digest(raw: bytes) -> Digest:
    return Digest("sha256:" + raw.hex())


class _File(msgspec.Struct, array_like=True):
    path: str
    size: int
    raw_digest: bytes


class _Artifact(msgspec.Struct, array_like=True):
    artifact_type: ArtifactType
    media_type: str
    extension: str
    size: int
    raw_digest: bytes

    @property
    def digest(self) -> Digest:
        """The digest in its written form."""
        return _digest(self.raw_digest)


class SkillSummary(msgspec.Struct, array_like=True):
    """The fields of :func:`pack_skill` that lists show; the others stay undecoded."""

    publisher: str
    name: str
    version: str
    description: str
    files: list[_File]
    artifact: _Artifact
    license: str | None
    compatibility: msgspec.Raw
    allowed_tools: msgspec.Raw
    metadata: dict[str, str] | None
    access: str
    kind: str
    scenes: tuple[str, ...]
    capabilities: tuple[str, ...]
    identifiers: tuple[str, ...] | None
    sharing: msgspec.Raw
    action: msgspec.Raw
    findings: msgspec.Raw
    skill_type: str | None = None
    requires: tuple[str, ...] = ()
    state: tuple[str, str, str] | None = None

    def blobs(self) -> Iterator[tuple[Digest, int]]:
        """Yield digest and size of the artifact and of each file."""
        yield self.artifact.digest, self.artifact.size
        for file in self.files if self.artifact.artifact_type != "skill-md" else ():  # else the artifact is the file
            yield _digest(file.raw_digest), file.size


_summary_decoder = msgspec.msgpack.Decoder(SkillSummary)


def read_summary(packed: bytes) -> SkillSummary:
    """Return the fields of a packed skill that lists show."""
    return _summary_decoder.decode(packed)


def summarize(skills: Mapping[str, Skill], name: str) -> SkillSummary:
    """Return the fields of a skill that lists show: five times as fast as the skill itself where it is packed."""
    while isinstance(skills, SkillSubset):
        skills = skills.whole
    return read_summary(skills.packed(name) if isinstance(skills, PackedSkills) else pack_skill(skills[name]))


class SkillChanges(NamedTuple):
    """The names that differ between two mappings of skills."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class PackedSkills(Mapping[str, Skill]):
    """A read-only mapping of name to skill over packed bytes; each skill is unpacked when it is read."""

    __slots__ = ("_packed",)

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self._packed = packed

    def __getitem__(self, name: str) -> Skill:
        return unpack_skill(self._packed[name])

    def __contains__(self, name: object) -> bool:
        return name in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def with_finding(self, code: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of ``names`` whose skill was published with a finding of this code."""
        encoded = code.encode()
        return tuple(
            name
            for name in names
            if encoded in self._packed[name] and any(finding.code == code for finding in self[name].findings)
        )

    def packed(self, name: str) -> bytes:
        """Return the packed bytes of a skill."""
        return self._packed[name]

    def joined(self, other: PackedSkills, names: Iterable[str]) -> PackedSkills:
        """Return these skills and those of ``names`` in another mapping, sorted."""
        more = {name: other._packed[name] for name in names}
        return PackedSkills(dict(sorted({**self._packed, **more}.items()))) if more else self

    def changes_since(self, before: PackedSkills) -> SkillChanges:
        """Return what differs from an earlier mapping."""
        now, earlier = self._packed, before._packed
        return SkillChanges(
            added=tuple(name for name in now if name not in earlier),
            changed=tuple(name for name in now if name in earlier and now[name] != earlier[name]),
            removed=tuple(name for name in earlier if name not in now),
        )
