"""OAuth 2.0 bearer tokens: the principal of one, and the skills it opens. Spec: SSP §7.2.2; RFC 6750, 7662, 9068.

A token in the form of a JWT is verified here (:mod:`~skillwire.server.auth.access_token`); the issuer is asked about
others, if this server has credentials. The form alone decides, so a refused JWT gets no second chance.

A valid opaque token is not asked about again for a minute, which delays its revocation so long; a refused one for ten
seconds. Answers are kept under a hash of the token. Few requests run at once and few wait, since anonymous clients can
make up tokens. Only servers with a table ``[oauth2]`` import this module, which loads joserfc and cryptography.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.model.access import Principal
from skillwire.model.url import parse_url
from skillwire.server.auth.access_token import (
    AccessClaims,
    TokenRules,
    check_form,
    decode_token,
    is_jwt,
    read_claims,
    validate_claims,
    verify,
)
from skillwire.server.auth.challenges import audiences_of
from skillwire.server.auth.issuer import Driver, IssuerKeys, ask, fetch_metadata
from skillwire.server.problems import refused, unavailable
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import Flow, HttpRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.server.auth.grants import Grants
    from skillwire.server.configuration import Credentials, OAuth2Settings
    from skillwire.trust.address import AddressPolicy


_OK: Final = 200


class _Answer(NamedTuple):
    """What the issuer said: good claims or the refusal, and until when, by the monotonic clock, that stands."""

    claims: AccessClaims | None
    refusal: TrustError | None
    until: float


class Introspection:
    """Asks the issuer about opaque tokens; without a ``url`` its metadata names the endpoint."""

    def __init__(
        self,
        driver: Driver,
        rules: TokenRules,
        credentials: Credentials,
        url: str | None,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._driver = driver
        self._rules = rules
        self._credentials = credentials
        self._url = url
        self._clock = clock
        self._monotonic = monotonic
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._flights: dict[bytes, asyncio.Task[_Answer]] = {}
        self._turn = asyncio.Semaphore(limits.INTROSPECTIONS_AT_ONCE)

    async def verify(self, token: str, *, asks: bool = True) -> AccessClaims:
        """Return the claims of a valid token; unless ``asks``, an unknown one is refused.

        Trust: it is untrusted, and passed :func:`check_form`.
        Raises TrustError (``AUTH_REQUIRED``), FetchError (``ISSUER_UNAVAILABLE``).
        """
        name = hashlib.sha256(token.encode("ascii")).digest()
        answer = self._answers.get(name)
        if answer is None or self._monotonic() >= answer.until:
            if not asks:
                raise refused("the access token is not known here, and the issuer is not asked now", "unknown")
            flight = self._flights.get(name)
            if flight is None:
                if len(self._flights) >= limits.INTROSPECTIONS_AT_ONCE + limits.INTROSPECTIONS_WAITING:
                    message = "too many tokens are being asked about; try again in a moment"
                    raise unavailable(message, self._rules.issuer)
                flight = self._flights[name] = asyncio.create_task(self._ask(token))
                flight.add_done_callback(lambda done: self._landed(name, done))
            answer = await asyncio.shield(flight)  # who stops waiting stops nobody else
        if answer.claims is None:
            raise refused("the access token is not in force", "inactive") from answer.refusal
        expires = answer.claims.expires
        if expires is not None and self._clock() >= expires:
            raise refused("the access token has expired", "expired")
        return answer.claims

    async def close(self) -> None:
        """End the requests that are under way."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def _landed(self, name: bytes, flight: asyncio.Task[_Answer]) -> None:
        del self._flights[name]
        if flight.cancelled() or flight.exception() is not None:
            return  # those who wait are told
        self._answers.pop(name, None)
        self._answers[name] = flight.result()
        if len(self._answers) > limits.INTROSPECTIONS_KEPT:
            self._answers.popitem(last=False)

    async def _ask(self, token: str) -> _Answer:
        async with self._turn:
            claims = await ask(self._driver, self._rules.issuer, self._introspect(token))
        try:
            if claims.get("active") is not True or str(claims.get("token_type", "bearer")).lower() != "bearer":
                raise refused("the access token is not in force", "inactive")
            good = validate_claims(claims, self._rules, self._clock())
        except TrustError as refusal:
            return _Answer(None, refusal, self._monotonic() + limits.INTROSPECTION_REFUSED_SECONDS)
        return _Answer(good, None, self._monotonic() + limits.INTROSPECTION_SECONDS)

    def _introspect(self, token: str) -> Flow[dict[str, object]]:
        if self._url is None:
            metadata = yield from fetch_metadata(self._rules.issuer)
            found = metadata.get("introspection_endpoint")
            if not isinstance(found, str):
                raise unavailable("its metadata names no introspection_endpoint", self._rules.issuer)
            self._url = found
        request = HttpRequest(
            self._url,
            "POST",
            headers={
                "Accept": "application/json",
                "Authorization": self._credentials.header(),
                "Content-Type": "application/x-www-form-urlencoded",
            },
            body=urlencode({"token": token, "token_type_hint": "access_token"}).encode("ascii"),
            max_bytes=limits.INTROSPECTION_BYTES,
            timeout=limits.ISSUER_SECONDS,
        )
        response = yield request  # a redirect is not followed: it would carry the token elsewhere
        if response.status != _OK:
            raise unavailable(f"answered {response.status} when asked about a token", self._url)
        try:
            claims = load_json(response.body, max_bytes=limits.INTROSPECTION_BYTES, source=self._url)
        except SkillwireError:
            claims = None  # an excerpt of it could be a part of the token
        if not isinstance(claims, dict):
            raise unavailable("its answer about a token cannot be read", self._url)
        return claims


