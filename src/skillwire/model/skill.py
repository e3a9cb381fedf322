"""A published skill as a value: what a folder holds, without its bytes.

The bytes of a file are found by their digest in a blob store, so a catalog of 10,000 skills fits in a few
megabytes and a snapshot costs nothing to keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from skillwire.model.access import Access

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.action import Action
    from skillwire.model.digest import Digest
    from skillwire.model.finding import Finding
    from skillwire.model.sharing import Sharing

ArtifactType = Literal["skill-md", "archive"]
Kind = Literal["instruction", "action"]


class SkillFile(NamedTuple):
    """One file of a skill: POSIX path relative to the folder, size in bytes, digest, executable bit."""

    path: str
    size: int
    digest: Digest
    executable: bool = False


class FileContent(NamedTuple):
    """One file of a skill with its bytes: on its way into an archive, out of one, or to the disk."""

    path: str
    content: bytes | memoryview
    executable: bool = False


class Artifact(NamedTuple):
    """What a consumer downloads: ``SKILL.md`` alone, or an archive of the folder. Spec: ASD Index Format."""

    artifact_type: ArtifactType
    media_type: str
    extension: str  # ".md", ".tar.gz" or ".zip"
    size: int
    digest: Digest


class Skill(NamedTuple):
    """A skill that passed the strict rules and may be published.

    ``files`` are sorted by path, ``SKILL.md`` first. ``identifiers`` are the skill's names in the other
    protocols, held and never derived back (specs §0). ``action`` is how it is executed, None for instructions.
    ``skill_type`` is what Skill Discovery calls it; None where the folder says nothing.
    """

    publisher: str
    name: str
    version: str
    description: str
    files: tuple[SkillFile, ...]
    artifact: Artifact
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: str | None = None
    metadata: Mapping[str, str] | None = None
    access: Access = Access.PUBLIC
    kind: Kind = "instruction"
    scenes: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    identifiers: Identifiers | None = None
    sharing: Sharing | None = None
    action: Action | None = None
    findings: tuple[Finding, ...] = ()
    skill_type: str | None = None


class Identifiers(NamedTuple):
    """A skill's name in each other protocol (specs §0), and the namespace that groups it in the Skills Protocol."""

    skill_sharing: str  # SSP id, "provider/skill"
    skill_discovery: str  # SDP skillId
    skills_rpc: str  # SKP dotted name
    namespace: str = ""  # SKP; empty where nothing but the dotted name says it
