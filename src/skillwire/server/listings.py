"""Indexes that are made when they are asked for: those of scopes, and those at pasted URLs.

There may be one for every skill, so they are not prepared with the revision. One that was made is kept, within
a bound, as long as its revision is the current one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from skillwire import limits
from skillwire.server.byte_cache import ByteCache
from skillwire.server.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from skillwire.protocols.agent_skills.server import Cache

#: So few skills are encoded faster than a thread is woken.
_FEW: Final = 8
#: What one that is kept takes beside its bytes: header fields, tags, tables.
_OVERHEAD: Final = 6 * limits.KIB


class Encodable(Protocol):
    """An answer that is encoded when it is wanted; how many ``skills`` it is made of says how long that takes."""

    @property
    def skills(self) -> Sized:
        """What it is made of."""

    @property
    def media_type(self) -> str:
        """Its ``Content-Type``."""

    @property
    def cache(self) -> Cache:
        """Its ``Cache-Control``."""

    @property
    def encode(self) -> Callable[[], bytes]:
        """Gives its bytes."""


class Listings:
    """The indexes of one revision that were asked for so far.

    Trust: a scope can hold every skill, and encoding those takes a good part of a second; so large ones are made
    off the event loop, one at a time, and once for all who wait for it.
    """

    def __init__(self) -> None:
        self._kept: ByteCache[str, Prepared] = ByteCache(limits.SERVER_LISTING_CACHE_BYTES)
        self._making: dict[str, asyncio.Task[Prepared]] = {}
        self._turn = asyncio.Lock()

    def has(self, path: str) -> bool:
        """Whether the answer at ``path`` is made already, or is being made."""
        return path in self._making or self._kept.get(path) is not None

    async def prepare(self, path: str, listing: Encodable) -> Prepared:
        """Return the index at ``path``, encoded and compressed."""
        if (kept := self._kept.get(path)) is not None:
            return kept
        if len(listing.skills) <= _FEW:
            return self._keep(path, prepare(listing))
        if (task := self._making.get(path)) is None:
            task = self._making[path] = asyncio.create_task(self._prepare_aside(path, listing))
        return await asyncio.shield(task)  # who goes away leaves the work to the others who wait for it

    async def _prepare_aside(self, path: str, listing: Encodable) -> Prepared:
        try:
            async with self._turn:
                return self._keep(path, await asyncio.to_thread(prepare, listing))
        finally:
            del self._making[path]

    def _keep(self, path: str, prepared: Prepared) -> Prepared:
        self._kept.put(path, prepared, prepared.size + _OVERHEAD)
        return prepared


def prepare(listing: Encodable) -> Prepared:
    """Return ``listing``, encoded and compressed."""
    return Prepared(listing.encode(), listing.media_type, listing.cache)
