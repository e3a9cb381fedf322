"""The console of executions, tasks and the local network: its rows of the route table, and who may see which page.

Pages of skills are public; these are for people who signed in. They show an API key once, at ``/login``, and get a
cookie (:mod:`skillwire.server.sessions`). A key with the scope ``operator`` sees and cancels every execution, works the
inbox and sees the local network; one with ``tasks`` works the inbox; any other sees its own executions.

``/executions/ID`` is also where programs ask for the status of an execution. A browser that asks for HTML there gets
the page (:meth:`ExecutionsConsole.prefers`). All other addresses are the console's alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from skillwire.model.access import OPERATOR
from skillwire.server.auth.authentication import has_credentials
from skillwire.server.console_requests import CallerNames, ConsoleRequest, UnsentFormError
from skillwire.server.event_streams import PageStreams
from skillwire.server.http import read_fields
from skillwire.server.problems import READ
from skillwire.server.routing import Route
from skillwire.server.sessions import Sessions
from skillwire.server.sign_in import EXECUTIONS, INBOX, LAN, LOGIN, SignIn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import Scope

    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.console_pages import ExecutionPages, InboxPages, LanPages, LanSnapshots
    from skillwire.server.console_requests import ConsoleExecutions
    from skillwire.server.context import RequestContext
    from skillwire.server.routing import Handler
    from skillwire.web.environment import Notice

    Page = Callable[[ConsoleRequest, str], Awaitable[None]]

#: An ID, or the beginning of one that logs show.
_BEGINNING: Final = re.compile(r"/executions/(exec-[0-9a-f]{8,44})", re.ASCII)
_POST: Final = ("POST",)
_TASK_ACTIONS: Final = ("claim", "complete", "reject", "release")


class ExecutionsConsole:
    """Answers browsers about executions, tasks and the local network."""

    def __init__(
        self,
        desk: ConsoleExecutions,
        authentication: Authentication,
        *,
        base_url: str = "",
        has_skill: Callable[[str], bool] = lambda _: False,
        lan: LanSnapshots | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._desk = desk
        self._tokens = authentication.tokens
        self._has_skill = has_skill
        self._clock = clock
        self._lan = lan
        self._sign_in = SignIn(
            authentication, Sessions(authentication.tokens, clock), base_url, has_lan=lan is not None
        )
        self._streams = PageStreams(desk.changed)
        self._pages: tuple[ExecutionPages, InboxPages] | None = None
        self._lan_pages: LanPages | None = None

    def routes(self) -> Sequence[Route]:
        """Return the rows of the console, but for ``/executions/ID``."""
        one, task = f"{EXECUTIONS}/{{id:execution}}", f"{INBOX}/{{id:execution}}"

        def row(path: str, page: Page, methods: Sequence[str] = READ) -> Route:
            return Route(path, self._handler(page), "page", methods=methods, answers_preflight=False, loads=False)

        return [
            row(LOGIN, lambda request, _: self._sign_in.log_in(request), (*READ, *_POST)),
            row("/logout", lambda request, _: self._sign_in.log_out(request), (*READ, *_POST)),
            row(EXECUTIONS, self._signed_in(self._list)),
            row(f"{EXECUTIONS}/live", self._signed_in(self._follow_list)),
            row(f"{one}/live", self._signed_in(self._follow)),
            row(f"{one}/cancel", self._signed_in(self._cancel), _POST),
            row(f"{one}/inputs.json", self._signed_in(self._document("inputs"))),
            row(f"{one}/output.json", self._signed_in(self._document("output"))),
            row(INBOX, self._signed_in(self._inbox("show_list"))),
            row(f"{INBOX}/live", self._signed_in(self._inbox("follow_list"))),
            *(row(f"{task}/{action}", self._signed_in(self._inbox(action)), _POST) for action in _TASK_ACTIONS),
            row(task, self._signed_in(self._inbox("show"))),
            row(f"{INBOX}/{{rest:path}}", self._signed_in(self._inbox(""))),
            row(LAN, self._signed_in(self._show_lan)),
            row(f"{LAN}/live", self._signed_in(self._show_lan)),
        ]

    @staticmethod
    def prefers(path: str, scope: Scope) -> bool:
        """Whether a browser asks for the page of an execution where programs ask for its status."""
        return (
            scope["method"] in READ
            and _BEGINNING.fullmatch(path) is not None
            and "text/html" in read_fields(scope["headers"], b"accept").get(b"accept", "")
            and not has_credentials(scope["headers"])
        )

    async def show(self, context: RequestContext) -> None:
        """Answer with the page of an execution."""
        await context.authenticate()
        context.label = "page"
        await self._handler(self._signed_in(self._show))(context)

    async def is_operator(self, scope: Scope) -> bool:
        """Whether a browser is signed in as an operator."""
        session = await self._sign_in.session_of(scope)
        return session is not None and OPERATOR in session.principal.scopes

    def close(self) -> None:
        """End the streams of live pages, which would otherwise hold up the end of the server."""
        self._streams.close()
        if self._lan_pages is not None:
            self._lan_pages.close()

    def _handler(self, page: Page) -> Handler:
        """Return the handler that reads who is signed in and shows ``page``, or why a form is refused."""

        async def handle(context: RequestContext) -> None:
            request = await self._sign_in.read(context.path, context.scope, context.receive, context.send)
            try:
                await page(request, context.parameters.get("id") or context.path.rpartition("/")[2])
            except UnsentFormError as error:
                notice: Notice = "foreign" if error.status is HTTPStatus.FORBIDDEN else "unread"
                await _show_notice(notice, request, error.status)

        return handle

    def _signed_in(self, page: Page) -> Page:
        """Return ``page`` for people who are signed in; others are led to where they can."""

        async def show(request: ConsoleRequest, name: str) -> None:
            if request.session is not None:
                await page(request, name)
            elif request.path.endswith("/live"):
                await _show_notice("gone", request, HTTPStatus.FORBIDDEN)
            else:
                await self._sign_in.send_to_login(request)

        return show

    async def _list(self, request: ConsoleRequest, _: str) -> None:
        await (await self._made_pages())[0].show_list(request)

    async def _follow_list(self, request: ConsoleRequest, _: str) -> None:
        await (await self._made_pages())[0].follow_list(request, self._sign_in.still(request))

    async def _show(self, request: ConsoleRequest, execution_id: str) -> None:
        await (await self._made_pages())[0].show(request, execution_id)

    async def _follow(self, request: ConsoleRequest, execution_id: str) -> None:
        await (await self._made_pages())[0].follow(request, execution_id, self._sign_in.still(request))

    async def _cancel(self, request: ConsoleRequest, execution_id: str) -> None:
        await (await self._made_pages())[0].cancel(request, execution_id)

    def _document(self, which: str) -> Page:
        async def send(request: ConsoleRequest, execution_id: str) -> None:
            await (await self._made_pages())[0].send_document(request, execution_id, which)

        return send

    def _inbox(self, action: str) -> Page:
        """Return the page of the inbox that does ``action``; without one, there is no such task."""

        async def act(request: ConsoleRequest, task: str) -> None:
            pages = (await self._made_pages())[1]
            if not request.may_work:
                await _show_notice("denied", request, HTTPStatus.FORBIDDEN)
            elif not action:
                await _show_notice("gone", request, HTTPStatus.NOT_FOUND)
            elif action == "show_list":
                await pages.show_list(request)
            elif action == "follow_list":
                await pages.follow_list(request, self._sign_in.still(request))
            else:
                await getattr(pages, action)(request, task)

        return act

    async def _show_lan(self, request: ConsoleRequest, _: str) -> None:
        if self._lan is None:
            await _show_notice("no-lan", request, HTTPStatus.NOT_FOUND)
        elif not request.sees_all:
            await _show_notice("denied-lan", request, HTTPStatus.FORBIDDEN)
        else:
            if self._lan_pages is None:
                self._lan_pages = await asyncio.to_thread(_make_lan_pages, self._lan, self._clock)
            if request.path == LAN:
                await self._lan_pages.show(request)
            else:
                await self._lan_pages.follow(request, self._sign_in.still(request))

    async def _made_pages(self) -> tuple[ExecutionPages, InboxPages]:
        if self._pages is None:
            self._pages = await asyncio.to_thread(self._make_pages)
        return self._pages

    def _make_pages(self) -> tuple[ExecutionPages, InboxPages]:
        from skillwire.server.console_pages import ExecutionPages, InboxPages  # noqa: PLC0415  # with the first page

        callers = CallerNames(self._tokens)
        return (
            ExecutionPages(self._desk, callers, self._streams, self._has_skill, self._clock),
            InboxPages(self._desk, callers, self._streams, self._clock),
        )


def _make_lan_pages(lan: LanSnapshots, clock: Callable[[], float]) -> LanPages:
    from skillwire.server.console_pages import LanPages  # noqa: PLC0415  # with the first page

    return LanPages(lan, clock)


async def _show_notice(notice: Notice, request: ConsoleRequest, status: HTTPStatus) -> None:
    from skillwire.web.environment import notice_page  # noqa: PLC0415  # with the first page

    await request.show(await asyncio.to_thread(notice_page, notice, request.frame), status)
