"""Heartbeats: how an agent reports that its skills are alive, which registries hear it, and how they ask for one.

Nothing signs an acknowledgment in the profile *open*, so one peer can look like many registries.
:class:`KnownRegistries` is therefore bounded, for each host as well. With a third of all datagrams lost, two missed
heartbeats in a row are common. **[ours]**: :class:`SuspectPinger` sends the agent of a suspect ``SKILL_REGISTER_ACK``
with ``DUPLICATE``, which is true, and the text :data:`SILENT_SKILL`; our agents answer with a heartbeat at once, and
others read that they are registered. Spec: SDP §2.2, §8, "retryCount"; specs §3.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.health import FALLEN, Change, ChangeKind, Key
from skillwire.protocols.skill_discovery.limits import AmplificationLimit
from skillwire.protocols.skill_discovery.messages import HealthStatus, Heartbeat, Outcome, RegisterAck
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.scheduling import SILENT_SKILL, Outbox, Timer, TimerQueue
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Peer

_JITTER: Final = 0.1
#: Seconds after the first registration: soon, so that a registry that missed it requests one.
_FIRST: Final = (0.6, 1.4)
#: Seconds after which a requested heartbeat is sent again.
_AGAIN: Final = 0.2
#: Seconds after a registration until a heartbeat reports that the skill is not HEALTHY.
_AFTER: Final = 0.02
#: Seconds for which a registry that started anew is sent everything once.
_START_SECONDS: Final = 10.0
#: Registries of one host: its agents, and the commands that run there.
_PER_HOST: Final = 8


class Heartbeats:
    """The heartbeats of one agent's skills; ``schedule`` holds when each is due, as ``("heartbeat", skill_id)``."""

    def __init__(
        self,
        outbox: Outbox,
        settings: DiscoverySettings,
        schedule: TimerQueue[tuple[str, str]],
        *,
        pace: float,
        health: Callable[[str], HealthStatus] | None,
    ) -> None:
        self.reported: dict[str, HealthStatus] = {}
        self._outbox = outbox
        self._settings = settings
        self._schedule = schedule
        self._pace = pace
        self._health = health or (lambda skill_id: self.reported.get(skill_id, HealthStatus.HEALTHY))
        self._next_requested = 0.0

    def forget(self, skill_id: str) -> None:
        """Send no more for a skill."""
        self.reported.pop(skill_id, None)
        self._schedule.cancel(("heartbeat", skill_id))

    def follow(self, skill_id: str, now: Moment) -> None:
        """Send a heartbeat after a registration that leaves now, at once when the skill is not HEALTHY."""
        if ("heartbeat", skill_id) not in self._schedule:
            self._schedule.set(("heartbeat", skill_id), now.steady + self._outbox.random.uniform(*_FIRST))
        elif self._status(skill_id) is not HealthStatus.HEALTHY:
            self._schedule.set(("heartbeat", skill_id), now.steady + _AFTER)

    def send(self, skill_id: str, now: Moment) -> bytes:
        """Send a heartbeat; the next one is scheduled first, so that no failure stops them."""
        pause = self._settings.heartbeat_interval * self._outbox.random.uniform(1 - _JITTER, 1)
        self._schedule.set(("heartbeat", skill_id), now.steady + pause)
        status = self._status(skill_id)
        data = self._outbox.write(Heartbeat(self._outbox.agent_id, skill_id, status, self._outbox.stamp(now)))
        self._outbox.send(data, now)
        return data

    def send_requested(self, skill_id: str, now: Moment) -> None:
        """Send a heartbeat for a registry that suspects a skill, twice, and no faster than peers read."""
        if self._next_requested > now.steady + self._settings.burst / 2 / self._pace:
            return
        self._next_requested = max(self._next_requested, now.steady) + 2 / self._pace
        data = self.send(skill_id, now)
        self._outbox.send(data, now, after=_AGAIN)

    def _status(self, skill_id: str) -> HealthStatus:
        try:
            status = HealthStatus(self._health(skill_id))
        except Exception:  # noqa: BLE001 - the callback is the application's; a skill without a status is not well
            return HealthStatus.UNHEALTHY
        return HealthStatus.UNHEALTHY if status is HealthStatus.UNKNOWN else status


