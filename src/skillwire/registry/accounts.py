"""Accounts of a registry: the first operator, the tokens of accounts, and the people who sign in.

An :class:`Actor` is an account with the permissions of its token.

A token never allows more than the token that created it. Creating tokens needs the scope ``admin``; a person who
approves the login of a program can give it any scope of the person's session. A token that is limited to namespaces
creates only tokens limited to some of these.
"""

from __future__ import annotations

import hmac
import re
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, TrustError, UsageError
from skillwire.model.package import Account, AccountUpdate, Change, Right, is_account, is_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from skillwire.model.access import Principal, Token
    from skillwire.ports import PackageStore
    from skillwire.registry.tokens import Issued, Tokens

#: Scopes of tokens in a registry: read packages that are not public, publish, and manage the account. A token with all
#: rights has all three.
READ: Final = "read"
PUBLISH: Final = "publish"
ADMIN: Final = "admin"
REGISTRY_SCOPES: Final = (READ, PUBLISH, ADMIN)
#: Prefix of a scope that limits a token to one namespace.
NAMESPACE_SCOPE: Final = "namespace:"
_DAY: Final = 86_400.0
_CODE_BYTES: Final = 16
_CODE_PURPOSE: Final = "first operator 1"
#: Reserved name of the tokens behind sessions of people.
_SESSION: Final = "browser sign-in"
_SESSION_OF: Final = f"{_SESSION}: "
#: Where a token was changed, in the audit log, when no request did.
_HERE: Final = "the server"
#: Changes of tokens whose entries have the scopes.
_GRANTING: Final = {"token.create", "token.rotate"}
_TIME: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,20})?", re.ASCII)
_SESSION_LENGTH: Final = 512  # of a name that holds an issuer and a subject
#: Scope → the scopes that its token can give to a program; ``publish`` includes ``read``.
_GIVES: Final = {READ: (READ,), PUBLISH: (READ, PUBLISH), ADMIN: REGISTRY_SCOPES}


class Actor(NamedTuple):
    """An authenticated account, its roles by namespace, its token's scopes, and the address of the request."""

    account: str
    scopes: frozenset[str] = frozenset()
    is_operator: bool = False
    address: str = ""
    request_id: str = ""
    token_id: str = ""
    roles: Mapping[str, str] = {}

    def allows(self, scope: str, namespace: str) -> bool:
        """Whether the token allows ``scope`` in ``namespace``."""
        return self.reaches(namespace) and not self.scopes.isdisjoint({scope, ADMIN})

    def reaches(self, namespace: str) -> bool:
        """Whether the token's limits include the namespace; a token without limits includes all."""
        return not is_limited(self.scopes) or f"{NAMESPACE_SCOPE}{namespace}" in self.scopes

    def change(self, at: float, action: str, target: str, **details: Any) -> Change:
        """Return a change by the actor for the audit log."""
        present = {key: value for key, value in details.items() if value != ""}
        return Change(at, self.account, action, target, present, self.address, self.request_id)


def _manages_tokens(actor: Actor) -> bool:
    """Whether the actor may revoke the tokens of its account."""
    return ADMIN in actor.scopes and not is_limited(actor.scopes)


def is_limited(scopes: Collection[str]) -> bool:
    """Whether these scopes limit a token to namespaces."""
    return any(scope.startswith(NAMESPACE_SCOPE) for scope in scopes)


def namespaces_of(scopes: Collection[str]) -> list[str]:
    """Return the namespaces that these scopes limit a token to, sorted; empty without limits."""
    return sorted(scope.removeprefix(NAMESPACE_SCOPE) for scope in scopes if scope.startswith(NAMESPACE_SCOPE))


