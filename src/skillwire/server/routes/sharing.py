"""Skill Sharing over HTTP: the index, the registry's list, the descriptors.

Indexes and descriptors carry full URLs, so a response depends on the address under which the client reached us; each
is made with its first request and kept with the view's other lists (:mod:`skillwire.server.revision`). A
hidden skill is answered as one that is not there. Browsers get a page at ``/skills``. Spec: SSP §4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillwire.bridges.listings import SHARING_BINDING
from skillwire.errors import SkillwireError, UsageError
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.messages import JSON
from skillwire.protocols.agent_skills.server import BlobResponse
from skillwire.protocols.skill_sharing import REGISTRY, WELL_KNOWN, descriptor_path
from skillwire.protocols.skill_sharing.errors import encode_error
from skillwire.protocols.skill_sharing.server import Sharing, check_type, encode_descriptor
from skillwire.server.components import Interface, Protocol, Services, StaticView
from skillwire.server.http import read_pairs
from skillwire.server.openapi import CONDITION, kept, listed, reference
from skillwire.server.problems import Problem
from skillwire.server.responses import BlobSender
from skillwire.server.revision import SiteUrlBody
from skillwire.server.routing import Operation, RequestContext, Route, SiteUrlCache

_PARAMETERS: Final = 16


class SkillSharing(Protocol):
    """The Skill Sharing Protocol: what it lists. Its calls are the rows of :mod:`skillwire.server.executions`."""

    name = "Skill Sharing"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of the index, the list and the descriptors."""
        answers = SharingAnswers(services)
        return [
            Route(
                WELL_KNOWN, answers.index, "sharing", describes=_operation("The index of Skill Sharing", "SkillIndex")
            ),
            Route(
                REGISTRY,
                answers.listing,
                "sharing",
                loads=False,
                describes=_operation(
                    "The list of Skill Sharing's registry", listed(reference("schemas", "SkillIndexEntry"))
                ),
            ),
            Route(
                f"{REGISTRY}/{{skill}}.json",
                answers.descriptor,
                "sharing",
                describes=Operation(
                    "A Skill Descriptor", {**kept("SkillDescriptor"), "404": "SkillNotFound"}, ("skill", CONDITION)
                ),
            ),
        ]

    def static_files(self, view: StaticView) -> Mapping[str, bytes]:
        """Return the index, if the site has an address: the index holds full URLs."""
        if not view.base_url:
            return {}
        return {WELL_KNOWN[1:]: Sharing(view.catalog.skills, view.publisher, view.base_url).index()}

    def announce(self, _: Services) -> Sequence[Interface]:
        """Return the path at which skills are called."""
        return (Interface(WELL_KNOWN, SHARING_BINDING),)

    def error_table(self, error: SkillwireError) -> Problem:
        """Return the response that reports ``error`` in the unified form. Spec: SSP §8.2."""
        status, body = encode_error(error)
        return Problem(400 if isinstance(error, UsageError) else status, error.code, error.message, written=body)


def _operation(summary: str, schema: Any) -> Operation:
    return Operation(summary, {**kept(schema), "400": "BadType"}, ("type", CONDITION))


class SharingAnswers:
    """The answers of Skill Sharing."""

    def __init__(self, services: Services) -> None:
        self._pages = services.pages
        self._blobs = BlobSender(services.catalog.blobs)
        self._documents = SiteUrlCache(services.base_url)
        self._provider = services.publisher
        self._auth = services.authentication.auth_config

    def _sharing(self, context: RequestContext) -> Sharing:
        return Sharing(context.view.visible.skills, self._provider, context.site, self._auth)

    async def index(self, context: RequestContext) -> ASGIApp:
        """Return the index."""
        return await self._list(context, self._sharing(context).index)

    async def listing(self, context: RequestContext) -> ASGIApp:
        """Return the list of a registry, or the page of it to a browser."""
        if context.prefers_html():
            return await self._pages.list(context)
        await context.load()
        return _varying(await self.entries(context))

    async def entries(self, context: RequestContext) -> ASGIApp:
        """Return the entries that a registry lists."""
        return await self._list(context, self._sharing(context).listing)

    async def _list(self, context: RequestContext, encode: Callable[[str | None], bytes]) -> ASGIApp:
        """Return the list that ``encode`` makes of skills of the requested type. Raises UsageError (``QUERY``)."""
        types = [value for key, value in read_pairs(context.scope["query_string"], _PARAMETERS) if key == "type"]
        if len(types) > 1:
            raise UsageError("QUERY", "type is given twice")
        wanted = check_type(types[0] if types else None)
        made = SiteUrlBody(context.view.visible.skills, partial(encode, wanted), context.view.cache)
        return await self._documents.respond(context, f"{context.path}?type={wanted or ''}", made)

    async def descriptor(self, context: RequestContext) -> ASGIApp | None:
        """Return the descriptor of a skill, or send its publisher's own."""
        name, view = context.parameters["skill"], context.view
        described = self._sharing(context).describe(name)
        if isinstance(described, Digest):
            size = next(file.size for file in view.visible.skills[name].files if file.digest == described)
            await self._blobs.send(BlobResponse(JSON, view.cache, described, size), context.scope, context.send)
            return None
        made = SiteUrlBody((), lambda: encode_descriptor(described), view.cache)
        return await self._documents.respond(context, descriptor_path(name), made)


def _varying(response: ASGIApp) -> ASGIApp:
    """Return a response at an address where browsers get a page instead."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        async def varying(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    (name, b"Accept, " + value if name == b"vary" else value) for name, value in message["headers"]
                ]
            await send(message)

        await response(scope, receive, varying)

    return respond
