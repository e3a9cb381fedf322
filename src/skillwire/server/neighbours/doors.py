"""The doors of our neighbours: the AI Catalog with its search, and the agent card.

Each is there when the configuration names a version of it. What they list is what the one who asks may use, as an index
does, and of that the card what may be executed; a search sees what everybody may see, as ``/api/search`` does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.bridges.agent_card import CARD_PATH, encode_card
from skillwire.bridges.ai_catalog import (
    CATALOG_PATH,
    CATALOG_TYPE,
    SEARCH_PATH,
    encode_catalog,
    encode_hits,
    encode_refusal,
    read_search,
)
from skillwire.errors import DecodeError, UsageError
from skillwire.protocols.agent_skills.fields import OPEN_FIELDS
from skillwire.protocols.agent_skills.media import JSON
from skillwire.server.addressed import Addressed, Made
from skillwire.server.authentication import Refusal
from skillwire.server.doors import Annex
from skillwire.server.headers import encode_fields
from skillwire.server.methods import READ, answer_other_method, answer_preflight
from skillwire.server.neighbours.running import Running
from skillwire.server.problems import NOT_FOUND, Problem, method_not_allowed
from skillwire.server.rpc.route import RPC_PATH
from skillwire.server.site import site_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.server.audience import Audience
    from skillwire.server.compose import Parts
    from skillwire.server.metrics import Route
    from skillwire.server.visit import Visit

_ALLOWED: Final = "POST, OPTIONS"
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a search has at most {limits.CATALOG_SEARCH_BYTES:,} bytes")


def make_neighbours(parts: Parts) -> Iterator[Annex]:
    """Yield the doors that the configuration asks for."""
    settings, publisher = parts.configuration.bridges, parts.publisher
    card = CARD_PATH if settings.agent_card else None
    rpc = RPC_PATH if parts.configuration.runs.execute_skill else None
    running = Running(grant_all=parts.configuration.executions.grant_all)
    if settings.ai_catalog:
        catalog = CatalogDoor(parts.base_url, publisher, card, running)
        yield Annex({CATALOG_PATH: catalog, SEARCH_PATH: SearchDoor(parts.base_url)})
    if card is not None:
        yield Annex({card: CardDoor(parts.base_url, publisher, rpc, running)})


class CatalogDoor:
    """Answers with the AI Catalog.

    Args:
        base_url: of the site; as requests say it when empty.
        publisher: whose skills these are.
        card: the path of the agent card, where there may be one.
        running: knows whether there is.
    """

    def __init__(self, base_url: str, publisher: str, card: str | None, running: Running) -> None:
        self._base_url = base_url
        self._publisher = publisher
        self._card = card
        self._running = running
        self._addressed = Addressed(base_url)

    async def __call__(self, visit: Visit) -> Route:
        """Answer one request."""
        audience = await _reader(visit)
        if audience is None:
            return "service"
        site = site_of(visit.scope, self._base_url)
        card = self._card if self._card is not None and (await self._running.of(audience)).names else None

        def encode() -> bytes:
            return encode_catalog(audience.usable.skills.values(), self._publisher, site, card=card)

        made = Made(audience.visible.skills, encode, audience.cache, CATALOG_TYPE)
        await self._addressed.send(f"{visit.path} {card}", made, audience, visit.scope, visit.send)
        return "service"


class CardDoor:
    """Answers with the card of what runs here; where nothing does, there is none.

    Args:
        base_url: of the site; as requests say it when empty.
        publisher: whose skills these are.
        rpc: the path of the Skills Protocol, where it executes skills.
        running: knows what runs.
    """

    def __init__(self, base_url: str, publisher: str, rpc: str | None, running: Running) -> None:
        self._base_url = base_url
        self._publisher = publisher
        self._rpc = rpc
        self._running = running
        self._addressed = Addressed(base_url)

    async def __call__(self, visit: Visit) -> Route:
        """Answer one request."""
        audience = await _reader(visit)
        if audience is None:
            return "service"
        site = site_of(visit.scope, self._base_url)
        names, version = await self._running.of(audience)
        if not names:
            raise Refusal(NOT_FOUND)

        def encode() -> bytes:
            skills = [audience.usable.skills[name] for name in names]
            return encode_card(skills, self._publisher, site, rpc=self._rpc)

        made = Made(names, encode, audience.cache)
        await self._addressed.send(f"{visit.path} {version}", made, audience, visit.scope, visit.send)
        return "service"


async def _reader(visit: Visit) -> Audience | None:
    """Return what the one who reads may know of; None where a method that reads nothing has been answered."""
    await visit.identify()
    if visit.method not in READ:
        await answer_other_method(visit.method, visit.send)
        return None
    return await visit.audience()


class SearchDoor:
    """Answers ``POST /search``.

    Args:
        base_url: of the site; as requests say it when empty.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    async def __call__(self, visit: Visit) -> Route:
        """Answer one request."""
        await visit.identify()
        if visit.method == "OPTIONS":
            await answer_preflight(_ALLOWED, visit.send)
        elif visit.method != "POST":
            raise Refusal(method_not_allowed(visit.method, _ALLOWED))
        else:
            await _answer(visit, await self._search(visit))
        return "service"

    async def _search(self, visit: Visit) -> bytes:
        try:
            asked = read_search(await visit.body(limits.CATALOG_SEARCH_BYTES, _TOO_LARGE))
            revision = await visit.revision()
            # It may take 20 ms, in which others wait for nothing.
            page = await asyncio.to_thread(revision.search.search, asked.query)
        except (DecodeError, UsageError) as error:
            raise Refusal(Problem(400, error.code, error.message, written=encode_refusal(error))) from error
        skills = [revision.catalog.skills[name] for name in page.names]
        return encode_hits(asked, skills, page.next, site_of(visit.scope, self._base_url))


async def _answer(visit: Visit, body: bytes) -> None:
    own = {"Content-Type": JSON, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
    await visit.send({"type": "http.response.start", "status": 200, "headers": encode_fields(own, OPEN_FIELDS)})
    await visit.send({"type": "http.response.body", "body": body})
