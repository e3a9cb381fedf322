"""Who may see what. One rule for every protocol, in :class:`skillwire.model.catalog.Catalog`.

A token: what a publisher gives to someone who may use more than everybody may.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple


class Access(StrEnum):
    """How far a skill is visible. Spec: SSP §3."""

    PUBLIC = "public"
    RESTRICTED = "restricted"
    PRIVATE = "private"


#: The grant of all skills.
EVERY_SKILL: Final = "*"
#: The scope of whoever may see and end every execution, and work on every task.
OPERATOR: Final = "operator"
#: The scope of whoever may work on the tasks that wait for people.
TASKS: Final = "tasks"
#: What an API key or a signing key may be allowed beside the skills that it opens.
SCOPES: Final = (OPERATOR, TASKS)


class Principal(NamedTuple):
    """Someone who asks.

    ``grants`` are the names of the skills that were opened to it, ``*`` for all. ``scopes`` are what else it may do.
    ``identity`` tells it from others where its name need not, as with two tokens of one name.
    """

    name: str
    grants: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    identity: str = ""

    def has(self, skill: str) -> bool:
        """Whether the skill of this name was opened to it."""
        return skill in self.grants or EVERY_SKILL in self.grants


#: Someone who has not said who they are.
ANONYMOUS = Principal("")


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
