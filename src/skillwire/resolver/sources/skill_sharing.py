"""What is published by Skill Sharing in one place: an index, a registry's list, or a single descriptor.

Which of the three a URL is, its answer tells. An index says that skills exist, and where their descriptors are; it
gives no digests, so a skill that nothing else lists is described, never installed. Nothing of a descriptor is used
before its version, its schema and the rules hold.

The codec is imported when there is an answer to be read: an origin that does not speak the protocol costs one request.
Spec: SSP §4, §6.4, §10.1; SSB §5. Trust: whatever comes is hostile, and bounded by the codec.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.codes import CODES
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation
from skillwire.model.ref import SharedFacts, SkillRef
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.messages import IndexEntry
from skillwire.protocols.skill_sharing.client import (
    fetch_descriptor,
    fetch_document,
    fetch_index,
    index_url,
    query_registry,
    registry_url,
)
from skillwire.protocols.skill_sharing.paths import REGISTRY, WELL_KNOWN
from skillwire.resolver.documents import read_document
from skillwire.resolver.references import SKILL_SHARING
from skillwire.resolver.resolve import Attempt, ResolvedSkill
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.install import CachedResponse
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor, SkillIndexEntry
    from skillwire.resolver.documents import DocumentRequest
    from skillwire.resolver.references import IndexLocation
    from skillwire.resolver.resolve import ResolveContext
    from skillwire.wire.exchange import Flow


_QUERY: Final = "type="


class SharingListing(NamedTuple):
    """What one document lists: its URL, its skills, and whether it is a registry's, and so tells of other origins."""

    url: str
    skills: tuple[ResolvedSkill, ...]
    is_registry: bool = False


class _Question(NamedTuple):
    """What is asked: the URL, the exchange that asks, and the capability type that the answer is narrowed to."""

    url: str
    ask: DocumentRequest
    capability_type: str | None


def read_sharing_index(
    location: IndexLocation, context: ResolveContext, capability_type: str | None = None
) -> Flow[SharingListing]:
    """Read what is published in a place of Skill Sharing, of one capability type or of all.

    Raises:
        NotFoundError: ``INDEX_NOT_FOUND``.
        FetchError, DecodeError, ValidationError: as the network and the codec say.
    """
    question = _question(location, capability_type)
    attempt = Attempt(question.url, context.credential_for(question.url) is not None)
    try:
        document, answered_by = yield from read_document(question.url, context, question.ask)
        found = _read(document, question, context) if document is not None else None
    except SkillwireError as error:
        context.trace_failure(attempt, error)
        raise
    if document is None or found is None:
        context.trace(attempt)
        raise _absent(question.url)
    answered = attempt.answered(document, answered_by, context)
    context.trace(answered._replace(generation=SKILL_SHARING, entries=len(found.skills)))
    return found


def read_descriptor(url: str, identifier: str, context: ResolveContext) -> Flow[tuple[SkillDescriptor, str]]:
    """Read the descriptor at ``url`` of the skill ``identifier``; return it and the URL that answered.

    Raises:
        NotFoundError: ``SKILL_NOT_FOUND``.
        FetchError, DecodeError, ValidationError: as the network and the codec say.
    """
    document, _ = yield from read_document(url, context, partial(fetch_descriptor, url))
    if document is None:
        message = "the index names a descriptor that is not there"
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(url))
    return _decode_descriptor(document, context, identifier), document.base_url


def read_bytes(url: str, context: ResolveContext) -> Flow[bytes]:
    """Return the bytes of a document, unread.

    Raises:
        NotFoundError: ``INDEX_NOT_FOUND``.
        FetchError: as the network says.
    """
    document, _ = yield from read_document(url, context, partial(fetch_document, url))
    if document is None:
        raise _absent(url)
    return document.body


def _absent(url: str) -> NotFoundError:
    return NotFoundError("INDEX_NOT_FOUND", "nothing of Skill Sharing is published there", place=SourceLocation(url))


def _question(location: IndexLocation, capability_type: str | None) -> _Question:
    """Return how a place is asked: an index or a registry by its own exchange, with or without a filter."""
    url = parse_url(location.url)
    path = url.path.rstrip("/")
    query = url.query or ""
    wanted = capability_type or (query.removeprefix(_QUERY) if query.startswith(_QUERY) else None)
    base = f"{url.origin}{path}"
    if path.endswith(WELL_KNOWN):
        base = base.removesuffix(WELL_KNOWN)
        return _Question(index_url(base, wanted), partial(fetch_index, base, wanted), wanted)
    if path.endswith(REGISTRY):
        base = base.removesuffix(REGISTRY)
        return _Question(registry_url(base, wanted), partial(query_registry, base, wanted), wanted)
    return _Question(str(url), partial(fetch_document, str(url)), capability_type)


