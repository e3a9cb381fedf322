"""What somebody logged in with: a credential of one origin, and how it is renewed. Secrets stay out of ``repr``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

CredentialKind = Literal["api_key", "oauth2", "custom"]


@dataclass(frozen=True, slots=True)
class TokenRenewal:
    """How an OAuth 2.0 access token is renewed and revoked.

    Args:
        token_url: of the token endpoint.
        client_id: as the authorization server knows us.
        client_secret: of a confidential client; None for a public one.
        sends_secret_in_body: whether the secret goes into the body, and not into a header field.
        refresh_token: None when none was given. The client credentials then stand for it, when there is a secret.
        revocation_url: None where revocation is not offered.
        scope: what was granted, words with spaces between them.
    """

    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    sends_secret_in_body: bool = False
    refresh_token: str | None = field(default=None, repr=False)
    revocation_url: str | None = None
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Credential:
    """A stored credential.

    Args:
        origin: the only one that it is sent to, ``https://host[:port]``.
        kind: ``custom`` is for signed requests: its secret is a key and is sent nowhere.
        secret: an API key, an access token, or a signing key.
        login: a random name of the login that it comes from, which renewals keep.
        header: the field that carries it.
        expires_at: seconds since the epoch; None when that is not known.
        key_id: which key of ours a ``custom`` one is.
        grant: of an ``oauth2`` one.
    """

    origin: str
    kind: CredentialKind
    secret: str = field(repr=False)
    login: str
    header: str = "Authorization"
    expires_at: float | None = None
    key_id: str | None = None
    grant: TokenRenewal | None = None

    @property
    def field_value(self) -> str:
        """What the header field holds."""
        return f"Bearer {self.secret}" if self.header.lower() == "authorization" else self.secret

    @property
    def mark(self) -> str:
        """What stands for it where secrets have no business: the same until the next login, whatever is renewed."""
        return f"Stored {self.login}"

    @property
    def renewable(self) -> bool:
        """Whether a new access token can be had without the user."""
        return self.grant is not None and bool(self.grant.refresh_token or self.grant.client_secret)
