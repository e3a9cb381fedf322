"""What callers are told about how to authenticate here: in descriptors, and with a 401. Spec: SSP §3.5.5, §8.3.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType, OAuth2Config
from skillwire.protocols.skill_sharing.signing import HEADER, custom_auth

if TYPE_CHECKING:
    from skillwire.server.auth.configuration import ServerConfiguration

#: The header field that carries an API key; ``Authorization: Bearer`` is good too.
API_KEY_HEADER: Final = "X-API-Key"


def auth_config(configuration: ServerConfiguration) -> AuthConfig:
    """Return what descriptors say of skills that are not public."""
    if configuration.offer == "custom":
        return AuthConfig(type=AuthType.CUSTOM, description="HMAC-SHA256 signed requests.", custom=custom_auth())
    if (config := _oauth2_config(configuration)) is not None:
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


def _oauth2_config(configuration: ServerConfiguration) -> OAuth2Config | None:
    settings = configuration.oauth2
    if configuration.offer != "oauth2" or settings is None:
        return None
    if settings.authorization_url is None or settings.token_url is None:
        return None
    urls = {"authorization_url": settings.authorization_url, "token_url": settings.token_url}
    return OAuth2Config(**urls, scopes=dict(settings.scopes))
