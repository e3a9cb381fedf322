"""The values of OAuth 2.0. What is secret stays out of ``repr``, so that no trace or log shows it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who we are to an authorization server.

    Args:
        client_id: as it registered us.
        secret: of a confidential client.
        sends_secret_in_body: whether it knows ``client_secret_post`` only, and not Basic.
    """

    client_id: str
    secret: str | None = field(default=None, repr=False)
    sends_secret_in_body: bool = False


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """What is known of an authorization server. Spec: RFC 8414 §2.

    Args:
        token_url: of the token endpoint.
        issuer: its name; None when only its URLs are known.
        says_issuer: whether it promises to name itself in each answer (RFC 9207).
        secret_methods: how clients may authenticate; empty when that is not said.
    """

    token_url: str
    issuer: str | None = None
    authorization_url: str | None = None
    device_url: str | None = None
    revocation_url: str | None = None
    says_issuer: bool = False
    scopes: tuple[str, ...] = ()
    secret_methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """What a resource says of itself: whose tokens it takes. Spec: RFC 9728 §2."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the token endpoint gave; ``expires_in`` in seconds. Spec: RFC 6749 §5.1."""

    access_token: str = field(repr=False)
    expires_in: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a device shows its user, and what it asks about; times in seconds. Spec: RFC 8628 §3.2."""

    device_code: str = field(repr=False)
    user_code: str
    verification_url: str
    expires_in: float
    interval: float


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A question that the browser carries, and what its answer must fit.

    Args:
        url: to open.
        state: that the answer has to bring back.
        verifier: of PKCE, told to the token endpoint alone.
        redirect_url: where the answer is awaited.
        server: that is asked.
    """

    url: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect_url: str
    server: ServerMetadata
