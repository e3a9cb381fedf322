"""A request of the console: its session, its form, its answers, and the names of callers on pages.

A browser sends the cookie only with requests of our own pages (``SameSite=Strict``). A form is accepted only when three
more things show that it is ours: ``Sec-Fetch-Site``, or ``Origin`` where a browser does not send that, names this site;
its media type is that of forms; and it holds the token of the session.

Trust: everything in a request is untrusted.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from skillwire import limits
from skillwire.errors import NotFoundError
from skillwire.executions.tasks import person_worker
from skillwire.model.access import ANONYMOUS, OPERATOR, TASKS
from skillwire.model.execution import Execution
from skillwire.registry.tokens import Tokens
from skillwire.server.auth.rate_limit import caller_of, network_of
from skillwire.server.context import RequestContext
from skillwire.server.http import read_fields, site_of
from skillwire.server.problems import READ
from skillwire.server.responses import Page, Redirect
from skillwire.server.routes.executions import may_follow
from skillwire.server.routing import Route
from skillwire.server.sessions import Session, Sessions, is_form_token
from skillwire.web.address import way_up
from skillwire.web.environment import Frame, Notice, SignedInPerson, notice_page

Pairs = list[tuple[str, str]]

_IDENTITY: Final = "identity "
_PRINCIPAL: Final = "principal "
_ADDRESS: Final = "address "


class CallerNames:
    """Names of callers on pages: a token's name, a principal's, or an address; see ``rate_limit.caller_of``."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens

    async def names(self, callers: Iterable[str]) -> dict[str, str]:
        """Return a name for each caller."""
        found = {}
        for caller in set(callers):
            kind, _, name = caller.partition(" ")
            found[caller] = name or caller
            if f"{kind} " == _IDENTITY:
                found[caller] = name
                with suppress(NotFoundError):  # of a signed request of long ago, or an issuer's
                    found[caller] = (await self._tokens().look_up(name)).name
        return found

    async def caller_of(self, typed: str) -> str:
        """Return the caller for typed text: a caller, an address, or the newest token of this name or ID."""
        if typed.startswith((_IDENTITY, _PRINCIPAL, _ADDRESS)):
            return typed
        try:
            ipaddress.ip_address(typed)
        except ValueError:
            known = [token for token in await self._tokens().all() if typed in {token.name, token.token_id}]
            return f"{_IDENTITY}{known[-1].token_id}" if known else f"{_PRINCIPAL}{typed}"
        return f"{_ADDRESS}{network_of(typed)}"


_FORM_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"
_SAME_SITE: Final = frozenset({"same-origin", "none"})
_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})


class RefusedError(Exception):
    """A request that is answered with a notice, such as a form that is not ours; nothing is done."""

    def __init__(self, status: HTTPStatus, notice: Notice = "unread") -> None:
        super().__init__(status)
        self.status = status
        self.notice: Notice = notice


