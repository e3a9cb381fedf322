"""Who is signed in to the console: a cookie that names a token, signed with a key of the server.

Nothing is stored for a session. Its cookie holds the token's ID, when it ends, a random number and a keyed hash of the
three; the key is derived from the server's, so all processes of one state folder know each other's sessions. The token
is looked up at each request: what it may is what it may now, and a token that is taken back ends its sessions at once.

The random number makes sessions of one token different. With it a session that was ended by signing out is told from
the others until its time is over; that is remembered by this process alone, so a restart forgets it. And the token of
each form (:attr:`Session.form_token`) is a keyed hash of it, so that no other session, and no other site, can tell it.

The name of the cookie holds a part of a hash of the key, because browsers do not tell the ports of a host apart, and
begins with ``__Host-`` or ``__Secure-`` where the page came over HTTPS, so that no other site can set it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import NotFoundError
from skillwire.model.access import Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.access import Token
    from skillwire.registry.tokens import Tokens


_PURPOSE: Final = "console session 1"
_FORM: Final = re.compile(r"([a-z2-7]{16})\.([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})", re.ASCII)
_NUMBER_BYTES: Final = 16


class Session(NamedTuple):
    """Someone who is signed in: as whom, until when, and what their forms carry."""

    principal: Principal
    ends: float
    number: str
    form_token: str


class Sessions:
    """The sessions of one server; ``tokens`` is first called when a person signs in, or sends a cookie."""

    def __init__(self, tokens: Callable[[], Tokens], clock: Callable[[], float]) -> None:
        self._tokens = tokens
        self._clock = clock
        self._ended: dict[str, float] = {}

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

    async def recognise(self, cookie: str) -> Session | None:
        """Return the session of a cookie, if it is good now. Trust: the cookie is untrusted."""
        form = _FORM.fullmatch(cookie)
        if form is None or not hmac.compare_digest(form[4], self._digest("cookie", cookie.rpartition(".")[0])):
            return None
        token_id, ends, number = form[1], float(form[2]), form[3]
        if ends <= self._clock() or number in self._ended:
            return None
        try:
            token = await self._tokens().look_up(token_id)
        except NotFoundError:
            return None
        if token.kind != "api_key" or not token.is_good_at(self._clock()):
            return None
        principal = Principal(token.name, token.skills, token.scopes, token.token_id)
        return Session(principal, ends, number, self._digest("form", number))

    def end(self, session: Session) -> None:
        """End a session before its time."""
        now = self._clock()
        for number in [number for number, ends in self._ended.items() if ends <= now]:
            del self._ended[number]
        if len(self._ended) >= limits.CONSOLE_SESSIONS_ENDED:
            del self._ended[next(iter(self._ended))]
        self._ended[session.number] = session.ends

    def _key(self) -> bytes:
        return self._tokens().key_for(_PURPOSE)

    def _digest(self, what: str, text: str) -> str:
        return _text(hmac.digest(self._key(), f"{what}\0{text}".encode(), hashlib.sha256))


def is_form_token(session: Session, shown: str) -> bool:
    """Whether a form was made for this session. Trust: what is shown is untrusted."""
    return hmac.compare_digest(session.form_token.encode(), shown.encode("utf-8", "replace"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
