"""An audience: what one who asks may know of and may use, as one value for every protocol.

Everybody's audience belongs to the revision and is prepared with it. Those of principals are made when they first
ask, in a thread, and kept for as long as their revision is the current one; principals with the same grants share one.
So access is decided in one place, :class:`skillwire.model.catalog.Catalog`, and nothing that is made for one audience
can be sent to another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.server import Cache, Site
from skillwire.server.listings import Listings
from skillwire.server.shared_work import has_failed

if TYPE_CHECKING:
    from skillwire.model.access import Principal
    from skillwire.model.catalog import Catalog
    from skillwire.protocols.agent_skills.server import Representation
    from skillwire.server.revision import Revision

#: Audiences that are kept beside everybody's.
_KEPT: Final = 32


@dataclass(frozen=True, slots=True)
class Audience:
    """What a principal may know of, what it may use, and the site of that.

    ``locked`` is the site of what it may know of and not use. ``is_everybody`` when it says nothing that anybody may
    not hear: such answers may be kept in shared caches.
    """

    visible: Catalog
    usable: Catalog
    site: Site
    locked: Site
    is_everybody: bool = False
    listings: Listings = field(default_factory=Listings)

    @property
    def cache(self) -> Cache:
        """How long its answers may be kept."""
        return Cache.BRIEF if self.is_everybody else Cache.PRIVATE

    def lookup(self, path: str) -> Representation | None:
        """Return what it is answered at ``path`` of the site of Agent Skills, or None."""
        answer = self.site.lookup(path)
        return answer if answer is None or self.is_everybody else replace(answer, cache=Cache.PRIVATE)


class Audiences:
    """The audiences of principals; used by one event loop.

    Args:
        base_url: see :class:`skillwire.protocols.agent_skills.server.Site`.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._number = 0
        self._kept: OrderedDict[frozenset[str], asyncio.Task[Audience]] = OrderedDict()

    async def of(self, principal: Principal | None, revision: Revision) -> Audience:
        """Return the audience of ``principal`` in ``revision``; everybody's for None."""
        if principal is None or not principal.grants:
            return revision.everybody
        if revision.number != self._number:
            self._number = revision.number
            self._kept.clear()
        task = self._kept.get(principal.grants)
        if task is None:
            making = asyncio.to_thread(make_audience, revision, principal, self._base_url)
            task = self._kept[principal.grants] = asyncio.create_task(making)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            task.add_done_callback(lambda done: self._drop_failed(principal.grants, done))
        self._kept.move_to_end(principal.grants)
        return await asyncio.shield(task)  # who goes away leaves the work to the others who wait for it

    def _drop_failed(self, grants: frozenset[str], task: asyncio.Task[Audience]) -> None:
        """Forget an audience that could not be made: the next request tries again."""
        if has_failed(task) and self._kept.get(grants) is task:
            del self._kept[grants]


def make_audience(revision: Revision, principal: Principal, base_url: str) -> Audience:
    """Return what ``principal`` may know of and may use in ``revision``.

    What everybody may is known; only the guarded skills are judged, so ten thousand public ones cost no time.
    """
    everybody, guarded = revision.everybody, revision.guarded
    visible = revision.everything.only({*everybody.visible.skills, *guarded.visible_to(principal).skills})
    usable = revision.everything.only({*everybody.usable.skills, *guarded.usable_by(principal).skills})
    return Audience(
        visible,
        usable,
        Site(usable, base_url, below=everybody.site),
        Site(guarded.visible_to(principal).without(usable)),
    )
