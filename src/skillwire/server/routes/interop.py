"""What may be executed here, of what one who asks may use: it is executed by whoever publishes it, and granted.

Which skills are actions is found once for each audience, since all of them are unpacked for it. Grants come and go
while a revision stays, so they are looked at again after a while. Both are done in a thread, once for all who wait.

The doors of our neighbours: the AI Catalog with its search, and the agent card.

Each is there when the configuration names a version of it. What they list is what the one who asks may use, as an index
does, and of that the card what may be executed; a search sees what everybody may see, as ``/api/search`` does.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from skillwire import limits
from skillwire.adapters.sqlite.open import has_database, open_grants
from skillwire.bridges.agent_card import CARD_PATH, encode_card, executed
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
from skillwire.executions.grants import needs_grant
from skillwire.protocols.agent_skills.messages import JSON, OPEN_FIELDS
from skillwire.server.access import has_failed
from skillwire.server.addressed import SiteUrlBody, SiteUrlCache
from skillwire.server.auth.authentication import ProblemError
from skillwire.server.doors import Plugin
from skillwire.server.http import encode_fields, site_of
from skillwire.server.problems import (
    NOT_FOUND,
    READ,
    Problem,
    answer_other_method,
    answer_preflight,
    method_not_allowed,
)
from skillwire.server.routes.rpc import RPC_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skillwire.model.skill import Skill
    from skillwire.server.access import AccessView, IndexCache
    from skillwire.server.compose import Components
    from skillwire.server.context import RequestContext
    from skillwire.server.metrics import Route


#: For how long what was granted is taken to be so. Nobody runs anything by what is listed.
_SECONDS: Final = 10.0


class Runnable(NamedTuple):
    """The names of what may be executed; ``version`` is another for others."""

    names: tuple[str, ...]
    version: str


class _Lookup(NamedTuple):
    until: float
    task: asyncio.Task[Runnable]


class CallableHere:
    """Knows what may be executed here; used by one event loop.

    Args:
        grant_all: whether all that is published may run, ungranted.
    """

    def __init__(self, *, grant_all: bool) -> None:
        self._grant_all = grant_all
        self._actions: WeakKeyDictionary[IndexCache, tuple[str, ...]] = WeakKeyDictionary()
        self._looks: WeakKeyDictionary[IndexCache, _Lookup] = WeakKeyDictionary()

    async def of(self, audience: AccessView) -> Runnable:
        """Return what may be executed of what ``audience`` may use.

        Raises:
            StorageError: ``DATABASE``.
        """
        now = asyncio.get_running_loop().time()
        look = self._looks.get(audience.listings)
        if look is None or (look.task.done() and (look.until <= now or has_failed(look.task))):
            look = _Lookup(now + _SECONDS, asyncio.create_task(asyncio.to_thread(self._look, audience)))
            self._looks[audience.listings] = look
        return await asyncio.shield(look.task)  # who goes away leaves the work to the others who wait for it

    def _look(self, audience: AccessView) -> Runnable:
        skills = audience.usable.skills
        actions = self._actions.get(audience.listings)
        if actions is None:
            called = (skill for skill in executed(skills.values()) if skill.sharing is not None)
            actions = self._actions[audience.listings] = tuple(skill.name for skill in called)
        names = tuple(self._granted(skills[name] for name in actions))
        return Runnable(names, hashlib.sha256("\n".join(names).encode()).hexdigest())

    def _granted(self, skills: Iterable[Skill]) -> Iterable[str]:
        grants = open_grants() if has_database() else None  # none is made for the sake of the question
        for skill in skills:
            if self._grant_all or not needs_grant(skill) or (grants is not None and grants.allows(skill)):
                yield skill.name


_ALLOWED: Final = "POST, OPTIONS"
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a search has at most {limits.CATALOG_SEARCH_BYTES:,} bytes")


def make_interop(parts: Components) -> Iterator[Plugin]:
    """Yield the doors that the configuration asks for."""
    settings, publisher = parts.configuration.bridges, parts.publisher
    card = CARD_PATH if settings.agent_card else None
    rpc = RPC_PATH if parts.configuration.runs.execute_skill else None
    running = CallableHere(grant_all=parts.configuration.executions.grant_all)
    if settings.ai_catalog:
        catalog = AiCatalogRoute(parts.base_url, publisher, card, running)
        yield Plugin({CATALOG_PATH: catalog, SEARCH_PATH: CatalogSearchRoute(parts.base_url)})
    if card is not None:
        yield Plugin({card: AgentCardRoute(parts.base_url, publisher, rpc, running)})


class AiCatalogRoute:
    """Answers with the AI Catalog.

    Args:
        base_url: of the site; as requests say it when empty.
        publisher: whose skills these are.
        card: the path of the agent card, where there may be one.
        running: knows whether there is.
    """

    def __init__(self, base_url: str, publisher: str, card: str | None, running: CallableHere) -> None:
        self._base_url = base_url
        self._publisher = publisher
        self._card = card
        self._running = running
        self._addressed = SiteUrlCache(base_url)

    async def __call__(self, visit: RequestContext) -> Route:
        """Answer one request."""
        audience = await _reader(visit)
        if audience is None:
            return "service"
        site = site_of(visit.scope, self._base_url)
        card = self._card if self._card is not None and (await self._running.of(audience)).names else None

        def encode() -> bytes:
            return encode_catalog(audience.usable.skills.values(), self._publisher, site, card=card)

        made = SiteUrlBody(audience.visible.skills, encode, audience.cache, CATALOG_TYPE)
        await self._addressed.send(f"{visit.path} {card}", made, audience, visit.scope, visit.send)
        return "service"


class AgentCardRoute:
    """Answers with the card of what runs here; where nothing does, there is none.

    Args:
        base_url: of the site; as requests say it when empty.
        publisher: whose skills these are.
        rpc: the path of the Skills Protocol, where it executes skills.
        running: knows what runs.
    """

    def __init__(self, base_url: str, publisher: str, rpc: str | None, running: CallableHere) -> None:
        self._base_url = base_url
        self._publisher = publisher
        self._rpc = rpc
        self._running = running
        self._addressed = SiteUrlCache(base_url)

    async def __call__(self, visit: RequestContext) -> Route:
        """Answer one request."""
        audience = await _reader(visit)
        if audience is None:
            return "service"
        site = site_of(visit.scope, self._base_url)
        names, version = await self._running.of(audience)
        if not names:
            raise ProblemError(NOT_FOUND)

        def encode() -> bytes:
            skills = [audience.usable.skills[name] for name in names]
            return encode_card(skills, self._publisher, site, rpc=self._rpc)

        made = SiteUrlBody(names, encode, audience.cache)
        await self._addressed.send(f"{visit.path} {version}", made, audience, visit.scope, visit.send)
        return "service"


async def _reader(visit: RequestContext) -> AccessView | None:
    """Return what the one who reads may know of; None where a method that reads nothing has been answered."""
    await visit.identify()
    if visit.method not in READ:
        await answer_other_method(visit.method, visit.send)
        return None
    return await visit.audience()


class CatalogSearchRoute:
    """Answers ``POST /search``.

    Args:
        base_url: of the site; as requests say it when empty.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    async def __call__(self, visit: RequestContext) -> Route:
        """Answer one request."""
        await visit.identify()
        if visit.method == "OPTIONS":
            await answer_preflight(_ALLOWED, visit.send)
        elif visit.method != "POST":
            raise ProblemError(method_not_allowed(visit.method, _ALLOWED))
        else:
            await _answer(visit, await self._search(visit))
        return "service"

    async def _search(self, visit: RequestContext) -> bytes:
        try:
            asked = read_search(await visit.body(limits.CATALOG_SEARCH_BYTES, _TOO_LARGE))
            revision = await visit.revision()
            # It may take 20 ms, in which others wait for nothing.
            page = await asyncio.to_thread(revision.search.search, asked.query)
        except (DecodeError, UsageError) as error:
            raise ProblemError(Problem(400, error.code, error.message, written=encode_refusal(error))) from error
        skills = [revision.catalog.skills[name] for name in page.names]
        return encode_hits(asked, skills, page.next, site_of(visit.scope, self._base_url))


async def _answer(visit: RequestContext, body: bytes) -> None:
    own = {"Content-Type": JSON, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
    await visit.send({"type": "http.response.start", "status": 200, "headers": encode_fields(own, OPEN_FIELDS)})
    await visit.send({"type": "http.response.body", "body": body})
