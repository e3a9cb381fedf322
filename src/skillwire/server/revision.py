"""A revision of what is served, made and swapped in as a whole, its indexes, and what a caller may see and use of it.

A request is answered from one revision to its end, so no response mixes two states. Artifacts of earlier revisions
stay reachable by digest for a while, for clients that hold an older index. Every response starts from an
:class:`AccessView`. Work that several requests wait for is done once, in a task that outlives each of them.

Indexes of scopes may be as many as there are skills, so they are made on request, and kept within a bound while their
revision is the current one.

To encode and compress the two indexes of 50,000 skills takes 1.5 s, and most changes are of one skill. So the skills,
sorted by name, are cut into parts of some hundred, and only the parts that have changed are encoded and compressed
again. gzip allows that: after a full flush a stream refers to nothing before it, so streams of parts that follow one
another are one stream. Its checksum comes from those of the parts. Brotli has no such parts, so a client that accepts
both codings gets gzip, which takes a tenth more bytes. The names alone decide where a part begins. So servers with
equal skills send equal bytes with equal tags.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from skillwire import limits
from skillwire.model.catalog import Catalog
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.agent_skills.server import (
    INDEX_END,
    INDEX_HEAD,
    INDEX_PATH,
    OLD_INDEX_HEAD,
    OLD_INDEX_PATH,
    CachePolicy,
    IndexResponse,
    Site,
    VersionsResponse,
)
from skillwire.server.responses import ByteCache, CachedResponse, GzipBody

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from skillwire.folder.publish import InvalidFolder
    from skillwire.model.access import Principal
    from skillwire.model.catalog import PackedSkills, SkillChanges, SkillSets
    from skillwire.model.skill import Artifact
    from skillwire.ports import SkillSearch
    from skillwire.protocols.agent_skills.server import Representation
    from skillwire.server.search import SearchAnswers


#: So few skills are encoded faster than a thread is woken.
_FEW: Final = 8
#: What one that is kept takes beside its bytes: header fields, tags, tables.
_OVERHEAD: Final = 6 * limits.KIB
#: What every client of every skill asks for.
_PREPARED: Final = (INDEX_PATH, OLD_INDEX_PATH)
#: The indexes of so many skills are made in parts. Those of fewer are soon made whole, and then compressed with Brotli.
_MANY: Final = 20_000
#: Skills of a part, on average: changing one takes 10 ms.
_PART: Final = 512
#: 25 MB take 0.3 s at 4, and 0.9 s at 6 for a twentieth less bytes.
_LEVEL: Final = 4
_GZIP_HEAD: Final = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # without a name and a time, of no system
_GZIP_END: Final = b"\x03\0"  # an empty block, the last one
_POLYNOMIAL: Final = 0xEDB88320
_ONE: Final = 1 << 31  # the polynomial 1 as a checksum has it: the first bit is the last one
_X8: Final = 1 << 23


class Block(NamedTuple):
    """Text that is compressed by itself, with its size, its checksum, and the factor of a checksum before it."""

    compressed: bytes | memoryview
    size: int
    checksum: int
    factor: int
    digest: bytes


class IndexPart(NamedTuple):
    """Some skills in packed form, and their entries in the indexes of both generations."""

    packed: Sequence[bytes]
    blocks: tuple[Block, ...]


def make_index_parts(
    skills: PackedSkills, site: Site, before: Iterable[IndexPart]
) -> tuple[dict[str, CachedResponse], list[IndexPart]]:
    """Return the indexes of ``site``, which has ``skills``, and their parts, those ``before`` where nothing changed."""
    names = site.names
    checksums = map(zlib.crc32, map(str.encode, names))
    starts = [place for place, checksum in enumerate(checksums) if place and checksum % _PART == 0]
    known = {part.packed[0]: part for part in before}
    parts = []
    for start, stop in pairwise([0, *starts, len(names)]):
        packed = list(map(skills.packed, names[start:stop]))
        part = known.get(packed[0])
        if part is None or part.packed != packed:
            part = IndexPart(packed, tuple(map(_compress, site.encode_part(names[start:stop]))))
        parts.append(part)
    new, blocks = _join(INDEX_HEAD, [part.blocks[0] for part in parts])
    old, old_blocks = _join(OLD_INDEX_HEAD, [part.blocks[1] for part in parts])
    kept = [part._replace(blocks=both) for part, both in zip(parts, zip(blocks, old_blocks, strict=True), strict=True)]
    return {INDEX_PATH: new, OLD_INDEX_PATH: old}, kept


def _compress(text: bytes) -> Block:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    compressed = compressor.compress(text) + compressor.flush(zlib.Z_FULL_FLUSH)
    return Block(compressed, len(text), zlib.crc32(text), _shift(len(text)), hashlib.sha256(text).digest())


def _join(head: bytes, blocks: Sequence[Block]) -> tuple[CachedResponse, list[Block]]:
    """Return an index, and its blocks as parts of its bytes, so that these are in memory once."""
    comma = _compress(b",")
    joined, places, has_entries = [_compress(head)], [], False
    for block in blocks:
        if block.size and has_entries:  # a part may have no skill that the old generation can list
            joined.append(comma)
        has_entries |= block.size > 0
        places.append(len(joined))
        joined.append(block)
    joined.append(_compress(INDEX_END))
    size = checksum = 0
    for block in joined:
        size += block.size
        checksum = _multiply(block.factor, checksum) ^ block.checksum
    end = checksum.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")
    body = b"".join([_GZIP_HEAD, *(block.compressed for block in joined), _GZIP_END, end])
    digest = hashlib.sha256(b"".join(block.digest for block in joined)).hexdigest()
    view, ends = memoryview(body), [len(_GZIP_HEAD)]
    for block in joined:
        ends.append(ends[-1] + len(block.compressed))
    within = [joined[place]._replace(compressed=view[ends[place] : ends[place + 1]]) for place in places]
    return CachedResponse(GzipBody(body, size, digest), JSON, CachePolicy.BRIEF), within


def _shift(size: int) -> int:
    """Return what the checksum of a text is multiplied by when so many bytes follow: x to the power of their bits."""
    found, power = _ONE, _X8
    while size:
        if size % 2:
            found = _multiply(power, found)
        power, size = _multiply(power, power), size // 2
    return found


def _multiply(first: int, second: int) -> int:
    """Return the product of two polynomials, modulo that of the checksum."""
    product = 0
    while first:
        if first & _ONE:
            product ^= second
        first = first << 1 & (2**32 - 1)
        second = second >> 1 ^ (_POLYNOMIAL if second & 1 else 0)
    return product


@dataclass(frozen=True, slots=True)
class SiteUrlBody:
    """A document of ``skills`` that is encoded on request, and kept as the indexes of sites are."""

    skills: Collection[str]
    encode: Callable[[], bytes]
    cache: CachePolicy
    media_type: str = JSON


#: A document that is encoded on request; the number of its ``skills`` says how long that takes.
Encodable: TypeAlias = IndexResponse | VersionsResponse | SiteUrlBody


SharedIndexes: TypeAlias = ByteCache[tuple["IndexCache", str], CachedResponse]


class IndexCache:
    """The indexes of one view that were requested so far. Large ones are made off the event loop, one at a time.

    ``kept`` holds those of several views, within one bound.
    """

    def __init__(self, kept: SharedIndexes | None = None) -> None:
        self._kept = SharedIndexes(limits.SERVER_LISTING_CACHE_BYTES) if kept is None else kept
        self._making: dict[str, asyncio.Task[CachedResponse]] = {}
        self._turn = asyncio.Lock()

    def get(self, path: str) -> CachedResponse | None:
        """Return the answer at ``path``, if it is made already."""
        return self._kept.get((self, path))

    def has(self, path: str) -> bool:
        """Whether the answer at ``path`` is made already, or is being made."""
        return path in self._making or self._kept.get((self, path)) is not None

    async def prepare(self, path: str, listing: Encodable) -> CachedResponse:
        """Return the index at ``path``, encoded and compressed."""
        if (kept := self._kept.get((self, path))) is not None:
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
        self._kept.put((self, path), prepared, prepared.size + _OVERHEAD)
        return prepared


def prepare(listing: Encodable) -> CachedResponse:
    """Return ``listing``, encoded and compressed."""
    return CachedResponse(listing.encode(), listing.media_type, listing.cache)


def make_indexes(
    skills: PackedSkills, site: Site, before: Sequence[IndexPart]
) -> tuple[dict[str, CachedResponse], Sequence[IndexPart]]:
    """Return the indexes of a whole site, encoded and compressed, and their parts where it has many skills."""
    if len(skills) >= _MANY:
        return make_index_parts(skills, site, before)
    found = {path: site.lookup(path) for path in _PREPARED}
    return {path: prepare(index) for path, index in found.items() if isinstance(index, IndexResponse)}, ()


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
            task.add_done_callback(has_failed)  # retrieves the error, which the loop would log if no caller waits
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
    broken: Iterable[InvalidFolder],
    before: Revision | None,
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
