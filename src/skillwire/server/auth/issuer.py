"""The authorization server, asked over the network: where its endpoints are, and which keys it signs with.

Keys are used for ten minutes and then asked for again. While the issuer is down its last keys go on being used, for a
day at most. A token that names an unknown key makes us ask once more, since the issuer may have changed its keys; but
however many such tokens strangers send, it is asked twice a minute at most, by one request at a time that all wait for.

Every connection goes through the address policy. The issuer and the URLs of the configuration are *named*, as the
operator wrote them; a ``jwks_uri`` that the issuer's metadata names is the issuer's word, and may lead to public
addresses only. Spec: RFC 8414 §3, OpenID Connect Discovery §4.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError
from skillwire.model.url import parse_url
from skillwire.server.auth.key_set import read_key_set
from skillwire.server.auth.refusals import refused, unavailable
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.server.auth.key_set import KeySet, VerifyingKey
    from skillwire.wire.exchange import Exchange

T = TypeVar("T")

_OK: Final = 200
_OPENID: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"


class Driver(Protocol):
    """Drives exchanges, as :class:`skillwire.adapters.http.asynchronous.AsyncDriver` does."""

    async def run(self, exchange: Exchange[T]) -> T:
        """Drive ``exchange`` to its end and return its result."""


class IssuerKeys:
    """The keys of one issuer, kept for a while.

    Args:
        driver: of the requests; its policy names what the configuration names.
        issuer: its identifier, a URL.
        jwks_url: of its keys; None to find it in the issuer's metadata.
        monotonic: seconds of a clock that never runs backwards.
    """

    def __init__(self, driver: Driver, issuer: str, jwks_url: str | None, monotonic: Callable[[], float]) -> None:
        self._driver = driver
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._monotonic = monotonic
        self._keys: KeySet | None = None
        self._fetched = 0.0
        self._tried: float | None = None
        self._failure: SkillwireError | None = None
        self._flight: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None, algorithm: str) -> VerifyingKey:
        """Return the issuer's key of this name for this algorithm.

        Raises:
            TrustError: ``AUTH_REQUIRED`` when the issuer has no such key.
            FetchError: ``ISSUER_UNAVAILABLE`` when the issuer cannot be asked.

        Trust: the name is a stranger's.
        """
        if self._keys is None or self._age() > limits.JWKS_FRESH_SECONDS:
            await self._refresh()
        key = self._usable().find(key_id, algorithm)
        if key is None:
            await self._refresh()
            key = self._usable().find(key_id, algorithm)
        if key is not None:
            return key
        if self._failure is not None:
            raise unavailable("its keys cannot be had, so the token can be neither taken nor refused", self._issuer)
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

    async def _refresh(self) -> None:
        """Ask for the keys, unless that was done a moment ago; all who want it wait for one request."""
        if self._flight is None:
            if self._tried is not None and self._monotonic() - self._tried < limits.ISSUER_RETRY_SECONDS:
                return
            self._flight = asyncio.create_task(self._fetch())
        await asyncio.shield(self._flight)  # who stops waiting stops nobody else

    async def _fetch(self) -> None:
        self._tried = self._monotonic()
        try:
            self._keys = await ask(self._driver, self._issuer, fetch_keys(self._issuer, self._jwks_url))
        except SkillwireError as error:  # told to those whom the kept keys cannot help, by _usable and find
            self._failure = error
        else:
            self._failure, self._fetched = None, self._monotonic()
        finally:
            self._flight = None


async def ask(driver: Driver, url: str, exchange: Exchange[T]) -> T:
    """Drive an exchange with the authorization server.

    Raises:
        FetchError: ``ISSUER_UNAVAILABLE``, whatever the reason. The caller of a skill reads its message, so that names
            the reason's code alone; the reason itself, which may name addresses, is the error's cause.
    """
    try:
        async with asyncio.timeout(2 * limits.ISSUER_SECONDS):
            return await driver.run(exchange)
    except TimeoutError as error:
        raise unavailable(f"no answer within {2 * limits.ISSUER_SECONDS} s", url) from error
    except SkillwireError as error:
        if error.code == "ISSUER_UNAVAILABLE":
            raise
        raise unavailable(f"it could not be asked: {error.code}", url) from error


def fetch_keys(issuer: str, jwks_url: str | None) -> Exchange[KeySet]:
    """Ask for the keys of an issuer.

    Raises:
        FetchError: ``ISSUER_UNAVAILABLE``; what the driver raises.
        DecodeError, ValidationError, TrustError: from the answer.
    """
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


def fetch_metadata(issuer: str) -> Exchange[dict[str, object]]:
    """Ask an issuer for its metadata, at OpenID Connect's path and then at OAuth's.

    Raises:
        FetchError: ``ISSUER_UNAVAILABLE``; what the driver raises.
        DecodeError: from the answer.
    """
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


def _get(url: str, max_bytes: int) -> Exchange[bytes]:
    headers = {"Accept": "application/json"}
    response = yield from fetch(HttpRequest(url, headers=headers, max_bytes=max_bytes, timeout=limits.ISSUER_SECONDS))
    if response.status != _OK:
        raise unavailable(f"answered {response.status}", url)
    return response.body
