"""A request of the console: its session, its form, its answers, and the names of callers on pages.

No session in use is stored. Its cookie holds the token's ID, when it ends, a random number and a hash of the three with
a key derived from the server's, so all processes of one state folder accept each other's sessions. Each request looks
up the token: its rights are those of now, and a revoked token ends its sessions at once. The random number
distinguishes the sessions of one token. The numbers of sessions that were ended by signing out are stored beside the
tokens until their time is over, so no process accepts them, also after a restart. The steps of signing in at an
identity provider carry their values in signed cookies of their own, which end after some minutes: no process stores
them, so any can answer the next step.

The name of the cookie holds a part of a hash of the key, because browsers send cookies to all ports of a host, and
begins with ``__Host-`` or ``__Secure-`` where the page came over HTTPS, so that no other site can set it. A browser
sends it only with requests of our own pages (``SameSite=Strict``). A form is accepted only when three more things show
that it is ours: ``Sec-Fetch-Site``, or ``Origin`` where a browser does not send that, names this site; its media type
is that of forms; and it holds the token of the session (:attr:`Session.form_token`), a keyed hash of the number, which
no other session, and no other site, can compute.

Trust: everything in a request is untrusted.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from skillwire import limits
from skillwire.errors import NotFoundError
from skillwire.executions.tasks import person_worker
from skillwire.model.access import ANONYMOUS, OPERATOR, TASKS, Principal, Token
from skillwire.model.execution import Execution
from skillwire.registry.accounts import read_session_name
from skillwire.registry.tokens import Tokens
from skillwire.server.http import read_fields, root_of, site_of
from skillwire.server.problems import READ
from skillwire.server.quotas import ADDRESS, IDENTITY, PRINCIPAL, caller_of, network_of
from skillwire.server.responses import Page, Redirect
from skillwire.server.routes.executions import may_follow
from skillwire.server.routing import RequestContext, Route
from skillwire.web.address import way_up
from skillwire.web.environment import Frame, Notice, SignedInPerson, notice_page

_COOKIE_PURPOSE: Final = "console session 1"
_COOKIE_FORM: Final = re.compile(r"([a-z2-7]{16})\.([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})", re.ASCII)
_NUMBER_BYTES: Final = 16
#: The steps of signing in at an identity provider, whose cookies have names of their own: the state of the request, and
#: a person without an account yet. The empty one is the session.
Step = Literal["", "-state", "-person"]


class Session(NamedTuple):
    """A signed-in person, the session's end and number, the token that its forms carry, and the name on pages."""

    principal: Principal
    ends: float
    number: str
    form_token: str
    shown: str


