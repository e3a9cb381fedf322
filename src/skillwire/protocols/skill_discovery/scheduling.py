"""Scheduling: what a node does later, and the datagrams that it sends.

Messages are signed as the profile says, with timestamps that only rise. Answers wait a short random time, so that those
of several agents do not collide. A datagram for one address leaves only when the address may be sent that many bytes
(:class:`~skillwire.protocols.skill_discovery.limits.AmplificationLimit`). Spec: specs §3.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from random import Random
from typing import Final, Generic, TypeVar

from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.codec import ABOUT_BYTES, NONCE_BYTES, encode_signed
from skillwire.protocols.skill_discovery.identity import Identity
from skillwire.protocols.skill_discovery.limits import AmplificationLimit
from skillwire.protocols.skill_discovery.messages import Challenge, Message, Outcome, Profile, RegisterAck
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Datagram, Peer

K = TypeVar("K")

#: **[ours]**: the end of the acknowledgment's message that asks an agent to register a skill.
UNKNOWN_SKILL: Final = "unknown, register again"
#: **[ours]**: the same that asks for a heartbeat of a silent skill.
SILENT_SKILL: Final = "silent, are you there"
#: Cancelled times that the heap may hold beside as many as there are valid ones.
_STALE_TIMES: Final = 64

#: Returns when something is due next, by the steady clock.
Timer = Callable[[], float | None]


def earliest(*timers: Timer) -> float | None:
    """Return when the first of several timers is due."""
    return min((due for timer in timers if (due := timer()) is not None), default=None)


class TimerQueue(Generic[K]):
    """Things that are due at a time of the steady clock; each can be moved or cancelled in constant time."""

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, int]] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._numbers = count()

    def __contains__(self, thing: K) -> bool:
        return thing in self._due

    def set(self, thing: K, due: float) -> None:
        """Make ``thing`` due at ``due`` instead of any earlier choice."""
        number = next(self._numbers)
        self._due[thing] = due, number
        heappush(self._timers, (due, number, thing))
        if len(self._timers) > 2 * len(self._due) + _STALE_TIMES:
            self._timers = [(due, number, thing) for thing, (due, number) in self._due.items()]
            heapify(self._timers)

    def set_earlier(self, thing: K, due: float) -> None:
        """Make ``thing`` due at ``due``, unless it is due before."""
        known = self._due.get(thing)
        if known is None or due < known[0]:
            self.set(thing, due)

    def cancel(self, thing: K) -> None:
        """Remove ``thing``, if it is there."""
        self._due.pop(thing, None)

    def pop(self, now: float) -> K | None:
        """Remove and return the next thing that is due by ``now``, if any."""
        while self._timers and self._timers[0][0] <= now:
            due, number, thing = heappop(self._timers)
            if self._due.get(thing) == (due, number):
                del self._due[thing]
                return thing
        return None

    def timer(self) -> float | None:
        """Return when something is due next."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][:2]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None


class Outbox:
    """The outgoing datagrams of one node."""

    def __init__(
        self, agent_id: str, identity: Identity, profile: Profile, settings: DiscoverySettings, random: Random
    ) -> None:
        self.agent_id = agent_id
        self.identity = identity
        self.profile = profile
        self.random = random
        self.limit = AmplificationLimit(settings.amplification, settings.proof)
        self._settings = settings
        self._waiting: list[tuple[float, int, Datagram]] = []
        self._numbers = count()
        self._stamp = 0

    def stamp(self, now: Moment) -> int:
        """Return a timestamp in ms, newer than all before, but for those far ahead of a clock that was set back."""
        at = int(now.wall * 1000)
        newest = self._stamp if self._stamp <= at + 2 * self._settings.window * 1000 else 0
        self._stamp = max(newest + 1, at)
        return self._stamp

    def write(self, message: Message) -> bytes:
        """Return the datagram of a message, signed where the profile says so. Raises: ValidationError."""
        return encode_signed(message, self.identity.sign, self.profile)

    def send(self, data: bytes, now: Moment, to: Peer | None = None, *, after: float = 0.0) -> bool:
        """Send a datagram to the group, or to ``to``, in ``after`` seconds; False when ``to`` may not get as much."""
        if to is not None and not self.limit.take(to, len(data), now.steady):
            return False
        heappush(self._waiting, (now.steady + after, next(self._numbers), Datagram(data, to)))
        return True

    def nonce(self, digest: bytes) -> bytes:
        """Return a new nonce, whose end names a datagram by the beginning of its SHA-256."""
        return self.random.randbytes(NONCE_BYTES) + digest[:ABOUT_BYTES]

    def send_challenge(self, peer: Peer, nonce: bytes, now: Moment) -> None:
        """Ask the agent at an address to sign a nonce, and the SHA-256 of the datagram that it names."""
        self.send(self.write(Challenge(self.agent_id, nonce, self.stamp(now))), now, peer)

    def request_registration(self, agent_id: str, skill_id: str, peer: Peer, now: Moment) -> None:
        """Ask an agent to register a skill with us."""
        message = RegisterAck(agent_id, Outcome.INVALID, f"{skill_id} {UNKNOWN_SKILL}", self.stamp(now))
        self.send(self.write(message), now, peer)

    def answer_delay(self) -> float:
        """Return how many seconds an answer waits."""
        return self.random.uniform(*self._settings.answer_delay)

    def due(self, now: Moment) -> list[Datagram]:
        """Return what is to be sent by now."""
        found = []
        while self._waiting and self._waiting[0][0] <= now.steady:
            found.append(heappop(self._waiting)[2])
        return found

    def timer(self) -> float | None:
        """Return when a datagram is to be sent next."""
        return self._waiting[0][0] if self._waiting else None