async def present_scopes(store: PackageStore, scopes: frozenset[str], own: Collection[str]) -> frozenset[str]:
    """Return ``scopes`` with a limit to the present name of each namespace that was renamed; ``own`` ones were not."""
    others = [name for name in namespaces_of(scopes) if name not in own]
    found = [await store.namespace(name) for name in others]
    return scopes.union(f"{NAMESPACE_SCOPE}{one.renamed_to}" for one in found if one is not None and one.renamed_to)


def actor_for(principal: Principal | None, address: str = "", request_id: str = "") -> Actor:
    """Return the actor of an authorized caller; without an account it may change nothing."""
    if principal is None or not principal.account:
        return Actor("", address=address, request_id=request_id)
    _, _, scopes, identity, account, is_operator, roles = principal
    return Actor(account, scopes, is_operator, address, request_id, identity, roles)


def require_account(actor: Actor) -> None:
    """Check that the actor is an account. Raises TrustError (``AUTH_REQUIRED``)."""
    if not actor.account:
        raise TrustError("AUTH_REQUIRED", "this needs the token of an account", details={"reason": "missing"})


def check_account(name: str) -> str:
    """Return ``name``. Raises UsageError (``ACCOUNT_FORM``) if it is not a valid account name."""
    if not is_account(name):
        fix = "Use lower-case letters, digits, dots, hyphens and underscores, at most 64 characters."
        raise UsageError("ACCOUNT_FORM", f"{ascii(name)[:80]} is not a valid account name", fix=fix)
    return name


class NewToken(NamedTuple):
    """A token to create, for ``account`` or the actor's account; ``expires_in`` is in seconds."""

    name: str
    scopes: Collection[str]
    expires_in: float | None = None
    account: str = ""


class Person(NamedTuple):
    """A person whom an OpenID Connect issuer has authenticated."""

    issuer: str
    subject: str


