"""From a reference to the skills that it names, in three phases.

1. The sources of the reference's lookups are asked in order; for a bare name, the configured sources.
2. If only a fresh cache lacks the skill, they are asked again past the cache: it may have been published meanwhile.
3. The reference's fallbacks are asked: the same place in the protocols that come later in the ladder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import FetchError, NotFoundError, SkillwireError, UsageError
from skillwire.resolver.context import is_not_found
from skillwire.resolver.references import parse_source, sharing_at
from skillwire.resolver.sources import AGENT_SKILLS, FOLDER, SKILL_SHARING, SKILLS_RPC, open_source
from skillwire.wire.exchange import limit_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.ref import SkillRef
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.references import Reference
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import Flow

#: Errors of an address that is no endpoint of the Skills Protocol.
_NO_ENDPOINT: Final = frozenset({"HTTP_STATUS", "CONTENT_TYPE", "RPC_ANSWER", "RPC_METHOD", "JSON_SYNTAX"})


def resolve(reference: Reference, context: ResolveContext, *, both: bool = False) -> Flow[list[SkillRef]]:
    """Return the skills that ``reference`` names: one, or all of an index or folder.

    ``both`` adds the facts of Skill Sharing.

    Raises NotFoundError (``SKILL_NOT_FOUND``), with similar names; ``INDEX_NOT_FOUND``; UsageError (``NO_SOURCES``) for
    a bare name without sources.
    """
    found = yield from _ask_in_phases(reference, context)
    if both:
        from skillwire.resolver.rank import add_facts  # noqa: PLC0415  # installing does without

        found = yield from add_facts(found, context)
    return found


def _ask_in_phases(reference: Reference, context: ResolveContext) -> Flow[list[SkillRef]]:
    lookups, fallbacks = reference.lookups, reference.fallback
    if reference.name is not None:
        if not context.sources:
            message = f"{reference.name} is a bare name, and no sources are configured"
            raise UsageError("NO_SOURCES", message, details={"name": reference.name})
        lookups = tuple(parse_source(source)._replace(name=reference.name) for source in context.sources)
        fallbacks = tuple(sharing_at(one.url, reference.name) for one in lookups if one.source == AGENT_SKILLS)
    try:
        return (yield from _ask_in_order(lookups, reference, context))
    except SkillwireError as error:
        if not is_not_found(error, context):
            raise
        missing = error
    may_be_stale = any(lookup.source not in {FOLDER, SKILLS_RPC} for lookup in lookups)
    if may_be_stale and missing.code == "SKILL_NOT_FOUND" and not (context.refresh or context.offline):
        context = context._replace(refresh=True)
        try:
            return (yield from _ask_in_order(lookups, reference, context))
        except NotFoundError as error:
            missing = error
    found = yield from _ask_fallbacks(fallbacks, context, missing)
    if not found:
        raise missing
    return found


def _ask_in_order(lookups: Sequence[Lookup], reference: Reference, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return the answer of the first source that has the skill.

    Without one, the error of an index that lacks the skill comes before that of a source that failed.
    """
    failure: SkillwireError | None = None
    missing: NotFoundError | FetchError | None = None
    for lookup in lookups:
        try:
            if lookup.source == SKILL_SHARING:
                from skillwire.resolver.rank import resolve_shared  # noqa: PLC0415  # installing does without

                flow = resolve_shared(lookup, context)
            else:
                flow = open_source(lookup.source, context).resolve(lookup)
            found = yield from limit_time(flow, limits.HTTP_REQUEST_SECONDS)
        except (NotFoundError, FetchError) as error:
            failure = failure or error
            if error.code == "SKILL_NOT_FOUND" and lookup.source == AGENT_SKILLS and not (missing and missing.fix):
                missing = error
            continue
        if found:
            return found
    if failure is not None and missing is None:
        raise failure
    if not any(lookup.name for lookup in lookups):
        raise NotFoundError("SKILL_NOT_FOUND", f"{reference.text} publishes no skills yet")
    fix = missing.fix if missing else None
    raise NotFoundError("SKILL_NOT_FOUND", f"{reference.text} is not published there", fix=fix)


def _ask_fallbacks(lookups: Sequence[Lookup], context: ResolveContext, missing: SkillwireError) -> Flow[list[SkillRef]]:
    """Return the answer of the first fallback that has the skill; an empty list without one.

    A malformed document is raised if no other index exists, and otherwise reported.
    """
    for lookup in lookups:
        try:
            found = yield from open_source(lookup.source, context).resolve(lookup)
        except SkillwireError as error:
            if is_not_found(error, context) or error.code == "CONTENT_TYPE":
                continue  # a page for people is no document
            if lookup.source == SKILLS_RPC and error.code in _NO_ENDPOINT:
                continue
            if missing.code == "INDEX_NOT_FOUND" or isinstance(error, UsageError):
                raise
            context.note(error)
            continue
        if found:
            return found
    return []


def find_skills(lookup: Lookup, context: ResolveContext, capability_type: str | None = None) -> Flow[list[SkillRef]]:
    """Return all skills of a place, each once, even if the origin publishes it by two protocols."""
    if lookup.source in {AGENT_SKILLS, SKILL_SHARING}:
        from skillwire.resolver.rank import read_origin  # noqa: PLC0415  # installing does without

        return read_origin(lookup, context, capability_type)
    return open_source(lookup.source, context).find(lookup, capability_type)
