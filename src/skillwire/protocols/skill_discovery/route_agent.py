"""RouteAgent: offers skills, says that they are alive, and says goodbye.

A registration is sent again after short pauses until every agent that is known to keep a registry has acknowledged it,
and a few times at least, since there may be more of them. After that heartbeats say the same: whoever hears one of a
skill that it does not list asks for the registration. What nobody acknowledges, such as a change of status, is sent as
often as loss demands. Registrations are paced, so that a hundred skills that start together stay within what others
read from one source; toward who asked for them, or while all take them, they go as fast as they are acknowledged.
Goodbyes are paced, too. Spec: SDP §2.2, §8, §9; specs §3.

How fast one agent says much of one kind: what waits stands in line, and is said no faster than others read.

A stranger is read 20 times a second, so nothing goes faster by itself. Who has asked for what we say, and answers that
it took it, reads as fast as it answers; so each such answer lets two more go at once, up to a bound. Where answers are
lost or late, it goes on at the pace that everybody reads. Spec: specs §3.

Whether others can tell of a skill that fits into a registration.

A registration names its agent once, and no scene's group; an answer names who asks, and the group of a scene has a name
that is longer than the scene's. What no answer has room for would be listed and never found, so it is neither offered
nor taken. Spec: specs §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import SourceLocation, ValidationError
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.codec import record_fits
from skillwire.protocols.skill_discovery.events import Acknowledged
from skillwire.protocols.skill_discovery.heartbeats import SILENT_SKILL, Heartbeats, KnownRegistries
from skillwire.protocols.skill_discovery.messages import (
    ACCEPTED,
    Endpoint,
    HealthStatus,
    Outcome,
    Reason,
    Register,
    SkillRecord,
    SkillType,
    StatusUpdate,
    Unregister,
)
from skillwire.protocols.skill_discovery.scheduling import Timer, TimerQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.messages import RegisterAck, UnregisterAck
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


class SendQueue:
    """Skills that wait to be told of, each once, in the order in which they came.

    Args:
        pace: datagrams a second that go by themselves.
        most: datagrams a second that go at most, however many are answered.
        burst: datagrams that go at once after a quiet time.
    """

    def __init__(self, pace: float, most: float, burst: float) -> None:
        self._pause = 1 / pace
        self._least = 1 / most
        self._burst = burst
        self._next = self._next_most = 0.0
        self._waiting: dict[str, None] = {}

    def __contains__(self, skill_id: str) -> bool:
        return skill_id in self._waiting

    def join(self, skill_id: str) -> None:
        """Wait; who waits already keeps its place."""
        self._waiting.setdefault(skill_id)

    def leave(self, skill_id: str) -> None:
        """Wait no more."""
        self._waiting.pop(skill_id, None)

    def first(self) -> str | None:
        """Return who has waited longest."""
        return next(iter(self._waiting), None)

    def free(self, now: float) -> float:
        """Return when the first may go, by the steady clock; a time that is over when it may go now."""
        return max(self._next, self._next_most, now - self._burst * self._pause)

    def take(self, now: float) -> None:
        """Take note that one has gone."""
        self._next = max(self._next, now - self._burst * self._pause) + self._pause
        self._next_most = max(self._next_most, now - self._burst * self._least) + self._least

    def answered(self) -> None:
        """Let two more go, since one was taken."""
        self._next -= 2 * self._pause


#: Bytes of a registration whose record is short enough to be told, whatever is in it.
_SURELY_FITS: Final = 900


def record_of(skill: Register | Offer) -> SkillRecord:
    """Return a skill as it is told to who asks. Spec: SDP §3.2."""
    return SkillRecord(skill.skill_id, skill.version, skill.endpoint, skill.capabilities, skill.scenes)


def check_scenes(skill: Register | Offer) -> None:
    """Refuse a skill in a scene whose group would have no name.

    Raises:
        ValidationError: ``DATAGRAM_FIELD`` with the name of the skill.
    """
    for scene in skill.scenes:
        if len(scene) > scenes.LONGEST:
            message = f"a scene has a name of {len(scene)} letters, and up to {scenes.LONGEST} count"
            fix = f"Shorten {scene[:20]}..."
            raise ValidationError("DATAGRAM_FIELD", message, place=SourceLocation(skill.skill_id), fix=fix)


def check_record_size(skill: Register | Offer, size: int = limits.DATAGRAM_BYTES) -> None:
    """Refuse a skill that fits into a registration, and that nobody could tell of.

    Args:
        skill: whose fields have their form.
        size: bytes of its registration, if there is one.

    Raises:
        ValidationError: as :func:`check_scenes`; ``DATAGRAM_SIZE`` when it does not fit into an answer.
    """
    check_scenes(skill)
    if size > _SURELY_FITS and not record_fits(record_of(skill)):
        raise ValidationError("DATAGRAM_SIZE", "too long to be told to who asks", place=SourceLocation(skill.skill_id))


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


class _Announced:
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
        self._told: dict[tuple[str, str], _Announced] = {}
        self._agenda: TimerQueue[tuple[str, str]] = TimerQueue()
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
            "register": SendQueue(pace, max(_MOST_REGISTRATIONS, pace), settings.burst / 2),
            "leave": SendQueue(_GOODBYES, _GOODBYES, settings.burst),
        }

    def offer(self, offer: Offer, now: Moment) -> None:
        """Offer a skill, or offer it otherwise than before.

        Raises:
            ValidationError: ``DATAGRAM_FIELD`` or ``DATAGRAM_SIZE`` when it cannot be announced, or nobody who hears of
                it could tell of it.
        """
        data = self._registration(offer, now)
        check_record_size(offer)
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
        is_same = source in told.acknowledged and {message.status, told.acknowledged[source]} <= ACCEPTED
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
        self._told[kind, skill_id] = _Announced(data, now.steady)
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

    def _send(self, kind: str, skill_id: str, told: _Announced, now: Moment) -> None:
        pauses = self._pauses[kind]
        self._outbox.send(told.data, now)
        pause = pauses[min(told.sends, len(pauses) - 1)]
        told.sends += 1
        self._agenda.set((kind, skill_id), now.steady + pause)

    def _is_acknowledged(self, kind: str, skill_id: str, told: _Announced, now: Moment) -> bool:
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

    def _renew(self, skill_id: str, now: Moment) -> _Announced:
        """Write a registration anew, which says nothing new; who has acknowledged it need not again."""
        self._registries.forget_silent(now)
        old = self._told["register", skill_id]
        told = _Announced(self._registration(self._offers[skill_id], now), now.steady)
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
