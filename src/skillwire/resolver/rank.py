"""Search in lists of skills, with exact names first and other matches by score; merges the lists of several sources.

The score is a small BM25F over names and descriptions, for the indexes of a few origins; a registry has its own engine.
A word of the query matches words with the same stem. With less weight it matches words that begin with it, or that it
begins with ("test" finds "testing" and "testcase"). If no text has either, it matches words one edit away.

A skill of several sources is listed once. Two entries are the same skill when publisher, name, version and digest
agree, as far as both have them, and no other entry of the second source agrees too. The name of a Skill Sharing ID is
its part after the slash. The earlier source determines the bytes and their digest, the later one adds its facts. This
rule is an extension: the protocols have none. Agent Skills Discovery is asked first, and alone if its answer suffices.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from os.path import commonprefix
from typing import TYPE_CHECKING, Final, TypeVar

from skillwire.codes import CODES
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, TrustError, UsageError
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.resolver.context import Attempt, ResolveContext, is_not_found
from skillwire.resolver.references import agent_skills_at, sharing_below
from skillwire.resolver.sources import SKILL_SHARING, Lookup
from skillwire.resolver.sources.agent_skills import AgentSkills, is_namespace_at
from skillwire.resolver.sources.skill_sharing import (
    FROM_REGISTRY,
    SkillSharing,
    read_descriptor,
    select_by_name,
    site_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from skillwire.model.ref import SharedFacts, SkillRef
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.wire.exchange import Flow


def merge(first: Iterable[SkillRef], second: Iterable[SkillRef]) -> list[SkillRef]:
    """Return the skills of ``first`` with the facts of equal ones in ``second``; then the other ones of ``second``."""
    rest = {id(skill): skill for skill in second}
    by_name: dict[tuple[str, str], list[SkillRef]] = {}
    for skill in rest.values():
        for name in {skill.name, _short(skill.name)}:
            by_name.setdefault((skill.origin, name), []).append(skill)
    merged: list[SkillRef] = []
    for skill in first:
        same = by_name.get((skill.origin, skill.name), ())
        if len(same) == 1 and _agree(skill.version, same[0].version) and _agree(skill.digest, same[0].digest):
            (other,) = same
            rest.pop(id(other), None)
            if other.found_via != skill.found_via:
                skill = skill._replace(  # noqa: PLW2901  # the same skill with more facts
                    found_via=f"{skill.found_via}, {other.found_via}",
                    shared=skill.shared or other.shared,
                    rpc=skill.rpc or other.rpc,
                    requested_by_name=other.requested_by_name,
                )
        merged.append(skill)
    return [*merged, *rest.values()]


def conflicting_digests(skills: Iterable[SkillRef]) -> TrustError | None:
    """Return the error for a version with different digests in two sources, or None; no digest is preferred."""
    alike: dict[tuple[str, str, str], list[SkillRef]] = {}
    for skill in skills:
        if skill.digest is not None and skill.version is not None:
            alike.setdefault((skill.origin, _short(skill.name), skill.version), []).append(skill)
    for other, *rest in alike.values():
        if len({skill.name for skill in (other, *rest) if "/" in skill.name}) > 1:
            continue  # IDs of several providers, which :func:`merge` does not match
        for skill in (one for one in rest if one.digest != other.digest):
            digests = f"{other.digest} by {other.found_via}, and {skill.digest} by {skill.found_via}"
            message = f"{skill.name} {skill.version} of {skill.origin} has two digests: {digests}"
            return TrustError("DIGEST_CONFLICT", message, place=SourceLocation(skill.index_url or skill.url))
    return None


def check_digests(skills: Sequence[SkillRef], context: ResolveContext) -> Flow[None]:
    """Compare the digests of a site's skills with those of its other cached indexes; refresh these if they differ.

    A skill of an endpoint is compared with the index of Agent Skills Discovery, all others with that of Skill Sharing.
    Raises TrustError (``DIGEST_CONFLICT``).
    """
    stated = [_as_indexed(skill) for skill in skills if skill.digest is not None and not skill.is_local]
    if not stated or is_namespace_at(stated[0].origin):
        return
    site = stated[0].origin
    conflict: TrustError | None = None
    for is_kept in (True,) if context.offline else (True, False):
        asked = context._replace(offline=is_kept, refresh=not is_kept, trace=lambda _: None, report=lambda _: None)
        try:
            if skills[0].rpc is not None:
                listed = yield from AgentSkills(asked).find(agent_skills_at(site))
            else:
                listed = yield from SkillSharing(asked).find(sharing_below(site))
        except SkillwireError:
            return
        conflict = conflicting_digests([*stated, *listed])
        if conflict is None:
            return
    if conflict is not None:
        raise conflict


def _as_indexed(skill: SkillRef) -> SkillRef:
    """Return a skill of an endpoint in the form of its site's index, which names it as its ``SKILL.md`` does."""
    if skill.rpc is None:
        return skill
    url, about = parse_url(skill.origin), skill.described.frontmatter or {} if skill.described else {}
    name = about.get("name")
    return skill._replace(origin=url.origin + url.path.removesuffix("/rpc"), name=str(name or skill.name))


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


