"""The console of executions, tasks and the local network, mounted: which page a path means, and who may see it.

Pages of skills are everybody's; these are for people who signed in. They show an API key once, at ``/login``, and get a
cookie (:mod:`skillwire.server.sessions`). A key with the scope ``operator`` sees and cancels every
execution, works the inbox and sees the local network, one with ``tasks`` works the inbox, any other sees its own
executions.

``/executions/ID`` is the address at which programs ask how far an execution is, too; a browser that asks for HTML there
gets the page (:meth:`ExecutionsConsole.prefers`). All other addresses are the console's alone.
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
from skillwire.server.problems import READ, method_not_allowed
from skillwire.server.sessions import Sessions
from skillwire.server.sign_in import EXECUTIONS, INBOX, LAN, LOGIN, SignIn

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.console_pages import ExecutionPages, InboxPages, LanPages, LanSnapshots
    from skillwire.server.console_requests import ConsoleExecutions
    from skillwire.web.environment import Notice


_LOGOUT: Final = "/logout"
_LIVE: Final = "/live"
_ID: Final = "exec-(?:[0-9a-f]{12})?[0-9a-f]{32}"
#: One, or the beginning of its ID that logs tell.
_ONE: Final = re.compile(r"/executions/(exec-[0-9a-f]{8,44})", re.ASCII)
_PART: Final = re.compile(rf"/executions/({_ID})/(live|cancel|inputs\.json|output\.json)", re.ASCII)
_TASK: Final = re.compile(rf"/inbox/({_ID})(?:/(claim|complete|reject|release))?", re.ASCII)
_POST: Final = ("POST",)
#: The pages that are of no one execution and no one task.
PATHS: Final = frozenset({LOGIN, _LOGOUT, EXECUTIONS, EXECUTIONS + _LIVE, INBOX, LAN, LAN + _LIVE})


class ExecutionsConsole:
    """Answers browsers about executions and tasks.

    Args:
        desk: where executions are.
        authentication: knows the keys, and counts wrong ones.
        base_url: of the site, as the publisher set it; empty when not.
        has_skill: whether everybody may see the skill of this name, so that it has a page.
        lan: what the server does on the local network; None when it is not there.
        clock: seconds since the epoch.
    """

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

    @staticmethod
    def owns(path: str) -> bool:
        """Whether ``path``, from the root of the site, is one of the console alone."""
        return path in PATHS or path.startswith(f"{INBOX}/") or _PART.fullmatch(path) is not None

    @staticmethod
    def prefers(path: str, scope: Scope) -> bool:
        """Whether a path at which programs are told how far an execution is, is asked for by a browser."""
        return (
            scope["method"] in READ
            and _ONE.fullmatch(path) is not None
            and "text/html" in read_fields(scope["headers"], b"accept").get(b"accept", "")
            and not has_credentials(scope["headers"])
        )

    def is_operator(self, scope: Scope) -> bool:
        """Whether a browser is signed in as an operator; reads the tokens, so not on the event loop."""
        session = self._sign_in.session_of(scope)
        return session is not None and OPERATOR in session.principal.scopes

    def close(self) -> None:
        """End the streams of live pages, which would otherwise hold up the end of the server."""
        self._streams.close()
        if self._lan_pages is not None:
            self._lan_pages.close()

    async def answer(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a path that :meth:`owns` or :meth:`prefers` accepted."""
        allowed = _methods(path)
        if scope["method"] not in allowed:
            await method_not_allowed(scope["method"], ", ".join(allowed)).send(send)
            return
        request = await asyncio.to_thread(self._sign_in.read, path, scope, receive, send)
        try:
            await self._answer(path, request)
        except UnsentFormError as error:
            notice: Notice = "foreign" if error.status is HTTPStatus.FORBIDDEN else "unread"
            await _tell(notice, request, error.status)

    async def _answer(self, path: str, request: ConsoleRequest) -> None:
        if path == LOGIN:
            await self._sign_in.log_in(request)
        elif path == _LOGOUT:
            await self._sign_in.log_out(request)
        elif request.session is None and path.endswith(_LIVE):
            await _tell("gone", request, HTTPStatus.FORBIDDEN)
        elif request.session is None:
            await self._sign_in.send_to_login(request)
        elif path in {LAN, LAN + _LIVE}:
            await self._answer_lan(path, request)
        elif path.startswith(INBOX):
            await self._answer_inbox(path, request)
        else:
            await self._answer_executions(path, request)

    async def _answer_executions(self, path: str, request: ConsoleRequest) -> None:
        pages, _ = await self._made_pages()
        if one := _ONE.fullmatch(path):
            await pages.show(request, one[1])
        elif part := _PART.fullmatch(path):
            execution_id, what = part.groups()
            if what == "live":
                await pages.follow(request, execution_id, self._sign_in.still(request))
            elif what == "cancel":
                await pages.cancel(request, execution_id)
            else:
                await pages.send_document(request, execution_id, what.removesuffix(".json"))
        elif path == EXECUTIONS:
            await pages.show_list(request)
        else:
            await pages.follow_list(request, self._sign_in.still(request))

    async def _answer_inbox(self, path: str, request: ConsoleRequest) -> None:
        _, pages = await self._made_pages()
        task = _TASK.fullmatch(path)
        if not request.may_work:
            await _tell("denied", request, HTTPStatus.FORBIDDEN)
        elif path == INBOX:
            await pages.show_list(request)
        elif path == INBOX + _LIVE:
            await pages.follow_list(request, self._sign_in.still(request))
        elif task is None:
            await _tell("gone", request, HTTPStatus.NOT_FOUND)
        else:
            actions = {
                "claim": pages.claim,
                "complete": pages.complete,
                "reject": pages.reject,
                "release": pages.release,
            }
            await actions.get(task[2], pages.show)(request, task[1])

    async def _answer_lan(self, path: str, request: ConsoleRequest) -> None:
        if self._lan is None:
            await _tell("no-lan", request, HTTPStatus.NOT_FOUND)
        elif not request.sees_all:
            await _tell("denied-lan", request, HTTPStatus.FORBIDDEN)
        else:
            if self._lan_pages is None:
                self._lan_pages = await asyncio.to_thread(_make_lan_pages, self._lan, self._clock)
            if path == LAN:
                await self._lan_pages.show(request)
            else:
                await self._lan_pages.follow(request, self._sign_in.still(request))

    async def _made_pages(self) -> tuple[ExecutionPages, InboxPages]:
        if self._pages is None:
            self._pages = await asyncio.to_thread(self._make_pages)
        return self._pages

    def _make_pages(self) -> tuple[ExecutionPages, InboxPages]:
        from skillwire.server.console_pages import ExecutionPages, InboxPages  # noqa: PLC0415  # not needed at start-up

        callers = CallerNames(self._tokens)
        return (
            ExecutionPages(self._desk, callers, self._streams, self._has_skill, self._clock),
            InboxPages(self._desk, callers, self._streams, self._clock),
        )


def _make_lan_pages(lan: LanSnapshots, clock: Callable[[], float]) -> LanPages:
    from skillwire.server.console_pages import LanPages  # noqa: PLC0415  # with the first page

    return LanPages(lan, clock)


def _methods(path: str) -> tuple[str, ...]:
    """Return the methods that a path of the console has."""
    if path in {LOGIN, _LOGOUT}:
        return (*READ, *_POST)
    part, task = _PART.fullmatch(path), _TASK.fullmatch(path)
    acts = (part is not None and part[2] == "cancel") or (task is not None and task[2] is not None)
    return _POST if acts else READ


async def _tell(notice: Notice, request: ConsoleRequest, status: HTTPStatus) -> None:
    from skillwire.web.environment import notice_page  # noqa: PLC0415  # with the first page, see the other console

    await request.show(await asyncio.to_thread(notice_page, notice, request.frame), status)
