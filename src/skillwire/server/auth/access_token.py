"""Decodes access tokens that are JWTs, verifies their signature and validates their claims, without IO.

Order matters: size and form first, then the header, which only chooses among keys that we know already; then the
signature; then the claims. Nothing in a token is believed before its signature is, and what a header says of keys
elsewhere (``jku``, ``jwk``, ``x5u``, ``x5c``) is never looked at. Spec: RFC 9068 §4, RFC 7515, RFC 8725.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.server.auth.issuer import ALGORITHMS, VerifyingKey, from_base64url
from skillwire.server.problems import refused
from skillwire.trust.guarded_json import load_json

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750 §2.1
_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_TYPED: Final = frozenset({"at+jwt", "application/at+jwt"})
_UNTYPED: Final = frozenset({"jwt", "application/jwt"})
_NAME_LENGTH: Final = 255  # RFC 9068 refers to OpenID Connect §2, which bounds a subject so


class UnverifiedToken(NamedTuple):
    """The parts of a token that is not verified yet."""

    algorithm: str
    key_id: str | None
    signed: bytes
    signature: bytes
    payload: bytes


class AccessClaims(NamedTuple):
    """What a good token says: who, its scopes, and when it ends. ``subject`` is None in a client's own token."""

    subject: str | None
    client_id: str | None
    scopes: frozenset[str]
    expires: float | None


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token has to say: by whom it is and for whom; whether one without a type of its own will do."""

    issuer: str
    audiences: frozenset[str]
    allow_untyped: bool = False


def check_form(token: str) -> None:
    """Check that this can be a token at all. Raises TrustError (``AUTH_REQUIRED``)."""
    if len(token) > limits.BEARER_TOKEN_BYTES:
        raise refused(f"the access token has more than {limits.BEARER_TOKEN_BYTES} bytes", "malformed")
    if not _TOKEN.fullmatch(token):
        raise refused("this is no access token", "malformed")


def is_jwt(token: str) -> bool:
    """Whether a token has the form of a signed JWT."""
    return _COMPACT.fullmatch(token) is not None


def decode_token(token: str, *, allow_untyped: bool) -> UnverifiedToken:
    """Return the parts of a JWT with an accepted header. Raises TrustError (``AUTH_REQUIRED``). Trust: untrusted."""
    encoded_header, encoded_payload, encoded_signature = token.split(".")
    header = _object(_decode(encoded_header))
    if "crit" in header or "b64" in header:
        raise refused("the access token demands extensions that are not known here", "malformed")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise refused("the access token is not signed by an algorithm that is accepted", "algorithm")
    _check_type(header, allow_untyped=allow_untyped)
    key_id = header.get("kid")
    if not isinstance(key_id, str | None):
        raise refused("the access token names its key in a way that is not understood", "malformed")
    signed = f"{encoded_header}.{encoded_payload}".encode("ascii")
    return UnverifiedToken(algorithm, key_id, signed, _decode(encoded_signature), _decode(encoded_payload))


def verify(token: UnverifiedToken, key: VerifyingKey, rules: TokenRules, now: float) -> AccessClaims:
    """Return the verified claims of a token. Raises TrustError (``AUTH_REQUIRED``) with a reason."""
    if not key.verifies(token.signed, token.signature):
        raise refused("the access token's signature is wrong", "signature")
    return read_claims(token, rules, now)


def read_claims(token: UnverifiedToken, rules: TokenRules, now: float) -> AccessClaims:
    """Return the checked claims of a token whose signature the caller verifies. Raises as :func:`verify`."""
    claims = decode_payload(token)
    if "exp" not in claims or "iss" not in claims:
        raise refused("the access token does not say by whom it is, or when it ends", "malformed")
    return validate_claims(claims, rules, now)


def decode_payload(token: UnverifiedToken) -> dict[str, Any]:
    """Return the claims of a token; they are unverified until :func:`verify` returns. Raises as that does."""
    return _object(token.payload)


def validate_claims(claims: dict[str, Any], rules: TokenRules, now: float) -> AccessClaims:
    """Return checked claims of a JWT, or of an issuer's answer. Raises TrustError (``AUTH_REQUIRED``) with a reason."""
    if claims.get("iss", rules.issuer) != rules.issuer:
        raise refused("the access token is by another issuer", "issuer")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(one, str) and one in rules.audiences for one in named):
        raise refused("the access token is for another audience", "audience")
    expires = _time_claim(claims, "exp")
    if expires is not None and now >= expires + limits.TOKEN_LEEWAY_SECONDS:
        raise refused("the access token has expired", "expired")
    for claim in ("nbf", "iat"):
        begins = _time_claim(claims, claim)
        if begins is not None and now < begins - limits.TOKEN_LEEWAY_SECONDS:
            raise refused("the access token is of the future; compare the clocks", "early")
    subject, client_id = _name_claim(claims, "sub"), _name_claim(claims, "client_id")
    if subject is None and client_id is None:
        raise refused("the access token does not say whose it is", "malformed")
    if subject == client_id:  # RFC 9068 §2.2: the client acts for itself, and is no person of that name
        subject = None
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise refused("the access token's scope is no text", "malformed")
    scopes = scope.split(" ")
    if len(scopes) > limits.TOKEN_SCOPES:
        raise refused(f"the access token has more than {limits.TOKEN_SCOPES} scopes", "malformed")
    return AccessClaims(subject, client_id, frozenset(filter(None, scopes)), expires)


def _check_type(header: dict[str, Any], *, allow_untyped: bool) -> None:
    if "cty" in header:
        raise refused("the access token holds another token", "type")
    kind = header.get("typ")
    if isinstance(kind, str):
        kind = kind.lower()
        if kind in _TYPED or (allow_untyped and kind in _UNTYPED):
            return
    elif kind is None and allow_untyped:
        return
    raise refused("the token does not say that it is an access token", "type")


def _decode(part: str) -> bytes:
    try:
        return from_base64url(part)
    except ValueError:
        raise refused("a part of the access token is not Base64", "malformed") from None


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = load_json(data, max_bytes=limits.BEARER_TOKEN_BYTES, source="access token")
    except DecodeError:  # its message could quote the token
        document = None
    if not isinstance(document, dict):
        raise refused("a part of the access token is not a JSON object", "malformed") from None
    return document


def _time_claim(claims: dict[str, Any], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refused(f"the access token's {claim} is no time", "malformed")
    return float(value)


def _name_claim(claims: dict[str, Any], claim: str) -> str | None:
    value = claims.get(claim)
    if value is None:
        return None
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= _NAME_LENGTH:
        raise refused(f"the access token's {claim} is no short name", "malformed")
    return value
