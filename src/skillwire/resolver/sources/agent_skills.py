"""Skills of Agent Skills Discovery: the index of a place.

The 0.2.0 path is tried first, then the old one; an origin that has given digests once may not go back to an index
without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from skillwire.codes import CODES
from skillwire.errors import (
    DecodeError,
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    StorageError,
    TrustError,
    ValidationError,
    did_you_mean,
)
from skillwire.model.package import is_namespace, parse_range, version_order
from skillwire.model.ref import OriginRecord, Release, SkillRef
from skillwire.model.skill import Finding, is_skill_name, is_version
from skillwire.protocols.agent_skills.client import fetch_index
from skillwire.protocols.agent_skills.decoder import decode_index, decode_versions
from skillwire.protocols.agent_skills.messages import VERSIONS, Generation, Index
from skillwire.resolver.context import ResolveContext, freshness, not_in_cache, read_document, timestamp
from skillwire.resolver.sources import Lookup
from skillwire.wire.exchange import Flow, work

_LISTED: Final = 8  # versions in a message


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
        """Return the named skill of an index, or all; ``SKILL_NOT_FOUND`` has similar names.

        One of a namespace, and one in a version, is taken from the list of its versions, where there is one.
        """
        denied: SkillwireError | None = None
        if lookup.name and (lookup.version or is_namespace_at(lookup.base)):
            try:
                if versions := (yield from self.versions(lookup)):
                    return [choose_version(versions, lookup)]
            except FetchError as error:  # of another publisher, whose place answers unknown paths in its own way
                if lookup.version:
                    raise
                denied = error if error.code == "ACCESS_DENIED" else None
        skills = yield from self._read(lookup)
        if lookup.name is None and skills:
            return [skill._replace(requested_by_name=False) for skill in skills.values()]
        if lookup.name is None:
            raise NotFoundError("SKILL_NOT_FOUND", f"{lookup.base} publishes no skills yet")
        if (found := skills.get(lookup.name)) is None:
            if denied is not None:
                raise denied
            with suppress(FetchError, DecodeError, ValidationError):  # most publishers have no lists of versions
                if withdrawn := (yield from self.versions(lookup)):  # the index leaves out what is yanked
                    return [choose_version(withdrawn, lookup)]
            is_cached = any(one.freshness != "live" for one in skills.values())
            again = "The index is from the cache: read it again with --refresh." if is_cached else None
            fix = " ".join(filter(None, (did_you_mean(lookup.name, skills), again))) or None
            message, python = f"{lookup.base}/{lookup.name} is not published there", f"client.find('', {lookup.base!r})"
            python = "Client(refresh=True)" if is_cached else python
            raise NotFoundError("SKILL_NOT_FOUND", message, fix=fix, in_python=python)
        return [found]

    def versions(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return every version of the named skill, the highest first; nothing where no list is published."""
        scope = lookup.base if is_namespace_at(lookup.base) else f"{lookup.base}/@{lookup.name}"
        url = f"{scope}/{lookup.name}{VERSIONS}" if scope == lookup.base else f"{scope}{VERSIONS}"
        context = self._context
        with context.attempt(url) as attempt:
            document, answered_by = yield from read_document(url, context, partial(fetch_index, url), last=False)
            if document is None:
                return []
            found, findings = decode_versions(document.body, document.base_url)
        context.trace_answer(attempt, document, answered_by, "versions", len(found.versions))
        for finding in findings:
            context.report(finding)
        asked = lookup.base.rpartition("/@")[2] if is_namespace_at(lookup.base) else found.publisher
        if found.name and found.publisher and (found.publisher, found.name) != (asked, lookup.name):
            message = f"{asked}/{lookup.name} is called {found.publisher}/{found.name} now"
            context.report(Finding("RENAMED", "warning", message, SourceLocation(url), CODES["RENAMED"].fix))
        base = _present_base(lookup.base, f"/{found.name}{VERSIONS}", document.base_url)
        is_followed = is_skill_name(found.name) and document.base_url == f"{base}/{found.name}{VERSIONS}"
        return [
            SkillRef(
                name=found.name if is_followed else str(lookup.name),
                origin=base,
                description=entry.description,
                version=entry.version,
                digest=entry.digest,
                found_via="agent-skills versions",
                fetched_at=document.fetched_at,
                freshness=freshness(document, answered_by, context),
                capabilities=entry.capabilities,
                scenes=entry.scenes,
                artifact_type=entry.artifact_type,
                url=entry.url,
                index_url=base + lookup.url.removeprefix(lookup.base),
                former_origin=lookup.base if base != lookup.base else "",
                requires=entry.requires,
                release=Release(entry.status, entry.reason, entry.successor, entry.published, entry.published_by),
            )
            for entry in found.versions
        ]

    def _read(self, lookup: Lookup) -> Flow[dict[str, SkillRef]]:
        context = self._context
        for url in (lookup.url, lookup.old_url):
            if url is None:
                continue
            with context.attempt(url) as attempt:
                document, answered_by = yield from read_document(url, context, partial(fetch_index, url), last=False)
                if document is None:
                    context.trace(attempt._replace(error=not_in_cache(url)) if context.offline else attempt)
                    continue
                index = decode_index(document.body, document.base_url)
                yield from work(partial(_check_generation, lookup.base, index, url, context))
            context.trace_answer(attempt, document, answered_by, index.generation.value, len(index.entries))
            for finding in index.findings:
                context.report(finding)
            base = _present_base(lookup.base, url.removeprefix(lookup.base), document.base_url)
            return {
                entry.name: SkillRef(
                    name=entry.name,
                    origin=base,
                    description=entry.description,
                    version=entry.version,
                    digest=entry.digest,
                    found_via=f"agent-skills {index.generation}",
                    fetched_at=document.fetched_at,
                    freshness=freshness(document, answered_by, context),
                    capabilities=entry.capabilities,
                    scenes=entry.scenes,
                    requires=entry.requires,
                    artifact_type=entry.artifact_type,
                    url=entry.url,
                    index_url=base + url.removeprefix(lookup.base),
                    former_origin=lookup.base if base != lookup.base else "",
                    tags=entry.tags,
                    indexed_files=entry.files,
                    release=None if entry.status == "active" else Release(entry.status, entry.reason, entry.successor),
                )
                for entry in index.entries.values()
            }
        if context.offline:
            raise not_in_cache(lookup.url)
        raise NotFoundError("INDEX_NOT_FOUND", "no skill index is published there", place=SourceLocation(lookup.url))


