"""Skills of Agent Skills Discovery: the index of a place.

The 0.2.0 path is tried first, then the old one; an origin that has given digests once may not go back to an index
without them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, TrustError
from skillwire.model.install import OriginRecord
from skillwire.model.ref import SkillRef
from skillwire.protocols.agent_skills.client import fetch_index
from skillwire.protocols.agent_skills.codec import decode_index
from skillwire.protocols.agent_skills.messages import Generation
from skillwire.resolver.context import Attempt, not_in_cache, read_document, timestamp
from skillwire.wire.exchange import work

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.protocols.agent_skills.messages import Index, IndexEntry
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import Flow


class AgentSkills:
    """The source of Agent Skills Discovery."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context

    def find(self, lookup: Lookup, capability_type: str | None = None) -> Flow[list[SkillRef]]:
        """Return all skills of an index, which knows no capability types.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``.
            TrustError: ``DOWNGRADE``.
            FetchError, DecodeError, ValidationError: from the network and the codec.
        """
        index, url, fetched_at = yield from self._read(lookup)
        if capability_type is not None:
            return []
        return [_skill(entry, index, lookup, url, fetched_at) for entry in index.entries.values()]

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the named skill of an index, or all; raise what :meth:`find` does.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``, with names that look alike.
        """
        index, url, fetched_at = yield from self._read(lookup)
        if lookup.name is None and index.entries:
            found = [_skill(entry, index, lookup, url, fetched_at) for entry in index.entries.values()]
            return [skill._replace(requested_by_name=False) for skill in found]
        if lookup.name is None:
            raise NotFoundError("SKILL_NOT_FOUND", f"{lookup.base} publishes no skills yet")
        if (entry := index.entries.get(lookup.name)) is None:
            fix = _look_alike(lookup.name, index.entries)
            raise NotFoundError("SKILL_NOT_FOUND", f"{lookup.base}/{lookup.name} is not published there", fix=fix)
        return [_skill(entry, index, lookup, url, fetched_at)]

    def _read(self, lookup: Lookup) -> Flow[tuple[Index, str, float]]:
        """Return the index, the URL that answered, and when, in seconds since the epoch."""
        context = self._context
        for url in (lookup.url, lookup.old_url):
            if url is None:
                continue
            attempt = Attempt(url, context.credential_for(url) is not None)
            try:
                document, answered_by = yield from read_document(url, context, partial(fetch_index, url), last=False)
                if document is None:
                    context.trace(attempt._replace(error=not_in_cache(url)) if context.offline else attempt)
                    continue
                index = decode_index(document.body, document.base_url)
                yield from work(partial(_check_generation, lookup.base, index, url, context))
            except SkillwireError as error:
                context.trace_failure(attempt, error)
                raise
            answered = attempt.answered(document, answered_by, context)
            context.trace(answered._replace(generation=index.generation.value, entries=len(index.entries)))
            for finding in index.findings:
                context.report(finding)
            return index, url, document.fetched_at
        if context.offline:
            raise not_in_cache(lookup.url)
        raise NotFoundError("INDEX_NOT_FOUND", "no skill index is published there", place=SourceLocation(lookup.url))


def _skill(entry: IndexEntry, index: Index, lookup: Lookup, url: str, fetched_at: float) -> SkillRef:
    return SkillRef(
        name=entry.name,
        origin=lookup.base,
        description=entry.description,
        version=entry.version,
        digest=entry.digest,
        found_via=f"agent-skills {index.generation}",
        fetched_at=fetched_at,
        capabilities=entry.capabilities,
        scenes=entry.scenes,
        artifact_type=entry.artifact_type,
        url=entry.url,
        index_url=url,
        indexed_files=entry.files,
    )


def _check_generation(base: str, index: Index, url: str, context: ResolveContext) -> None:
    """Refuse an index without digests where there were some before; remember the generation otherwise.

    Raises:
        TrustError: ``DOWNGRADE``.
    """
    record = context.origins.look_up(base)
    current = Generation.V0_2_0.value
    if record is not None and record.generation == current and index.generation != current:
        message = f"{base} has published digests before and does not now"
        raise TrustError("DOWNGRADE", message, place=SourceLocation(url))
    if record is None or record.generation != index.generation:
        known = record or OriginRecord(first_seen=timestamp(context.clock()))
        context.origins.record(base, known._replace(generation=index.generation.value))


def _look_alike(name: str, names: Iterable[str]) -> str | None:
    import difflib  # noqa: PLC0415  # only an error needs it

    close = difflib.get_close_matches(name, names, n=3)
    return f"Did you mean {' or '.join(close)}?" if close else None
