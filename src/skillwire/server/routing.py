"""A row of the route table: a path, its methods, its handler, and what every request to it needs.

A handler gets a :class:`~skillwire.server.context.RequestContext` and returns the response: any ASGI application, or
None when it has sent one. Before it runs, the row authenticates the caller and waits for the first revision. A handler
that accepts credentials in the body authenticates itself; one that answers while skills are loaded does not wait.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette import routing
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from skillwire.errors import SkillwireError
from skillwire.server.context import RequestContext
from skillwire.server.http import CONTEXT
from skillwire.server.monitoring import RouteLabel
from skillwire.server.problems import READ, Preflight, Problem, problem_for

Handler = Callable[[RequestContext], Awaitable[ASGIApp | None]]


class Answer(NamedTuple):
    """An answer: its meaning, message types or schemas by media type, and the names of its header fields."""

    meaning: str
    content: Mapping[str, Any] = {}
    fields: tuple[str, ...] = ()


class Operation(NamedTuple):
    """What a method of a row does: answers by status (some by name), parameters by name, and what the body is."""

    summary: str
    answers: Mapping[str, Answer | str] = {}
    parameters: tuple[str, ...] = ()
    body: Mapping[str, Any] = {}


class Route(routing.Route):
    """A row of the route table: a path (a pattern of Starlette), its handler, and the label its requests count as.

    A row without a handler is described and never matches. With empty ``methods`` the handler checks the method itself.
    ``answers_preflight`` adds OPTIONS, which tells browsers what pages of other sites may send. ``authenticates`` and
    ``loads`` prepare the context before the handler runs. ``describes`` is for OpenAPI, by method where it has several.
    """

    def __init__(
        self,
        path: str,
        handler: Handler | None,
        label: RouteLabel,
        *,
        methods: Sequence[str] = READ,
        answers_preflight: bool = True,
        authenticates: bool = True,
        loads: bool = True,
        describes: Operation | Mapping[str, Operation] | None = None,
    ) -> None:
        self.allowed = (*methods, "OPTIONS") if answers_preflight and methods else tuple(methods)
        super().__init__(path, self.handle, methods=self.allowed or None, name=label)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$"), re.DOTALL)
        self.template = re.sub(r":\w+}", "}", path)
        self._handler = handler
        self.tag = ""
        main = "get" if not methods or "GET" in methods else methods[0].lower()
        self.operations = {main: describes} if isinstance(describes, Operation) else describes or {}
        self.label = label
        self.answers_preflight = answers_preflight
        self._authenticates = authenticates
        self._loads = loads
        self.error_table: Callable[[SkillwireError], Problem] = problem_for

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Take a path whatever the method is, so that a later row never answers for this one."""
        is_tried = self._handler is not None and scope["type"] == "http"
        found = self.path_regex.fullmatch(scope[CONTEXT].path) if is_tried else None
        return (Match.NONE, {}) if found is None else (Match.FULL, {"path_params": found.groupdict()})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises ProblemError (401, 429, 503), and HTTPException (405) for another method."""
        context: RequestContext = scope[CONTEXT]
        context.label, context.route = self.label, self.template
        context.parameters = scope["path_params"]
        is_allowed = not self.allowed or scope["method"] in self.allowed
        is_preflight = bool(self.allowed) and scope["method"] == "OPTIONS"
        if self._authenticates or not is_allowed or is_preflight:
            await context.authenticate()
        if self._handler is None:
            raise HTTPException(404)
        if not is_allowed:
            raise HTTPException(405, headers={"Allow": ", ".join(self.allowed)})
        response: ASGIApp | None
        if is_preflight:
            response = Preflight(self.allowed)
        else:
            if self._loads:
                await context.load()
            try:
                response = await self._handler(context)
            except SkillwireError as error:
                response = self.error_table(error)
        if response is not None:
            await response(scope, receive, send)


class RouteTable(routing.Router):
    """The rows of a server, in order. It tries only rows whose path begins like that of the request."""

    def __init__(self, routes: Sequence[Route], lifespan: Lifespan[Any]) -> None:
        super().__init__(routes, redirect_slashes=False, lifespan=lifespan)
        self._indexed: list[routing.BaseRoute] = []
        self._by_first: dict[str, list[routing.BaseRoute]] = {}

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the first row that matches its path."""
        possible = self._possible(_first_part(scope[CONTEXT].path)) if scope["type"] == "http" else ()
        for route in possible:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                await route.handle(scope, receive, send)
                return
        await super().app(scope, receive, send)  # for rows of the library: 405, where only the method is another

    def _possible(self, first: str) -> list[routing.BaseRoute]:
        """Return the rows whose paths may begin with this part, and those that take any."""
        if self._indexed != self.routes:
            self._indexed = list(self.routes)
            parts = [_first_part(getattr(route, "path", "") or "/{}") for route in self._indexed]
            self._by_first = {
                one: [route for route, part in zip(self._indexed, parts, strict=True) if part == one or "{" in part]
                for one in {*parts, "{"}
            }
        return self._by_first.get(first) or self._by_first["{"]


def _first_part(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]


class _ExecutionId(StringConvertor):
    regex = "exec-(?:[0-9a-f]{12})?[0-9a-f]{32}"


#: ``{name:execution}`` in a path stands for the ID of an execution.
register_url_convertor("execution", _ExecutionId())
