"""Access tokens that are JWTs: the keys of their issuer, and what verifies them.

Order matters: size and form first, then the header, which only chooses among keys that we know already; then the
signature; then the claims. Nothing in a token is believed before its signature is, and what a header says of keys
elsewhere (``jku``, ``jwk``, ``x5u``, ``x5c``) is never looked at. Spec: RFC 9068 §4, RFC 7515, RFC 8725.

The issuer may be wrong or compromised, so a key set is bounded, only the public members of a key are read, and unusable
keys are skipped (RFC 7517 §5). Two different keys under one name for one algorithm name nothing. An algorithm belongs
to a kind of key, so a token cannot use an RSA key as an HMAC secret (RFC 8725 §3.1); joserfc does the arithmetic.

Keys are fresh for ten minutes; while the issuer is down the last ones serve for a day at most. A token with an unknown
key causes one more request, at most twice a minute, which all callers share. The operator's URLs are *named* for the
address policy; a ``jwks_uri`` of the issuer's metadata may lead to public addresses only. Spec: RFC 8414 §3.
"""

from __future__ import annotations

import asyncio
import base64
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import JWSRegistry

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SkillwireError, SourceLocation, in_seconds
from skillwire.model.url import parse_url
from skillwire.server.problems import refused, unavailable
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import Flow, HttpRequest
from skillwire.wire.fetch import fetch


class _Kind(NamedTuple):
    """A kind of key: its public members, and the algorithms of JWS that it serves; the name → that of joserfc."""

    members: tuple[str, ...]
    algorithms: dict[str, str]


_KINDS: Final[dict[tuple[str, str | None], _Kind]] = {
    ("RSA", None): _Kind(("kty", "n", "e"), {"RS256": "RS256", "PS256": "PS256"}),
    ("EC", "P-256"): _Kind(("kty", "crv", "x", "y"), {"ES256": "ES256"}),
    ("OKP", "Ed25519"): _Kind(("kty", "crv", "x"), {"EdDSA": "Ed25519", "Ed25519": "Ed25519"}),
}
#: The algorithms that are accepted; ``none`` and those with a shared secret never are.
ALGORITHMS: Final = frozenset(name for kind in _KINDS.values() for name in kind.algorithms)
_RSA_BITS: Final = range(2048, 8192 + 1)
_RSA_EXPONENT_BITS: Final = 33  # larger ones cost time and are used by nobody
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]{1,2048}", re.ASCII)


class VerifyingKey:
    """One public key for one algorithm."""

    def __init__(self, key: Key, algorithm: str) -> None:
        self._key = key
        self._algorithm = algorithm

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's for ``signed``. Trust: both are untrusted."""
        return JWSRegistry.algorithms[self._algorithm].verify(signed, signature, self._key)


class KeySet:
    """The usable keys of one issuer, from rows of key ID (None without one), algorithm, key and its members."""

    def __init__(self, rows: list[tuple[str | None, str, VerifyingKey, object]]) -> None:
        self._keys: dict[tuple[str | None, str], VerifyingKey | None] = {}
        members: dict[tuple[str | None, str], object] = {}
        for key_id, algorithm, key, facts in rows:
            name = (key_id, algorithm)
            is_other = name in members and members[name] != facts
            self._keys[name] = None if is_other else self._keys.get(name, key)
            members.setdefault(name, facts)
        for_algorithm: dict[str, list[VerifyingKey | None]] = {}
        for (_, algorithm), known in self._keys.items():
            for_algorithm.setdefault(algorithm, []).append(known)
        self._only = {algorithm: found[0] for algorithm, found in for_algorithm.items() if len(found) == 1}

    def find(self, key_id: str | None, algorithm: str) -> VerifyingKey | None:
        """Return the key of this name for this algorithm; without a name, the algorithm's only key."""
        return self._only.get(algorithm) if key_id is None else self._keys.get((key_id, algorithm))

    def __len__(self) -> int:
        return sum(key is not None for key in self._keys.values())


def read_key_set(data: bytes, source: str) -> KeySet:
    """Return the usable keys of a JSON Web Key Set. Raises DecodeError. Trust: ``data`` is the issuer's."""
    document = load_json(data, max_bytes=limits.JWKS_BYTES, source=source)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise DecodeError("JSON_SYNTAX", "this is no JSON Web Key Set", place=SourceLocation(source))
    if len(keys) > limits.JWKS_KEYS:
        message = f"{len(keys)} keys, at most {limits.JWKS_KEYS} are read"
        raise DecodeError("LIMIT_ENTRIES", message, place=SourceLocation(source))
    return KeySet([row for key in keys if isinstance(key, dict) for row in _rows(key)])