def read_origin(lookup: Lookup, context: ResolveContext, capability_type: str | None = None) -> Flow[list[SkillRef]]:
    """Return the skills of a place from both protocols, each once.

    For a place of Skill Sharing, or with a capability type, the result has only skills that Skill Sharing lists. A
    scope (``/@``) has no index of Skill Sharing, so only Agent Skills Discovery is asked. Errors of the second index
    are reported, not raised.

    Raises NotFoundError (``INDEX_NOT_FOUND``) without either index.
    """
    if lookup.source == SKILL_SHARING:
        return (yield from _read_sharing_first(lookup, context, capability_type))
    if lookup.base == lookup.url or is_namespace_at(lookup.base):
        return (yield from AgentSkills(context).find(lookup, capability_type))
    if capability_type is not None:
        return (yield from _read_sharing_first(sharing_below(lookup.base), context, capability_type))
    missing: SkillwireError | None = None
    listed: list[SkillRef] = []
    try:
        listed = yield from AgentSkills(context).find(lookup)
    except SkillwireError as error:
        if not is_not_found(error, context):
            raise
        missing = error
    try:
        shared = yield from SkillSharing(context).find(sharing_below(lookup.base))
    except SkillwireError as error:
        if missing is not None:
            raise missing if is_not_found(error, context) else error from None
        if not is_not_found(error, context):
            context.note(error)
        return listed
    return merge(listed, shared)


