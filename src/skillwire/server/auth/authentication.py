"""Authentication: the caller of a request, from whichever kind of credential it carries, challenges, and rate limits.

A request without credentials gets public access. Credentials that are sent must be good, whatever is asked for, and two
kinds at once are refused as ambiguous. Authenticating may read the database or ask an authorization server, so it
happens off the event loop. Only refused credentials count against their address, so those of one sender do not lock out
another: after too many, further bad ones are answered 429, and the issuer is not asked about unknown opaque tokens.

A signed request counts once: its signature is kept until its time has run out, bounded for each key, so that the holder
of one key cannot crowd out others. Checking the time, looking up the signature and keeping it happen under one lock, so
one of two copies that come at once is refused. A signature from before this process began is refused, because it may
have counted already. One may lie :data:`~skillwire.limits.SIGNATURE_AHEAD_SECONDS` ahead of our clock.

``WWW-Authenticate`` says of a bearer token that it is not good, and where tokens come from. The same is in descriptors,
and in the metadata of this server as a protected resource, where a client that knows only our address reads which
authorization server issues tokens; it exists when the configuration has a table ``[oauth2]``. ``/mcp`` is a resource of
its own, because its clients compare the resource with the URL that they were given.

Spec: SSP §3.5.5, §7.2.3, §7.4, §8.3.2, §8.3.3; RFC 6750 §3; RFC 8707 §2; RFC 9728 §3, §5.1; MCP Authorization.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.types import Scope

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, TrustError, in_seconds
from skillwire.model.access import ANONYMOUS, Principal, Token
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.errors import encode_error
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType, OAuth2Config
from skillwire.protocols.skill_sharing.signing import HEADER, custom_auth, is_signed_by, read_signature
from skillwire.registry.tokens import TOKEN_PREFIX, Tokens
from skillwire.server.configuration import MCP_PATH, OAuth2Settings, ServerConfiguration
from skillwire.server.http import IDENTITY_NAMES, client_address, path_of, read_fields, site_of
from skillwire.server.problems import Problem, ProblemError, refused, too_many
from skillwire.server.quotas import RateLimit, RateLimiter, caller_of, is_this_machine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.model.package import Rights
    from skillwire.registry.packages import Registry
    from skillwire.server.auth.oauth import BearerTokens, OidcSignIn

    FindKey = Callable[[str], Awaitable[tuple[Token, bytes] | None]]
    UseSignature = Callable[[bytes, float, float], Awaitable[bool]]


RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+", re.ASCII)  # RFC 6749 §3.3


class ProtectedResource:
    """The documents at :data:`RESOURCE_PATH`; ``settings`` is the table ``[oauth2]``."""

    def __init__(self, settings: OAuth2Settings | None, base_url: str) -> None:
        self._settings = settings
        self._base_url = base_url

    def url(self, scope: Scope) -> str:
        """Return the absolute URL of the document for what is requested, as the client reaches it."""
        path = MCP_PATH if self.is_mcp(scope) else ""
        return f"{site_of(scope, self._base_url)}{RESOURCE_PATH}{path}"

    def is_mcp(self, scope: Scope) -> bool:
        """Whether a request is to the resource ``/mcp``, which has a document."""
        return self._settings is not None and path_of(scope) == MCP_PATH

    def document(self, site: str, path: str = "") -> bytes | None:
        """Return the document of the resource ``path`` at ``site``, or None. An audience there is named as written."""
        if self._settings is None:
            return None
        resource, audience = f"{site}{path}", self._settings.audience
        if audience.rstrip("/") in {resource, f"{site}{MCP_PATH}"}:
            resource = audience
        document = {
            "resource": resource,
            "authorization_servers": [self._settings.issuer],
            "bearer_methods_supported": ["header"],
        }
        if self._settings.scopes:  # a list without members is to be left out, RFC 9728 §3.2
            document["scopes_supported"] = sorted(self._settings.scopes)
        return json.dumps(document, ensure_ascii=False).encode()


#: The header field that carries an API key; ``Authorization: Bearer`` is good too.
API_KEY_HEADER: Final = "X-API-Key"


def auth_config(configuration: ServerConfiguration) -> AuthConfig:
    """Return what descriptors say of skills that are not public."""
    if configuration.offer == "custom":
        return AuthConfig(type=AuthType.CUSTOM, description="HMAC-SHA256 signed requests.", custom=custom_auth())
    oauth2 = configuration.oauth2 if configuration.offer == "oauth2" else None
    if oauth2 is not None and oauth2.authorization_url is not None and oauth2.token_url is not None:
        urls = {"authorization_url": oauth2.authorization_url, "token_url": oauth2.token_url}
        config = OAuth2Config(**urls, scopes=dict(oauth2.scopes))
        return AuthConfig(type=AuthType.OAUTH2, description="OAuth 2.0 access token as Bearer.", oauth2=config)
    description = f"Include your API key in the {API_KEY_HEADER} header."
    return AuthConfig(type=AuthType.API_KEY, description=description, header=API_KEY_HEADER)


def required_auth(configuration: ServerConfiguration) -> dict[str, object]:
    """Return the details of a 401: which method is required, and where to begin."""
    offered = auth_config(configuration)
    details: dict[str, object] = {"required_auth_type": offered.type.value}
    if offered.oauth2:
        details |= {"authorization_url": offered.oauth2.authorization_url, "token_url": offered.oauth2.token_url}
    elif offered.type is AuthType.CUSTOM:
        details["header"] = HEADER
    else:
        details["header"] = API_KEY_HEADER
    return details


class Challenges:
    """Answers callers whose credentials are missing, invalid or insufficient."""

    def __init__(self, configuration: ServerConfiguration, resource: ProtectedResource) -> None:
        self._type = auth_config(configuration).type
        self._details = required_auth(configuration)
        self._grants = configuration.grants
        self._scopes = configuration.oauth2.scopes if configuration.oauth2 is not None else {}
        self._resource = resource

    def required(self, error: SkillwireError, scope: Scope, *, is_bad_token: bool = False) -> Problem:
        """Return the 401 that reports ``error``; ``is_bad_token`` for a refused bearer token."""
        reported = TrustError("AUTH_REQUIRED", error.message, details={**error.details, **self._details})
        parameters = {"error": "invalid_token"} if is_bad_token else {}
        return challenge_fields(reported, 401, self._challenge(scope, parameters))

    def denied(self, principal: Principal, skill: str | None, scope: Scope, wish: str = "use") -> Problem:
        """Return the 403 of an authenticated caller without access to ``skill``; None for a list of several."""
        required = [] if skill is None else self._grants.scopes_for(skill)
        details = {"required_scopes": required, "granted_scopes": sorted(principal.scopes)}
        message = f"Insufficient permissions to {wish} this skill"  # the words of the text
        missing = None if skill is None else self.missing_scope(principal, skill)
        fields = self._challenge(scope, {"error": "insufficient_scope", "scope": missing}) if missing else {}
        return challenge_fields(TrustError("PERMISSION_DENIED", message, details=details), 403, fields)

    def missing_scope(self, principal: Principal, skill: str) -> str | None:
        """Return a published scope that would open ``skill`` to the access token of ``principal``."""
        if principal.identity:  # a key has no scopes to ask for
            return None
        known = (scope for scope in self._grants.scopes_for(skill) if scope in self._scopes and _SCOPE.fullmatch(scope))
        return next((scope for scope in known if scope not in principal.scopes), None)

    def _challenge(self, scope: Scope, parameters: Mapping[str, str]) -> dict[str, str]:
        names_issuer = self._type is AuthType.OAUTH2 or self._resource.is_mcp(scope)
        scheme = "Signature" if self._type is AuthType.CUSTOM and not (parameters or names_issuer) else "Bearer"
        named = {"resource_metadata": self._resource.url(scope)} if names_issuer else {}
        written = ", ".join(f'{name}="{value}"' for name, value in {"realm": "skills", **named, **parameters}.items())
        return {"WWW-Authenticate": f"{scheme} {written}"}


def challenge_fields(error: SkillwireError, status: int, fields: Mapping[str, str]) -> Problem:
    """Return the answer that reports ``error`` in the unified form. Spec: SSP §8.2."""
    _, body = encode_error(error)
    return Problem(status, error.code, error.message, fields=fields, written=body)


#: A signature that is as far ahead as it may be stays good for so long.
_REMEMBERED_SECONDS: Final = limits.SIGNATURE_WINDOW_SECONDS + limits.SIGNATURE_AHEAD_SECONDS


class SignedRequests:
    """Authenticates signed requests; ``find_key`` is ``Tokens.signing_key``.

    ``use`` stores a signature with now and its end, for all servers of a database; it is false for one that is stored.
    """

    def __init__(self, find_key: FindKey, clock: Callable[[], float], use: UseSignature | None = None) -> None:
        self._find_key = find_key
        self._use = use
        self._clock = clock
        self._started = math.floor(clock())
        self._seen: dict[str, _UsedSignatures] = {}

    async def recognise(self, header: str, method: str, target: str, body: bytes) -> Principal:
        """Return the signer of a request, whose signature counts only once.

        ``target`` and ``body`` are as received, before any decoding. Trust: everything here is untrusted.
        Raises TrustError (``AUTH_REQUIRED``) with a reason, FetchError (``TOO_MANY_SIGNATURES``).
        """
        signature = read_signature(header)
        if signature is None:
            raise refused("the signature is not KEYID:TIMESTAMP:HEX", "malformed")
        found = await self._find_key(signature.key_id)
        secret = found[1] if found else b""  # the work is done for an unknown key too, so that the time tells nothing
        is_good = await asyncio.to_thread(is_signed_by, signature, secret, method, target, body)
        if found is None or not is_good:
            raise refused("no key in use made this signature of this request", "unknown")
        now = self._clock()  # read here, so that signatures are remembered in the order of their time
        if now - signature.timestamp > limits.SIGNATURE_WINDOW_SECONDS:
            raise refused(
                f"the request was signed more than {in_seconds(limits.SIGNATURE_WINDOW_SECONDS)} ago", "expired"
            )
        if signature.timestamp - now > limits.SIGNATURE_AHEAD_SECONDS:
            ahead = in_seconds(limits.SIGNATURE_AHEAD_SECONDS)
            message = f"the signature's time is more than {ahead} ahead; compare the clocks"
            raise refused(message, "early")
        if signature.timestamp < self._started:
            raise refused("the request was signed before this server was started; sign it again", "expired")
        digest = bytes.fromhex(signature.digest)
        self._remember(signature.key_id, digest, now)
        if self._use is not None and not await self._use(digest, now, now + _REMEMBERED_SECONDS):
            raise refused("the signature was used before", "repeated")
        return _principal_of(found[0])

    def _remember(self, key_id: str, digest: bytes, now: float) -> None:
        for known, seen in list(self._seen.items()):
            while seen.order and now - seen.order[0][0] > _REMEMBERED_SECONDS:
                seen.digests.discard(seen.order.popleft()[1])
            if not seen.order:
                del self._seen[known]
        seen = self._seen.setdefault(key_id, _UsedSignatures(deque(), set()))
        if digest in seen.digests:
            raise refused("the signature was used before", "repeated")
        if len(seen.digests) >= limits.SIGNATURES_KEPT:
            message = f"{limits.SIGNATURES_KEPT} requests in {in_seconds(_REMEMBERED_SECONDS)} were signed with one key"
            raise FetchError(
                "TOO_MANY_SIGNATURES", message, details={"retry_after": int(limits.SIGNATURE_WINDOW_SECONDS)}
            )
        seen.digests.add(digest)
        seen.order.append((now, digest))


class _UsedSignatures(NamedTuple):
    """The signatures of one key: in the order in which they came, with their time, and as a set."""

    order: deque[tuple[float, bytes]]
    digests: set[bytes]


def _principal_of(token: Token) -> Principal:
    return Principal(token.name, token.skills, token.scopes, token.token_id, token.account)


_BEARER: Final = "bearer "
_BASIC: Final = "basic "
#: Attempts of one address that may fail a minute; who guesses is slowed down, who mistyped is not.
_FAILURES: Final = RateLimit(30, 30)
#: Of an address without credentials on a registry: hundreds of machines behind one, each adding a hundred packages.
_REGISTRY: Final = RateLimit(6_000, 3_000)
_ISSUER_PAUSE: Final = 5  # seconds until it is worth asking a server whose issuer is down again


class AuthResult(NamedTuple):
    """Who asks, None for everyone, and the header fields that say how often it still may."""

    principal: Principal | None
    fields: Mapping[str, str]


def has_credentials(fields: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request shows credentials."""
    return any(name in IDENTITY_NAMES for name, _ in fields)