class Accounts:
    """Manages the accounts of a registry, their tokens and people; an account or an operator revokes tokens."""

    def __init__(self, store: PackageStore, tokens: Callable[[], Tokens], clock: Callable[[], float]) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock
        self._code = ""

    async def prepare_first_operator(self) -> str:
        """Return a one-time code that creates the first operator, for printing; empty if an operator exists.

        Servers with the same key have the same code.
        """
        has_operator = await self._store.has_operator()
        self._code = "" if has_operator else self._tokens().key_for(_CODE_PURPOSE)[:_CODE_BYTES].hex()
        return self._code

    async def claim_first_operator(self, code: str, actor: Actor) -> Issued:
        """Create the first operator with the actor's name; return its token. Trust: ``code`` is untrusted.

        Raises TrustError (``PERMISSION_DENIED``), and as :meth:`make_first_operator`. That there is an operator is
        public, and answered for any code.
        """
        check_account(actor.account)
        await self._require_no_operator()
        if not self._code or not hmac.compare_digest(code.encode("utf-8", "replace"), self._code.encode()):
            fix = "Copy the setup code from the log of the server: each start without an operator prints it."
            raise TrustError("PERMISSION_DENIED", "this is not the code that the server printed at its start", fix=fix)
        known, self._code = self._code, ""  # before the first await, so that it can be used only once
        try:
            return await self.make_first_operator(actor)
        except ConflictError as error:
            if error.code == "ACCOUNT_TAKEN":  # nothing was created, so another name may be tried
                self._code = known
            raise

    async def make_first_operator(self, actor: Actor) -> Issued:
        """Create the actor's account as the first operator; return its token, which has all rights.

        Raises ConflictError (``OPERATOR_EXISTS``, ``ACCOUNT_TAKEN``), UsageError (``ACCOUNT_FORM``).
        """
        check_account(actor.account)
        await self._require_no_operator()
        now = self._clock()
        change = actor.change(now, "account.create", actor.account, operator=True)
        if not await self._store.add_account(Account(actor.account, now, is_operator=True), change, is_first=True):
            await self._require_no_operator()  # another server of the database may just have made one
            raise _name_conflict(actor.account)
        return await self._issue_for_everything(actor, "first operator")

    async def _require_no_operator(self) -> None:
        if await self._store.has_operator():
            fix = (
                "Let an operator make a token for you: skillwire registry token create. If you are the operator and "
                "have no valid token, run on the server: skillwire registry init ACCOUNT --new-token."
            )
            raise ConflictError("OPERATOR_EXISTS", "the registry has an operator already", fix=fix)

    async def issue_to_operator(self, actor: Actor) -> Issued:
        """Return a new token with all rights for the actor, an operator with access to the server's machine.

        Raises NotFoundError (``ACCOUNT_NOT_FOUND``).
        """
        known = await self._store.account(actor.account) if is_account(actor.account) else None
        if known is None or not known.is_operator:
            fix = "Name an operator of this registry; operators list them: skillwire registry account list."
            raise NotFoundError("ACCOUNT_NOT_FOUND", f"there is no operator {ascii(actor.account)[:80]}", fix=fix)
        return await self._issue_for_everything(actor, "made on the server", on=_HERE)

    async def _issue_for_everything(self, actor: Actor, why: str, **details: str) -> Issued:
        account = actor.account
        record = self._recorder(actor, "token.create", **details)
        return await self._tokens().issue(f"{account} ({why})", scopes=REGISTRY_SCOPES, account=account, record=record)

    async def issue(self, actor: Actor, new: NewToken) -> Issued:
        """Create a token. An operator also creates tokens for other accounts, and with them the accounts.

        Raises UsageError (``TOKEN_FORM``, ``ACCOUNT_FORM``), TrustError (``AUTH_REQUIRED``, ``PERMISSION_DENIED``),
        ConflictError (``TOKENS_FULL``).
        """
        account = check_account(new.account) if new.account else actor.account
        check_scopes(actor, new.scopes)
        if new.name.startswith(_SESSION):
            raise UsageError(
                "TOKEN_FORM", f"names that begin with {_SESSION} are kept for sessions", fix="Choose another name."
            )
        left = await check_lifetime(self._tokens(), actor.token_id, new.expires_in, self._clock())
        if account != actor.account:
            _require_operator(actor, "makes tokens of other accounts")
        right = Right(actor.token_id, is_operator=account != actor.account)
        record = self._recorder(actor, "token.create", right)
        lifetime = left if new.expires_in is None else new.expires_in
        most = int(limits.REGISTRY_TOKENS)
        issued = await self._tokens().issue(
            new.name, scopes=new.scopes, expires_in=lifetime, account=account, record=record, most=most
        )
        if await self._store.account(account) is None:  # behind the token, so that a refused one makes no account
            now = self._clock()
            await self._store.add_account(Account(account, now), actor.change(now, "account.create", account))
        return issued

    async def page(self, actor: Actor, after: str, limit: int) -> tuple[Sequence[Token], str | None]:
        """Return a page of the tokens that the actor may revoke, oldest first, and what the next one is ``after``.

        These are the tokens of its account, or for an operator of all accounts. An actor that may revoke none gets its
        own. Raises TrustError (``AUTH_REQUIRED``), UsageError (``QUERY``).
        """
        require_account(actor)
        created, _, token_id = (after or "0~").partition("~")
        if not _TIME.fullmatch(created):
            raise UsageError("QUERY", "after is next of the page before")
        if not _manages_tokens(actor):
            return [await self._tokens().look_up(actor.token_id)], None
        account = "" if actor.is_operator else actor.account
        found = await self._tokens().page(account, (float(created), token_id), limit + 1)
        last = found[limit - 1] if len(found) > limit else None
        return found[:limit], f"{last.created!r}~{last.token_id}" if last else None

    async def revoke(self, actor: Actor, token_id: str) -> None:
        """Revoke a token of the actor's account, or as an operator of any.

        Raises NotFoundError (``TOKEN_NOT_FOUND``), TrustError (``AUTH_REQUIRED``, ``PERMISSION_DENIED``).
        """
        require_account(actor)
        token = await self._tokens().look_up(token_id)
        if not token.account or (token.account != actor.account and not actor.is_operator):
            raise NotFoundError("TOKEN_NOT_FOUND", f"there is no token {ascii(token_id)[:60]}")
        if not _manages_tokens(actor):
            message = "revoking tokens needs the scope admin in all namespaces"
            raise TrustError("PERMISSION_DENIED", message, details={"scope": ADMIN})
        await self._tokens().revoke(token_id, self._recorder(actor, "token.revoke"))

    async def revoke_here(self, token_id: str) -> Token:
        """Revoke any token on the server's machine. Raises NotFoundError (``TOKEN_NOT_FOUND``)."""
        return await self._tokens().revoke(token_id, self._recorder(None, "token.revoke"))

    async def rotate_here(self, token_id: str, *, overlap: float) -> Issued:
        """Make a successor of any token on the server's machine. Raises as :meth:`Tokens.rotate`."""
        record = self._recorder(None, "token.rotate", replaces=token_id)
        return await self._tokens().rotate(token_id, overlap=overlap, record=record)

    async def revoke_shown(self, secret: str, address: str, request_id: str) -> None:
        """Revoke the token whose secret is given, if an account owns it. Trust: the secret is untrusted."""
        token = await self._tokens().recognise(secret)
        if token is not None and token.account:
            actor = Actor(token.account, address=address, request_id=request_id)
            await self._tokens().revoke(token.token_id, self._recorder(actor, "token.revoke"))

    def _recorder(
        self, actor: Actor | None, action: str, right: Right | None = None, /, **details: object
    ) -> Callable[[Token], Change | None]:
        """Return what makes the change of a token by ``actor``, or by its own account on the server's machine."""

        def record(token: Token) -> Change | None:
            more = {"scopes": sorted(token.scopes)} if action in _GRANTING else {}
            on, by = ({}, actor) if actor else ({"on": _HERE}, Actor(token.account))
            change = by.change(self._clock(), action, token.account, id=token.token_id, **more, **on, **details)
            return change._replace(right=right) if token.account else None

        return record

    async def sign_in(
        self, person: Person, address: str, request_id: str, scopes: Collection[str] = ()
    ) -> Token | None:
        """Return a token with all rights of the person's account, for one session; None without an account.

        ``scopes`` are the person's rights in the console. The secret is not returned, so the token is good only for
        sessions of this server. It is listed and revoked like any token.
        """
        account = await self._store.account_of(*person)
        if account is None:
            return None
        tokens, lifetime = self._tokens(), float(limits.CONSOLE_SESSION_SECONDS)
        await tokens.forget_ended(_SESSION, kept=lifetime)
        actor = Actor(account.name, address=address, request_id=request_id)
        record = self._recorder(actor, "account.sign-in", issuer=person.issuer)
        issued = await tokens.issue(
            _SESSION, scopes={*REGISTRY_SCOPES, *scopes}, expires_in=lifetime, account=account.name, record=record
        )
        present = await self._store.account_of(*person)
        if present is None or present.name != account.name:  # an operator has linked another person meanwhile
            await self.revoke_here(issued.token.token_id)
            return None
        return issued.token

    async def make_account(self, person: Person, name: str, address: str, request_id: str) -> None:
        """Create the account of a person without one. Raises ConflictError (``ACCOUNT_TAKEN``), UsageError."""
        check_account(name)
        actor = Actor(name, address=address, request_id=request_id)
        now = self._clock()
        change = actor.change(now, "account.create", name, issuer=person.issuer, subject=person.subject)
        if not await self._store.add_account(Account(name, now, False, *person), change):
            raise _name_conflict(name)

    async def list_accounts(self, actor: Actor, after: str, limit: int) -> Sequence[Account]:
        """Return a page of the accounts, by name, for an operator. Raises TrustError."""
        _require_operator(actor, "lists accounts")
        return await self._store.accounts(after, limit)

    async def link(self, actor: Actor, name: str, person: Person) -> None:
        """Let a person sign in as an account, and end the sessions of an earlier one; empty values remove the person.

        Raises UsageError (``ACCOUNT_FORM``), and as :meth:`close`; ConflictError has the code ``ACCOUNT_TAKEN``.
        """
        change = await self._change(actor, "account.link", name, issuer=person.issuer, subject=person.subject)
        if bool(person.issuer) is not bool(person.subject):
            raise UsageError("ACCOUNT_FORM", "issuer and subject belong together")
        if not await self._store.update_account(name, AccountUpdate(person, revoked=_SESSION), change):
            raise ConflictError("ACCOUNT_TAKEN", "this person signs in as another account")

    async def set_operator(self, actor: Actor, name: str, *, is_operator: bool) -> None:
        """Make an account an operator, or no longer. Raises as :meth:`close`."""
        change = await self._change(actor, "account.operator", name, operator=is_operator)
        if not await self._store.update_account(name, AccountUpdate(is_operator=is_operator), change):
            raise _last_operator(name)

    async def close(self, actor: Actor, name: str) -> None:
        """Revoke all tokens of an account, let no person sign in to it, and make it no operator.

        Its roles stay; an operator opens it again with a new token or a link. Raises NotFoundError
        (``ACCOUNT_NOT_FOUND``), ConflictError (``LAST_OPERATOR``), TrustError (``AUTH_REQUIRED``,
        ``PERMISSION_DENIED``).
        """
        change = await self._change(actor, "account.close", name)
        closed = AccountUpdate(("", ""), is_operator=False, revoked="")
        if not await self._store.update_account(name, closed, change):
            raise _last_operator(name)

    async def _change(self, actor: Actor, action: str, name: str, **details: object) -> Change:
        """Return an operator's change of an account."""
        _require_operator(actor, "changes accounts")
        if await self._store.account(name) is None:
            raise NotFoundError("ACCOUNT_NOT_FOUND", f"there is no account {ascii(name)[:80]}")
        change = actor.change(self._clock(), action, name, **details)
        return change._replace(right=Right(actor.token_id, is_operator=True))


