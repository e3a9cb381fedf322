"""The values of Agent Skills Discovery: the index and its entries.

An index has been written in four shapes so far. The two that are published today are 0.1.0 (lists of files
to fetch one by one) and 0.2.0 (one artifact a skill, with a digest); a draft before and an interim between
them are met in the wild and are read, never written.

Spec: ASD Discovery Index; specs §1, "Index generations met in the wild".
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from skillwire.model.digest import Digest
    from skillwire.model.finding import Finding

SCHEMA_URI: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
#: The folder of a 0.2.0 index, and that of the generations before it.
WELL_KNOWN: Final = "/.well-known/agent-skills"
WELL_KNOWN_OLD: Final = "/.well-known/skills"


class Generation(StrEnum):
    """Which shape an index has."""

    DRAFT = "draft"
    V0_1_0 = "0.1.0"
    INTERIM = "interim"
    V0_2_0 = "0.2.0"


class IndexedFile(NamedTuple):
    """One file that an index names: its path in the skill, where to fetch it, its digest when one is given."""

    path: str
    url: str
    digest: Digest | None = None


class IndexEntry(NamedTuple):
    """One skill of an index.

    ``artifact_type`` is ``files`` for generations that list files instead of naming an artifact; ``url`` is
    then that of ``SKILL.md``. Decoding makes every URL absolute; encoding writes it as it stands.
    ``digest`` is None only where the generation has none. ``capabilities`` and ``scenes`` are what the skill can do and
    takes part in, in the words of Skill Discovery, where the publisher says so **[ours]**.
    """

    name: str
    description: str
    artifact_type: Literal["skill-md", "archive", "files"]
    url: str
    digest: Digest | None
    files: tuple[IndexedFile, ...] = ()
    version: str | None = None
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()


class Index(NamedTuple):
    """A decoded index: its generation, its good entries by name, and what was skipped or is doubtful."""

    generation: Generation
    entries: dict[str, IndexEntry]
    findings: tuple[Finding, ...] = ()
