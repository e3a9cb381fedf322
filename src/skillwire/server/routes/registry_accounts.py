"""The accounts of a registry over its API: the first operator, the caller, tokens, the audit log and statistics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import TrustError, UsageError
from skillwire.model.package import Role
from skillwire.registry.accounts import NewToken
from skillwire.registry.packages import ADMIN, require_account
from skillwire.server.responses import no_content
from skillwire.server.routes import registry_messages as messages
from skillwire.server.routes.registry_requests import (
    actor_of,
    answer,
    changes,
    read_page,
    read_request,
    reads,
    row,
    tagged_answer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp

    from skillwire.server.components import RegistryComponents
    from skillwire.server.context import RequestContext
    from skillwire.server.routing import Route

_ENTRY_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)


class AccountRoutes:
    """Answers for accounts; ``parts`` are those of the registry."""

    def __init__(self, parts: RegistryComponents) -> None:
        self._registry = parts.registry
        self._store = parts.registry.store
        self._tokens = parts.tokens
        self._first_operator = parts.first_operator
        self._statistics: dict[bool, tuple[float, Mapping[str, int]]] = {}

    def routes(self) -> Sequence[Route]:
        """Return their rows."""
        return [
            row("", GET=reads(self.about, "What this registry is", messages.RegistryInfo)),
            row(
                "/setup",
                POST=changes(
                    self.set_up, "Make the first operator", messages.IssuedToken, messages.SetupRequest, status=201
                ),
            ),
            row("/whoami", GET=reads(self.whoami, "The caller's account", messages.CallerAccount)),
            row(
                "/tokens",
                GET=reads(self.tokens, "The tokens of the caller's account", messages.TokenList),
                POST=changes(self.issue, "Make a token", messages.IssuedToken, messages.TokenRequest, status=201),
            ),
            row("/tokens/{token}", DELETE=changes(self.revoke, "Revoke a token", None)),
            row("/audit", GET=reads(self.audit, "The audit log", messages.AuditPage, "after-entry", "rows")),
            row("/stats", GET=reads(self.statistics, "How much there is", messages.RegistryStatistics)),
        ]

    async def about(self, context: RequestContext) -> ASGIApp:
        """Answer what this is, and whether it needs its first operator."""
        return answer(messages.RegistryInfo(context.site, needs_setup=not await self._store.has_operator()))

    async def set_up(self, context: RequestContext) -> ASGIApp:
        """Make the first operator, given the code that the server printed."""
        asked = await read_request(context, messages.SetupRequest)
        issued = await self._first_operator.make(asked.code, asked.account)
        return answer(messages.IssuedToken(issued.token.token_id, asked.account, issued.secret), 201)

    async def whoami(self, context: RequestContext) -> ASGIApp:
        """Answer the caller's account, scopes and roles."""
        actor = await actor_of(self._registry, context)
        require_account(actor)
        roles = dict(await self._store.roles(actor.account))
        return tagged_answer(messages.CallerAccount(actor.account, actor.is_operator, sorted(actor.scopes), roles))

    async def tokens(self, context: RequestContext) -> ASGIApp:
        """Answer the tokens of the caller's account; to operators those of all."""
        found = await self._tokens.list(await actor_of(self._registry, context))
        return tagged_answer(messages.TokenList([messages.token_object(token) for token in found]))

    async def issue(self, context: RequestContext) -> ASGIApp:
        """Make a token."""
        asked = await read_request(context, messages.TokenRequest)
        new = NewToken(asked.name, asked.scopes, asked.expires_in, asked.account, asked.operator)
        issued = await self._tokens.issue(await actor_of(self._registry, context), new)
        return answer(messages.IssuedToken(issued.token.token_id, issued.token.account, issued.secret), 201)

    async def revoke(self, context: RequestContext) -> ASGIApp:
        """Revoke a token at once."""
        await self._tokens.revoke(await actor_of(self._registry, context), context.parameters["token"])
        return no_content

    async def audit(self, context: RequestContext) -> ASGIApp:
        """Answer a page of the audit log: to operators all of it, to owners the changes of their namespaces."""
        actor = await actor_of(self._registry, context)
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
        return tagged_answer(messages.AuditPage([messages.entry_object(entry) for entry in entries], following))

    async def statistics(self, context: RequestContext) -> ASGIApp:
        """Answer how much there is; the numbers are kept for some seconds."""
        actor = await actor_of(self._registry, context)
        at, numbers = self._statistics.get(actor.is_operator, (0.0, None))
        if numbers is None or context.clock() - at > limits.REGISTRY_STATISTICS_SECONDS:
            numbers = await self._store.statistics(with_private=actor.is_operator)
            self._statistics[actor.is_operator] = context.clock(), numbers
        return tagged_answer(messages.RegistryStatistics(**numbers))
