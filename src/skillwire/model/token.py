"""A token: what a publisher gives to someone who may use more than everybody may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["api_key", "signing_key"]
TokenState = Literal["good", "ended", "revoked"]


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token; its secret is not.

    ``skills`` are the names that it opens, ``*`` for all; ``scopes`` what else it allows. Times are seconds since the
    epoch. ``digest`` is the keyed hash of an API key's secret; that of a signing key is derived and has none.
    """

    token_id: str
    name: str
    kind: TokenKind
    skills: frozenset[str]
    scopes: frozenset[str]
    created: float
    expires: float | None = None
    revoked: float | None = None
    digest: bytes = b""

    def is_good_at(self, now: float) -> bool:
        """Whether the token may be used at ``now``."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def state_at(self, now: float) -> TokenState:
        """Return whether the token is good at ``now``, and if not, why."""
        if self.revoked is not None:
            return "revoked"
        return "good" if self.is_good_at(now) else "ended"
