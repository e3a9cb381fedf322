"""Logging in: the authentication that an origin requires, and the steps from there to a stored credential.

An origin states its requirements in descriptors of Skill Sharing (``auth``), in the details of a 401, and in the
metadata of a protected resource. A private origin hides its descriptors, so a refusal is read first, and descriptors of
skills that are not public before others. A descriptor with ``oauth2`` has two URLs; other endpoints come from the
server's metadata, which is used only if it names the descriptor's token endpoint. The ``resource`` to request is in the
metadata of the protected resource alone. The command asks the user.

Spec: SSP §3.5.5, §7.2, §7.4; RFC 8707 §2; RFC 9728 §3, §5. Trust: all of it is untrusted. It decides the questions to
the user, and never the destination of a secret without the user's consent.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.client.credentials import RequestSigner
from skillwire.errors import DecodeError, FetchError, SkillwireError, SourceLocation, TrustError, UsageError
from skillwire.model.access import Access
from skillwire.model.credential import Credential, TokenRenewal
from skillwire.model.url import parse_url, resolve_url
from skillwire.protocols.oauth.client import check_endpoint, fetch_metadata, fetch_resource, revoke
from skillwire.protocols.oauth.codec import resource_metadata_url
from skillwire.protocols.oauth.messages import ClientIdentity, ServerMetadata, Tokens
from skillwire.protocols.skill_sharing.codec import decode_descriptor, decode_index
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType
from skillwire.trust.address import AddressPolicy
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse
from skillwire.wire.fetch import content_type, fetch, is_json

RequiredKind = Literal["api_key", "oauth2", "custom", "none", "unknown"]

_OK: Final = 200
_REFUSED: Final = frozenset({401, 403})
_PLACES: Final = ("/.well-known/skill-sharing", "/.well-known/agent-skills/index.json")
_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_JSON: Final = {"Accept": "application/json"}
_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class AuthRequirements:
    """The authentication that an origin requires.

    Args:
        kind: ``none`` for a statement that none is required, ``unknown`` without a statement.
        said_by: the URL of the statement.
        header: the field of an API key.
        advice: for people, one line, without hidden characters.
        authorization_url, token_url: of ``oauth2``, from a descriptor.
        issuer, resource: of ``oauth2``, from a resource's metadata.
        refused_at: a URL of the origin that required a credential, to test the new one.
        errors: errors during the search.
    """

    kind: RequiredKind
    said_by: str = ""
    header: str = "Authorization"
    advice: str = ""
    authorization_url: str | None = None
    token_url: str | None = None
    issuer: str | None = None
    resource: str | None = None
    scopes: tuple[str, ...] = ()
    refused_at: str | None = None
    errors: tuple[SkillwireError, ...] = ()


@dataclass(slots=True)
class _AuthSearch:
    origin: str
    addresses: AddressPolicy
    refused_at: str | None = None
    errors: list[SkillwireError] = field(default_factory=list)

    def found(self, kind: RequiredKind, **fields: Any) -> AuthRequirements:
        return AuthRequirements(kind, refused_at=self.refused_at, errors=tuple(self.errors), **fields)


def find_site(url: str) -> Flow[str]:
    """Return ``url``, an address with a path, if a site is served below it; else its origin."""
    response = yield from fetch(HttpRequest(f"{url}{_PLACES[-1]}", headers=_JSON))
    is_site = response.status in _REFUSED or (response.status == _OK and is_json(content_type(response)))
    return url if is_site else str(parse_url(url).origin)


def discover_auth(site: str, addresses: AddressPolicy) -> Flow[AuthRequirements]:
    """Return the requirements of ``site``, which the user has typed; malformed statements are in ``errors``."""
    search = _AuthSearch(str(parse_url(site).origin), addresses)
    nothing_needed: str | None = None
    for place in _PLACES:
        url = f"{site}{place}"
        response = yield from fetch(HttpRequest(url, headers=_JSON))
        if response.status in _REFUSED:
            wanted = yield from _read_refusal(response, search)
        elif response.status == _OK and place == _PLACES[0]:
            wanted = yield from _read_index(response, search)
        else:
            continue
        if wanted is not None and wanted.kind != "none":
            if wanted.kind == "oauth2" and wanted.resource is None:
                named = yield from _read_resource(f"{site}{_RESOURCE}", search)
                wanted = replace(wanted, resource=named.resource if named else None, errors=tuple(search.errors))
            return wanted
        nothing_needed = nothing_needed or (wanted.said_by if wanted else None)
    resource = yield from _read_resource(f"{site}{_RESOURCE}", search)
    if resource is not None:
        return resource
    return search.found("none", said_by=nothing_needed) if nothing_needed else search.found("unknown")


def _read_index(response: HttpResponse, search: _AuthSearch) -> Flow[AuthRequirements | None]:
    try:
        index = decode_index(response.body, response.url, addresses=search.addresses)
    except SkillwireError as error:
        search.errors.append(error)
        return None
    entries = sorted(index.entries.values(), key=lambda entry: entry.access is Access.PUBLIC)
    open_one: AuthRequirements | None = None
    for entry in entries[: limits.LOGIN_DESCRIPTORS]:
        try:
            request = HttpRequest(entry.descriptor_url, headers=_JSON, max_bytes=limits.DESCRIPTOR_BYTES)
            response = yield from fetch(request)
            if response.status in _REFUSED:
                wanted = yield from _read_refusal(response, search)
            elif response.status == _OK:
                descriptor = decode_descriptor(
                    response.body, response.url, addresses=search.addresses, expected_id=entry.id
                )
                wanted = _from_auth(descriptor.auth, response.url, search)
            else:
                continue
        except SkillwireError as error:
            search.errors.append(error)
            continue
        if wanted is not None and wanted.kind != "none":
            return wanted
        open_one = open_one or wanted
    return open_one


def _read_refusal(response: HttpResponse, search: _AuthSearch) -> Flow[AuthRequirements | None]:
    """Return the requirements of a 401 or 403: from the metadata that it names, or the ``auth`` in its details."""
    if parse_url(response.url).origin == search.origin:  # a key is tested only at the origin that required it
        search.refused_at = search.refused_at or response.url
    named = resource_metadata_url(response)
    if named is not None:
        try:
            url = str(resolve_url(parse_url(response.url), named))
        except SkillwireError as error:
            search.errors.append(error)
        else:
            if (wanted := (yield from _read_resource(url, search))) is not None:
                return wanted
    try:
        document: Any = load_json(response.body, max_bytes=limits.DESCRIPTOR_BYTES, source=response.url)
        details = document["error"]["details"]
        auth = msgspec.convert(details.get("auth", details), AuthConfig)
    except (DecodeError, LookupError, TypeError, AttributeError, msgspec.ValidationError):
        return None  # a page, or an error of another form
    return _from_auth(auth, response.url, search)


def _read_resource(url: str, search: _AuthSearch) -> Flow[AuthRequirements | None]:
    """Return the requirements of a resource's metadata, which must be at the origin itself."""
    if parse_url(url).origin != search.origin:
        return None
    try:
        resource = yield from fetch_resource(url)
    except SkillwireError as error:
        search.errors.append(error)
        return None
    if resource is None or not resource.issuers:
        return None
    fields: dict[str, Any] = {"issuer": resource.issuers[0], "resource": resource.resource, "scopes": resource.scopes}
    return search.found("oauth2", said_by=url, **fields)


