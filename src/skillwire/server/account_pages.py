"""The pages of accounts: one's tokens and namespaces, logins of programs, and the set-up.

What a person may do is decided by the use cases, with the rights of the session's token: a session with a token that
only reads makes no tokens. A login of a program takes two forms: the first shows what is asked for, the second decides.
Every code that a person enters counts against the account and the address, right ones included, because a guess that
is refused after it was found right would still tell.

Trust: everything in a request is untrusted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import structlog

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, TrustError, UsageError
from skillwire.model.access import ANONYMOUS, Token
from skillwire.registry.accounts import (
    NAMESPACE_SCOPE,
    Actor,
    NewToken,
    actor_for,
    grantable_scopes,
    require_account,
)
from skillwire.server.auth.authentication import Authentication
from skillwire.server.auth.rate_limit import RateLimit, RateLimiter, caller_of
from skillwire.server.components import RegistryComponents
from skillwire.server.console_request import (
    ConsoleRequest,
    Pairs,
    RefusedError,
    console_routes,
    read_console_request,
)
from skillwire.server.context import RequestContext
from skillwire.server.problems import READ, ProblemError, too_many
from skillwire.server.routing import Route
from skillwire.server.sessions import Sessions
from skillwire.web.package_pages import LIFETIMES, ShownAccount, Step, account_page, step_page

#: Pages without a session.
_PUBLIC: Final = frozenset({"set_up"})
#: What a use case refuses, with a message for the person.
_REFUSALS: Final = (ConflictError, NotFoundError, TrustError, UsageError)
_REVOKED: Final = "The token was revoked."
_GUESSES: Final = RateLimit(20, 20)


_POST: Final = ("POST",)
#: Path, the method of :class:`AccountPages` that answers, and the HTTP methods.
_ROWS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("/account", "show", READ),
    ("/account/tokens", "make_token", _POST),
    ("/account/tokens/{token}/revoke", "revoke", _POST),
    ("/account/device", "device", (*READ, *_POST)),
    ("/account/setup", "set_up", (*READ, *_POST)),
)


class AccountPages:
    """Answers each page of accounts; ``parts`` are those of the registry."""

    def __init__(
        self,
        parts: RegistryComponents,
        authentication: Authentication,
        sessions: Sessions,
        *,
        base_url: str,
        has_lan: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._parts = parts
        self._authentication = authentication
        self._sessions = sessions
        self._base_url = base_url
        self._has_lan = has_lan
        self._clock = clock
        self._guesses = RateLimiter(_GUESSES)

    def routes(self) -> Sequence[Route]:
        """Return the rows."""
        return console_routes(_ROWS, self.answer)

    async def answer(self, page: str, context: RequestContext) -> None:
        """Answer a request for ``page``, which is a method of this class."""
        request = await read_console_request(context, self._sessions, self._base_url, has_lan=self._has_lan)
        if request.session is None and page not in _PUBLIC:
            await request.send_to_login()
            return
        try:
            await getattr(self, page)(request, context)
        except RefusedError as error:
            await request.show_notice(error.notice, error.status)

    # --- tokens

    async def show(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Answer with the account."""
        notice = _REVOKED if request.parameter("notice") == "revoked" else ""
        await self._show(request, await self._actor(request, context), notice=notice)

    async def make_token(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Make a token, and show it once."""
        pairs, actor = await request.form(), await self._actor(request, context)
        new = NewToken(dict(pairs).get("name", ""), _scopes(pairs), _lifetime(pairs))
        try:
            issued = await self._parts.accounts.issue(actor, new)
        except _REFUSALS as error:
            await self._show(request, actor, problem=error.message)
        else:
            await self._show(request, actor, secret=issued.secret)

    async def revoke(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Revoke a token."""
        await request.form()
        actor = await self._actor(request, context)
        try:
            await self._parts.accounts.revoke(actor, context.parameters["token"])
        except _REFUSALS as error:
            await self._show(request, actor, problem=error.message)
        else:
            await request.redirect("/account", notice="revoked")

    async def _show(self, request: ConsoleRequest, actor: Actor, **more: str) -> None:
        tokens, now = self._authentication.tokens(), self._clock()
        found = await tokens.all(actor.account) if actor.account else ()
        good = [token for token in reversed(found) if token.is_good_at(now)][: limits.CONSOLE_TOKENS]
        roles = await self._parts.registry.store.roles(actor.account)
        shown = ShownAccount(actor.account, actor.is_operator, good, roles, now, **more)
        status = HTTPStatus.UNPROCESSABLE_ENTITY if shown.problem else HTTPStatus.OK
        await request.show(await asyncio.to_thread(account_page, shown, request.frame), status)

    # --- logins of programs

    async def device(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Ask for a code, show what its program asks for, and take the decision."""
        if request.scope["method"] != "POST":
            await self._show_step(request, "enter", typed=request.parameter("user_code")[:64])
            return
        pairs, actor = await request.form(), await self._actor(request, context)
        sent, logins = dict(pairs), self._parts.device_logins
        code, decision = sent.get("code", "")[:64], sent.get("decision", "")
        self._count(context, f"account {actor.account}")
        try:
            require_account(actor)
            login = await logins.find(code)
            if decision == "approve":
                given = grantable_scopes(actor.scopes, login.scopes)
                limited = [scope for scope in given if scope.startswith(NAMESPACE_SCOPE)]
                await logins.approve(actor, code, [*_scopes(pairs), *limited], _lifetime(pairs))
            elif decision == "refuse":
                await logins.refuse(actor, code)
        except _REFUSALS as error:
            await self._show_step(request, "enter", problem=error.message, typed=code)
            return
        if decision in {"approve", "refuse"}:
            await self._show_step(request, "approved" if decision == "approve" else "refused")
            return
        roles = [*await self._parts.registry.store.roles(actor.account)]
        await self._show_step(request, "confirm", typed=code, login=login, own=actor.scopes, namespaces=roles)

    # --- the first operator

    async def set_up(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Make the first operator with the code that the server printed, and sign in as it."""
        if request.scope["method"] != "POST":
            has_operator = await self._parts.registry.store.has_operator()
            await self._show_step(request, "has-operator" if has_operator else "set-up")
            return
        sent = dict(await request.form())
        account = sent.get("account", "").strip()
        actor = Actor(account, address=context.address, request_id=context.ids.request_id)
        try:
            issued = await self._parts.accounts.claim_first_operator(sent.get("code", "").strip(), actor)
        except _REFUSALS as error:
            if isinstance(error, TrustError):
                self._authentication.count_failure(context.address)
            await self._show_step(request, "set-up", problem=error.message, typed=account[:64])
        else:
            await request.redirect("/account", self._begin_session(request, issued.token))

    def _begin_session(self, request: ConsoleRequest, token: Token) -> dict[str, str]:
        structlog.get_logger("skillwire").info("signed in", account=token.account, token=token.token_id)
        return self._sessions.set_cookie(request.scope, self._sessions.begin(token))

    async def _show_step(
        self, request: ConsoleRequest, step: Step, fields: Mapping[str, str] = {}, **more: Any
    ) -> None:
        refused = HTTPStatus.FORBIDDEN if step == "failed" else HTTPStatus.UNPROCESSABLE_ENTITY
        html = await asyncio.to_thread(step_page, step, request.frame, **more)
        await request.show(html, refused if "problem" in more else HTTPStatus.OK, fields)

    def _count(self, context: RequestContext, *callers: str) -> None:
        """Count a code or a sign-in against its address and ``callers``. Raises ProblemError (429)."""
        for caller in (*callers, caller_of(ANONYMOUS, context.address)):
            allowance = self._guesses.take(caller, context.clock())
            if not allowance.allowed:
                raise ProblemError(too_many("codes and sign-ins come too often", allowance))

    async def _actor(self, request: ConsoleRequest, context: RequestContext) -> Actor:
        principal = request.session.principal if request.session else None
        principal = principal and await self._parts.registry.authorize(principal)
        return actor_for(principal, context.address, context.ids.request_id)


def _scopes(pairs: Pairs) -> list[str]:
    """Return the scopes that a form grants, with its limit to a namespace."""
    limit = dict(pairs).get("namespace", "")
    return [*(value for key, value in pairs if key == "scope"), *([f"{NAMESPACE_SCOPE}{limit}"] if limit else [])]


def _lifetime(pairs: Pairs) -> float | None:
    return LIFETIMES.get(dict(pairs).get("lifetime", ""), LIFETIMES["1"])[1]
