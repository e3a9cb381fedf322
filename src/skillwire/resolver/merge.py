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
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, UsageError
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.resolver.documents import is_not_found
from skillwire.resolver.references import SKILL_SHARING, SKILLS_RPC, agent_skills_location, sharing_location
from skillwire.resolver.resolve import read_index
from skillwire.resolver.sources.skill_sharing import read_descriptor, read_sharing_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.model.ref import SharedFacts
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.resolver.references import IndexLocation
    from skillwire.resolver.resolve import ResolveContext, ResolvedSkill
    from skillwire.wire.exchange import Flow


def read_origin(
    location: IndexLocation, context: ResolveContext, capability_type: str | None = None
) -> Flow[list[ResolvedSkill]]:
    """Read what a place publishes by both protocols, each skill once.

    A ``location`` of Skill Sharing, or a capability type, narrows it to what that protocol lists. A scope of an origin
    has no index of Skill Sharing of its own, so it is read alone; so is an endpoint of the Skills Protocol.

    Raises:
        NotFoundError: ``INDEX_NOT_FOUND`` when there is neither.
        FetchError, DecodeError, ValidationError, TrustError: what is wrong with the index that was asked for; with the
            other one it is reported.
    """
    if location.protocol == SKILLS_RPC:
        from skillwire.resolver.sources.skills_rpc import resolve_at_endpoint  # noqa: PLC0415  # only where that protocol is spoken

        return (yield from resolve_at_endpoint(location.url, context)) if capability_type is None else []
    origin = parse_url(location.url).origin
    if location.protocol == SKILL_SHARING:
        return (yield from _read_shared_first(location, context, capability_type))
    if location.base != origin:
        found = yield from read_index(location, context)
        skills = [found.locate(entry) for entry in found.index.entries.values()]
        return skills if capability_type is None else []
    if capability_type is not None:
        return (yield from _read_shared_first(sharing_location(origin), context, capability_type))
    missing: SkillwireError | None = None
    listed: list[ResolvedSkill] = []
    try:
        listed = yield from _read_listed(location, context)
    except SkillwireError as error:
        if not is_not_found(error, context):
            raise
        missing = error
    try:
        shared = yield from read_sharing_index(sharing_location(origin), context)
    except SkillwireError as error:
        if missing is not None:
            raise missing if is_not_found(error, context) else error from None
        if not is_not_found(error, context):
            context.note(error)
        return listed
    return merge(listed, shared.skills)


def _read_shared_first(
    location: IndexLocation, context: ResolveContext, capability_type: str | None
) -> Flow[list[ResolvedSkill]]:
    """Read a place of Skill Sharing, and what gives its skills digests, if there is that."""
    shared = yield from read_sharing_index(location, context, capability_type)
    if shared.is_registry:
        return list(shared.skills)  # they are of other origins
    try:
        listed = yield from _read_listed(agent_skills_location(parse_url(location.url).origin), context)
    except SkillwireError as error:
        if not is_not_found(error, context):
            context.note(error)
        return list(shared.skills)
    return [skill for skill in merge(listed, shared.skills) if skill.ref.shared is not None]


def _read_listed(location: IndexLocation, context: ResolveContext) -> Flow[list[ResolvedSkill]]:
    found = yield from read_index(location, context)
    return [found.locate(entry) for entry in found.index.entries.values()]


def merge(listed: Sequence[ResolvedSkill], shared: Sequence[ResolvedSkill]) -> list[ResolvedSkill]:
    """Return the skills of both indexes of one origin, those that are the same as one."""
    by_name: dict[str, list[ResolvedSkill]] = {}
    for skill in shared:
        for name in {skill.ref.name, skill.ref.name.rpartition("/")[2]}:
            by_name.setdefault(name, []).append(skill)
    merged: list[ResolvedSkill] = []
    taken: set[str] = set()
    for skill in listed:
        same = by_name.get(skill.ref.name, ())
        if len(same) == 1 and skill.ref.version in {None, same[0].ref.version}:
            taken.add(same[0].ref.name)
            merged.append(_join(skill, same[0]))
        else:
            merged.append(skill)
    return [*merged, *(skill for skill in shared if skill.ref.name not in taken)]