def _read(document: CachedResponse, question: _Question, context: ResolveContext) -> SharingListing:
    from skillwire.protocols.skill_sharing.codec import decode_index  # noqa: PLC0415  # see the module's docstring
    from skillwire.trust.guarded_json import load_json  # noqa: PLC0415  # same

    source = document.base_url
    value = load_json(document.body, max_bytes=limits.INDEX_BYTES, source=source)
    origin = parse_url(question.url).origin
    if isinstance(value, dict) and "endpoint" in value and "skills" not in value:
        said = _decode_descriptor(document, context)
        facts = _facts(said, said.provider.name, question.url)
        ref = _ref(said, facts, origin, SKILL_SHARING, document.fetched_at)
        return SharingListing(question.url, (_located(ref, question.url, was_named=True),))
    try:
        index = decode_index(document.body, source, addresses=context.addresses())
    except SkillwireError as error:
        raise _telling_versions(error) from None
    for finding in index.findings:
        context.report(finding)
    is_registry = isinstance(value, list)
    skills = []
    for entry in index.entries.values():
        facts = _facts(entry, index.provider.name if index.provider else None, entry.descriptor_url)
        base = parse_url(entry.descriptor_url).origin if is_registry else origin
        via = f"{SKILL_SHARING} registry" if is_registry else SKILL_SHARING
        skills.append(_located(_ref(entry, facts, base, via, document.fetched_at), question.url))
    return SharingListing(question.url, _narrowed(skills, question, context), is_registry)


def _narrowed(
    skills: Sequence[ResolvedSkill], question: _Question, context: ResolveContext
) -> tuple[ResolvedSkill, ...]:
    """Return the skills of the type that was asked for; whatever else the server sent is told. Spec: SSP §4.5."""
    wanted = question.capability_type
    if wanted is None:
        return tuple(skills)
    fitting = tuple(skill for skill in skills if skill.ref.shared and skill.ref.shared.capability_type == wanted)
    if len(fitting) < len(skills):
        others = len(skills) - len(fitting)
        message = f"asked for {wanted}, the server sent {others} of {len(skills)} skills of another type"
        fix = CODES["FILTER_IGNORED"].fix
        context.report(Finding("FILTER_IGNORED", "warning", message, SourceLocation(question.url), fix))
    return fitting


def _facts(said: SkillIndexEntry | SkillDescriptor, provider: str | None, descriptor_url: str) -> SharedFacts:
    name = neutralise(provider) if provider is not None else None
    return SharedFacts(said.id, said.name, str(said.capability_type), str(said.access), name, descriptor_url)


def _ref(
    said: SkillIndexEntry | SkillDescriptor, facts: SharedFacts, origin: str, found_via: str, fetched_at: float
) -> SkillRef:
    description = said.description[: limits.DESCRIPTION_LENGTH]
    return SkillRef(said.id, origin, description, said.version, None, found_via, fetched_at, facts)


def _located(ref: SkillRef, url: str, *, was_named: bool = False) -> ResolvedSkill:
    where = ref.shared.descriptor_url if ref.shared else url
    entry = IndexEntry(ref.name, ref.description, "files", where, None, version=ref.version)
    return ResolvedSkill(ref, entry, url, requested_by_name=was_named)


def _decode_descriptor(
    document: CachedResponse, context: ResolveContext, expected_id: str | None = None
) -> SkillDescriptor:
    from skillwire.protocols.skill_sharing.codec import decode_descriptor  # noqa: PLC0415  # see the module's docstring

    try:
        return decode_descriptor(
            document.body, document.base_url, addresses=context.addresses(), expected_id=expected_id
        )
    except SkillwireError as error:
        raise _telling_versions(error) from None


def _telling_versions(error: SkillwireError) -> SkillwireError:
    """Return ``error``; one about the version of the protocol with what is read here. Spec: SSP §6.4."""
    if error.code == "VERSION_INCOMPATIBLE":
        ours, theirs = error.details["supported_range"], error.details["descriptor_version"]
        advice = CODES["VERSION_INCOMPATIBLE"].fix
        error.fix = f"Versions {ours} of the protocol are read here, and the document wants {theirs}. {advice}"
    return error
