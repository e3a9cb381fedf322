"""A revision of what is served, made and swapped in as a whole, and what a caller may see and use of it.

A request is answered from one revision to its end, so no response mixes two states. Artifacts of earlier revisions
stay reachable by digest for a while, for clients that hold an older index. Every response starts from an
:class:`AccessView`.

Work that several requests wait for is done once, in a task that outlives each of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from skillwire import limits
from skillwire.model.catalog import Catalog
from skillwire.protocols.agent_skills.server import (
    CachePolicy,
    Site,
)
from skillwire.server.indexes import IndexCache, SharedIndexes, make_indexes
from skillwire.server.responses import CachedResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from skillwire.folder.publish import InvalidFolder
    from skillwire.model.access import Principal
    from skillwire.model.catalog import SkillChanges, SkillSets
    from skillwire.model.skill import Artifact
    from skillwire.ports import SkillSearch
    from skillwire.protocols.agent_skills.server import Representation
    from skillwire.server.indexes import IndexPart
    from skillwire.server.search import SearchAnswers


K = TypeVar("K")
V = TypeVar("V")


def has_failed(work: asyncio.Future[Any]) -> bool:
    """Whether work has ended without a result: the next request starts it again."""
    return work.done() and (work.cancelled() or work.exception() is not None)


class SharedWork(Generic[K, V]):
    """Results by key, at most ``most`` of them, each made by a task that all who want it share."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: OrderedDict[K, asyncio.Task[V]] = OrderedDict()

    async def get(self, key: K, make: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the result for ``key``, which ``make`` makes at first, and again after a failure."""
        task = self._tasks.get(key)
        if task is None or has_failed(task):
            task = self._tasks[key] = asyncio.create_task(make())
            task.add_done_callback(has_failed)  # a failure that nobody waits for is no error of the loop
            if len(self._tasks) > self._most:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(key)
        return task.result() if task.done() else await asyncio.shield(task)  # it outlives a request that is cancelled

    def clear(self) -> None:
        """Forget all."""
        self._tasks.clear()


@dataclass(frozen=True, slots=True)
class AccessView:
    """What a principal may know of and may use; ``forbidden`` is the site of skills that it may know of and not use.

    ``listed`` and ``listed_usable`` hold the namespaced packages, too: those that are not at the root, because another
    skill has their name. Lists and searches of packages have them as ``namespace/name``.
    """

    visible: Catalog
    usable: Catalog
    site: Site
    forbidden: Site
    listed: Catalog
    listed_usable: Catalog
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


class Superseded(NamedTuple):
    """A replaced artifact: its skill, when it was replaced (monotonic seconds), and whether everyone might use it."""

    publisher: str
    name: str
    since: float
    was_public: bool


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Revision:
    """A revision: its prepared responses and its public view; ``guarded`` is everything that is not public.

    ``index_parts`` are those of the prepared indexes, for the next revision.
    """

    number: int
    skills: int
    prepared: Mapping[str, CachedResponse]
    answers: SearchAnswers
    everything: Catalog
    guarded: Catalog
    public_view: AccessView
    listed: Catalog
    listed_guarded: Catalog
    index_parts: Sequence[IndexPart] = ()
    broken: tuple[InvalidFolder, ...] = ()
    superseded: Mapping[Artifact, Superseded] = field(default_factory=dict)

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
    number: int,
    public_number: int,
    skills: SkillSets,
    listed: SkillSets,
    make_answers: Callable[[], SearchAnswers],
    *,
    changes: SkillChanges,
    base_url: str,
    superseded: Mapping[Artifact, Superseded],
    broken: Iterable[InvalidFolder] = (),
    before: Revision | None = None,
) -> Revision:
    """Return the revision that serves ``skills`` after the one ``before``.

    ``listed`` are the skills of lists and searches. ``changes`` are those of the skills that everyone may use, and
    ``public_number`` is the number of the revision for callers without credentials.
    """
    everything = Catalog(number, skills.everything)
    known, public = (Catalog(public_number, some) for some in skills[1:])
    open_before = [artifact for artifact, one in superseded.items() if one.was_public and one.name in public.skills]
    site = before.site.followed_by(public, changes, open_before) if before else Site(public, base_url, open_before)
    forbidden = Site(known.without(public))
    every, listed_known, listed_usable = (Catalog(public.revision, skills) for skills in listed)
    view = AccessView(known, public, site, forbidden, listed_known, listed_usable, is_public=True)
    parts = before.index_parts if before else ()
    with ThreadPoolExecutor(1) as another:  # compressing and indexing leave the interpreter to each other
        preparing = another.submit(make_indexes, skills.usable, site, parts)
        answers = make_answers()
        indexes, parts = preparing.result()
    return Revision(
        everything.revision,
        len(public.skills),
        indexes,
        answers,
        everything,
        everything.without(public),
        view,
        every,
        every.without(listed_usable),
        parts,
        tuple(broken),
        superseded,
    )


#: Views of principals that are kept.
_KEPT_VIEWS: Final = 32


class AccessViews:
    """The views of principals in the current revision; used by one event loop."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._number = 0
        self._views: SharedWork[frozenset[str], AccessView] = SharedWork(_KEPT_VIEWS)
        self._indexes = SharedIndexes(limits.SERVER_PRINCIPAL_INDEXES_BYTES)

    async def of(self, principal: Principal | None, revision: Revision) -> AccessView:
        """Return the view of ``principal`` in ``revision``; the public view for None."""
        if principal is None or not principal.grants:
            return revision.public_view
        if revision.number != self._number:
            self._number = revision.number
            self._views.clear()
            self._indexes = SharedIndexes(limits.SERVER_PRINCIPAL_INDEXES_BYTES)
        view = partial(asyncio.to_thread, make_access_view, revision, principal, self._base_url, self._indexes)
        return await self._views.get(principal.grants, view)


def make_access_view(
    revision: Revision, principal: Principal, base_url: str, indexes: SharedIndexes | None = None
) -> AccessView:
    """Return what ``principal`` may know of and use; only guarded skills are judged, so public ones cost no time."""
    public, guarded = revision.public_view, revision.guarded
    visible = _joined(revision.everything, public.visible, guarded.visible_to(principal))
    usable = _joined(revision.everything, public.usable, guarded.usable_by(principal))
    listed, listed_usable = visible, usable
    if len(revision.listed.skills) > len(revision.everything.skills):
        others = revision.listed_guarded
        listed = _joined(revision.listed, public.listed, others.visible_to(principal))
        listed_usable = _joined(revision.listed, public.listed_usable, others.usable_by(principal))
    before = [artifact for artifact, one in revision.superseded.items() if principal.has(one.name, one.publisher)]
    return AccessView(
        visible,
        usable,
        Site(usable, base_url, before, below=public.site),
        Site(guarded.visible_to(principal).without(usable)),
        listed,
        listed_usable,
        indexes=IndexCache(indexes),
    )


def _joined(whole: Catalog, public: Catalog, more: Catalog) -> Catalog:
    """Return the skills of ``whole`` that are in one of the others; without ``more``, which is usual, at once."""
    return whole.only({*public.skills, *more.skills}) if more.skills else replace(whole, skills=public.skills)
