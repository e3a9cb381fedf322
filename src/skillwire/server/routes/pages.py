"""The pages, mounted: which page a path means, made off the event loop, compressed, with its header fields.

What pages are made with (templates, Markdown, a sanitiser) costs 7 MiB and a tenth of a second to import, so that
happens with the first request for one; a server that only agents talk to never pays.

A page takes a few milliseconds, one with a long text up to a second. Pages are made in threads, two at a time, so
that agents are answered meanwhile; the rendered texts are kept by artifact, within a bound.
"""

from __future__ import annotations

import asyncio
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog

from skillwire import limits
from skillwire.server.http import choose_coding, encode_fields, read_fields, site_of
from skillwire.server.problems import READ, method_not_allowed
from skillwire.server.responses import ByteCache, Page, redirect, send_page
from skillwire.web.address import way_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from skillwire.model.digest import Digest
    from skillwire.ports import BlobStore
    from skillwire.server.revision import Revision
    from skillwire.web.environment import Frame, Notice
    from skillwire.web.skill_page import SkillText


#: The list for browsers, and the registry's for programs.
_SHARED: Final = "/skills"
_SKILLS: Final = f"{_SHARED}/"
_ASSETS: Final = "/assets/"
_LIST: Final = "/"
_HITS: Final = "/hits"
_PAGES_AT_ONCE: Final = 2
#: How long a browser waits for the first catalog before it is told that it is being loaded.
_WAIT_SECONDS: Final = 1.0