#: Stands for a visitor without a session on the parts of an execution that the page of a skill shows.
ANYONE: Final = SignedInPerson("", "")


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """A request of the console: its path from the root of the site, the frame of its pages, and the session."""

    path: str
    scope: Scope
    receive: Receive
    send: Send
    frame: Frame
    session: Session | None = None

    @property
    def name(self) -> str:
        """The person's name on pages."""
        return "" if self.session is None else self.session.shown

    @property
    def worker(self) -> str:
        """The worker name of the person, which is unique, and the same in all sessions of an account or a person."""
        principal = ANONYMOUS if self.session is None else self.session.principal
        identity = principal.identity
        if principal.account or not identity:
            whole = hashlib.sha256(f"{principal.account}\0{'' if principal.account else principal.name}".encode())
            identity = base64.b32encode(whole.digest())[:16].decode().lower()
        return person_worker(self.name, identity)

    @property
    def caller(self) -> str:
        """The owner of the person's own executions."""
        return "" if self.session is None else caller_of(self.session.principal, "")

    @property
    def sees_all(self) -> bool:
        """Whether the person sees and cancels every execution."""
        return self.session is not None and OPERATOR in self.session.principal.scopes

    @property
    def may_work(self) -> bool:
        """Whether the person works the inbox."""
        return self.session is not None and not self.session.principal.scopes.isdisjoint({OPERATOR, TASKS})

    def sees(self, execution: Execution | None) -> bool:
        """Whether the person may see an execution, and cancel it."""
        principal = self.session.principal if self.session else None
        return execution is not None and may_follow(execution, principal)

    def parameter(self, name: str) -> str:
        """Return a parameter of the URL, or an empty text."""
        try:
            query: bytes = self.scope["query_string"]
            pairs = dict(parse_qsl(query.decode("latin-1"), max_num_fields=limits.CONSOLE_FORM_FIELDS))
        except ValueError:
            return ""
        return pairs.get(name, "")

    async def form(self) -> Pairs:
        """Return the form's fields, in order. Raises RefusedError (400, 403, 413, 415)."""
        asked = read_fields(self.scope["headers"], b"content-type", b"sec-fetch-site", b"origin", b"host")
        if not is_from_here(asked, self.frame.address):
            raise RefusedError(HTTPStatus.FORBIDDEN, "foreign")
        if asked.get(b"content-type", "").partition(";")[0].strip().lower() != _FORM_MEDIA_TYPE:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        body = bytearray()
        try:
            async for piece in Request(self.scope, self.receive).stream():
                body += piece
                if len(body) > limits.CONSOLE_FORM_BYTES:
                    raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            text = body.decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=limits.CONSOLE_FORM_FIELDS)
        except (ClientDisconnect, ValueError) as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST) from error
        if self.session is not None and not is_form_token(self.session, dict(pairs).get("token", "")):
            raise RefusedError(HTTPStatus.FORBIDDEN, "foreign")
        return pairs

    async def send_to_login(self) -> None:
        """Redirect a person without a session to the login page, and back afterwards.

        A browser that follows another site's link sends no cookie, so a page of ours first asks again.
        """
        reads = self.scope["method"] in READ
        site = read_fields(self.scope["headers"], b"sec-fetch-site").get(b"sec-fetch-site", "")
        if reads and site in _ELSEWHERE:
            await self.show_notice("again", HTTPStatus.OK)
            return
        query = self.scope["query_string"].decode("latin-1") if reads else ""
        path = self.path if reads else self.path.rpartition("/")[0]
        following = following_path(f"{path}?{query}" if query else path)
        await self.redirect(f"/login?{urlencode({'next': following})}" if following else "/login")

    async def show(self, html: str, status: int = HTTPStatus.OK, fields: Mapping[str, str] = {}) -> None:
        """Answer with a page."""
        await Page(status, html, fields, is_private=True)(self.scope, self.receive, self.send)

    async def show_notice(self, notice: Notice, status: int) -> None:
        """Answer with a page of one notice."""
        await self.show(await asyncio.to_thread(notice_page, notice, self.frame), status)

    async def redirect(self, path: str, fields: Mapping[str, str] = {}, **query: str) -> None:
        """Redirect to a path from the root of the site."""
        own = {"Cache-Control": "no-store", "Vary": "Accept, Cookie", **fields}
        location = f"{path}?{urlencode(query)}" if query else path
        await Redirect(location, HTTPStatus.SEE_OTHER, own)(self.scope, self.receive, self.send)


async def read_console_request(
    context: RequestContext, sessions: Sessions, base_url: str, *, has_lan: bool = False
) -> ConsoleRequest:
    """Return a request with its session, if it has a valid one."""
    scope = context.scope
    up = way_up(scope.get("raw_path") or scope["path"].encode(), scope.get("root_path", ""))
    session = await sessions.find(scope)
    frame = Frame(site_of(scope, base_url), up, is_registry=context.is_registry, brand=context.branding)
    request = ConsoleRequest(context.path, scope, context.receive, context.send, frame, session)
    if session is None:
        return request
    sees_lan = has_lan and request.sees_all
    token_id = session.principal.identity
    person = SignedInPerson(request.name, session.form_token, request.sees_all, request.may_work, sees_lan, token_id)
    return replace(request, frame=frame._replace(person=person))


def console_routes(
    rows: Iterable[tuple[str, str, Sequence[str]]], answer: Callable[[str, RequestContext], Awaitable[None]]
) -> list[Route]:
    """Return rows of the console: path, the page that ``answer`` gets, and the HTTP methods."""

    def row(path: str, page: str, methods: Sequence[str]) -> Route:
        return Route(path, partial(answer, page), "page", methods=methods, answers_preflight=False, loads=False)

    return [row(*one) for one in rows]


def is_from_here(asked: Mapping[bytes, str], address: str) -> bool:
    """Whether the browser states that a page of this site made the request; ``address`` is the site's."""
    site = asked.get(b"sec-fetch-site")
    if site is not None:
        return site in _SAME_SITE
    origin = asked.get(b"origin", "")
    scheme, mark, host = origin.partition("://")
    if not mark or scheme not in {"http", "https"}:
        return False
    return host == asked.get(b"host") or origin == "{0.scheme}://{0.netloc}".format(urlsplit(address))


#: Where a person may be redirected to after signing in: a path of the console, of packages or of a call, and a query.
_FOLLOWING: Final = re.compile(
    r"/(?:lan|(?:packages|publishers)(?:/[\w.@+-]{1,128}){0,2}(?:/call)?|skills/[a-z0-9-]{1,64}/call|(?:executions|inbox|account)(?:/[\w.-]{1,64})?)(?:\?[\x21-\x7e]{0,1000})?",
    re.ASCII,
)


def following_path(text: str) -> str:
    """Return the page to show after signing in, if it is one of the console; else nothing. Trust: untrusted."""
    return text if _FOLLOWING.fullmatch(text) else ""
