"""Requests to an authorization server, and the authorization code flow.

A token request is sent once and follows no redirect, because it carries secrets for that endpoint alone; errors contain
none of it. The caller checks URLs with :func:`check_endpoint`, which requires https or a host that the user named, and
the address policy checks every connection. oauthlib builds the bodies of logins. Renewal and revocation are on the
install path, which is limited to the standard library; tests compare their bodies with oauthlib's.

The browser's authorization request has a ``state`` that the answer must repeat, and the hash of a secret (PKCE, S256)
that only the token endpoint receives. So another page cannot inject its own answer, and a program that reads the answer
cannot use it. A server that names itself must be the one that was asked, and a server that promised to name itself must
do so (RFC 9207). Every request names the ``resource`` that the token is for, if it is known. Spec: RFC 6749, 7009,
7636, 8252 §8, 8414, 8628, 8707, 9207, 9728.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SourceLocation, TrustError, ValidationError
from skillwire.model.credential import TokenRenewal
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.codec import decode_device, decode_metadata, decode_resource, decode_tokens, refusal
from skillwire.protocols.oauth.messages import (
    AuthorizationRequest,
    ClientIdentity,
    DeviceCode,
    ProtectedResource,
    ServerMetadata,
    Tokens,
)
from skillwire.trust.address import AddressPolicy, is_local_host
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, Sleep
from skillwire.wire.fetch import fetch

_OK: Final = 200
_SLOWER: Final = 5.0  # seconds that slow_down adds, RFC 8628 §3.5
_METADATA: Final = ("oauth-authorization-server", "openid-configuration")
_JSON: Final = {"Accept": "application/json"}
_PERMANENT: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client", "access_denied"})


def check_endpoint(url: str, addresses: AddressPolicy) -> None:
    """Check that secrets may go to ``url``: https, or a named host of the user's network. Raises TrustError."""
    parsed = parse_url(url)
    if parsed.scheme == "http" and not is_local_host(parsed.host):
        message = f"{parsed.host} would get secrets without TLS"
        raise TrustError("PLAIN_HTTP_REFUSED", message, place=SourceLocation(url))
    addresses.check_url(parsed)


def fetch_metadata(issuer: str) -> Flow[ServerMetadata | None]:
    """Fetch the metadata of ``issuer`` from the places of RFC 8414 and OpenID Connect; None if absent.

    An issuer that is a part of a host may have no place of its own at the root, so its own path comes last.
    """
    base = parse_url(issuer)
    path = base.path.rstrip("/")
    places = [f"/.well-known/{name}{path}" for name in _METADATA]
    for place in dict.fromkeys([*places, *(f"{path}/.well-known/{name}" for name in reversed(_METADATA))]):
        url = f"{base.origin}{place}"
        response = yield from fetch(HttpRequest(url, headers=_JSON, max_bytes=limits.OAUTH_BYTES))
        if response.status == _OK:
            return decode_metadata(response, issuer)
    return None


def fetch_resource(url: str) -> Flow[ProtectedResource | None]:
    """Fetch a protected resource's metadata; None if absent. Raises TrustError for another origin's resource."""
    response = yield from fetch(HttpRequest(url, headers=_JSON, max_bytes=limits.OAUTH_BYTES))
    if response.status != _OK:
        return None
    return decode_resource(response, url)


def redeem_code(question: AuthorizationRequest, code: str, client: ClientIdentity) -> Flow[Tokens]:
    """Exchange an authorization code for tokens. Spec: RFC 6749 §4.1.3, RFC 7636 §4.5."""
    body = (
        _oauth2()
        .WebApplicationClient(client.client_id)
        .prepare_request_body(
            code=code,
            redirect_uri=question.redirect_url,
            code_verifier=question.verifier,
            include_client_id=client.secret is None,
            **_for(question.resource),
        )
    )
    request = _form(question.server.token_url, body, client)
    return decode_tokens((yield request), _secrets(client, code, question.verifier))


