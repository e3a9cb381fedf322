"""Logging in: what is decided between what an origin wants and a stored credential. The asking is the command's.

A descriptor that says ``oauth2`` names two URLs; where a login needs more (a device endpoint, where to revoke, the
server's own name), the metadata of the server is looked for, and believed for the rest only when it names the very
token endpoint of the descriptor.

No ``resource`` (RFC 8707) is asked for: no metadata says whether a server knows the parameter, nor by which name it
knows the origin, and one that does not know the name refuses the whole login (``invalid_target``). What a token is good
for is narrowed by its scopes, and it is sent to its origin only.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Literal

from skillwire.client.request_signing import RequestSigner
from skillwire.errors import FetchError, Place, SkillwireError, TrustError, UsageError
from skillwire.model.credential import Credential, Grant
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.client import check_endpoint, fetch_metadata, revoke
from skillwire.protocols.oauth.messages import ClientIdentity, ServerMetadata
from skillwire.resolver.wanted import issuers_near
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from skillwire.protocols.oauth.messages import Tokens
    from skillwire.resolver.wanted import Wanted
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Exchange

FlowName = Literal["code", "device", "client-credentials"]
_UNAUTHORIZED = 401


def new_key(origin: str, secret: str, *, header: str = "Authorization", key_id: str | None = None) -> Credential:
    """Return an API key as a credential; with ``key_id`` a key to sign with."""
    kind: Literal["custom", "api_key"] = "custom" if key_id is not None else "api_key"
    return Credential(origin, kind, secret, secrets.token_hex(16), header=header, key_id=key_id)


def new_token(
    origin: str, tokens: Tokens, server: ServerMetadata, client: ClientIdentity, *, scope: str, now: float
) -> Credential:
    """Return what an authorization server gave as a credential; the client's secret is a part, since it renews it."""
    grant = Grant(
        server.token_url,
        client.client_id,
        client.secret,
        client.sends_secret_in_body,
        tokens.refresh_token,
        server.revocation_url,
        scope if tokens.scope is None else tokens.scope,
    )
    expires_at = None if tokens.expires_in is None else now + tokens.expires_in
    return Credential(origin, "oauth2", tokens.access_token, secrets.token_hex(16), expires_at=expires_at, grant=grant)


def find_server(wanted: Wanted, addresses: AddressPolicy) -> Exchange[ServerMetadata]:
    """Find out all that is needed of the authorization server; its URLs are checked.

    Args:
        wanted: names an issuer, or the URLs of a descriptor.
        addresses: where its URLs may lead.

    Raises:
        FetchError: ``LOGIN_REFUSED`` when it has no metadata where they are needed. TrustError: a URL leads elsewhere.
    """
    server: ServerMetadata | None = None
    for issuer in issuers_near(wanted):
        try:
            check_endpoint(issuer, addresses)
            server = yield from fetch_metadata(issuer)
        except SkillwireError as error:
            if wanted.token_url is None or isinstance(error, TrustError):
                raise
            # The URLs of the descriptor are enough for most logins; that there is no metadata stops none of them.
    if wanted.token_url is not None and (server is None or server.token_url != wanted.token_url):
        server = ServerMetadata(wanted.token_url, authorization_url=wanted.authorization_url)
    if server is None:
        message = "the authorization server publishes no metadata"
        raise FetchError("LOGIN_REFUSED", message, place=Place(wanted.issuer or wanted.said_by))
    for url in (server.token_url, server.authorization_url, server.device_url, server.revocation_url):
        if url is not None:
            check_endpoint(url, addresses)
    return server


def hosts_of(server: ServerMetadata) -> list[str]:
    """Return the origins that a login at ``server`` contacts or opens in the browser."""
    urls = (server.token_url, server.authorization_url, server.device_url, server.revocation_url)
    return list(dict.fromkeys(str(parse_url(url).origin) for url in urls if url is not None))


def choose_flow(asked: str, server: ServerMetadata, client: ClientIdentity, *, has_browser: bool) -> FlowName:
    """Return how to log in: as asked, or, with ``auto``, as a client with a secret, in the browser, by a device code.

    Raises:
        UsageError: ``LOGIN_FORM`` when the server or what is given does not allow it.
    """
    if asked == "client-credentials" or (asked == "auto" and client.secret is not None):
        if client.secret is None:
            fix = "Give it with --client-secret-env or --client-secret-stdin."
            raise UsageError("LOGIN_FORM", "client-credentials needs the client's secret", fix=fix)
        return "client-credentials"
    if asked == "device" or (asked == "auto" and server.device_url and not has_browser):
        if server.device_url is None:
            raise UsageError("LOGIN_FORM", "the authorization server offers no login on another device")
        return "device"
    if server.authorization_url is None:
        raise UsageError("LOGIN_FORM", "the authorization server offers no login in the browser")
    return "code"


def choose_scope(asked: tuple[str, ...], wanted: Wanted, server: ServerMetadata, flow: FlowName) -> str:
    """Return the scope to ask for: what the user wants, or what the origin lists and what keeps a login renewed."""
    if asked:
        return " ".join(asked)
    lasting = "offline_access" in server.scopes and flow != "client-credentials"
    return " ".join(dict.fromkeys([*wanted.scopes, *(["offline_access"] if lasting else [])]))


def identify(client_id: str, secret: str | None, server: ServerMetadata) -> ClientIdentity:
    """Return who we are to ``server``, which says how it wants a secret."""
    methods = server.secret_methods
    return ClientIdentity(client_id, secret, bool(methods) and "client_secret_basic" not in methods)


def try_out(credential: Credential, url: str) -> Exchange[None]:
    """Ask for ``url``, which wanted a credential, with ``credential``.

    Raises:
        FetchError: ``ACCESS_DENIED`` when it is refused.
    """
    if credential.kind == "custom":
        response = yield from RequestSigner(time.time).send(HttpRequest(url), credential)
    else:
        response = yield from fetch(HttpRequest(url, headers={credential.header: credential.field_value}))
    if response.status == _UNAUTHORIZED:
        fix = "Check the key, and that it is for this origin."
        raise FetchError("ACCESS_DENIED", "the origin refuses the key; it is not stored", place=Place(url), fix=fix)


def end_grant(credential: Credential, addresses: AddressPolicy) -> Exchange[bool]:
    """Revoke what ``credential`` was granted; False when nothing can be revoked."""
    if credential.grant is None or credential.grant.revocation_url is None:
        return False
    check_endpoint(credential.grant.revocation_url, addresses)
    return (yield from revoke(credential.grant, credential.secret))
