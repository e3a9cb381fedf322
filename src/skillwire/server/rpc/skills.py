"""The skills of each audience as the Skills Protocol tells them, made once in a revision.

The text of all skills is written when somebody first asks by this protocol, in a thread, since many servers are never
asked; from then on before each revision is served. What an audience may know of is a selection from it, made when the
first of them asks. Both are kept while their revision is the current one, so no request makes any of it again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.protocols.skills_rpc.index import SkillIndex
from skillwire.protocols.skills_rpc.server import SkillsRpc
from skillwire.server.shared_work import has_failed

if TYPE_CHECKING:
    from skillwire.ports import BlobStore
    from skillwire.server.audience import Audience
    from skillwire.server.revision import Revision

#: Audiences whose skills are kept: everybody, and as many as the server keeps beside.
_KEPT: Final = 33


class _Kept(NamedTuple):
    """What was made for an audience, which is held so that no other can take its identity."""

    audience: Audience
    making: asyncio.Task[SkillsRpc]


class AudienceSkills:
    """Gives what an audience may list, describe and read; used by one event loop.

    Args:
        blobs: where the files of skills are.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._revision: Revision | None = None
        self._whole: asyncio.Future[SkillIndex] | None = None
        self._prepared: tuple[Revision, SkillIndex] | None = None
        self._kept: OrderedDict[int, _Kept] = OrderedDict()

    def prepare(self, revision: Revision) -> None:
        """Write the text of a revision that is going to be served, if anybody ever asked for one; in any thread."""
        if self._revision is not None:
            self._prepared = (revision, SkillIndex(revision.everything.skills))

    async def of(self, audience: Audience, revision: Revision) -> SkillsRpc:
        """Return the skills of ``audience``, which is of ``revision``."""
        if revision is not self._revision or self._whole is None or has_failed(self._whole):
            self._revision = revision
            self._whole = self._begin(revision)
            self._kept.clear()
        kept = self._kept.get(id(audience))
        if kept is None:
            kept = self._kept[id(audience)] = _Kept(audience, asyncio.create_task(self._make(audience, self._whole)))
            kept.making.add_done_callback(lambda done: self._drop_failed(audience, done))
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(id(audience))
        if kept.making.done():
            return kept.making.result()
        return await asyncio.shield(kept.making)  # who goes away leaves the work to the others who wait for it

    def _begin(self, revision: Revision) -> asyncio.Future[SkillIndex]:
        """Return the text of all skills, or what is going to be it."""
        prepared, self._prepared = self._prepared, None
        if prepared is None or prepared[0] is not revision:
            return asyncio.ensure_future(asyncio.to_thread(SkillIndex, revision.everything.skills))
        written: asyncio.Future[SkillIndex] = asyncio.get_running_loop().create_future()
        written.set_result(prepared[1])
        return written

    async def _make(self, audience: Audience, writing: asyncio.Future[SkillIndex]) -> SkillsRpc:
        whole = await asyncio.shield(writing)
        index = await asyncio.to_thread(SkillIndex, audience.visible.skills, whole)
        return SkillsRpc(index, audience.usable.skills, self._blobs.read)

    def _drop_failed(self, audience: Audience, making: asyncio.Task[SkillsRpc]) -> None:
        """Forget what could not be made: the next request tries again."""
        kept = self._kept.get(id(audience))
        if has_failed(making) and kept is not None and kept.making is making:
            del self._kept[id(audience)]
