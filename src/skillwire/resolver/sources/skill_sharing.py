"""What is published by Skill Sharing in one place: an index, a registry's list, or a single descriptor.

Which of the three a URL is, its answer tells. An index says that skills exist, and where their descriptors are; it
gives no digests, so a skill that nothing else lists is described, never installed. Nothing of a descriptor is used
before its version, its schema and the rules hold.

The codec is imported when there is an answer to be read: an origin that does not speak the protocol costs one request.
Spec: SSP §4, §6.4, §10.1; SSB §5. Trust: whatever comes is hostile, and bounded by the codec.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.codes import CODES
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, UsageError
from skillwire.model.ref import SharedFacts, SkillRef
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.client import fetch_document, index_url, registry_url
from skillwire.protocols.skill_sharing.paths import REGISTRY, WELL_KNOWN
from skillwire.resolver.context import Attempt, read_document
from skillwire.resolver.sources import SKILL_SHARING
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.model.install import CachedResponse
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor, SkillIndexEntry
    from skillwire.resolver.context import DocumentRequest, ResolveContext
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import Flow


#: How a skill that a registry lists was found; it is of another origin.
FROM_REGISTRY: Final = f"{SKILL_SHARING} registry"
_QUERY: Final = "type="


class SkillSharing:
    """The source of Skill Sharing."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context

    def find(self, lookup: Lookup, capability_type: str | None = None) -> Flow[list[SkillRef]]:
        """Return what is published in a place, of one capability type or of all.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``.
            FetchError, DecodeError, ValidationError: from the network and the codec.
        """
        context = self._context
        url, ask, wanted = _request(lookup.url, capability_type)
        attempt = Attempt(url, context.credential_for(url) is not None)
        try:
            document, answered_by = yield from read_document(url, context, ask)
            found = _read(document, url, wanted, context) if document is not None else None
        except SkillwireError as error:
            context.trace_failure(attempt, error)
            raise
        if document is None or found is None:
            context.trace(attempt)
            raise _absent(url)
        answered = attempt.answered(document, answered_by, context)
        context.trace(answered._replace(generation=SKILL_SHARING, entries=len(found)))
        return found

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the skill of this id, or whose id ends with the name; raise what :meth:`find` does."""
        found = yield from self.find(lookup)
        return found if lookup.name is None else select_by_name(lookup.name, found)


def select_by_name(name: str, skills: Iterable[SkillRef]) -> list[SkillRef]:
    """Return the one skill whose id is ``name``, or whose id ends with it behind a slash; else an empty list.

    Raises:
        UsageError: ``REFERENCE`` when several ids end with it.
    """
    found = [skill for skill in skills if skill.name.rpartition("/")[2] == name]
    found = [skill for skill in skills if _id(skill) == name] or found
    if len(found) > 1:
        ids = ", ".join(_id(skill) for skill in found)
        raise UsageError("REFERENCE", f"{name} means {len(found)} skills: {ids}", fix="Give the id whole.")
    return [skill._replace(requested_by_name=True) for skill in found]


def _id(skill: SkillRef) -> str:
    return skill.shared.id if skill.shared is not None else skill.name


def read_descriptor(url: str, identifier: str, context: ResolveContext) -> Flow[tuple[SkillDescriptor, str]]:
    """Read the descriptor at ``url`` of the skill ``identifier``; return it and the URL that answered.

    Raises:
        NotFoundError: ``SKILL_NOT_FOUND``.
        FetchError, DecodeError, ValidationError: as the network and the codec say.
    """
    document, _ = yield from read_document(
        url, context, partial(fetch_document, url, max_bytes=limits.DESCRIPTOR_BYTES)
    )
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


def _request(text: str, capability_type: str | None) -> tuple[str, DocumentRequest, str | None]:
    """Return the URL that is asked, how, and the capability type that the answer is narrowed to."""
    url = parse_url(text)
    path, query = url.path.rstrip("/"), url.query or ""
    wanted = capability_type or (query.removeprefix(_QUERY) if query.startswith(_QUERY) else None)
    base = f"{url.origin}{path}"
    if path.endswith(WELL_KNOWN):
        found = index_url(base.removesuffix(WELL_KNOWN), wanted)
    elif path.endswith(REGISTRY):
        found = registry_url(base.removesuffix(REGISTRY), wanted)
    else:
        found, wanted = str(url), capability_type
    return found, partial(fetch_document, found), wanted


def _read(document: CachedResponse, url: str, capability_type: str | None, context: ResolveContext) -> list[SkillRef]:
    from skillwire.protocols.skill_sharing.codec import decode_index  # noqa: PLC0415  # see the module's docstring

    source = document.base_url
    value = load_json(document.body, max_bytes=limits.INDEX_BYTES, source=source)
    if isinstance(value, dict) and "endpoint" in value and "skills" not in value:
        said = _decode_descriptor(document, context)
        return [_skill(said, said.provider.name, url, document, index_url=url)]
    try:
        index = decode_index(document.body, source, addresses=context.addresses())
    except SkillwireError as error:
        raise _with_versions(error) from None
    for finding in index.findings:
        context.report(finding)
    provider = index.provider.name if index.provider else None
    is_registry = isinstance(value, list)
    skills = [
        _skill(entry, provider, entry.descriptor_url, document, index_url=url, is_in_registry=is_registry)._replace(
            requested_by_name=False
        )
        for entry in index.entries.values()
    ]
    if capability_type is None:
        return skills
    fitting = [skill for skill in skills if skill.shared and skill.shared.capability_type == capability_type]
    if len(fitting) < len(skills):  # Spec: SSP §4.5
        others = len(skills) - len(fitting)
        message = f"asked for {capability_type}, the server sent {others} of {len(skills)} skills of another type"
        context.report(Finding("FILTER_IGNORED", "warning", message, SourceLocation(url), CODES["FILTER_IGNORED"].fix))
    return fitting


def _skill(
    said: SkillIndexEntry | SkillDescriptor,
    provider: str | None,
    descriptor_url: str,
    document: CachedResponse,
    *,
    index_url: str,
    is_in_registry: bool = False,
) -> SkillRef:
    name = neutralise(provider) if provider is not None else None
    facts = SharedFacts(said.id, said.name, str(said.capability_type), str(said.access), name, descriptor_url)
    return SkillRef(
        name=said.id,
        origin=str(parse_url(descriptor_url if is_in_registry else index_url).origin),
        description=said.description[: limits.DESCRIPTION_LENGTH],
        version=said.version,
        digest=None,
        found_via=FROM_REGISTRY if is_in_registry else SKILL_SHARING,
        fetched_at=document.fetched_at,
        shared=facts,
        url=descriptor_url,
        index_url=index_url,
    )


def _decode_descriptor(
    document: CachedResponse, context: ResolveContext, expected_id: str | None = None
) -> SkillDescriptor:
    from skillwire.protocols.skill_sharing.codec import decode_descriptor  # noqa: PLC0415  # see the module's docstring

    try:
        return decode_descriptor(
            document.body, document.base_url, addresses=context.addresses(), expected_id=expected_id
        )
    except SkillwireError as error:
        raise _with_versions(error) from None


def _with_versions(error: SkillwireError) -> SkillwireError:
    """Return ``error``; one about the version of the protocol with what is read here. Spec: SSP §6.4."""
    if error.code == "VERSION_INCOMPATIBLE":
        ours, theirs = error.details["supported_range"], error.details["descriptor_version"]
        advice = CODES["VERSION_INCOMPATIBLE"].fix
        error.fix = f"Versions {ours} of the protocol are read here, and the document wants {theirs}. {advice}"
    return error
