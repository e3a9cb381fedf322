"""A stored credential of one origin, and how it is renewed. Secrets stay out of ``repr``.

Both are dataclasses, not named tuples: an encoder of JSON writes a named tuple with its secrets, and refuses these.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

CredentialKind = Literal["api_key", "oauth2", "custom"]


@dataclass(frozen=True, slots=True)
class TokenRenewal:
    """How an OAuth 2.0 access token is renewed and revoked; ``scope`` holds granted scopes, separated by spaces.

    ``resource`` is what the token was requested for (RFC 8707). Without a ``refresh_token``, client credentials renew
    it if there is a ``client_secret``.
    """

    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    sends_secret_in_body: bool = False
    refresh_token: str | None = field(default=None, repr=False)
    revocation_url: str | None = None
    scope: str = ""
    resource: str | None = None

    def changed(self, **changes: Any) -> TokenRenewal:
        """Return a copy with these fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Credential:
    """A stored credential; only its ``origin`` receives it.

    Args:
        kind: ``custom`` signs requests: its secret is a key and is never sent.
        login: random name of the login, kept on renewal.
        expires_at: seconds since the epoch; None when unknown.
        key_id: of a ``custom`` credential.
        grant: of an ``oauth2`` credential.
    """

    origin: str
    kind: CredentialKind
    secret: str = field(repr=False)
    login: str
    header: str = "Authorization"
    expires_at: float | None = None
    key_id: str | None = None
    grant: TokenRenewal | None = None

    def changed(self, **changes: Any) -> Credential:
        """Return a copy with these fields changed."""
        return replace(self, **changes)

    def as_fields(self) -> dict[str, Any]:
        """Return the fields, with those of ``grant`` in an object of their own."""
        return asdict(self)

    @property
    def field_value(self) -> str:
        """The value of the header field."""
        return f"Bearer {self.secret}" if self.header.lower() == "authorization" else self.secret

    @property
    def mark(self) -> str:
        """A name without secrets that stays the same until the next login."""
        return f"Stored {self.login}"

    @property
    def renewable(self) -> bool:
        """Whether a new access token can be obtained without the user."""
        return self.grant is not None and bool(self.grant.refresh_token or self.grant.client_secret)
