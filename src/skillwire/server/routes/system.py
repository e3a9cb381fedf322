"""What the server says of itself: ``/healthz``, ``/readyz`` and ``/metrics``, routed by Starlette.

``/healthz`` says that the process answers; ``/readyz`` that it has something to serve, and what is wrong with the
folders that it cannot publish as they are. A broken skill does not make the server unready: its last good
version, and all the others, are served. It is unready, and says *stale*, while changes of the folders are not
followed: what it serves may be more than what they allow now. Strangers may ask, so nothing here depends on skills that
are not for everybody.

The route of ``/api/search``: the search answers of the current revision over ASGI, or of the first one.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.access import Access
from skillwire.protocols.agent_skills.messages import OPEN_FIELDS
from skillwire.server.http import site_of
from skillwire.server.openapi import OPENAPI_PATH, OpenApiRoute
from skillwire.server.problems import NOT_FOUND, NOT_READY, READ, Problem, answer_other_method, method_not_allowed
from skillwire.server.search import SEARCH_PATH

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from skillwire.server.folders import InvalidFolder
    from skillwire.server.metrics import Metrics
    from skillwire.server.revision import Revision


class SearchRoute:
    """Answers searches of what ``current`` returns, or ``first``, which waits so many seconds for a revision."""

    def __init__(
        self, current: Callable[[], Revision | None], first: Callable[[float], Awaitable[Revision | None]]
    ) -> None:
        self._current = current
        self._first = first

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] not in READ:
            await answer_other_method(scope["method"], send)
            return
        revision = self._current() or await self._first(limits.SERVER_LOADING_SECONDS)
        if revision is None:
            await NOT_READY.send(send, head=scope["method"] == "HEAD")
        else:
            await self._search(revision, scope, send)

    async def _search(self, revision: Revision, scope: Scope, send: Send) -> None:
        answers = revision.answers
        try:
            answer = await answers.answer(scope["query_string"], f"{site_of(scope, answers.base_url)}/")
        except UsageError as error:
            await search_problem(error).send(send, head=scope["method"] == "HEAD")
            return
        ready = answer.ready(scope["method"].encode("ascii"), scope["headers"])
        await send(
            {"type": "http.response.start", "status": ready.status, "headers": answer.header_fields(ready.status)}
        )
        await send({"type": "http.response.body", "body": ready.body})


def search_problem(error: UsageError) -> Problem:
    """Return the answer to a search that cannot be made."""
    diagnostics = error.diagnostics()
    return Problem(400, error.code, error.message, {"fix": diagnostics.fix})


#: The paths of these services.
SYSTEM_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics", SEARCH_PATH, OPENAPI_PATH})
_FIELDS = {**OPEN_FIELDS, "Cache-Control": "no-store"}
#: The text format of Prometheus, as its library names it.
_EXPOSITION: Final = "text/plain; version=1.0.0; charset=utf-8"


def make_system_routes(
    current: Callable[[], Revision | None],
    first: Callable[[float], Awaitable[Revision | None]],
    metrics: Metrics,
    absent_page: ASGIApp,
) -> Starlette:
    """Return the application that answers everything which is not part of the site.

    Args:
        current: returns the revision that is served, or None before the first.
        first: waits for the first revision, at most so many seconds.
        metrics: what ``/metrics`` exposes.
        absent_page: answers a browser that asks for what is not there.
    """

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "alive"}, headers=_FIELDS)

    async def ready(_: Request) -> Response:
        revision = current()
        if revision is None:
            return _response(NOT_READY)
        broken = [_describe(one) for one in revision.broken if one.access is Access.PUBLIC]
        alive = metrics.watch().alive
        content = {
            "status": "ready" if alive else "stale",
            "watching": alive,
            "revision": revision.catalog.revision,
            "skills": revision.skills,
            "broken": broken,
        }
        return JSONResponse(content, HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE, headers=_FIELDS)

    async def expose(_: Request) -> Response:
        metrics.look()
        text = await asyncio.to_thread(_exposed, metrics)  # it reads /proc
        return Response(text, media_type=_EXPOSITION, headers=_FIELDS)

    async def tell(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.headers and "Allow" in error.headers:
            return _response(method_not_allowed(request.method, error.headers["Allow"]))
        if "text/html" in request.headers.get("accept", ""):
            return _Elsewhere(absent_page)
        return _response(NOT_FOUND)

    services = Starlette(
        routes=[
            Route("/healthz", health),
            Route("/readyz", ready),
            Route("/metrics", expose),
            Route(SEARCH_PATH, SearchRoute(current, first)),
            Route(OPENAPI_PATH, OpenApiRoute()),
        ],
        exception_handlers={HTTPException: tell},
    )
    services.router.redirect_slashes = False
    return services


def _exposed(metrics: Metrics) -> bytes:
    from skillwire.server.metrics import render_metrics  # noqa: PLC0415  # its library takes 2 MiB that few servers need

    return render_metrics(metrics)


def _describe(broken: InvalidFolder) -> dict[str, Any]:
    # The folder's name and not its path: who may ask whether we are ready need not know this machine. Of what was
    # never published only the codes: the log says the rest.
    findings = [
        {
            "code": finding.code,
            "message": finding.message if broken.is_public else None,
            "line": finding.place.line if broken.is_public else None,
        }
        for finding in broken.findings
        if finding.level == "error"
    ]
    return {"folder": broken.name if broken.is_public else None, "serving": broken.serving, "findings": findings}


class _Elsewhere(Response):
    """A response that another application gives."""

    def __init__(self, application: ASGIApp) -> None:
        super().__init__()
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


def _response(problem: Problem) -> Response:
    fields = {**_FIELDS, **problem.fields}
    return Response(problem.body(), problem.status, media_type="application/json", headers=fields)
