"""The door of what is published: Agent Skills under ``/.well-known/`` and ``/@SCOPE/``, and Skill Sharing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.server import CachePolicy, IndexResponse
from skillwire.server.problems import NOT_FOUND, READ, answer_other_method

if TYPE_CHECKING:
    from skillwire.protocols.agent_skills.server import Representation
    from skillwire.server.access import AccessView
    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.blob_responses import BlobSender
    from skillwire.server.context import RequestContext
    from skillwire.server.metrics import Route
    from skillwire.server.routes.sharing import SharingRoutes


#: What every path of a site begins with.
SITE: Final = ("/.well-known/", "/@")


class DiscoveryRoutes:
    """Answers with indexes, descriptors, files and artifacts.

    Args:
        stored: sends files and artifacts.
        sharing: answers for Skill Sharing.
        authentication: says how to answer who may know of a skill and not use it.
    """

    def __init__(self, stored: BlobSender, sharing: SharingRoutes, authentication: Authentication) -> None:
        self._stored = stored
        self._sharing = sharing
        self._authentication = authentication

    async def __call__(self, visit: RequestContext) -> Route | None:
        """Answer at a path of the site."""
        is_shared = self._sharing.owns(visit.path)
        if not is_shared and not visit.path.startswith(SITE):
            return None
        asker = await visit.identify()
        audience = await visit.audience()
        answer = None if is_shared else audience.lookup(visit.path)
        if answer is None and not is_shared:
            if audience.locked.lookup(visit.path) is not None:
                raise self._authentication.locked(asker.principal, audience.locked.skill_at(visit.path), visit.scope)
            await NOT_FOUND.send(visit.send, head=visit.method == "HEAD")
            return "none"
        if visit.method not in READ:
            await answer_other_method(visit.method, visit.send)
            return "none"
        if answer is None:
            await self._sharing.answer(visit.path, visit.scope, visit.send, audience)
            return "sharing"
        return await self._send(answer, audience, visit)

    async def _send(self, answer: Representation, audience: AccessView, visit: RequestContext) -> Route:
        if isinstance(answer, IndexResponse):
            # It was not there yet when the request came, or the request says who asks.
            revision = await visit.revision()
            prepared = revision.prepared.get(visit.path) if audience.is_everybody else None
            await (prepared or await audience.listings.prepare(visit.path, answer)).send(visit.scope, visit.send)
            return "index" if prepared else "scope"
        await self._stored.send(answer, visit.scope, visit.send)
        return "artifact" if answer.cache is CachePolicy.FOREVER else "file"