class BearerTokens:
    """Authenticates access tokens, in one event loop; opaque ones only with ``credentials``."""

    def __init__(
        self,
        settings: OAuth2Settings,
        grants: Grants,
        driver: Driver,
        *,
        credentials: Credentials | None = None,
        base_url: str = "",
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = TokenRules(settings.issuer, audiences_of(settings.audience, base_url), settings.allow_untyped)
        self._grants = grants
        self._clock = clock
        self._keys = IssuerKeys(driver, settings.issuer, settings.jwks_url, monotonic)
        self._introspection = None
        if credentials is not None:
            url = settings.introspection_url
            self._introspection = Introspection(driver, self._rules, credentials, url, clock=clock, monotonic=monotonic)

    async def recognise(self, token: str, *, asks: bool = True) -> Principal:
        """Return the principal of an access token; unless ``asks``, the issuer is not asked about an opaque one.

        Trust: untrusted; no error, log or cache contains a part of it.
        Raises TrustError (``AUTH_REQUIRED``) with a reason, FetchError (``ISSUER_UNAVAILABLE``).
        """
        check_form(token)
        if is_jwt(token):
            parts = decode_token(token, allow_untyped=self._rules.allow_untyped)
            try:
                key = await self._keys.find(parts.key_id, parts.algorithm)
            except FetchError as error:
                if "retry_after" in error.details:
                    read_claims(parts, self._rules, self._clock())  # raises for a token that no key would make good
                raise
            claims = verify(parts, key, self._rules, self._clock())
        elif self._introspection is not None:
            claims = await self._introspection.verify(token, asks=asks)
        else:
            raise refused("this server accepts access tokens that are JWTs only", "malformed")
        # A client may choose an ID that is somebody's subject. An issuer's URL has no query.
        who = f"?client_id={claims.client_id}" if claims.subject is None else f"#{claims.subject}"
        return Principal(f"{self._rules.issuer}{who}", self._grants.of(claims), claims.scopes)

    async def close(self) -> None:
        """End the requests that are under way; the driver is its owner's to close."""
        await self._keys.close()
        if self._introspection is not None:
            await self._introspection.close()


def issuer_policy(policy: AddressPolicy, settings: OAuth2Settings) -> AddressPolicy:
    """Return ``policy`` with the addresses named that the operator wrote into the configuration, and no others."""
    for url in (settings.issuer, settings.jwks_url, settings.introspection_url):
        if url is not None:
            policy = policy.naming(parse_url(url))
    return policy
