"""Logins of programs without a browser: a program shows a code, a person approves it, and the program gets a token.

The program gets two codes: a long secret one that it polls with, and a short one that a signed-in person types. Both
are stored as keyed hashes and looked up by them, so neither the store nor the time of a look-up reveals a code. The
person narrows what the program asked for. The token is made when the program fetches the decision, which it can do
once, so no secret waits in the store. The token that approved must be valid then: revoking it also ends the login.
A token that lacks the scope ``admin`` gives only tokens that expire with it, so a leaked one cannot outlive its expiry.

The short code has 34 bits. Only signed-in people can try one, the server limits how often, and a code ends after
:data:`~skillwire.limits.DEVICE_LOGIN_SECONDS`. Spec: RFC 8628 §3, §5.1, §5.2.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, TrustError, UsageError
from skillwire.model.access import DeviceLogin, Token
from skillwire.model.package import Change, Right
from skillwire.registry.accounts import (
    PUBLISH,
    READ,
    check_lifetime,
    check_scope_forms,
    check_scopes,
    require_account,
    time_left,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.ports import DeviceLoginStore
    from skillwire.registry.accounts import Actor
    from skillwire.registry.tokens import Issued, Tokens

#: Letters that are hard to confuse, and form no words. Spec: RFC 8628 §6.1.
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
_HALF: Final = 4
#: Why a poll brings no token. Spec: RFC 6749 §5.2, RFC 8628 §3.5.
PollRefusal = Literal["authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_grant"]


class DeviceCodes(NamedTuple):
    """The codes of a new login; the user code is of the form ``BCDF-GHJK``."""

    device_code: str
    user_code: str


class DeviceLogins:
    """The logins that programs asked for."""

    def __init__(
        self,
        store: DeviceLoginStore,
        tokens: Callable[[], Tokens],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock

    async def begin(self, client: str, scopes: Sequence[str], address: str) -> DeviceCodes | None:
        """Return the codes of a new login; None while too many wait. Trust: all arguments are untrusted.

        Raises UsageError (``TOKEN_FORM``).
        """
        if not client.strip() or not client.isprintable() or len(client) > limits.DEVICE_LOGIN_CLIENT:
            raise UsageError("TOKEN_FORM", f"client_id is a name of at most {limits.DEVICE_LOGIN_CLIENT} characters")
        asked = tuple(dict.fromkeys(scopes)) or (READ, PUBLISH)
        check_scope_forms(asked)
        halves = ("".join(secrets.choice(_LETTERS) for _ in range(_HALF)) for _ in range(2))
        codes, now = DeviceCodes(secrets.token_urlsafe(32), "-".join(halves)), self._clock()
        login = DeviceLogin(
            self._device_hash(client, codes.device_code),
            self._user_hash(codes.user_code),
            client,
            asked,
            address,
            now + limits.DEVICE_LOGIN_SECONDS,
            float(limits.DEVICE_POLL_SECONDS),
        )
        return codes if await self._store.add(login, now=now, most=limits.DEVICE_LOGINS) else None

    async def find(self, user_code: str) -> DeviceLogin:
        """Return the login that waits for a decision. Raises NotFoundError (``DEVICE_CODE``). Trust: untrusted."""
        login = await self._store.find(self._user_hash(user_code))
        if login is None or login.decision or login.expires <= self._clock():
            raise NotFoundError("DEVICE_CODE", "no login is waiting for this code")
        return login

    async def approve(self, actor: Actor, user_code: str, scopes: Sequence[str], lifetime: float | None) -> DeviceLogin:
        """Let the program have a token with these ``scopes``, which it asked for, or narrower ones.

        Raises NotFoundError (``DEVICE_CODE``), UsageError (``TOKEN_FORM``), TrustError (``PERMISSION_DENIED``).
        """
        login = await self.find(user_code)
        check_scopes(actor, scopes, login.scopes)
        await check_lifetime(self._tokens(), actor.token_id, lifetime, self._clock())
        return await self._decide(actor, login._replace(decision="approved", scopes=tuple(scopes), lifetime=lifetime))

    async def refuse(self, actor: Actor, user_code: str) -> DeviceLogin:
        """Let the program have no token. Raises NotFoundError (``DEVICE_CODE``), TrustError (``AUTH_REQUIRED``)."""
        require_account(actor)
        return await self._decide(actor, (await self.find(user_code))._replace(decision="refused"))

    async def _decide(self, actor: Actor, login: DeviceLogin) -> DeviceLogin:
        action = "token.approve" if login.decision == "approved" else "token.refuse"
        details = {"client": login.client, "scopes": sorted(login.scopes), "from": login.address}
        change = actor.change(self._clock(), action, actor.account, **details)
        if not await self._store.decide(login._replace(account=actor.account, decided_by=actor.token_id), change):
            raise NotFoundError("DEVICE_CODE", "no login is waiting for this code")
        return login

    async def poll(self, client: str, device_code: str, address: str, request_id: str) -> Issued | PollRefusal:
        """Return the token, once, or why there is none. Trust: all arguments are untrusted."""
        now = self._clock()
        login = await self._store.poll(self._device_hash(client, device_code), now)
        if login is None:
            return "invalid_grant"
        if refusal := _refusal(login, now):
            return refusal
        tokens = self._tokens()
        try:
            left = await time_left(tokens, login.decided_by, now)
        except (NotFoundError, UsageError):
            return "access_denied"
        lifetime = min((one for one in (login.lifetime, left) if one is not None), default=None)

        def record(token: Token) -> Change:
            details = {"id": token.token_id, "scopes": sorted(token.scopes), "client": client}
            change = Change(now, login.account, "token.create", login.account, details, address, request_id)
            return change._replace(right=Right(login.decided_by))

        name, most = f"{client} (login)", int(limits.REGISTRY_TOKENS)
        try:
            return await tokens.issue(
                name, scopes=login.scopes, expires_in=lifetime, account=login.account, record=record, most=most
            )
        except (ConflictError, TrustError):  # as many as the account may have, or the token that approved has ended
            return "access_denied"

    def _device_hash(self, client: str, code: str) -> bytes:
        return self._hash(f"device\0{client}\0{code}")  # another client's name finds nothing

    def _user_hash(self, code: str) -> bytes:
        """Return the hash of a user code, as a person types it: in any case, with any signs between the letters."""
        return self._hash("user\0" + "".join(letter for letter in code.upper() if letter in _LETTERS))

    def _hash(self, text: str) -> bytes:
        key = self._tokens().key_for("device login 1")
        return hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)


def _refusal(login: DeviceLogin, now: float) -> PollRefusal | None:
    if login.expires <= now:
        return "expired_token"
    if login.is_polled_too_soon(now):
        return "slow_down"
    return {"": "authorization_pending", "refused": "access_denied", "approved": None}[login.decision]