class KnownRegistries:
    """The addresses that answered as registries, and when each was last heard."""

    def __init__(self, settings: DiscoverySettings, limit: AmplificationLimit) -> None:
        self._settings = settings
        self._limit = limit
        self._seen: dict[Peer, float] = {}
        self._started: dict[Peer, float] = {}
        self.hosts: set[str] = set()

    def __contains__(self, source: Peer) -> bool:
        return source in self._seen

    def add(self, source: Peer, now: Moment) -> bool:
        """Remember a registry; False when there are too many."""
        if source not in self._seen and not self._displace(source, now.steady):
            return False
        self._seen[source] = now.steady
        self.hosts.add(source.host)
        return True

    def add_starting(self, source: Peer, now: Moment, *, had_it: bool) -> bool:
        """Remember a registry that requests a registration; return whether it is new, or started anew."""
        is_new = (had_it or source not in self._seen) and not self.is_starting(source, now)
        if not self.add(source, now):
            return False
        if is_new:
            self._started[source] = now.steady + _START_SECONDS
        return is_new

    def is_starting(self, source: Peer, now: Moment) -> bool:
        """Return whether a registry is being sent everything."""
        return self._started.get(source, 0.0) > now.steady

    def are_within(self, peers: Container[Peer], now: Moment) -> bool:
        """Return whether there are registries, and all that still count are among ``peers``."""
        edge = now.steady - self._settings.registry_seen
        return bool(self._seen) and all(peer in peers for peer, seen in self._seen.items() if seen > edge)

    def forget_silent(self, now: Moment) -> None:
        """Forget those that no longer count."""
        edge = now.steady - self._settings.registry_seen
        self._forget([peer for peer, seen in self._seen.items() if seen <= edge])

    def _displace(self, source: Peer, now: float) -> bool:
        """Return whether one more is accepted; a proven one replaces an unproven one, or the most silent."""
        crowd = [peer for peer in self._seen if peer.host == source.host]
        if len(crowd) < _PER_HOST:
            crowd = list(self._seen)
            if len(crowd) < limits.LAN_REGISTRIES:
                return True
        if not self._limit.is_proven(source, now):
            return False
        self._forget([min(crowd, key=lambda peer: (self._limit.is_proven(peer, now), self._seen[peer]))])
        return True

    def _forget(self, peers: Iterable[Peer]) -> None:
        for peer in peers:
            del self._seen[peer]
            self._started.pop(peer, None)
        self.hosts = {one.host for one in self._seen}


class SuspectPinger:
    """Asks agents of suspects for a heartbeat until silence makes a skill UNHEALTHY, or the network is suspected."""

    def __init__(self, registry: Registry, outbox: Outbox, settings: DiscoverySettings) -> None:
        self._registry = registry
        self._outbox = outbox
        self._settings = settings
        self._addresses: dict[str, Peer] = {}
        self._schedule: TimerQueue[tuple[Key, int]] = TimerQueue()  # with the number of requests sent
        self.timer: Timer = self._schedule.timer
        self._sent_in_second = (0, 0)
        span = (settings.unhealthy_missed - settings.suspect_missed) * settings.heartbeat_interval
        self._pause = span / (settings.retry_count + 1)

    def note_address(self, agent_id: str, peer: Peer) -> None:
        """Remember where an agent with listed skills was heard from."""
        if self._addresses.get(agent_id) != peer and self._registry.count_of_agent(agent_id):
            self._addresses[agent_id] = peer

    def changed(self, change: Change, now: Moment) -> None:
        """Take a change of the registry."""
        if change.after is not None and change.kind is not ChangeKind.SUSPECTED:
            return
        agent_id, _ = key = change.listed.key
        if change.after is None and not self._registry.count_of_agent(agent_id):
            self._addresses.pop(agent_id, None)
        if change.kind is ChangeKind.SUSPECTED and agent_id in self._addresses and self._settings.retry_count:
            self._schedule.set((key, 0), now.steady)

    def on_timer(self, now: Moment) -> None:
        """Ask the agents of skills that are still silent."""
        while (due := self._schedule.pop(now.steady)) is not None:
            key, sends = due
            listed = self._registry.get(key)
            if listed is None or not listed.health.is_suspect or listed.health.status in FALLEN:
                continue
            if self._registry.network_is_suspected(now.steady, listed):
                continue
            second, count = self._sent_in_second
            self._sent_in_second = int(now.steady), (count + 1 if second == int(now.steady) else 1)
            peer = self._addresses.get(key[0])
            if peer is not None and self._sent_in_second[1] <= limits.LAN_SUSPECT_PINGS:
                message = RegisterAck(key[0], Outcome.DUPLICATE, f"{key[1]} {SILENT_SKILL}", self._outbox.stamp(now))
                self._outbox.send(self._outbox.write(message), now, peer)
            if sends + 1 < self._settings.retry_count:
                self._schedule.set((key, sends + 1), now.steady + self._pause)
