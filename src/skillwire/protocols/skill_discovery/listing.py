"""How a registry lists skills: the values, and what changes in them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.health import Health
    from skillwire.protocols.skill_discovery.messages import Register

#: ``(agent, skill)``.
Key = tuple[str, str]

#: Facts of a registration; when they are the same, there is nothing new in it.
_FACTS: Final = ("version", "skill_type", "endpoint", "capabilities", "scenes")


class What(StrEnum):
    """What has changed in a registry."""

    REGISTERED = "registered"
    UPDATED = "updated"
    STATUS = "status"
    SUSPECTED = "suspected"
    STALE = "stale"
    LEFT = "left"
    EVICTED = "evicted"


class Listed(NamedTuple):
    """One skill as it is listed.

    Args:
        registration: what it says.
        health: how it is.
        is_verified: whether its key is certified.
        host: where it came from.
        is_hint: whether an unsigned source said it, and nobody registered.
    """

    registration: Register
    health: Health
    is_verified: bool
    host: str
    is_hint: bool = False

    @property
    def key(self) -> Key:
        """The name of its registration."""
        return self.registration.agent_id, self.registration.skill_id


class Change(NamedTuple):
    """One change, and the skill as it was and is; None for before it was there, and after it is gone.

    A skill that is registered after it was a hint was one before. ``reason`` says why one is gone: of a goodbye what it
    says, such as ``shutdown``; of one that is forgotten ``silent``, ``revoked`` where the certificate of its agent was
    taken back, ``crowded`` where it has given way to another one; empty where there is nothing to say.
    """

    what: What
    before: Listed | None
    after: Listed | None
    reason: str = ""

    @property
    def listed(self) -> Listed:
        """The skill, as it is or as it last was."""
        found = self.after or self.before
        assert found is not None  # noqa: S101 - for the type checker; a change is of something
        return found


def has_facts_of(one: Register, other: Register) -> bool:
    """Whether two registrations say the same of their skill."""
    return all(getattr(one, fact) == getattr(other, fact) for fact in _FACTS)