def resolve_shared(lookup: Lookup, context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return the named skill of a place of Skill Sharing, or all skills, with digests of Agent Skills Discovery."""
    found = yield from read_origin(lookup, context)
    named = [skill for skill in found if lookup.name is None or _short(skill.name) == _short(lookup.name)]
    if conflict := conflicting_digests(named):
        raise conflict
    return found if lookup.name is None else select_by_name(lookup.name, found)


def _read_sharing_first(lookup: Lookup, context: ResolveContext, capability_type: str | None) -> Flow[list[SkillRef]]:
    """Return the skills that Skill Sharing lists, with digests of Agent Skills Discovery if it has them."""
    shared = yield from SkillSharing(context).find(lookup, capability_type)
    if not shared or shared[0].found_via == FROM_REGISTRY:
        return shared  # a registry lists skills of other origins
    try:
        listed = yield from AgentSkills(context).find(agent_skills_at(site_of(lookup.url)))
    except SkillwireError as error:
        if not is_not_found(error, context):
            context.note(error)
        return shared
    named = [skill for skill in (*listed, *shared) if lookup.name is None or _short(skill.name) == _short(lookup.name)]
    if conflict := conflicting_digests(named):
        raise conflict
    return [skill for skill in merge(listed, shared) if skill.shared is not None]


def add_facts(skills: Sequence[SkillRef], context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return ``skills`` of one origin with the facts of its index of Skill Sharing, if it has one.

    If the cached copy of that index is older than the index of ``skills`` and lacks one of them, it is refreshed once.
    Raises TrustError (``INDEX_DIFFERS``) if the index of ``skills`` is the older one.
    """
    origin, is_scoped = skills[0].origin, is_namespace_at(skills[0].origin)
    if not (is_scoped or _may_have_sharing_index(skills[0])) or any(skill.shared for skill in skills):
        yield from check_digests([skill for skill in skills if skill.rpc is not None], context)
        return list(skills)
    site = _site_of(origin) if is_scoped else origin
    try:
        shared, read = yield from _read_shared(site, context)
        is_older = read is not None and not context.offline and read < max(skill.fetched_at for skill in skills)
        if is_older and any(one.shared is None for one in merge(skills, shared)[: len(skills)]):
            shared, read = yield from _read_shared(site, context._replace(refresh=True))
    except SkillwireError:
        return list(skills)  # the facts are optional; the trace records the attempt
    is_final = is_scoped or read is not None or context.refresh or context.offline
    known = {} if is_final else {_short(one.name): one for one in shared}
    for skill in skills:
        other = known.get(skill.name)
        if skill.freshness != "live" and other is not None and not _agree(skill.version, other.version):
            message = f"{skill.name} has version {skill.version} in the cache, and {other.version} at {origin}"
            raise TrustError("INDEX_DIFFERS", message, place=SourceLocation(skill.index_url))
    if is_scoped:  # the site's index covers all namespaces, so digests identify this one's skills
        digests = {skill.digest for skill in skills if skill.digest is not None}
        shared = [one._replace(origin=origin) for one in shared if one.digest in digests]
    if conflicting_digests([*skills, *shared]):
        yield from check_digests(skills, context)
    by_name = {skill.name: skill for skill in merge(skills, shared)}
    return [by_name[skill.name]._replace(requested_by_name=skill.requested_by_name) for skill in skills]


def _read_shared(site: str, context: ResolveContext) -> Flow[tuple[list[SkillRef], float | None]]:
    """Return the skills of an index of Skill Sharing, and the time at which a cached copy was read, else None."""
    attempts: list[Attempt] = []

    def trace(attempt: Attempt) -> None:
        attempts.append(attempt)
        context.trace(attempt)

    shared = yield from SkillSharing(context._replace(trace=trace)).find(sharing_below(site))
    is_copy = attempts[-1].answered_by == "cache"
    return shared, context.clock() - attempts[-1].age if is_copy else None


def _site_of(namespace: str) -> str:
    return namespace.rpartition("/@")[0]


def _may_have_sharing_index(skill: SkillRef) -> bool:
    """Whether an index of Skill Sharing may list the skill; scopes and repositories have no such index."""
    return not (skill.is_local or skill.rpc or skill.git or is_namespace_at(skill.origin))


def describe(skill: SkillRef, context: ResolveContext) -> Flow[SkillDescriptor]:
    """Return the descriptor of a skill; read its index of Skill Sharing first if the skill lacks its facts.

    Raises:
        NotFoundError: ``SKILL_NOT_FOUND`` without a descriptor, ``VERSION_NOT_FOUND`` without one of this version.
        UsageError: ``NOT_CALLABLE`` without such an index. TrustError: ``DIGEST_CONFLICT``, possibly of cached copies.
        FetchError, DecodeError, ValidationError: it cannot be fetched, or must not be used.
    """
    if skill.rpc is not None:
        message = f"{skill.name} has a manifest, and no descriptor of Skill Sharing"
        raise NotFoundError(
            "SKILL_NOT_FOUND", message, place=SourceLocation(skill.origin), fix="skillwire show shows it."
        )
    if is_namespace_at(skill.origin):
        skill = yield from _find_at_root(skill, context)
    facts: SharedFacts | None = skill.shared
    if facts is None and _may_have_sharing_index(skill):
        facts = yield from _find_shared(skill, context)
    if facts is None:
        message = f"no descriptor of {skill.name} is published"
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(skill.origin))
    descriptor, url = yield from read_descriptor(facts.descriptor_url, facts.id, context)
    digest: str | None = getattr(descriptor, "digest", None) or None
    if skill.version == descriptor.version and not _agree(skill.digest, digest):
        message = f"{skill.name} {skill.version} has {skill.digest} in the index and {digest} in the descriptor"
        raise TrustError("DIGEST_CONFLICT", message, place=SourceLocation(f"{url}#/digest"))
    stated = {"version": skill.version, "capability_type": facts.capability_type, "access": facts.access}
    for field, value in stated.items():
        found = str(getattr(descriptor, field))
        if value is not None and value != found:
            message = f"{field} is {value} in the index and {found} in the descriptor"
            fix = CODES["INDEX_DIFFERS"].fix
            context.report(Finding("INDEX_DIFFERS", "warning", message, SourceLocation(f"{url}#/{field}"), fix))
    return descriptor


