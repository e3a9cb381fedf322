"""The ASGI application: what :func:`skillwire.server.app` returns.

A request goes through at most three doors (and under our own server not even through the first: see
:mod:`skillwire.server.connection`). The *fast path* is one lookup of its path among the answers that are
prepared. Next the *site* takes the path apart: files, artifacts, indexes of scopes; and *Skill Sharing* its own. Who
says who asks is recognised before, and sees the site of an audience of its own. Browsers are answered by the
*console*: ``/``, ``/skills/``. What is left goes to *Starlette*: ``/healthz``, ``/readyz``, ``/metrics``, and 404
for the rest.

The application runs alone, or mounted below any path of another one. Most frameworks hand no lifespan events to
what is mounted in them, so it starts with the first request when nobody has started it. Requests that come
while the first catalog is being loaded wait for it, up to a bound.
"""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from skillwire import limits
from skillwire.protocols.agent_skills.fields import IDENTITY_FIELDS
from skillwire.protocols.agent_skills.server import Cache, Listing
from skillwire.server.audience import Audiences
from skillwire.server.auth.resource import RESOURCE_PATH
from skillwire.server.authentication import Asker, Refusal, says_who
from skillwire.server.console import Console
from skillwire.server.headers import encode_fields
from skillwire.server.methods import answer_other_method
from skillwire.server.metrics import Metrics
from skillwire.server.problems import INTERNAL, NOT_FOUND, NOT_READY, URL_TOO_LONG
from skillwire.server.remembered import Remembered, RememberedHeads
from skillwire.server.search_answers import SEARCH_PATH
from skillwire.server.services import make_services
from skillwire.server.sharing_route import SharingRoute
from skillwire.server.stored import StoredContent

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from skillwire.model.access import Principal
    from skillwire.server.authentication import Authentication
    from skillwire.server.headers import Fields
    from skillwire.server.metrics import Route
    from skillwire.server.prepared import Ready
    from skillwire.server.publication import Publication
    from skillwire.server.revision import Revision

