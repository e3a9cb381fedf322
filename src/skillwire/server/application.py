"""The ASGI application: what :func:`skillwire.server.app` returns.

A request takes at most two steps (and under our own server not even the first: see
:mod:`skillwire.server.fastpath`). The *fast path* is one lookup of its path among the answers that are prepared.
All else is led to a door (:mod:`skillwire.server.doors`) by one table, of :meth:`Application._make_doors`. It names
every part of the server, in the order in which they are asked.

The application runs alone, or mounted below any path of another one. Most frameworks hand no lifespan events to
what is mounted in them, so it starts with the first request when nobody has started it. Requests that come
while the first catalog is being loaded wait for it, up to a bound.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from skillwire.executions.view import without_ids
from skillwire.server.access import AccessViews
from skillwire.server.auth.authentication import has_credentials
from skillwire.server.auth.resource import RESOURCE_PATH
from skillwire.server.blob_responses import BlobSender
from skillwire.server.context import Reception, RequestContext, ResponseRecorder, path_of
from skillwire.server.doors import Doors, door
from skillwire.server.executions import ExecutionRoutes
from skillwire.server.fastpath import FastAnswer, FastPathCache
from skillwire.server.metrics import Metrics
from skillwire.server.problems import READ
from skillwire.server.routes.console import ExecutionsConsole
from skillwire.server.routes.discovery import DiscoveryRoutes
from skillwire.server.routes.lan import LanRoutes
from skillwire.server.routes.pages import SkillPages
from skillwire.server.routes.sharing import SharingRoutes
from skillwire.server.routes.system import SYSTEM_PATHS, make_system_routes
from skillwire.server.search import SEARCH_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import Receive, Scope, Send

    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.doors import Plugin
    from skillwire.server.execution_stats import ExecutionStats
    from skillwire.server.executions import Executions
    from skillwire.server.fastpath import Address
    from skillwire.server.http import Fields
    from skillwire.server.lan.service import LanService
    from skillwire.server.metrics import Route
    from skillwire.server.responses import WireResponse

_SEARCH: Final = f"{SEARCH_PATH}?".encode("ascii")


class Outcome(NamedTuple):
    """How a request was answered: status, bytes of the body, seconds."""

    status: int
    sent: int
    seconds: float


class Application:
    """Serves a publication over ASGI.

    Args:
        publication: where revisions come from; started and stopped with the application.
        authentication: recognises who asks; closed with the application.
        executions: what is called, is run and followed there; ended with the application.
        publisher: whose skills these are.
        access_log: whether each request is logged.
        base_url: of the site, for the addresses that pages show; as requests say it when empty.
        figures: what ``/metrics`` says of executions.
        annexes: further doors.
        lan: what the server does on the local network; None when it is not there.
    """

    def __init__(
        self,
        publication: CatalogService,
        authentication: Authentication,
        executions: Executions,
        *,
        publisher: str,
        access_log: bool = True,
        base_url: str = "",
        figures: ExecutionStats | None = None,
        annexes: Sequence[Plugin] = (),
        lan: LanService | None = None,
    ) -> None:
        self.publication = publication
        self.lan = lan
        self._access_log = access_log
        self._log = structlog.get_logger("skillwire.access")
        self._metrics = Metrics(lambda: publication.current, lambda: publication.watch, figures, lan)
        self._heads: FastPathCache[FastAnswer] = FastPathCache()
        self._authentication = authentication
        self._executions = executions
        self._reception = Reception(publication, authentication, AccessViews(base_url))
        first = self._reception.first_revision
        console = SkillPages(lambda: publication.current, first, publication.blobs, base_url)
        self._executions_console = ExecutionsConsole(
            executions.desk, authentication, base_url=base_url, has_skill=self._is_public, lan=lan
        )
        own = () if lan is None else (LanRoutes(lan, self._executions_console.is_operator).annex(),)
        self._annexes = (*annexes, *own)
        self._services = make_system_routes(lambda: publication.current, first, self._metrics, console.absent)
        stored = BlobSender(publication.blobs, publication.look_again)
        sharing = SharingRoutes(stored, publisher, base_url, authentication.offer)
        self._doors = self._make_doors(console, DiscoveryRoutes(stored, sharing, authentication))

    def _make_doors(self, console: SkillPages, site: DiscoveryRoutes) -> Doors:
        operated, executions = self._executions_console, ExecutionRoutes(self._executions)
        resource, services = self._authentication.resource, self._services
        service = door("service", lambda visit: services(visit.scope, visit.receive, visit.send))
        look = partial(door, "page", lambda visit: console.answer(visit.path, visit.scope, visit.send))
        operate = partial(
            door, "page", lambda visit: operated.answer(visit.path, visit.scope, visit.receive, visit.send)
        )
        at = {RESOURCE_PATH: door("service", lambda visit: resource.answer(visit.scope, visit.send))}
        at |= dict.fromkeys(SYSTEM_PATHS, service)
        for annex in self._annexes:
            at |= annex.doors
        chain = (
            operate(lambda visit: operated.owns(visit.path)),  # pages for those who sign in
            operate(lambda visit: operated.prefers(visit.path, visit.scope)),
            executions.usual,  # calls of skills, and what came of them
            look(lambda visit: console.prefers(visit.path, visit.scope)),  # pages for everybody
            site,  # Agent Skills and Skill Sharing
            look(lambda visit: console.owns(visit.path)),
            executions.described,  # the same calls, at paths that publishers' own descriptors name
            service,  # 404
        )
        return Doors(at, chain)

    async def startup(self) -> None:
        """Begin to load and watch the folders, unless that has begun. Returns at once."""
        self.publication.start()
        if self.lan is not None:
            self.lan.start()
        await self._executions.resume()

    async def leave(self, *, has_failed: bool = False) -> None:
        """Say goodbye to the local network, before anything here ends: whoever hears it calls others.

        ``has_failed`` when the server ends by an error.
        """
        if self.lan is not None:
            await self.lan.leave(has_failed=has_failed)

    def hang_up(self) -> None:
        """End what is sent for as long as somebody looks: the server stops."""
        self._executions_console.close()
        for annex in self._annexes:
            annex.hang_up()
        self._executions.hang_up()

    async def shutdown(self) -> None:
        """Stop watching the folders; return when that has ended."""
        await self.leave()
        for annex in self._annexes:
            await annex.close()
        await self._executions.stop()
        await asyncio.to_thread(self.publication.stop)
        await self._authentication.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection of ASGI."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:  # a websocket: nothing here speaks one
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.startup()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.shutdown()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        path = path_of(scope)
        revision = self.publication.current
        prepared = revision.prepared.get(path) if revision else None
        route: Route
        if prepared is not None and scope["method"] in READ and self._is_plain(scope):
            route = "index"
            status, sent = await prepared.send(scope, send)
        else:
            seen = ResponseRecorder(send)
            route = await self._doors.answer(RequestContext(path, scope, receive, seen, self._reception))
            status, sent = seen.status, 0 if scope["method"] == "HEAD" else seen.sent
        seconds = time.perf_counter() - started
        self._metrics.count(route, status, sent, seconds)
        if self._access_log:
            self._log_request(scope["method"], path, Outcome(status, sent, seconds), scope.get("client"))

    def answer_at_once(
        self, url: bytes, method: bytes, fields: Fields, client: tuple[str, int] | None, head: bytes | None = None
    ) -> WireResponse | None:
        """Return the answer to a request, if it is prepared or quickly found, and count the request as answered.

        Args:
            url: as the request line says it.
            method: in the same way.
            fields: the header fields; their names in lower case.
            client: address and port.
            head: the request as it came, if nothing else came with it; its answer is remembered.
        """
        if self._authentication.limits_anonymous:
            return None
        started = time.perf_counter()
        revision = self.publication.current
        path = url.decode("latin-1")  # of those that are prepared, none needs to be unquoted
        prepared = revision.prepared.get(path) if revision else None
        ready = prepared.ready(method, fields) if prepared else None
        if revision and ready and head:
            self._heads.keep(head, revision.number, FastAnswer(ready, method.decode("ascii"), path))
        if revision and url.startswith(_SEARCH):
            ready = revision.answers.ready_at_once(url, method, fields)
        if ready is not None:
            outcome = Outcome(ready.status, len(ready.body), time.perf_counter() - started)
            self._metrics.count("index" if prepared else "service", *outcome)
            if self._access_log:
                self._log_request(method.decode("ascii"), path.partition("?")[0], outcome, client)
        return ready

    def answer_again(self, head: bytes, client: tuple[str, int] | None) -> WireResponse | None:
        """Return the answer to a request that :meth:`answer_at_once` answered before, byte for byte, and count it.

        An annex may know more such requests, and what to answer to them.
        """
        started = time.perf_counter()
        revision = self.publication.current
        if revision is None:
            return None
        remembered = self._heads.find(head, revision.number)
        route: Route = "index"
        if remembered is None:
            remembered = next(filter(None, (annex.again(head, revision.number) for annex in self._annexes)), None)
            route = "rpc"
        if remembered is None:
            return None
        ready = remembered.ready
        outcome = Outcome(ready.status, len(ready.body), time.perf_counter() - started)
        self._metrics.count(route, *outcome)
        if self._access_log:
            self._log_request(remembered.method, remembered.path, outcome, client)
        return ready

    def call_again(
        self,
        request: bytes,
        client: tuple[str, int] | None,
        server: Address | None,
        answered: Callable[[WireResponse | None], object],
    ) -> bool:
        """Accept a call whose head led to one before, if nothing is in the way; return whether that was begun.

        Args:
            request: as it came, head and body, with nothing before or behind it.
            client: address and port.
            server: address and port at which it came.
            answered: called later, with the answer once it is true, or with None: then the request is to be read.
        """
        started = time.perf_counter()
        revision = self.publication.current
        known = self._executions.known
        found = known.find(request, revision.number, server) if revision else None
        if found is None or self._authentication.limits_anonymous:
            return False
        call, body = found

        def told(ready: WireResponse | None) -> None:
            if ready is not None:
                outcome = Outcome(ready.status, len(ready.body), time.perf_counter() - started)
                self._metrics.count("execution", *outcome)
                if self._access_log:
                    self._log_request(call.method, call.path, outcome, client)
            answered(ready)

        return known.accept(call, body, client[0] if client else "", told)

    def _log_request(self, method: str, path: str, outcome: Outcome, client: tuple[str, int] | None) -> None:
        self._log.info(
            "request",
            method=method,
            path=without_ids(path),  # never the query, which may carry a secret
            status=outcome.status,
            bytes=outcome.sent,
            ms=round(outcome.seconds * 1000, 2),
            client=client[0] if client else None,
        )

    def _is_plain(self, scope: Scope) -> bool:
        """Whether nobody has to be recognised or counted."""
        return not self._authentication.limits_anonymous and not has_credentials(scope["headers"])

    def _is_public(self, skill: str) -> bool:
        revision = self.publication.current
        return revision is not None and skill in revision.catalog.skills
