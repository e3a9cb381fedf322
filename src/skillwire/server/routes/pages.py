"""The public pages: made off the event loop, compressed, with their header fields.

What pages are made with (templates, Markdown, a sanitiser) costs 7 MiB and a tenth of a second to import, so
:mod:`skillwire.web` imports it with the first page; a server that only agents talk to never pays.

A page takes a few milliseconds, one with a long text up to a second. Pages are made in threads, two at a time, so
that agents are answered meanwhile; the rendered texts are kept by artifact, within a bound.
"""

from __future__ import annotations

import asyncio
import re
import threading
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import structlog

from skillwire import limits
from skillwire.registry.search import FACETS, skill_kind
from skillwire.server.http import choose_coding, encode_fields
from skillwire.server.openapi import CONDITION, HTML, JSON, KEPT, TEXT
from skillwire.server.problems import READ, STORAGE_PAUSE
from skillwire.server.responses import ByteCache, BytesResponse, Page, Redirect
from skillwire.server.routing import Answer, Operation, Route
from skillwire.web.address import read_query, way_up
from skillwire.web.assets import ASSET_FIELDS, LOGO_POLICY, assets
from skillwire.web.environment import Frame, notice_page
from skillwire.web.public_pages import (
    SkillAddresses,
    file_page,
    find_near,
    find_skills,
    list_page,
    read_text,
    skill_page,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from starlette.types import ASGIApp

    from skillwire.model.catalog import SearchQuery
    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore
    from skillwire.server.revision import Revision
    from skillwire.server.routing import Handler, RequestContext
    from skillwire.web.environment import Notice
    from skillwire.web.public_pages import CallPart, FoundSkills, Part, SkillText

    #: Answers with the call part of a skill's page, which is at a path and is rendered by a function.
    AnswerCall = Callable[[RequestContext, Skill, str, Callable[[CallPart, Frame], str]], Awaitable[ASGIApp]]

_SKILLS: Final = "/skills/"
_PAGES_AT_ONCE: Final = 2
#: How long a browser waits for the first catalog before it gets the page that says that it is being loaded.
PAGE_WAIT_SECONDS: Final = 1.0
_STATUSES: Final[dict[str, HTTPStatus]] = {
    "absent": HTTPStatus.NOT_FOUND,
    "loading": HTTPStatus.SERVICE_UNAVAILABLE,
    "storage": HTTPStatus.SERVICE_UNAVAILABLE,
    "failed": HTTPStatus.INTERNAL_SERVER_ERROR,
}


class SkillPages:
    """Answers browsers with what everyone may see; ``blobs`` hold the files of skills."""

    is_registry = False

    def __init__(self, blobs: BlobStore, answer_call: AnswerCall) -> None:
        self._blobs = blobs
        self._answer_call = answer_call
        self._texts: ByteCache[tuple[Digest, str], SkillText] = ByteCache(limits.PAGE_TEXT_CACHE_BYTES)
        self._texts_lock = threading.Lock()
        self._turn = asyncio.Semaphore(_PAGES_AT_ONCE)

    def routes(self) -> Sequence[Route]:
        """Return the rows of pages, but for ``/skills``, where programs get JSON."""
        page: dict[str, Answer | str] = {
            "200": Answer("A page.", {HTML: TEXT}, (*KEPT, "Content-Security-Policy")),
            "304": "NotModified",
            "503": Answer(
                "The skills are still being loaded, or the authorization server or the database does not answer.",
                {HTML: TEXT, JSON: "SharingError"},
                ("Retry-After",),
            ),
        }
        absent = {"404": Answer("There is no such page.", {HTML: TEXT})}
        listed = {**page, "400": Answer("A parameter is beyond its bounds.", {HTML: TEXT})}
        searched = ("words", *FACETS, "order", "after", CONDITION)
        asset = {"200": Answer("The file.", {"*/*": {}}, ("Cache-Control", "Content-Security-Policy")), **absent}
        found, file = {**page, **absent}, ("skill", "file", CONDITION)
        named = ("skill", CONDITION)
        rows: list[PageRow] = [
            ("/", self.list, Operation("The list of skills", listed, searched)),
            ("/hits", self.list, Operation("The results of a search, for the script of the page", listed, searched)),
            ("/assets/{asset:path}", self._asset, Operation("Styles and scripts", asset, ("asset",))),
            ("/skills/{skill}", self._skill, Operation("A skill", found, ("skill", CONDITION))),
            *(
                (f"/skills/{{skill}}/{part}", partial(self._skill, part=part), Operation(what, found, named))
                for part, what in STILL_PARTS.items()
            ),
            ("/skills/{skill}/files/{file:path}", self._file, Operation("A file with line numbers", found, file)),
            ("/skills/{rest:path}", self._slash, None),
        ]
        below = Route("/", self._root, "page", answers_preflight=False, loads=False)
        below.path_regex = re.compile("")  # where the site is mounted, without a slash
        return [below, call_route("/skills/{skill}/call", self._call, found, named), *page_routes(rows)]

    async def absent(self, context: RequestContext) -> ASGIApp:
        """Answer a browser where there is no page; ``/NAME``, as commands name a skill, leads to its page."""
        name = context.path[1:].removesuffix("/")
        if context.method in READ and await self._has(context, name):
            return Redirect(_SKILLS + name, HTTPStatus.SEE_OTHER)
        return await self.notice("absent", context)

    async def list(self, context: RequestContext) -> ASGIApp:
        """Answer with the list of skills, or the part of it that a search changes."""
        query = read_query(context.scope["query_string"])

        def make(revision: Revision, frame: Frame) -> Page:
            return listed_page(context, revision, query, find_skills(revision.search, query), frame)

        return await self._page(context, make)

    async def _skill(self, context: RequestContext, part: Part = "readme") -> ASGIApp:
        def make(revision: Revision, frame: Frame) -> str | None:
            skill = revision.catalog.skills.get(context.parameters["skill"])
            if skill is None:
                return None
            addresses = SkillAddresses.of(skill, frame)
            return skill_page(skill, self.text_of(skill, addresses), addresses, frame, part=part)

        return await self._page(context, make)

    async def _call(self, context: RequestContext) -> ASGIApp:
        revision = await context.find_revision(PAGE_WAIT_SECONDS)
        skill = revision.catalog.skills.get(context.parameters["skill"]) if revision else None
        if skill is None or skill_kind(skill) != "callable":
            return await self._page(context, lambda *_: None)

        def render(call: CallPart, frame: Frame) -> str:
            addresses = SkillAddresses.of(skill, frame)
            return skill_page(skill, self.text_of(skill, addresses), addresses, frame, part="call", call=call)

        return await self._answer_call(context, skill, f"skills/{skill.name}", render)

    def text_of(self, skill: Skill, addresses: SkillAddresses) -> SkillText:
        """Return what a page shows of a skill's files; for a thread."""
        key = skill.artifact.digest, addresses.page  # its links are relative to the page
        with self._texts_lock:
            text = self._texts.get(key)
        if text is None:
            text = read_text(skill, addresses, self._blobs.read)
            with self._texts_lock:
                self._texts.put(key, text, text.size)
        return text

    async def _file(self, context: RequestContext) -> ASGIApp:
        name, path = context.parameters["skill"], context.parameters["file"]
        if path.endswith("/"):
            return await self._slash(context)

        def make(revision: Revision, frame: Frame) -> str | None:
            skill = revision.catalog.skills.get(name)
            file = skill.find_file(path) if skill else None
            if skill is None or file is None:
                return None
            return file_page(skill, file, SkillAddresses.of(skill, frame), self._blobs.read, frame)

        return await self._page(context, make)

    async def _root(self, _: RequestContext) -> ASGIApp:
        return Redirect("/", HTTPStatus.PERMANENT_REDIRECT)

    async def _slash(self, context: RequestContext) -> ASGIApp:
        """Lead from ``/skills/`` and ``/skills/NAME/`` to the path without the slash."""
        path = context.path
        if path == _SKILLS or (path.endswith("/") and await self._has(context, path.removeprefix(_SKILLS)[:-1])):
            return Redirect(path[:-1], HTTPStatus.PERMANENT_REDIRECT)
        return await self._page(context, lambda *_: None)

    async def _asset(self, context: RequestContext) -> ASGIApp:
        name, logo = context.parameters["asset"], context.branding.logo
        if logo is not None and name == logo.name:
            own = {**ASSET_FIELDS, "Content-Type": logo.media_type, "Content-Security-Policy": LOGO_POLICY}
            return BytesResponse(HTTPStatus.OK, logo.content, encode_fields(own))
        asset = (await asyncio.to_thread(assets)).get(name)
        if asset is None:
            return await self.notice("absent", context)
        coding = choose_coding(context.fields(b"accept-encoding").get(b"accept-encoding", ""))
        own = {"Content-Type": asset.media_type}
        if coding != "identity":
            own["Content-Encoding"] = coding
        return BytesResponse(HTTPStatus.OK, asset.bodies[coding], encode_fields(own, ASSET_FIELDS))

    async def _has(self, context: RequestContext, name: str) -> bool:
        """Whether there is a skill that everyone may see; others are answered as what is not there."""
        revision = await context.find_revision(PAGE_WAIT_SECONDS)
        return revision is not None and name in revision.catalog.skills

    async def _page(self, context: RequestContext, make: Callable[[Revision, Frame], Page | str | None]) -> Page:
        """Return what ``make`` makes of the current revision."""
        revision = await context.find_revision(PAGE_WAIT_SECONDS)
        if revision is None:
            return await self.notice("loading", context)
        return await self.made(context, partial(make, revision))

    async def made(self, context: RequestContext, make: Callable[[Frame], Page | str | None]) -> Page:
        """Return the page that ``make`` makes in a thread; a notice where that is nothing, or fails."""
        async with self._turn:
            try:
                page = await asyncio.to_thread(lambda: make(self._frame(context)))
            except Exception:  # noqa: BLE001  # whatever it is, the reader gets a page and the log the reason
                structlog.get_logger("skillwire").exception("a page could not be made", path=context.path)
                return await self.notice("failed", context)
        if page is None:
            return await self.notice("absent", context)
        return page if isinstance(page, Page) else Page(HTTPStatus.OK, page)

    async def notice(self, notice: Notice, context: RequestContext) -> Page:
        """Return the page of a notice; of an absent skill with public ones of similar names."""
        fields = {"Retry-After": STORAGE_PAUSE} if _STATUSES[notice] == HTTPStatus.SERVICE_UNAVAILABLE else {}
        near = await self._near(context) if notice == "absent" else []
        html = await asyncio.to_thread(notice_page, notice, self._frame(context), near=near)
        return Page(_STATUSES[notice], html, fields)

    async def _near(self, context: RequestContext) -> Sequence[tuple[str, str]]:
        """Return the paths and names of public skills whose names resemble the one of the path."""
        parts = context.parameters
        names = (parts.get("package", "").partition("@")[0], parts.get("skill"), context.path.strip("/"))
        name = next((one for one in names if one), "")
        revision = await context.find_revision(0)
        if revision is None or not name or len(name) > limits.NAME_LENGTH or "/" in name:
            return ()
        async with self._turn:
            found = await asyncio.to_thread(find_near, revision.search, name)
        return [(f"skills/{one}", one) for one in found if one in revision.catalog.skills]

    def _frame(self, context: RequestContext) -> Frame:
        scope = context.scope
        up = way_up(scope.get("raw_path") or scope["path"].encode(), scope.get("root_path", ""))
        return Frame(context.site, up, is_registry=self.is_registry, brand=context.branding)


#: The parts of a skill's page that are the same for each caller, with their summaries.
STILL_PARTS: Final[Mapping[Part, str]] = {
    "files": "The files of a skill", "versions": "The versions of a skill", "security": "The findings about a skill",
}  # fmt: skip


def call_route(path: str, handler: Handler, answers: Mapping[str, Answer | str], named: tuple[str, ...]) -> Route:
    """Return the row of the page that calls a skill."""
    form = Operation("The form that calls a skill", answers, named)
    sent = {"303": Answer("The call is accepted."), "422": Answer("The inputs do not fit.", {HTML: TEXT})}
    posted = Operation("Call a skill by its form", {**answers, **sent}, named)
    operations = {"get": form, "post": posted}
    methods = (*READ, "POST")
    return Route(path, handler, "page", methods=methods, answers_preflight=False, loads=False, describes=operations)


PageRow = tuple[str, "Handler", "Operation | None"]


def page_routes(rows: Iterable[PageRow]) -> list[Route]:
    """Return the rows of pages."""
    return [
        Route(path, handler, "page", answers_preflight=False, loads=False, describes=operation)
        for path, handler, operation in rows
    ]


def listed_page(
    context: RequestContext, revision: Revision, query: SearchQuery, found: FoundSkills, frame: Frame, **more: Any
) -> Page:
    """Return a page of the list of skills; ``more`` is for :func:`skillwire.web.public_pages.list_page`."""
    html = list_page(
        revision.public_view.listed_usable.skills, found, query, frame, part=context.path == "/hits", **more
    )
    return Page(HTTPStatus.BAD_REQUEST if found.problem else HTTPStatus.OK, html)
