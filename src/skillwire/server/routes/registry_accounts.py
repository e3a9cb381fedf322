"""The registry's own API: accounts, tokens, the audit log, and logins of programs without a browser.

For these logins the registry is an authorization server with the device flow. A program asks for codes, shows the
user's one, and polls for the token, which a person grants on the page ``/account/device``
(:mod:`skillwire.server.account_pages`). Clients are public: their ``client_id`` is only a name that the page shows. The
token is an ordinary one of the account, without a refresh token.
Spec: RFC 7009, RFC 8414, RFC 8628.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.types import ASGIApp

from skillwire import limits
from skillwire.errors import SkillwireError, TrustError, UsageError
from skillwire.model.access import ANONYMOUS
from skillwire.model.package import Role
from skillwire.protocols.skills_rpc.codec import explain_invalid
from skillwire.registry.accounts import ADMIN, REGISTRY_SCOPES, Actor, NewToken, Person, namespaces_of, require_account
from skillwire.registry.device_logins import PollRefusal
from skillwire.server.account_pages import AccountPages
from skillwire.server.auth.authentication import Authentication
from skillwire.server.components import Protocol, RegistryComponents, Services
from skillwire.server.http import read_pairs
from skillwire.server.openapi import JSON
from skillwire.server.problems import Problem, ProblemError, too_many
from skillwire.server.quotas import RateLimit, caller_of
from skillwire.server.responses import BytesResponse, no_content
from skillwire.server.routes import registry_messages as messages
from skillwire.server.routes.registry_requests import (
    API,
    Method,
    actor_of,
    answer,
    changes,
    read_page,
    read_request,
    reads,
    registry_problem,
    row,
    tagged_answer,
)
from skillwire.server.routing import Answer, Operation, RequestContext, Route

_ENTRY_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_FormHandler = Callable[[RequestContext, Any], Awaitable[ASGIApp]]

_FORM: Final = "application/x-www-form-urlencoded"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_FORM_BYTES: Final = 2048
_FIELDS: Final = 16
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a form of a login has at most {_FORM_BYTES:,} bytes")
_SIGN_IN: Final = "Set issuer, client_id and sign_in in the table [oauth2] of the server first."
_CROWDED: Final = Problem(503, "NOT_READY", "too many logins wait", fields={"Retry-After": "60"})
_POLL_REFUSALS: Final[Mapping[PollRefusal, str]] = {
    "authorization_pending": "the login is not decided yet; poll again after the interval",
    "slow_down": "polls come too often; wait 5 seconds longer between them",
    "access_denied": "the login was refused, its approver's token has ended, or the account has all tokens that it may",
    "expired_token": "the device code has expired; begin the login again",
    "invalid_grant": "the device code is unknown, was used, or is of another client_id; begin the login again",
}
#: Logins that one address may begin: a person begins a few, and each takes a row.
_BEGINS: Final = RateLimit(20, 20)


class RegistryAccounts(Protocol):
    """The part of the registry's own API that is about accounts, and their pages."""

    name = "Registry"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of the API, of its logins, and of the pages."""
        parts = services.packages
        if parts is None:
            return []
        pages = AccountPages(
            parts,
            services.authentication,
            services.console.sessions,
            base_url=services.base_url,
            has_lan=services.lan is not None or services.dht is not None,
        )
        logins = DeviceLoginRoutes(parts, services.authentication)
        accounts = AccountRoutes(parts, services.authentication)
        return [*accounts.routes(), *logins.routes(), *pages.routes()]

    def error_table(self, error: SkillwireError) -> Problem:
        """Return the response that reports ``error``."""
        return registry_problem(error)


class AccountRoutes:
    """Answers for accounts; ``parts`` are those of the registry."""

    def __init__(self, parts: RegistryComponents, authentication: Authentication) -> None:
        self._registry = parts.registry
        self._authentication = authentication
        self._store = parts.registry.store
        self._accounts = parts.accounts
        self._statistics: dict[bool, tuple[float, Mapping[str, int]]] = {}

    def routes(self) -> Sequence[Route]:
        """Return their rows."""
        return [
            row("", GET=reads(self.about, messages.RegistryInfo)),
            row("/setup", POST=changes(self.set_up, messages.IssuedToken, messages.SetupRequest, status=201)),
            row("/accounts", GET=reads(self.accounts, messages.AccountList, "after-name", "rows")),
            row(
                "/accounts/{account}",
                PATCH=changes(self.set_operator, None, messages.AccountRequest),
                DELETE=changes(self.close, None),
            ),
            row("/accounts/{account}/identity", PUT=changes(self.link, None, messages.IdentityRequest)),
            row("/whoami", GET=reads(self.whoami, messages.CallerAccount)),
            row(
                "/tokens",
                GET=reads(self.tokens, messages.TokenList, "after-name", "rows"),
                POST=changes(self.issue, messages.IssuedToken, messages.TokenRequest, status=201),
            ),
            row("/tokens/{token}", DELETE=changes(self.revoke, None)),
            row("/audit", GET=reads(self.audit, messages.AuditPage, "after-entry", "rows")),
            row("/stats", GET=reads(self.statistics, messages.RegistryStatistics)),
        ]

    async def about(self, context: RequestContext) -> ASGIApp:
        """Answer what this is, and whether it needs its first operator."""
        return answer(messages.RegistryInfo(context.site, needs_setup=not await self._store.has_operator()))

    async def set_up(self, context: RequestContext) -> ASGIApp:
        """Make the first operator."""
        asked = await read_request(context, messages.SetupRequest)
        actor = Actor(asked.account, address=context.address, request_id=context.ids.request_id)
        issued = await self._accounts.claim_first_operator(asked.code, actor)
        return answer(messages.IssuedToken(issued.token.token_id, asked.account, issued.secret), 201)

    async def accounts(self, context: RequestContext) -> ASGIApp:
        """Answer the accounts."""
        after, limit = read_page(context)
        found = await self._accounts.list_accounts(actor_of(context), after, limit + 1)
        rows = [messages.AccountObject(*one) for one in found[:limit]]
        return tagged_answer(messages.AccountList(rows, rows[-1].account if len(found) > limit else None))

    async def set_operator(self, context: RequestContext) -> ASGIApp:
        """Make an account an operator, or no longer."""
        asked = await read_request(context, messages.AccountRequest)
        await self._accounts.set_operator(actor_of(context), context.parameters["account"], is_operator=asked.operator)
        return no_content

    async def close(self, context: RequestContext) -> ASGIApp:
        """Close an account: no valid token, no sign-in, no operator."""
        await self._accounts.close(actor_of(context), context.parameters["account"])
        return no_content

    async def link(self, context: RequestContext) -> ASGIApp:
        """Link a sign-in to an account."""
        asked = await read_request(context, messages.IdentityRequest)
        actor = actor_of(context)
        provider = self._authentication.sign_in
        if actor.is_operator and asked.issuer and (provider is None or asked.issuer != provider.issuer):
            fix = f"Use {provider.issuer}, the issuer of [oauth2]." if provider else _SIGN_IN
            raise UsageError("ACCOUNT_FORM", f"people do not sign in here with {ascii(asked.issuer)[:200]}", fix=fix)
        await self._accounts.link(actor, context.parameters["account"], Person(asked.issuer, asked.subject))
        return no_content

    async def whoami(self, context: RequestContext) -> ASGIApp:
        """Answer the caller's account, scopes and roles."""
        actor = actor_of(context)
        require_account(actor)
        roles = dict(await self._store.roles(actor.account))
        return tagged_answer(messages.CallerAccount(actor.account, actor.is_operator, sorted(actor.scopes), roles))

    async def tokens(self, context: RequestContext) -> ASGIApp:
        """Answer a page of the tokens that the caller may revoke, or its own."""
        found, following = await self._accounts.page(actor_of(context), *read_page(context))
        rows = [messages.make(messages.TokenObject, one, id=one.token_id, scopes=sorted(one.scopes)) for one in found]
        return tagged_answer(messages.TokenList(rows, following))

    async def issue(self, context: RequestContext) -> ASGIApp:
        """Make a token."""
        asked = await read_request(context, messages.TokenRequest)
        new = NewToken(asked.name, asked.scopes, asked.expires_in, asked.account)
        issued = await self._accounts.issue(actor_of(context), new)
        token = issued.token
        names = [name for name in namespaces_of(token.scopes) if name != token.account]
        missing = [name for name in names if await self._store.namespace(name) is None]
        warnings = [f"the namespace {name} of the token's scopes does not exist yet" for name in missing]
        return answer(messages.IssuedToken(token.token_id, token.account, issued.secret, warnings), 201)

    async def revoke(self, context: RequestContext) -> ASGIApp:
        """Revoke a token."""
        await self._accounts.revoke(actor_of(context), context.parameters["token"])
        return no_content

    async def audit(self, context: RequestContext) -> ASGIApp:
        """Answer a page of the audit log; to owners that of their namespaces."""
        actor = actor_of(context)
        require_account(actor)
        namespaces = None
        if not actor.is_operator:
            roles = await self._store.roles(actor.account)
            namespaces = [one for one, role in roles.items() if role is Role.OWNER and actor.allows(ADMIN, one)]
            if not namespaces:
                message = "the audit log is for operators, and for owners of namespaces with a token of the scope admin"
                raise TrustError("PERMISSION_DENIED", message, details={"scope": ADMIN})
        after, limit = read_page(context)
        if after and not _ENTRY_NUMBER.fullmatch(after):
            raise UsageError("QUERY", "after is the number of an entry")
        entries = await self._store.audit(int(after or 0), limit, namespaces)
        following = entries[-1].number if len(entries) == limit else None
        rows = [messages.make(messages.AuditEntryObject, entry, entry.change) for entry in entries]
        return tagged_answer(messages.AuditPage(rows, following))

    async def statistics(self, context: RequestContext) -> ASGIApp:
        """Answer how much there is."""
        actor = actor_of(context)
        at, numbers = self._statistics.get(actor.is_operator, (0.0, None))
        if numbers is None or context.clock() - at > limits.REGISTRY_STATISTICS_SECONDS:
            numbers = await self._store.statistics(with_private=actor.is_operator)
            self._statistics[actor.is_operator] = context.clock(), numbers
        return tagged_answer(messages.RegistryStatistics(**numbers))


