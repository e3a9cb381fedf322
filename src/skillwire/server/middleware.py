"""What happens to every request: its context is made; its response is sent whatever happens, counted, and logged."""

from __future__ import annotations

import time
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from skillwire import limits
from skillwire.errors import StorageError, one_line
from skillwire.executions.view import without_ids
from skillwire.server.components import Services
from skillwire.server.http import CONTEXT, LOGGED, Fields, Origins, RequestIds, is_own_name
from skillwire.server.monitoring import Metrics, RouteLabel
from skillwire.server.problems import (
    INTERNAL,
    NOT_FOUND,
    OTHER_HOST,
    URL_TOO_LONG,
    Problem,
    ProblemError,
    method_not_allowed,
    storage_problem,
)
from skillwire.server.routing import RequestContext, ResponseRecorder
from skillwire.wire.tracing import TraceContext, duration_histogram, is_loaded, open_span

#: Methods that metrics and spans name; clients may invent others.
_METHODS: Final = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})


class Outcome(NamedTuple):
    """How a request was answered: what it is counted as, status, bytes of the body, seconds."""

    label: RouteLabel
    status: int
    sent: int
    seconds: float


class RequestLog:
    """Counts each request in ``metrics``, and logs it unless ``is_on`` says otherwise."""

    def __init__(self, metrics: Metrics, *, is_on: bool) -> None:
        self._metrics = metrics
        self._is_on = is_on
        self._log = structlog.get_logger("skillwire.access")

    def record(
        self,
        method: str,
        path: str,
        outcome: Outcome,
        client: tuple[str, int] | None,
        fields: Fields | None = None,
    ) -> None:
        """Record a request that was answered; its ``fields`` name it where the log's context does not."""
        self._metrics.count(*outcome)
        if self._is_on:
            self._log.info(
                "request",
                method=method,
                path=_shown(path),  # never the query, which may carry a secret
                status=outcome.status,
                bytes=outcome.sent,
                ms=round(outcome.seconds * 1000, 2),
                client=client[0] if client else None,
                **({} if fields is None else RequestIds(fields).in_logs()),
            )


class RequestMiddleware:
    """Makes the context of each request and records its response. A failure of ours is logged and answered with 500."""

    def __init__(self, app: ASGIApp, services: Services, log: RequestLog) -> None:
        self._app = app
        self._services = services
        self._log = log
        self._origins = Origins(services.configuration.runs.origins, services.base_url)
        self._durations = duration_histogram()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection of ASGI."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":  # nothing here speaks one
                await send({"type": "websocket.close", "code": 1000})
            else:
                await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        is_local = self._services.is_local
        recorder = ResponseRecorder(send, partial(self._origins.restrict, scope) if is_local else None)
        context = scope[CONTEXT] = RequestContext(scope, receive, recorder, self._services)
        app = self._app
        if len(scope.get("raw_path") or context.path) + len(scope["query_string"]) > limits.URL_LENGTH:
            app = URL_TOO_LONG
        elif is_local and not is_own_name(context.fields(b"host").get(b"host", "localhost")):
            app = OTHER_HOST
        logged = LOGGED.set(context.ids)
        try:
            trace = context.ids.trace
            if trace is None and not is_loaded():
                await self._answer(app, context, recorder, started)
            else:
                await self._trace(app, context, recorder, started, trace)
        finally:
            LOGGED.reset(logged)
            del scope[CONTEXT]  # else both hold each other, and so the revision, until a search for cycles

    async def _answer(
        self, app: ASGIApp, context: RequestContext, recorder: ResponseRecorder, started: float
    ) -> tuple[Outcome, str]:
        """Answer and record a request; also return the class of a failure of ours, which is logged and becomes 500."""
        failure = ""
        try:
            await app(context.scope, context.receive, recorder)
        except Exception as error:
            disk = error if isinstance(error, StorageError) else None
            reason: dict[str, Any] = {"exc_info": error} if disk is None else {"error": one_line(disk)}
            structlog.get_logger("skillwire").error("a request failed", path=_shown(context.path), **reason)
            if recorder.status:
                raise  # the server cuts the connection, so that the client sees that something is missing
            answer: ASGIApp = INTERNAL if disk is None else storage_problem(disk)
            if context.label == "page" and context.prefers_html():
                answer = await self._services.pages.notice("failed" if disk is None else "storage", context)
            context.label, failure = "none", type(error).__qualname__
            await answer(context.scope, context.receive, recorder)
        label = "none" if recorder.status == HTTPStatus.NOT_FOUND else context.label
        sent = 0 if context.method == "HEAD" else recorder.sent
        outcome = Outcome(label, recorder.status, sent, time.perf_counter() - started)
        self._log.record(context.method, context.path, outcome, context.scope.get("client"))
        return outcome, failure

    async def _trace(
        self,
        app: ASGIApp,
        context: RequestContext,
        recorder: ResponseRecorder,
        started: float,
        parent: TraceContext | None,
    ) -> None:
        """Answer within a span that is named as the conventions for HTTP servers say."""
        method = context.method if context.method in _METHODS else "_OTHER"
        measured: dict[str, str | int] = {
            "http.request.method": method,
            "url.scheme": context.scope.get("scheme", "http"),
        }
        asked = {**measured, "url.path": _shown(context.path), "client.address": context.address or "-"}
        with open_span(method, "server", parent, asked) as span:
            context.ids.trace_id = span.trace.trace_id if span.trace else ""
            outcome, failure = await self._answer(app, context, recorder, started)
            measured["http.response.status_code"] = outcome.status
            if context.route:
                measured["http.route"] = context.route
                span.rename(f"{method} {context.route}")
            if outcome.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                measured["error.type"] = failure or str(outcome.status)
                span.fail(failure or str(outcome.status))
            span.set(measured)
            if self._durations is not None:
                self._durations.record(outcome.seconds, measured)


def _shown(path: str) -> str:
    """Return ``path`` as the log has it: without the ends of IDs, and cut."""
    path = without_ids(path)
    most = limits.SERVER_LOGGED_PATH
    return path if len(path) <= most else f"{path[:most]}... ({len(path)} characters)"


async def answer_problem(request: Request, error: Exception) -> Problem:
    """Return the response to a request that a :class:`ProblemError` ends."""
    request.scope[CONTEXT].label = "none"
    return error.problem if isinstance(error, ProblemError) else INTERNAL


async def answer_http_exception(request: Request, error: Exception) -> Problem:
    """Return the response to a request that Starlette ends: there is no such path, or it has not this method."""
    request.scope[CONTEXT].label = "none"
    if isinstance(error, HTTPException) and error.headers and "Allow" in error.headers:
        return method_not_allowed(request.method, error.headers["Allow"])
    return NOT_FOUND
