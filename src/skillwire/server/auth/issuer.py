"""The keys of an authorization server: fetched, cached, and read as a JSON Web Key Set.

The issuer may be wrong or compromised, so a set is bounded, only the public members of a key are read, and unusable
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

T = TypeVar("T")

_OK: Final = 200
_OPENID: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"


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
_RSA_EXPONENT_BITS: Final = 33  # larger ones cost time and are unused
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
        return int.from_bytes(from_base64url(text), "big")
    except ValueError:  # of a length that nothing encodes to
        return 0


def from_base64url(text: str) -> bytes:
    """Return the bytes of Base64url without padding. Raises ValueError."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


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
        await asyncio.shield(self._flight)  # a cancelled caller cancels no other
        return None

    async def _fetch(self) -> None:
        self._tried = self._monotonic()
        try:
            keys = await ask_issuer(self._driver, self._issuer, fetch_keys(self._issuer, self._jwks_url))
        except SkillwireError as error:  # raised by _usable and find when the kept keys do not suffice
            self._failure = error
        else:
            self._former, self._keys = self._keys, keys
            self._failure, self._fetched = None, self._monotonic()
        finally:
            self._flight = None


async def ask_issuer(driver: Driver, url: str, exchange: Flow[T]) -> T:
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
    body = yield from _get_document(jwks_url)
    keys = read_key_set(body, jwks_url)
    if not len(keys):
        raise unavailable("it has no key that can be used here", jwks_url)
    return keys


def fetch_metadata(issuer: str) -> Flow[dict[str, object]]:
    """Fetch an issuer's metadata, at OpenID Connect's path and then at OAuth's. Raises as :func:`fetch_keys`."""
    url = parse_url(issuer)
    origin, path = str(url.origin), url.path.rstrip("/")
    try:
        body = yield from _get_document(f"{origin}{path}{_OPENID}")
    except FetchError as error:
        if error.code != "ISSUER_UNAVAILABLE":
            raise
        body = yield from _get_document(f"{origin}{_OAUTH}{path}")
    metadata = load_json(body, max_bytes=limits.JWKS_BYTES, source=issuer)
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer:
        raise unavailable("its metadata is that of another issuer", issuer)
    return metadata


def _get_document(url: str) -> Flow[bytes]:
    headers, most = {"Accept": "application/json"}, limits.JWKS_BYTES
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=most, timeout=limits.ISSUER_SECONDS))
    if response.status != _OK:
        raise unavailable(f"answered {response.status}", url)
    return response.body
