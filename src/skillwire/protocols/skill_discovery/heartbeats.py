"""Heartbeats: that the skills of an agent are alive, how they are, and that at once where somebody doubts it.

Spec: SDP §8; specs §3.

The agents that keep a registry, as one that offers skills knows them: from what they answered. Spec: SDP §2.2.

Asking a silent skill whether it is there: with a third of all datagrams lost, two missed beats are nothing rare.

**[ours]**: a suspect's agent is sent ``SKILL_REGISTER_ACK`` with ``DUPLICATE``, which is true, and the text
:data:`SILENT_SKILL`; it beats at once. An agent of another make reads that it is registered. Each suspect is asked a
few times until silence would make it UNHEALTHY, and nobody when it is the network. Spec: SDP §8.2 "retryCount".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.health import FALLEN, What
from skillwire.protocols.skill_discovery.messages import HealthStatus, Heartbeat, Outcome, RegisterAck
from skillwire.protocols.skill_discovery.scheduling import Timer, TimerQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.health import Change, Key
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.registry import Registry
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


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
        agenda: TimerQueue[tuple[str, str]],
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


#: In which a registry that has started anew is given everything once.
_START_SECONDS: Final = 10.0
#: Registries of one host: its agents, and the commands that run there.
_PER_HOST: Final = 8


class KnownRegistries:
    """Who keeps a registry, and when each was last heard.

    Nobody signs an acknowledgment in the profile *open*, so whoever likes can look like very many registries. Places
    are bounded, for each host as well, and who has proven to be where it says takes the place of who has not.

    Args:
        settings: figures; ``registry_seen`` is how many seconds one that is silent counts.
        is_proven: whether somebody has proven to be at an address, at a time of the steady clock.
    """

    def __init__(self, settings: DiscoverySettings, is_proven: Callable[[Peer, float], bool]) -> None:
        self._settings = settings
        self._is_proven = is_proven
        self._seen: dict[Peer, float] = {}
        self._started: dict[Peer, float] = {}
        self.hosts: set[str] = set()

    def __contains__(self, source: Peer) -> bool:
        return source in self._seen

    def hear(self, source: Peer, now: Moment) -> bool:
        """Know that one is there; return whether it is remembered."""
        if source not in self._seen and not self._makes_room(source, now.steady):
            return False
        self._seen[source] = now.steady
        self.hosts.add(source.host)
        return True

    def hear_anew(self, source: Peer, now: Moment, *, had_it: bool) -> bool:
        """Know that one asks for a registration; return whether it is new, or has started anew: it lacks everything.

        ``had_it`` says that it has acknowledged what it asks for. It is said to be new once in a while, and of one that
        is not remembered never.
        """
        is_new = (had_it or source not in self._seen) and not self.is_starting(source, now)
        if not self.hear(source, now):
            return False
        if is_new:
            self._started[source] = now.steady + _START_SECONDS
        return is_new

    def is_starting(self, source: Peer, now: Moment) -> bool:
        """Whether one is just being given everything."""
        return self._started.get(source, 0.0) > now.steady

    def are_within(self, peers: Container[Peer], now: Moment) -> bool:
        """Whether there are some, and all that still count are among ``peers``."""
        edge = now.steady - self._settings.registry_seen
        return bool(self._seen) and all(peer in peers for peer, seen in self._seen.items() if seen > edge)

    def forget_silent(self, now: Moment) -> None:
        """Forget those that count no more."""
        edge = now.steady - self._settings.registry_seen
        self._forget([peer for peer, seen in self._seen.items() if seen <= edge])

    def _makes_room(self, source: Peer, now: float) -> bool:
        """Whether there is a place for one more, once another has made room: who proved nothing, then who is silent."""
        crowd = [peer for peer in self._seen if peer.host == source.host]
        if len(crowd) < _PER_HOST:
            crowd = list(self._seen)
            if len(crowd) < limits.LAN_REGISTRIES:
                return True
        if not self._is_proven(source, now):
            return False
        self._forget([min(crowd, key=lambda peer: (self._is_proven(peer, now), self._seen[peer]))])
        return True

    def _forget(self, peers: Iterable[Peer]) -> None:
        for peer in peers:
            del self._seen[peer]
            self._started.pop(peer, None)
        self.hosts = {one.host for one in self._seen}


#: **[ours]**: how the message of an acknowledgment goes on that asks for a beat.
SILENT_SKILL: Final = "silent, are you there"

_OF_INTEREST: Final = frozenset({What.SUSPECTED, What.LEFT, What.EVICTED})


class SuspectPinger:
    """The suspects that one agent asks, and where their agents are.

    Args:
        registry: what is listed.
        outbox: takes what is sent.
        settings: figures.
    """

    def __init__(self, registry: Registry, outbox: Outbox, settings: DiscoverySettings) -> None:
        self._registry = registry
        self._outbox = outbox
        self._settings = settings
        self._places: dict[str, Peer] = {}
        self._asked: dict[Key, int] = {}
        self._agenda: TimerQueue[Key] = TimerQueue()
        self.timer: Timer = self._agenda.timer
        self._second = (0, 0)
        span = (settings.unhealthy_missed - settings.suspect_missed) * settings.heartbeat_interval
        self._pause = span / (settings.retry_count + 1)

    def heard(self, agent_id: str, peer: Peer) -> None:
        """Take note of where an agent that has skills listed was heard from."""
        if self._places.get(agent_id) != peer and self._registry.count_of_agent(agent_id):
            self._places[agent_id] = peer

    def changed(self, change: Change, now: Moment) -> None:
        """Take a change of the registry, after it happened."""
        if change.what not in _OF_INTEREST:
            return
        agent_id, _ = key = change.listed.key
        if change.after is None and not self._registry.count_of_agent(agent_id):
            self._places.pop(agent_id, None)
        if change.what is What.SUSPECTED and agent_id in self._places and self._settings.retry_count:
            self._asked[key] = 0
            self._agenda.set(key, now.steady)

    def on_timer(self, now: Moment) -> None:
        """Ask who is still silent."""
        while (key := self._agenda.pop(now.steady)) is not None:
            asked = self._asked.pop(key)
            if self._is_suspect(key, now):
                self._ask(key, now)
                if asked + 1 < self._settings.retry_count:
                    self._asked[key] = asked + 1
                    self._agenda.set(key, now.steady + self._pause)

    def _is_suspect(self, key: Key, now: Moment) -> bool:
        listed = self._registry.get(key)
        if listed is None or not listed.health.is_suspect or listed.health.status in FALLEN:
            return False
        return not self._registry.network_is_suspected(now.steady, listed)

    def _ask(self, key: Key, now: Moment) -> None:
        second, count = self._second
        self._second = int(now.steady), (count + 1 if second == int(now.steady) else 1)
        peer = self._places.get(key[0])
        if peer is None or self._second[1] > limits.LAN_DOUBTS:
            return
        message = RegisterAck(key[0], Outcome.DUPLICATE, f"{key[1]} {SILENT_SKILL}", self._outbox.stamp(now))
        self._outbox.send(self._outbox.write(message), now, peer)
