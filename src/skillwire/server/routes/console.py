"""The console of executions, tasks and the local network: its rows of the route table, and who may see which page.

Pages of skills are public; these are for people who signed in. They enter an API key once, at ``/login``, and get a
cookie (:mod:`skillwire.server.console_request`). A key with the scope ``operator`` sees and cancels every execution,
works the inbox and sees the local network; one with ``tasks`` works the inbox; any other sees its own executions.

``/executions/ID`` is also where programs ask for the status of an execution. A browser that asks for HTML there gets
the page (:meth:`ExecutionsConsole.prefers`). All other addresses are the console's alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.types import ASGIApp, Scope

from skillwire import limits
from skillwire.executions.view import ExecutionList, list_executions
from skillwire.model.access import OPERATOR
from skillwire.model.execution import ExecutionQuery
from skillwire.server.auth.authentication import has_credentials
from skillwire.server.console_pages import ConsolePages
from skillwire.server.console_request import console_routes
from skillwire.server.http import read_fields
from skillwire.server.openapi import JSON, problem
from skillwire.server.problems import READ, ProblemError, unauthenticated
from skillwire.server.quotas import caller_of
from skillwire.server.responses import private_json
from skillwire.server.routing import Answer, Operation, RequestContext, Route

LIST_PATH: Final = "/executions.json"
_UNAUTHENTICATED: Final = unauthenticated("sign in or send a key: operators get all executions, others their own")
_LIST: Final = Operation(
    "The newest executions: all for operators, their own for others",
    {
        "200": Answer("The list.", {JSON: ExecutionList}, ("Cache-Control", "Vary")),
        "401": problem("No session and no key were sent: `AUTH_REQUIRED`.", "WWW-Authenticate"),
    },
)

#: An ID, or the beginning of one that logs show.
_BEGINNING: Final = re.compile(r"/executions/(exec-[0-9a-f]{8,44})", re.ASCII)
_EXECUTION: Final = "/executions/{id:execution}"
_TASK: Final = "/inbox/{id:execution}"
_POST: Final = ("POST",)
#: Path, the method of :class:`~skillwire.server.console_pages.ConsolePages` that answers, and the HTTP methods.
_ROWS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
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


class ExecutionsConsole(ConsolePages):
    """Answers browsers about executions, tasks and the local network."""

    def routes(self) -> Sequence[Route]:
        """Return the rows of the console, but for ``/executions/ID``."""
        row = Route(LIST_PATH, self.send_list, "service", answers_preflight=False, loads=False, describes=_LIST)
        return [row, *console_routes(_ROWS, self.answer)]

    async def send_list(self, context: RequestContext) -> ASGIApp:
        """Return the newest executions to a program: to an operator all of them, to any other caller its own."""
        principal = context.principal
        if principal is None and (session := await self.sessions.find(context.scope)) is not None:
            principal = session.principal
        if principal is None:
            raise ProblemError(_UNAUTHENTICATED)
        caller = None if OPERATOR in principal.scopes else caller_of(principal, "")
        query = ExecutionQuery(caller=caller, limit=limits.CONSOLE_EXECUTIONS)
        found = await self._service.ledger.search(query)
        listed = list_executions(found.executions, await self._counted(query), self._clock())
        return private_json(msgspec.json.encode(listed))

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
        await self.answer("show_execution", context)

    async def is_operator(self, scope: Scope) -> bool:
        """Whether a browser is signed in as an operator."""
        session = await self.sessions.find(scope)
        return session is not None and OPERATOR in session.principal.scopes
