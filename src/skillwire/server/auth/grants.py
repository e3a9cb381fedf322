"""What someone with an access token may use: from the token's own scopes, and from what the publisher configured.

A scope ``skill:NAME`` opens the skill of this name, ``skill:*`` all of them **[ours]**; a package of a registry is
opened by ``skill:NAMESPACE/NAME`` alone, since each namespace may have one of the name. Beside that the configuration
opens skills to subjects, clients and scopes of the issuer, whose names need not know of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from skillwire.model.access import EVERY_SKILL
from skillwire.model.package import is_grant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from skillwire.server.auth.access_token import AccessClaims

SCOPE_PREFIX: Final = "skill:"


@dataclass(frozen=True, slots=True)
class Grants:
    """What the publisher opens to whom: subject, client or scope of the issuer → names of skills, ``*`` for all."""

    subjects: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    clients: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    scopes: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, claims: AccessClaims) -> frozenset[str]:
        """Return the skills that are open to a caller with a token with these claims."""
        rows = [(self.subjects, claims.subject), (self.clients, claims.client_id)]
        rows += [(self.scopes, scope) for scope in claims.scopes]
        return skills_of(claims.scopes).union(*(table.get(name, ()) for table, name in rows if name is not None))

    def scopes_for(self, skill: str) -> list[str]:
        """Return the scopes that open the skill of this name, ours first."""
        configured = (scope for scope, skills in self.scopes.items() if skill in skills or EVERY_SKILL in skills)
        return [f"{SCOPE_PREFIX}{skill}", *sorted(configured)]


def skills_of(scopes: Collection[str]) -> frozenset[str]:
    """Return the names of the skills that scopes of the form ``skill:NAME`` open."""
    names = (scope.removeprefix(SCOPE_PREFIX) for scope in scopes if scope.startswith(SCOPE_PREFIX))
    return frozenset(name for name in names if is_grant(name))