def _rows(jwk: dict[str, Any]) -> list[tuple[str | None, str, VerifyingKey, object]]:
    kty, curve = jwk.get("kty"), jwk.get("crv")
    kind = None
    if isinstance(kty, str) and (kty == "RSA" or isinstance(curve, str)):
        kind = _KINDS.get((kty, None if kty == "RSA" else curve))
    key_id = jwk.get("kid")
    if kind is None or not isinstance(key_id, str | None) or jwk.get("use") not in (None, "sig"):
        return []
    operations = jwk.get("key_ops")
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return []
    public = {member: value for member in kind.members if isinstance(value := jwk.get(member), str)}
    if len(public) < len(kind.members) or not _is_sound(public):
        return []
    try:
        key = JWKRegistry.import_key({**public})
    except (JoseError, ValueError):  # a point that is not on its curve, and the like: not a key that can be used
        return []
    stated = jwk.get("alg")
    only = kind.algorithms.get(stated) if isinstance(stated, str) else None
    names = {name: known for name, known in kind.algorithms.items() if stated is None or known == only}
    return [(key_id, name, VerifyingKey(key, known), public) for name, known in names.items()]


def _is_sound(public: dict[str, str]) -> bool:
    """Whether the numbers of a key are of a size that is safe and cheap."""
    if not all(_BASE64URL.fullmatch(value) for member, value in public.items() if member not in ("kty", "crv")):
        return False
    if public["kty"] != "RSA":
        return True
    modulus, exponent = _number(public["n"]), _number(public["e"])
    return modulus.bit_length() in _RSA_BITS and exponent % 2 == 1 and 1 < exponent < 2**_RSA_EXPONENT_BITS


def _number(text: str) -> int:
    try:
        return int.from_bytes(_from_base64url(text), "big")
    except ValueError:  # of a length that nothing encodes to
        return 0


def _from_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


T = TypeVar("T")

_OK: Final = 200
_OPENID: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"


class Driver(Protocol):
    """Drives exchanges, as :class:`skillwire.adapters.http.asynchronous.AsyncDriver` does."""

    async def run(self, exchange: Flow[T]) -> T:
        """Drive ``exchange`` to its end and return its result."""


