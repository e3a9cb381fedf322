"""The door of what is published: Agent Skills under ``/.well-known/`` and ``/@SCOPE/``, and Skill Sharing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.server import Cache, Listing
from skillwire.server.methods import READ, answer_other_method
from skillwire.server.problems import NOT_FOUND

if TYPE_CHECKING:
    from skillwire.protocols.agent_skills.server import Representation
    from skillwire.server.audience import Audience
    from skillwire.server.authentication import Authentication
    from skillwire.server.metrics import Route
    from skillwire.server.sharing_route import SharingRoute
    from skillwire.server.stored import StoredContent
    from skillwire.server.visit import Visit

#: What every path of a site begins with.
SITE: Final = ("/.well-known/", "/@")


class SiteDoor:
    """Answers with indexes, descriptors, files and artifacts.

    Args:
        stored: sends files and artifacts.
        sharing: answers for Skill Sharing.
        authentication: says how to answer who may know of a skill and not use it.
    """

    def __init__(self, stored: StoredContent, sharing: SharingRoute, authentication: Authentication) -> None:
        self._stored = stored
        self._sharing = sharing
        self._authentication = authentication

    async def __call__(self, visit: Visit) -> Route | None:
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

    async def _send(self, answer: Representation, audience: Audience, visit: Visit) -> Route:
        if isinstance(answer, Listing):
            # It was not there yet when the request came, or the request says who asks.
            revision = await visit.revision()
            prepared = revision.prepared.get(visit.path) if audience.is_everybody else None
            await (prepared or await audience.listings.prepare(visit.path, answer)).send(visit.scope, visit.send)
            return "index" if prepared else "scope"
        await self._stored.send(answer, visit.scope, visit.send)
        return "artifact" if answer.cache is Cache.FOREVER else "file"