async def open_session(
    tokens: Tokens, person: Person, shown: str, skills: Collection[str], scopes: Collection[str]
) -> Token:
    """Return a token for one session of a person on a server without accounts; its secret is not returned.

    Its name contains the name for pages, and the caller name of the person's access tokens.
    Raises UsageError (``TOKEN_FORM``) for a subject that does not fit.
    """
    lifetime = float(limits.CONSOLE_SESSION_SECONDS)
    await tokens.forget_ended(_SESSION, kept=lifetime)
    name = f"{_SESSION_OF}{shown or 'person'} {person.issuer}#{person.subject}"
    issued = await tokens.issue(name, skills=skills, scopes=scopes, expires_in=lifetime, longest=_SESSION_LENGTH)
    return issued.token


def read_session_name(token: Token) -> tuple[str, str] | None:
    """Return both names of a session without an account; None for other tokens."""
    if token.account or not token.name.startswith(_SESSION_OF):
        return None
    shown, _, name = token.name.removeprefix(_SESSION_OF).partition(" ")
    return shown, name


async def time_left(tokens: Tokens, token_id: str, now: float) -> float | None:
    """Return the maximum lifetime of tokens created with this one, in seconds; None for any, as for sessions.

    Raises NotFoundError (``TOKEN_NOT_FOUND``), UsageError (``TOKEN_FORM``) for one that has ended.
    """
    own = await tokens.look_up_good(token_id)
    return None if own.expires is None or own.name == _SESSION else own.expires - now


