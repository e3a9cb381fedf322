"""Requests to an authorization server, its responses, and the authorization code flow.

A token request is sent once and follows no redirect, because it carries secrets for that endpoint alone; errors contain
none of it. The caller checks URLs with :func:`check_endpoint`, which requires https or a host that the user named, and
the address policy checks every connection. oauthlib builds the bodies of logins. Renewal and revocation are on the
install path, which is limited to the standard library; tests compare their bodies with oauthlib's. Secrets stay out of
``repr``, and so out of traces and logs.

The browser's authorization request has a ``state`` that the answer must repeat, and the hash of a secret (PKCE, S256)
that only the token endpoint receives. So another page cannot inject its own answer, and a program that reads the answer
cannot use it. A server that names itself must be the one that was asked, and a server that promised to name itself must
do so (RFC 9207). Every request names the ``resource`` that the token is for, if it is known. Spec: RFC 6749, 7009,
7636, 8252 §8, 8414, 8628, 8707, 9207, 9728. Trust: responses are hostile; decoding raises ``DecodeError``,
``FetchError`` and ``TrustError`` alone, and no error shows a possible secret.
"""

from __future__ import annotations

import base64
import hmac
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SourceLocation, TrustError, ValidationError
from skillwire.model.credential import TokenRenewal
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy, is_local_host
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, Sleep
from skillwire.wire.fetch import expect_json, fetch


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Our identity at an authorization server; ``sends_secret_in_body`` if it only supports ``client_secret_post``."""

    client_id: str
    secret: str | None = field(default=None, repr=False)
    sends_secret_in_body: bool = False


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """The metadata of an authorization server; ``issuer`` is None when only URLs are known. Spec: RFC 8414 §2.

    With ``says_issuer`` it promises to name itself in each answer (RFC 9207). ``secret_methods`` are of client
    authentication.
    """

    token_url: str
    issuer: str | None = None
    authorization_url: str | None = None
    device_url: str | None = None
    revocation_url: str | None = None
    says_issuer: bool = False
    scopes: tuple[str, ...] = ()
    secret_methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The metadata of a protected resource: the issuers that it accepts. Spec: RFC 9728 §2."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a token endpoint; ``expires_in`` in seconds. Spec: RFC 6749 §5.1."""

    access_token: str = field(repr=False)
    expires_in: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    scope: str | None = None
    id_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The codes of a login on another device; times in seconds. Spec: RFC 8628 §3.2."""

    device_code: str = field(repr=False)
    user_code: str
    verification_url: str
    expires_in: float
    interval: float


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """An authorization request for the browser; its answer repeats ``state``, the token endpoint gets ``verifier``."""

    url: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect_url: str
    server: ServerMetadata
    resource: str | None = None


#: Their code → ours. Every other one is LOGIN_REFUSED. Spec: RFC 6749 §4.1.2.1, §5.2; RFC 8628 §3.5.
ERRORS: Final[Mapping[str, str]] = {"access_denied": "LOGIN_DENIED", "expired_token": "LOGIN_TIMEOUT"}

_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,40}", re.ASCII)
_SHOWN: Final = 200


def refusal(answer: Mapping[str, Any], place: SourceLocation, secrets: Sequence[str] = ()) -> FetchError:
    """Return the error in ``answer``; ``details["error"]`` is the server's code.

    Trust: the texts are hostile. A description is bounded, shown without hidden characters, and dropped if it repeats
    one of ``secrets``.
    """
    code, description = answer.get("error"), answer.get("error_description")
    theirs = code if isinstance(code, str) and _CODE.fullmatch(code) and code not in secrets else "unknown"
    message = f"the authorization server answered {theirs}"
    if isinstance(description, str) and description and not any(secret in description for secret in secrets):
        message = f"{message}: {neutralise(description[:_SHOWN])}"
    return FetchError(ERRORS.get(theirs, "LOGIN_REFUSED"), message, place=place, details={"error": theirs})


_WITH_ERROR: Final = frozenset({400, 401, 403})
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_DEFAULT_INTERVAL: Final = 5.0
_LEAST_INTERVAL: Final = 1.0
_RESOURCE_METADATA: Final = re.compile(r'\bresource_metadata="([^"\\]{1,2048})"')


def decode_tokens(response: HttpResponse, secrets: Sequence[str] = ()) -> Tokens:
    """Return the tokens in the token endpoint's response; no message repeats one of the sent ``secrets``.

    Raises FetchError (:mod:`skillwire.protocols.oauth.client`), DecodeError (``LOGIN_ANSWER``), TrustError.
    """
    answer = _object(response, secrets)
    place = SourceLocation(response.url)
    kind = answer.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise DecodeError("LOGIN_ANSWER", "the answer holds no bearer token", place=place)
    access_token = _token(answer, "access_token", place)
    if access_token is None:
        raise DecodeError("LOGIN_ANSWER", "the answer holds no access token", place=place)
    seconds = _seconds(answer, "expires_in", place)
    scope = answer.get("scope")
    refresh_token = _token(answer, "refresh_token", place)
    granted = scope[:1024] if isinstance(scope, str) else None
    return Tokens(access_token, seconds, refresh_token, granted, _token(answer, "id_token", place))


def decode_device(response: HttpResponse, secrets: Sequence[str] = ()) -> DeviceCode:
    """Return the device authorization endpoint's response; raises as :func:`decode_tokens` does."""
    answer = _object(response, secrets)
    place = SourceLocation(response.url)
    device_code, user_code = _token(answer, "device_code", place), answer.get("user_code")
    # Some servers still write verification_url, as drafts of the text did.
    url = answer.get("verification_uri", answer.get("verification_url"))
    seconds = _seconds(answer, "expires_in", place)
    if device_code is None or not isinstance(user_code, str) or not isinstance(url, str) or seconds is None:
        raise DecodeError("LOGIN_ANSWER", "the answer lacks a code, an address or its time limit", place=place)
    interval = _seconds(answer, "interval", place)
    return DeviceCode(
        device_code,
        user_code[:64],
        url,
        min(seconds, float(limits.LOGIN_DEVICE_SECONDS)),
        _DEFAULT_INTERVAL if interval is None else max(interval, _LEAST_INTERVAL),
    )


