"""An authorization server's responses to values, and its error codes to ours.

The module is on the install path, where tokens may need renewal, so it uses only the standard library. Spec: RFC 6749
§4.1.2.1, §5; RFC 8414 §3.3; RFC 8628 §3.2, §3.5; RFC 9728 §3.3. Trust: responses are hostile; only ``DecodeError``,
``FetchError``, ``TrustError`` and ``ValidationError`` are raised, and no error shows a possible secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SourceLocation, TrustError
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.messages import DeviceCode, ProtectedResource, ServerMetadata, Tokens
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import HttpResponse
from skillwire.wire.fetch import expect_json

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
    fix = "Correct --scope, or leave it out." if theirs == "invalid_scope" else None
    return FetchError(ERRORS.get(theirs, "LOGIN_REFUSED"), message, place=place, fix=fix, details={"error": theirs})


_OK: Final = 200
_WITH_ERROR: Final = frozenset({400, 401, 403})
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_DEFAULT_INTERVAL: Final = 5.0
_LEAST_INTERVAL: Final = 1.0
_RESOURCE_METADATA: Final = re.compile(r'\bresource_metadata="([^"\\]{1,2048})"')


def decode_tokens(response: HttpResponse, secrets: Sequence[str] = ()) -> Tokens:
    """Return the tokens in the token endpoint's response; no message repeats one of the sent ``secrets``.

    Raises FetchError (:func:`refusal`), DecodeError (``LOGIN_ANSWER``), TrustError.
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
        _text(answer, "verification_uri_complete"),
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
        sends_issuer=answer.get("authorization_response_iss_parameter_supported") is True,
        scopes=_texts(answer, "scopes_supported"),
        secret_methods=_texts(answer, "token_endpoint_auth_methods_supported"),
    )


def decode_resource(response: HttpResponse, url: str) -> ProtectedResource:
    """Return the metadata of the resource at ``url``. Raises TrustError for another origin's, as the others do."""
    answer = _object(response)
    resource = _text(answer, "resource")
    if resource is None:
        raise DecodeError("LOGIN_ANSWER", "the metadata names no resource", place=SourceLocation(response.url))
    if parse_url(resource).origin != parse_url(url).origin:
        raise TrustError("LOGIN_STATE", "the metadata there is of another resource", place=SourceLocation(url))
    return ProtectedResource(resource, _texts(answer, "authorization_servers"), _texts(answer, "scopes_supported"))


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