class IssuerKeys:
    """The cached keys of one issuer; without a ``jwks_url`` its metadata names it."""

    def __init__(self, driver: Driver, issuer: str, jwks_url: str | None, monotonic: Callable[[], float]) -> None:
        self._driver = driver
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._monotonic = monotonic
        self._keys: KeySet | None = None
        self._former: KeySet | None = None
        self._fetched = 0.0
        self._tried: float | None = None
        self._failure: SkillwireError | None = None
        self._flight: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None, algorithm: str) -> VerifyingKey:
        """Return the issuer's key of this name and algorithm. Trust: the name is untrusted.

        Raises TrustError (``AUTH_REQUIRED``) for an unknown key, FetchError (``ISSUER_UNAVAILABLE``), also for a key
        that may be new while the issuer is not asked again.
        """
        wait: float | None = None
        if self._keys is None or self._age() > limits.JWKS_FRESH_SECONDS:
            await self._refresh()
            key = self._usable().find(key_id, algorithm)
        elif (key := self._usable().find(key_id, algorithm)) is None:
            wait = await self._refresh()
            key = self._usable().find(key_id, algorithm)
        if key is not None:
            return key
        if self._failure is not None:
            raise unavailable("its keys cannot be had, so the token can be neither taken nor refused", self._issuer)
        is_retired = self._former is not None and self._former.find(key_id, algorithm) is not None
        if wait is not None and not is_retired:
            seconds = max(1, math.ceil(wait))
            message = f"the access token's key may be new; the keys are asked for again in {seconds} s"
            raise unavailable(message, self._issuer, retry_after=seconds)
        raise refused("the issuer has no such key for the access token", "key")

    async def close(self) -> None:
        """End a request that is under way."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    def _age(self) -> float:
        return self._monotonic() - self._fetched

    def _usable(self) -> KeySet:
        if self._keys is None or self._age() > limits.JWKS_KEPT_SECONDS:
            why = f": {self._failure.message}" if self._failure else ""
            raise unavailable(f"its keys cannot be had{why}", self._issuer) from self._failure
        return self._keys

    async def _refresh(self) -> float | None:
        """Ask for the keys, one request for all who wait; soon after another, return the seconds to wait instead."""
        if self._flight is None:
            wait = 0.0 if self._tried is None else self._tried + limits.ISSUER_RETRY_SECONDS - self._monotonic()
            if wait > 0:
                return wait
            self._flight = asyncio.create_task(self._fetch())
        await asyncio.shield(self._flight)  # who stops waiting stops nobody else
        return None

    async def _fetch(self) -> None:
        self._tried = self._monotonic()
        try:
            keys = await ask(self._driver, self._issuer, fetch_keys(self._issuer, self._jwks_url))
        except SkillwireError as error:  # told to those whom the kept keys cannot help, by _usable and find
            self._failure = error
        else:
            self._former, self._keys = self._keys, keys
            self._failure, self._fetched = None, self._monotonic()
        finally:
            self._flight = None


async def ask(driver: Driver, url: str, exchange: Flow[T]) -> T:
    """Drive an exchange with the authorization server. Raises FetchError (``ISSUER_UNAVAILABLE``).

    Callers read its message, so it names the reason's code alone; the cause may name addresses.
    """
    try:
        async with asyncio.timeout(2 * limits.ISSUER_SECONDS):
            return await driver.run(exchange)
    except TimeoutError as error:
        raise unavailable(f"no answer within {in_seconds(2 * limits.ISSUER_SECONDS)}", url) from error
    except SkillwireError as error:
        if error.code == "ISSUER_UNAVAILABLE":
            raise
        raise unavailable(f"it could not be asked: {error.code}", url) from error


def fetch_keys(issuer: str, jwks_url: str | None) -> Flow[KeySet]:
    """Fetch the keys of an issuer. Raises FetchError (``ISSUER_UNAVAILABLE``), and the driver's and codec's errors."""
    if jwks_url is None:
        metadata = yield from fetch_metadata(issuer)
        found = metadata.get("jwks_uri")
        if not isinstance(found, str):
            raise unavailable("its metadata names no jwks_uri", issuer)
        jwks_url = found
    body = yield from _get(jwks_url, limits.JWKS_BYTES)
    keys = read_key_set(body, jwks_url)
    if not len(keys):
        raise unavailable("it has no key that can be used here", jwks_url)
    return keys


def fetch_metadata(issuer: str) -> Flow[dict[str, object]]:
    """Fetch an issuer's metadata, at OpenID Connect's path and then at OAuth's. Raises as :func:`fetch_keys`."""
    url = parse_url(issuer)
    origin, path = str(url.origin), url.path.rstrip("/")
    try:
        body = yield from _get(f"{origin}{path}{_OPENID}", limits.JWKS_BYTES)
    except FetchError as error:
        if error.code != "ISSUER_UNAVAILABLE":
            raise
        body = yield from _get(f"{origin}{_OAUTH}{path}", limits.JWKS_BYTES)
    metadata = load_json(body, max_bytes=limits.JWKS_BYTES, source=issuer)
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer:
        raise unavailable("its metadata is that of another issuer", issuer)
    return metadata


def _get(url: str, max_bytes: int) -> Flow[bytes]:
    headers = {"Accept": "application/json"}
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=max_bytes, timeout=limits.ISSUER_SECONDS))
    if response.status != _OK:
        raise unavailable(f"answered {response.status}", url)
    return response.body


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


def decode_token(token: str, *, allow_untyped: bool = False) -> UnverifiedToken:
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
    expires = _time(claims, "exp")
    if expires is not None and now >= expires + limits.TOKEN_LEEWAY_SECONDS:
        raise refused("the access token has expired", "expired")
    for claim in ("nbf", "iat"):
        begins = _time(claims, claim)
        if begins is not None and now < begins - limits.TOKEN_LEEWAY_SECONDS:
            raise refused("the access token is of the future; compare the clocks", "early")
    subject, client_id = _name(claims, "sub"), _name(claims, "client_id")
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
        return _from_base64url(part)
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


def _time(claims: dict[str, Any], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refused(f"the access token's {claim} is no time", "malformed")
    return float(value)


def _name(claims: dict[str, Any], claim: str) -> str | None:
    value = claims.get(claim)
    if value is None:
        return None
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= _NAME_LENGTH:
        raise refused(f"the access token's {claim} is no short name", "malformed")
    return value
