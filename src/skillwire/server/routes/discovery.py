"""Agent Skills Discovery over HTTP: indexes, files and artifacts, under ``/.well-known/`` and ``/@SCOPE/``.

The catalog of a registry holds one version of each package, and of two packages with one name only the first. The
scopes of a registry (the index of a namespace, the versions of its packages, and each version as a scope) come from the
package store, so they hold the others, too. On a registry ``/@NAME`` is a namespace first, so that no publisher takes
the scope of another one with a skill or a scene of its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import quote

from msgspec import Meta, Struct, field
from starlette.types import ASGIApp

from skillwire import limits
from skillwire.errors import NotFoundError, SkillwireError
from skillwire.model.access import Access, Principal
from skillwire.model.catalog import Catalog
from skillwire.model.package import Package, PackageName, Status, is_namespace, state_in_index
from skillwire.model.skill import Skill
from skillwire.protocols.agent_skills.messages import VERSIONS, WELL_KNOWN, WELL_KNOWN_OLD, VersionList
from skillwire.protocols.agent_skills.server import (
    BlobResponse,
    CachePolicy,
    IndexResponse,
    ScopedPath,
    Site,
    VersionsResponse,
    artifact_at,
    artifacts_url,
    encode_indexes,
    encode_versions,
    read_scoped_path,
    version_entry,
)
from skillwire.registry.access import check_use, may_use
from skillwire.server.components import Protocol, RegistryComponents, Services, StaticView
from skillwire.server.openapi import CONDITION, PART, in_parts, kept
from skillwire.server.problems import NOT_FOUND, READ, Problem, ProblemError, other_method
from skillwire.server.responses import BlobSender
from skillwire.server.routes.registry_requests import moved, principal_of, registry_problem, tagged_answer
from skillwire.server.routing import Operation, RequestContext, Route


class PackagePath(NamedTuple):
    """What a path below ``/@`` means in the registry: a package, or without a ``name`` its whole namespace."""

    scoped: ScopedPath
    namespace: str
    name: str


class PackageSites:
    """Answers for scopes that are namespaces or packages; ``publisher`` is that of the folders."""

    def __init__(self, parts: RegistryComponents, base_url: str, publisher: str) -> None:
        self._registry = parts.registry
        self._downloads = parts.downloads
        self._base_url = base_url
        self._publisher = publisher

    async def find(self, context: RequestContext) -> PackagePath | None:
        """Return what the path means; None where the catalog answers. Raises ProblemError (308) for an old name."""
        scoped = read_scoped_path(context.path)
        if scoped is None or artifact_at(scoped.rest) is not None:
            return None
        scope, name, version, rest = scoped
        is_space = is_namespace(scope) and (name is not None or (rest != VERSIONS and version is None))
        namespace = await self._registry.store.namespace(scope) if is_space else None
        if namespace is not None:
            if namespace.renamed_to:
                path = f"/@{namespace.renamed_to}{context.path.removeprefix(f'/@{scope}')}"
                raise ProblemError(moved(context, quote(path, safe="/@"), namespace.renamed_to))
            file = rest.removeprefix(f"{WELL_KNOWN}/").removeprefix(f"{WELL_KNOWN_OLD}/")
            inside = "" if file == "index.json" else file.partition("/")[0].partition(".")[0]
            return PackagePath(scoped, scope, name or inside)
        skill = context.view.usable.skills.get(scope) if name is None else None
        if skill is None and name is None and version is None and rest == VERSIONS:  # each version may be withdrawn
            principal = principal_of(context)
            page, _ = await self._registry.find(principal, scope, PackageName("", scope), 1)
            return next((PackagePath(scoped, *one.name) for one in page if one.name.name == scope), None)
        if (
            skill is None
            or skill.publisher == self._publisher
            or (rest != VERSIONS and version in {None, skill.version})
        ):
            return None
        return PackagePath(scoped, skill.publisher, scope)

    async def respond(self, context: RequestContext, asked: PackagePath) -> ASGIApp | None:
        """Return the response, or send it. Raises NotFoundError, TrustError, ProblemError (308) for an old name."""
        scoped, path = asked.scoped, context.path
        if not asked.name:
            old = scoped.rest.startswith(f"{WELL_KNOWN_OLD}/")
            kept = context.view.indexes.get(path)
            return kept or await context.view.indexes.prepare(
                path, await self._index(context, asked.namespace, old=old)
            )
        principal = principal_of(context)
        package = await self._registry.package(principal, PackageName(asked.namespace, asked.name))
        if package.name != (asked.namespace, asked.name):
            new = f"/@{package.name}{'@' * bool(scoped.version)}{scoped.version or ''}{scoped.rest}"
            raise ProblemError(moved(context, quote(new, safe="/@"), str(package.name)))
        if scoped.rest == VERSIONS:
            check_use(principal, package)
            listed = await self._versions(principal, package, artifacts_url(path, self._base_url))
            return tagged_answer(encode_versions(listed))
        found = await self._registry.version(principal, package, scoped.version or "")
        answer = Site(Catalog.of([found.skill]), self._base_url).lookup(path)
        if isinstance(answer, IndexResponse):
            return tagged_answer(answer.encode())
        if not isinstance(answer, BlobResponse):
            return NOT_FOUND
        cache = CachePolicy.BRIEF if package.access is Access.PUBLIC else CachePolicy.PRIVATE
        await self._downloads.send(context, replace(answer, cache=cache), found.skill)
        return None

    async def send_artifact(self, context: RequestContext) -> bool:
        """Send the artifact that the path names by its digest, if a version has it; return whether one has.

        Raises TrustError where the caller may know of the version and not download it.
        """
        asked = artifact_at(context.path)
        if asked is None:
            return False
        try:
            package, found = await self._registry.by_artifact(principal_of(context), asked[0])
        except NotFoundError:
            return False
        if found.skill.artifact.extension == asked[1]:
            await self._downloads.send_artifact(context, package, found)
        return found.skill.artifact.extension == asked[1]

    async def _index(self, context: RequestContext, namespace: str, *, old: bool) -> IndexResponse:
        """Return the index of the packages of a namespace that the caller may use, each in its latest version."""
        store, principal = self._registry.store, principal_of(context)
        skills: dict[str, Skill] = {}
        after = ""
        while page := await store.packages(namespace, after, limits.REGISTRY_PAGE, grants=principal.grants):
            for package in page:
                name, latest = package.name.name, package.latest
                if not may_use(principal, package) or not latest or package.state.status is Status.QUARANTINED:
                    continue
                skill = context.view.usable.skills.get(name)  # the catalog has most of them
                if skill is None or (skill.publisher, skill.version) != (namespace, latest):
                    skill = await self._find_skill(principal, package)
                if skill is not None:
                    skills[name] = skill
            after = page[-1].name.name
        url = artifacts_url(context.path, self._base_url)
        return IndexResponse(skills, tuple(skills), url, old, cache=context.view.cache)

    async def _find_skill(self, principal: Principal, package: Package) -> Skill | None:
        """Return the latest version of a package as an index has it."""
        found = await self._registry.store.version(package.name, package.latest)
        [package] = await self._registry.shown(principal, [package])
        versions = await self._registry.shown(principal, [found] if found else [])
        return next((one.skill._replace(state=state_in_index(package.state, one.state)) for one in versions), None)

    async def _versions(self, principal: Principal, package: Package, artifacts: str) -> VersionList:
        [package] = await self._registry.shown(principal, [package])
        rows = [
            version_entry(one.skill, artifacts)._replace(
                published=one.published,
                published_by=one.publisher,
                status=one.state.status.value,
                reason=one.state.reason,
                successor=one.state.successor,
            )
            for one in await self._registry.shown(principal, await self._registry.store.versions(package.name))
        ]
        state = package.state
        return VersionList(
            *package.name, tuple(rows), package.latest, state.status.value, state.reason, state.successor
        )


class IndexedSkill(Struct, forbid_unknown_fields=True):
    """A row of an index; ``url`` is relative to the index unless the site has an address."""

    name: str
    type: Literal["skill-md", "archive"]
    description: str
    url: str
    digest: Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]
    version: str = ""
    files: list[str] = []
    capabilities: list[str] = []
    scenes: list[str] = []
    requires: list[str] = []


class SkillsIndexDocument(Struct, forbid_unknown_fields=True):
    """The index."""

    schema: str = field(name="$schema")
    skills: list[IndexedSkill]


class OldIndexedSkill(Struct, forbid_unknown_fields=True):
    """A row of an index of the first generation."""

    name: str
    description: str
    files: list[str]


class OldSkillsIndexDocument(Struct, forbid_unknown_fields=True):
    """The index of the first generation."""

    skills: list[OldIndexedSkill]


class VersionState(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Whether a version, or a whole skill, may be used; ``successor`` is the skill to use instead."""

    status: Literal["active", "archived", "deprecated", "yanked", "quarantined"]
    reason: str = ""
    successor: str = ""


