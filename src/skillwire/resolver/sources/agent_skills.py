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
from skillwire.resolver.lockfile import did_you_mean
from skillwire.wire.exchange import work

if TYPE_CHECKING:
    from skillwire.protocols.agent_skills.messages import Index
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import Flow


class AgentSkills:
    """The source of Agent Skills Discovery."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context

    def find(self, lookup: Lookup, capability_type: str | None = None) -> Flow[list[SkillRef]]:
        """Return all skills of an index, which knows no capability types.

        Raises NotFoundError (``INDEX_NOT_FOUND``), TrustError (``DOWNGRADE``).
        """
        skills = yield from self._read(lookup)
        return [] if capability_type is not None else list(skills.values())

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the named skill of an index, or all; ``SKILL_NOT_FOUND`` has similar names."""
        skills = yield from self._read(lookup)
        if lookup.name is None and skills:
            return [skill._replace(requested_by_name=False) for skill in skills.values()]
        if lookup.name is None:
            raise NotFoundError("SKILL_NOT_FOUND", f"{lookup.base} publishes no skills yet")
        if (found := skills.get(lookup.name)) is None:
            fix = did_you_mean(lookup.name, skills)
            raise NotFoundError("SKILL_NOT_FOUND", f"{lookup.base}/{lookup.name} is not published there", fix=fix)
        return [found]

    def _read(self, lookup: Lookup) -> Flow[dict[str, SkillRef]]:
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
            return {
                entry.name: SkillRef(
                    name=entry.name,
                    origin=lookup.base,
                    description=entry.description,
                    version=entry.version,
                    digest=entry.digest,
                    found_via=f"agent-skills {index.generation}",
                    fetched_at=document.fetched_at,
                    capabilities=entry.capabilities,
                    scenes=entry.scenes,
                    requires=entry.requires,
                    artifact_type=entry.artifact_type,
                    url=entry.url,
                    index_url=url,
                    indexed_files=entry.files,
                )
                for entry in index.entries.values()
            }
        if context.offline:
            raise not_in_cache(lookup.url)
        raise NotFoundError("INDEX_NOT_FOUND", "no skill index is published there", place=SourceLocation(lookup.url))


def _check_generation(base: str, index: Index, url: str, context: ResolveContext) -> None:
    """Remember the generation of an index; raise ``DOWNGRADE`` without digests where there were some before."""
    record = context.origins.look_up(base)
    current = Generation.V0_2_0.value
    if record is not None and record.generation == current and index.generation != current:
        message = f"{base} has published digests before and does not now"
        raise TrustError("DOWNGRADE", message, place=SourceLocation(url))
    if record is None or record.generation != index.generation:
        known = record or OriginRecord(first_seen=timestamp(context.clock()))
        context.origins.record(base, known._replace(generation=index.generation.value))
