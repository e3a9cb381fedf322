"""Access to skills: levels, callers and tokens; :class:`skillwire.model.catalog.Catalog` applies them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple


class Access(StrEnum):
    """How far a skill is visible. Spec: SSP §3."""

    PUBLIC = "public"
    RESTRICTED = "restricted"
    PRIVATE = "private"


#: From the widest to the narrowest.
_ORDER: Final = tuple(Access)


def narrowest_access(*accesses: Access) -> Access:
    """Return the one of ``accesses`` that admits the fewest callers; public when there is none."""
    return max(accesses, key=_ORDER.index, default=Access.PUBLIC)


#: The grant of all skills.
EVERY_SKILL: Final = "*"
#: The scope for seeing and ending every execution, and working on every task.
OPERATOR: Final = "operator"
#: The scope for working on tasks that wait for people.
TASKS: Final = "tasks"
#: What an API key or a signing key may be allowed beside the skills that it opens.
SCOPES: Final = (OPERATOR, TASKS)


class Principal(NamedTuple):
    """A caller: the skills opened to it (``*`` for all), and its other rights.

    A grant is a skill's name; of a registry's packages it is ``namespace/name``, or ``namespace/*`` for all of one.
    ``identity`` distinguishes callers with equal names, such as two tokens of one name. ``account`` is the registry's,
    ``is_operator`` whether it acts as one there, and ``roles`` are its own by namespace.
    """

    name: str
    grants: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    identity: str = ""
    account: str = ""
    is_operator: bool = False
    roles: Mapping[str, str] = {}

    def has(self, skill: str, publisher: str) -> bool:
        """Whether the skill of this name and publisher is granted."""
        return not self.grants.isdisjoint((skill, EVERY_SKILL, f"{publisher}/{skill}", f"{publisher}/{EVERY_SKILL}"))


#: A caller without credentials.
ANONYMOUS = Principal("")


TokenKind = Literal["api_key", "signing_key"]
TokenState = Literal["good", "ended", "revoked"]


class Token(NamedTuple):
    """A stored token without its secret; times are seconds since the epoch.

    ``digest`` is the keyed hash of an API key's secret; a signing key is derived and has none. ``account`` is that of a
    registry which the token acts for, and ``used`` about when it was last shown.
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
    account: str = ""
    used: float | None = None

    def is_good_at(self, now: float) -> bool:
        """Whether the token may be used at ``now``."""
        return self.state_at(now) == "good"

    def state_at(self, now: float) -> TokenState:
        """Return whether the token is good at ``now``, and if not, why."""
        if self.revoked is not None:
            return "revoked"
        return "good" if self.expires is None or now < self.expires else "ended"


class DeviceLogin(NamedTuple):
    """A login that a program without a browser asked for, and a person's decision. Spec: RFC 8628.

    ``device`` and ``user`` are keyed hashes of the two codes; ``address`` is where the program asked from. A decision
    holds the granted ``scopes``, the ``account``, its token that decided, and the lifetime of the new token in seconds.
    """

    device: bytes
    user: bytes
    client: str
    scopes: tuple[str, ...]
    address: str
    expires: float
    interval: float
    polled: float = 0.0
    decision: Literal["", "approved", "refused"] = ""
    account: str = ""
    decided_by: str = ""
    lifetime: float | None = None

    def is_polled_too_soon(self, now: float) -> bool:
        """Whether the program asks sooner than it may."""
        return now - self.polled < self.interval