def _find_shared(skill: SkillRef, context: ResolveContext) -> Flow[SharedFacts | None]:
    is_fresh = context.refresh or context.offline
    # A fresh cached index may lack a new skill.
    for asked in (context,) if is_fresh else (context, context._replace(refresh=True)):
        try:
            shared = yield from SkillSharing(asked).find(sharing_below(skill.origin))
        except NotFoundError as error:
            raise static_site(f"{skill.origin} publishes {skill.name} as files alone", skill.url) from error
        facts: SharedFacts | None = merge([skill], shared)[0].shared
        if facts is not None:
            return facts
    running = [one for one in shared if (one.origin, _short(one.name)) == (skill.origin, skill.name)]
    if any(not _agree(one.version, skill.version) for one in running):
        raise _not_running(skill, running)
    if conflict := conflicting_digests([skill, *running]):
        raise conflict
    return None


def _not_running(skill: SkillRef, running: Sequence[SkillRef]) -> NotFoundError:
    message = f"{skill.origin} does not run version {skill.version} of {skill.name}"
    fix = f"Name one that runs: {', '.join(str(one.version) for one in running)}."
    return NotFoundError("VERSION_NOT_FOUND", message, place=SourceLocation(skill.origin), fix=fix)


def static_site(what: str, url: str) -> UsageError:
    """Return the error for a call to a static site; ``what`` states how this was recognised."""
    fix = "Ask its publisher to serve the skill in place of the files of skillwire build: skillwire serve FOLDER."
    return UsageError(
        "NOT_CALLABLE", f"{what}: the site is static, and runs no skills", place=SourceLocation(url), fix=fix
    )


def _find_at_root(skill: SkillRef, context: ResolveContext) -> Flow[SkillRef]:
    """Return the equal skill at the root of a namespaced skill's site, since only the root has descriptors.

    Raises NotFoundError (``SKILL_NOT_FOUND``; ``VERSION_NOT_FOUND`` if it has another version).
    """
    site = _site_of(skill.origin)
    (found,) = yield from AgentSkills(context).resolve(agent_skills_at(site)._replace(name=skill.name))
    if found.digest is None or found.digest != skill.digest:
        versions = yield from AgentSkills(context).versions(agent_skills_at(skill.origin)._replace(name=skill.name))
        if any(one.digest == found.digest for one in versions):
            raise _not_running(skill, [found])
        message = f"{site} describes another skill or version by the name {skill.name}"
        fix = f"See what it describes: skillwire show {site}/{skill.name}."
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(skill.origin), fix=fix)
    return found


_WORD: Final = re.compile(r"[^\W_]+")
_SATURATION: Final = 1.2  # BM25's k1
_LENGTH: Final = 0.6  # BM25's b, for each of the two fields
_BEGINNING: Final = 0.5  # weight of a word with the same beginning
_TYPO: Final = 0.5  # weight of a word one edit away
_SIGNIFICANT: Final = 4  # letters; shorter words are similar to too many others
_EXACT: Final = 1000.0  # above every score by words
#: Words without meaning for the search, in a query or in a description ("use when you need to ...").
_EMPTY: Final = frozenset(
    "a all an and any are as at be by can do for from help how i if in into is it its make me my need no not of on or "  # noqa: SIM905  # prose is easier to read than a list
    "our should so that the this to use used user using want we what when which with you your".split()
)

