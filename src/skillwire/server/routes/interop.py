"""Documents that other ecosystems read: the AI Catalog with its search, and the agent card of A2A.

The catalog lists what the caller may use, as an index does, and the card what of that may be executed here: skills that
their publisher runs, and that were granted. A search sees what everyone may see, as ``/api/search`` does.

Which skills are callable is found in a thread, once for all requests that wait, and again after a while, since grants
change while a revision stays.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from skillwire import limits
from skillwire.bridges.listings import (
    CARD_PATH,
    CATALOG_PATH,
    CATALOG_TYPE,
    SEARCH_PATH,
    encode_card,
    encode_catalog,
    encode_hits,
    encode_refusal,
    read_search,
)
from skillwire.errors import DecodeError, UsageError
from skillwire.model.catalog import summarize
from skillwire.server.components import Protocol
from skillwire.server.openapi import CONDITION, JSON, TEXT, closed, kept, listed, problem
from skillwire.server.problems import NOT_FOUND, Problem
from skillwire.server.responses import json_response
from skillwire.server.revision import SiteUrlBody, has_failed
from skillwire.server.routing import Answer, Operation, Route, SiteUrlCache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from starlette.types import ASGIApp

    from skillwire.errors import SkillwireError
    from skillwire.model.skill import Skill
    from skillwire.server.components import Services
    from skillwire.server.revision import AccessView, IndexCache
    from skillwire.server.routing import RequestContext

    #: The names of executable skills, and a text that changes with them.
    Runnable = tuple[tuple[str, ...], str]

#: For how long grants are kept; a list of skills gives no right to run them.
_SECONDS: Final = 10.0


class CallableHere:
    """Finds the skills that can be executed here; used by one event loop."""

    def __init__(self, *, grant_all: bool, ungranted: Callable[[Iterable[Skill]], Awaitable[list[str]]]) -> None:
        self._grant_all = grant_all
        self._ungranted = ungranted
        self._looks: WeakKeyDictionary[IndexCache, tuple[float, asyncio.Task[Runnable]]] = WeakKeyDictionary()

    async def of(self, view: AccessView) -> Runnable:
        """Return the skills of ``view`` that can be executed, and a digest of them. Raises StorageError."""
        now = asyncio.get_running_loop().time()
        until, task = self._looks.get(view.indexes, (0.0, None))
        if task is None or (task.done() and (until <= now or has_failed(task))):
            task = asyncio.create_task(self._look(view))
            self._looks[view.indexes] = (now + _SECONDS, task)
        return await asyncio.shield(task)  # the task outlives a request that is cancelled

    async def _look(self, view: AccessView) -> Runnable:
        def load() -> list[Skill]:
            skills = view.usable.skills
            called = (skills[name] for name in skills if summarize(skills, name).kind == "action")
            return [skill for skill in called if skill.sharing is not None]

        skills = await asyncio.to_thread(load)
        ungranted = set() if self._grant_all else set(await self._ungranted(skills))
        names = tuple(skill.name for skill in skills if skill.name not in ungranted)
        return names, hashlib.sha256("\n".join(names).encode()).hexdigest()


_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a search has at most {limits.CATALOG_SEARCH_BYTES:,} bytes")


_OBJECT: Final = {"type": "object"}
_ENTRY: Final = {"identifier": TEXT, "type": {**TEXT, "description": "A media type."}, "url": {**TEXT, "format": "uri"}}
_FACTS: Final = {
    "displayName": TEXT, "description": TEXT, "tags": listed(TEXT), "version": TEXT, "extensions": _OBJECT,
}  # fmt: skip
_HIT: Final = {**_ENTRY, "score": {"type": "integer", "minimum": 1, "maximum": 100}, "source": TEXT}
_VALUES: Final = {"anyOf": [TEXT, listed(TEXT)]}
_FILTER: Final = {"type": "object", "properties": {"type": _VALUES, "tags": _VALUES}, "additionalProperties": False}
_CATALOG: Final = Operation(
    "The AI Catalog",
    {
        **kept(
            closed(
                {
                    "specVersion": TEXT,
                    "host": closed({"displayName": TEXT, "identifier": TEXT}),
                    "entries": listed(closed(_ENTRY, _FACTS)),
                }
            ),
            CATALOG_TYPE,
        ),
        "404": "NotFound",
    },
    (CONDITION,),
)
_SEARCH: Final = Operation(
    "Search the AI Catalog",
    {
        "200": Answer(
            "The hits, best first.",
            {JSON: closed({"results": listed(closed(_HIT, _FACTS))}, {"pageToken": TEXT})},
            ("Cache-Control",),
        ),
        "400": Answer(
            "It cannot be searched for.", {JSON: closed({"errorCode": TEXT, "message": TEXT})}, ("Cache-Control",)
        ),
        "404": "NotFound",
        "413": problem(f"It has more than {limits.CATALOG_SEARCH_BYTES:,} bytes: `LIMIT_SIZE`."),
    },
    body={
        JSON: {
            "type": "object",
            "properties": {
                "query": {"type": "object", "properties": {"text": TEXT, "filter": _FILTER}, "required": ["text"]},
                "pageSize": {"type": "integer", "minimum": 1, "maximum": int(limits.SEARCH_HITS)},
                "pageToken": {"type": ["string", "null"], "description": "Of the page before."},
            },
            "required": ["query"],
        }
    },
)
_CARD: Final = Operation(
    "The A2A agent card",
    {
        **kept(
            {
                "type": "object",
                "properties": {
                    "name": TEXT,
                    "description": TEXT,
                    "version": TEXT,
                    "supportedInterfaces": listed(
                        closed({"url": TEXT, "protocolBinding": TEXT, "protocolVersion": TEXT})
                    ),
                    "skills": listed(closed({"id": TEXT, "name": TEXT, "description": TEXT, "tags": listed(TEXT)})),
                },
                "required": ["name", "description", "version", "supportedInterfaces", "skills"],
            }
        ),
        "404": "NotFound",
    },
    (CONDITION,),
)


class Interop(Protocol):
    """The AI Catalog and the agent card; each is there when the configuration names a version of it."""

    name = "Interoperability"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of the catalog, its search, and the card."""
        settings = services.configuration.bridges
        callable_here = CallableHere(
            grant_all=services.configuration.executions.grant_all, ungranted=services.ungranted
        )
        documents = SiteUrlCache(services.base_url)

        async def catalog(context: RequestContext) -> ASGIApp:
            view, site = context.view, context.site
            has_card = settings.agent_card and (await callable_here.of(view))[0]
            path = CARD_PATH if has_card else None

            def encode() -> bytes:
                return encode_catalog(view.usable.skills.values(), services.publisher, site, card=path)

            made = SiteUrlBody(view.visible.skills, encode, view.cache, CATALOG_TYPE)
            return await documents.respond(context, f"{context.path} {path}", made)

        async def card(context: RequestContext) -> ASGIApp:
            view, site = context.view, context.site
            names, version = await callable_here.of(view)
            if not names:
                return NOT_FOUND

            def encode() -> bytes:
                skills = [view.usable.skills[name] for name in names]
                return encode_card(skills, services.publisher, site, services.interfaces)

            return await documents.respond(context, f"{context.path} {version}", SiteUrlBody(names, encode, view.cache))

        async def search(context: RequestContext) -> ASGIApp:
            asked = read_search(await context.body(limits.CATALOG_SEARCH_BYTES, _TOO_LARGE))
            await context.load()
            revision = context.revision
            # It may take 20 ms, in which others wait for nothing.
            page = await asyncio.to_thread(revision.search.search, asked.query)
            skills = [skill for name in page.names if (skill := revision.catalog.skills.get(name))]
            return json_response(encode_hits(asked, skills, page.next, context.site))

        return [
            Route(CATALOG_PATH, catalog if settings.ai_catalog else None, "service", describes=_CATALOG),
            Route(
                SEARCH_PATH,
                search if settings.ai_catalog else None,
                "service",
                methods=("POST",),
                loads=False,
                describes=_SEARCH,
            ),
            Route(CARD_PATH, card if settings.agent_card else None, "service", describes=_CARD),
        ]

    def error_table(self, error: SkillwireError) -> Problem:
        """Return the response that reports ``error`` in the form of the catalog."""
        if not isinstance(error, DecodeError | UsageError):
            raise error
        return Problem(400, error.code, error.message, written=encode_refusal(error))
