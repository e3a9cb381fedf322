"""A finding: one thing that is wrong, or doubtful, at one place.

The names of a skill.

That of Agent Skills is 1-64 of ``a-z 0-9 -``, no hyphen first, last or doubled. Spec: ASD URI Structure.

The form of a version: Semantic Versioning 2.0.0. Spec: SSP §6.1.

What a skill says about itself for Skill Sharing: the part of a descriptor that is the publisher's.

What runs when a skill is called: which executor, with which permissions.

A published skill as a value: what a folder holds, without its bytes.

The bytes of a file are found by their digest in a blob store, so a catalog of 10,000 skills fits in a few
megabytes and a snapshot costs nothing to keep.
"""

from __future__ import annotations

import hashlib
import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from skillwire import limits
from skillwire.model.access import Access

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.errors import SourceLocation
    from skillwire.model.digest import Digest


Level = Literal["error", "warning", "note"]


class Finding(NamedTuple):
    """What ``check`` reports and what a publisher or installer says about what it skipped.

    ``code`` is a row of :data:`skillwire.codes.CODES` or a lint rule of :data:`skillwire.folder.rules.RULES`.
    """

    code: str
    level: Level
    message: str
    place: SourceLocation
    fix: str


_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)

_DOTTED: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
_DOTTED_LENGTH: Final = 256

_SHARING_ID: Final = re.compile(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9._-]*|[a-z0-9]+(?:\.[a-z0-9-]+){2,}")
_SHARING_ID_LENGTH: Final = 128

#: Names that some file systems keep for devices; a folder of that name cannot be made there.
DEVICE_NAMES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(10)), *(f"lpt{digit}" for digit in range(10))}
)


def is_skill_name(text: object) -> bool:
    """Whether ``text`` may name a skill, and so a folder, on every system."""
    return (
        isinstance(text, str)
        and len(text) <= limits.NAME_LENGTH
        and _NAME.fullmatch(text) is not None
        and text not in DEVICE_NAMES
    )


def is_sharing_id(text: object) -> bool:
    """Whether ``text`` may identify a skill in Skill Sharing: ``provider/skill`` or ``com.example.skill-v1``.

    Spec: SSB §5.7; specs §2.
    """
    return isinstance(text, str) and len(text) <= _SHARING_ID_LENGTH and _SHARING_ID.fullmatch(text) is not None


def is_dotted_name(text: object) -> bool:
    """Whether ``text`` may identify a skill in the Skills Protocol, as other servers write it: ``ns.domain.action``.

    What we publish has letters, digits and dots alone. Spec: specs §0, §4.
    """
    return isinstance(text, str) and len(text) <= _DOTTED_LENGTH and _DOTTED.fullmatch(text) is not None


#: The expression of its own page, for a whole text.
SEMVER_PATTERN: Final = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?\Z"
)
_SEMVER: Final = re.compile(SEMVER_PATTERN)
_LENGTH: Final = 64


def is_version(text: str) -> bool:
    """Whether ``text`` is a version of Semantic Versioning."""
    return len(text) <= _LENGTH and _SEMVER.match(text) is not None


def major(version: str) -> int:
    """Return the first number of a version."""
    return int(version.partition(".")[0])


class SharedInput(NamedTuple):
    """One input of an action: its name, its type in JSON Schema, what it means, and its default, None for none.

    ``schema`` says more than the type does, where that is not enough.
    """

    name: str
    input_type: str
    description: str
    required: bool = False
    default: object = None
    schema: Mapping[str, Any] | None = None


class Sharing(NamedTuple):
    """The publisher's part of a Skill Descriptor.

    ``descriptor`` is the digest of a ``descriptor.json`` in the folder, which is then served as it is; the other
    fields say the same as it does. ``auth``, ``output`` and ``endpoint`` are the tables of ``skill.toml``, None where
    it has none. Spec: SSP §3; specs §0.
    """

    name: str
    description: str
    version: str
    capability_type: str
    tags: tuple[str, ...] = ()
    inputs: tuple[SharedInput, ...] = ()
    auth: Mapping[str, Any] | None = None
    output: Mapping[str, Any] | None = None
    endpoint: Mapping[str, Any] | None = None
    descriptor: Digest | None = None


#: ``python``: the skill's own code, in a sandbox. ``http``: an upstream API. ``human``: a task for a person.
#: ``function``: code of the publisher's own process.
ExecutorKind = Literal["python", "http", "human", "function"]
#: The executors that do what a skill's folder says, so that somebody has to grant it first.
GRANTED: Final[frozenset[ExecutorKind]] = frozenset({"python", "http"})


class Permissions(NamedTuple):
    """What an action may reach: https origins, and variables that hold secrets. Spec: SKP ``[permissions]``."""

    network: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of the set in hexadecimal, the same for every order. A grant names it."""
        text = json.dumps([sorted(set(self.network)), sorted(set(self.secrets))], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class HealthCheck(NamedTuple):
    """How it is found out how a skill is: a URL is asked, or a function of its folder is called. Ours.

    Args:
        url: empty where a function is called.
        entrypoint, export: name the function, as they name that of an action.
        interval: seconds from the begin of one check to that of the next.
        timeout: seconds that one may take.
    """

    url: str = ""
    entrypoint: str = ""
    export: str = ""
    interval: int = 30
    timeout: int = 5


class Action(NamedTuple):
    """How a skill is executed.

    ``entrypoint`` and ``export`` name the function of a ``python`` action. ``settings`` is the table ``[executor]``
    as the folder has it. ``idempotent`` actions may be run again after a worker was lost. ``health`` is how it is found
    out whether it would succeed; None where the folder does not say.
    """

    executor: ExecutorKind
    entrypoint: str = ""
    export: str = "main"
    permissions: Permissions = Permissions()
    settings: Mapping[str, Any] = MappingProxyType({})
    idempotent: bool = False
    health: HealthCheck | None = None


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
