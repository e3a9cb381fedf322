"""What we ask an authorization server, as exchanges.

A token request is made once and follows no redirect: what it carries is for that endpoint alone. It carries secrets,
so nothing of it is in any error. Whether a URL may be asked at all is the address policy's to say, and the caller's:
:func:`check_endpoint` demands https, or a host of the user's own.

The bodies of the logins are oauthlib's. Renewing and revoking are on the install path, where nothing but the standard
library may be imported; tests hold their bodies against oauthlib's. Spec: RFC 6749, 7009, 7636, 8414, 8628, 9728.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import FetchError, Place, TrustError
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.codec import decode_device, decode_metadata, decode_resource, decode_tokens
from skillwire.trust.address import is_local_host
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.credential import Grant
    from skillwire.protocols.oauth.messages import (
        AuthorizationRequest,
        ClientIdentity,
        DeviceCode,
        ProtectedResource,
        ServerMetadata,
        Tokens,
    )
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Exchange

_OK: Final = 200
_SLOWER: Final = 5.0  # seconds that slow_down adds, RFC 8628 §3.5
_METADATA: Final = ("oauth-authorization-server", "openid-configuration")
_JSON: Final = {"Accept": "application/json"}


def check_endpoint(url: str, addresses: AddressPolicy) -> None:
    """Check that secrets may be sent to ``url``: over https, or to a host of the user's own network that was named.

    Raises:
        TrustError: ``PLAIN_HTTP_REFUSED``, ``ADDRESS_REFUSED``, ``PORT_REFUSED``. ValidationError: ``URL``.
    """
    parsed = parse_url(url)
    if parsed.scheme == "http" and not is_local_host(parsed.host):
        raise TrustError("PLAIN_HTTP_REFUSED", f"{parsed.host} would get secrets without TLS", place=Place(url))
    addresses.check_url(parsed)


def fetch_metadata(issuer: str) -> Exchange[ServerMetadata | None]:
    """Look for the metadata of ``issuer`` in the places of RFC 8414 and OpenID Connect; None when it is in none.

    Raises:
        TrustError, DecodeError, FetchError: as the codec says.
    """
    base = parse_url(issuer)
    path = base.path.rstrip("/")
    places = [f"/.well-known/{name}{path}" for name in _METADATA]
    for place in dict.fromkeys([*places, f"{path}/.well-known/{_METADATA[1]}"]):
        request = HttpRequest(f"{base.origin}{place}", headers=_JSON, max_bytes=limits.OAUTH_BYTES)
        response = yield from fetch(request)
        if response.status == _OK:
            return decode_metadata(response, issuer)
    return None


def fetch_resource(url: str) -> Exchange[ProtectedResource | None]:
    """Ask for the metadata of a protected resource; None when there is none at ``url``.

    Raises:
        TrustError: ``LOGIN_STATE`` when it is of a resource on another origin.
        DecodeError, FetchError: as the codec says.
    """
    response = yield from fetch(HttpRequest(url, headers=_JSON, max_bytes=limits.OAUTH_BYTES))
    if response.status != _OK:
        return None
    resource = decode_resource(response)
    if parse_url(resource.resource).origin != parse_url(url).origin:
        raise TrustError("LOGIN_STATE", "the metadata there is of another resource", place=Place(url))
    return resource


def redeem_code(question: AuthorizationRequest, code: str, client: ClientIdentity) -> Exchange[Tokens]:
    """Exchange an authorization code for tokens. Spec: RFC 6749 §4.1.3, RFC 7636 §4.5."""
    from oauthlib.oauth2 import WebApplicationClient  # noqa: PLC0415  # only a login needs it

    body = WebApplicationClient(client.client_id).prepare_request_body(
        code=code,
        redirect_uri=question.redirect_url,
        code_verifier=question.verifier,
        include_client_id=client.secret is None,
    )
    request = _form(question.server.token_url, body, client)
    return decode_tokens((yield request), _secrets(client, code, question.verifier))


def use_client_credentials(token_url: str, client: ClientIdentity, scope: str) -> Exchange[Tokens]:
    """Ask for a token for the client itself. Spec: RFC 6749 §4.4."""
    body = encode_form({"grant_type": "client_credentials", **({"scope": scope} if scope else {})})
    return decode_tokens((yield _form(token_url, body, client)), _secrets(client))


def begin_device(device_url: str, client: ClientIdentity, scope: str) -> Exchange[DeviceCode]:
    """Ask for the codes of a login on another device. Spec: RFC 8628 §3.1."""
    body = encode_form({"client_id": client.client_id, **({"scope": scope} if scope else {})})
    device = decode_device((yield _form(device_url, body, client)), _secrets(client))
    parse_url(device.verification_url)  # a person is told to open it: nothing but http and https will do
    return device


def await_device(
    token_url: str, client: ClientIdentity, device: DeviceCode, clock: Callable[[], float] = time.monotonic
) -> Exchange[Tokens]:
    """Ask until the user has answered on the other device, no faster than the server allows. Spec: RFC 8628 §3.4.

    A lost connection makes the pause twice as long, as ``slow_down`` makes it five seconds longer.

    Raises:
        FetchError: ``LOGIN_TIMEOUT``, ``LOGIN_DENIED``; as :func:`decode_tokens` says.
    """
    from oauthlib.oauth2 import DeviceClient  # noqa: PLC0415  # only a login needs it

    body = DeviceClient(client.client_id).prepare_request_body(
        device.device_code, include_client_id=client.secret is None
    )
    request = _form(token_url, body, client)
    interval, end = device.interval, clock() + device.expires_in
    while clock() + interval < end:
        try:
            return decode_tokens((yield request._replace(delay=interval)), _secrets(client, device.device_code))
        except FetchError as error:
            interval = _next_pause(error, interval)
    raise FetchError("LOGIN_TIMEOUT", "the device code has expired", place=Place(token_url))


def _next_pause(error: FetchError, interval: float) -> float:
    if error.details.get("error") == "slow_down":
        interval += _SLOWER
    elif error.retryable and error.code != "LOGIN_TIMEOUT":
        interval *= 2
    elif error.details.get("error") != "authorization_pending":
        raise error
    return min(interval, float(limits.LOGIN_POLL_SECONDS))


def renew(grant: Grant) -> Exchange[Tokens]:
    """Ask for a new access token, with the refresh token or as the client itself. Spec: RFC 6749 §6.

    Raises:
        FetchError: ``LOGIN_EXPIRED`` when the server refuses for good.
    """
    client = identity_of(grant)
    if grant.refresh_token is None:
        exchange = use_client_credentials(grant.token_url, client, grant.scope)
    else:
        exchange = _refresh(grant.token_url, client, grant.refresh_token)
    try:
        return (yield from exchange)
    except FetchError as error:
        if error.details.get("error") not in {
            "invalid_grant",
            "invalid_client",
            "unauthorized_client",
            "access_denied",
        }:
            raise
        raise FetchError("LOGIN_EXPIRED", f"the token is not renewed: {error.message}", place=error.place) from error


def _refresh(token_url: str, client: ClientIdentity, refresh_token: str) -> Exchange[Tokens]:
    fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    if client.secret is None:
        fields["client_id"] = client.client_id
    return decode_tokens((yield _form(token_url, encode_form(fields), client)), _secrets(client, refresh_token))


def revoke(grant: Grant, access_token: str) -> Exchange[bool]:
    """Revoke the refresh token, or the access token where there is none; return whether the server has done it.

    Spec: RFC 7009 §2.
    """
    if grant.revocation_url is None:
        return False
    token, hint = grant.refresh_token or access_token, "refresh_token" if grant.refresh_token else "access_token"
    client = identity_of(grant)
    fields = {"token": token, "token_type_hint": hint}
    if client.secret is None:
        fields["client_id"] = client.client_id
    response = yield _form(grant.revocation_url, encode_form(fields), client)
    return response.status == _OK


def identity_of(grant: Grant) -> ClientIdentity:
    """Return who got ``grant``."""
    from skillwire.protocols.oauth.messages import ClientIdentity  # noqa: PLC0415  # annotations alone need it else

    return ClientIdentity(grant.client_id, grant.client_secret, grant.sends_secret_in_body)


def encode_form(fields: dict[str, str]) -> str:
    """Return ``fields`` as ``application/x-www-form-urlencoded``."""
    from urllib.parse import urlencode  # noqa: PLC0415  # costs more to import than a request; most need none

    return urlencode(fields)


def _form(url: str, body: str, client: ClientIdentity) -> HttpRequest:
    """Return a POST of ``body`` as ``client``. Spec: RFC 6749 §2.3.1."""
    headers = {**_JSON, "Content-Type": "application/x-www-form-urlencoded"}
    if client.secret is not None and client.sends_secret_in_body:
        body = f"{body}&{encode_form({'client_id': client.client_id, 'client_secret': client.secret})}"
    elif client.secret is not None:
        import base64  # noqa: PLC0415  # most clients have no secret
        from urllib.parse import quote_plus  # noqa: PLC0415  # as above

        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret)}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return HttpRequest(url, "POST", headers, body.encode(), max_bytes=limits.OAUTH_BYTES)


def _secrets(client: ClientIdentity, *others: str) -> list[str]:
    return [secret for secret in (client.secret, *others) if secret]
