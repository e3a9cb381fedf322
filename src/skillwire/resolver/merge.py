"""What a place publishes by both protocols, each skill once.

Where Skill Sharing and Agent Skills Discovery of one origin list the same skill, the two are one: the latter gives the
bytes and their digest, the former says what it is for and how it is called. They are the same when the id, or the part
of it behind its slash, is the name, no other id says so, too, and the versions do not differ. The rule is ours: no text
has one.

Agent Skills Discovery comes first everywhere, and is asked alone where its answer suffices: installing costs no request
and no import more than it would without this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.codes import CODES
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.resolver.context import is_not_found
from skillwire.resolver.references import agent_skills_at, sharing_at
from skillwire.resolver.sources import SKILL_SHARING
from skillwire.resolver.sources.agent_skills import AgentSkills
from skillwire.resolver.sources.skill_sharing import FROM_REGISTRY, SkillSharing, read_descriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.ref import SharedFacts, SkillRef
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.resolver.context import ResolveContext
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import Flow


def read_origin(lookup: Lookup, context: ResolveContext, capability_type: str | None = None) -> Flow[list[SkillRef]]:
    """Return what a place publishes by both protocols, each skill once.

    A place of Skill Sharing, or a capability type, narrows it to what that protocol lists. A scope of an origin has no
    index of Skill Sharing of its own, so it is read alone.

    Raises:
        NotFoundError: ``INDEX_NOT_FOUND`` when there is neither.
        FetchError, DecodeError, ValidationError, TrustError: what is wrong with the index that was asked for; with the
            other one it is reported.
    """
    origin = parse_url(lookup.url).origin
    if lookup.source == SKILL_SHARING:
        return (yield from _read_sharing_first(lookup, context, capability_type))
    if lookup.base != origin:
        return (yield from AgentSkills(context).find(lookup, capability_type))
    if capability_type is not None:
        return (yield from _read_sharing_first(sharing_at(origin), context, capability_type))
    missing: SkillwireError | None = None
    listed: list[SkillRef] = []
    try:
        listed = yield from AgentSkills(context).find(lookup)
    except SkillwireError as error:
        if not is_not_found(error, context):
            raise
        missing = error
    try:
        shared = yield from SkillSharing(context).find(sharing_at(origin))
    except SkillwireError as error:
        if missing is not None:
            raise missing if is_not_found(error, context) else error from None
        if not is_not_found(error, context):
            context.note(error)
        return listed
    return merge(listed, shared)


def _read_sharing_first(lookup: Lookup, context: ResolveContext, capability_type: str | None) -> Flow[list[SkillRef]]:
    """Read a place of Skill Sharing, and what gives its skills digests, if there is that."""
    shared = yield from SkillSharing(context).find(lookup, capability_type)
    if not shared or shared[0].found_via == FROM_REGISTRY:
        return shared  # those of a registry are of other origins
    try:
        listed = yield from AgentSkills(context).find(agent_skills_at(parse_url(lookup.url).origin))
    except SkillwireError as error:
        if not is_not_found(error, context):
            context.note(error)
        return shared
    return [skill for skill in merge(listed, shared) if skill.shared is not None]


def merge(listed: Sequence[SkillRef], shared: Sequence[SkillRef]) -> list[SkillRef]:
    """Return the skills of both indexes of one origin, those that are the same as one."""
    by_name: dict[str, list[SkillRef]] = {}
    for skill in shared:
        for name in {skill.name, skill.name.rpartition("/")[2]}:
            by_name.setdefault(name, []).append(skill)
    merged: list[SkillRef] = []
    taken: set[str] = set()
    for skill in listed:
        same = by_name.get(skill.name, ())
        if len(same) == 1 and skill.version in {None, same[0].version}:
            taken.add(same[0].name)
            merged.append(_join(skill, same[0]))
        else:
            merged.append(skill)
    return [*merged, *(skill for skill in shared if skill.name not in taken)]


def _join(skill: SkillRef, shared: SkillRef) -> SkillRef:
    """Return a skill of Agent Skills Discovery with what Skill Sharing says of it."""
    found_via = f"{skill.found_via}, {shared.found_via}"
    return skill._replace(shared=shared.shared, found_via=found_via, requested_by_name=shared.requested_by_name)


def add_facts(skills: Sequence[SkillRef], context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return ``skills`` of one origin with what its index of Skill Sharing says of them, where it has one."""
    if not _may_have_sharing_index(skills[0]) or any(skill.shared for skill in skills):
        return list(skills)
    try:
        shared = yield from SkillSharing(context).find(sharing_at(skills[0].origin))
    except SkillwireError:
        return list(skills)  # the attempt tells it, and the skill was found without
    was_named = {skill.name: skill.requested_by_name for skill in skills}
    merged = [skill for skill in merge(skills, shared) if skill.name in was_named]
    return [skill._replace(requested_by_name=was_named[skill.name]) for skill in merged]


def _may_have_sharing_index(skill: SkillRef) -> bool:
    """Whether an index of Skill Sharing may list it: that is one for a whole origin."""
    is_of_index = not skill.is_local and skill.rpc is None
    return is_of_index and skill.origin == parse_url(skill.origin).origin


def _facts(skill: SkillRef, context: ResolveContext) -> Flow[SharedFacts | None]:
    """Return what the index of Skill Sharing says of a skill of the other one."""
    shared = yield from SkillSharing(context).find(sharing_at(skill.origin))
    return merge([skill], shared)[0].shared


def describe(skill: SkillRef, context: ResolveContext) -> Flow[SkillDescriptor]:
    """Fetch the descriptor of a skill; where its index of Skill Sharing was not read yet, that comes first.

    Raises:
        NotFoundError: ``SKILL_NOT_FOUND`` when there is none, ``INDEX_NOT_FOUND`` when there is no such index.
        FetchError, DecodeError, ValidationError: it cannot be had, or must not be used.
    """
    facts = skill.shared
    if facts is None and _may_have_sharing_index(skill):
        facts = yield from _facts(skill, context)
        if facts is None and not (context.refresh or context.offline):
            # What a fresh cache does not know may have been published a moment ago.
            facts = yield from _facts(skill, context._replace(refresh=True))
    if skill.rpc is not None:
        message, fix = (
            f"{skill.name} has a manifest, and no descriptor of Skill Sharing",
            "skillwire show shows it.",
        )
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(skill.origin), fix=fix)
    if facts is None:
        message = f"no descriptor of {skill.name} is published"
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(skill.origin))
    descriptor, url = yield from read_descriptor(facts.descriptor_url, facts.id, context)
    said = {"version": skill.version, "capability_type": facts.capability_type, "access": facts.access}
    for field, value in said.items():
        found = str(getattr(descriptor, field))
        if value is not None and value != found:
            message = f"{field} is {value} in the index and {found} in the descriptor"
            fix = CODES["INDEX_DIFFERS"].fix
            context.report(Finding("INDEX_DIFFERS", "warning", message, SourceLocation(f"{url}#/{field}"), fix))
    return descriptor
