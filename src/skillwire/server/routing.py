"""A row of the route table, and the argument of its handler: the caller, its view, and the revision that answers.

A row is a path, its methods, its handler, and what every request to it needs. A handler gets a :class:`RequestContext`
and returns the response: any ASGI application, or None when it has sent one. Before it runs, the row authenticates the
caller and loads its view of the current revision, once there is one. A handler that accepts credentials in the body
does both itself; one that answers while skills are loaded does not wait. One revision answers a request to its end,
however many follow meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from starlette import routing
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from skillwire import limits
from skillwire.errors import SkillwireError, StorageError
from skillwire.model.access import ANONYMOUS
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.server.auth.authentication import AuthResult
from skillwire.server.http import (
    CONTEXT,
    VARY,
    RequestIds,
    client_address,
    encode_fields,
    path_of,
    read_fields,
    root_of,
    site_of,
)
from skillwire.server.monitoring import RouteLabel
from skillwire.server.problems import NOT_READY, READ, Preflight, Problem, ProblemError, problem_for, too_many
from skillwire.server.quotas import RateLimit, RateLimiter, caller_of

if TYPE_CHECKING:
    from starlette.types import Message

    from skillwire.model.access import Principal
    from skillwire.registry.packages import Registry
    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.configuration import ServerConfiguration
    from skillwire.server.http import Fields
    from skillwire.server.responses import CachedResponse
    from skillwire.server.revision import AccessView, AccessViews, Revision, SiteUrlBody
    from skillwire.web.assets import Branding


_DEPENDS: Final = VARY.encode("ascii")
_PRIVATE: Final = CachePolicy.PRIVATE.value.encode("ascii")


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
                depends = b", ".join((_DEPENDS, *(value for name, value in fields if name == b"vary"))).split(b", ")
                kept = [field for field in fields if field[0] not in {b"cache-control", b"vary"}]
                cache = _PRIVATE if is_stored else b"no-store"
                fields = [*kept, (b"cache-control", cache), (b"vary", b", ".join(dict.fromkeys(depends)))]
            named = {name for name, _ in fields}  # a refusal for another limit has fields of its own
            fields = [*fields, *(one for one in encode_fields(self.caller.fields) if one[0] not in named)]
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
        return client_address(self.scope)

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
        """Have the response to an account name the last change, for later requests of this client at any server.

        Other callers change nothing that is listed, and would learn that private packages change.
        """
        if self.principal is None or not self.principal.account:
            return
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


Handler = Callable[[RequestContext], Awaitable[ASGIApp | None]]


class Answer(NamedTuple):
    """An answer: its meaning, message types or schemas by media type, and the names of its header fields."""

    meaning: str
    content: Mapping[str, Any] = {}
    fields: tuple[str, ...] = ()


class Operation(NamedTuple):
    """What a method of a row does: answers by status (some by name), parameters by name, and what the body is."""

    summary: str
    answers: Mapping[str, Answer | str] = {}
    parameters: tuple[str, ...] = ()
    body: Mapping[str, Any] = {}


class Route(routing.Route):
    """A row of the route table: a path (a pattern of Starlette), its handler, and the label its requests count as.

    The label ``service`` is for requests of no protocol in the metrics, such as ``/healthz``. A row without a handler
    is described and never matches. With empty ``methods`` the handler checks the method itself.
    ``answers_preflight`` adds OPTIONS, which tells browsers what pages of other sites may send. ``authenticates`` and
    ``loads`` prepare the context before the handler runs. ``describes`` is for OpenAPI, by method where it has several.
    """

    def __init__(
        self,
        path: str,
        handler: Handler | None,
        label: RouteLabel,
        *,
        methods: Sequence[str] = READ,
        answers_preflight: bool = True,
        authenticates: bool = True,
        loads: bool = True,
        describes: Operation | Mapping[str, Operation] | None = None,
    ) -> None:
        self.allowed = (*methods, "OPTIONS") if answers_preflight and methods else tuple(methods)
        super().__init__(path, self.handle, methods=self.allowed or None, name=label)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$"), re.DOTALL)
        self.template = re.sub(r":\w+}", "}", path)
        self._handler = handler
        self.tag = ""
        main = "get" if not methods or "GET" in methods else methods[0].lower()
        self.operations = {main: describes} if isinstance(describes, Operation) else describes or {}
        self.label = label
        self.answers_preflight = answers_preflight
        self._authenticates = authenticates
        self._loads = loads
        self.error_table: Callable[[SkillwireError], Problem] = problem_for

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Take a path whatever the method is, so that a later row never answers for this one."""
        is_tried = self._handler is not None and scope["type"] == "http"
        found = self.path_regex.fullmatch(scope[CONTEXT].path) if is_tried else None
        return (Match.NONE, {}) if found is None else (Match.FULL, {"path_params": found.groupdict()})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises ProblemError (401, 429, 503), and HTTPException (405) for another method."""
        context: RequestContext = scope[CONTEXT]
        context.label, context.route = self.label, self.template
        context.parameters = scope["path_params"]
        is_allowed = not self.allowed or scope["method"] in self.allowed
        is_preflight = bool(self.allowed) and scope["method"] == "OPTIONS"
        if self._authenticates or not is_allowed or is_preflight:
            await context.authenticate()
        if self._handler is None:
            raise HTTPException(404)
        if not is_allowed:
            raise HTTPException(405, headers={"Allow": ", ".join(self.allowed)})
        response: ASGIApp | None
        if is_preflight:
            response = Preflight(self.allowed)
        else:
            if self._loads:
                await context.load()
            try:
                response = await self._handler(context)
            except SkillwireError as error:
                response = self.error_table(error)
        if response is not None:
            await response(scope, receive, send)


class RouteTable(routing.Router):
    """The rows of a server, in order. It tries only rows whose path begins like that of the request."""

    def __init__(self, routes: Sequence[Route], lifespan: Lifespan[Any]) -> None:
        super().__init__(routes, redirect_slashes=False, lifespan=lifespan)
        self._indexed: list[routing.BaseRoute] = []
        self._by_first: dict[str, list[routing.BaseRoute]] = {}

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the first row that matches its path."""
        possible = self._possible(_first_part(scope[CONTEXT].path)) if scope["type"] == "http" else ()
        for route in possible:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                await route.handle(scope, receive, send)
                return
        await super().app(scope, receive, send)  # for rows of the library: 405, where only the method is another

    def _possible(self, first: str) -> list[routing.BaseRoute]:
        """Return the rows whose paths may begin with this part, and those that take any."""
        if self._indexed != self.routes:
            self._indexed = list(self.routes)
            parts = [_first_part(getattr(route, "path", "") or "/{}") for route in self._indexed]
            self._by_first = {
                one: [route for route, part in zip(self._indexed, parts, strict=True) if part == one or "{" in part]
                for one in {*parts, "{"}
            }
        return self._by_first.get(first) or self._by_first["{"]


def _first_part(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]


class _ExecutionId(StringConvertor):
    regex = "exec-(?:[0-9a-f]{12})?[0-9a-f]{32}"


#: ``{name:execution}`` in a path stands for the ID of an execution.
register_url_convertor("execution", _ExecutionId())