async def check_lifetime(tokens: Tokens, token_id: str, expires_in: float | None, now: float) -> float | None:
    """Return the maximum as :func:`time_left` does. Raises TrustError (``PERMISSION_DENIED``) beyond it."""
    left = await time_left(tokens, token_id, now)
    if left is not None and (expires_in or 0.0) > left:
        ends = time.strftime("%Y-%m-%d", time.gmtime(now + left))
        shorter = f"Pass a shorter one, at most {left // _DAY:.0f}d. " if left >= _DAY else ""
        fix = f"{shorter}Without expires_in (--expires), the new token ends with your own."
        raise TrustError("PERMISSION_DENIED", f"your own token ends on {ends}, before the new one", fix=fix)
    return left


def _require_operator(actor: Actor, does: str) -> None:
    require_account(actor)
    if not actor.is_operator:
        raise TrustError("PERMISSION_DENIED", f"only an operator {does}")


def _last_operator(name: str) -> ConflictError:
    return ConflictError("LAST_OPERATOR", f"{name} is the only operator")


def _name_conflict(name: str) -> ConflictError:
    return ConflictError("ACCOUNT_TAKEN", f"the name {name} is taken")


def check_scope_forms(scopes: Collection[str]) -> None:
    """Check that these scopes allow anything. Raises UsageError (``TOKEN_FORM``)."""
    for scope in scopes:
        is_limit = scope.startswith(NAMESPACE_SCOPE) and is_namespace(scope.removeprefix(NAMESPACE_SCOPE))
        if scope not in REGISTRY_SCOPES and not is_limit:
            fix = "Give read, publish, admin, or namespace:NAME."
            raise UsageError("TOKEN_FORM", f"the registry knows no scope {ascii(scope)[:80]}", fix=fix)
    if set(REGISTRY_SCOPES).isdisjoint(scopes):
        fix = "Give read, publish or admin beside namespace:NAME."
        raise UsageError("TOKEN_FORM", "the token would allow nothing", fix=fix)


