"""Sessions of the console: a cookie that names a token, signed with a key of the server.

No session in use is stored. Its cookie holds the token's ID, when it ends, a random number and a keyed hash of the
three; the key is derived from the server's, so all processes of one state folder accept each other's sessions. Each
request looks up the token: its rights are those of now, and a revoked token ends its sessions at once.

The random number distinguishes the sessions of one token. The numbers of sessions that were ended by signing out are
stored beside the tokens until their time is over, so no process accepts them, also after a restart. The token of each
form (:attr:`Session.form_token`) is a keyed hash of the number, so no other session, and no other site, can compute it.

The steps of signing in at an identity provider carry their values in signed cookies of their own, which end after some
minutes: no process stores them, so any can answer the next step.

The name of the cookie holds a part of a hash of the key, because browsers send cookies to all ports of a host, and
begins with ``__Host-`` or ``__Secure-`` where the page came over HTTPS, so that no other site can set it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from starlette.types import Scope

from skillwire import limits
from skillwire.errors import NotFoundError
from skillwire.model.access import Principal, Token
from skillwire.registry.accounts import read_session_name
from skillwire.registry.tokens import Tokens
from skillwire.server.http import read_fields, root_of, site_of

_PURPOSE: Final = "console session 1"
_FORM: Final = re.compile(r"([a-z2-7]{16})\.([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})", re.ASCII)
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
        written = f"{token.token_id}.{int(ends)}.{_text(secrets.token_bytes(_NUMBER_BYTES))}"
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
        written = _text(json.dumps([self._clock() + limits.CONSOLE_SIGN_IN_SECONDS, dict(fields)]).encode())
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
        return self._tokens().key_for(_PURPOSE)

    def _digest(self, what: str, text: str) -> str:
        return _text(hmac.digest(self._key(), f"{what}\0{text}".encode(), hashlib.sha256))


def is_form_token(session: Session, shown: str) -> bool:
    """Whether a form was made for this session. Trust: ``shown`` is untrusted."""
    return hmac.compare_digest(session.form_token.encode(), shown.encode("utf-8", "replace"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
