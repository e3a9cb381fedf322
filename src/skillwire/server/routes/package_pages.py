"""The pages of a registry: packages, their versions and files, differences, publishers, and the search over all.

Each page starts from the caller: a token in the request's fields, or the session of a signed-in person. What the caller
may not know of is answered as what is not there. A page for a principal is kept by no cache, and the same address
varies with its credentials. A version that may not be downloaded is described, without its content.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from skillwire import limits
from skillwire.errors import NotFoundError, TrustError
from skillwire.model.access import ANONYMOUS, Access, Principal
from skillwire.model.package import Package, PackageName, PackageVersion, read_package_name
from skillwire.protocols.agent_skills.messages import media_type
from skillwire.protocols.agent_skills.server import BlobResponse, CachePolicy
from skillwire.registry.access import is_member
from skillwire.registry.search import read_words, skill_kind
from skillwire.server.http import VARY
from skillwire.server.openapi import CONDITION, HTML, KEPT, TEXT, in_parts
from skillwire.server.problems import READ, ProblemError
from skillwire.server.responses import Page, Redirect
from skillwire.server.routes.pages import (
    PAGE_WAIT_SECONDS,
    STILL_PARTS,
    SkillPages,
    call_route,
    listed_page,
    page_routes,
)
from skillwire.server.routes.registry_requests import moved
from skillwire.server.routing import Answer, Handler, Operation, Route
from skillwire.server.transfers import first_day
from skillwire.web.address import read_query, single_fields
from skillwire.web.package_pages import (
    ShownPackage,
    ShownPublisher,
    difference_page,
    package_addresses,
    package_page,
    publisher_page,
    publishers_page,
)
from skillwire.web.public_pages import file_page, find_skills

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Scope

    from skillwire.model.catalog import SearchQuery
    from skillwire.model.skill import Skill, SkillFile
    from skillwire.ports import BlobStore
    from skillwire.server.components import RegistryComponents
    from skillwire.server.console_request import Session
    from skillwire.server.revision import Revision
    from skillwire.server.routes.pages import AnswerCall
    from skillwire.server.routing import RequestContext
    from skillwire.web.environment import Frame
    from skillwire.web.public_pages import CallPart, Part

    PageHandler = Callable[[RequestContext, Principal], Awaitable[ASGIApp | None]]

_VARY: Final = f"Accept, Cookie, {VARY}"
_FIELD_LENGTH: Final = 256
_FIELDS: Final = 8
_RANKED_SECONDS: Final = 60.0


class PackagePages(SkillPages):
    """The pages of a server that is a registry too; ``find_session`` returns the session of a request."""

    is_registry = True

    def __init__(
        self,
        blobs: BlobStore,
        parts: RegistryComponents,
        find_session: Callable[[Scope], Awaitable[Session | None]],
        answer_call: AnswerCall,
    ) -> None:
        super().__init__(blobs, answer_call)
        self._registry = parts.registry
        self._store = parts.registry.store
        self._downloads = parts.downloads
        self._find_session = find_session
        self._ranked: tuple[float, Mapping[str, Mapping[str, float]]] | None = None

    def routes(self) -> Sequence[Route]:
        """Return the rows of these pages, and those of skills."""
        package, named = "/packages/{namespace}/{package}", ("namespace", "package")
        found: dict[str, Answer | str] = {
            "200": Answer("A page.", {HTML: TEXT}, (*KEPT, "Content-Security-Policy")),
            "304": "NotModified",
            "404": Answer("There is no such page.", {HTML: TEXT}),
        }
        rows: list[tuple[str, PageHandler, str, Mapping[str, Any], tuple[str, ...]]] = [
            ("/publishers", self.publishers, "The publishers", found, ("after-name",)),
            ("/publishers/{namespace}", self.publisher, "A publisher", found, ("namespace", "after-name")),
            (package, self.package, "A package, or its version NAME@VERSION", found, (*named, "after-name")),
            *(
                (f"{package}/{part}", partial(self.package, part=part), what, found, (*named, "after-name"))
                for part, what in STILL_PARTS.items()
            ),
            (f"{package}/diff", self.difference, "The differences of two versions", found, (*named, "from", "to")),
            (f"{package}/files/{{file:path}}", self.version_file, "A file of a version", found, (*named, "file")),
            (f"{package}/raw/{{file:path}}", self.raw, "The bytes of a file", in_parts("*/*"), (*named, "file")),
        ]
        described = page_routes(
            (path, self._answering(handler), Operation(summary, answers, (*parameters, CONDITION)))
            for path, handler, summary, answers, parameters in rows
        )
        call = call_route(f"{package}/call", self._answering(self.call), found, named)
        return [*described, call, *super().routes()]

    async def absent(self, context: RequestContext) -> ASGIApp:
        """Answer where there is no page; ``/NAMESPACE/NAME``, as commands name a package, leads to its page."""
        name = read_package_name(context.path[1:].removesuffix("/"))
        if name and context.method in READ:
            with suppress(NotFoundError):
                package = await self._registry.package(await self._principal(context), name)
                return Redirect(f"/packages/{package.name}", HTTPStatus.SEE_OTHER)
        return await super().absent(context)

    async def list(self, context: RequestContext) -> ASGIApp:
        """Answer with the list of skills, with the states of packages, and with what else the caller may use."""
        revision = await context.find_revision(PAGE_WAIT_SECONDS)
        if revision is None:
            return await super().list(context)
        principal, query = await self._principal(context), read_query(context.scope["query_string"])
        found = await asyncio.to_thread(find_skills, revision.search, query, await self._ranks())
        others = await asyncio.to_thread(_matching, revision, principal, query) if principal.grants else []
        listed = revision.public_view.listed_usable.skills
        skills = [*(listed[name] for name in found.page.names), *others]
        packages = {
            (skill.publisher, skill.name): package for skill in skills if (package := await self._package_of(skill))
        }
        make = partial(listed_page, context, revision, query, found, packages=packages, others=others)
        return _varying(await self.made(context, make), principal)

    async def _ranks(self) -> Mapping[str, Mapping[str, float]]:
        """Return the values that sort packages, counted at most once a minute."""
        now = time.time()
        if not self._ranked or now - self._ranked[0] > _RANKED_SECONDS:
            self._ranked = now, await self._store.rank()
        return self._ranked[1]

    async def _skill(self, context: RequestContext, part: Part = "readme") -> ASGIApp:
        """Redirect from the page of a skill that is a package to the package's."""
        revision = await context.find_revision(PAGE_WAIT_SECONDS)
        skill = revision.catalog.skills.get(context.parameters["skill"]) if revision else None
        package = await self._package_of(skill) if skill else None
        if package is not None:
            end = "" if part == "readme" else f"/{part}"
            return Redirect(f"/packages/{package.name}{end}", HTTPStatus.SEE_OTHER)
        return await super()._skill(context, part)

    async def _package_of(self, skill: Skill) -> Package | None:
        return await self._store.package(PackageName(skill.publisher, skill.name))

    # --- packages

    async def package(self, context: RequestContext, principal: Principal, part: Part = "readme") -> ASGIApp:
        """Answer with the page of a package at its latest version, or at the one that is named."""
        package, version = await self._find(context, principal)
        render = await self._rendering(context, principal, package, version)
        return await self.made(context, partial(render, part=part))

    async def call(self, context: RequestContext, principal: Principal) -> ASGIApp:
        """Answer with the part of that page which calls the skill."""
        package, version = await self._find(context, principal)
        await self._open(principal, package, version)
        if skill_kind(version.skill) != "callable":
            raise NotFoundError("SKILL_NOT_FOUND", f"{package.name} is not called")
        render = await self._rendering(context, principal, package, version)
        page = f"packages/{package.name}@{quote(version.version)}"
        return await self._answer_call(
            context, version.skill, page, lambda call, frame: render(frame, part="call", call=call)
        )

    async def _rendering(
        self, context: RequestContext, principal: Principal, package: Package, version: PackageVersion
    ) -> Callable[..., str]:
        """Return a function for a thread that renders a part of a package's page."""
        refusal = ""
        try:
            await self._open(principal, package, version)
        except TrustError as error:
            refusal = error.message
        [package] = await self._registry.shown(principal, [package])
        [version] = await self._registry.shown(principal, [version])
        after = self._fields(context).get("after")
        versions, now = await self._store.versions(package.name), time.time()
        begin = next((index + 1 for index, one in enumerate(versions) if one.version == after), 0)
        shown = ShownPackage(
            package,
            await self._registry.namespace(package.name.namespace),
            version,
            versions[begin : begin + limits.PAGE_VERSIONS],
            await self._store.downloads(package.name, first_day(now)),
            now,
            has_older=begin + limits.PAGE_VERSIONS < len(versions),
            dependents=await self._store.dependents(package.name, limits.REGISTRY_PAGE, grants=principal.grants),
            refusal=refusal,
        )

        def make(frame: Frame, part: Part, call: CallPart = None) -> str:
            addresses = package_addresses(package, version, frame)
            text = None if refusal else self.text_of(version.skill, addresses)
            return package_page(shown, text, addresses, frame, part=part, call=call)

        return make

    async def difference(self, context: RequestContext, principal: Principal) -> ASGIApp:
        """Answer with the differences between the versions ``from`` and ``to``."""
        package, _ = await self._find(context, principal)
        fields = self._fields(context)
        old, new = [await self._registry.shown_version(package, fields.get(name, "")) for name in ("from", "to")]
        for version in (old, new):
            await self._open(principal, package, version)
        return await self.made(context, partial(difference_page, package, old, new, self._blobs))

    async def version_file(self, context: RequestContext, principal: Principal) -> ASGIApp:
        """Answer with the page of a file."""
        package, version, file = await self._find_file(context, principal)
        await self._downloads.restore(version.skill, [(file.digest, file.size)])

        def make(frame: Frame) -> str:
            return file_page(version.skill, file, package_addresses(package, version, frame), self._blobs.read, frame)

        return await self.made(context, make)

    async def raw(self, context: RequestContext, principal: Principal) -> None:
        """Send the bytes of a file."""
        package, version, file = await self._find_file(context, principal)
        never_changes = package.access is Access.PUBLIC and "@" in context.parameters["package"]
        cache = CachePolicy.FOREVER if never_changes else CachePolicy.PRIVATE
        response = BlobResponse(media_type(file.path), cache, file.digest, file.size)
        await self._downloads.send(context, response, version.skill)

    async def _find(self, context: RequestContext, principal: Principal) -> tuple[Package, PackageVersion]:
        """Return what the path names. Raises NotFoundError, ProblemError (308 for a renamed package)."""
        name, mark, wanted = context.parameters["package"].partition("@")
        asked = PackageName(context.parameters["namespace"], name)
        package = await self._registry.package(principal, asked)
        if package.name != asked:
            rest = quote(context.path.removeprefix(f"/packages/{asked}"), safe="/@+")
            raise ProblemError(moved(context, f"/packages/{package.name}{rest}", str(package.name)))
        return package, await self._registry.shown_version(package, wanted or mark)

    async def _find_file(
        self, context: RequestContext, principal: Principal
    ) -> tuple[Package, PackageVersion, SkillFile]:
        package, version = await self._find(context, principal)
        if "@" not in context.parameters["package"]:
            await self._registry.version(principal, package)  # refuses the highest one where none is resolved
        await self._registry.version(principal, package, version.version)  # refuses one that may not be downloaded
        file = version.skill.find_file(context.parameters["file"])
        if file is None:
            raise NotFoundError("FILE_NOT_FOUND", f"{package.name} has no such file")
        return package, version, file

    async def _open(self, principal: Principal, package: Package, version: PackageVersion) -> None:
        """Make the files of a version readable. Raises TrustError for one that ``principal`` may not download."""
        await self._registry.version(principal, package, version.version)
        await self._downloads.restore(version.skill, [(file.digest, file.size) for file in version.skill.files])

    # --- publishers

    async def publishers(self, context: RequestContext, _: Principal) -> ASGIApp:
        """Answer with a page of the publishers."""
        found = await self._store.namespaces(self._fields(context).get("after", ""), limits.PAGE_SKILLS + 1)
        shown = found[: limits.PAGE_SKILLS]
        after = shown[-1].name if len(found) > len(shown) else None
        return await self.made(context, partial(publishers_page, shown, after, time.time()))

    async def publisher(self, context: RequestContext, principal: Principal) -> ASGIApp:
        """Answer with the page of a publisher and a page of its packages."""
        asked, after = context.parameters["namespace"], self._fields(context).get("after", "")
        namespace = await self._registry.namespace(asked)
        if namespace.name != asked:
            raise ProblemError(moved(context, f"/publishers/{namespace.name}", namespace.name))
        found, following = await self._registry.packages(principal, asked, after, limits.PAGE_SKILLS)
        packages = [(one, await self._registry.shown_version(one)) for one in found]
        members = await self._store.members(asked) if is_member(principal, asked) else {}

        shown = ShownPublisher(namespace, packages, members, following, time.time())
        return await self.made(context, partial(publisher_page, shown))

    # --- what all of them need

    def _answering(self, handler: PageHandler) -> Handler:
        """Return the handler of a row, whose answer depends on the caller."""

        async def answer(context: RequestContext) -> ASGIApp | None:
            principal = await self._principal(context)
            try:
                found = await handler(context, principal)
            except NotFoundError:
                found = await self.notice("absent", context)
            except TrustError:  # the page of the version says why
                return Redirect("/".join(context.path.split("/")[:4]), HTTPStatus.SEE_OTHER)
            return _varying(found, principal) if isinstance(found, Page) else found

        return answer

    async def _principal(self, context: RequestContext) -> Principal:
        """Return the caller: of the request's credentials, or else of its session."""
        session = None if context.principal else await self._find_session(context.scope)
        if session is None or not session.principal.account:
            return context.principal or (session.principal if session else ANONYMOUS)
        return await self._registry.authorize(session.principal)

    @staticmethod
    def _fields(context: RequestContext) -> Mapping[str, str]:
        return single_fields(context.scope["query_string"], _FIELDS, _FIELD_LENGTH)


def _varying(answer: Page, principal: Principal) -> Page:
    """Return a page with the header fields of one that depends on the caller."""
    return replace(answer, fields={**answer.fields, "Vary": _VARY}, is_private=principal != ANONYMOUS)


def _matching(revision: Revision, principal: Principal, query: SearchQuery) -> list[Skill]:
    """Return the skills that ``principal`` may use and that are not public, where they match the first page's words."""
    if query.after or query.facets:
        return []
    words = read_words(query.text).words
    granted = revision.listed_guarded.usable_by(principal).skills.values()
    fitting = (
        skill
        for skill in granted
        if all(word in f"{skill.publisher} {skill.name} {skill.description}".lower() for word in words)
    )
    return list(islice(fitting, limits.PAGE_SKILLS))