_READ: Final = ("GET", "HEAD")
#: What every path of a site begins with; all else is a service or nothing.
_SITE: Final = ("/.well-known/", "/@")
#: On every answer to who says who asks: it is for no shared cache, and some for none at all.
_DEPENDS: Final = {"Vary": f"Accept-Encoding, {IDENTITY_FIELDS}"}
_PRIVATE: Final = encode_fields({"Cache-Control": Cache.PRIVATE.value}, _DEPENDS)
_UNSTORED: Final = encode_fields({"Cache-Control": "no-store"}, _DEPENDS)
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
        publisher: whose skills these are.
        access_log: whether each request is logged.
        base_url: of the site, for the addresses that pages show; as requests say it when empty.
    """

    def __init__(
        self,
        publication: Publication,
        authentication: Authentication,
        *,
        publisher: str,
        access_log: bool = True,
        base_url: str = "",
    ) -> None:
        self.publication = publication
        self._access_log = access_log
        self._log = structlog.get_logger("skillwire.access")
        self._metrics = Metrics(lambda: publication.current, lambda: publication.watch)
        self._stored = StoredContent(publication.blobs, publication.look_again)
        self._heads = RememberedHeads()
        self._audiences = Audiences(base_url)
        self._authentication = authentication
        self._sharing = SharingRoute(self._stored, publisher, base_url, authentication.offer)
        self._console = Console(lambda: publication.current, self._first_revision, publication.blobs, base_url)
        self._services = make_services(
            lambda: publication.current, self._first_revision, self._metrics, self._console.absent
        )

    async def startup(self) -> None:
        """Begin to load and watch the folders, unless that has begun. Returns at once."""
        self.publication.start()

    async def shutdown(self) -> None:
        """Stop watching the folders; return when that has ended."""
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
        path = _path(scope)
        revision = self.publication.current
        prepared = revision.prepared.get(path) if revision else None
        route: Route
        if prepared is not None and scope["method"] in _READ and self._is_plain(scope):
            route = "index"
            status, sent = await prepared.send(scope, send)
        else:
            seen = _Seen(send)
            route = await self._answer_rest(path, scope, receive, seen)
            status, sent = seen.status, 0 if scope["method"] == "HEAD" else seen.sent
        seconds = time.perf_counter() - started
        self._metrics.count(route, status, sent, seconds)
        if self._access_log:
            self._log_request(scope["method"], path, Outcome(status, sent, seconds), scope.get("client"))

    def answer_at_once(
        self, url: bytes, method: bytes, fields: Fields, client: tuple[str, int] | None, head: bytes | None = None
    ) -> Ready | None:
        """Return the answer to a request, if it is prepared or quickly found, and count the request as answered.

        Args:
            url: as the request line says it.
            method: in the same way.
            fields: the header fields; their names in lower case.
            client: address and port.
            head: the request as it came, if nothing else came with it; its answer is remembered.
        """
        if self._authentication.counts_strangers:
            return None
        started = time.perf_counter()
        revision = self.publication.current
        path = url.decode("latin-1")  # of those that are prepared, none needs to be unquoted
        prepared = revision.prepared.get(path) if revision else None
        ready = prepared.ready(method, fields) if prepared else None
        if revision and ready and head:
            self._heads.keep(head, revision.number, Remembered(ready, method.decode("ascii"), path))
        if revision and url.startswith(_SEARCH):
            ready = revision.answers.ready_at_once(url, method, fields)
        if ready is not None:
            outcome = Outcome(ready.status, len(ready.body), time.perf_counter() - started)
            self._metrics.count("index" if prepared else "service", *outcome)
            if self._access_log:
                self._log_request(method.decode("ascii"), path.partition("?")[0], outcome, client)
        return ready

    def answer_again(self, head: bytes, client: tuple[str, int] | None) -> Ready | None:
        """Return the answer to a request that :meth:`answer_at_once` answered before, byte for byte, and count it."""
        started = time.perf_counter()
        revision = self.publication.current
        remembered = self._heads.find(head, revision.number) if revision else None
        if remembered is None:
            return None
        ready = remembered.ready
        outcome = Outcome(ready.status, len(ready.body), time.perf_counter() - started)
        self._metrics.count("index", *outcome)
        if self._access_log:
            self._log_request(remembered.method, remembered.path, outcome, client)
        return ready

    def _log_request(self, method: str, path: str, outcome: Outcome, client: tuple[str, int] | None) -> None:
        self._log.info(
            "request",
            method=method,
            path=path,  # never the query, which may carry a secret
            status=outcome.status,
            bytes=outcome.sent,
            ms=round(outcome.seconds * 1000, 2),
            client=client[0] if client else None,
        )

    async def _answer_rest(self, path: str, scope: Scope, receive: Receive, seen: _Seen) -> Route:
        try:
            if len(scope.get("raw_path") or path) + len(scope["query_string"]) > limits.URL_LENGTH:
                await URL_TOO_LONG.send(seen)
                return "none"
            seen.asker = await self._authentication.identify(scope)
            principal = seen.asker.principal
            if path == RESOURCE_PATH:
                await self._authentication.resource.answer(scope, seen)
            elif not self._console.prefers(path, scope) and (self._sharing.owns(path) or path.startswith(_SITE)):
                return await self._answer_site(path, scope, seen, principal)
            elif self._console.owns(path):
                await self._console.answer(path, scope, seen)
                return "none" if seen.status == HTTPStatus.NOT_FOUND else "page"
            else:
                await self._services(scope, receive, seen)
        except Refusal as refusal:
            await refusal.problem.send(seen, head=scope["method"] == "HEAD")
            return "none"
        except Exception:
            structlog.get_logger("skillwire").exception("a request failed", path=path)
            if seen.status:
                raise  # the server cuts the connection, so that the client sees that something is missing
            await INTERNAL.send(seen)
            return "none"
        return "none" if seen.status == HTTPStatus.NOT_FOUND else "service"

    async def _answer_site(self, path: str, scope: Scope, send: Send, principal: Principal | None) -> Route:
        revision = self.publication.current or await self._first_revision(limits.SERVER_LOADING_SECONDS)
        if revision is None:
            await NOT_READY.send(send)
            return "none"
        audience = await self._audiences.of(principal, revision)
        is_shared = self._sharing.owns(path)
        answer = None if is_shared else audience.lookup(path)
        if answer is None and not is_shared:
            if audience.locked.lookup(path) is not None:
                raise self._authentication.locked(principal, audience.locked.skill_at(path), scope)
            await NOT_FOUND.send(send, head=scope["method"] == "HEAD")
            return "none"
        if scope["method"] not in _READ:
            await answer_other_method(scope["method"], send)
            return "none"
        if answer is None:
            await self._sharing.answer(path, scope, send, audience)
            return "sharing"
        if isinstance(answer, Listing):
            # It was not there yet when the request came, or the request says who asks.
            prepared = revision.prepared.get(path) if audience.is_everybody else None
            await (prepared or await audience.listings.prepare(path, answer)).send(scope, send)
            return "index" if prepared else "scope"
        await self._stored.send(answer, scope, send)
        return "artifact" if answer.cache is Cache.FOREVER else "file"

    def _is_plain(self, scope: Scope) -> bool:
        """Whether nobody has to be recognised or counted."""
        return not self._authentication.counts_strangers and not says_who(scope["headers"])

    async def _first_revision(self, seconds: float) -> Revision | None:
        self.publication.start()
        return await self.publication.first(seconds)


class _Seen:
    """Passes messages on and sees what was sent.

    ``asker`` is who asks, when that is known: what it is answered says how often it may still ask, and is for nobody
    else's cache.
    """

    __slots__ = ("_send", "asker", "sent", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.asker = Asker(None, {})
        self.status = 0
        self.sent = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            message["headers"] = self._fields(message["headers"])
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)

    def _fields(self, fields: Fields) -> Fields:
        own = encode_fields(self.asker.fields)
        if self.asker.principal is None:
            return [*fields, *own]
        kept = [field for field in fields if field[0] not in {b"cache-control", b"vary"}]
        is_stored = (b"cache-control", b"no-store") not in fields
        return [*kept, *(_PRIVATE if is_stored else _UNSTORED), *own]


def _path(scope: Scope) -> str:
    """Return the decoded path from the root of this application, wherever it is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and (path == root or path.startswith(root + "/")) else path