class Sessions:
    """The sessions of one server; ``tokens`` is first called when a person signs in, or sends a cookie."""

    def __init__(self, tokens: Callable[[], Tokens], clock: Callable[[], float], base_url: str = "") -> None:
        self._tokens = tokens
        self._clock = clock
        self._base_url = base_url

    def cookie_name(self, *, is_secure: bool, is_at_root: bool) -> str:
        """Return the name of the cookie, for a site over HTTPS or not, that is a whole host or a part of one."""
        prefix = ("__Host-" if is_at_root else "__Secure-") if is_secure else ""
        return f"{prefix}skillwire-{hashlib.sha256(self._key()).hexdigest()[:8]}"

    def begin(self, token: Token) -> str:
        """Return the cookie of a new session."""
        ends = self._clock() + limits.CONSOLE_SESSION_SECONDS
        if token.expires is not None:
            ends = min(ends, token.expires)
        written = f"{token.token_id}.{int(ends)}.{_base64url(secrets.token_bytes(_NUMBER_BYTES))}"
        return f"{written}.{self._digest('cookie', written)}"

    async def find(self, scope: Scope) -> Session | None:
        """Return the session of a request's cookie. Trust: cookies are untrusted."""
        cookie = self._read_cookie(scope)
        return None if cookie is None else await self.recognise(cookie)

    def _read_cookie(self, scope: Scope, step: str = "") -> str | None:
        cookies = read_fields(scope["headers"], b"cookie").get(b"cookie", "")
        if "skillwire-" not in cookies:
            return None
        name = f"{self._name_for(scope)}{step}"
        for cookie in cookies.replace(",", ";").split(";"):  # several fields were joined by commas
            key, _, value = cookie.strip().partition("=")
            if key == name:
                return value
        return None

    async def recognise(self, cookie: str) -> Session | None:
        """Return the session of a cookie, if it is valid now. Trust: the cookie is untrusted."""
        form = _COOKIE_FORM.fullmatch(cookie)
        if form is None or not hmac.compare_digest(form[4], self._digest("cookie", cookie.rpartition(".")[0])):
            return None
        token_id, ends, number = form[1], float(form[2]), form[3]
        if ends <= self._clock():
            return None
        try:
            token = await self._tokens().look_up(token_id)
        except NotFoundError:
            return None
        if await self._tokens().is_session_ended(number):
            return None
        if token.kind != "api_key" or not token.is_good_at(self._clock()):
            return None
        await self._tokens().note_use(token)
        person = read_session_name(token)
        shown, name = person or (token.account or token.name, token.name)
        principal = Principal(name, token.skills, token.scopes, "" if person else token.token_id, token.account)
        return Session(principal, ends, number, self._digest("form", number), shown)

    async def end(self, session: Session) -> None:
        """End a session before its time."""
        await self._tokens().end_session(session.number, session.ends)

    def set_cookie(self, scope: Scope, cookie: str, step: Step = "") -> dict[str, str]:
        """Return the field that sets the cookie, or removes it when it is empty."""
        age = (limits.CONSOLE_SIGN_IN_SECONDS if step else limits.CONSOLE_SESSION_SECONDS) if cookie else 0
        path = root_of(scope, self._base_url) or "/"
        site = "Lax" if step == "-state" else "Strict"  # the browser comes back from another site with it
        parts = [f"{self._name_for(scope)}{step}={cookie}", f"Path={path}", f"Max-Age={age}", "HttpOnly"]
        return {"Set-Cookie": "; ".join([*parts, f"SameSite={site}", *["Secure"] * self._is_secure(scope)])}

    def seal(self, step: Step, fields: Mapping[str, str]) -> str:
        """Return the cookie that carries ``fields`` to the next step of a sign-in in this browser."""
        written = _base64url(json.dumps([self._clock() + limits.CONSOLE_SIGN_IN_SECONDS, dict(fields)]).encode())
        return f"{written}.{self._digest(step, written)}"

    def unseal(self, step: Step, scope: Scope) -> dict[str, str] | None:
        """Return the fields of such a cookie, if it is valid now. Trust: cookies are untrusted."""
        written, _, digest = (self._read_cookie(scope, step) or "").rpartition(".")
        if not hmac.compare_digest(digest.encode(), self._digest(step, written).encode()):
            return None
        ends, fields = json.loads(base64.urlsafe_b64decode(written + "=" * (-len(written) % 4)))
        return dict(fields) if self._clock() < ends else None

    def _name_for(self, scope: Scope) -> str:
        return self.cookie_name(is_secure=self._is_secure(scope), is_at_root=not root_of(scope, self._base_url))

    def _is_secure(self, scope: Scope) -> bool:
        return site_of(scope, self._base_url).startswith("https://")

    def _key(self) -> bytes:
        return self._tokens().key_for(_COOKIE_PURPOSE)

    def _digest(self, what: str, text: str) -> str:
        return _base64url(hmac.digest(self._key(), f"{what}\0{text}".encode(), hashlib.sha256))


def is_form_token(session: Session, shown: str) -> bool:
    """Whether a form was made for this session. Trust: ``shown`` is untrusted."""
    return hmac.compare_digest(session.form_token.encode(), shown.encode("utf-8", "replace"))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


Pairs = list[tuple[str, str]]


class CallerNames:
    """Names of callers on pages, as of :func:`caller_of`: a token's name, a principal's, or an address."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens

    async def names(self, callers: Iterable[str]) -> dict[str, str]:
        """Return a name for each caller."""
        found = {}
        for caller in set(callers):
            kind, _, name = caller.partition(" ")
            found[caller] = name or caller
            if f"{kind} " == IDENTITY:
                found[caller] = name
                with suppress(NotFoundError):  # of a signed request of long ago, or an issuer's
                    found[caller] = (await self._tokens().look_up(name)).name
        return found

    async def caller_of(self, typed: str) -> str:
        """Return the caller for typed text: a caller, an address, or the newest token of this name or ID."""
        if typed.startswith((IDENTITY, PRINCIPAL, ADDRESS)):
            return typed
        try:
            ipaddress.ip_address(typed)
        except ValueError:
            known = [token for token in await self._tokens().all() if typed in {token.name, token.token_id}]
            return f"{IDENTITY}{known[-1].token_id}" if known else f"{PRINCIPAL}{typed}"
        return f"{ADDRESS}{network_of(typed)}"


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
    return [
        Route(path, partial(answer, page), "page", methods=methods, answers_preflight=False, loads=False)
        for path, page, methods in rows
    ]


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


def first_page(token: Token) -> str:
    """Return the page to show after signing in with ``token``, where no other was asked for."""
    if token.account:
        return "/account"
    return "/inbox" if TASKS in token.scopes and OPERATOR not in token.scopes else "/executions"
