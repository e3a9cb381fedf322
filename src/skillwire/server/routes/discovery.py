"""Agent Skills Discovery over HTTP: indexes, files and artifacts, under ``/.well-known/`` and ``/@SCOPE/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.protocols.agent_skills.messages import WELL_KNOWN, WELL_KNOWN_OLD
from skillwire.protocols.agent_skills.server import CachePolicy, IndexResponse, Site, encode_indexes
from skillwire.server.blob_responses import BlobSender
from skillwire.server.components import Protocol
from skillwire.server.problems import NOT_FOUND, READ, other_method
from skillwire.server.routing import Route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp

    from skillwire.server.components import Services, StaticView
    from skillwire.server.context import RequestContext


class AgentSkills(Protocol):
    """The protocol Agent Skills Discovery."""

    name = "Agent Skills Discovery"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of both versions, with and without a scope.

        The last two rows answer clients that take the URL of an index for that of a site, and append to it.
        """
        blobs = BlobSender(services.catalog.blobs, services.catalog.look_again)

        async def answer(context: RequestContext) -> ASGIApp | None:
            return await _answer(context, blobs)

        rows: list[Route] = []
        for base in (
            f"{scope}{old_or_new}" for scope in ("", "/@{scope}") for old_or_new in (WELL_KNOWN, WELL_KNOWN_OLD)
        ):
            paths = ("index.json", "sha256/{artifact}", "{archive}", "{skill}/{file:path}")
            rows += [Route(f"{base}/{path}", answer, "file", methods=()) for path in paths]
        return [*rows, *(Route(f"{path}{{rest:path}}", answer, "file", methods=()) for path in ("/.well-known/", "/@"))]

    def static_files(self, view: StaticView) -> Mapping[str, bytes]:
        """Return every index."""
        site = Site(view.catalog, view.base_url)
        found = {
            path: answer for path in site.listing_paths() if isinstance(answer := site.lookup(path), IndexResponse)
        }
        return {path[1:]: body for path, body in zip(found, encode_indexes(found.values()), strict=True)}


async def _answer(context: RequestContext, blobs: BlobSender) -> ASGIApp | None:
    view, path = context.view, context.path
    answer = view.lookup(path)
    if answer is None:
        if view.forbidden.lookup(path) is not None:
            raise context.forbidden(view.forbidden.skill_at(path))
        return NOT_FOUND
    if context.method not in READ:  # looked at only here: what is not there is a 404 whatever the method
        return other_method(context.method, READ)
    if isinstance(answer, IndexResponse):
        prepared = context.revision.prepared.get(path) if view.is_public else None
        context.label = "index" if prepared else "scope"
        return prepared or await view.indexes.prepare(path, answer)
    context.label = "artifact" if answer.cache is CachePolicy.FOREVER else "file"
    await blobs.send(answer, context.scope, context.send)
    return None
