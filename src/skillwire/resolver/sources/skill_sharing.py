"""Skills of Skill Sharing in one place: an index, a registry's list, or a single descriptor; the answer shows which.

An index may state the digest of a skill's artifact **[extension]**, but no artifact, so a skill that only it lists is
described, never installed. A descriptor is used only after its version, its schema and the rules hold. The codec is
imported when there is an answer to read: an origin that does not speak the protocol costs one request.
Spec: SSP §4, §6.4, §10.1; SSB §5. Trust: every answer is hostile, and bounded by the codec.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.codes import CODES
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, UsageError
from skillwire.model.digest import Digest
from skillwire.model.ref import SharedFacts, SkillRef
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing import REGISTRY, WELL_KNOWN
from skillwire.protocols.skill_sharing.client import fetch_document, index_url, registry_url
from skillwire.resolver.context import DocumentRequest, ResolveContext, freshness, read_document
from skillwire.resolver.sources import SKILL_SHARING, Lookup
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skillwire.model.ref import CachedResponse
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor, SkillIndexEntry
    from skillwire.wire.exchange import Flow


#: How a skill that a registry lists was found; it is of another origin.
FROM_REGISTRY: Final = f"{SKILL_SHARING} registry"
_QUERY: Final = "type="


class SkillSharing:
    """The source of Skill Sharing."""

    def __init__(self, context: ResolveContext) -> None:
        self._context = context

    def find(self, lookup: Lookup, capability_type: str | None = None) -> Flow[list[SkillRef]]:
        """Return the skills of a place, of one capability type or of all; raise ``INDEX_NOT_FOUND`` without a list."""
        context = self._context
        url, ask, wanted = _request(lookup.url, capability_type)
        with context.attempt(url) as attempt:
            document, answered_by = yield from read_document(url, context, ask)
            found = _read(document, url, wanted, context) if document is not None else None
            if document is not None and found:
                state = freshness(document, answered_by, context)
                found = [skill._replace(freshness=state) for skill in found]
        if document is None or found is None:
            context.trace(attempt)
            raise not_published(url)
        context.trace_answer(attempt, document, answered_by, SKILL_SHARING, len(found))
        return found

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the skill with this id, or whose id ends with the name."""
        found = yield from self.find(lookup)
        return found if lookup.name is None else select_by_name(lookup.name, found)


def select_by_name(name: str, skills: Iterable[SkillRef]) -> list[SkillRef]:
    """Return the one skill whose id is ``name``, or whose id ends with it behind a slash; else an empty list.

    Raises UsageError (``REFERENCE``) when several ids end with it.
    """
    by_id = {skill.shared.id if skill.shared is not None else skill.name: skill for skill in skills}
    ids = [name] if name in by_id else [one for one in by_id if by_id[one].name.rpartition("/")[2] == name]
    if len(ids) > 1:
        raise UsageError("REFERENCE", f"{name} means {len(ids)} skills: {', '.join(ids)}", fix="Give the full id.")
    return [by_id[one]._replace(requested_by_name=True) for one in ids]


def read_descriptor(url: str, identifier: str, context: ResolveContext) -> Flow[tuple[SkillDescriptor, str]]:
    """Return the descriptor at ``url`` of the skill ``identifier``, and the URL that answered."""
    document, _ = yield from read_document(
        url, context, partial(fetch_document, url, max_bytes=limits.DESCRIPTOR_BYTES)
    )
    if document is None:
        message = "the index names a descriptor that is not there"
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(url))
    return _decode_descriptor(document, context, identifier), document.base_url


def read_bytes(url: str, context: ResolveContext) -> Flow[bytes]:
    """Return the bytes of a document, unread; raise ``INDEX_NOT_FOUND`` without one."""
    document, _ = yield from read_document(url, context, partial(fetch_document, url))
    if document is None:
        raise not_published(url)
    return document.body


def not_published(url: str) -> NotFoundError:
    """Return the error for a place without Skill Sharing."""
    return NotFoundError("INDEX_NOT_FOUND", "nothing of Skill Sharing is published there", place=SourceLocation(url))


def _request(text: str, capability_type: str | None) -> tuple[str, DocumentRequest, str | None]:
    """Return the URL to request, the request, and the capability type that the answer is restricted to."""
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
    is_registry = isinstance(value, list) or parse_url(url).path.endswith(REGISTRY)
    with _stating_versions():
        index = decode_index(document.body, source, addresses=context.addresses(), is_registry=is_registry)
    for finding in index.findings:
        context.report(finding)
    provider = index.provider.name if index.provider else None
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
    digest: str | None = getattr(said, "digest", None) or None
    facts = SharedFacts(said.id, said.name, str(said.capability_type), str(said.access), name, descriptor_url)
    return SkillRef(
        name=said.id,
        origin=str(parse_url(descriptor_url).origin) if is_in_registry else site_of(index_url),
        description=said.description[: limits.DESCRIPTION_LENGTH],
        version=said.version,
        digest=Digest(digest) if digest else None,
        found_via=FROM_REGISTRY if is_in_registry else SKILL_SHARING,
        fetched_at=document.fetched_at,
        shared=facts,
        url=descriptor_url,
        index_url=index_url,
    )


def site_of(index_url: str) -> str:
    """Return the site whose index this is: its origin, or the part of that below which the index lies."""
    url = parse_url(index_url)
    return url.origin + url.path.rstrip("/").removesuffix(WELL_KNOWN) if url.path.endswith(WELL_KNOWN) else url.origin


def _decode_descriptor(
    document: CachedResponse, context: ResolveContext, expected_id: str | None = None
) -> SkillDescriptor:
    from skillwire.protocols.skill_sharing.codec import decode_descriptor  # noqa: PLC0415  # see the module's docstring

    with _stating_versions():
        return decode_descriptor(
            document.body, document.base_url, addresses=context.addresses(), expected_id=expected_id
        )


@contextmanager
def _stating_versions() -> Iterator[None]:
    """Complete an error about the protocol's version with the versions on both sides. Spec: SSP §6.4."""
    try:
        yield
    except SkillwireError as error:
        if error.code == "VERSION_INCOMPATIBLE":
            ours, theirs = error.details["supported_range"], error.details["descriptor_version"]
            advice = CODES["VERSION_INCOMPATIBLE"].fix
            error.fix = f"Versions {ours} of the protocol are read here, and the document wants {theirs}. {advice}"
        raise