class Authentication:
    """Authenticates callers.

    ``auth_config`` describes the methods to callers; ``resource`` has this server's metadata. ``tokens`` is first
    called when a key is shown; ``servers`` returns how many servers share the limits; ``close`` is called at the end.
    """

    def __init__(
        self,
        configuration: ServerConfiguration,
        tokens: Callable[[], Tokens],
        *,
        bearer: BearerTokens | None = None,
        driver: AsyncDriver | None = None,
        sign_in: OidcSignIn | None = None,
        base_url: str = "",
        use_signature: UseSignature | None = None,
        servers: Callable[[], int] = lambda: 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.auth_config = auth_config(configuration)
        self.resource = ProtectedResource(configuration.oauth2, base_url)
        self._challenges = Challenges(configuration, self.resource)
        self.tokens = tokens
        self.registry: Registry | None = None
        self.sign_in = sign_in
        self._bearer = bearer
        self._driver = driver
        self._signed = SignedRequests(lambda key_id: tokens().signing_key(key_id), time.time, use_signature)
        self._servers = servers
        self._callers = self.limiter(configuration.principal_limit)
        self._anonymous = self.limiter(configuration.anonymous_limit) if configuration.anonymous_limit else None
        self._limits_loopback = True
        self._failures = self.limiter(_FAILURES)
        self._clock = clock

    @property
    def provider(self) -> str:
        """The host at which people sign in with OpenID Connect; empty where they do not."""
        return parse_url(self.sign_in.issuer).authority if self.sign_in else ""

    def limiter(self, limit: RateLimit) -> RateLimiter:
        """Return what counts against ``limit``, which all servers share."""
        return RateLimiter(limit, servers=self._servers)

    def serve_registry(self, registry: Registry, *, is_limited: bool) -> None:
        """Authenticate accounts of ``registry`` too, and limit what is asked of it without credentials.

        By default, this machine is not limited: a proxy on it that is not trusted would count as one caller.
        """
        self.registry = registry
        if is_limited and self._anonymous is None:
            self._anonymous, self._limits_loopback = self.limiter(_REGISTRY), False

    def count_anonymous(self, address: str) -> Mapping[str, str]:
        """Count a request without credentials; return its header fields. Raises ProblemError (429)."""
        is_free = not self._limits_loopback and is_this_machine(address)
        return self._count(None if is_free else self._anonymous, ANONYMOUS, address)

    async def authenticate(self, scope: Scope, body: bytes = b"") -> AuthResult:
        """Return the caller. Trust: the request is untrusted.

        Raises ProblemError: invalid credentials (401), the issuer is down (503), or too many requests (429).
        """
        shown = read_fields(scope["headers"], *IDENTITY_NAMES)
        address = client_address(scope)
        if not shown:
            return AuthResult(None, self.count_anonymous(address))
        try:
            if len(shown) > 1:
                raise refused("credentials of more than one kind are shown", "ambiguous")
            principal, rights = await self._recognise(shown, scope, body, address)
        except (TrustError, FetchError) as error:
            is_bad_token = len(shown) == 1 and _is_bearer(shown.get(b"authorization", ""))
            raise self._refusal(error, scope, address, is_bad_token=is_bad_token) from error
        if self.registry is not None:
            principal = await self.registry.authorize(principal, rights)
        return AuthResult(principal, self._count(self._callers, principal, address))

    async def recognise_typed(self, key: str, scope: Scope) -> Token | None:
        """Return the API key typed into a form; None for an invalid one, which counts as a failure. Trust: untrusted.

        Raises ProblemError (429) for one after too many failures of this address.
        """
        token = await self.tokens().recognise(key)
        if token is None:
            self.count_failure(client_address(scope))
        return token

    def count_failure(self, address: str) -> None:
        """Count credentials of this address that were not good. Raises ProblemError (429) after too many."""
        failures = self._failures.take(caller_of(ANONYMOUS, address), self._clock())
        if not failures.allowed:
            raise ProblemError(too_many("credentials of this address were refused too often", failures))

    def count_further(self, principal: Principal | None, scope: Scope, number: int) -> Mapping[str, str]:
        """Count ``number`` more requests of one body; return the fields of what is left. Raises ProblemError (429)."""
        address, fields = client_address(scope), {}
        limiter = self._anonymous if principal is None else self._callers
        for _ in range(number):
            fields = dict(self._count(limiter, principal or ANONYMOUS, address))
        return fields

    async def close(self) -> None:
        """End what recognising began."""
        for one in (self._bearer, self.sign_in, self._driver):
            if one is not None:
                await one.close()

    def forbidden(
        self, principal: Principal | None, skill: str | None, scope: Scope, *, wish: str = "use"
    ) -> ProblemError:
        """Return the answer to a caller that may see ``skill`` and not use it. Spec: SSP §8.3.2, §8.3.3."""
        if principal is not None:
            return ProblemError(self._challenges.denied(principal, skill, scope, wish))
        return self.required(f"Authentication is required to {wish} this skill", scope)

    def required(self, message: str, scope: Scope) -> ProblemError:
        """Return the answer to a request that needs credentials and has none (401)."""
        return ProblemError(self._challenges.required(TrustError("AUTH_REQUIRED", message), scope))

    def step_up(self, principal: Principal | None, scope: Scope, skill: str) -> Problem | None:
        """Return the answer that names the scope which opens ``skill`` (403), if one does. Spec: RFC 6750 §3.1."""
        if principal is None or self._challenges.missing_scope(principal, skill) is None:
            return None
        return self._challenges.denied(principal, skill, scope)

    def _count(self, limiter: RateLimiter | None, principal: Principal, address: str) -> Mapping[str, str]:
        if limiter is None:
            return {}
        allowance = limiter.take(caller_of(principal, address), self._clock())
        if not allowance.allowed:
            raise ProblemError(too_many("requests come too often", allowance))
        return allowance.headers()

    async def _recognise(
        self, shown: Mapping[bytes, str], scope: Scope, body: bytes, address: str
    ) -> tuple[Principal, Rights | None]:
        """Return the caller, and the rights of its account if they were read with its token."""
        if b"x-signature" in shown:
            query = scope["query_string"].decode("latin-1")
            path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
            target = f"{path}?{query}" if query else path
            return await self._signed.recognise(shown[b"x-signature"], scope["method"], target, body), None
        authorization = shown.get(b"authorization", "")
        text, is_key = shown.get(b"x-api-key", ""), not _is_bearer(authorization)
        if authorization[: len(_BASIC)].lower() == _BASIC:
            text = _password(authorization[len(_BASIC) :])
        elif not is_key:
            text = authorization[len(_BEARER) :].strip()
        elif authorization:
            raise refused("the Authorization field holds neither a bearer token nor a password", "malformed")
        if is_key or text.startswith(f"{TOKEN_PREFIX}_"):
            token, rights = await self.tokens().authenticate(text)
            if token is None:
                raise refused("this API key is not known, or has ended", "unknown")
            return _principal_of(token), rights
        if self._bearer is None:
            raise refused(f"the bearer token is no API key of this server; those begin with {TOKEN_PREFIX}_", "unknown")
        failures = self._failures.look(caller_of(ANONYMOUS, address), self._clock())
        return await self._bearer.recognise(text, asks=failures.allowed), None

    def _refusal(self, error: SkillwireError, scope: Scope, address: str, *, is_bad_token: bool) -> ProblemError:
        """Return the answer to credentials that were not good, and count that against their address."""
        if error.code == "TOO_MANY_SIGNATURES":
            pause = {"Retry-After": str(error.details["retry_after"])}
            return ProblemError(Problem(429, error.code, error.message, error.details, pause))
        if error.code == "ISSUER_UNAVAILABLE":
            pause = {"Retry-After": str(error.details.get("retry_after", _ISSUER_PAUSE))}
            return ProblemError(challenge_fields(error, 503, pause))
        if error.details.get("reason") != "repeated":  # that signature was good: nothing was guessed
            self.count_failure(address)
        return ProblemError(self._challenges.required(error, scope, is_bad_token=is_bad_token))


def _is_bearer(authorization: str) -> bool:
    return authorization[: len(_BEARER)].lower() == _BEARER


def _password(text: str) -> str:
    """Return the password of Basic, which is an API key; any user name goes with it. Spec: RFC 7617 §2."""
    try:
        return base64.b64decode(text.strip(), validate=True).decode().partition(":")[2]
    except ValueError as error:
        raise refused("the user name and password are not encoded as Basic requires", "malformed") from error
