"""The registry as an authorization server: logins of programs without a browser, by the device flow.

A program asks for codes, shows the user's one, and polls for the token, which a person grants on the page
``/account/device`` (:mod:`skillwire.server.account_pages`). Clients are public: their ``client_id`` is only a name that
the page shows. The token is an ordinary one of the account, without a refresh token.
Spec: RFC 7009, RFC 8414, RFC 8628.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.types import ASGIApp

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.access import ANONYMOUS
from skillwire.registry.accounts import REGISTRY_SCOPES
from skillwire.server.auth.authentication import Authentication
from skillwire.server.components import RegistryComponents
from skillwire.server.context import RequestContext
from skillwire.server.http import read_pairs
from skillwire.server.openapi import JSON
from skillwire.server.problems import Problem, ProblemError, too_many
from skillwire.server.quotas import RateLimit, caller_of
from skillwire.server.responses import BytesResponse
from skillwire.server.routes import registry_messages as messages
from skillwire.server.routes.registry_requests import API, Method, answer, reads, row, tagged_answer
from skillwire.server.routing import Answer, Operation, Route

_FormHandler = Callable[[RequestContext, Any], Awaitable[ASGIApp]]

T = TypeVar("T", bound=msgspec.Struct)
_FORM: Final = "application/x-www-form-urlencoded"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_FORM_BYTES: Final = 2048
_FIELDS: Final = 16
_TOO_LARGE: Final = Problem(413, "LIMIT_SIZE", f"a form of a login has at most {_FORM_BYTES:,} bytes")
_CROWDED: Final = Problem(503, "NOT_READY", "too many logins wait", fields={"Retry-After": "60"})
#: Logins that one address may begin: a person begins a few, and each takes a row.
_BEGINS: Final = RateLimit(20, 20)


class DeviceLoginRoutes:
    """Answers the programs; ``parts`` are those of the registry."""

    def __init__(self, parts: RegistryComponents, authentication: Authentication) -> None:
        self._logins = parts.device_logins
        self._accounts = parts.accounts
        self._begun = authentication.limiter(_BEGINS)

    def routes(self) -> Sequence[Route]:
        """Return their rows."""
        refusals: dict[str, Answer | str] = {
            "400": Answer("The request does not fit, or there is no token.", {JSON: messages.OAuthProblem}),
            "413": "RegistryTooLarge",
        }

        def form(summary: str, handler: _FormHandler, asked: type[msgspec.Struct], answered: Any = None) -> Method:
            async def handle(context: RequestContext) -> ASGIApp:
                try:
                    return await handler(context, await _read_form(context, asked))
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
        if asked.grant_type != _GRANT:
            return _refusal("unsupported_grant_type", f"the registry grants {_GRANT}")
        found = await self._logins.poll(asked.client_id, asked.device_code, context.address, context.ids.request_id)
        if isinstance(found, str):
            return _refusal(found)
        token = found.token
        ends = msgspec.UNSET if token.expires is None else int(token.expires - token.created)
        return answer(messages.AccessToken(found.secret, " ".join(sorted(token.scopes)), ends))

    async def revoke(self, context: RequestContext, asked: messages.TokenRevocation) -> ASGIApp:
        """Revoke the token that the form shows; what is none is answered the same. Spec: RFC 7009 §2.2."""
        await self._accounts.revoke_shown(asked.token, context.address, context.ids.request_id)
        return BytesResponse(200, b"", [])


async def _read_form(context: RequestContext, kind: type[T]) -> T:
    """Return the form in the body. Raises UsageError (``QUERY``), ProblemError (413). Spec: RFC 6749 §3.2."""
    if context.fields(b"content-type").get(b"content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise UsageError("QUERY", f"the body is of the type {_FORM}")
    pairs = read_pairs(await context.body(_FORM_BYTES, _TOO_LARGE), _FIELDS)
    if len(dict(pairs)) != len(pairs):
        raise UsageError("QUERY", "a parameter occurs twice")
    try:
        return msgspec.convert(dict(pairs), kind)
    except msgspec.ValidationError as error:
        raise UsageError("QUERY", f"the form does not fit: {error}") from error


def _refusal(error: str, description: str = "") -> ASGIApp:
    return answer(messages.OAuthProblem(error, description), 400)
