"""OAuth 2.0 bearer tokens: who presents one, and what it opens.

A token with the form of a JWT is verified here, with the issuer's keys (:mod:`~skillwire.server.auth.access_token`);
any other is asked about (:mod:`~skillwire.server.auth.introspection`), if this server has credentials for that. Which
of the two is decided by the token's form alone, so a JWT that is refused here gets no second chance there.

This module loads joserfc and cryptography: a server without a table ``[oauth2]`` has no need to import it.
Spec: SSP §7.2.2; RFC 6750, RFC 9068, RFC 7662.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from skillwire.model.access import Principal
from skillwire.model.url import parse_url
from skillwire.server.auth.access_token import TokenRules, check_form, is_jwt, take_apart, verify
from skillwire.server.auth.introspection import Introspection
from skillwire.server.auth.issuer import IssuerKeys
from skillwire.server.auth.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.server.auth.access_token import AccessClaims
    from skillwire.server.auth.configuration import OAuth2Settings
    from skillwire.server.auth.files import Credentials
    from skillwire.server.auth.grants import Grants
    from skillwire.server.auth.issuer import Driver
    from skillwire.trust.address import AddressPolicy


class BearerTokens:
    """Recognises who presents an access token. To be used in one event loop, and closed.

    Args:
        settings: the table ``[oauth2]``.
        grants: what the publisher opens to whom.
        driver: of the requests to the issuer; its policy comes from :func:`issuer_policy`.
        credentials: ours, to ask about opaque tokens; None to refuse those.
        clock: seconds since the epoch.
        monotonic: seconds of a clock that never runs backwards.
    """

    def __init__(
        self,
        settings: OAuth2Settings,
        grants: Grants,
        driver: Driver,
        *,
        credentials: Credentials | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = TokenRules(settings.issuer, settings.audience, settings.allow_untyped)
        self._grants = grants
        self._clock = clock
        self._keys = IssuerKeys(driver, settings.issuer, settings.jwks_url, monotonic)
        self._introspection = None
        if credentials is not None:
            url = settings.introspection_url
            self._introspection = Introspection(driver, self._rules, credentials, url, clock=clock, monotonic=monotonic)

    async def recognise(self, token: str) -> Principal:
        """Return who presents this access token.

        Args:
            token: what follows ``Bearer`` in ``Authorization``.

        Raises:
            TrustError: ``AUTH_REQUIRED``, with the ``reason`` in its details.
            FetchError: ``ISSUER_UNAVAILABLE`` when the issuer cannot be asked.

        Trust: the token is a stranger's. No part of it is in an error, a log or a cache.
        """
        check_form(token)
        if is_jwt(token):
            claims = await self._verify(token)
        elif self._introspection is not None:
            claims = await self._introspection.verify(token)
        else:
            raise refused("this server accepts access tokens that are JWTs only", "malformed")
        who = claims.subject if claims.subject is not None else claims.client_id
        return Principal(f"{self._rules.issuer}#{who}", self._grants.of(claims), claims.scopes)

    async def close(self) -> None:
        """End the requests that are under way; the driver is its owner's to close."""
        await self._keys.close()
        if self._introspection is not None:
            await self._introspection.close()

    async def _verify(self, token: str) -> AccessClaims:
        parts = take_apart(token, allow_untyped=self._rules.allow_untyped)
        key = await self._keys.find(parts.key_id, parts.algorithm)
        return verify(parts, key, self._rules, self._clock())


def issuer_policy(policy: AddressPolicy, settings: OAuth2Settings) -> AddressPolicy:
    """Return ``policy`` with the addresses named that the operator wrote into the configuration, and no others."""
    for url in (settings.issuer, settings.jwks_url, settings.introspection_url):
        if url is not None:
            policy = policy.naming(parse_url(url))
    return policy
