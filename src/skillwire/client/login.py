"""What an origin wants of those who log in, as far as it says so.

It says so in the descriptors of Skill Sharing (``auth``), in the details of a 401, and in the metadata of a protected
resource. What is private hides its descriptors, so the refusal itself is read first, and descriptors of skills that
are not public before others. An origin that says nothing usually takes a token as a bearer; the user knows.

Spec: SSP §3.5.5, §7.2, §7.4; RFC 9728 §3, §5. Trust: all of it is untrusted. It decides what the user is asked
and shown, and never where a secret goes without the user's consent.

Logging in: what is decided between what an origin wants and a stored credential. The asking is the command's.

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.client.request_signing import RequestSigner
from skillwire.errors import DecodeError, FetchError, SkillwireError, SourceLocation, TrustError, UsageError
from skillwire.model.access import Access
from skillwire.model.credential import Credential, TokenRenewal
from skillwire.model.url import parse_url, resolve_url
from skillwire.protocols.oauth.client import check_endpoint, fetch_metadata, fetch_resource, revoke
from skillwire.protocols.oauth.codec import resource_metadata_url
from skillwire.protocols.oauth.messages import ClientIdentity, ServerMetadata
from skillwire.protocols.skill_sharing.codec import decode_descriptor, decode_index
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.protocols.oauth.messages import Tokens
    from skillwire.protocols.skill_sharing.messages import SkillIndexEntry
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Flow, HttpResponse


WantedKind = Literal["api_key", "oauth2", "custom", "none", "unknown"]

_OK: Final = 200
_REFUSED: Final = frozenset({401, 403})
_PLACES: Final = ("/.well-known/skill-sharing", "/.well-known/agent-skills/index.json")
_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_JSON: Final = {"Accept": "application/json"}
_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class AuthRequirements:
    """What an origin wants.

    Args:
        kind: ``none`` when it says that nothing is needed, ``unknown`` when it says nothing.
        said_by: the URL that said so; empty for ``unknown``.
        header: the field of an API key.
        advice: for people, one line, without hidden characters.
        authorization_url, token_url: of ``oauth2``, when a descriptor says them.
        issuer: of ``oauth2``, when a resource's metadata says it.
        scopes: that exist there.
        refused_at: a URL of the origin itself that wanted a credential, to try the new one at.
        doubts: what could not be read on the way.
    """

    kind: WantedKind
    said_by: str = ""
    header: str = "Authorization"
    advice: str = ""
    authorization_url: str | None = None
    token_url: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    refused_at: str | None = None
    doubts: tuple[SkillwireError, ...] = ()


class _AuthSearch:
    """One search, and what it saw."""

    def __init__(self, origin: str, addresses: AddressPolicy) -> None:
        self.origin = origin
        self.addresses = addresses
        self.refused_at: str | None = None
        self.doubts: list[SkillwireError] = []

    def found(self, kind: WantedKind, **fields: Any) -> AuthRequirements:
        return AuthRequirements(kind, refused_at=self.refused_at, doubts=tuple(self.doubts), **fields)


def discover_auth(origin: str, addresses: AddressPolicy) -> Flow[AuthRequirements]:
    """Find out what ``origin`` wants.

    Args:
        origin: ``https://example.com``, which the user has typed.
        addresses: where it may send us for that.

    Raises:
        FetchError, TrustError: the origin itself cannot be asked. What it says wrongly is in ``doubts``.
    """
    search = _AuthSearch(origin, addresses)
    nothing_needed: str | None = None
    for place in _PLACES:
        url = f"{origin}{place}"
        response = yield from fetch(HttpRequest(url, headers=_JSON))
        if response.status in _REFUSED:
            wanted = yield from _read_refusal(response, search)
        elif response.status == _OK and place == _PLACES[0]:
            wanted = yield from _read_index(response, search)
        else:
            continue
        if wanted is not None and wanted.kind != "none":
            return wanted
        nothing_needed = nothing_needed or (wanted.said_by if wanted else None)
    resource = yield from _read_resource(f"{origin}{_RESOURCE}", search)
    if resource is not None:
        return resource
    return search.found("none", said_by=nothing_needed) if nothing_needed else search.found("unknown")


def _read_index(response: HttpResponse, search: _AuthSearch) -> Flow[AuthRequirements | None]:
    try:
        index = decode_index(response.body, response.url, addresses=search.addresses)
    except SkillwireError as error:
        search.doubts.append(error)
        return None
    entries = sorted(index.entries.values(), key=lambda entry: entry.access is Access.PUBLIC)
    open_one: AuthRequirements | None = None
    for entry in entries[: limits.LOGIN_DESCRIPTORS]:
        wanted = yield from _read_entry(entry, search)
        if wanted is not None and wanted.kind != "none":
            return wanted
        open_one = open_one or wanted
    return open_one


def _read_entry(entry: SkillIndexEntry, search: _AuthSearch) -> Flow[AuthRequirements | None]:
    try:
        request = HttpRequest(entry.descriptor_url, headers=_JSON, max_bytes=limits.DESCRIPTOR_BYTES)
        response = yield from fetch(request)
        if response.status in _REFUSED:
            return (yield from _read_refusal(response, search))
        if response.status != _OK:
            return None
        descriptor = decode_descriptor(response.body, response.url, addresses=search.addresses, expected_id=entry.id)
    except SkillwireError as error:
        search.doubts.append(error)
        return None
    return _from_auth(descriptor.auth, response.url, search)


def _read_refusal(response: HttpResponse, search: _AuthSearch) -> Flow[AuthRequirements | None]:
    """Read what a 401 or 403 says: whose metadata to read, or the ``auth`` of a descriptor in its details."""
    if parse_url(response.url).origin == search.origin:  # a key is tried where it belongs, wherever we were sent
        search.refused_at = search.refused_at or response.url
    named = resource_metadata_url(response)
    if named is not None:
        try:
            url = str(resolve_url(parse_url(response.url), named))
        except SkillwireError as error:
            search.doubts.append(error)
        else:
            if (wanted := (yield from _read_resource(url, search))) is not None:
                return wanted
    auth = _auth_of(response)
    return _from_auth(auth, response.url, search) if auth is not None else None


def _read_resource(url: str, search: _AuthSearch) -> Flow[AuthRequirements | None]:
    """Read the metadata of the resource, which has to lie on the origin itself."""
    if parse_url(url).origin != search.origin:
        return None
    try:
        resource = yield from fetch_resource(url)
    except SkillwireError as error:
        search.doubts.append(error)
        return None
    if resource is None or not resource.issuers:
        return None
    return search.found("oauth2", said_by=url, issuer=resource.issuers[0], scopes=resource.scopes)


def _auth_of(response: HttpResponse) -> AuthConfig | None:
    try:
        document: Any = load_json(response.body, max_bytes=limits.DESCRIPTOR_BYTES, source=response.url)
        details = document["error"]["details"]
        return msgspec.convert(details.get("auth", details), AuthConfig)
    except (DecodeError, LookupError, TypeError, AttributeError, msgspec.ValidationError):
        return None  # a page, or an error of another form: it says nothing about a login


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


def issuers_near(wanted: AuthRequirements) -> Sequence[str]:
    """Return the issuers whose metadata may tell more of the server of ``wanted``: the one it names, or its origin."""
    if wanted.issuer is not None:
        return (wanted.issuer,)
    return (str(parse_url(wanted.token_url).origin),) if wanted.token_url else ()


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
    grant = TokenRenewal(
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


def find_server(wanted: AuthRequirements, addresses: AddressPolicy) -> Flow[ServerMetadata]:
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
        raise FetchError("LOGIN_REFUSED", message, place=SourceLocation(wanted.issuer or wanted.said_by))
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


def choose_scope(asked: tuple[str, ...], wanted: AuthRequirements, server: ServerMetadata, flow: FlowName) -> str:
    """Return the scope to ask for: what the user wants, or what the origin lists and what keeps a login renewed."""
    if asked:
        return " ".join(asked)
    lasting = "offline_access" in server.scopes and flow != "client-credentials"
    return " ".join(dict.fromkeys([*wanted.scopes, *(["offline_access"] if lasting else [])]))


def identify(client_id: str, secret: str | None, server: ServerMetadata) -> ClientIdentity:
    """Return who we are to ``server``, which says how it wants a secret."""
    methods = server.secret_methods
    return ClientIdentity(client_id, secret, bool(methods) and "client_secret_basic" not in methods)


def try_out(credential: Credential, url: str) -> Flow[None]:
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
        raise FetchError(
            "ACCESS_DENIED", "the origin refuses the key; it is not stored", place=SourceLocation(url), fix=fix
        )


def end_grant(credential: Credential, addresses: AddressPolicy) -> Flow[bool]:
    """Revoke what ``credential`` was granted; False when nothing can be revoked."""
    if credential.grant is None or credential.grant.revocation_url is None:
        return False
    check_endpoint(credential.grant.revocation_url, addresses)
    return (yield from revoke(credential.grant, credential.secret))
