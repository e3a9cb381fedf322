"""Health, readiness, metrics, search, the authorization server, and the OpenAPI document.

``/healthz`` reports that the process answers; ``/readyz`` that it has a catalog, and the invalid folders. An invalid
folder does not make the server unready: its last good version, and all other skills, are served. The server is unready,
and *stale*, while changes of the folders or the registry are not followed: it may serve more than they allow now. It is
*blocked* while its store takes no writes. These routes are public, so nothing here depends on skills that are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.applications import Starlette
from starlette.types import ASGIApp

from skillwire.folder.publish import InvalidFolder
from skillwire.model.access import Access
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.registry.search import FACETS
from skillwire.server.auth.authentication import RESOURCE_PATH
from skillwire.server.components import Services
from skillwire.server.openapi import CONDITION, JSON, OPENAPI_PATH, TEXT, document, kept
from skillwire.server.problems import NOT_FOUND, NOT_READY
from skillwire.server.prometheus import render_metrics
from skillwire.server.responses import CachedResponse, json_response
from skillwire.server.routing import Answer, Handler, Operation, RequestContext, Route
from skillwire.server.search import SEARCH_PATH

#: The text format of Prometheus, as its library names it.
_PROMETHEUS: Final = "text/plain; version=1.0.0; charset=utf-8"


class Liveness(Struct, forbid_unknown_fields=True):
    """What ``/healthz`` answers."""

    status: Literal["alive"] = "alive"


class BrokenFinding(Struct, forbid_unknown_fields=True):
    """An error in a folder; of one that was never published, the code alone."""

    code: str
    message: str | None
    line: Annotated[int, Meta(ge=0)] | None


class BrokenFolder(Struct, forbid_unknown_fields=True):
    """A folder that cannot be published as it is; ``serving`` is whether its last good version is."""

    folder: str | None
    serving: bool
    findings: list[BrokenFinding]


class Readiness(Struct, forbid_unknown_fields=True):
    """What ``/readyz`` answers once there is something to serve."""

    status: Literal["ready", "stale", "blocked"]
    watching: bool
    reason: str | None
    revision: Annotated[int, Meta(ge=0)]
    skills: Annotated[int, Meta(ge=0)]
    broken: list[BrokenFolder]
    failing: dict[str, str]
    notes: list[str] = []


class SearchHit(Struct, forbid_unknown_fields=True):
    """A skill that a search found."""

    id: str
    name: str
    source: str
    installs: Literal[0]
    description: str
    version: str | None
    digest: Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]
    url: str
    kind: Literal["instructions", "scripts", "callable"]


class FacetValue(Struct, forbid_unknown_fields=True):
    """A value of a facet, and how many of the hits have it."""

    value: str
    skills: Annotated[int, Meta(ge=0)]


class SearchDocument(Struct, forbid_unknown_fields=True):
    """A page of hits."""

    skills: list[SearchHit]
    total: Annotated[int, Meta(ge=0)]
    next: str | None
    facets: dict[str, list[FacetValue]] = {}


class ResourceMetadata(Struct, forbid_unknown_fields=True):
    """The metadata of a protected resource. Spec: RFC 9728 §3."""

    resource: str
    authorization_servers: list[str]
    bearer_methods_supported: list[str]
    scopes_supported: list[str] = []


def system_routes(services: Services) -> Sequence[Route]:
    """Return the rows of health, readiness, metrics, search, OpenAPI and the authorization server."""
    catalog, check = services.catalog, services.readiness

    async def health(_: RequestContext) -> ASGIApp:
        return json_response(msgspec.json.encode(Liveness()))

    async def readiness(_: RequestContext) -> ASGIApp:
        revision, watch = catalog.current, catalog.watch
        if revision is None:
            return NOT_READY if watch.alive else replace(NOT_READY, message=f"no skills are loaded: {watch.reason}")
        await check.look()
        status: Literal["ready", "stale", "blocked"] = "ready" if watch.alive else "stale"
        reason = watch.reason or None
        if check.is_stale and check.lag is not None:
            status, reason = "stale", f"{check.lag.changes} changes of the registry are not served yet"
        if check.obstacle:
            status, reason = "blocked", check.obstacle
        content = Readiness(
            status=status,
            watching=watch.alive,
            reason=reason,
            revision=revision.catalog.revision,
            skills=revision.skills,
            broken=[_describe(one) for one in revision.broken if one.access is Access.PUBLIC],
            failing=services.executions.service.background.failing,
            notes=[note] if services.dht is not None and (note := services.dht.note()) else [],
        )
        code = HTTPStatus.OK if status == "ready" else HTTPStatus.SERVICE_UNAVAILABLE
        return json_response(msgspec.json.encode(content), code)

    async def metrics(_: RequestContext) -> ASGIApp:
        network = None if services.lan is None else services.lan.count()
        await services.stats.refresh()
        await check.look()
        node = None if services.dht is None else services.dht.status()
        parts = (services.metrics, catalog, services.stats, services.executions.service, check)
        text = await asyncio.to_thread(render_metrics, *parts, network=network, dht=node)
        return json_response(text, media_type=_PROMETHEUS)

    async def search(context: RequestContext) -> ASGIApp:
        return await context.revision.answers.answer(context.scope["query_string"], f"{context.site}/")

    async def openapi(context: RequestContext) -> ASGIApp:
        return await asyncio.to_thread(_document, context.scope["app"])

    def monitoring(path: str, handler: Handler, summary: str, media_type: str, kind: Any) -> Route:
        """Return a row that answers while skills are loaded, and answers no preflight."""
        operation = Operation(summary, {"200": Answer(summary, {media_type: kind}, ("Cache-Control",))})
        return Route(path, handler, "service", answers_preflight=False, loads=False, describes=operation)

    found = Operation(
        "Search for skills",
        {**kept(SearchDocument), "400": "BadQuery"},
        ("q", "limit", "after", "facets", *FACETS, CONDITION),
    )
    own = Operation("The OpenAPI document", kept({"type": "object"}), (CONDITION,))
    return [
        monitoring("/healthz", health, "Liveness of the process", JSON, Liveness),
        monitoring("/readyz", readiness, "Readiness, and invalid folders", JSON, Readiness),
        monitoring("/metrics", metrics, "Counters for Prometheus", "text/plain", TEXT),
        Route(SEARCH_PATH, search, "service", describes=found),
        Route(OPENAPI_PATH, openapi, "service", loads=False, describes=own),
        resource_route(services),
    ]


_METADATA: Final = Operation(
    "The trusted authorization server (RFC 9728)",
    {"200": Answer("Its metadata.", {JSON: ResourceMetadata}, ("Cache-Control",)), "404": "NotFound"},
)


def resource_route(services: Services, path: str = "", *, is_served: bool = True) -> Route:
    """Return the row of the metadata of the resource ``path``; without a handler where no issuer is configured."""

    async def resource(context: RequestContext) -> ASGIApp:
        body = services.authentication.resource.document(context.site, path)
        return NOT_FOUND if body is None else json_response(body)

    handler = resource if is_served and services.configuration.oauth2 is not None else None
    return Route(f"{RESOURCE_PATH}{path}", handler, "service", loads=False, describes=_METADATA)


@lru_cache(maxsize=1)
def _document(application: Starlette) -> CachedResponse:
    return CachedResponse(msgspec.json.encode(document(application.routes)), JSON, CachePolicy.BRIEF)


def _describe(broken: InvalidFolder) -> BrokenFolder:
    # The name of a folder and not its path on this machine. Of a folder that was never public only codes are shown; the
    # log has the rest.
    is_public = broken.is_public
    findings = [
        BrokenFinding(one.code, one.message if is_public else None, one.place.line if is_public else None)
        for one in broken.findings
        if one.level == "error"
    ]
    return BrokenFolder(broken.name if is_public else None, broken.serving, findings)
