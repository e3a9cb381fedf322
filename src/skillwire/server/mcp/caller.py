"""A caller of MCP as the server knows it: an audience of a revision, and the executions of an owner."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.bridges.mcp.caller import Blob
from skillwire.errors import DecodeError, StorageError
from skillwire.model.search import SearchQuery
from skillwire.registry.query import read_words, telling_words
from skillwire.server.invocation.offers import Offers
from skillwire.server.mcp.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.bridges.mcp.caller import Large, Running
    from skillwire.model.catalog import Catalog
    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.protocols.skills_rpc.messages import CreateBlob, CreatedBlob, Run
    from skillwire.server.audience import Audience
    from skillwire.server.compose import Parts
    from skillwire.server.revision import Revision
    from skillwire.server.rpc.skills import AudienceSkills
    from skillwire.server.runs import Runs

_NAME_WEIGHT: Final = 3


class Shelves(NamedTuple):
    """Where a caller gets things from: bytes, descriptors, what runs and was run, and skills by their dotted names."""

    blobs: BlobStore
    offers: Offers
    calls: Calls
    runs: Runs
    skills: AudienceSkills


def make_shelves(parts: Parts) -> Shelves:
    """Return the shelves of a server with these parts."""
    blobs, runs = parts.publication.blobs, parts.executions.runs
    return Shelves(blobs, Offers(blobs), Calls(runs), runs, parts.skills)


class AudienceCaller:
    """A :class:`~skillwire.bridges.mcp.caller.Caller`.

    Args:
        audience: what it may know of and use.
        revision: of which that is a part.
        owner: whom its executions belong to.
        shelves: where things are.
        large: where large values of the answer go.
    """

    def __init__(
        self, audience: Audience, revision: Revision, owner: str, shelves: Shelves, large: Large | None = None
    ) -> None:
        self._audience = audience
        self._revision = revision
        self._owner = owner
        self._shelves = shelves
        self._large = large

    @property
    def visible(self) -> Catalog:
        """What it may know of."""
        return self._audience.visible

    @property
    def usable(self) -> Catalog:
        """What it may read and have run."""
        return self._audience.usable

    @property
    def is_everybody(self) -> bool:
        """Whether it is told nothing that anybody may not hear."""
        return self._audience.is_everybody

    @property
    def large(self) -> Large | None:
        """Where large values of the answer go."""
        return self._large

    async def find(self, words: str, limit: int) -> Sequence[Skill]:
        """Return the skills it may know of that fit best.

        Raises:
            UsageError: ``QUERY``.
        """
        return await asyncio.to_thread(self._find, words, limit)

    def _find(self, words: str, limit: int) -> Sequence[Skill]:
        """Search what everybody may use by its index, and compare what else the caller may know of word by word."""
        skills, public = self.visible.skills, self._revision.catalog.skills
        page = self._revision.search.search(SearchQuery(text=words, limit=limit, counted=False))
        others = [skills[name] for name in skills if name not in public]
        wanted = telling_words(read_words(words))
        if not wanted.words:
            return sorted([*others, *(skills[name] for name in page.names)], key=lambda skill: skill.name)[:limit]
        best, rest = _ranked(others, wanted.words)
        return [*best, *(skills[name] for name in page.names if name in skills), *rest][:limit]

    async def name_of(self, dotted: str) -> str | None:
        """Return the name of the skill that the Skills Protocol calls so, if it may know of it."""
        return (await self._shelves.skills.of(self._audience, self._revision)).name_of(dotted)

    async def read(self, digest: Digest) -> bytes:
        """Return the bytes of a file of a skill.

        Raises:
            StorageError: ``STORAGE`` when they are gone.
        """
        content = await asyncio.to_thread(self._shelves.blobs.read, digest)
        if content is None:
            raise StorageError("STORAGE", "the bytes of this file are not kept here any more")
        return content

    async def describe(self, skill: Skill) -> SkillDescriptor:
        """Return what a skill takes and gives."""
        return await asyncio.to_thread(self._shelves.offers.descriptor, skill)

    async def call(self, skill: Skill, arguments: Mapping[str, Any], seconds: float) -> Run | Running:
        """Have a skill run, and wait for its end for so long."""
        return await self._shelves.calls.begin(self._owner, self._audience, skill, arguments, seconds)

    async def follow(self, run_id: str, seconds: float) -> Run | Running:
        """Return how far an execution of its own is."""
        return await self._shelves.calls.follow(self._owner, run_id, seconds)

    async def find_blob(self, blob_id: str) -> Blob:
        """Return a blob of its own.

        Raises:
            NotFoundError: ``BLOB_NOT_FOUND``. DecodeError: ``LIMIT_SIZE``. StorageError: ``DATABASE``.
        """
        with await self._shelves.runs.blobs.open(self._owner, blob_id) as blob:
            if blob.size > limits.MCP_BLOB_BYTES:
                message = f"this blob has {blob.size:,} bytes, and MCP gives at most {limits.MCP_BLOB_BYTES:,}"
                raise DecodeError("LIMIT_SIZE", f"{message}; GET /blobs/{blob_id} of the same server gives it whole")
            return Blob(blob.kind, blob.size, partial(self._read_blob, blob_id))

    async def _read_blob(self, blob_id: str) -> bytes:
        with await self._shelves.runs.blobs.open(self._owner, blob_id) as blob:
            return await blob.read(0, blob.size)

    async def create_blob(self, wanted: CreateBlob) -> CreatedBlob:
        """Keep a blob of its own; errors as of :meth:`skillwire.server.run_blobs.BlobDesk.create`."""
        return await self._shelves.runs.blobs.create(self._owner, wanted)


def _ranked(skills: Sequence[Skill], words: Sequence[str]) -> tuple[list[Skill], list[Skill]]:
    """Return the skills that have all the words, and those that have some; both best first."""
    scored: list[tuple[int, str, Skill, bool]] = []
    for skill in skills:
        name, text = skill.name, skill.description.lower()
        hits = [_NAME_WEIGHT * (word in name) + (word in text) for word in words]
        if any(hits):
            scored.append((-sum(hits), name, skill, all(hits)))
    scored.sort(key=lambda one: one[:2])
    return [one[2] for one in scored if one[3]], [one[2] for one in scored if not one[3]]
