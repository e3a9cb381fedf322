"""The pages of accounts: signing in with OpenID Connect, one's tokens and namespaces, logins of programs, the set-up.

What a person may do is decided by the use cases, with the rights of the session's token: a session with a token that
only reads makes no tokens. A login of a program takes two forms: the first shows what is asked for, the second decides.
Every code that a person enters counts against the account and the address, right ones included, because a guess that
is refused after it was found right would still tell.

A person signs in to the console of any server, and on a registry to an account. The request to the identity provider
has a state, a nonce and a PKCE verifier, which a signed cookie of this browser carries to the answer, so only this
browser can finish it. The ID token is verified as access tokens are (:mod:`skillwire.server.auth.oauth`). Without a
registry the session is the person's own, with the skills of ``[grants]``. ``[console]`` lists operators and task
workers. The browser is redirected only to a page of this site.

Trust: everything in a request is untrusted, and so are the answers of the identity provider.
"""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final

import structlog

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, SkillwireError, StorageError, TrustError, UsageError
from skillwire.model.access import ANONYMOUS, Token
from skillwire.registry.accounts import (
    NAMESPACE_SCOPE,
    Accounts,
    Actor,
    NewToken,
    Person,
    actor_for,
    grantable_scopes,
    open_session,
    require_account,
    time_left,
)
from skillwire.server.console_request import (
    ConsoleRequest,
    Pairs,
    RefusedError,
    console_routes,
    first_page,
    following_path,
    read_console_request,
)
from skillwire.server.http import encode_fields
from skillwire.server.problems import READ, ProblemError, too_many
from skillwire.server.quotas import RateLimit, caller_of
from skillwire.server.responses import BytesResponse
from skillwire.web.environment import notice_page
from skillwire.web.package_pages import LIFETIMES, ShownAccount, account_page, step_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.auth.oauth import SignedIn
    from skillwire.server.components import RegistryComponents
    from skillwire.server.configuration import ServerConfiguration
    from skillwire.server.console_request import Sessions
    from skillwire.server.routing import RequestContext, Route
    from skillwire.web.package_pages import Step

#: Codes that are entered and sign-ins, from an address or by an account.
_TRIES: Final = RateLimit(20, 20)
_POST: Final = ("POST",)
#: What a use case refuses, with a message for the person.
_REFUSALS: Final = (ConflictError, NotFoundError, TrustError, UsageError)
_REVOKED: Final = "The token was revoked."


class _Pages:
    """Pages that people see: ``rows`` are path, method of the class, HTTP methods; ``public`` need no session."""

    rows: ClassVar[Sequence[tuple[str, str, tuple[str, ...]]]] = ()
    public: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self, authentication: Authentication, sessions: Sessions, base_url: str, *, has_lan: bool = False
    ) -> None:
        self._authentication = authentication
        self._sessions = sessions
        self._base_url = base_url
        self._has_lan = has_lan
        self._tries = authentication.limiter(_TRIES)

    def routes(self) -> Sequence[Route]:
        """Return the rows."""
        return console_routes(self.rows, self.answer)

    async def answer(self, page: str, context: RequestContext) -> None:
        """Answer a request for ``page``, which is a method of the class."""
        request = await read_console_request(context, self._sessions, self._base_url, has_lan=self._has_lan)
        if request.session is None and page not in self.public:
            await request.send_to_login()
            return
        try:
            await getattr(self, page)(request, context)
        except RefusedError as error:
            await request.show_notice(error.notice, error.status)

    def _count(self, context: RequestContext, *callers: str) -> None:
        """Count a code or a sign-in against its address and ``callers``. Raises ProblemError (429)."""
        for caller in (*callers, caller_of(ANONYMOUS, context.address)):
            allowance = self._tries.take(caller, context.clock())
            if not allowance.allowed:
                raise ProblemError(too_many("codes and sign-ins come too often", allowance))

    def _begin_session(self, request: ConsoleRequest, token: Token) -> dict[str, str]:
        structlog.get_logger("skillwire").info("signed in", account=token.account, token=token.token_id)
        return self._sessions.set_cookie(request.scope, self._sessions.begin(token))

    @staticmethod
    async def _show_step(
        request: ConsoleRequest,
        step: Step,
        fields: Mapping[str, str] = {},
        *,
        status: HTTPStatus | None = None,
        **more: Any,
    ) -> None:
        refused = HTTPStatus.FORBIDDEN if step == "failed" else HTTPStatus.UNPROCESSABLE_ENTITY
        html = await asyncio.to_thread(step_page, step, request.frame, **more)
        await request.show(html, status or (refused if "problem" in more else HTTPStatus.OK), fields)


