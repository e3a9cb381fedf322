"""A request of the console: its session, its form, its answers, and the names of callers on pages.

A session is a cookie that names a token, signed with a key of the server. No session in use is stored. The cookie holds
the token's ID, when it ends, a random number and a keyed hash of the three; the key is derived from the server's, so
all processes of one state folder accept each other's sessions. Each request looks up the token: its rights are those of
now, and a revoked token ends its sessions at once.

The random number distinguishes the sessions of one token. The numbers of sessions that were ended by signing out are
stored beside the tokens until their time is over, so no process accepts them, also after a restart. The token of each
form (:attr:`Session.form_token`) is a keyed hash of the number, so no other session, and no other site, can compute it.
The name of the cookie holds a part of a hash of the key, because browsers send cookies to all ports of a host, and
begins with ``__Host-`` or ``__Secure-`` where the page came over HTTPS, so that no other site can set it.

A browser sends the cookie only with requests of our own pages (``SameSite=Strict``). A form is accepted only when three
more things show that it is ours: ``Sec-Fetch-Site``, or ``Origin`` where a browser does not send that, names this site;
its media type is that of forms; and it holds the token of the session.

Trust: everything in a request is untrusted.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from skillwire import limits
from skillwire.errors import NotFoundError
from skillwire.executions.tasks import person_worker
from skillwire.model.access import OPERATOR, TASKS, Principal, Token
from skillwire.server.auth.rate_limit import caller_of, network_of
from skillwire.server.http import read_fields, root_of, site_of
from skillwire.server.responses import Page, Redirect
from skillwire.server.routes.executions import may_follow
from skillwire.web.environment import Frame, Notice, notice_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.types import Receive, Scope, Send

    from skillwire.model.execution import Execution
    from skillwire.model.lan import LanSnapshot
    from skillwire.registry.tokens import Tokens

_PURPOSE: Final = "console session 1"
_FORM: Final = re.compile(r"([a-z2-7]{16})\.([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})", re.ASCII)
_NUMBER_BYTES: Final = 16


class Session(NamedTuple):
    """A signed-in person, the session's end and number, and the token that its forms carry."""

    principal: Principal
    ends: float
    number: str
    form_token: str


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
        written = f"{token.token_id}.{int(ends)}.{_text(secrets.token_bytes(_NUMBER_BYTES))}"
        return f"{written}.{self._digest('cookie', written)}"

    async def find(self, scope: Scope) -> Session | None:
        """Return the session of a request's cookie. Trust: cookies are untrusted."""
        cookies = read_fields(scope["headers"], b"cookie").get(b"cookie", "")
        if "skillwire-" not in cookies:
            return None
        name = self._name_for(scope)
        for cookie in cookies.replace(",", ";").split(";"):  # several fields were joined by commas
            key, _, value = cookie.strip().partition("=")
            if key == name:
                return await self.recognise(value)
        return None

    async def recognise(self, cookie: str) -> Session | None:
        """Return the session of a cookie, if it is valid now. Trust: the cookie is untrusted."""
        form = _FORM.fullmatch(cookie)
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
        principal = Principal(token.name, token.skills, token.scopes, token.token_id)
        return Session(principal, ends, number, self._digest("form", number))

    async def end(self, session: Session) -> None:
        """End a session before its time."""
        await self._tokens().end_session(session.number, session.ends)

    def set_cookie(self, scope: Scope, cookie: str) -> dict[str, str]:
        """Return the field that sets the cookie, or removes it when it is empty."""
        age = limits.CONSOLE_SESSION_SECONDS if cookie else 0
        path = root_of(scope, self._base_url) or "/"
        parts = [f"{self._name_for(scope)}={cookie}", f"Path={path}", f"Max-Age={age}", "HttpOnly", "SameSite=Strict"]
        return {"Set-Cookie": "; ".join([*parts, "Secure"] if self._is_secure(scope) else parts)}

    def _name_for(self, scope: Scope) -> str:
        return self.cookie_name(is_secure=self._is_secure(scope), is_at_root=not root_of(scope, self._base_url))

    def _is_secure(self, scope: Scope) -> bool:
        return site_of(scope, self._base_url).startswith("https://")

    def _key(self) -> bytes:
        return self._tokens().key_for(_PURPOSE)

    def _digest(self, what: str, text: str) -> str:
        return _text(hmac.digest(self._key(), f"{what}\0{text}".encode(), hashlib.sha256))


def is_form_token(session: Session, shown: str) -> bool:
    """Whether a form was made for this session. Trust: ``shown`` is untrusted."""
    return hmac.compare_digest(session.form_token.encode(), shown.encode("utf-8", "replace"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


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


class RefusedError(Exception):
    """A request that is answered with a notice, such as a form that is not ours; nothing is done."""

    def __init__(self, status: HTTPStatus, notice: Notice = "unread") -> None:
        super().__init__(status)
        self.status = status
        self.notice: Notice = notice


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
        return "" if self.session is None else self.session.principal.name

    @property
    def worker(self) -> str:
        """The worker name of the person, which is unique."""
        return person_worker(self.name, "" if self.session is None else self.session.principal.identity)

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
        return execution is not None and self.session is not None and may_follow(execution, self.session.principal)

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
        body, more = bytearray(), True
        while more:
            message = await self.receive()
            if message["type"] != "http.request":  # the client disconnected
                raise RefusedError(HTTPStatus.BAD_REQUEST)
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limits.CONSOLE_FORM_BYTES:
                raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            text = body.decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=limits.CONSOLE_FORM_FIELDS)
        except ValueError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST) from error
        if self.session is not None and not is_form_token(self.session, dict(pairs).get("token", "")):
            raise RefusedError(HTTPStatus.FORBIDDEN, "foreign")
        return pairs

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


#: Where a person may be redirected to after signing in: a path of the console, and a query.
_FOLLOWING: Final = re.compile(r"/(?:lan|(?:executions|inbox)(?:/[\w.-]{1,64})?)(?:\?[\x21-\x7e]{0,1000})?", re.ASCII)


def following_path(text: str) -> str:
    """Return the page to show after signing in, if it is one of the console; else nothing. Trust: untrusted."""
    return text if _FOLLOWING.fullmatch(text) else ""


class LanSnapshots(Protocol):
    """The part of :class:`skillwire.server.lan.service.LanService` that the page shows."""

    trouble: str

    def snapshot(self) -> LanSnapshot | None:
        """Return what is known; None while there is no network."""

    async def changed(self, since: int, seconds: float) -> int:
        """Return the number of the last change, when it is more than ``since`` or after ``seconds``."""