class ListedVersion(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A version; ``url`` is that of its artifact. Times are seconds since the epoch."""

    version: str
    type: Literal["skill-md", "archive"]
    description: str
    url: str
    digest: Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]
    size: int
    status: VersionState
    published: float | None = None
    published_by: str = ""


class VersionsDocument(Struct, forbid_unknown_fields=True):
    """The versions of a skill, the highest first; ``latest`` is empty where none may be resolved."""

    publisher: str
    name: str
    latest: str
    status: VersionState
    versions: list[ListedVersion]


class AgentSkills(Protocol):
    """The protocol Agent Skills Discovery."""

    name = "Agent Skills Discovery"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of both versions, with and without a scope, and for clients that append to an index URL."""
        respond = _Answers(services).respond
        rows: list[Route] = []
        for scope in ("", "/@{scope}"):
            for base, index in ((WELL_KNOWN, SkillsIndexDocument), (WELL_KNOWN_OLD, OldSkillsIndexDocument)):
                rows += [
                    Route(f"{scope}{base}/{path}", respond, "file", methods=(), describes=operation)
                    for path, operation in _operations(index, ("scope",) if scope else ()).items()
                ]
        for names in (("skill",), ("namespace", "skill")):
            described = Operation("The versions of a skill", _VERSIONS, (*names, CONDITION))
            path = "/".join(f"{{{name}}}" for name in names)
            rows.append(Route(f"/@{path}{VERSIONS}", respond, "scope", methods=(), describes=described))
        return [
            *rows,
            *(Route(f"{path}{{rest:path}}", respond, "file", methods=()) for path in ("/.well-known/", "/@")),
        ]

    def error_table(self, error: SkillwireError) -> Problem:
        """Return the response that reports ``error`` of a registry; what is not there is answered alike everywhere."""
        return NOT_FOUND if isinstance(error, NotFoundError) else registry_problem(error)

    def static_files(self, view: StaticView) -> Mapping[str, bytes]:
        """Return every index."""
        site = Site(view.catalog, view.base_url)
        found = {
            path: answer for path in site.listing_paths() if isinstance(answer := site.lookup(path), IndexResponse)
        }
        return {path[1:]: body for path, body in zip(found, encode_indexes(found.values()), strict=True)}


class _Answers:
    def __init__(self, services: Services) -> None:
        parts = services.packages
        self._blobs = BlobSender(services.catalog.blobs)
        self._packages = PackageSites(parts, services.base_url, services.publisher) if parts else None

    async def respond(self, context: RequestContext) -> ASGIApp | None:
        """Return the response at a path of the site, or send it."""
        view, path = context.view, context.path
        if self._packages is not None and context.method in READ:
            context.label = "artifact"
            if await self._packages.send_artifact(context):
                return None
            context.label = "scope"
            if (asked := await self._packages.find(context)) is not None:
                return await self._packages.respond(context, asked)
        answer = view.lookup(path)
        if answer is None:
            if view.forbidden.lookup(path) is not None:
                raise context.forbidden(view.forbidden.skill_at(path))
            return NOT_FOUND
        if context.method not in READ:  # looked at only here: what is not there is a 404 whatever the method
            return other_method(context.method, READ)
        if isinstance(answer, IndexResponse | VersionsResponse):
            prepared = context.revision.prepared.get(path) if view.is_public else None
            context.label = "index" if prepared else "scope"
            return prepared or await view.indexes.prepare(path, answer)
        context.label = "artifact" if answer.cache is CachePolicy.FOREVER else "file"
        await self._blobs.send(answer, context.scope, context.send)
        return None


_ABSENT: Final = {"403": "Denied", "404": "NotFound"}
_VERSIONS: Final = {**kept(VersionsDocument), **_ABSENT}


def _operations(index: type[Struct], scope: tuple[str, ...]) -> dict[str, Operation]:
    """Return what each path of a generation answers; ``scope`` is the parameter that all of them have, if any."""
    whose = "a skill, a publisher or a scene" if scope else "all skills"
    archives = ("application/gzip", "application/zip")
    return {
        "index.json": Operation(f"The index of {whose}", kept(index) | _ABSENT, (*scope, CONDITION)),
        "sha256/{artifact}": Operation(
            "An artifact by its digest, immutable",
            in_parts("text/markdown", *archives) | _ABSENT,
            (*scope, "artifact", *PART),
        ),
        "{archive}": Operation("An archive", in_parts(*archives) | _ABSENT, (*scope, "archive", *PART)),
        "{skill}/{file:path}": Operation(
            "A file of a skill", in_parts("*/*") | _ABSENT, (*scope, "skill", "file", *PART)
        ),
    }