class SignInPages(_Pages):
    """Each step of a sign-in; ``accounts`` are those of a registry."""

    rows = (
        ("/account/sign-in", "sign_in", READ),
        ("/account/sign-in/answer", "finish", READ),
        ("/account/new", "make_account", (*READ, *_POST)),
    )
    public = frozenset({"sign_in", "finish", "make_account"})

    def __init__(
        self,
        authentication: Authentication,
        sessions: Sessions,
        configuration: ServerConfiguration,
        accounts: Accounts | None,
        base_url: str = "",
    ) -> None:
        super().__init__(authentication, sessions, base_url)
        self._configuration = configuration
        self._accounts = accounts

    async def sign_in(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Redirect to the identity provider."""
        provider = self._authentication.sign_in
        if provider is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "absent")
        self._count(context)
        try:
            url, carried = await provider.begin(f"{request.frame.address}/account/sign-in/answer")
        except SkillwireError as error:
            await self._show_failure(request, error, status=HTTPStatus.SERVICE_UNAVAILABLE)
            return
        carried["next"] = following_path(request.parameter("next"))
        fields = self._sessions.set_cookie(request.scope, self._sessions.seal("-state", carried), "-state")
        own = {"Location": url, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", **fields}
        await BytesResponse(HTTPStatus.SEE_OTHER, b"", encode_fields(own))(request.scope, request.receive, request.send)

    async def finish(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Take the answer of the identity provider: begin a session, or ask for the name of a new account."""
        provider, carried = self._authentication.sign_in, self._sessions.unseal("-state", request.scope)
        done = self._sessions.set_cookie(request.scope, "", "-state")
        if provider is None or carried is None:
            problem = "Signing in took too long, or began in another browser."
            await self._show_step(request, "failed", problem=problem)
            return
        query = request.scope["query_string"].decode("latin-1")
        try:
            found = await provider.finish(f"{request.path}?{query}", carried)
            scopes = self._configuration.console.scopes_of(found.person.subject, found.groups)
            token = await self._token_of(found, scopes, context)
        except SkillwireError as error:
            await self._show_failure(request, error, done)
            return
        person = found.person
        if token is not None:
            following, cookie = carried["next"] or first_page(token), self._begin_session(request, token)
        elif provider.makes_accounts and self._accounts is not None:
            fields = {"name": found.proposed, "next": carried["next"] or "/account", "scopes": " ".join(scopes)}
            cookie = self._sessions.set_cookie(
                request.scope, self._sessions.seal("-person", {**person._asdict(), **fields}), "-person"
            )
            following = "/account/new"
        else:
            identity = f"{person.subject} at {person.issuer}"
            linked = f"No account is linked to your identity. Ask an operator to link one to {identity}."
            granted = f"You have no rights here. Ask the operator to add {identity} to [console] or [grants]."
            problem = linked if self._accounts else granted
            await self._show_step(request, "failed", done, problem=problem)
            return
        # A browser that comes from another site sends no strict cookie, so the page leads on by itself. The second
        # field of the same name differs in case.
        html = await asyncio.to_thread(notice_page, "again", request.frame, following)
        await request.show(html, HTTPStatus.OK, {**cookie, "set-cookie": done["Set-Cookie"]})

    async def make_account(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Make the account of an authenticated person, and begin a session."""
        carried = self._sessions.unseal("-person", request.scope)
        if carried is None or self._accounts is None:
            await request.redirect("/login")
            return
        if request.scope["method"] != "POST":
            await self._show_step(request, "new", typed=carried["name"])
            return
        name = dict(await request.form()).get("account", "").strip()
        person, request_id = Person(carried["issuer"], carried["subject"]), context.ids.request_id
        try:
            await self._accounts.make_account(person, name, context.address, request_id)
        except (ConflictError, UsageError) as error:
            await self._show_step(request, "new", problem=_sentence(error), typed=name[:64])
            return
        token = await self._accounts.sign_in(person, context.address, request_id, carried["scopes"].split())
        await request.redirect(carried["next"], self._begin_session(request, token) if token else {})

    async def _token_of(self, found: SignedIn, scopes: frozenset[str], context: RequestContext) -> Token | None:
        """Return the token of a new session; None for a person without an account or rights."""
        if self._accounts is not None:
            return await self._accounts.sign_in(found.person, context.address, context.ids.request_id, scopes)
        skills = self._configuration.grants.subjects.get(found.person.subject, frozenset())
        provider = self._authentication.sign_in
        if not (scopes or skills or (provider is not None and provider.makes_accounts)):
            return None
        return await open_session(self._authentication.tokens(), found.person, found.proposed, skills, scopes)

    async def _show_failure(
        self,
        request: ConsoleRequest,
        error: SkillwireError,
        fields: Mapping[str, str] = {},
        *,
        status: HTTPStatus = HTTPStatus.FORBIDDEN,
    ) -> None:
        if isinstance(error, StorageError):
            raise error
        reason = error.details.get("reason", error.code)
        structlog.get_logger("skillwire").warning("a sign-in failed", error=error.message, reason=reason)
        problem = f"Signing in failed ({reason}); the server's log has more."
        await self._show_step(request, "failed", fields, status=status, problem=problem)


class AccountPages(_Pages):
    """Each page of accounts; ``parts`` are those of the registry."""

    rows = (
        ("/account", "show", READ),
        ("/account/tokens", "make_token", _POST),
        ("/account/tokens/{token}/revoke", "revoke", _POST),
        ("/account/device", "device", (*READ, *_POST)),
        ("/account/setup", "set_up", (*READ, *_POST)),
    )
    public = frozenset({"set_up"})

    def __init__(
        self,
        parts: RegistryComponents,
        authentication: Authentication,
        sessions: Sessions,
        *,
        base_url: str,
        has_lan: bool,
    ) -> None:
        super().__init__(authentication, sessions, base_url, has_lan=has_lan)
        self._parts = parts

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
            await self._show(request, actor, problem=_sentence(error))
        else:
            await self._show(request, actor, secret=issued.secret)

    async def revoke(self, request: ConsoleRequest, context: RequestContext) -> None:
        """Revoke a token."""
        await request.form()
        actor = await self._actor(request, context)
        try:
            await self._parts.accounts.revoke(actor, context.parameters["token"])
        except _REFUSALS as error:
            await self._show(request, actor, problem=_sentence(error))
        else:
            await request.redirect("/account", notice="revoked")

    async def _show(self, request: ConsoleRequest, actor: Actor, **more: str) -> None:
        tokens, now = self._authentication.tokens(), time.time()
        found = await tokens.all(actor.account) if actor.account else ()
        good = [token for token in reversed(found) if token.is_good_at(now)][: limits.CONSOLE_TOKENS]
        roles = await self._parts.registry.store.roles(actor.account)
        shown = ShownAccount(actor.account, actor.is_operator, good, roles, now, await self._left(actor), **more)
        status = HTTPStatus.UNPROCESSABLE_ENTITY if shown.problem else HTTPStatus.OK
        await request.show(await asyncio.to_thread(account_page, shown, request.frame), status)

    async def _left(self, actor: Actor) -> float | None:
        try:
            return await time_left(self._authentication.tokens(), actor.token_id, time.time())
        except (NotFoundError, UsageError):  # no token of an account, or one that ends while the page is made
            return 0.0

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
            await self._show_step(request, "enter", problem=_sentence(error), typed=code)
            return
        if decision in {"approve", "refuse"}:
            await self._show_step(request, "approved" if decision == "approve" else "refused")
            return
        roles = [*await self._parts.registry.store.roles(actor.account)]
        own, left = actor.scopes, await self._left(actor)
        await self._show_step(request, "confirm", typed=code, login=login, own=own, namespaces=roles, left=left)

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
            await self._show_step(request, "set-up", problem=_sentence(error), typed=account[:64])
        else:
            await request.redirect("/account", self._begin_session(request, issued.token))

    async def _actor(self, request: ConsoleRequest, context: RequestContext) -> Actor:
        principal = request.session.principal if request.session else None
        principal = principal and await self._parts.registry.authorize(principal)
        return actor_for(principal, context.address, context.ids.request_id)


def _sentence(error: SkillwireError) -> str:
    return f"{error.message[:1].upper()}{error.message[1:]}. {error.diagnostics().fix}"


def _scopes(pairs: Pairs) -> list[str]:
    """Return the scopes that a form grants, with its limit to a namespace."""
    limit = dict(pairs).get("namespace", "")
    return [*(value for key, value in pairs if key == "scope"), *([f"{NAMESPACE_SCOPE}{limit}"] if limit else [])]


def _lifetime(pairs: Pairs) -> float | None:
    return LIFETIMES.get(dict(pairs).get("lifetime", ""), LIFETIMES["1"])[1]
