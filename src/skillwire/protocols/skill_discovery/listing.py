"""How a registry lists skills: the values, and the index by which they are found by capability and scene."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from skillwire.protocols.skill_discovery.health import Health
    from skillwire.protocols.skill_discovery.messages import Discover, Register

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


class Index:
    """Which skills have a capability, which are in a scene, and which are of a type."""

    def __init__(self) -> None:
        self._by_capability: dict[str, dict[Key, None]] = {}
        self._by_scene: dict[str, dict[Key, None]] = {}
        self._by_type: dict[str, dict[Key, None]] = {}

    def add(self, listed: Listed) -> None:
        """Index a skill."""
        key = listed.key
        for index, names in self._parts(listed):
            for name in names:
                keys = index.get(name)
                if keys is None:
                    keys = index[name] = {}
                keys[key] = None

    def remove(self, listed: Listed) -> None:
        """Forget a skill, as it was indexed."""
        key = listed.key
        for index, names in self._parts(listed):
            for name in names:
                keys = index.get(name, {})
                keys.pop(key, None)
                if not keys:
                    index.pop(name, None)

    def in_scene(self, scene: str) -> Collection[Key]:
        """Return the skills of a scene."""
        return self._by_scene.get(scene, {})

    def scenes(self) -> list[str]:
        """Return the scenes that skills are in, by name."""
        return sorted(self._by_scene)

    def narrow(self, wanted: Discover) -> Collection[Key] | None:
        """Return the skills among which all are that are asked for; None when it may be any."""
        if wanted.capabilities:
            return min((self._by_capability.get(name, {}) for name in wanted.capabilities), key=len)
        for index, names in ((self._by_scene, wanted.scenes), (self._by_type, wanted.skill_types)):
            if names:
                return {key: None for name in names for key in index.get(name, ())}
        return None

    def _parts(self, listed: Listed) -> tuple[tuple[dict[str, dict[Key, None]], tuple[str, ...]], ...]:
        message = listed.registration
        return (
            (self._by_capability, message.capabilities),
            (self._by_scene, message.scenes),
            (self._by_type, (message.skill_type,)),
        )


def has_facts_of(one: Register, other: Register) -> bool:
    """Whether two registrations say the same of their skill."""
    return all(getattr(one, fact) == getattr(other, fact) for fact in _FACTS)


def passes(message: Register, wanted: Discover) -> bool:
    """Whether a skill has all the capabilities, one of the scenes and one of the types that are asked for."""
    return (
        all(name in message.capabilities for name in wanted.capabilities)
        and (not wanted.scenes or any(name in message.scenes for name in wanted.scenes))
        and (not wanted.skill_types or message.skill_type in wanted.skill_types)
    )