def decode_metadata(response: HttpResponse, issuer: str) -> ServerMetadata:
    """Return the metadata of ``issuer``. Raises TrustError for another issuer's, and as :func:`decode_tokens`."""
    answer = _object(response)
    place = SourceLocation(response.url)
    if answer.get("issuer") != issuer:
        raise TrustError("LOGIN_STATE", f"the metadata there is not that of {issuer}", place=place)
    token_url = _text(answer, "token_endpoint")
    if token_url is None:
        raise DecodeError("LOGIN_ANSWER", "the metadata names no token endpoint", place=place)
    return ServerMetadata(
        token_url,
        issuer,
        _text(answer, "authorization_endpoint"),
        _text(answer, "device_authorization_endpoint"),
        _text(answer, "revocation_endpoint"),
        says_issuer=answer.get("authorization_response_iss_parameter_supported") is True,
        scopes=_texts(answer, "scopes_supported"),
        secret_methods=_texts(answer, "token_endpoint_auth_methods_supported"),
    )


def resource_metadata_url(response: HttpResponse) -> str | None:
    """Return the resource metadata URL in a 401. Spec: RFC 9728 §5.1."""
    found = _RESOURCE_METADATA.search(response.headers.get("www-authenticate", "")[:4096])
    return found[1] if found else None


def _object(response: HttpResponse, secrets: Sequence[str] = ()) -> dict[str, Any]:
    place = SourceLocation(response.url)
    if response.status // 100 == 3:  # noqa: PLR2004  # a redirect; what was sent is for this endpoint alone
        raise TrustError("REDIRECT_REFUSED", "an authorization server's endpoint redirects", place=place)
    if response.status != _OK and response.status not in _WITH_ERROR:
        raise FetchError("HTTP_STATUS", f"the authorization server answered {response.status}", place=place)
    expect_json(response)
    answer = load_json(response.body, max_bytes=limits.OAUTH_BYTES, source=response.url)
    if not isinstance(answer, dict):
        raise DecodeError("LOGIN_ANSWER", "the answer is not an object", place=place)
    if response.status in _WITH_ERROR or "error" in answer:
        raise refusal(answer, place, secrets)
    return answer


def _token(answer: dict[str, Any], key: str, place: SourceLocation) -> str | None:
    value = answer.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not _TOKEN.fullmatch(value) or len(value) > limits.OAUTH_TOKEN_LENGTH:
        raise DecodeError("LOGIN_ANSWER", f"{key} is not a token that a header field can hold", place=place)
    return value


def _seconds(answer: dict[str, Any], key: str, place: SourceLocation) -> float | None:
    value = answer.get(key)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):  # some servers quote the number
        value = int(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise DecodeError("LOGIN_ANSWER", f"{key} is not a number of seconds", place=place)
    return min(float(value), float(limits.OAUTH_TOKEN_SECONDS))


def _text(answer: dict[str, Any], key: str) -> str | None:
    value = answer.get(key)
    return value if isinstance(value, str) else None


def _texts(answer: dict[str, Any], key: str) -> tuple[str, ...]:
    value = answer.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


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
    answer = _object(response)
    resource = _text(answer, "resource")
    if resource is None:
        raise DecodeError("LOGIN_ANSWER", "the metadata names no resource", place=SourceLocation(response.url))
    if parse_url(resource).origin != parse_url(url).origin:
        raise TrustError("LOGIN_STATE", "the metadata there is of another resource", place=SourceLocation(url))
    return ProtectedResource(resource, _texts(answer, "authorization_servers"), _texts(answer, "scopes_supported"))


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
    parse_url(device.verification_url)  # a person will open it, so only http and https are allowed
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
        if server.says_issuer:
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
