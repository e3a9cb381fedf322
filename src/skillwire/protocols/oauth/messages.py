"""The values of OAuth 2.0. Secrets stay out of ``repr``, and so out of traces and logs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Our identity at an authorization server; ``sends_secret_in_body`` if it only supports ``client_secret_post``."""

    client_id: str
    secret: str | None = field(default=None, repr=False)
    sends_secret_in_body: bool = False


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """The metadata of an authorization server; ``issuer`` is None when only URLs are known. Spec: RFC 8414 §2.

    With ``sends_issuer`` it promises to name itself in each answer (RFC 9207). ``secret_methods`` are of client
    authentication.
    """

    token_url: str
    issuer: str | None = None
    authorization_url: str | None = None
    device_url: str | None = None
    revocation_url: str | None = None
    sends_issuer: bool = False
    scopes: tuple[str, ...] = ()
    secret_methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The metadata of a protected resource: the issuers that it accepts. Spec: RFC 9728 §2."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a token endpoint; ``expires_in`` in seconds. Spec: RFC 6749 §5.1."""

    access_token: str = field(repr=False)
    expires_in: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    scope: str | None = None
    id_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The codes of a login on another device; times in seconds. Spec: RFC 8628 §3.2."""

    device_code: str = field(repr=False)
    user_code: str
    verification_url: str
    expires_in: float
    interval: float
    complete_url: str | None = None  # with the code in it


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """An authorization request for the browser; its answer repeats ``state``, the token endpoint gets ``verifier``."""

    url: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect_url: str
    server: ServerMetadata
    resource: str | None = None
