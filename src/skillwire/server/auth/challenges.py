"""Challenges: what a 401 and a 403 contain, and where clients read how to authenticate.

``WWW-Authenticate`` says of a bearer token that it is not good, and where tokens come from. The same is in descriptors,
and in the metadata of this server as a protected resource, where a client that knows nothing but our address reads
which authorization server issues tokens; it exists when the configuration has a table ``[oauth2]``. ``/mcp`` is a
resource of its own, because its clients compare the resource with the URL that they were given. Spec: SSP §3.5.5,
§8.3.2, §8.3.3; RFC 6750 §3; RFC 8707 §2; RFC 9728 §3, §5.1; MCP Authorization.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from starlette.types import Scope

from skillwire.errors import SkillwireError, TrustError
from skillwire.model.access import Principal
from skillwire.protocols.skill_sharing.errors import encode_error
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType, OAuth2Config
from skillwire.protocols.skill_sharing.signing import HEADER, custom_auth
from skillwire.server.configuration import OAuth2Settings, ServerConfiguration
from skillwire.server.http import path_of, site_of
from skillwire.server.problems import Problem

RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"
MCP_PATH: Final = "/mcp"
_SCOPE: Final = re.compile(r"[!#-\[\]-~]+", re.ASCII)  # RFC 6749 §3.3


def audiences_of(audience: str, base_url: str) -> frozenset[str]:
    """Return every ``aud`` that names this server: ``audience``, and where it or ``base_url`` is a URL, the resources.

    A URL of an origin is the same with a final slash and without (RFC 3986 §6.2.3).
    """
    urls = {url.rstrip("/") for url in (audience, base_url) if "://" in url}
    return frozenset({audience, *(f"{url}{end}" for url in urls for end in ("", "/", MCP_PATH))})


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


def challenge_fields(error: SkillwireError, status: int, fields: Mapping[str, str] | None = None) -> Problem:
    """Return the answer that reports ``error`` in the unified form. Spec: SSP §8.2."""
    _, body = encode_error(error)
    return Problem(status, error.code, error.message, fields=fields or {}, written=body)
