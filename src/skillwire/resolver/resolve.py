"""From a reference to the skills that are meant: each source is asked in the order of the reference's lookups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import FetchError, NotFoundError, SkillwireError, UsageError
from skillwire.resolver.context import is_not_found
from skillwire.resolver.references import parse_source, sharing_at
from skillwire.resolver.sources import AGENT_SKILLS, SKILL_SHARING, SKILLS_RPC, open_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.ref import SkillRef
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.references import Reference
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import Flow

#: Errors by which an address that only may be an endpoint shows that it is none.
_NO_ENDPOINT: Final = frozenset({"HTTP_STATUS", "CONTENT_TYPE", "RPC_ANSWER", "RPC_METHOD", "JSON_SYNTAX"})


def resolve(reference: Reference, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Find what ``reference`` means, which is not a local folder: one skill, or all of an index.

    Raises:
        NotFoundError: ``SKILL_NOT_FOUND``, with names that look alike; ``INDEX_NOT_FOUND``.
        UsageError: ``NO_SOURCES`` for a bare name when there are none.
    """
    lookups: Sequence[Lookup] = reference.lookups
    if reference.name is not None:
        if not context.sources:
            raise UsageError("NO_SOURCES", f"{reference.name} is a bare name, and no sources are configured")
        lookups = [parse_source(source)._replace(name=reference.name) for source in context.sources]
    try:
        return (yield from _resolve_in_order(lookups, reference, context))
    except SkillwireError as error:
        if not is_not_found(error, context):
            raise
        missing = error
    is_cached = any(lookup.source != SKILLS_RPC for lookup in lookups)
    if is_cached and missing.code == "SKILL_NOT_FOUND" and not (context.refresh or context.offline):
        # What a fresh cache does not know may have been published a moment ago: ask before saying that it is not there.
        context = context._replace(refresh=True)
        try:
            return (yield from _resolve_in_order(lookups, reference, context))
        except NotFoundError as error:
            missing = error
    fallback: Sequence[Lookup] = reference.fallback
    if reference.name is not None:
        fallback = [sharing_at(one.url, reference.name) for one in lookups if one.source == AGENT_SKILLS]
    found = yield from _resolve_by_fallback(fallback, context, missing)
    if not found:
        raise missing
    return found


def _resolve_in_order(lookups: Sequence[Lookup], reference: Reference, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return what the first source gives that has the skill; an index that lacks it weighs more than one that fails."""
    failure: SkillwireError | None = None
    missing: NotFoundError | None = None
    for lookup in lookups:
        try:
            if lookup.source == SKILL_SHARING:
                from skillwire.resolver.merge import read_origin  # noqa: PLC0415  # only where that protocol is spoken
                from skillwire.resolver.sources.skill_sharing import select_by_name  # noqa: PLC0415  # same

                found = yield from read_origin(lookup, context)
                found = found if lookup.name is None else select_by_name(lookup.name, found)
            else:
                found = yield from open_source(lookup.source, context).resolve(lookup)
        except (NotFoundError, FetchError) as error:
            failure = failure or error
            if error.code == "SKILL_NOT_FOUND" and lookup.source == AGENT_SKILLS and not (missing and missing.fix):
                missing = NotFoundError(error.code, error.message, fix=error.fix)
            continue
        if found:
            return found
    if failure is not None and missing is None:
        raise failure
    if not any(lookup.name for lookup in lookups):
        raise NotFoundError("SKILL_NOT_FOUND", f"{reference.text} publishes no skills yet")
    fix = missing.fix if missing else None
    raise NotFoundError("SKILL_NOT_FOUND", f"{reference.text} is not published there", fix=fix)


def _resolve_by_fallback(
    lookups: Sequence[Lookup], context: ResolveContext, missing: SkillwireError
) -> Flow[list[SkillRef]]:
    """Look for what Agent Skills Discovery does not have in the other protocols; an empty list when none has it.

    Where no index was found at all, what is wrong with that of Skill Sharing is the error.
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
    """Return all skills of a place; what an origin publishes by two protocols comes once."""
    if lookup.source in {AGENT_SKILLS, SKILL_SHARING}:
        from skillwire.resolver.merge import read_origin  # noqa: PLC0415  # installing does without

        return read_origin(lookup, context, capability_type)
    return open_source(lookup.source, context).find(lookup, capability_type)
