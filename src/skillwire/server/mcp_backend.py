"""MCP callers: the skills of a view, calls of skills, and blobs.

A call starts a run and waits no longer than a client waits. A client that disconnects before it got the ID of its run
can never read that run, so the run is cancelled. Pinned skills that are not published, and skills that MCP hosts do
not have to accept, are logged.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from skillwire import limits
from skillwire.bridges.mcp.host import Blob, Large, Running, limit_exceeded
from skillwire.errors import (
    DecodeError,
    PendingError,
    SkillwireError,
    StorageError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.model.catalog import SearchQuery
from skillwire.model.skill import Skill, is_skill_name
from skillwire.registry.search import read_words, telling_words
from skillwire.server.execution_service import CallableSkills
from skillwire.server.log import MissingNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.model.digest import Digest
    from skillwire.ports import BlobStore
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.protocols.skills_rpc.messages import CreateBlob, CreatedBlob, RunResult
    from skillwire.server.components import Components
    from skillwire.server.revision import AccessView, Revision
    from skillwire.server.rpc_methods import SkillListCache
    from skillwire.server.runs import Runs

_NAME_WEIGHT: Final = 3


def check_pins(pins: Iterable[str]) -> tuple[str, ...]:
    """Return the names of pinned skills, each once. Raises UsageError (``USAGE``)."""
    names = tuple(dict.fromkeys(pins))
    for name in names:
        if not is_skill_name(name):
            fix = "Write the name of its folder, such as --pin csv-profile."
            raise UsageError("USAGE", f"no skill can be called {name[:100]!a}", fix=fix)
    if len(names) > limits.MCP_PINS:
        raise UsageError("USAGE", f"{len(names)} skills are pinned, at most {limits.MCP_PINS} can be")
    return names


def missing_pins(pins: Iterable[str]) -> MissingNames:
    """Return what logs the pinned skills that a revision does not publish."""
    names = tuple(pins)
    return MissingNames(
        "pinned, but not published", lambda new: [one for one in names if one not in new.everything.skills]
    )


def log_left_out(revision: Revision) -> None:
    """Log the skills that hosts do not have to accept; it reads each skill, so run it off the event loop."""
    log = structlog.get_logger("skillwire.mcp")
    for skill in revision.everything.skills.values():
        if (reason := limit_exceeded(skill)) is not None:
            log.warning("a skill is left out of lists and resources", reason=reason)


class McpBackend(NamedTuple):
    """The parts that MCP callers share: blobs of skills, descriptors, runs, skills by dotted names, cancellations."""

    blobs: BlobStore
    callables: CallableSkills
    runs: Runs
    skills: SkillListCache
    cancelling: set[asyncio.Task[None]]


def make_mcp_backend(parts: Components) -> McpBackend:
    """Return the backend of a server with these parts."""
    blobs, runs = parts.catalog.blobs, parts.executions.runs
    return McpBackend(blobs, CallableSkills(blobs), runs, parts.skills, set())


class McpCaller:
    """A :class:`~skillwire.bridges.mcp.host.McpSkills`: what one caller may see and use of a revision.

    Its executions belong to ``owner``; large values of the answer go to ``large``.
    """

    def __init__(
        self, view: AccessView, revision: Revision, owner: str, backend: McpBackend, large: Large | None = None
    ) -> None:
        self.visible = view.visible
        self.usable = view.usable
        self.is_public = view.is_public
        self.large = large
        self._view = view
        self._revision = revision
        self._owner = owner
        self._backend = backend

    async def find(self, words: str, limit: int) -> Sequence[Skill]:
        """Return the visible skills that fit best. Raises UsageError (``QUERY``)."""
        return await asyncio.to_thread(self._find, words, limit)

    def _find(self, words: str, limit: int) -> Sequence[Skill]:
        """Search the public skills by their index, and compare the caller's other skills word by word."""
        skills, public = self.visible.skills, self._revision.catalog.skills
        page = self._revision.search.search(SearchQuery(text=words, limit=limit, counted=False))
        others = [skills[name] for name in skills if name not in public]
        wanted = telling_words(read_words(words))
        if not wanted.words:
            return sorted(
                [*others, *(skills[name] for name in page.names if name in skills)], key=lambda skill: skill.name
            )[:limit]
        scored: list[tuple[int, str, Skill, bool]] = []
        for skill in others:
            name, text = skill.name, skill.description.lower()
            hits = [_NAME_WEIGHT * (word in name) + (word in text) for word in wanted.words]
            if any(hits):
                scored.append((-sum(hits), name, skill, all(hits)))
        scored.sort(key=lambda one: one[:2])
        best, rest = [one[2] for one in scored if one[3]], [one[2] for one in scored if not one[3]]
        return [*best, *(skills[name] for name in page.names if name in skills), *rest][:limit]

    async def name_of(self, dotted: str) -> str | None:
        """Return the name of the visible skill with this name of the Skills Protocol."""
        return (await self._backend.skills.of(self._view, self._revision)).name_of(dotted)

    async def read(self, digest: Digest) -> bytes:
        """Return the bytes of a file of a skill. Raises StorageError (``STORAGE``)."""
        content = await asyncio.to_thread(self._backend.blobs.read, digest)
        if content is None:
            raise StorageError("STORAGE", "the bytes of this file are not kept here any more")
        return content

    async def describe(self, skill: Skill) -> SkillDescriptor:
        """Return the descriptor of a skill."""
        return await asyncio.to_thread(self._backend.callables.descriptor, skill)

    async def refusal(self, skill: Skill) -> str:
        """Return why a call of a skill would be refused now; empty where it would not."""
        try:
            await self._backend.runs.check(self._owner, skill, is_call=False)
        except (TrustError, ValidationError) as error:
            return error.message
        return ""

    async def call(self, skill: Skill, arguments: Mapping[str, Any], seconds: float) -> RunResult | Running:
        """Start a run, and wait for its end for so many seconds.

        Raises TrustError (``PERMISSION_DENIED``), and what :meth:`skillwire.server.runs.Runs.begin_skill` raises.
        """
        if skill.name not in self.usable.skills:
            raise TrustError("PERMISSION_DENIED", f"{skill.name} is not open to this caller")
        runs, cancelling = self._backend.runs, self._backend.cancelling
        beginning = asyncio.create_task(runs.begin_skill(self._owner, skill, arguments))

        async def cancel() -> None:
            with suppress(SkillwireError):  # it was not accepted; what is being stored is accepted nevertheless
                await runs.cancel(self._owner, await beginning)

        try:
            return await self.follow(await asyncio.shield(beginning), seconds)
        except asyncio.CancelledError:
            task = asyncio.create_task(cancel())
            cancelling.add(task)
            task.add_done_callback(cancelling.discard)
            await asyncio.shield(task)
            raise

    async def follow(self, run_id: str, seconds: float) -> RunResult | Running:
        """Return the result of a run of this caller, or its status after so many seconds. Raises NotFoundError."""
        try:
            return await self._backend.runs.follow(self._owner, run_id, seconds)
        except PendingError as pending:
            return Running(run_id, str(pending.details["status"]))

    async def find_blob(self, blob_id: str) -> Blob:
        """Return a blob of this caller. Raises NotFoundError, DecodeError (``LIMIT_SIZE``), StorageError."""
        with await self._backend.runs.blobs.open(self._owner, blob_id) as blob:
            if blob.size > limits.MCP_BLOB_BYTES:
                message = f"this blob has {blob.size:,} bytes, and MCP gives at most {limits.MCP_BLOB_BYTES:,}"
                raise DecodeError("LIMIT_SIZE", f"{message}; GET /blobs/{blob_id} of the same server gives it whole")

        async def read() -> bytes:
            with await self._backend.runs.blobs.open(self._owner, blob_id) as blob:
                return await blob.read(0, blob.size)

        return Blob(blob.kind, blob.size, read)

    async def create_blob(self, wanted: CreateBlob) -> CreatedBlob:
        """Store a blob of this caller; errors as of :meth:`skillwire.server.runs.BlobUploads.create`."""
        return await self._backend.runs.blobs.create(self._owner, wanted)