def use_client_credentials(
    token_url: str, client: ClientIdentity, scope: str, *, resource: str | None = None
) -> Flow[Tokens]:
    """Ask for a token for the client itself. Spec: RFC 6749 §4.4."""
    scoped = {"scope": scope} if scope else {}
    body = urlencode({"grant_type": "client_credentials", **scoped, **_for(resource)})
    return decode_tokens((yield _form(token_url, body, client)), _secrets(client))


def begin_device(
    device_url: str, client: ClientIdentity, scope: str, *, resource: str | None = None
) -> Flow[DeviceCode]:
    """Ask for the codes of a login on another device. Spec: RFC 8628 §3.1."""
    body = urlencode({"client_id": client.client_id, **({"scope": scope} if scope else {}), **_for(resource)})
    device = decode_device((yield _form(device_url, body, client)), _secrets(client))
    for url in filter(None, (device.verification_url, device.complete_url)):
        parse_url(url)  # a person will open it, so only http and https are allowed
    return device


def await_device(
    token_url: str,
    client: ClientIdentity,
    device: DeviceCode,
    clock: Callable[[], float] = time.monotonic,
    *,
    resource: str | None = None,
) -> Flow[Tokens]:
    """Poll until the user has answered on the other device, no faster than the server allows. Spec: RFC 8628 §3.4.

    A lost connection doubles the pause; ``slow_down`` adds five seconds. Raises as :func:`decode_tokens`.
    """
    body = (
        _oauth2()
        .DeviceClient(client.client_id)
        .prepare_request_body(device.device_code, include_client_id=client.secret is None, **_for(resource))
    )
    request = _form(token_url, body, client)
    interval, end = device.interval, clock() + device.expires_in
    while clock() + interval < end:
        try:
            yield Sleep(interval)
            return decode_tokens((yield request), _secrets(client, device.device_code))
        except FetchError as error:
            if error.details.get("error") == "slow_down":
                interval += _SLOWER
            elif error.retryable and error.code != "LOGIN_TIMEOUT":
                interval *= 2
            elif error.details.get("error") != "authorization_pending":
                raise
            interval = min(interval, float(limits.LOGIN_POLL_SECONDS))
    raise FetchError("LOGIN_TIMEOUT", "the device code has expired", place=SourceLocation(token_url))


def renew(grant: TokenRenewal) -> Flow[Tokens]:
    """Request a new access token with the refresh token or client credentials. Spec: RFC 6749 §6.

    Raises FetchError (``LOGIN_EXPIRED``) when the server refuses permanently.
    """
    client = identity_of(grant)
    try:
        if grant.refresh_token is None:
            exchange = use_client_credentials(grant.token_url, client, grant.scope, resource=grant.resource)
            return (yield from exchange)
        fields = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token, **_for(grant.resource)}
        response = yield _form(grant.token_url, urlencode(fields | _named(client)), client)
        return decode_tokens(response, _secrets(client, grant.refresh_token))
    except FetchError as error:
        if error.details.get("error") not in _PERMANENT:
            raise
        raise FetchError("LOGIN_EXPIRED", f"the token is not renewed: {error.message}", place=error.place) from error


def revoke(grant: TokenRenewal, access_token: str) -> Flow[bool]:
    """Revoke the refresh token, or else the access token; return whether the server confirmed it. Spec: RFC 7009 §2."""
    if grant.revocation_url is None:
        return False
    token, hint = grant.refresh_token or access_token, "refresh_token" if grant.refresh_token else "access_token"
    client = identity_of(grant)
    fields = {"token": token, "token_type_hint": hint, **_named(client)}
    response: HttpResponse = yield _form(grant.revocation_url, urlencode(fields), client)
    return response.status == _OK


def identity_of(grant: TokenRenewal) -> ClientIdentity:
    """Return the client identity of ``grant``."""
    return ClientIdentity(grant.client_id, grant.client_secret, grant.sends_secret_in_body)


def _form(url: str, body: str, client: ClientIdentity) -> HttpRequest:
    """Return a POST of ``body`` as ``client``. Spec: RFC 6749 §2.3.1."""
    headers = {**_JSON, "Content-Type": "application/x-www-form-urlencoded"}
    if client.secret is not None and client.sends_secret_in_body:
        body = f"{body}&{urlencode({'client_id': client.client_id, 'client_secret': client.secret})}"
    elif client.secret is not None:
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret)}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return HttpRequest(url, "POST", headers, body.encode(), max_bytes=limits.OAUTH_BYTES)