def _from_auth(auth: AuthConfig, url: str, search: _AuthSearch) -> AuthRequirements:
    advice = auth.custom.instructions if auth.custom else auth.description or ""
    fields: dict[str, Any] = {"said_by": url, "advice": neutralise(advice[:_SHOWN])}
    if auth.type is AuthType.API_KEY:
        return search.found("api_key", header=auth.header or "Authorization", **fields)
    if auth.type is AuthType.OAUTH2 and auth.oauth2 is not UNSET:
        scopes = tuple(auth.oauth2.scopes)
        urls = {"authorization_url": auth.oauth2.authorization_url, "token_url": auth.oauth2.token_url}
        return search.found("oauth2", scopes=scopes, **urls, **fields)
    return search.found("custom" if auth.type is AuthType.CUSTOM else "none", **fields)


FlowName = Literal["code", "device", "client-credentials"]
_UNAUTHORIZED = 401
_SERVER_ERROR = 500


def new_key(origin: str, secret: str, *, header: str = "Authorization", key_id: str | None = None) -> Credential:
    """Return an API key as a credential; with ``key_id``, a signing key."""
    kind: Literal["custom", "api_key"] = "custom" if key_id is not None else "api_key"
    return Credential(origin, kind, secret, secrets.token_hex(16), header=header, key_id=key_id)


def new_token(
    origin: str,
    tokens: Tokens,
    server: ServerMetadata,
    client: ClientIdentity,
    *,
    scope: str,
    resource: str | None = None,
    now: float,
) -> Credential:
    """Return the tokens of an authorization server as a credential, with the client's secret to renew them."""
    grant = TokenRenewal(
        server.token_url,
        client.client_id,
        client.secret,
        client.sends_secret_in_body,
        tokens.refresh_token,
        server.revocation_url,
        scope if tokens.scope is None else tokens.scope,
        resource,
    )
    expires_at = None if tokens.expires_in is None else now + tokens.expires_in
    return Credential(origin, "oauth2", tokens.access_token, secrets.token_hex(16), expires_at=expires_at, grant=grant)


