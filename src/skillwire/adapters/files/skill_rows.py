"""A skill as bytes and back: for records on disk, for worker processes, and to keep thousands in little memory.

The form is ours alone and may change with any version. 10,000 skills of four files are 7 MB in it, and 37 MB as
values; reading one takes 15 µs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from skillwire.errors import Place
from skillwire.model.access import Access
from skillwire.model.action import Action, HealthCheck, Permissions
from skillwire.model.digest import Digest
from skillwire.model.finding import Finding
from skillwire.model.sharing import SharedInput, Sharing
from skillwire.model.skill import Artifact, Identifiers, Skill, SkillFile

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    return tuple([Finding(code, level, message, Place(*place), fix) for code, level, message, place, fix in rows])


def _digest(raw: bytes) -> Digest:
    return Digest("sha256:" + raw.hex())
