"""A published skill as a value, without its files' bytes, and its parts.

A blob store holds the bytes by digest, so a catalog of 10,000 skills takes a few megabytes. Also here: the forms of
names and versions, and findings about skills.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping  # msgspec reads the fields' types
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple

from skillwire import limits
from skillwire.errors import SourceLocation  # same
from skillwire.model.access import Access
from skillwire.model.digest import Digest  # same

Level = Literal["error", "warning", "note"]

#: The files of a skill with a meaning of their own.
SKILL_MD: Final = "SKILL.md"
SKILL_TOML: Final = "skill.toml"


class Finding(NamedTuple):
    """A problem at one place; ``code`` is an error code or a lint rule (:mod:`skillwire.folder.rules`)."""

    code: Annotated[str, "Code; skillwire explain CODE explains it"]
    level: Annotated[Level, "Severity"]
    message: Annotated[str, "The problem"]
    place: Annotated[SourceLocation, "Location"]
    fix: Annotated[str, "What to do"]


SKILL_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_DOTTED: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII)
_DOTTED_LENGTH: Final = 256
SHARING_ID: Final = re.compile(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9._-]*|[a-z0-9]+(?:\.[a-z0-9-]+){2,}")
SHARING_ID_LENGTH: Final = 128
#: Names that some file systems keep for devices; a folder of that name cannot be made there.
DEVICE_NAMES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(10)), *(f"lpt{digit}" for digit in range(10))}
)


def is_skill_name(text: object) -> bool:
    """Whether ``text`` is a valid Agent Skills name, and so a folder name on every system. Spec: ASD URI Structure."""
    if not isinstance(text, str) or len(text) > limits.NAME_LENGTH:
        return False
    return SKILL_NAME.fullmatch(text) is not None and text not in DEVICE_NAMES


def is_sharing_id(text: object) -> bool:
    """Whether ``text`` is a Skill Sharing id, such as ``provider/skill``. Spec: SSB §5.7; specs §2."""
    return isinstance(text, str) and len(text) <= SHARING_ID_LENGTH and SHARING_ID.fullmatch(text) is not None


def is_dotted_name(text: object) -> bool:
    """Whether ``text`` is a Skills Protocol name that any server may use. Spec: specs §0, §4."""
    return isinstance(text, str) and len(text) <= _DOTTED_LENGTH and _DOTTED.fullmatch(text) is not None


#: The expression of its own page, for a whole text.
SEMVER_PATTERN: Final = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?\Z"
)
_SEMVER: Final = re.compile(SEMVER_PATTERN)
VERSION_LENGTH: Final = 64


def is_version(text: str) -> bool:
    """Whether ``text`` is a version of Semantic Versioning. Spec: SSP §6.1."""
    return len(text) <= VERSION_LENGTH and _SEMVER.match(text) is not None


def major(version: str) -> int:
    """Return the first number of a version."""
    return int(version.partition(".")[0])


class SharedInput(NamedTuple):
    """One input of an action; ``schema`` is given where the JSON Schema type is not enough."""

    name: str
    input_type: str
    description: str
    required: bool = False
    default: object = None
    schema: Mapping[str, Any] | None = None


class Sharing(NamedTuple):
    """The publisher's part of a Skill Descriptor; the mappings are tables of ``skill.toml``. Spec: SSP §3; specs §0.

    ``descriptor`` is the digest of the folder's ``descriptor.json``, which is served unchanged.
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
#: The executors that act on a skill's folder, so a person must grant the skill first.
GRANTED: Final[frozenset[ExecutorKind]] = frozenset({"python", "http"})


class Permissions(NamedTuple):
    """What an action may access: https origins, and variables that hold secrets. Spec: SKP ``[permissions]``."""

    network: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of the set in hexadecimal, the same for every order. A grant names it."""
        text = json.dumps([sorted(set(self.network)), sorted(set(self.secrets))], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class HealthCheck(NamedTuple):
    """How a skill's health is checked: by a URL, or by a function of its folder [ours]."""

    url: str = ""  # empty for a function
    entrypoint: str = ""
    export: str = ""
    interval: int = 30  # seconds between the starts of two checks
    timeout: int = 5  # seconds for one check


class Action(NamedTuple):
    """How a skill is executed; ``settings`` is the folder's ``[executor]`` table.

    ``entrypoint`` and ``export`` name the function of a ``python`` action. ``idempotent`` actions may run again after a
    worker was lost.
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


def is_callable(kind: str | None, capability_type: str | None) -> bool:
    """Whether a skill can be called: an action, or a skill whose capability type is not ``knowledge``."""
    return kind == "action" or capability_type not in {None, "knowledge"}


def capability_text(kind: str | None, capability_type: str | None) -> str:
    """Return the capability type, or the kind where there is none, as lists show it: ``callable (api)``."""
    text = capability_type or kind or "-"
    return f"callable ({text})" if is_callable(kind, capability_type) else text


class SkillFile(NamedTuple):
    """One file of a skill: POSIX path relative to the folder, size in bytes, digest, executable bit."""

    path: str
    size: int
    digest: Digest
    executable: bool = False


class FileContent(NamedTuple):
    """One file of a skill with its bytes."""

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
    """A skill that passed the strict rules and may be published; ``files`` are sorted, ``SKILL.md`` first.

    ``action`` is None for instructions. ``skill_type`` is Skill Discovery's. ``state`` is status, reason and successor
    in a registry, None while it is active.
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
    requires: tuple[str, ...] = ()  # see skillwire.model.package
    state: tuple[str, str, str] | None = None

    def find_file(self, path: str) -> SkillFile | None:
        """Return the file at ``path``, if there is one."""
        return next((file for file in self.files if file.path == path), None)


class Identifiers(NamedTuple):
    """A skill's name in each other protocol (specs §0), and the namespace that groups it in the Skills Protocol."""

    skill_sharing: str  # SSP id, "provider/skill"
    skill_discovery: str  # SDP skillId
    skills_rpc: str  # SKP dotted name
    namespace: str = ""  # SKP; empty where only the dotted name shows it
