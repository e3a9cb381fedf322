"""What a caller may see and use: :class:`AccessView`, the start of every response, and its cache of indexes.

Indexes of scopes may be as many as there are skills, so they are made on request, and kept, within a bound, while their
revision is the current one. Work that several requests wait for is done once, in a task that outlives each of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from skillwire import limits
from skillwire.protocols.agent_skills.server import CachePolicy, Site
from skillwire.server.responses import ByteCache, CachedResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from skillwire.model.catalog import Catalog
    from skillwire.protocols.agent_skills.server import Representation


def has_failed(work: asyncio.Future[Any]) -> bool:
    """Whether work has ended without a result: the next request starts it again."""
    return work.done() and (work.cancelled() or work.exception() is not None)


#: So few skills are encoded faster than a thread is woken.
_FEW: Final = 8
#: What one that is kept takes beside its bytes: header fields, tags, tables.
_OVERHEAD: Final = 6 * limits.KIB


class Encodable(Protocol):
    """A document that is encoded on request; the number of its ``skills`` says how long that takes."""

    @property
    def skills(self) -> Sized:
        """The skills in it."""

    @property
    def media_type(self) -> str:
        """Its ``Content-Type``."""

    @property
    def cache(self) -> CachePolicy:
        """Its ``Cache-Control``."""

    @property
    def encode(self) -> Callable[[], bytes]:
        """Returns its bytes."""


class IndexCache:
    """The indexes of one revision that were requested so far. Large ones are made off the event loop, one at a time."""

    def __init__(self) -> None:
        self._kept: ByteCache[str, CachedResponse] = ByteCache(limits.SERVER_LISTING_CACHE_BYTES)
        self._making: dict[str, asyncio.Task[CachedResponse]] = {}
        self._turn = asyncio.Lock()

    def has(self, path: str) -> bool:
        """Whether the answer at ``path`` is made already, or is being made."""
        return path in self._making or self._kept.get(path) is not None

    async def prepare(self, path: str, listing: Encodable) -> CachedResponse:
        """Return the index at ``path``, encoded and compressed."""
        if (kept := self._kept.get(path)) is not None:
            return kept
        if len(listing.skills) <= _FEW:
            return self._keep(path, prepare(listing))
        if (task := self._making.get(path)) is None:
            task = self._making[path] = asyncio.create_task(self._prepare_in_thread(path, listing))
        return await asyncio.shield(task)  # the task outlives a request that is cancelled

    async def _prepare_in_thread(self, path: str, listing: Encodable) -> CachedResponse:
        try:
            async with self._turn:
                return self._keep(path, await asyncio.to_thread(prepare, listing))
        finally:
            del self._making[path]

    def _keep(self, path: str, prepared: CachedResponse) -> CachedResponse:
        self._kept.put(path, prepared, prepared.size + _OVERHEAD)
        return prepared


def prepare(listing: Encodable) -> CachedResponse:
    """Return ``listing``, encoded and compressed."""
    return CachedResponse(listing.encode(), listing.media_type, listing.cache)


@dataclass(frozen=True, slots=True)
class AccessView:
    """What a principal may know of and may use; ``forbidden`` is the site of skills that it may know of and not use."""

    visible: Catalog
    usable: Catalog
    site: Site
    forbidden: Site
    is_public: bool = False
    indexes: IndexCache = field(default_factory=IndexCache)

    @property
    def cache(self) -> CachePolicy:
        """How long its answers may be kept."""
        return CachePolicy.BRIEF if self.is_public else CachePolicy.PRIVATE

    def lookup(self, path: str) -> Representation | None:
        """Return the response at ``path`` of the Agent Skills site, or None."""
        answer = self.site.lookup(path)
        return answer if answer is None or self.is_public else replace(answer, cache=CachePolicy.PRIVATE)