def _join(skill: ResolvedSkill, shared: ResolvedSkill) -> ResolvedSkill:
    """Return a skill of Agent Skills Discovery with what Skill Sharing says of it."""
    found_via = f"{skill.ref.found_via}, {shared.ref.found_via}"
    ref = skill.ref._replace(shared=shared.ref.shared, found_via=found_via)
    return skill._replace(ref=ref, requested_by_name=shared.requested_by_name)


def add_facts(skills: Sequence[ResolvedSkill], context: ResolveContext) -> Flow[list[ResolvedSkill]]:
    """Return ``skills`` of one origin with what its index of Skill Sharing says of them, where it has one."""
    if not _may_have_sharing_index(skills[0]) or any(skill.ref.shared for skill in skills):
        return list(skills)
    try:
        shared = yield from read_sharing_index(sharing_location(skills[0].ref.origin), context)
    except SkillwireError:
        return list(skills)  # the attempt tells it, and the skill was found without
    was_named = {skill.ref.name: skill.requested_by_name for skill in skills}
    merged = [skill for skill in merge(skills, shared.skills) if skill.ref.name in was_named]
    return [skill._replace(requested_by_name=was_named[skill.ref.name]) for skill in merged]


def _may_have_sharing_index(skill: ResolvedSkill) -> bool:
    """Whether an index of Skill Sharing may list it: that is one for a whole origin."""
    is_of_index = not skill.is_local and skill.ref.rpc is None
    return is_of_index and skill.ref.origin == parse_url(skill.ref.origin).origin


def select_by_name(name: str, skills: Iterable[ResolvedSkill]) -> list[ResolvedSkill]:
    """Return the one skill whose id is ``name``, or whose id ends with it behind a slash; else an empty list.

    Raises:
        UsageError: ``REFERENCE`` when several ids end with it.
    """
    found = [skill for skill in skills if skill.ref.name.rpartition("/")[2] == name]
    found = [skill for skill in skills if _id(skill) == name] or found
    if len(found) > 1:
        ids = ", ".join(_id(skill) for skill in found)
        fix = "Give the id whole."
        raise UsageError("REFERENCE", f"{name} means {len(found)} skills: {ids}", fix=fix)
    return [skill._replace(requested_by_name=True) for skill in found]


def _id(skill: ResolvedSkill) -> str:
    return skill.ref.shared.id if skill.ref.shared is not None else skill.ref.name


def _facts(skill: ResolvedSkill, context: ResolveContext) -> Flow[SharedFacts | None]:
    """Return what the index of Skill Sharing says of a skill of the other one."""
    shared = yield from read_sharing_index(sharing_location(skill.ref.origin), context)
    return merge([skill], shared.skills)[0].ref.shared


def describe(skill: ResolvedSkill, context: ResolveContext) -> Flow[SkillDescriptor]:
    """Fetch the descriptor of a skill; where its index of Skill Sharing was not read yet, that comes first.

    Raises:
        NotFoundError: ``SKILL_NOT_FOUND`` when there is none, ``INDEX_NOT_FOUND`` when there is no such index.
        FetchError, DecodeError, ValidationError: it cannot be had, or must not be used.
    """
    facts = skill.ref.shared
    if facts is None and _may_have_sharing_index(skill):
        facts = yield from _facts(skill, context)
        if facts is None and not (context.refresh or context.offline):
            # What a fresh cache does not know may have been published a moment ago.
            facts = yield from _facts(skill, context._replace(refresh=True))
    if skill.ref.rpc is not None:
        message, fix = (
            f"{skill.ref.name} has a manifest, and no descriptor of Skill Sharing",
            "skillwire show shows it.",
        )
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(skill.ref.origin), fix=fix)
    if facts is None:
        message = f"no descriptor of {skill.ref.name} is published"
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(skill.ref.origin))
    descriptor, url = yield from read_descriptor(facts.descriptor_url, facts.id, context)
    said = {"version": skill.ref.version, "capability_type": facts.capability_type, "access": facts.access}
    for field, value in said.items():
        found = str(getattr(descriptor, field))
        if value is not None and value != found:
            message = f"{field} is {value} in the index and {found} in the descriptor"
            fix = CODES["INDEX_DIFFERS"].fix
            context.report(Finding("INDEX_DIFFERS", "warning", message, SourceLocation(f"{url}#/{field}"), fix))
    return descriptor