class SkillPages:
    """Answers browsers.

    Args:
        current: returns the revision that is served, or None before the first.
        first: waits for the first revision, at most so many seconds.
        blobs: where the files of skills are.
        base_url: of the site, as the publisher set it; empty when not.
    """

    def __init__(
        self,
        current: Callable[[], Revision | None],
        first: Callable[[float], Awaitable[Revision | None]],
        blobs: BlobStore,
        base_url: str,
    ) -> None:
        self._current = current
        self._first = first
        self._blobs = blobs
        self._base_url = base_url
        self._texts: ByteCache[Digest, SkillText] = ByteCache(limits.PAGE_TEXT_CACHE_BYTES)
        self._texts_lock = threading.Lock()
        self._turn = asyncio.Semaphore(_PAGES_AT_ONCE)

    @staticmethod
    def owns(path: str) -> bool:
        """Whether ``path``, from the root of the site, is one of a page or of what pages need."""
        return path in {"", _LIST, _HITS, _SHARED} or path.startswith((_SKILLS, _ASSETS))

    @staticmethod
    def prefers(path: str, scope: Scope) -> bool:
        """Whether a path at which programs are told something is asked for by a browser."""
        return path == _SHARED and "text/html" in read_fields(scope["headers"], b"accept").get(b"accept", "")

    async def answer(self, path: str, scope: Scope, send: Send) -> None:
        """Answer a request for a path that :meth:`owns` accepted."""
        if scope["method"] not in READ:
            await method_not_allowed(scope["method"], ", ".join(READ)).send(send)
        elif path.startswith(_ASSETS):
            await self._send_asset(path.removeprefix(_ASSETS), scope, send)
        elif not path:
            await redirect(_LIST, HTTPStatus.PERMANENT_REDIRECT, scope, send)
        elif path == _SKILLS or (path.endswith("/") and await self._has(path.removeprefix(_SKILLS)[:-1])):
            await redirect(path[:-1], HTTPStatus.PERMANENT_REDIRECT, scope, send)
        else:
            await self._send_page(path, scope, send)

    async def absent(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer a browser where there is no page: at ``/NAME``, which is what people are told to add, lead to it."""
        name = scope["path"].removeprefix(scope.get("root_path", ""))[1:].removesuffix("/")
        if scope["method"] in READ and await self._has(name):
            await redirect(_SKILLS + name, HTTPStatus.SEE_OTHER, scope, send)
        else:
            await self._send_notice("absent", scope, send)

    async def _has(self, name: str) -> bool:
        """Whether there is a skill that everybody may see; others are answered as what is not there."""
        revision = self._current() or await self._first(_WAIT_SECONDS)
        return revision is not None and name in revision.catalog.skills

    async def _send_notice(self, notice: Notice, scope: Scope, send: Send) -> None:
        await send_page(await asyncio.to_thread(self._notice, notice, scope), scope, send)

    async def _send_page(self, path: str, scope: Scope, send: Send) -> None:
        revision = self._current() or await self._first(_WAIT_SECONDS)
        async with self._turn:
            try:
                page = await asyncio.to_thread(self._page, path, revision, scope)
            except Exception:  # noqa: BLE001  # whatever it is, the reader gets a page and the log the reason
                structlog.get_logger("skillwire").exception("a page could not be made", path=path)
                await self._send_notice("failed", scope, send)
                return
        await send_page(page, scope, send)

    async def _send_asset(self, name: str, scope: Scope, send: Send) -> None:
        from skillwire.web.assets import ASSET_FIELDS, assets  # noqa: PLC0415  # not needed at start-up

        asset = (await asyncio.to_thread(assets)).get(name)
        if asset is None:
            await self._send_notice("absent", scope, send)
            return
        coding = choose_coding(read_fields(scope["headers"], b"accept-encoding").get(b"accept-encoding", ""))
        body = asset.bodies[coding]
        own = {"Content-Type": asset.media_type, "Content-Length": str(len(body))}
        if coding != "identity":
            own["Content-Encoding"] = coding
        await send({"type": "http.response.start", "status": 200, "headers": encode_fields(own, ASSET_FIELDS)})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _page(self, path: str, revision: Revision | None, scope: Scope) -> Page:
        """Make the page at ``path``; in a thread."""
        if revision is None:
            return self._notice("loading", scope)
        if path in {_LIST, _HITS, _SHARED}:
            return self._list(revision, scope, part=path == _HITS)
        name, _, rest = path.removeprefix(_SKILLS).partition("/")
        folder, slash, file = rest.partition("/")
        is_good = not path.endswith("/") and (not rest or (folder == "files" and slash))
        if name not in revision.catalog.skills or not is_good:
            return self._notice("absent", scope)
        return self._file(revision, name, file, scope) if rest else self._skill(revision, name, scope)

    def _list(self, revision: Revision, scope: Scope, *, part: bool) -> Page:
        from skillwire.web.address import read_query  # noqa: PLC0415  # same
        from skillwire.web.list_page import list_page  # noqa: PLC0415  # with the first page, see above

        query = read_query(scope["query_string"])
        html, is_good = list_page(revision.catalog.skills, revision.search, query, self._frame(scope), part=part)
        return Page(HTTPStatus.OK if is_good else HTTPStatus.BAD_REQUEST, html)

    def _skill(self, revision: Revision, name: str, scope: Scope) -> Page:
        from skillwire.web.skill_page import read_text, skill_page  # noqa: PLC0415  # with the first page, see above

        skill = revision.catalog.skills[name]
        with self._texts_lock:
            text = self._texts.get(skill.artifact.digest)
        if text is None:
            text = read_text(skill, self._blobs)
            with self._texts_lock:
                self._texts.put(skill.artifact.digest, text, text.size)
        return Page(HTTPStatus.OK, skill_page(skill, text, self._frame(scope)))

    def _file(self, revision: Revision, name: str, path: str, scope: Scope) -> Page:
        from skillwire.web.skill_page import file_page  # noqa: PLC0415  # with the first page, see above

        skill = revision.catalog.skills[name]
        file = next((file for file in skill.files if file.path == path), None)
        if file is None:
            return self._notice("absent", scope)
        return Page(HTTPStatus.OK, file_page(skill, file, self._blobs, self._frame(scope)))

    def _notice(self, notice: Notice, scope: Scope) -> Page:
        from skillwire.web.environment import notice_page  # noqa: PLC0415  # with the first page, see above

        status = {"absent": HTTPStatus.NOT_FOUND, "loading": HTTPStatus.SERVICE_UNAVAILABLE}
        fields = {"Retry-After": "2"} if notice == "loading" else {}
        return Page(
            status.get(notice, HTTPStatus.INTERNAL_SERVER_ERROR), notice_page(notice, self._frame(scope)), fields
        )

    def _frame(self, scope: Scope) -> Frame:
        from skillwire.web.environment import Frame  # noqa: PLC0415  # with the first page, see above

        up = way_up(scope.get("raw_path") or scope["path"].encode(), scope.get("root_path", ""))
        return Frame(site_of(scope, self._base_url), up)
