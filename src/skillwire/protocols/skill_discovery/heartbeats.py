"""Heartbeats: that the skills of an agent are alive, how they are, and that at once where somebody doubts it.

Spec: SDP §8; specs §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.skill_discovery.messages import HealthStatus, Heartbeat

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.agenda import Agenda
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings

_JITTER: Final = 0.1
#: Seconds after the first registration: soon, so that whoever missed it asks for it.
_FIRST: Final = (0.6, 1.4)
#: Seconds after which a beat that was asked for is said again.
_AGAIN: Final = 0.2
#: Seconds after a registration until it is said that the skill is not well.
_AFTER: Final = 0.02


class Heartbeats:
    """The beats of one agent.

    Args:
        agent_id: whose they are.
        outbox: takes what is sent.
        settings: figures.
        agenda: has when each skill beats next, under ``("beat", skill_id)``.
        pace: datagrams a second that others read of one source.
        health: says how a skill is, whenever it beats; what was last reported when there is none.
    """

    def __init__(
        self,
        agent_id: str,
        outbox: Outbox,
        settings: DiscoverySettings,
        agenda: Agenda[tuple[str, str]],
        *,
        pace: float,
        health: Callable[[str], HealthStatus] | None,
    ) -> None:
        self._agent_id = agent_id
        self._outbox = outbox
        self._settings = settings
        self._agenda = agenda
        self._pace = pace
        self._health = health or (lambda skill_id: self._reported.get(skill_id, HealthStatus.HEALTHY))
        self._reported: dict[str, HealthStatus] = {}
        self._doubted = 0.0

    def report(self, skill_id: str, status: HealthStatus) -> None:
        """Keep how a skill is said to be."""
        self._reported[skill_id] = status

    def forget(self, skill_id: str) -> None:
        """Say no more of a skill."""
        self._reported.pop(skill_id, None)
        self._agenda.cancel(("beat", skill_id))

    def follow(self, skill_id: str, now: Moment) -> None:
        """Have beats follow a registration that is sent now, which does not say that a skill is not well."""
        if ("beat", skill_id) not in self._agenda:
            self._agenda.set(("beat", skill_id), now.steady + self._outbox.random.uniform(*_FIRST))
        elif self._condition(skill_id) is not HealthStatus.HEALTHY:
            self._agenda.set(("beat", skill_id), now.steady + _AFTER)

    def beat(self, skill_id: str, now: Moment) -> bytes:
        """Say that a skill is alive, and how; the next beat is set first, so that nothing keeps it from coming."""
        pause = self._settings.heartbeat_interval * self._outbox.random.uniform(1 - _JITTER, 1)
        self._agenda.set(("beat", skill_id), now.steady + pause)
        status = self._condition(skill_id)
        data = self._outbox.write(Heartbeat(self._agent_id, skill_id, status, self._outbox.stamp(now)))
        self._outbox.send(data, now)
        return data

    def answer_doubt(self, skill_id: str, now: Moment) -> None:
        """Beat at once, since somebody doubts that a skill is there; not faster than others read from one source.

        It was the loss of datagrams, so it is said twice.
        """
        if self._doubted > now.steady + self._settings.burst / 2 / self._pace:
            return
        self._doubted = max(self._doubted, now.steady) + 2 / self._pace
        data = self.beat(skill_id, now)
        self._outbox.send(data, now, after=_AGAIN)

    def _condition(self, skill_id: str) -> HealthStatus:
        """Return how a skill of ours is, as a beat can say it."""
        try:
            status = HealthStatus(self._health(skill_id))
        except Exception:  # noqa: BLE001 - the callback is the application's; a skill that cannot say how it is, is not well
            return HealthStatus.UNHEALTHY
        return HealthStatus.UNHEALTHY if status is HealthStatus.UNKNOWN else status
