"""One revision of what is served: everything that depends on the catalog, made together and swapped in together.

A request takes the current revision once and is answered from it to its end, so no answer mixes two states.
Artifacts of the revisions before stay reachable by digest for a while, for clients that hold an older index.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.server import INDEX_PATH, OLD_INDEX_PATH, IndexResponse, Site
from skillwire.server.access import AccessView, has_failed, prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skillwire.folder.publish import InvalidFolder
    from skillwire.model.access import Principal
    from skillwire.model.catalog import Catalog
    from skillwire.model.skill import Artifact
    from skillwire.ports import SkillSearch
    from skillwire.server.responses import CachedResponse
    from skillwire.server.search import SearchAnswers

#: What every client of every skill asks for.
_PREPARED: Final = (INDEX_PATH, OLD_INDEX_PATH)


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision: its prepared responses and its public view; ``guarded`` is everything that is not public."""

    number: int
    skills: int
    prepared: Mapping[str, CachedResponse]
    answers: SearchAnswers
    everything: Catalog
    guarded: Catalog
    public_view: AccessView
    broken: tuple[InvalidFolder, ...] = ()

    @property
    def site(self) -> Site:
        """Everyone's site."""
        return self.public_view.site

    @property
    def catalog(self) -> Catalog:
        """What everyone may use."""
        return self.public_view.usable

    @property
    def search(self) -> SkillSearch:
        """Over the catalog."""
        return self.answers.search


def make_revision(
    everything: Catalog,
    known: Catalog,
    public: Catalog,
    answers: SearchAnswers,
    *,
    base_url: str,
    superseded: Iterable[Artifact] = (),
    broken: Iterable[InvalidFolder] = (),
) -> Revision:
    """Return the revision that serves ``everything``, and without credentials ``public``; takes 0.5 s for 10,000."""
    site = Site(public, base_url, superseded)
    view = AccessView(known, public, site, Site(known.without(public)), is_public=True)
    found = {path: site.lookup(path) for path in _PREPARED}
    prepared = {path: prepare(index) for path, index in found.items() if isinstance(index, IndexResponse)}
    return Revision(
        everything.revision,
        len(public.skills),
        prepared,
        answers,
        everything,
        everything.without(public),
        view,
        tuple(broken),
    )


#: Views of principals that are kept.
_KEPT_VIEWS: Final = 32


class AccessViews:
    """The views of principals in the current revision; used by one event loop."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._number = 0
        self._kept: OrderedDict[frozenset[str], asyncio.Task[AccessView]] = OrderedDict()

    async def of(self, principal: Principal | None, revision: Revision) -> AccessView:
        """Return the view of ``principal`` in ``revision``; the public view for None."""
        if principal is None or not principal.grants:
            return revision.public_view
        if revision.number != self._number:
            self._number = revision.number
            self._kept.clear()
        task = self._kept.get(principal.grants)
        if task is None:
            making = asyncio.to_thread(make_access_view, revision, principal, self._base_url)
            task = self._kept[principal.grants] = asyncio.create_task(making)
            if len(self._kept) > _KEPT_VIEWS:
                self._kept.popitem(last=False)
            task.add_done_callback(partial(self._drop_failed, principal.grants))
        self._kept.move_to_end(principal.grants)
        return await asyncio.shield(task)  # the task outlives a request that is cancelled

    def _drop_failed(self, grants: frozenset[str], task: asyncio.Task[AccessView]) -> None:
        """Forget a view that could not be made: the next request tries again."""
        if has_failed(task) and self._kept.get(grants) is task:
            del self._kept[grants]


def make_access_view(revision: Revision, principal: Principal, base_url: str) -> AccessView:
    """Return what ``principal`` may know of and use; only guarded skills are judged, so public ones cost no time."""
    public, guarded = revision.public_view, revision.guarded
    visible = revision.everything.only({*public.visible.skills, *guarded.visible_to(principal).skills})
    usable = revision.everything.only({*public.usable.skills, *guarded.usable_by(principal).skills})
    return AccessView(
        visible,
        usable,
        Site(usable, base_url, below=public.site),
        Site(guarded.visible_to(principal).without(usable)),
    )
