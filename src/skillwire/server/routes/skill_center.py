"""The SkillCenter over HTTP: lists, details, search and downloads of the skills that a caller may use. Spec: SDP §7.

Each view has one :class:`~skillwire.registry.skill_center.CenterIndex`, which is made with the first search of the
view. On a server without a registry ``/api/v1/skills`` is the same; on a registry, ClawHub's API has this path. A list
with ``?type=`` is one of Skill Sharing, which asks its registries so (SSP §4.2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
from starlette.types import ASGIApp

from skillwire.errors import DecodeError, NotFoundError, SkillwireError, UsageError, ValidationError
from skillwire.model.catalog import SearchPage
from skillwire.model.package import PackageName
from skillwire.model.skill import Skill
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.agent_skills.server import BlobResponse
from skillwire.protocols.skill_discovery.center import (
    SKILLS,
    CenterDetails,
    CenterList,
    CenterSearch,
    center_details,
    center_id,
    center_skill,
)
from skillwire.registry.skill_center import CenterIndex, list_names
from skillwire.server.components import Protocol, Services
from skillwire.server.openapi import CONDITION, PART, in_parts, kept, listed, reference
from skillwire.server.problems import READ, Problem, problem_for
from skillwire.server.responses import BlobSender, json_response
from skillwire.server.revision import AccessView, IndexCache, SiteUrlBody
from skillwire.server.routes.registry_requests import (
    ARCHIVES,
    principal_of,
    read_page,
    read_query,
    read_request,
    registry_problem,
    tagged_answer,
)
from skillwire.server.routes.sharing import SharingAnswers, SkillSharing
from skillwire.server.routing import Answer, Handler, Operation, RequestContext, Route, SiteUrlCache

_PAGED: Final = ("limit", "after")
_ALIAS: Final = "/api/v1/skills"
#: Codes of the registry → those of SDP §12.1.
_CODES: Final = {"PACKAGE_NOT_FOUND": "DISC_002", "VERSION_NOT_FOUND": "DISC_002", "QUARANTINED": "DISC_006"}
_ABSENT: Final = {"403": "CenterUnavailable", "404": "CenterNotFound"}
_LIST: Final = Operation(
    "List the skills of the SkillCenter",
    {**kept({"anyOf": [CenterList, listed(reference("schemas", "SkillIndexEntry"))]}), "400": "CenterQuery"},
    ("after", "rows", "type", CONDITION),
)
_SEARCH: Final = Operation(
    "Search the SkillCenter",
    {
        "200": Answer("A page of the skills that pass all criteria.", {JSON: CenterList}, ("Cache-Control",)),
        "400": "BadRegistryRequest",
        "413": "RegistryTooLarge",
    },
    body={JSON: CenterSearch},
)
_DETAILS: Final = Operation("The details of a skill", {**kept(CenterDetails), **_ABSENT}, ("center-skill", CONDITION))
_NAMED_SEARCH: Final = _DETAILS._replace(summary="The details of a skill named search", parameters=(CONDITION,))
_DOWNLOAD: Final = Operation(
    "The artifact of a skill",
    {**in_parts(*ARCHIVES, "text/markdown"), "400": "BadQuery", **_ABSENT},
    ("center-skill", "download-version", *PART),
)


class SkillCenter(Protocol):
    """The HTTP API of the Skill Discovery Protocol."""

    name = "SkillCenter"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return its rows."""
        answers = _Answers(services)
        rows: list[tuple[str, Handler, tuple[str, ...], Operation | dict[str, Operation]]] = [
            ("", answers.list, READ, _LIST),
            ("/search", answers.search, (*READ, "POST"), {"post": _SEARCH, "get": _NAMED_SEARCH}),
            ("/{skill}", answers.details, READ, _DETAILS),
            ("/{skill}/download", answers.download, READ, _DOWNLOAD),
        ]
        return [
            Route(f"{base}{path}", handler, "service", methods=methods, describes=described if base == SKILLS else None)
            for base in ((SKILLS, _ALIAS) if services.packages is None else (SKILLS,))
            for path, handler, methods, described in rows
        ]

    def error_table(self, error: SkillwireError) -> Problem:
        """Return the response that reports ``error``: in the terms of SDP §12.1 where they have one."""
        if isinstance(error, DecodeError | UsageError | ValidationError):
            return problem_for(error)
        problem = registry_problem(error)
        if (code := _CODES.get(problem.code)) is None:
            return problem
        return Problem(problem.status, code, problem.message, {**problem.details, "reason": error.code})


