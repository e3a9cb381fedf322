"""Signing people in with OpenID Connect: the authorization code flow, with PKCE, a state and a nonce.

The state binds the issuer's answer to the browser that asked, the nonce binds the ID token to the request, and PKCE
binds the code to this server; a signed cookie carries the three (:mod:`skillwire.server.sessions`). An answer that
names another issuer than the one that was asked is refused (RFC 9207), and so is a token by another issuer or for
another client. Only the ID token is read: it comes from the token endpoint, and its signature is verified nevertheless.

Trust: the browser and the issuer are untrusted; errors and logs contain neither codes nor tokens.
Spec: OpenID Connect Core §3.1.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.model.package import is_account
from skillwire.protocols.oauth.client import ask_for_code, check_endpoint, fetch_metadata, read_answer, redeem_code
from skillwire.protocols.oauth.messages import AuthorizationRequest, ClientIdentity
from skillwire.registry.accounts import Person
from skillwire.server.auth.access_token import TokenRules, check_form, decode_payload, decode_token, is_jwt, verify
from skillwire.server.auth.issuer import IssuerKeys, ask
from skillwire.server.problems import refused, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.protocols.oauth.messages import ServerMetadata
    from skillwire.server.auth.issuer import Driver
    from skillwire.server.configuration import Credentials, OAuth2Settings
    from skillwire.trust.address import AddressPolicy

_SCOPE: Final = "openid profile"
#: Claims that may propose the name of an account, best first.
_NAMES: Final = ("preferred_username", "nickname", "email", "sub")
_ACCOUNT_LENGTH: Final = 64


class SignedIn(NamedTuple):
    """A person whom the issuer has authenticated, and a name for a first account; empty where none fits."""

    person: Person
    proposed: str


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
        tokens = await ask(self._driver, server.token_url, redeem_code(asked, code, client))
        return await self._verify(tokens.id_token or "", carried["nonce"])

    async def close(self) -> None:
        """End the requests that are under way."""
        await self._keys.close()

    async def _metadata(self) -> ServerMetadata:
        now = self._monotonic()
        if self._server is None or now - self._server[0] > limits.JWKS_FRESH_SECONDS:
            found = await ask(self._driver, self.issuer, fetch_metadata(self.issuer))
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
        return SignedIn(Person(self.issuer, claims.subject), next(filter(None, names), ""))


def _account_form(claim: object) -> str:
    """Return an account's name that is like a claim; empty where there is none."""
    text = claim.partition("@")[0].lower()[:_ACCOUNT_LENGTH] if isinstance(claim, str) else ""
    name = re.sub(r"[^a-z0-9._-]+", "-", text).strip("._-")
    return name if is_account(name) else ""
