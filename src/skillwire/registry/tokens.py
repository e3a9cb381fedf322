"""Access tokens: issued, shown once, recognised, rotated, revoked. Spec: SSP §7.2.

An API key is ``sw_ID_SECRET``. The store holds the ID and a keyed hash of the whole; the hash key is in another file,
so reading the store allows neither using a token nor guessing secrets. A signing key's secret is derived from the key
and the ID and is not stored. Both are compared in constant time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, StorageError, UsageError
from skillwire.model.access import SCOPES, Token, TokenKind
from skillwire.model.package import Change, Rights, is_grant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from skillwire.ports import TokenStore

    Record = Callable[[Token], Change | None]

TOKEN_PREFIX: Final = "sw"  # noqa: S105  # every token begins with it
_OPENS: Final = "skill:"  # what a scope begins with that opens a skill
_FORM: Final = re.compile(r"sw_([a-z2-7]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_SCOPE: Final = re.compile(r"[!#-\[\]-~]{1,128}", re.ASCII)  # RFC 6749 §3.3
_NAME_LENGTH: Final = 128
_SECRET_BYTES: Final = 32
_NONE: Final = Rights(None)
_LONGEST_SECONDS: Final = 100 * 366 * 86_400.0


def _no_change(_: Token) -> None:
    """Record nothing: the server publishes folders and has no accounts."""


class Issued(NamedTuple):
    """A new token and its secret, which is shown now and never again."""

    token: Token
    secret: str


class Tokens:
    """The tokens of one publisher; ``key`` of the hashes is 32 random bytes, stored elsewhere."""

    def __init__(self, store: TokenStore, key: bytes, clock: Callable[[], float]) -> None:
        self._store = store
        self._key = key
        self._clock = clock

    async def issue(
        self,
        name: str,
        *,
        skills: Collection[str] = (),
        scopes: Collection[str] = (),
        expires_in: float | None = None,
        kind: TokenKind = "api_key",
        account: str = "",
        longest: int = _NAME_LENGTH,
        record: Record = _no_change,
        most: int | None = None,
    ) -> Issued:
        """Make a token, of a registry's ``account`` if given.

        ``skills`` may hold ``*``; ``expires_in`` is in seconds, ``longest`` the characters of a name. Here and below,
        ``record`` returns the change of a token that the audit log has from the same transaction.
        Raises UsageError (``TOKEN_FORM``), ConflictError (``TOKENS_FULL``) where the account has ``most`` valid ones.
        """
        check_form(name, skills, scopes, expires_in, longest)
        now = self._clock()
        expires = None if expires_in is None else now + expires_in
        token = Token(_new_id(), name, kind, frozenset(skills), frozenset(scopes), now, expires, account=account)
        issued = self._seal(token)
        if not await self._store.add(issued.token, change=record(issued.token), most=most):
            raise ConflictError("TOKENS_FULL", f"{account} has {most} valid tokens, as many as it may")
        return issued

    async def rotate(self, token_id: str, *, overlap: float, record: Record = _no_change) -> Issued:
        """Make a successor with the same rights; the old one ends after ``overlap`` seconds. Raises as look_up_good."""
        old, now = await self.look_up_good(token_id), self._clock()
        lifetime = None if old.expires is None else max(old.expires - old.created, 0.0)
        expires = None if lifetime is None else now + lifetime
        issued = self._seal(old._replace(token_id=_new_id(), created=now, expires=expires, digest=b"", used=None))
        if not await self._store.succeed(token_id, issued.token, end=now + overlap, change=record(issued.token)):
            raise _ended(token_id)  # it was taken back meanwhile, and so is all that would come of it
        return issued

    async def revoke(self, token_id: str, record: Record = _no_change) -> Token:
        """Revoke a token immediately and permanently. Raises NotFoundError (``TOKEN_NOT_FOUND``)."""
        change = record(await self.look_up(token_id))
        await self._store.revoke(token_id, self._clock(), change=change)
        return await self.look_up(token_id)

    async def look_up(self, token_id: str) -> Token:
        """Return the token of this ID. Raises NotFoundError (``TOKEN_NOT_FOUND``)."""
        token = await self._store.find(token_id)
        if token is None:
            raise NotFoundError("TOKEN_NOT_FOUND", f"there is no token {ascii(token_id)[:60]}")
        return token

    async def look_up_good(self, token_id: str) -> Token:
        """Return a valid token. Raises NotFoundError (``TOKEN_NOT_FOUND``), UsageError (``TOKEN_FORM``)."""
        token = await self.look_up(token_id)
        if not token.is_good_at(self._clock()):
            raise _ended(token_id)
        return token

    async def all(self, account: str = "") -> Sequence[Token]:
        """Return every token, or those of an account, oldest first."""
        return await self._store.all(account)

    async def page(self, account: str, after: tuple[float, str], limit: int) -> Sequence[Token]:
        """Return a page of the tokens of an account, or of all accounts, as :meth:`TokenStore.page`."""
        return await self._store.page(account, after, limit)

    async def forget_ended(self, beginning: str, *, kept: float) -> int:
        """Delete API keys with this name prefix, ``kept`` seconds after their end; return their number."""
        return await self._store.forget(beginning, before=self._clock() - kept)

    async def end_session(self, number: str, ends: float) -> None:
        """End a session of the console before its time, durably."""
        await self._store.end_session(number, ends, now=self._clock(), most=limits.CONSOLE_SESSIONS_ENDED)

    async def is_session_ended(self, number: str) -> bool:
        """Whether a session was ended before its time."""
        return await self._store.is_session_ended(number)

    async def recognise(self, text: str) -> Token | None:
        """Return the token whose secret is ``text``, if it is valid now. Trust: ``text`` is untrusted."""
        return (await self.authenticate(text))[0]

    async def authenticate(self, text: str) -> tuple[Token | None, Rights]:
        """Return the token as :meth:`recognise` does, and the rights of its account."""
        form = _FORM.fullmatch(text)
        found = await self._store.find_with_rights(form[1]) if form else None
        token, rights = found or (None, _NONE)
        digest = self._digest(text)  # also for an invalid form, so that timing reveals nothing
        expected = token.digest if token is not None and token.kind == "api_key" else b"\0" * 32
        is_it = hmac.compare_digest(digest, expected)
        if token is None or not is_it or not token.is_good_at(self._clock()):
            return None, _NONE
        await self.note_use(token)
        return token, rights

    async def note_use(self, token: Token) -> None:
        """Store about when a token of an account was last used."""
        now = self._clock()
        if token.account and now - (token.used or 0.0) > limits.TOKEN_USED_SECONDS:
            with suppress(StorageError):  # a full disk refuses no caller that only reads
                await self._store.note_use(token.token_id, now)

    async def signing_key(self, token_id: str) -> tuple[Token, bytes] | None:
        """Return the signing key of this ID, if it is good now. Trust: the ID is untrusted."""
        token = await self._store.find(token_id)
        if token is None or token.kind != "signing_key" or not token.is_good_at(self._clock()):
            return None
        return token, self._derive(token_id).encode("ascii")

    def key_for(self, purpose: str) -> bytes:
        """Return a derived key for another ``purpose``; it reveals neither the server's key nor other derived keys."""
        return hmac.digest(self._key, b"purpose\0" + purpose.encode(), hashlib.sha256)

    def _seal(self, token: Token) -> Issued:
        if token.kind == "signing_key":
            return Issued(token, self._derive(token.token_id))
        secret = f"{TOKEN_PREFIX}_{token.token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        return Issued(token._replace(digest=self._digest(secret)), secret)

    def _digest(self, secret: str) -> bytes:
        return hmac.digest(self._key, b"api key\0" + secret.encode("utf-8", "surrogatepass"), hashlib.sha256)

    def _derive(self, token_id: str) -> str:
        derived = hmac.digest(self._key, b"signing key\0" + token_id.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(derived).rstrip(b"=").decode()


def _ended(token_id: str) -> UsageError:
    return UsageError("TOKEN_FORM", f"{token_id} has ended already", fix="Make a new one: token create.")


def _new_id() -> str:
    return base64.b32encode(secrets.token_bytes(10)).decode().lower()


def read_scopes(scopes: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the skills of the ``skill:NAME`` scopes, and the other scopes. Raises UsageError (``TOKEN_FORM``)."""
    opened = tuple(scope.removeprefix(_OPENS) for scope in scopes if scope.startswith(_OPENS))
    others = tuple(scope for scope in scopes if not scope.startswith(_OPENS))
    for scope in others:
        if scope not in SCOPES:
            fix = f"Give {', '.join(SCOPES)} or skill:NAME."
            raise UsageError("TOKEN_FORM", f"no server here knows the scope {ascii(scope)[:80]}", fix=fix)
    return opened, others


def check_form(
    name: str,
    skills: Collection[str],
    scopes: Collection[str],
    expires_in: float | None,
    longest: int = _NAME_LENGTH,
) -> None:
    """Check the arguments of :meth:`Tokens.issue`. Raises UsageError (``TOKEN_FORM``)."""
    if not name.strip() or len(name) > longest or not name.isprintable():
        raise UsageError("TOKEN_FORM", "a token's name is a short text", fix="Say whose it is, such as 'build robot'.")
    for skill in skills:
        if not is_grant(skill):
            fix = "Give a name, NAMESPACE/NAME for a package of a registry, or * for all."
            raise UsageError("TOKEN_FORM", f"{ascii(skill)[:80]} is no skill's name", fix=fix)
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise UsageError("TOKEN_FORM", f"{ascii(scope)[:80]} is no scope", fix="A scope has no spaces or quotes.")
    if expires_in is not None and not 0 < expires_in <= _LONGEST_SECONDS:
        message = "a token ends in the future, within a hundred years"
        raise UsageError("TOKEN_FORM", message, fix="Give expires_in in seconds, or --expires such as 90d.")