def find_server(wanted: AuthRequirements, addresses: AddressPolicy) -> Flow[ServerMetadata]:
    """Return the authorization server with checked URLs; raise ``LOGIN_REFUSED`` without required metadata."""
    server: ServerMetadata | None = None
    issuer = wanted.issuer or (str(parse_url(wanted.token_url).origin) if wanted.token_url else None)
    if issuer is not None:
        try:
            check_endpoint(issuer, addresses)
            server = yield from fetch_metadata(issuer)
        except SkillwireError as error:
            if wanted.token_url is None or isinstance(error, TrustError):
                raise
            # The URLs of the descriptor suffice for most logins.
    if wanted.token_url is not None and (server is None or server.token_url != wanted.token_url):
        server = ServerMetadata(wanted.token_url, authorization_url=wanted.authorization_url)
    if server is None:
        message = "the authorization server publishes no metadata"
        raise FetchError("LOGIN_REFUSED", message, place=SourceLocation(wanted.issuer or wanted.said_by))
    for url in _urls_of(server):
        check_endpoint(url, addresses)
    return server


def hosts_of(server: ServerMetadata) -> list[str]:
    """Return the origins that a login at ``server`` contacts or opens in the browser."""
    return list(dict.fromkeys(str(parse_url(url).origin) for url in _urls_of(server)))


def _urls_of(server: ServerMetadata) -> list[str]:
    urls = (server.token_url, server.authorization_url, server.device_url, server.revocation_url)
    return [url for url in urls if url is not None]


def choose_flow(asked: str, server: ServerMetadata, client: ClientIdentity, *, has_browser: bool) -> FlowName:
    """Return ``asked``, or for ``auto`` the first possible: client secret, browser, device; raise ``LOGIN_FORM``."""
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


def choose_scope(asked: tuple[str, ...], wanted: AuthRequirements, server: ServerMetadata, flow: FlowName) -> str:
    """Return the scope to request: the user's, or the origin's with ``offline_access`` for renewal."""
    if asked:
        return " ".join(asked)
    lasting = "offline_access" in server.scopes and flow != "client-credentials"
    return " ".join(dict.fromkeys([*wanted.scopes, *(["offline_access"] if lasting else [])]))


def scopes_refused(scope: str, tokens: Tokens) -> list[str]:
    """Return the scopes that were requested and not granted; those that ask for more than access do not count."""
    granted = (scope if tokens.scope is None else tokens.scope).split()
    return [one for one in scope.split() if one not in {*granted, "openid", "offline_access"}]


def identify(client_id: str, secret: str | None, server: ServerMetadata) -> ClientIdentity:
    """Return the client's identity, with its secret in the form that ``server`` supports."""
    methods = server.secret_methods
    return ClientIdentity(client_id, secret, bool(methods) and "client_secret_basic" not in methods)


def try_out(credential: Credential, site: str, url: str | None) -> Flow[int | None]:
    """Test ``credential`` at ``url``, or at the index of ``site``; return the status of a server that failed.

    Raises FetchError (``ACCESS_DENIED``) if the credential is refused.
    """
    url = url or f"{site}{_PLACES[-1]}"
    if credential.kind == "custom":
        response = yield from RequestSigner(time.time).send(HttpRequest(url), credential)
    else:
        response = yield from fetch(HttpRequest(url, headers={credential.header: credential.field_value}))
    if response.status == _UNAUTHORIZED:
        what, fix = "key", "Check the key, and that it is for this origin."
        if credential.kind == "oauth2":
            what, fix = "token", "Name what its tokens have to be for with --resource, as its operator says."
        reason = server_message(response.body)
        message = f"the origin refuses the {what}; it is not stored{reason and f': {reason}'}"
        raise FetchError("ACCESS_DENIED", message, place=SourceLocation(url), fix=fix)
    return response.status if response.status >= _SERVER_ERROR else None


def end_grant(credential: Credential, addresses: AddressPolicy) -> Flow[bool]:
    """Revoke the tokens of ``credential``; return False if that is not possible."""
    if credential.grant is None or credential.grant.revocation_url is None:
        return False
    check_endpoint(credential.grant.revocation_url, addresses)
    return (yield from revoke(credential.grant, credential.secret))
