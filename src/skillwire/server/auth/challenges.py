"""Challenges: what a 401 and a 403 contain, and where clients read how to authenticate.

``WWW-Authenticate`` says of a bearer token that it is not good, and where tokens come from. The same is in descriptors,
and in the metadata of this server as a protected resource, where a client that knows nothing but our address reads
which authorization server issues tokens; it exists when the configuration has a table ``[oauth2]``. Spec: SSP §3.5.5,
§8.3.2, §8.3.3; RFC 6750 §3; RFC 9728 §3, §5.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from skillwire.errors import SkillwireError, TrustError
from skillwire.protocols.skill_sharing.errors import encode_error
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType, OAuth2Config
from skillwire.protocols.skill_sharing.signing import HEADER, custom_auth
from skillwire.server.http import site_of
from skillwire.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

    from skillwire.model.access import Principal
    from skillwire.server.configuration import OAuth2Settings, ServerConfiguration


RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource:
    """The document at :data:`RESOURCE_PATH`; ``settings`` is the table ``[oauth2]``."""

    def __init__(self, settings: OAuth2Settings | None, base_url: str) -> None:
        self._settings = settings
        self._base_url = base_url

    def url(self, scope: Scope) -> str:
        """Return the absolute URL of the document, as the client reaches it."""
        return site_of(scope, self._base_url) + RESOURCE_PATH

    def document(self, site: str) -> bytes | None:
        """Return the document of a server at ``site``, or None."""
        if self._settings is None:
            return None
        document = {
            "resource": site,
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
        self._resource = resource

    def required(self, error: SkillwireError, scope: Scope, *, is_bad_token: bool = False) -> Problem:
        """Return the 401 that reports ``error``; ``is_bad_token`` for a refused bearer token."""
        reported = TrustError("AUTH_REQUIRED", error.message, details={**error.details, **self._details})
        parameters = {"realm": "skills"}
        if self._type is AuthType.OAUTH2:
            parameters["resource_metadata"] = self._resource.url(scope)
        if is_bad_token:
            parameters["error"] = "invalid_token"
        scheme = "Signature" if self._type is AuthType.CUSTOM and not is_bad_token else "Bearer"
        written = ", ".join(f'{name}="{value}"' for name, value in parameters.items())
        return challenge_fields(reported, 401, {"WWW-Authenticate": f"{scheme} {written}"})

    def denied(self, principal: Principal, skill: str | None, wish: str = "use") -> Problem:
        """Return the 403 of an authenticated caller without access to ``skill``; None for a list of several."""
        required = [] if skill is None else self._grants.scopes_for(skill)
        details = {"required_scopes": required, "granted_scopes": sorted(principal.scopes)}
        message = f"Insufficient permissions to {wish} this skill"
        return challenge_fields(TrustError("PERMISSION_DENIED", message, details=details), 403)


def challenge_fields(error: SkillwireError, status: int, fields: Mapping[str, str] | None = None) -> Problem:
    """Return the answer that reports ``error`` in the unified form. Spec: SSP §8.2."""
    _, body = encode_error(error)
    return Problem(status, error.code, error.message, fields=fields or {}, written=body)
