"""Signing in and out: an API key is shown once, in a form; from then on a cookie says who looks.

Trust: keys, cookies, and where a person wants to go afterwards are untrusted. Wrong keys count against the address
like other credentials that were refused; afterwards one is led to a page of the console and to nothing else.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import structlog

from skillwire import limits
from skillwire.model.access import OPERATOR, TASKS
from skillwire.server.console_requests import ConsoleRequest
from skillwire.server.http import read_fields, site_of
from skillwire.server.problems import READ, ProblemError
from skillwire.web.address import way_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from skillwire.model.access import Token
    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.sessions import Session, Sessions


LOGIN: Final = "/login"
EXECUTIONS: Final = "/executions"
INBOX: Final = "/inbox"
LAN: Final = "/lan"
#: Where a person may be led to after they signed in: a path of the console, and a query.
_FOLLOWING: Final = re.compile(r"/(?:lan|(?:executions|inbox)(?:/[\w.-]{1,64})?)(?:\?[\x21-\x7e]{0,1000})?", re.ASCII)
_LOOPBACK: Final = ("127.", "::1", "::ffff:127.")
_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})
_WRONG: Final = "This is no key of this server, or one that has ended. A key begins with sw_."
_TOO_MANY_WRONG: Final = "Too many wrong keys came from your address. Wait a minute, then try again."


class SignIn:
    """Signs people in and out, and finds the session of a request."""

    def __init__(
        self, authentication: Authentication, sessions: Sessions, base_url: str, *, has_lan: bool = False
    ) -> None:
        self._authentication = authentication
        self._sessions = sessions
        self._base_url = base_url
        self._has_lan = has_lan

    async def read(self, path: str, scope: Scope, receive: Receive, send: Send) -> ConsoleRequest:
        """Return a request with the session of its sender."""
        from skillwire.web.environment import Frame, SignedInPerson  # noqa: PLC0415  # with the first page, see the console

        up = way_up(scope.get("raw_path") or scope["path"].encode(), scope.get("root_path", ""))
        frame = Frame(site_of(scope, self._base_url), up)
        session = await self.session_of(scope)
        request = ConsoleRequest(path, scope, receive, send, frame, session)
        if session is None:
            return request
        sees_lan = self._has_lan and request.sees_all
        person = SignedInPerson(request.name, session.form_token, request.sees_all, request.may_work, sees_lan)
        return ConsoleRequest(path, scope, receive, send, frame._replace(person=person), session)

    def still(self, request: ConsoleRequest) -> Callable[[], Awaitable[bool]]:
        """Return what says whether a session is still good, and may what it might when a stream began."""

        async def is_good() -> bool:
            session = await self.session_of(request.scope)
            return session is not None and session == request.session

        return is_good

    async def log_in(self, request: ConsoleRequest) -> None:
        """Answer with the form, or take what was typed into it."""
        if request.scope["method"] != "POST" or request.session is not None:
            await self._show_form(request, following_path(request.parameter("next")))
            return
        sent = dict(await request.form())
        following = following_path(sent.get("next", ""))
        try:
            token = await self._authentication.recognise_typed(sent.get("key", "").strip(), request.scope)
        except ProblemError as refusal:
            fields = {"Retry-After": refusal.problem.fields["Retry-After"]}
            await self._show_form(request, following, _TOO_MANY_WRONG, HTTPStatus.TOO_MANY_REQUESTS, fields)
            return
        if token is None:
            await self._show_form(request, following, _WRONG, HTTPStatus.FORBIDDEN)
            return
        structlog.get_logger("skillwire").info("somebody signed in to the console", token=token.token_id)
        cookie = await asyncio.to_thread(self._set_cookie, request, self._sessions.begin(token))
        await request.lead(following or _begin(token), cookie)

    async def log_out(self, request: ConsoleRequest) -> None:
        """End the session, when a form of ours asks for it."""
        if request.scope["method"] != "POST" or request.session is None:
            await request.lead(LOGIN)
            return
        await request.form()
        self._sessions.end(request.session)
        await request.lead(LOGIN, await asyncio.to_thread(self._set_cookie, request, ""))

    async def send_to_login(self, request: ConsoleRequest) -> None:
        """Redirect a person without a session to the login page, and back afterwards.

        A browser that follows another site's link sends no cookie, so it is first asked again by a page of ours.
        """
        from skillwire.web.environment import notice_page  # noqa: PLC0415  # with the first page, see the console

        reads = request.scope["method"] in READ
        site = read_fields(request.scope["headers"], b"sec-fetch-site").get(b"sec-fetch-site", "")
        if reads and site in _ELSEWHERE:
            await request.show(await asyncio.to_thread(notice_page, "again", request.frame))
            return
        query = request.scope["query_string"].decode("latin-1") if reads else ""
        where = request.path if reads else request.path.rpartition("/")[0]
        following = following_path(f"{where}?{query}" if query else where)
        await request.lead(f"{LOGIN}?{urlencode({'next': following})}" if following else LOGIN)

    async def _show_form(
        self,
        request: ConsoleRequest,
        following: str,
        problem: str = "",
        status: int = HTTPStatus.OK,
        fields: dict[str, str] | None = None,
    ) -> None:
        from skillwire.web.environment import login_page  # noqa: PLC0415  # with the first page, see the console

        client = request.scope.get("client") or ("", 0)
        is_local = client[0].startswith(_LOOPBACK)
        html = await asyncio.to_thread(
            login_page, request.frame, following=following, problem=problem, is_local=is_local
        )
        await request.show(html, status, fields or {})

    async def session_of(self, scope: Scope) -> Session | None:
        """Return the session of a request's cookie. Trust: cookies are untrusted."""
        cookies = read_fields(scope["headers"], b"cookie").get(b"cookie", "")
        if "skillwire-" not in cookies:
            return None
        name = self._cookie_name(site_of(scope, self._base_url), scope)
        for cookie in cookies.replace(",", ";").split(";"):  # several fields were joined by commas
            key, _, value = cookie.strip().partition("=")
            if key == name:
                return await self._sessions.recognise(value)
        return None

    def _cookie_name(self, address: str, scope: Scope) -> str:
        is_at_root = not scope.get("root_path", "")
        return self._sessions.cookie_name(is_secure=_is_secure(address), is_at_root=is_at_root)

    def _set_cookie(self, request: ConsoleRequest, cookie: str) -> dict[str, str]:
        """Return the field that sets the cookie, or takes it away when it is empty."""
        address, root = request.frame.address, quote(request.scope.get("root_path", ""))
        age = limits.CONSOLE_SESSION_SECONDS if cookie else 0
        parts = [f"{self._cookie_name(address, request.scope)}={cookie}", f"Path={root or '/'}", f"Max-Age={age}"]
        parts += ["HttpOnly", "SameSite=Strict", *(["Secure"] if _is_secure(address) else [])]
        return {"Set-Cookie": "; ".join(parts)}


def following_path(text: str) -> str:
    """Return where to go after signing in, if it is a page of the console; else nothing. Trust: untrusted."""
    return text if _FOLLOWING.fullmatch(text) else ""


def _begin(token: Token) -> str:
    """Return the page that a person with this key most likely wants."""
    return INBOX if TASKS in token.scopes and OPERATOR not in token.scopes else EXECUTIONS


def _is_secure(address: str) -> bool:
    return address.startswith("https://")
