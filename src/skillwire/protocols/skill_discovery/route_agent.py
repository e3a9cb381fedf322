"""RouteAgent: offers skills, says that they are alive, and says goodbye.

A registration is sent again after short pauses until every agent that is known to keep a registry has acknowledged it,
and a few times at least, since there may be more of them. After that heartbeats say the same: whoever hears one of a
skill that it does not list asks for the registration. What nobody acknowledges, such as a change of status, is sent as
often as loss demands. Registrations are paced, so that a hundred skills that start together stay within what others
read from one source; toward who asked for them, or while all take them, they go as fast as they are acknowledged.
Goodbyes are paced, too. Spec: SDP §2.2, §8, §9; specs §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.protocols.skill_discovery.agenda import Agenda, Timer
from skillwire.protocols.skill_discovery.doubts import SILENT_SKILL
from skillwire.protocols.skill_discovery.events import Acknowledged
from skillwire.protocols.skill_discovery.heartbeats import Heartbeats
from skillwire.protocols.skill_discovery.known_registries import KnownRegistries
from skillwire.protocols.skill_discovery.messages import (
    TAKEN,
    Endpoint,
    HealthStatus,
    Outcome,
    Reason,
    Register,
    SkillType,
    StatusUpdate,
    Unregister,
)
from skillwire.protocols.skill_discovery.pacing import Line
from skillwire.protocols.skill_discovery.tellable import check_told

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.messages import RegisterAck, UnregisterAck
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

#: **[ours]**: how the message of an acknowledgment goes on that asks for a registration.
UNKNOWN_SKILL: Final = "unknown, register again"
_LEAST_SENDS: Final = 2
_FULL_PACE: Final = 0.8
#: Registrations a second that leave one agent at most, however fast they are acknowledged: a host that has shown its
#: key is read 420 times, and the beats of a thousand skills are half of that.
_MOST_REGISTRATIONS: Final = 200.0
#: Goodbyes a second: a thousand within two, which others read of a host that registered as many.
_GOODBYES: Final = 600.0
#: Of the time that a timestamp may differ from others' clocks, after which what waited in line gets a new one.
_IS_OLD: Final = 1 / 3


class Offer(NamedTuple):
    """A skill that is offered to the network."""

    skill_id: str
    version: str
    skill_type: SkillType
    endpoint: Endpoint
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()


class _Told:
    """Something that is said again and again: its datagram, how often it was sent, and who has acknowledged it."""

    __slots__ = ("acknowledged", "at", "data", "is_awaited", "sends")

    def __init__(self, data: bytes, at: float) -> None:
        self.data = data
        self.at = at
        self.sends = 0
        self.is_awaited = False  # sent, and no acknowledgment of that has let others go
        self.acknowledged: dict[Peer, Outcome] = {}


class RouteAgent:
    """The skills that one agent offers.

    Args:
        agent_id: who offers them.
        outbox: takes what is sent.
        settings: figures.
        on_event: is told what registries say.
        health: says how a skill is, whenever it beats; UNHEALTHY when it raises.
    """

    def __init__(
        self,
        agent_id: str,
        outbox: Outbox,
        settings: DiscoverySettings,
        on_event: Callable[[Acknowledged], object],
        health: Callable[[str], HealthStatus] | None = None,
    ) -> None:
        self._agent_id = agent_id
        self._outbox = outbox
        self._settings = settings
        self._on_event = on_event
        self._offers: dict[str, Offer] = {}
        self._told: dict[tuple[str, str], _Told] = {}
        self._agenda: Agenda[tuple[str, str]] = Agenda()
        self.timer: Timer = self._agenda.timer
        self._registries = KnownRegistries(settings, outbox.allowances.is_proven)
        self._pauses = {
            "register": settings.retries,
            "status": settings.reports,
            "leave": (*settings.goodbye_pauses, *settings.retries),
        }
        self._is_settled = False
        pace = settings.rate * _FULL_PACE
        self._beats = Heartbeats(agent_id, outbox, settings, self._agenda, pace=pace, health=health)
        self._lines = {
            "register": Line(pace, max(_MOST_REGISTRATIONS, pace), settings.burst / 2),
            "leave": Line(_GOODBYES, _GOODBYES, settings.burst),
        }

    def offer(self, offer: Offer, now: Moment) -> None:
        """Offer a skill, or offer it otherwise than before.

        Raises:
            ValidationError: ``DATAGRAM_FIELD`` or ``DATAGRAM_SIZE`` when it cannot be announced, or nobody who hears of
                it could tell of it.
        """
        data = self._registration(offer, now)
        check_told(offer)
        self._tell("register", offer.skill_id, data, now)
        self._offers[offer.skill_id] = offer
        self._forget(("leave", offer.skill_id))

    def report(self, skill_id: str, status: HealthStatus, detail: str, now: Moment) -> None:
        """Say that a skill is otherwise than before, at once; nothing of one that is not offered. Spec: SDP §5.2."""
        if skill_id not in self._offers:
            return
        self._beats.report(skill_id, status)
        stamp = self._outbox.stamp(now)
        data = self._outbox.write(StatusUpdate(self._agent_id, skill_id, status, detail, stamp))
        self._tell("status", skill_id, data, now)

    def withdraw(self, skill_id: str, reason: Reason, now: Moment) -> None:
        """Say goodbye for a skill."""
        if self._offers.pop(skill_id, None) is None:
            return
        self._beats.forget(skill_id)
        for kind in ("register", "status", "announce"):
            self._forget((kind, skill_id))
        data = self._outbox.write(Unregister(self._agent_id, skill_id, reason, self._outbox.stamp(now)))
        self._tell("leave", skill_id, data, now)

    def close(self, reason: Reason, now: Moment) -> None:
        """Say goodbye for every skill."""
        for skill_id in tuple(self._offers):
            self.withdraw(skill_id, reason, now)

    @property
    def is_leaving(self) -> bool:
        """Whether goodbyes are still to be said for the first time, or again."""
        least = 1 + len(self._settings.goodbye_pauses)
        return any(kind == "leave" and told.sends < least for (kind, _), told in self._told.items())

    def awaits_from(self, host: str) -> int:
        """Return how many acknowledgments a host owes us, as one where a registry is."""
        return len(self._told) if host in self._registries.hosts else 0

    def acknowledged(self, message: RegisterAck, source: Peer, now: Moment) -> None:
        """Take what a registry says of a registration of ours."""
        skill_id, _, rest = message.message.partition(" ")
        if skill_id not in self._offers:  # another's rule for the text: the one that has waited longest
            waiting = (name for name in self._offers if source not in self._told["register", name].acknowledged)
            skill_id = next(waiting, "")
        if not skill_id:
            return
        if message.status is Outcome.INVALID and rest == UNKNOWN_SKILL:
            self._register_again(skill_id, source, now)
            return
        if not self._registries.hear(source, now):
            return
        if rest == SILENT_SKILL:
            self._beats.answer_doubt(skill_id, now)
            return
        told = self._told.get(("register", skill_id))
        if told is None or told.acknowledged.get(source) is message.status:
            return
        is_same = source in told.acknowledged and {message.status, told.acknowledged[source]} <= TAKEN
        told.acknowledged[source] = message.status
        if not is_same:
            self._on_event(Acknowledged(skill_id, source, message.status, rest))
        has_asked = self._registries.is_starting(source, now)
        if told.is_awaited and (has_asked or self._registries.are_within(told.acknowledged, now)):
            told.is_awaited = False
            self._lines["register"].answered()
            self._go_on("register", now)

    def farewell(self, message: UnregisterAck, source: Peer, now: Moment) -> None:
        """Take a registry's answer to a goodbye."""
        told = self._told.get(("leave", message.skill_id))
        if told is not None and self._registries.hear(source, now):
            told.acknowledged[source] = message.status

    def on_timer(self, now: Moment) -> None:
        """Say what is due."""
        while (due := self._agenda.pop(now.steady)) is not None:
            kind, skill_id = due
            if kind == "beat":
                self._beats.beat(skill_id, now)
            elif kind == "announce":
                self._outbox.send(self._renew(skill_id, now).data, now)
            elif kind == "line":
                self._go_on(skill_id, now)
            else:
                self._say(kind, skill_id, now)

    def _registration(self, offer: Offer, now: Moment) -> bytes:
        return self._outbox.write(Register(self._agent_id, *offer, timestamp=self._outbox.stamp(now)))

    def _tell(self, kind: str, skill_id: str, data: bytes, now: Moment) -> None:
        self._told[kind, skill_id] = _Told(data, now.steady)
        self._agenda.set((kind, skill_id), now.steady)

    def _forget(self, what: tuple[str, str]) -> None:
        if what[0] in self._lines:
            self._lines[what[0]].leave(what[1])
        self._told.pop(what, None)
        self._agenda.cancel(what)

    def _say(self, kind: str, skill_id: str, now: Moment) -> None:
        told = self._told[kind, skill_id]
        pauses = self._pauses[kind]
        if told.sends > len(pauses) or (kind != "status" and self._is_acknowledged(kind, skill_id, told, now)):
            self._settle(kind, skill_id, now)
        elif kind in self._lines:
            self._lines[kind].join(skill_id)
            self._go_on(kind, now)
        else:
            self._send(kind, skill_id, told, now)

    def _go_on(self, kind: str, now: Moment) -> None:
        """Say what stands in line, as far as it may go by now."""
        line = self._lines[kind]
        while (skill_id := line.first()) is not None:
            told = self._told[kind, skill_id]
            is_done = self._is_acknowledged(kind, skill_id, told, now)
            if not is_done and (free := line.free(now.steady)) > now.steady:
                self._agenda.set(("line", kind), free)
                return
            line.leave(skill_id)
            if is_done:
                self._settle(kind, skill_id, now)
                continue
            line.take(now.steady)
            if kind == "register":
                told.is_awaited = True
                if now.steady - told.at > self._settings.window * _IS_OLD:  # soon nobody would take it
                    told.data, told.at = self._registration(self._offers[skill_id], now), now.steady
                self._beats.follow(skill_id, now)
            self._send(kind, skill_id, told, now)

    def _send(self, kind: str, skill_id: str, told: _Told, now: Moment) -> None:
        pauses = self._pauses[kind]
        self._outbox.send(told.data, now)
        pause = pauses[min(told.sends, len(pauses) - 1)]
        told.sends += 1
        self._agenda.set((kind, skill_id), now.steady + pause)

    def _is_acknowledged(self, kind: str, skill_id: str, told: _Told, now: Moment) -> bool:
        """Whether everybody has answered of whom we know.

        The first skill is said as often as loss demands, so that we get to know who keeps a registry.
        """
        least = 1 + len(self._settings.goodbye_pauses) if kind == "leave" else 1 if self._is_settled else _LEAST_SENDS
        is_first = not self._is_settled and skill_id == next(iter(self._offers), None)
        return told.sends >= least and not is_first and self._registries.are_within(told.acknowledged, now)

    def _settle(self, kind: str, skill_id: str, now: Moment) -> None:
        """Stop saying something; a registration is said anew after a while."""
        if kind != "register":
            self._forget((kind, skill_id))
            return
        self._is_settled = self._is_settled or skill_id == next(iter(self._offers), None)
        self._agenda.set(("announce", skill_id), now.steady + self._announce_pause())

    def _announce_pause(self) -> float:
        return self._settings.announce_interval * self._outbox.random.uniform(0.8, 1)

    def _renew(self, skill_id: str, now: Moment) -> _Told:
        """Write a registration anew, which says nothing new; who has acknowledged it need not again."""
        self._registries.forget_silent(now)
        old = self._told["register", skill_id]
        told = _Told(self._registration(self._offers[skill_id], now), now.steady)
        told.sends = old.sends
        told.acknowledged = {peer: status for peer, status in old.acknowledged.items() if peer in self._registries}
        self._told["register", skill_id] = told
        self._agenda.set(("announce", skill_id), now.steady + self._announce_pause())
        return told

    def _register_again(self, skill_id: str, source: Peer, now: Moment) -> None:
        """Register again what a registry does not list; everything when it is new, or has started anew."""
        had_it = source in self._told["register", skill_id].acknowledged
        is_new = self._registries.hear_anew(source, now, had_it=had_it)
        for name in tuple(self._offers) if is_new else (skill_id,):
            self._told["register", name].acknowledged.pop(source, None)
            if ("register", name) not in self._agenda and name not in self._lines["register"]:
                self._renew(name, now).sends = 0
                self._agenda.set(("register", name), now.steady)
