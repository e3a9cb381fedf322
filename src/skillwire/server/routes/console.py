"""The console of executions, tasks and the local network: its rows of the route table, and who may see which page.

Pages of skills are public; these are for people who signed in. They enter an API key once, at ``/login``, and get a
cookie (:mod:`skillwire.server.sessions`). A key with the scope ``operator`` sees and cancels every execution, works the
inbox and sees the local network; one with ``tasks`` works the inbox; any other sees its own executions.

``/executions/ID`` is also where programs ask for the status of an execution. A browser that asks for HTML there gets
the page (:meth:`ExecutionsConsole.prefers`). All other addresses are the console's alone. The pages load with the first
request for one, since many servers show none.
"""

from __future__ import annotations

import asyncio
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from skillwire.model.access import OPERATOR
from skillwire.server.auth.authentication import Authentication, has_credentials
from skillwire.server.http import read_fields
from skillwire.server.problems import READ
from skillwire.server.routing import Route
from skillwire.server.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from starlette.types import Scope

    from skillwire.server.account_pages import AccountPages
    from skillwire.server.components import RegistryComponents, Services
    from skillwire.server.console_pages import ConsolePages
    from skillwire.server.console_request import LanSnapshots
    from skillwire.server.context import RequestContext
    from skillwire.server.execution_service import ExecutionService

#: An ID, or the beginning of one that logs show.
_BEGINNING: Final = re.compile(r"/executions/(exec-[0-9a-f]{8,44})", re.ASCII)
_EXECUTION: Final = "/executions/{id:execution}"
_TASK: Final = "/inbox/{id:execution}"
_POST: Final = ("POST",)
Row = tuple[str, str, tuple[str, ...]]
#: Path, the method of :class:`~skillwire.server.console_pages.ConsolePages` that answers, and the HTTP methods.
_ROWS: Final[tuple[Row, ...]] = (
    ("/login", "log_in", (*READ, *_POST)),
    ("/logout", "log_out", (*READ, *_POST)),
    ("/executions", "list_executions", READ),
    ("/executions/live", "list_executions", READ),
    (f"{_EXECUTION}/live", "show_execution", READ),
    (f"{_EXECUTION}/cancel", "cancel", _POST),
    (f"{_EXECUTION}/inputs.json", "send_document", READ),
    (f"{_EXECUTION}/output.json", "send_document", READ),
    ("/inbox", "list_tasks", READ),
    ("/inbox/live", "list_tasks", READ),
    (f"{_TASK}/claim", "claim", _POST),
    (f"{_TASK}/complete", "complete", _POST),
    (f"{_TASK}/reject", "reject", _POST),
    (f"{_TASK}/release", "release", _POST),
    (_TASK, "show_task", READ),
    ("/inbox/{rest:path}", "no_task", READ),
    ("/lan", "show_lan", READ),
    ("/lan/live", "show_lan", READ),
)
#: The same of :class:`~skillwire.server.account_pages.AccountPages`.
_ACCOUNT_ROWS: Final[tuple[Row, ...]] = (
    ("/account", "show", READ),
    ("/account/tokens", "make_token", _POST),
    ("/account/tokens/{token}/revoke", "revoke", _POST),
    ("/account/device", "device", (*READ, *_POST)),
    ("/account/setup", "set_up", (*READ, *_POST)),
    ("/account/sign-in", "sign_in", READ),
    ("/account/sign-in/answer", "finish_sign_in", READ),
    ("/account/new", "make_account", (*READ, *_POST)),
)


class ExecutionsConsole:
    """Answers browsers about executions, tasks and the local network."""

    def __init__(
        self,
        service: ExecutionService,
        authentication: Authentication,
        *,
        base_url: str = "",
        has_skill: Callable[[str], bool] = lambda _: False,
        lan: LanSnapshots | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.sessions = Sessions(authentication.tokens, clock, base_url)
        self._pages: ConsolePages | None = None

        def make_pages() -> ConsolePages:
            from skillwire.server.console_pages import ConsolePages  # noqa: PLC0415  # templates, which many never show

            return ConsolePages(
                service,
                authentication,
                self.sessions,
                base_url=base_url,
                has_skill=has_skill,
                lan=lan,
                clock=clock,
            )

        self._make_pages = make_pages

    def routes(self) -> Sequence[Route]:
        """Return the rows of the console, but for ``/executions/ID``."""
        return page_routes(_ROWS, self._answer)

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
        await self._answer("show_execution", context)

    async def is_operator(self, scope: Scope) -> bool:
        """Whether a browser is signed in as an operator."""
        session = await self.sessions.find(scope)
        return session is not None and OPERATOR in session.principal.scopes

    def close(self) -> None:
        """End the streams of live pages, which would otherwise delay the end of the server."""
        if self._pages is not None:
            self._pages.close()

    async def _answer(self, page: str, context: RequestContext) -> None:
        if self._pages is None:
            self._pages = await asyncio.to_thread(self._make_pages)
        await self._pages.answer(page, context)


class AccountConsole:
    """Answers browsers about the accounts of a registry, with the sessions of the console."""

    def __init__(self, services: Services, parts: RegistryComponents) -> None:
        self._pages: AccountPages | None = None

        def make_pages() -> AccountPages:
            from skillwire.server.account_pages import AccountPages  # noqa: PLC0415  # same

            sessions, has_lan = services.console.sessions, services.lan is not None
            return AccountPages(parts, services.authentication, sessions, base_url=services.base_url, has_lan=has_lan)

        self._make_pages = make_pages

    def routes(self) -> Sequence[Route]:
        """Return the rows of the pages of accounts."""
        return page_routes(_ACCOUNT_ROWS, self._answer)

    async def _answer(self, page: str, context: RequestContext) -> None:
        if self._pages is None:
            self._pages = await asyncio.to_thread(self._make_pages)
        await self._pages.answer(page, context)


def page_routes(rows: Iterable[Row], answer: Callable[[str, RequestContext], Awaitable[None]]) -> list[Route]:
    """Return the rows of pages; ``answer`` gets the name of the page that a row is for."""

    def route(path: str, page: str, methods: Sequence[str]) -> Route:
        return Route(path, partial(answer, page), "page", methods=methods, answers_preflight=False, loads=False)

    return [route(*one) for one in rows]
