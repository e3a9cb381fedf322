"""What can be said of how a skill is: a word of SDP §8.1, and why, as the network is told.

The why names nothing: no secret, no path, no program. Whoever is on the network reads it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skillwire.protocols.skill_discovery.messages import HealthStatus


class Condition(NamedTuple):
    """How a skill is, and why, as the network is told."""

    status: HealthStatus
    detail: str = ""


GOOD: Final = Condition(HealthStatus.HEALTHY)
BROKEN: Final = Condition(HealthStatus.DEGRADED, "a newer version of it cannot be published")
FAILED: Final = Condition(HealthStatus.UNHEALTHY, "its health check failed")
SILENT: Final = Condition(HealthStatus.DEGRADED, "its health check does not answer")
SENSELESS: Final = Condition(HealthStatus.DEGRADED, "its health check says nothing that is known")
UNCHECKED: Final = Condition(HealthStatus.DEGRADED, "its health was not checked yet")
UNCHECKABLE: Final = Condition(HealthStatus.DEGRADED, "its health cannot be checked here")

_WORDS: Final[dict[bool | str, HealthStatus]] = {
    True: HealthStatus.HEALTHY,
    False: HealthStatus.UNHEALTHY,
    **{str(status): status for status in HealthStatus if status is not HealthStatus.UNKNOWN},
}
#: The worst last.
_ORDER: Final = (
    HealthStatus.HEALTHY,
    HealthStatus.DEGRADED,
    HealthStatus.UNHEALTHY,
    HealthStatus.OFFLINE,
    HealthStatus.MAINTENANCE,
)


def read_said(said: object) -> Condition | None:
    """Return what a check says that returned ``said``: a bool, a word, or nothing. None where it is none of these.

    Trust: ``said`` may be any value.
    """
    if said is None:
        return GOOD
    status = _WORDS.get(said) if isinstance(said, bool | str) else None
    return None if status is None else Condition(status)


def worse(one: Condition, other: Condition) -> Condition:
    """Return the worse of two, the first where they are alike; MAINTENANCE is worse than all."""
    return max(one, other, key=lambda condition: _ORDER.index(condition.status))
