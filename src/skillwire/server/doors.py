"""The doors of the application: which part of it answers which path.

Every request whose answer is not prepared comes here. First its path is looked up in one table; what has no row there
is shown to the doors of the *chain* in turn, and the first that takes it answers. :mod:`skillwire.server.application`
writes both down in one place, where the order can be read.

To add a door, add its :class:`Annex` to the list in :func:`skillwire.server.compose.make_plugins`. A door is an
async function of a :class:`~skillwire.server.context.RequestContext`, which answers and returns what the
request is counted as::

    async def tell_card(visit: Visit) -> Route:
        await visit.identify()              # who asks, counted; 401 and 429 are answered for you
        audience = await visit.audience()   # what that one may know of and use; 503 while loading
        ...                                 # visit.method, visit.scope, visit.receive; answer through visit.send
        return "service"

    Annex({"/.well-known/agent-card.json": tell_card})

A row whose path ends in ``/`` is for every path of one more part below it: ``/blobs/`` takes ``/blobs/ID``. What
:class:`~skillwire.server.addressed.SiteUrlCache` sends is made once for each audience, with its tag and compressed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import structlog

from skillwire.server.auth.authentication import ProblemError
from skillwire.server.context import RequestContext
from skillwire.server.metrics import Route
from skillwire.server.problems import INTERNAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.server.fastpath import FastAnswer

#: Answers a request and says what it is counted as; or leaves it untouched to the next door, with None.
Door = Callable[[RequestContext], Awaitable[Route | None]]


async def _nothing() -> None:
    pass


def _unknown(_request: bytes, _revision: int) -> FastAnswer | None:
    return None


class Plugin(NamedTuple):
    """Doors that belong together: ``doors`` by their paths.

    ``hang_up`` is called when the server stops, to end what is sent for as long as somebody listens; ``close`` when
    the last answer is out. ``again`` is shown each request whose bytes came whole and alone, with the number of the
    revision, and may give the answer at once: what its door would, counted as ``rpc``.
    """

    doors: Mapping[str, Door]
    hang_up: Callable[[], object] = lambda: None
    close: Callable[[], Awaitable[object]] = _nothing
    again: Callable[[bytes, int], FastAnswer | None] = _unknown


class Doors:
    """Leads each request to the door that answers it.

    Args:
        at: path → its door; one that ends in ``/`` is for every path of one more part.
        chain: asked in turn about every other path; the last takes everything.
    """

    def __init__(self, at: Mapping[str, Door], chain: Sequence[Door]) -> None:
        self._at = at
        self._chain = chain

    async def answer(self, visit: RequestContext) -> Route:
        """Answer a request, whatever happens; return what it is counted as."""
        try:
            visit.check_length()
            route = await self._lead(visit)
        except ProblemError as refusal:
            await refusal.problem.send(visit.send, head=visit.method == "HEAD")
            return "none"
        except Exception:
            structlog.get_logger("skillwire").exception("a request failed", path=visit.path)
            if visit.send.status:
                raise  # the server cuts the connection, so that the client sees that something is missing
            await INTERNAL.send(visit.send)
            return "none"
        return "none" if visit.send.status == HTTPStatus.NOT_FOUND else route

    async def _lead(self, visit: RequestContext) -> Route:
        own = self._own(visit.path)
        for lead in (own, *self._chain) if own else self._chain:
            if (route := await lead(visit)) is not None:
                return route
        return "none"

    def _own(self, path: str) -> Door | None:
        above, _, last = path.rpartition("/")
        return (self._at.get(path) or self._at.get(f"{above}/")) if last else None


def door(
    route: Route,
    answer: Callable[[RequestContext], Awaitable[object]],
    takes: Callable[[RequestContext], bool] = lambda _: True,
) -> Door:
    """Return the door that recognises who asks, and then lets ``answer`` answer what it ``takes``."""

    async def lead(visit: RequestContext) -> Route | None:
        if not takes(visit):
            return None
        await visit.identify()
        await answer(visit)
        return route

    return lead
