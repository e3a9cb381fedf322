"""Accounts of a registry: the first operator, and the tokens that accounts make.

A token never allows more than the one that made it: who makes tokens needs the scope ``admin``, and a token that is
limited to namespaces makes only tokens that are limited to some of these.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import ConflictError, NotFoundError, TrustError, UsageError
from skillwire.model.package import Account, Change, is_account, is_namespace
from skillwire.registry.packages import (
    ADMIN,
    NAMESPACE_SCOPE,
    PUBLISH,
    READ,
    REGISTRY_SCOPES,
    is_limited,
    require_account,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from skillwire.model.access import Token
    from skillwire.ports import PackageStore
    from skillwire.registry.packages import Actor
    from skillwire.registry.tokens import Issued, Tokens

_CODE_BYTES: Final = 16


def check_account(name: str) -> str:
    """Return ``name``. Raises UsageError (``ACCOUNT_FORM``) for what is no account's name."""
    if not is_account(name):
        fix = "Use lower-case letters, digits, dots, hyphens and underscores, at most 64 characters."
        raise UsageError("ACCOUNT_FORM", f"{ascii(name)[:80]} is no name of an account", fix=fix)
    return name


async def make_first_operator(store: PackageStore, tokens: Tokens, name: str, now: float) -> Issued | None:
    """Make the first operator, and a token for everything; None when there is an operator already.

    Raises UsageError (``ACCOUNT_FORM``).
    """
    check_account(name)
    if await store.has_operator():
        return None
    change = Change(now, name, "account.create", name, {"operator": True})
    await store.add_account(Account(name, now, is_operator=True), change)
    return await tokens.issue(f"{name} (first operator)", scopes=(READ, PUBLISH, ADMIN), account=name)


class FirstOperator:
    """Makes the first operator of a registry for the caller that knows the one-time code."""

    def __init__(self, store: PackageStore, tokens: Callable[[], Tokens], clock: Callable[[], float]) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock
        self._code = ""

    async def prepare(self) -> str:
        """Return a new code to print; empty where there is an operator already."""
        self._code = "" if await self._store.has_operator() else secrets.token_urlsafe(_CODE_BYTES)
        return self._code

    async def make(self, code: str, account: str) -> Issued:
        """Make ``account`` the first operator; return its token. Trust: ``code`` is untrusted.

        Raises TrustError (``PERMISSION_DENIED``), ConflictError (``OPERATOR_EXISTS``), UsageError (``ACCOUNT_FORM``).
        """
        check_account(account)
        if not self._code or not hmac.compare_digest(code.encode("utf-8", "replace"), self._code.encode()):
            raise TrustError("PERMISSION_DENIED", "this is not the code that the server printed at its start")
        self._code = ""  # before anything is awaited, so that it counts once
        issued = await make_first_operator(self._store, self._tokens(), account, self._clock())
        if issued is None:
            raise ConflictError("OPERATOR_EXISTS", "the registry has an operator already")
        return issued


class NewToken(NamedTuple):
    """A token to make, of ``account`` or of the actor's own; ``expires_in`` is in seconds."""

    name: str
    scopes: Collection[str]
    expires_in: float | None = None
    account: str = ""
    is_operator: bool = False  # whether the account is made an operator


class AccountTokens:
    """The tokens of accounts: made, listed and revoked by their account, or by operators."""

    def __init__(self, store: PackageStore, tokens: Callable[[], Tokens], clock: Callable[[], float]) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock

    async def issue(self, actor: Actor, new: NewToken) -> Issued:
        """Make a token. An operator also makes tokens of other accounts, and these accounts with them.

        Raises UsageError (``TOKEN_FORM``, ``ACCOUNT_FORM``), TrustError (``AUTH_REQUIRED``, ``PERMISSION_DENIED``).
        """
        account = check_account(new.account) if new.account else actor.account
        _check_scopes(actor, new.scopes)
        if account != actor.account or new.is_operator:
            if not actor.is_operator:
                raise TrustError("PERMISSION_DENIED", "only an operator makes tokens of other accounts, and operators")
            await self._make_account(actor, account, is_operator=new.is_operator)
        issued = await self._tokens().issue(new.name, scopes=new.scopes, expires_in=new.expires_in, account=account)
        await self._record(actor, "token.create", account, id=issued.token.token_id, scopes=sorted(new.scopes))
        return issued

    async def _make_account(self, actor: Actor, name: str, *, is_operator: bool) -> None:
        known = await self._store.account(name)
        if known is None or (is_operator and not known.is_operator):
            now = self._clock()
            made = known._replace(is_operator=True) if known else Account(name, now, is_operator=is_operator)
            change = Change(now, actor.account, "account.create", name, {"operator": is_operator}, *actor[3:])
            await self._store.add_account(made, change)

    async def list(self, actor: Actor) -> list[Token]:
        """Return the tokens of the actor's account; to an operator those of all accounts. Raises TrustError."""
        require_account(actor)
        every = await self._tokens().all()
        return [one for one in every if one.account and (actor.is_operator or one.account == actor.account)]

    async def revoke(self, actor: Actor, token_id: str) -> None:
        """Revoke a token that the actor may list. Raises NotFoundError (``TOKEN_NOT_FOUND``), TrustError."""
        if token_id not in {one.token_id for one in await self.list(actor)}:
            raise NotFoundError("TOKEN_NOT_FOUND", f"there is no token {ascii(token_id)[:60]}")
        if ADMIN not in actor.scopes or is_limited(actor.scopes):
            raise TrustError("PERMISSION_DENIED", "the token does not allow to revoke tokens", details={"scope": ADMIN})
        revoked = await self._tokens().revoke(token_id)
        await self._record(actor, "token.revoke", revoked.account, id=token_id)

    async def _record(self, actor: Actor, action: str, target: str, **details: object) -> None:
        await self._store.record(Change(self._clock(), actor.account, action, target, details, *actor[3:]))


def _check_scopes(actor: Actor, scopes: Collection[str]) -> None:
    """Check that the actor may make a token with these scopes. Raises UsageError (``TOKEN_FORM``), TrustError."""
    require_account(actor)
    limits = {scope for scope in scopes if scope.startswith(NAMESPACE_SCOPE)}
    for scope in scopes:
        if scope not in REGISTRY_SCOPES and not _is_limit(scope):
            fix = "Give read, publish, admin, or namespace:NAME."
            raise UsageError("TOKEN_FORM", f"the registry knows no scope {ascii(scope)[:80]}", fix=fix)
    if limits == set(scopes):
        fix = "Give read, publish or admin beside namespace:NAME."
        raise UsageError("TOKEN_FORM", "the token would allow nothing", fix=fix)
    is_inside = not is_limited(actor.scopes) or bool(limits and limits <= actor.scopes)
    if ADMIN not in actor.scopes or not is_inside:
        raise TrustError("PERMISSION_DENIED", "the token does not allow to make this one", details={"scope": ADMIN})


def _is_limit(scope: str) -> bool:
    return scope.startswith(NAMESPACE_SCOPE) and is_namespace(scope.removeprefix(NAMESPACE_SCOPE))