def grantable_scopes(own: Collection[str], asked: Collection[str]) -> list[str]:
    """Return the ``asked`` scopes that a token with the scopes ``own`` can give to a program."""
    given = {*own, *(one for scope in own for one in _GIVES.get(scope, ()))}
    found = [one for one in asked if one in given or (one.startswith(NAMESPACE_SCOPE) and not is_limited(own))]
    return found if is_limited(found) or not is_limited(asked) else []


def check_scopes(actor: Actor, scopes: Collection[str], asked: Collection[str] | None = None) -> None:
    """Check that the actor may create a token with these scopes, or give them to a program that ``asked`` for some.

    Raises UsageError (``TOKEN_FORM``), TrustError (``AUTH_REQUIRED``, ``PERMISSION_DENIED``).
    """
    require_account(actor)
    check_scope_forms(scopes)
    if asked is None and ADMIN not in actor.scopes:
        message = "making tokens needs the scope admin, which your token does not allow"
        raise TrustError("PERMISSION_DENIED", message, details={"scope": ADMIN})
    given = grantable_scopes(actor.scopes, scopes)
    if lacking := [one for one in scopes if one not in given] or ([] if _is_inside(scopes, actor.scopes) else ["*"]):
        wanted = "all namespaces" if lacking == ["*"] else ", ".join(lacking)
        raise TrustError("PERMISSION_DENIED", f"your token does not allow {wanted}", details={"scope": wanted})
    if asked is not None and not (set(scopes) & set(REGISTRY_SCOPES) <= set(asked) and _is_inside(scopes, asked)):
        raise UsageError("TOKEN_FORM", "this is more than the program asked for")


def _is_inside(scopes: Collection[str], others: Collection[str]) -> bool:
    """Whether ``scopes`` stay within the namespaces of ``others``; true if ``others`` have no limits."""
    own = {scope for scope in scopes if scope.startswith(NAMESPACE_SCOPE)}
    return not is_limited(others) or bool(own and own <= set(others))
