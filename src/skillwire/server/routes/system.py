"""What the server says of itself: health, readiness, metrics, search, how to log in, and its OpenAPI document.

``/healthz`` says that the process answers; ``/readyz`` that it has something to serve, and what is wrong with the
folders that it cannot publish as they are. An invalid folder does not make the server unready: its last good version,
and all other skills, are served. The server is unready, and says *stale*, while changes of the folders are not
followed: what it serves may be more than what they allow now. Anyone may ask, so nothing here depends on skills that
are not public.
"""

from __future__ import annotations

import asyncio
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from skillwire.model.access import Access
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.server.auth.resource import RESOURCE_PATH
from skillwire.server.openapi import OPENAPI_PATH, document
from skillwire.server.problems import NOT_FOUND, NOT_READY
from skillwire.server.responses import CachedResponse, json_response
from skillwire.server.routing import Route
from skillwire.server.search import SEARCH_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp

    from skillwire.server.components import Services
    from skillwire.server.context import RequestContext
    from skillwire.server.folders import InvalidFolder

#: The text format of Prometheus, as its library names it.
_PROMETHEUS: Final = "text/plain; version=1.0.0; charset=utf-8"


def system_routes(services: Services) -> Sequence[Route]:
    """Return the rows of what the server says of itself."""
    catalog = services.catalog

    async def health(_: RequestContext) -> ASGIApp:
        return json_response(b'{"status":"alive"}')

    async def readiness(_: RequestContext) -> ASGIApp:
        revision, alive = catalog.current, catalog.watch.alive
        if revision is None:
            return NOT_READY
        content = {
            "status": "ready" if alive else "stale",
            "watching": alive,
            "revision": revision.catalog.revision,
            "skills": revision.skills,
            "broken": [_describe(one) for one in revision.broken if one.access is Access.PUBLIC],
        }
        status = HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE
        return json_response(msgspec.json.encode(content), status)

    async def metrics(_: RequestContext) -> ASGIApp:
        from skillwire.server.prometheus import render_metrics  # noqa: PLC0415  # 2 MiB that few servers need

        network = None if services.lan is None else services.lan.count()
        # It reads /proc, and the ledger.
        text = await asyncio.to_thread(render_metrics, services.metrics, catalog, services.stats, network)
        return json_response(text, media_type=_PROMETHEUS)

    async def search(context: RequestContext) -> None:
        answers = context.revision.answers
        answer = await answers.answer(context.scope["query_string"], f"{context.site}/")
        ready = answer.ready(context.method.encode("ascii"), context.scope["headers"])
        start = {"type": "http.response.start", "status": ready.status, "headers": answer.header_fields(ready.status)}
        await context.send(start)
        await context.send({"type": "http.response.body", "body": ready.body})

    async def resource(context: RequestContext) -> ASGIApp:
        body = services.authentication.resource.document(context.site)
        return NOT_FOUND if body is None else json_response(body)

    async def openapi(_: RequestContext) -> ASGIApp:
        return await asyncio.to_thread(_document)

    return [
        Route("/healthz", health, "service", cross_origin=False, loads=False),
        Route("/readyz", readiness, "service", cross_origin=False, loads=False),
        Route("/metrics", metrics, "service", cross_origin=False, loads=False),
        Route(SEARCH_PATH, search, "service"),
        Route(OPENAPI_PATH, openapi, "service", loads=False),
        Route(RESOURCE_PATH, resource if services.configuration.oauth2 else None, "service", loads=False),
    ]


@cache
def _document() -> CachedResponse:
    return CachedResponse(msgspec.json.encode(document()), JSON, CachePolicy.BRIEF)


def _describe(broken: InvalidFolder) -> dict[str, Any]:
    # The folder's name and not its path: clients that ask whether we are ready need not know this machine. Of what was
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
