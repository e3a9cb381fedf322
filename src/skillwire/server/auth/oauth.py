"""OAuth 2.0 and OpenID Connect: the principal of a bearer token, and people who sign in at the issuer.

A token in the form of a JWT is verified here (:mod:`~skillwire.server.auth.access_token`); the issuer is asked about
others, if this server has credentials. The form alone decides, so a refused JWT gets no second chance.

A valid opaque token is not asked about again for a minute, which delays its revocation so long; a refused one for ten
seconds. Answers are kept under a hash of the token. Few requests run at once and few wait, since anonymous clients can
make up tokens. Only servers with a table ``[oauth2]`` import this module, which loads joserfc and cryptography.

People sign in by the authorization code flow. The state binds the issuer's answer to the browser that asked, the nonce
binds the ID token to the request, and PKCE binds the code to this server; a signed cookie carries the three
(:mod:`skillwire.server.console_request`). An answer that names another issuer than the one that was asked is refused
(RFC 9207), and so is a token by another issuer or for another client. Only the ID token is read: it comes from the
token endpoint, and its signature is verified nevertheless.

Trust: tokens, browsers and the issuer are untrusted; errors and logs contain neither codes nor tokens.
Spec: SSP §7.2.2; RFC 6750, 7662, 9068; OpenID Connect Core §3.1.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlencode

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.model.access import Principal
from skillwire.model.package import is_account
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.client import ask_for_code, check_endpoint, read_answer, redeem_code
from skillwire.protocols.oauth.client import fetch_metadata as fetch_server_metadata
from skillwire.protocols.oauth.messages import AuthorizationRequest, ClientIdentity, ServerMetadata
from skillwire.registry.accounts import Person
from skillwire.server.auth.access_token import (
    AccessClaims,
    TokenRules,
    check_form,
    decode_payload,
    decode_token,
    is_jwt,
    read_claims,
    validate_claims,
    verify,
)
from skillwire.server.auth.issuer import Driver, IssuerKeys, ask_issuer, fetch_metadata
from skillwire.server.configuration import MCP_PATH, Credentials, Grants, OAuth2Settings
from skillwire.server.problems import refused, unavailable
from skillwire.trust.address import AddressPolicy
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import Flow, HttpRequest

_OK: Final = 200


def audiences_of(audience: str, base_url: str) -> frozenset[str]:
    """Return every ``aud`` that names this server: ``audience``, and where it or ``base_url`` is a URL, the resources.

    A URL of an origin is the same with a final slash and without (RFC 3986 §6.2.3).
    """
    urls = {url.rstrip("/") for url in (audience, base_url) if "://" in url}
    return frozenset({audience, *(f"{url}{end}" for url in urls for end in ("", "/", MCP_PATH))})


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
            answer = await asyncio.shield(flight)  # a cancelled caller cancels no other
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
            return  # the waiting callers get the error
        self._answers.pop(name, None)
        self._answers[name] = flight.result()
        if len(self._answers) > limits.INTROSPECTIONS_KEPT:
            self._answers.popitem(last=False)

    async def _ask(self, token: str) -> _Answer:
        async with self._turn:
            claims = await ask_issuer(self._driver, self._rules.issuer, self._introspect(token))
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
        # A client may choose an ID equal to a user's subject. An issuer's URL has no query.
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


_SCOPE: Final = "openid profile"
#: Claims that may propose the name of an account, best first.
_NAMES: Final = ("preferred_username", "nickname", "email", "sub")
_ACCOUNT_LENGTH: Final = 64
#: Claims that list groups of a person; neither is registered, and issuers use both.
_GROUPS: Final = ("groups", "roles")


class SignedIn(NamedTuple):
    """A person authenticated by the issuer, a name for a first account or an empty text, and groups."""

    person: Person
    proposed: str
    groups: frozenset[str] = frozenset()


class OidcSignIn:
    """Signs people in at the issuer of the configuration; ``addresses`` is the policy that ``driver`` applies."""

    def __init__(
        self,
        settings: OAuth2Settings,
        credentials: Credentials,
        driver: Driver,
        addresses: AddressPolicy,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.issuer = settings.issuer
        self.makes_accounts = settings.sign_in == "anyone"
        self._credentials = credentials
        self._driver = driver
        self._addresses = addresses
        self._clock = clock
        self._monotonic = monotonic
        self._keys = IssuerKeys(driver, settings.issuer, settings.jwks_url, monotonic)
        self._server: tuple[float, ServerMetadata] | None = None

    async def begin(self, redirect_url: str) -> tuple[str, dict[str, str]]:
        """Return where the browser goes, and what its cookie carries. Raises SkillwireError."""
        server, nonce = await self._metadata(), secrets.token_urlsafe(32)
        if server.authorization_url is None:
            raise unavailable("its metadata names no authorization_endpoint", self.issuer)
        asked = ask_for_code(server, self._credentials.client_id, redirect_url, _SCOPE, nonce=nonce)
        carried = {"state": asked.state, "verifier": asked.verifier, "nonce": nonce, "redirect_url": redirect_url}
        return asked.url, carried

    async def finish(self, target: str, carried: Mapping[str, str]) -> SignedIn:
        """Return the person of the issuer's answer ``target``, a path and query, to what the cookie ``carried``.

        Raises SkillwireError: the answer is not to this request, or the issuer or its token is not good.
        """
        server = await self._metadata()
        asked = AuthorizationRequest("", carried["state"], carried["verifier"], carried["redirect_url"], server)
        code = read_answer(target, asked)
        methods = server.secret_methods
        client = ClientIdentity(*self._credentials, bool(methods) and "client_secret_basic" not in methods)
        tokens = await ask_issuer(self._driver, server.token_url, redeem_code(asked, code, client))
        return await self._verify(tokens.id_token or "", carried["nonce"])

    async def close(self) -> None:
        """End the requests that are under way."""
        await self._keys.close()

    async def _metadata(self) -> ServerMetadata:
        now = self._monotonic()
        if self._server is None or now - self._server[0] > limits.JWKS_FRESH_SECONDS:
            found = await ask_issuer(self._driver, self.issuer, fetch_server_metadata(self.issuer))
            if found is None:
                raise unavailable("it publishes no metadata", self.issuer)
            for url in (found.token_url, found.authorization_url):
                if url is not None:
                    check_endpoint(url, self._addresses)
            self._server = now, found
        return self._server[1]

    async def _verify(self, id_token: str, nonce: str) -> SignedIn:
        check_form(id_token)
        if not is_jwt(id_token):
            raise refused("the ID token is no JWT", "malformed")
        client_id = self._credentials.client_id
        parts = decode_token(id_token, allow_untyped=True)
        key = await self._keys.find(parts.key_id, parts.algorithm)
        claims = verify(parts, key, TokenRules(self.issuer, frozenset({client_id})), self._clock())
        document = decode_payload(parts)
        if not hmac.compare_digest(str(document.get("nonce", "")).encode(), nonce.encode()):
            raise refused("the ID token is not of this sign-in", "nonce")
        audience = document["aud"]
        is_shared = isinstance(audience, list) and len(audience) > 1
        if document.get("azp", None if is_shared else client_id) != client_id:
            raise refused("the ID token is for another client", "audience")
        if claims.subject is None or claims.expires is None:
            raise refused("the ID token does not say whose it is", "malformed")
        names = (_account_form(document.get(claim)) for claim in _NAMES)
        listed = [one for claim in _GROUPS if isinstance(groups := document.get(claim), list) for one in groups]
        groups = frozenset(one for one in listed if isinstance(one, str))
        return SignedIn(Person(self.issuer, claims.subject), next(filter(None, names), ""), groups)


def _account_form(claim: object) -> str:
    """Return an account's name that is like a claim; empty where there is none."""
    text = claim.partition("@")[0].lower()[:_ACCOUNT_LENGTH] if isinstance(claim, str) else ""
    name = re.sub(r"[^a-z0-9._-]+", "-", text).strip("._-")
    return name if is_account(name) else ""