class DeviceLoginRoutes:
    """Answers the programs; ``parts`` are those of the registry."""

    def __init__(self, parts: RegistryComponents, authentication: Authentication) -> None:
        self._logins = parts.device_logins
        self._accounts = parts.accounts
        self._begun = authentication.limiter(_BEGINS)

    def routes(self) -> Sequence[Route]:
        """Return their rows."""
        refusals: dict[str, Answer | str] = {
            "400": Answer("The request is invalid, or there is no token.", {JSON: messages.OAuthProblem}),
            "413": "RegistryTooLarge",
        }

        def form(summary: str, handler: _FormHandler, asked: type[msgspec.Struct], answered: Any = None) -> Method:
            async def handle(context: RequestContext) -> ASGIApp:
                try:
                    fields = await _read_form(context)
                    if "grant_type" in asked.__struct_fields__ and fields.get("grant_type", _GRANT) != _GRANT:
                        return _refusal("unsupported_grant_type", f"the registry grants {_GRANT}")
                    return await handler(context, msgspec.convert(fields, asked))
                except msgspec.ValidationError as error:
                    return _refusal("invalid_request", f"the form is invalid: {explain_invalid(str(error), asked)[0]}")
                except UsageError as error:
                    code = "invalid_scope" if error.code == "TOKEN_FORM" else "invalid_request"
                    return _refusal(code, error.message)

            content = {JSON: answered} if answered else {}
            found = Answer("The document." if answered else "Done.", content, ("Cache-Control",) if answered else ())
            return Method(handle, Operation(summary, {"200": found, **refusals}, (), {_FORM: asked}))

        begin = form(
            "Begin a login on another device", self.begin, messages.DeviceRequest, messages.DeviceAuthorization
        )
        return [
            row(
                "/.well-known/oauth-authorization-server",
                base="",
                GET=reads(self.metadata, messages.AuthorizationServer),
            ),
            row("/oauth/device", POST=begin),
            row("/oauth/token", POST=form("Poll for its token", self.poll, messages.DevicePoll, messages.AccessToken)),
            row("/oauth/revoke", POST=form("Revoke a token", self.revoke, messages.TokenRevocation)),
        ]

    async def metadata(self, context: RequestContext) -> ASGIApp:
        """Answer the metadata of the authorization server."""
        place = f"{context.site}{API}/oauth"
        document = messages.AuthorizationServer(
            issuer=context.site,
            token_endpoint=f"{place}/token",
            device_authorization_endpoint=f"{place}/device",
            revocation_endpoint=f"{place}/revoke",
            scopes_supported=list(REGISTRY_SCOPES),
            grant_types_supported=[_GRANT],
            response_types_supported=[],
            token_endpoint_auth_methods_supported=["none"],
        )
        return tagged_answer(document)

    async def begin(self, context: RequestContext, asked: messages.DeviceRequest) -> ASGIApp:
        """Answer the codes of a new login."""
        allowance = self._begun.take(caller_of(ANONYMOUS, context.address), context.clock())
        if not allowance.allowed:
            raise ProblemError(too_many("logins are begun too often", allowance))
        codes = await self._logins.begin(asked.client_id, asked.scope.split(), context.address)
        if codes is None:
            raise ProblemError(_CROWDED)
        page = f"{context.site}/account/device"
        complete = f"{page}?{urlencode({'user_code': codes.user_code})}"
        ends, interval = int(limits.DEVICE_LOGIN_SECONDS), int(limits.DEVICE_POLL_SECONDS)
        return answer(messages.DeviceAuthorization(*codes, page, complete, ends, interval))

    async def poll(self, context: RequestContext, asked: messages.DevicePoll) -> ASGIApp:
        """Answer the token, or why there is none."""
        found = await self._logins.poll(asked.client_id, asked.device_code, context.address, context.ids.request_id)
        if isinstance(found, str):
            return _refusal(found, _POLL_REFUSALS[found])
        token = found.token
        ends = msgspec.UNSET if token.expires is None else int(token.expires - token.created)
        return answer(messages.AccessToken(found.secret, " ".join(sorted(token.scopes)), ends))

    async def revoke(self, context: RequestContext, asked: messages.TokenRevocation) -> ASGIApp:
        """Revoke the token that the form shows; what is none is answered the same. Spec: RFC 7009 §2.2."""
        await self._accounts.revoke_shown(asked.token, context.address, context.ids.request_id)
        return BytesResponse(200, b"", [])


async def _read_form(context: RequestContext) -> Mapping[str, str]:
    """Return the form in the body. Raises UsageError (``QUERY``), ProblemError (413). Spec: RFC 6749 §3.2."""
    if context.fields(b"content-type").get(b"content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise UsageError("QUERY", f"the body is of the type {_FORM}")
    pairs = read_pairs(await context.body(_FORM_BYTES, _TOO_LARGE), _FIELDS)
    if len(dict(pairs)) != len(pairs):
        raise UsageError("QUERY", "a parameter occurs twice")
    return dict(pairs)


def _refusal(error: str, description: str) -> ASGIApp:
    return answer(messages.OAuthProblem(error, description), 400)