class _Answers:
    def __init__(self, services: Services) -> None:
        self._packages = services.packages
        self._publisher = services.publisher  # of the folders
        self._sharing = SharingAnswers(services)
        self._blobs = BlobSender(services.catalog.blobs)
        self._documents = SiteUrlCache(services.base_url)
        self._indexes: WeakKeyDictionary[IndexCache, CenterIndex] = WeakKeyDictionary()
        self._turn = asyncio.Lock()

    async def _index(self, context: RequestContext) -> CenterIndex:
        async with self._turn:  # requests that wait find what the first one made
            everyone = await self._made(context.revision.public_view)
            return everyone if context.view.is_public else await self._made(context.view, everyone)

    async def _made(self, view: AccessView, below: CenterIndex | None = None) -> CenterIndex:
        if (found := self._indexes.get(view.indexes)) is None:
            found = await asyncio.to_thread(lambda: CenterIndex(view.listed.skills, view.listed_usable.skills, below))
            self._indexes[view.indexes] = found
        return found

    async def _find(self, context: RequestContext) -> tuple[str, Skill]:
        """Return the skill that the path names, and its name in lists.

        Raises NotFoundError (``DISC_002``), ProblemError (401, 403).
        """
        skill_id, view = context.parameters["skill"], context.view
        name, skill = skill_id, view.listed.skills.get(skill_id)
        if skill is None or center_id(skill) != skill_id:
            name = (await self._index(context)).name_of(skill_id)
            skill = view.listed.skills.get(name)
        if skill is None:
            fix = f"List the skills: GET {SKILLS}."
            raise NotFoundError("DISC_002", f"no skill has the ID {ascii(skill_id)[:150]}", fix=fix)
        if name not in view.listed_usable.skills:
            raise context.forbidden(skill.name)
        return name, skill

    async def list(self, context: RequestContext) -> ASGIApp:
        """Answer a page of all skills; with ``?type=`` the list that Skill Sharing asks a registry for."""
        after, limit = read_page(context)
        query = read_query(context)
        if "type" in query:
            if after:
                raise UsageError("QUERY", "the list of a type has one page")
            try:
                return await self._sharing.entries(context)
            except UsageError as error:
                return SkillSharing().error_table(error)
        page = list_names(tuple(context.view.listed_usable.skills), limit, after or None)
        made = SiteUrlBody(page.names, partial(self._encode, context, page), context.view.cache)
        # The fast path looks for what the request says; both parameters are bounded.
        asked = "&".join(f"{name}={query[name]}" for name in query if name in _PAGED)
        return await self._documents.respond(context, f"{context.path}?{asked}".rstrip("?"), made)

    async def search(self, context: RequestContext) -> ASGIApp:
        """Answer a page of the skills that pass all criteria; to GET the details of a skill of this name."""
        if context.method != "POST":
            context.parameters = {"skill": "search"}
            return await self.details(context)
        asked = await read_request(context, CenterSearch)
        index, revision = await self._index(context), context.revision

        def find() -> bytes:
            return self._encode(context, index.search(asked, revision.number, revision.search.rank))

        # Clients keep it for when the SkillCenter does not answer. Spec: SDP §13.2 (skillCenter.cache).
        fields = {"Cache-Control": context.view.cache.value}
        return json_response(await asyncio.to_thread(find), 200, JSON, **fields)

    def _encode(self, context: RequestContext, page: SearchPage) -> bytes:
        skills = context.view.listed_usable.skills
        rows = [center_skill(skills[name], context.site, _page(name)) for name in page.names]
        return msgspec.json.encode(CenterList(page.total, rows, page.next))

    async def details(self, context: RequestContext) -> ASGIApp:
        """Answer the details of a skill."""
        if context.view.is_public:
            known = context.revision.answers.details(context.parameters["skill"], context.site)
            if known is not None:
                return known
        name, skill = await self._find(context)
        return tagged_answer(center_details(skill, context.site, _page(name)))

    async def download(self, context: RequestContext) -> None:
        """Send the artifact of a skill, on a registry that of any version, and count it there."""
        (_, skill), version = await self._find(context), read_query(context).get("version", "")
        artifact = skill.artifact
        response = BlobResponse(artifact.media_type, context.view.cache, artifact.digest, artifact.size)
        name = PackageName(skill.publisher, skill.name)
        if self._packages is not None and skill.publisher != self._publisher:
            registry, principal = self._packages.registry, principal_of(context)
            package = await registry.package(principal, name)
            found = await registry.version(principal, package, version or skill.version)
            if version:
                await self._packages.downloads.send_artifact(context, package, found)
            else:
                await self._packages.downloads.send(context, response, skill)
                self._packages.downloads.count(context, name, skill.version)
        elif version in {"", skill.version}:
            await self._blobs.send(response, context.scope, context.send)
        else:
            raise NotFoundError("VERSION_NOT_FOUND", f"{skill.name} has no version {ascii(version)[:80]}")


def _page(name: str) -> str:
    """Return the path of a namespaced package's page; empty for other skills."""
    return f"packages/{name}" if "/" in name else ""
