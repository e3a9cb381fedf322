"""The caller of an MCP request: what it may see, use and run.

The host makes one per request from the request's credentials. There are no sessions, so callers cannot be confused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from skillwire.model.catalog import Catalog
from skillwire.model.digest import Digest
from skillwire.model.skill import Skill
from skillwire.protocols.skill_sharing.messages import SkillDescriptor
from skillwire.protocols.skills_rpc.messages import CreateBlob, CreatedBlob, RunResult


class Running(NamedTuple):
    """An execution that has not ended yet; ``status`` is ``accepted`` or ``running``."""

    run_id: str
    status: str


class Large(Protocol):
    """The answer beside what the SDK writes: its large values, and what is answered in its place.

    What is held of large values is bounded.
    """

    def begin_batch(self, messages: int) -> None:
        """Count the messages of a batch. Raises ProblemError when they come too often."""

    def ask_for_scope(self, skill: str) -> None:
        """Answer with the scope that opens ``skill`` to this caller's access token, if one does."""

    def reserve(self, size: int) -> None:
        """Reserve ``size`` bytes, or release them if negative. Raises SkillwireError when too much is held."""

    def attach(self, value: bytes) -> str:
        """Return a placeholder for ``value``, JSON with reserved space, for use as a string in the SDK's output."""


class Blob(NamedTuple):
    """A blob of a caller: its media type, its size in bytes, and what reads it."""

    kind: str
    size: int
    read: Callable[[], Awaitable[bytes]]


class McpSkills(Protocol):
    """A caller, as the bridge needs it. What raises, raises a :class:`~skillwire.errors.SkillwireError`."""

    @property
    def visible(self) -> Catalog:
        """What it may know of."""

    @property
    def usable(self) -> Catalog:
        """What it may read and have run."""

    @property
    def is_public(self) -> bool:
        """Whether the caller sees public content only."""

    @property
    def large(self) -> Large | None:
        """The place for large values of the answer; None where only this caller is served."""

    async def find(self, words: str, limit: int) -> Sequence[Skill]:
        """Return the skills it may know of that fit these words best; all, by name, without words."""

    async def name_of(self, dotted: str) -> str | None:
        """Return the name of the skill that the Skills Protocol calls so, if the caller may know of it."""

    async def read(self, digest: Digest) -> bytes:
        """Return the bytes of a file of a skill."""

    async def describe(self, skill: Skill) -> SkillDescriptor:
        """Return what a skill takes and gives."""

    async def refusal(self, skill: Skill) -> str:
        """Return why a call of a skill would be refused now; empty where it would not."""

    async def call(self, skill: Skill, arguments: Mapping[str, Any], seconds: float) -> RunResult | Running:
        """Have a skill run, and wait for its end for so long."""

    async def follow(self, run_id: str, seconds: float) -> RunResult | Running:
        """Return how far an execution of its own is, after waiting for its end for so long."""

    async def find_blob(self, blob_id: str) -> Blob:
        """Return a blob of its own; ``BLOB_NOT_FOUND``, or ``LIMIT_SIZE`` for one that is too large for a message."""

    async def create_blob(self, wanted: CreateBlob) -> CreatedBlob:
        """Keep a blob, which a skill that it calls can read."""
