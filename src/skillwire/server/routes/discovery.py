"""Agent Skills Discovery over HTTP: indexes, files and artifacts, under ``/.well-known/`` and ``/@SCOPE/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field
from starlette.types import ASGIApp

from skillwire.errors import NotFoundError, SkillwireError
from skillwire.protocols.agent_skills.messages import VERSIONS, WELL_KNOWN, WELL_KNOWN_OLD
from skillwire.protocols.agent_skills.server import CachePolicy, IndexResponse, Site, VersionsResponse, encode_indexes
from skillwire.server.components import Protocol, Services, StaticView
from skillwire.server.context import RequestContext
from skillwire.server.openapi import CONDITION, PART, in_parts, kept
from skillwire.server.package_sites import PackageSites
from skillwire.server.problems import NOT_FOUND, READ, Problem, other_method
from skillwire.server.responses import BlobSender
from skillwire.server.routes.registry_requests import registry_problem
from skillwire.server.routing import Operation, Route


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
