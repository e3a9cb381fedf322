"""RouteAgent: offers skills to the network, keeps them listed, and unregisters them.

A registration is repeated after short pauses until every known registry has acknowledged it, and a few times at least,
since there may be unknown ones. After that heartbeats suffice: a registry that hears one of a skill that it does not
list requests the registration. Nothing acknowledges a change of status, so it is repeated as often as loss demands. A
peer reads 20 datagrams a second from an unknown source, so registrations leave at that pace (:class:`SendQueue`), and
each acknowledgment releases two more. Goodbyes are paced, too. Nothing signs an acknowledgment in the profile *open*,
so one peer can look like many registries: :class:`KnownRegistries` is bounded, for each host as well. A skill that fits
into a registration and into no answer would be listed and never found, so it is neither offered nor accepted. Spec: SDP
§2.2, §8, §9; specs §3.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import SourceLocation, ValidationError
from skillwire.model.execution import Moment
from skillwire.model.skill import is_version
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.codec import record_fits
from skillwire.protocols.skill_discovery.ingress import VerifiedMessage
from skillwire.protocols.skill_discovery.limits import AmplificationLimit
from skillwire.protocols.skill_discovery.messages import (
    Endpoint,
    HealthStatus,
    Heartbeat,
    Outcome,
    Reason,
    Register,
    SkillType,
)
from skillwire.protocols.skill_discovery.scheduling import SILENT_SKILL, UNKNOWN_SKILL, Outbox, Timer, TimerQueue
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Peer

_JITTER: Final = 0.1
#: Seconds after the first registration: soon, so that a registry that missed it requests one.
_FIRST_HEARTBEAT: Final = (0.6, 1.4)
#: Seconds after which a requested heartbeat is sent again.
_REPEAT_HEARTBEAT: Final = 0.2
#: Seconds after a registration until a heartbeat reports that the skill is not HEALTHY.
_HEARTBEAT_AFTER_REGISTRATION: Final = 0.02
#: Seconds for which a registry that started anew is sent everything once.
_START_SECONDS: Final = 10.0
#: Registries of one host: its agents, and the commands that run there.
_REGISTRIES_PER_HOST: Final = 8


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
            self._schedule.set(("heartbeat", skill_id), now.steady + self._outbox.random.uniform(*_FIRST_HEARTBEAT))
        elif self._status(skill_id) is not HealthStatus.HEALTHY:
            self._schedule.set(("heartbeat", skill_id), now.steady + _HEARTBEAT_AFTER_REGISTRATION)

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
        self._outbox.send(data, now, after=_REPEAT_HEARTBEAT)

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
        if len(crowd) < _REGISTRIES_PER_HOST:
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


class SendQueue(dict[str, None]):
    """Skills whose datagrams wait to be sent, in order: ``pace`` a second, ``most`` when all are acknowledged."""

    def __init__(self, pace: float, most: float, burst: float) -> None:
        super().__init__()
        self._pause = 1 / pace
        self._least = 1 / most
        self._burst = burst
        self._next = self._next_most = 0.0

    def free_at(self, now: float) -> float:
        """Return when the first datagram may leave."""
        return max(self._next, self._next_most, now - self._burst * self._pause)

    def count_sent(self, now: float) -> None:
        """Count a datagram that leaves now."""
        self._next = max(self._next, now - self._burst * self._pause) + self._pause
        self._next_most = max(self._next_most, now - self._burst * self._least) + self._least

    def acknowledged(self) -> None:
        """Release two more, because one was acknowledged."""
        self._next -= 2 * self._pause


#: Bytes of a registration whose record fits into an answer, whatever its fields are.
_SURELY_FITS: Final = 900


def record_of(skill: Register | Offer, *, is_stale: bool = False) -> m.SkillRecord:
    """Return the record of a skill in an answer; a stale one is marked where its version has room. Spec: SDP §3.2."""
    marked = f"{skill.version}{'.' if '+' in skill.version else '+'}{m.STALE}"
    version = marked if is_stale and is_version(marked) else skill.version
    return m.SkillRecord(skill.skill_id, version, skill.endpoint, skill.capabilities, skill.scenes)


def check_scenes(skill: Register | Offer) -> None:
    """Raise ValidationError ``DATAGRAM_FIELD`` for a scene whose name is too long for a group name."""
    for scene in skill.scenes:
        if len(scene) > scenes.LONGEST:
            message = f"a scene has a name of {len(scene)} letters, and up to {scenes.LONGEST} are allowed"
            fix = f"Shorten {scene[:20]}..."
            raise ValidationError("DATAGRAM_FIELD", message, place=SourceLocation(skill.skill_id), fix=fix)


def check_record_size(skill: Register | Offer, size: int = limits.DATAGRAM_BYTES) -> None:
    """Raise ValidationError for a skill that fits into a registration, of ``size`` bytes, and into no answer."""
    check_scenes(skill)
    if size > _SURELY_FITS and not record_fits(record_of(skill, is_stale=True)):
        message = "too long for an answer to a discovery"
        raise ValidationError("DATAGRAM_SIZE", message, place=SourceLocation(skill.skill_id))


_LEAST_SENDS: Final = 2
#: Seconds between a heartbeat and the registration that has to come after it.
_HEARTBEAT_TO_REGISTRATION: Final = 0.03
#: Share of the datagrams that a peer reads from one source.
_FULL_PACE: Final = 0.8
#: Registrations a second at most, however fast they are acknowledged: a peer reads 420 datagrams a second of a host
#: that showed its key, and the heartbeats of a thousand skills are half of that.
_MOST_REGISTRATIONS: Final = 200.0
#: Goodbyes a second: a peer reads a thousand in two seconds of a host that registered as many skills.
_GOODBYES: Final = 600.0
#: Share of the accepted clock difference after which a waiting registration gets a new timestamp.
_STALE_SHARE: Final = 1 / 3


class Offer(NamedTuple):
    """A skill that is offered to the network."""

    skill_id: str
    version: str
    skill_type: SkillType
    endpoint: Endpoint
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()


class Acknowledged(NamedTuple):
    """An agent answered a registration of ours, with another status than before."""

    skill_id: str
    by: Peer
    status: Outcome
    message: str


@dataclass(slots=True)
class _Repeated:
    """A datagram that is sent repeatedly: when it was written, how often it was sent, and its acknowledgments."""

    data: bytes
    at: float
    sends: int = 0
    is_awaited: bool = False  # sent, and no acknowledgment of it has released others
    acknowledged: dict[Peer, Outcome] = field(default_factory=dict)


class RouteAgent:
    """The skills that one agent offers; ``health`` returns the status of a skill for its heartbeat."""

    def __init__(
        self, outbox: Outbox, settings: DiscoverySettings, health: Callable[[str], HealthStatus] | None = None
    ) -> None:
        self._agent_id = outbox.agent_id
        self._outbox = outbox
        self._settings = settings
        self._offers: dict[str, Offer] = {}
        self._repeated: dict[tuple[str, str], _Repeated] = {}
        self._schedule: TimerQueue[tuple[str, str]] = TimerQueue()
        self.timer: Timer = self._schedule.timer
        self._registries = KnownRegistries(settings, outbox.limit)
        self._pauses = {
            "register": settings.retries,
            "status": settings.reports,
            "unregister": settings.goodbye_pauses,
        }
        self._is_settled = False
        pace = settings.rate * _FULL_PACE
        self._heartbeats = Heartbeats(outbox, settings, self._schedule, pace=pace, health=health)
        self._queues = {
            "register": SendQueue(pace, max(_MOST_REGISTRATIONS, pace), settings.burst / 2),
            "unregister": SendQueue(_GOODBYES, _GOODBYES, settings.burst),
        }

    def offer(self, offer: Offer, now: Moment) -> None:
        """Offer a skill, or change its offer. Raises: ValidationError: no registration, or no answer, can hold it."""
        data = self._registration(offer, now)
        check_record_size(offer)
        self._repeat("register", offer.skill_id, data, now)
        self._offers[offer.skill_id] = offer
        self._forget(("unregister", offer.skill_id))

    def report(self, skill_id: str, status: HealthStatus, detail: str, now: Moment) -> None:
        """Send the new status of an offered skill at once. Spec: SDP §5.2."""
        if skill_id not in self._offers:
            return
        self._heartbeats.reported[skill_id] = status
        message = m.StatusUpdate(self._agent_id, skill_id, status, detail, self._outbox.stamp(now))
        self._repeat("status", skill_id, self._outbox.write(message), now)

    def withdraw(self, skill_id: str, reason: Reason, now: Moment) -> None:
        """Unregister a skill, if it is offered."""
        if self._offers.pop(skill_id, None) is None:
            return
        self._heartbeats.forget(skill_id)
        for kind in ("register", "status", "announce"):
            self._forget((kind, skill_id))
        data = self._outbox.write(m.Unregister(self._agent_id, skill_id, reason, self._outbox.stamp(now)))
        self._repeat("unregister", skill_id, data, now)

    def close(self, reason: Reason, now: Moment) -> None:
        """Unregister every skill."""
        for skill_id in tuple(self._offers):
            self.withdraw(skill_id, reason, now)

    @property
    def is_leaving(self) -> bool:
        """Whether goodbyes are still to be sent."""
        least = 1 + len(self._settings.goodbye_pauses)
        return any(kind == "unregister" and one.sends < least for (kind, _), one in self._repeated.items())

    def awaits_from(self, host: str) -> int:
        """Return how many acknowledgments the registries of a host owe."""
        return len(self._repeated) if host in self._registries.hosts else 0

    def on_register_ack(  # noqa: PLR0911 - one return for each kind of answer
        self, received: VerifiedMessage, message: m.RegisterAck, now: Moment
    ) -> Sequence[Acknowledged] | None:
        """Take a registry's acknowledgment of a registration; None when it is for another agent."""
        if message.agent_id != self._agent_id:
            return None
        source = received.source
        skill_id, _, rest = message.message.partition(" ")
        if skill_id not in self._offers:  # another implementation's text: it is about the oldest registration
            waiting = (name for name in self._offers if source not in self._repeated["register", name].acknowledged)
            skill_id = next(waiting, "")
        if not skill_id:
            return ()
        if message.status is Outcome.INVALID and rest == UNKNOWN_SKILL:
            self._register_again(skill_id, source, now)
            return ()
        if not self._registries.add(source, now):
            return ()
        if rest == SILENT_SKILL:
            self._heartbeats.send_requested(skill_id, now)
            return ()
        sent = self._repeated.get(("register", skill_id))
        if sent is None or sent.acknowledged.get(source) is message.status:
            return ()
        is_same = source in sent.acknowledged and {message.status, sent.acknowledged[source]} <= m.ACCEPTED
        sent.acknowledged[source] = message.status
        has_requested = self._registries.is_starting(source, now)
        if sent.is_awaited and (has_requested or self._registries.are_within(sent.acknowledged, now)):
            sent.is_awaited = False
            self._queues["register"].acknowledged()
            self._send_queued("register", now)
        return () if is_same else [Acknowledged(skill_id, source, message.status, rest)]

    def on_unregister_ack(self, received: VerifiedMessage, message: m.UnregisterAck, now: Moment) -> tuple[()] | None:
        """Take a registry's acknowledgment of a goodbye; None when it is for another agent."""
        if message.agent_id != self._agent_id:
            return None
        self._registries.add(received.source, now)  # the goodbye is sent three times in any case
        return ()

    def on_timer(self, now: Moment) -> None:
        """Send what is due."""
        while (due := self._schedule.pop(now.steady)) is not None:
            kind, skill_id = due
            if kind == "heartbeat":
                self._heartbeats.send(skill_id, now)
            elif kind == "announce":
                self._outbox.send(self._renew(skill_id, now).data, now)
            elif kind == "queue":
                self._send_queued(skill_id, now)
            else:
                sent = self._repeated[kind, skill_id]
                if sent.sends > len(self._pauses[kind]) or self._is_acknowledged(kind, skill_id, sent, now):
                    self._settle(kind, skill_id, now)
                elif kind in self._queues:
                    self._queues[kind].setdefault(skill_id, None)
                    self._send_queued(kind, now)
                else:
                    self._send(kind, skill_id, sent, now)

    def _registration(self, offer: Offer, now: Moment) -> bytes:
        return self._outbox.write(m.Register(self._agent_id, *offer, timestamp=self._outbox.stamp(now)))

    def _repeat(self, kind: str, skill_id: str, data: bytes, now: Moment) -> None:
        self._repeated[kind, skill_id] = _Repeated(data, now.steady)
        self._schedule.set((kind, skill_id), now.steady)

    def _forget(self, what: tuple[str, str]) -> None:
        if what[0] in self._queues:
            self._queues[what[0]].pop(what[1], None)
        self._repeated.pop(what, None)
        self._schedule.cancel(what)

    def _send_queued(self, kind: str, now: Moment) -> None:
        queue = self._queues[kind]
        while (skill_id := next(iter(queue), None)) is not None:
            sent = self._repeated[kind, skill_id]
            is_done = self._is_acknowledged(kind, skill_id, sent, now)
            if not is_done and (free := queue.free_at(now.steady)) > now.steady:
                self._schedule.set(("queue", kind), free)
                return
            del queue[skill_id]
            if is_done:
                self._settle(kind, skill_id, now)
                continue
            queue.count_sent(now.steady)
            if kind == "register":
                sent.is_awaited = True
                if now.steady - sent.at > self._settings.window * _STALE_SHARE:  # peers would soon refuse its timestamp
                    sent.data, sent.at = self._registration(self._offers[skill_id], now), now.steady
                self._heartbeats.follow(skill_id, now)
            self._send(kind, skill_id, sent, now)

    def _send(self, kind: str, skill_id: str, sent: _Repeated, now: Moment) -> None:
        pauses = self._pauses[kind]
        self._outbox.send(sent.data, now)
        pause = pauses[min(sent.sends, len(pauses) - 1)]
        sent.sends += 1
        self._schedule.set((kind, skill_id), now.steady + pause)

    def _is_acknowledged(self, kind: str, skill_id: str, sent: _Repeated, now: Moment) -> bool:
        """Return whether all known registries have it. The first skill is repeated anyway, to find the registries."""
        if kind != "register":
            return False
        least = 1 if self._is_settled else _LEAST_SENDS
        is_first = not self._is_settled and skill_id == next(iter(self._offers), None)
        return sent.sends >= least and not is_first and self._registries.are_within(sent.acknowledged, now)

    def _settle(self, kind: str, skill_id: str, now: Moment) -> None:
        if kind != "register":
            self._forget((kind, skill_id))
            return
        self._is_settled = self._is_settled or skill_id == next(iter(self._offers), None)
        self._schedule_renewal(skill_id, now)

    def _schedule_renewal(self, skill_id: str, now: Moment) -> None:
        pause = self._settings.announce_interval * self._outbox.random.uniform(0.8, 1)
        self._schedule.set(("announce", skill_id), now.steady + pause)

    def _renew(self, skill_id: str, now: Moment) -> _Repeated:
        """Write a registration anew; known registries need not acknowledge it again."""
        self._registries.forget_silent(now)
        old = self._repeated["register", skill_id]
        new = _Repeated(self._registration(self._offers[skill_id], now), now.steady)
        new.sends = old.sends
        new.acknowledged = {peer: status for peer, status in old.acknowledged.items() if peer in self._registries}
        self._repeated["register", skill_id] = new
        self._schedule_renewal(skill_id, now)
        return new

    def _register_again(self, skill_id: str, source: Peer, now: Moment) -> None:
        """Register what a registry requests; every skill when the registry is new or started anew."""
        had_it = source in self._repeated["register", skill_id].acknowledged
        is_new = self._registries.add_starting(source, now, had_it=had_it)
        pause = 0.0
        if is_new and self._is_settled:  # other registries that hear a heartbeat first count us as there before
            self._heartbeats.send(skill_id, now)
            pause = _HEARTBEAT_TO_REGISTRATION
        for name in tuple(self._offers) if is_new else (skill_id,):
            self._repeated["register", name].acknowledged.pop(source, None)
            if ("register", name) not in self._schedule and name not in self._queues["register"]:
                self._renew(name, now).sends = 0
                self._schedule.set(("register", name), now.steady + pause)