T = TypeVar("T")


def words(text: str, kept: Collection[str] = ()) -> list[str]:
    """Return the stems of the meaningful words of ``text``, and of the ``kept`` ones, in lower case."""
    stems = [(word, _stem(word)) for word in _WORD.findall(text.lower())]
    return [stem for word, stem in stems if word not in _EMPTY or stem in kept]


def rank(
    query: str, items: Sequence[T], text: Callable[[T], tuple[str, str]], *, needs_all: bool = False
) -> list[tuple[T, float]]:
    """Return the items that match ``query`` with their scores, best first; all of them for an empty query.

    Args:
        query: words, in any order; a hit has at least one of them, or a similar one.
        items: the items to search.
        text: gives an item's name and description.
        needs_all: whether a hit must have every word, or a similar one; also those without meaning in a description.
    """
    plain = _WORD.findall(query.lower())
    wanted = list(dict.fromkeys((not needs_all and words(query)) or map(_stem, plain)))
    if not wanted:
        return [(item, 0.0) for item in items]
    texts = [text(item) for item in items]
    fields = [(words(name, wanted), words(description, wanted)) for name, description in texts]
    having = Counter(word for name, description in fields for word in {*name, *description})
    total = len(items)
    forms: dict[str, list[tuple[int, float]]] = {}
    typed = {_stem(word): word for word in plain}
    for index, word in enumerate(wanted):
        factors = {word: 1.0} if word in having else {}
        start = word if len(word) >= _SIGNIFICANT else typed[word]  # "sales" begins "salesforce", its stem too much
        if len(start) >= _SIGNIFICANT:
            alike = [other for other in having if len(other) >= _SIGNIFICANT]
            alike = [other for other in alike if other.startswith(start) or start.startswith(other)]
            factors = {**dict.fromkeys(alike, _BEGINNING), **factors}
        if len(word) >= _SIGNIFICANT:
            factors = factors or {other: _TYPO for other in having if is_one_edit(word, other)}
        for other, factor in factors.items():
            weight = factor * math.log(1 + (total - having[other] + 0.5) / (having[other] + 0.5))
            forms.setdefault(other, []).append((index, weight))
    lengths = [max(sum(map(len, column)) / len(column), 1.0) for column in zip(*fields, strict=True)]
    least = len(wanted) if needs_all else 1
    exact = "-".join(plain)
    scored = [
        (item, _score(both, forms, lengths, least) + (_EXACT if name == exact else 0.0))
        for item, (name, _), both in zip(items, texts, fields, strict=True)
    ]
    return sorted(((item, score) for item, score in scored if score > 0), key=lambda hit: -hit[1])


def _score(
    fields: tuple[list[str], list[str]],
    forms: dict[str, list[tuple[int, float]]],
    lengths: Sequence[float],
    least: int,
) -> float:
    """Return the sum of the best match of each query word; 0 if fewer than ``least`` words match."""
    found: dict[int, float] = {}
    for word in forms.keys() & {*fields[0], *fields[1]}:
        count = sum(
            field.count(word) / (1 - _LENGTH + _LENGTH * len(field) / length)
            for field, length in zip(fields, lengths, strict=True)
        )
        for wanted, weight in forms[word]:
            score = weight * count * (_SATURATION + 1) / (count + _SATURATION)
            found[wanted] = max(score, found.get(wanted, 0.0))
    return sum(found.values()) if len(found) >= least else 0.0


def is_one_edit(word: str, other: str) -> bool:
    """Whether inserting, removing or changing a letter, or swapping two, turns ``word`` into ``other``."""
    longest = max(len(word), len(other))
    if abs(len(word) - len(other)) > 1:
        return False
    before = len(commonprefix((word, other)))  # noqa: RUF071  # of letters, not of paths
    rest, other_rest = word[before:], other[before:]
    if rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:]:
        return True
    return before + len(commonprefix((rest[::-1], other_rest[::-1]))) >= longest - 1  # noqa: RUF071  # same


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word.removesuffix(ending) + ("y" if ending == "ies" else "")
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004  # "code" meets "coding"
