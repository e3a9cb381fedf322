"""The argument of a request handler: the caller, its view, and the revision that answers the request.

A route (:mod:`skillwire.server.routing`) authenticates the caller and loads the view before its handler runs, unless
the row says otherwise. Where credentials may be in the body, the handler does both itself. One revision answers a
request to its end, however many follow meanwhile.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from skillwire import limits
from skillwire.errors import StorageError
from skillwire.model.access import ANONYMOUS
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.server.auth.authentication import AuthResult
from skillwire.server.http import VARY, RequestIds, encode_fields, path_of, read_fields, root_of, site_of
from skillwire.server.problems import NOT_READY, ProblemError, too_many
from skillwire.server.quotas import RateLimit, RateLimiter, caller_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Message, Receive, Scope, Send

    from skillwire.model.access import Principal
    from skillwire.registry.packages import Registry
    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.configuration import ServerConfiguration
    from skillwire.server.http import Fields
    from skillwire.server.monitoring import RouteLabel
    from skillwire.server.problems import Problem
    from skillwire.server.responses import CachedResponse
    from skillwire.server.revision import AccessView, AccessViews, Revision, SiteUrlBody
    from skillwire.web.assets import Branding

_DEPENDS: Final = {"Vary": VARY}
_PRIVATE: Final = encode_fields({"Cache-Control": CachePolicy.PRIVATE.value}, _DEPENDS)
_UNSTORED: Final = encode_fields({"Cache-Control": "no-store"}, _DEPENDS)


#: The number of a change of the registry: an answer to a change has it, and a request that sends it back is answered
#: with that change.
REVISION: Final = b"skillwire-revision"
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)


class ResponseRecorder:
    """Sends a response and records status and size; adds rate limits, and privacy for a principal's response.

    ``filter_fields`` returns the header fields to send.
    """

    __slots__ = ("_filter_fields", "_send", "caller", "sent", "status")

    def __init__(self, send: Send, filter_fields: Callable[[Fields], Fields] | None = None) -> None:
        self._send = send
        self._filter_fields = filter_fields
        self.caller = AuthResult(None, {})
        self.status = 0
        self.sent = 0

    async def __call__(self, message: Message) -> None:
        """Send a message of ASGI."""
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            fields: Fields = message["headers"]
            if self.caller.principal is not None:
                is_stored = (b"cache-control", b"no-store") not in fields
                kept = [field for field in fields if field[0] not in {b"cache-control", b"vary"}]
                fields = [*kept, *(_PRIVATE if is_stored else _UNSTORED)]
            told = {name for name, _ in fields}  # a refusal for another limit has fields of its own
            fields = [*fields, *(one for one in encode_fields(self.caller.fields) if one[0] not in told)]
            message["headers"] = self._filter_fields(fields) if self._filter_fields else fields
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)


class RequestServices(Protocol):
    """The fields of :class:`skillwire.server.components.Services` that a context reads.

    Naming that class here would make an import circle of the server's modules.
    """

    catalog: CatalogService
    authentication: Authentication
    views: AccessViews
    base_url: str
    configuration: ServerConfiguration

    @property
    def registry(self) -> Registry | None:
        """The use cases of the registry, if there is one."""

    @property
    def clock(self) -> Callable[[], float]:
        """Monotonic seconds."""


class RequestContext:
    """A request and its caller; ``view`` and ``revision`` exist after :meth:`load`. ``parameters`` are of the path."""

    __slots__ = (
        "_services",
        "change",
        "ids",
        "label",
        "parameters",
        "path",
        "receive",
        "revision",
        "route",
        "scope",
        "send",
        "view",
    )
    view: AccessView
    revision: Revision

    def __init__(self, scope: Scope, receive: Receive, send: ResponseRecorder, services: RequestServices) -> None:
        self.path = path_of(scope)
        self.scope = scope
        self.receive = receive
        self.send = send
        self.ids = RequestIds(scope["headers"])
        self.label: RouteLabel = "none"
        self.route = ""  # the pattern of the path, once a row has taken it
        self.parameters: Mapping[str, str] = {}
        self.change = 0  # the number of the one that the request made, where its handler knows it
        self._services = services

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds that never run backwards."""
        return self._services.clock

    @property
    def is_registry(self) -> bool:
        """Whether the server is a registry, so that people have accounts."""
        return self._services.registry is not None

    @property
    def branding(self) -> Branding:
        """What the operator says of the site."""
        return self._services.configuration.site

    @property
    def caller(self) -> AuthResult:
        """The caller, anonymous until it is authenticated."""
        return self.send.caller

    @property
    def principal(self) -> Principal | None:
        """The authenticated caller; None for an anonymous client."""
        return self.send.caller.principal

    async def follow_changes(self, seconds: float) -> None:
        """Return once the changes so far are served, after ``seconds`` at the latest."""
        await self._services.catalog.follow(seconds)

    @property
    def owner(self) -> str:
        """The name under which the caller's executions, runs and blobs are kept."""
        return caller_of(self.principal or ANONYMOUS, self.address)

    @property
    def address(self) -> str:
        """The IP address that the request came from; empty when the server does not say."""
        return self.scope["client"][0] if self.scope.get("client") else ""

    @property
    def method(self) -> str:
        """Of HTTP."""
        return str(self.scope["method"])

    @property
    def site(self) -> str:
        """The absolute URL of the site's root as the client reaches it, without a final slash."""
        return site_of(self.scope, self._services.base_url)

    @property
    def root(self) -> str:
        """The path of the site's root as the client reaches it, without a final slash."""
        return root_of(self.scope, self._services.base_url)

    def fields(self, *names: bytes) -> dict[bytes, str]:
        """Return those of the header fields that the request has."""
        return read_fields(self.scope["headers"], *names)

    def prefers_html(self) -> bool:
        """Whether the client is a browser."""
        return "text/html" in self.fields(b"accept").get(b"accept", "")

    async def body(self, max_bytes: int, too_large: Problem) -> bytes:
        """Return the body. Raises ProblemError (``too_large``) beyond ``max_bytes``."""
        body = bytearray()
        while True:
            message = await self.receive()
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise ProblemError(too_large)
            if not message.get("more_body", False):
                return bytes(body)

    async def authenticate(self, body: bytes = b"", *, scope: Scope | None = None) -> AuthResult:
        """Authenticate the caller and count the request; call it once. Raises ProblemError (401, 429, 503)."""
        self.send.caller = await self._services.authentication.authenticate(scope or self.scope, body)
        return self.send.caller

    def count_further(self, number: int) -> None:
        """Count ``number`` more requests of one body, after :meth:`authenticate`. Raises ProblemError (429)."""
        principal = self.principal
        self.send.caller = AuthResult(principal, {})  # a refusal says itself what is left
        fields = self._services.authentication.count_further(principal, self.scope, number)
        self.send.caller = AuthResult(principal, fields)

    async def load(self) -> AccessView:
        """Wait for the first revision, and return the caller's view of the current one. Raises ProblemError (503)."""
        revision = await self.find_revision(limits.SERVER_LOADING_SECONDS)
        if revision is None:
            raise ProblemError(NOT_READY)
        self.view = await self._services.views.of(self.principal, revision)
        return self.view

    async def find_revision(self, seconds: float) -> Revision | None:
        """Return the revision that answers this request; None when the first one takes longer than ``seconds``."""
        if not hasattr(self, "revision"):
            await self._wait_for_change()
            revision = self._services.catalog.current
            if revision is None:
                self._services.catalog.start()
                revision = await self._services.catalog.first(seconds)
            if revision is None:
                return None
            self.revision = revision
        return self.revision

    async def _wait_for_change(self) -> None:
        """Wait for the change that the client has seen at any server. Raises ProblemError (503), StorageError."""
        change = self.fields(REVISION).get(REVISION, "")
        if (registry := self._services.registry) is None or not _NUMBER.fullmatch(change):
            return
        catalog = self._services.catalog
        if catalog.reached < int(change):  # one that the database lost stands for all that it has
            await catalog.reach(min(int(change), await registry.store.revision()))

    async def stamp_change(self) -> None:
        """Have the response name the last change, for later requests of this client at any server."""
        with suppress(StorageError):  # the change stands
            if (registry := self._services.registry) is not None:
                fields = {
                    **self.caller.fields,
                    "Skillwire-Revision": str(self.change or await registry.store.revision()),
                }
                self.send.caller = self.caller._replace(fields=fields)

    def forbidden(self, skill: str | None, *, wish: str = "use") -> ProblemError:
        """Return the problem for a caller that may see ``skill`` and not use it (401, 403)."""
        return self._services.authentication.forbidden(self.principal, skill, self.scope, wish=wish)


#: So many skills make a list that takes a while.
_MANY_SKILLS: Final = 200
_NEW_ADDRESSES: Final = RateLimit(30, 30)


class SiteUrlCache:
    """Makes documents that carry the address of the site; ``base_url`` is empty when each request says the address.

    Trust: without a base URL the address is what the client writes into ``Host``, and a list of 10,000 skills takes
    half a second to make, so lists for new addresses are made only so often.
    """

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._new_addresses = RateLimiter(_NEW_ADDRESSES)

    async def respond(self, context: RequestContext, path: str, made: SiteUrlBody) -> CachedResponse:
        """Return the document at ``path`` for the site's address. Raises ProblemError (429) for too many addresses."""
        key, view = f"{path} {context.site}", context.view
        if not self._base_url and len(made.skills) >= _MANY_SKILLS and not view.indexes.has(key):
            allowance = self._new_addresses.take("", context.clock())
            if not allowance.allowed:
                message = "too many addresses are asked for; --base-url names the right one"
                raise ProblemError(too_many(message, allowance))
        return await view.indexes.prepare(key, made)
