"""From a reference to the index entry that is meant.

The index of a place is read through the cache: a fresh answer is used as it is, a stale one is asked about
with its validators, and with ``offline`` any is used. The 0.2.0 path is tried first, then the old one; an
origin that has given digests once may not go back to an index without them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import FetchError, NotFoundError, SkillwireError, SourceLocation, TrustError, UsageError
from skillwire.model.install import OriginRecord
from skillwire.model.ref import SkillRef
from skillwire.model.skill import FileContent
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import fetch_index
from skillwire.protocols.agent_skills.codec import decode_index
from skillwire.protocols.agent_skills.messages import Generation
from skillwire.resolver.documents import as_finding, is_not_found, lifetime, not_in_cache, read_document
from skillwire.resolver.references import AGENT_SKILLS, SKILL_SHARING, SKILLS_RPC, sharing_location, source_location
from skillwire.wire.exchange import work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.model.install import CachedResponse
    from skillwire.model.skill import Finding
    from skillwire.ports import BlobStore, OriginBook, ResponseCache
    from skillwire.protocols.agent_skills.messages import Index, IndexEntry
    from skillwire.protocols.skills_rpc.messages import DescribedSkill
    from skillwire.resolver.documents import AnsweredBy
    from skillwire.resolver.references import IndexLocation, Reference
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Flow


#: What tells that an address, which nobody has called one, is that of no endpoint.
_NO_ENDPOINT: Final = frozenset({"HTTP_STATUS", "CONTENT_TYPE", "RPC_ANSWER", "RPC_METHOD", "JSON_SYNTAX"})
#: The files of a skill, with their bytes.
Files = tuple[FileContent, ...]


class Attempt(NamedTuple):
    """One URL at which an index was looked for, and what came of it.

    Args:
        answered_by: ``cache`` (used as it was kept), ``revalidation`` (asked, and what was kept still holds),
            ``origin`` (fetched); None when there was no answer.
        age: of the answer, in seconds, since the origin gave or confirmed it.
        fresh_for: seconds for which the cache answers in its place; 0 when it is asked each time.
        generation: of the index, ``skill-sharing`` for one of that protocol, ``skills-rpc`` for an endpoint; None when
            there is none at this URL.
        entries: how many skills it lists.
        error: why this URL gave nothing, unless it said that nothing is there.
    """

    url: str
    has_credential: bool = False
    answered_by: AnsweredBy | None = None
    age: float = 0.0
    fresh_for: float = 0.0
    generation: str | None = None
    entries: int = 0
    error: SkillwireError | None = None

    def answered(self, document: CachedResponse, answered_by: AnsweredBy | None, context: ResolveContext) -> Attempt:
        """Return this attempt with the answer that came."""
        age = max(context.clock() - document.fetched_at, 0.0)
        fresh_for = max(lifetime(document.headers) - age, 0.0)
        return self._replace(answered_by=answered_by, age=age, fresh_for=fresh_for)


class ResolveContext(NamedTuple):
    """What a flow works with.

    Args:
        credentials: origin → value of ``Authorization``; each is sent to its origin only.
        offline: use what the cache holds, however old, and nothing else.
        refresh: ask even when the cache holds a fresh answer.
        clock: seconds since the epoch.
        report: told of everything that was skipped or is doubtful.
        trace: told of every URL at which an index was looked for, in order.
        addresses: returns where what an index names may lie; None for the places that go with the index itself.
        explain: completes an error of an origin that refuses access with the credential that it was sent.
    """

    cache: ResponseCache
    blobs: BlobStore
    origins: OriginBook
    credentials: Mapping[str, str]
    clock: Callable[[], float]
    report: Callable[[Finding], object]
    sources: tuple[str, ...] = ()
    offline: bool = False
    refresh: bool = False
    trace: Callable[[Attempt], object] = lambda _: None
    addresses: Callable[[], AddressPolicy | None] = lambda: None
    explain: Callable[[SkillwireError], object] = lambda _: None

    def note(self, error: SkillwireError) -> None:
        """Report an error that stops nothing."""
        self.explain(error)
        self.report(as_finding(error))

    def trace_failure(self, attempt: Attempt, error: SkillwireError) -> None:
        """Trace an attempt that ended with an error."""
        self.explain(error)
        self.trace(attempt._replace(error=error))

    def credential_for(self, url: str) -> str | None:
        """Return the credential for the origin of ``url``."""
        return self.credentials.get(parse_url(url).origin) if self.credentials else None


class ReadIndex(NamedTuple):
    """An index that was read: where it is, which URL answered, and when (seconds since the epoch)."""

    location: IndexLocation
    url: str
    index: Index  # type: ignore[assignment]  # a tuple has a method of this name, which nobody calls here
    fetched_at: float

    def locate(self, entry: IndexEntry, *, was_named: bool = True) -> ResolvedSkill:
        """Return ``entry`` as a located skill."""
        ref = SkillRef(
            name=entry.name,
            origin=self.location.base,
            description=entry.description,
            version=entry.version,
            digest=entry.digest,
            found_via=f"agent-skills {self.index.generation}",
            fetched_at=self.fetched_at,
            capabilities=entry.capabilities,
            scenes=entry.scenes,
        )
        return ResolvedSkill(ref, entry, self.url, requested_by_name=was_named)


class ResolvedSkill(NamedTuple):
    """A skill and how to get it: the entry of the index at ``index_url``, or files that are at hand.

    A skill that is only described (``ref.is_only_described``) cannot be got; the URL of its entry is then that of its
    descriptor. ``requested_by_name`` is False when it was not asked for by name, but came with the others of its index.
    ``described`` is what an endpoint has said of a skill that was asked for by name.
    """

    ref: SkillRef
    entry: IndexEntry
    index_url: str
    files: Files | None = None
    requested_by_name: bool = True
    described: DescribedSkill | None = None

    @property
    def is_local(self) -> bool:
        """Whether it comes from a folder of this machine: its bytes are at hand."""
        return self.files is not None


def read_index(location: IndexLocation, context: ResolveContext) -> Flow[ReadIndex]:
    """Read the index of a place.

    Raises:
        NotFoundError: ``INDEX_NOT_FOUND``.
        TrustError: ``DOWNGRADE``.
        FetchError, DecodeError, ValidationError: as the network and the codec say.
    """
    urls = [url for url in (location.url, location.old_url) if url is not None]
    for url in urls:
        try:
            found = yield from _read_at(url, location, context)
        except SkillwireError as error:
            context.trace_failure(Attempt(url, context.credential_for(url) is not None), error)
            raise
        if found is not None:
            return found
    if context.offline:
        raise not_in_cache(location.url)
    raise NotFoundError("INDEX_NOT_FOUND", "no skill index is published there", place=SourceLocation(location.url))


def _read_at(url: str, location: IndexLocation, context: ResolveContext) -> Flow[ReadIndex | None]:
    document, answered_by = yield from read_document(url, context, partial(fetch_index, url), last=False)
    attempt = Attempt(url, context.credential_for(url) is not None)
    if document is None:
        context.trace(attempt._replace(error=not_in_cache(url)) if context.offline else attempt)
        return None
    index = decode_index(document.body, document.base_url)
    yield from _remember(location.base, index, url, context)
    context.trace(
        attempt.answered(document, answered_by, context)._replace(
            generation=index.generation.value, entries=len(index.entries)
        )
    )
    for finding in index.findings:
        context.report(finding)
    return ReadIndex(location, url, index, document.fetched_at)


def _remember(base: str, index: Index, url: str, context: ResolveContext) -> Flow[None]:
    record = yield from work(lambda: context.origins.look_up(base))
    current = Generation.V0_2_0.value
    if record is not None and record.generation == current and index.generation != current:
        message = f"{base} has published digests before and does not now"
        raise TrustError("DOWNGRADE", message, place=SourceLocation(url))
    if record is None or record.generation != index.generation:
        known = record or OriginRecord(first_seen=timestamp(context.clock()))
        changed = known._replace(generation=index.generation.value)
        yield from work(lambda: context.origins.record(base, changed))


def resolve(reference: Reference, context: ResolveContext) -> Flow[list[ResolvedSkill]]:
    """Find what ``reference`` means, which is not a local folder: one skill, or all of an index.

    Raises:
        NotFoundError: ``SKILL_NOT_FOUND``, with names that look alike; ``INDEX_NOT_FOUND``.
        UsageError: ``NO_SOURCES`` for a bare name when there are none.
    """
    wanted = [(lookup.location, lookup.name) for lookup in reference.lookups]
    if reference.name is not None:
        if not context.sources:
            raise UsageError("NO_SOURCES", f"{reference.name} is a bare name, and no sources are configured")
        wanted = [(source_location(source), reference.name) for source in context.sources]
    try:
        return (yield from _resolve_in_order(wanted, reference, context))
    except SkillwireError as error:
        if not is_not_found(error, context):
            raise
        missing = error
    is_cached = any(location.protocol != SKILLS_RPC for location, _ in wanted)
    if is_cached and missing.code == "SKILL_NOT_FOUND" and not (context.refresh or context.offline):
        # What a fresh cache does not know may have been published a moment ago: ask before saying that it is not there.
        context = context._replace(refresh=True)
        try:
            return (yield from _resolve_in_order(wanted, reference, context))
        except NotFoundError as error:
            missing = error
    found = yield from _resolve_by_fallback(reference, wanted, context, missing)
    if not found:
        raise missing
    return found


def _resolve_by_fallback(
    reference: Reference,
    wanted: Sequence[tuple[IndexLocation, str | None]],
    context: ResolveContext,
    missing: SkillwireError,
) -> Flow[list[ResolvedSkill]]:
    """Look for what Agent Skills Discovery does not have in the other protocols; an empty list when none has it.

    Where no index was found at all, what is wrong with that of Skill Sharing is the error.
    """
    lookups = [(lookup.location, lookup.name) for lookup in reference.fallback]
    if reference.name is not None:
        others = (location for location, _ in wanted if location.protocol not in {SKILL_SHARING, SKILLS_RPC})
        lookups = [(sharing_location(location.url), reference.name) for location in others]
    for location, name in lookups:
        try:
            is_endpoint = location.protocol == SKILLS_RPC
            found = yield from (_look_in_endpoint if is_endpoint else _look_in_shared)(location, name, context)
        except SkillwireError as error:
            if is_not_found(error, context) or error.code == "CONTENT_TYPE":
                continue  # a page for people is no document
            if is_endpoint and error.code in _NO_ENDPOINT:
                continue
            if missing.code == "INDEX_NOT_FOUND" or isinstance(error, UsageError):
                raise
            context.note(error)
            continue
        if found:
            return found
    return []


def _look_in_shared(location: IndexLocation, name: str | None, context: ResolveContext) -> Flow[list[ResolvedSkill]]:
    from skillwire.resolver.merge import select_by_name  # noqa: PLC0415  # only where that protocol is spoken
    from skillwire.resolver.sources.skill_sharing import read_sharing_index  # noqa: PLC0415  # only where that protocol is spoken

    found = yield from read_sharing_index(location, context)
    return list(found.skills) if name is None else select_by_name(name, found.skills)


def _resolve_in_order(
    wanted: Sequence[tuple[IndexLocation, str | None]], reference: Reference, context: ResolveContext
) -> Flow[list[ResolvedSkill]]:
    failure: SkillwireError | None = None
    seen: list[str] | None = None
    for location, name in wanted:
        try:
            if location.protocol != AGENT_SKILLS:
                look = _look_in_endpoint if location.protocol == SKILLS_RPC else _look_in_pasted
                if others := (yield from look(location, name, context)):
                    return others
                continue
            found = yield from read_index(location, context)
        except (NotFoundError, FetchError) as error:
            failure = failure or error
            continue
        if name is None and found.index.entries:
            return [found.locate(entry, was_named=False) for entry in found.index.entries.values()]
        if name is not None and name in found.index.entries:
            return [found.locate(found.index.entries[name])]
        seen = [*(seen or ()), *found.index.entries]
    if seen is None and failure is not None:
        raise failure
    raise _not_found(reference, [name for _, name in wanted if name], seen or ())


def _look_in_pasted(location: IndexLocation, name: str | None, context: ResolveContext) -> Flow[list[ResolvedSkill]]:
    """Look in a place of Skill Sharing that the user meant, and in the index that gives its skills digests."""
    from skillwire.resolver.merge import read_origin, select_by_name  # noqa: PLC0415  # only where that protocol is spoken

    found = yield from read_origin(location, context)
    return found if name is None else select_by_name(name, found)


def _look_in_endpoint(location: IndexLocation, name: str | None, context: ResolveContext) -> Flow[list[ResolvedSkill]]:
    from skillwire.resolver.sources.skills_rpc import resolve_at_endpoint  # noqa: PLC0415  # only where that protocol is spoken

    return resolve_at_endpoint(location.url, context, name)


def _not_found(reference: Reference, names: Sequence[str], seen: Sequence[str]) -> NotFoundError:
    import difflib  # noqa: PLC0415  # only an error needs it

    if not names:
        return NotFoundError("SKILL_NOT_FOUND", f"{reference.text} publishes no skills yet")
    close = difflib.get_close_matches(names[0], seen, n=3)
    fix = f"Did you mean {' or '.join(close)}?" if close else None
    return NotFoundError("SKILL_NOT_FOUND", f"{reference.text} is not published there", fix=fix)


def timestamp(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