def _named(client: ClientIdentity) -> dict[str, str]:
    return {"client_id": client.client_id} if client.secret is None else {}


def _for(resource: str | None) -> dict[str, str]:
    return {} if resource is None else {"resource": resource}


def _secrets(client: ClientIdentity, *others: str) -> list[str]:
    return [secret for secret in (client.secret, *others) if secret]


_VERIFIER_LENGTH: Final = 64  # characters; 43 to 128 are allowed
_PLACE: Final = SourceLocation("the browser's answer")
_MOST_FIELDS: Final = 30


def ask_for_code(
    server: ServerMetadata,
    client_id: str,
    redirect_url: str,
    scope: str,
    *,
    resource: str | None = None,
    nonce: str | None = None,
) -> AuthorizationRequest:
    """Return the authorization request for the browser; the server's authorization endpoint was checked.

    ``scope`` is separated by spaces, or empty for the server's default. The ID token repeats ``nonce``.
    """
    url = str(server.authorization_url)
    client = _oauth2().WebApplicationClient(client_id)
    state = secrets.token_urlsafe(32)
    verifier = client.create_code_verifier(_VERIFIER_LENGTH)
    challenge = client.create_code_challenge(verifier, "S256")
    # OpenID Connect §11: a refresh token that outlasts the browser's session is given after consent only.
    consent = {"prompt": "consent"} if "offline_access" in scope.split() else {}
    scheme, _, rest = url.partition("://")
    # oauthlib refuses http also on a loopback host that the user has named; the caller has checked the scheme.
    question = client.prepare_request_uri(
        f"https://{rest}",
        redirect_uri=redirect_url,
        scope=scope or None,
        state=state,
        code_challenge=challenge,
        code_challenge_method="S256",
        **consent,
        **({} if nonce is None else {"nonce": nonce}),
        **_for(resource),
    )
    url = scheme + question.removeprefix("https")
    return AuthorizationRequest(url, state, verifier, redirect_url, server, resource)


def read_answer(target: str, question: AuthorizationRequest) -> str:
    """Return the authorization code in ``target``, the path and query of the browser's request.

    Trust: any web page and any local program can send one.

    Raises TrustError (``LOGIN_STATE``), FetchError (``LOGIN_DENIED``, ``LOGIN_REFUSED``), DecodeError.
    """
    try:
        pairs = parse_qsl(urlsplit(target).query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:  # its words may repeat what was sent
        raise DecodeError("LOGIN_ANSWER", "the browser's answer cannot be read", place=_PLACE) from None
    if len(dict(pairs)) != len(pairs):  # RFC 6749 §3.1: a parameter occurs once
        raise DecodeError("LOGIN_ANSWER", "the browser's answer has a parameter twice", place=_PLACE)
    fields = dict(pairs)
    if not hmac.compare_digest(fields.get("state", "").encode(), question.state.encode()):
        raise TrustError("LOGIN_STATE", "the state is not the one of this login", place=_PLACE)
    _check_issuer(fields.get("iss"), question.server)
    if "error" in fields:
        raise refusal(fields, _PLACE, [question.state, question.verifier])
    if not fields.get("code"):
        raise DecodeError("LOGIN_ANSWER", "the browser brought no code", place=_PLACE)
    return fields["code"]


def _check_issuer(named: str | None, server: ServerMetadata) -> None:
    if named is None:
        if server.sends_issuer:
            raise TrustError("LOGIN_STATE", "the answer names no issuer", place=_PLACE)
        return
    if server.issuer is not None:
        is_same = named == server.issuer
    else:  # the issuer is unknown; at least the origin must match
        try:
            is_same = parse_url(named).origin == parse_url(str(server.authorization_url)).origin
        except ValidationError:  # not a URL, so not an issuer
            is_same = False
    if not is_same:
        raise TrustError("LOGIN_STATE", "the answer is of another authorization server", place=_PLACE)


def _oauth2() -> Any:
    import oauthlib.oauth2  # noqa: PLC0415  # only a login needs it

    return oauthlib.oauth2