def is_namespace_at(base: str) -> bool:
    """Whether the place ``base`` is a namespace, such as ``https://example.com/@acme``."""
    return base.rpartition("/")[2].startswith("@")


def _present_base(base: str, suffix: str, answered: str) -> str:
    """Return the place of the namespace ``base`` under the name that its own registry redirected to, or ``base``."""
    site, is_namespace_there, _ = base.rpartition("/@")
    present = answered.removesuffix(suffix)
    name = present.removeprefix(f"{site}/@")
    return present if is_namespace_there and name != present and is_namespace(name) else base


def has_version(skill: SkillRef, wanted: str) -> bool:
    """Whether a skill has the digest, the version, or one in the range that ``wanted`` states."""
    if wanted.startswith("sha256:"):
        return skill.digest == wanted
    return skill.version == wanted or (not is_version(wanted) and skill.version in parse_range(wanted))


def usable_versions(versions: Sequence[SkillRef], wanted: str = "") -> list[SkillRef]:
    """Return the versions that a range resolves to, the best first: the highest release before any prerelease."""
    usable = [one for one in versions if one.version and (one.release is None or one.release.is_usable)]
    found = [one for one in usable if has_version(one, wanted or "*")]
    return sorted(found, key=lambda one: ("-" not in str(one.version), version_order(str(one.version))), reverse=True)


def choose_version(versions: Sequence[SkillRef], lookup: Lookup) -> SkillRef:
    """Return the version that ``lookup`` means; one that is withdrawn where no other fits, since its state says why.

    Raises NotFoundError (``VERSION_NOT_FOUND``), ValidationError (``VERSION_RANGE``).
    """
    fitting = [one for one in versions if has_version(one, lookup.version or "*")]
    if not fitting:
        there = ", ".join(str(one.version) for one in versions[:_LISTED])
        message = f"{lookup.base}/{lookup.name} has no version {lookup.version}"
        raise NotFoundError("VERSION_NOT_FOUND", message, fix=f"Name one of these: {there}.")
    return next(iter(usable_versions(fitting)), fitting[0])


def _check_generation(base: str, index: Index, url: str, context: ResolveContext) -> None:
    """Remember the generation of an index; raise ``DOWNGRADE`` without digests where there were some before."""
    record = context.origins.look_up(base)
    current = Generation.V0_2_0.value
    if record is not None and record.generation == current and index.generation != current:
        message = f"{base} has published digests before and does not now"
        raise TrustError("DOWNGRADE", message, place=SourceLocation(url))
    if record is None or record.generation != index.generation:
        known = record or OriginRecord(first_seen=timestamp(context.clock()))
        try:
            context.origins.record(base, known._replace(generation=index.generation.value))
        except StorageError as error:  # an installation, which must remember the consent, fails later
            context.note(error)
