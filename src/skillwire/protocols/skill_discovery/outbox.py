"""What a node sends: signed as its profile says, with timestamps that only rise, and some of it a little later.

Answers wait a short random time, so that those of many agents do not meet. Nothing goes to one address alone that is
more than that address may be sent: :mod:`~skillwire.protocols.skill_discovery.allowances`. Spec: specs §3.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from skillwire.protocols.skill_discovery.allowances import Allowances
from skillwire.protocols.skill_discovery.codec import encode_signed
from skillwire.protocols.skill_discovery.sent_lately import SentLately
from skillwire.wire.node import Datagram

if TYPE_CHECKING:
    from random import Random

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.identity import Identity
    from skillwire.protocols.skill_discovery.messages import Message, Profile
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


class Outbox:
    """The datagrams of one node on their way out."""

    def __init__(self, identity: Identity, profile: Profile, settings: DiscoverySettings, random: Random) -> None:
        self.profile = profile
        self.identity = identity
        self.random = random
        self._settings = settings
        self._waiting: list[tuple[float, int, Datagram]] = []
        self._numbers = count()
        self._stamp = 0
        self.allowances = Allowances(settings.amplification, settings.proof)
        self.sent = SentLately(settings.challenge)

    def stamp(self, now: Moment) -> int:
        """Return a timestamp that is newer than every one before, in milliseconds since the epoch.

        But for those that nobody took, since our clock was far ahead until somebody set it.
        """
        at = int(now.wall * 1000)
        newest = self._stamp if self._stamp <= at + 2 * self._settings.window * 1000 else 0
        self._stamp = max(newest + 1, at)
        return self._stamp

    def write(self, message: Message) -> bytes:
        """Return the datagram of a message, signed where it has to be.

        Raises:
            ValidationError: ``DATAGRAM_FIELD`` or ``DATAGRAM_SIZE``.
        """
        return encode_signed(message, self.identity.sign, self.profile)

    def send(self, data: bytes, now: Moment, to: Peer | None = None, *, after: float = 0.0) -> bool:
        """Send a datagram to the group, or to ``to``, in ``after`` seconds; False when that is too much for it."""
        if to is not None and not self.allowances.take(to, len(data), now.steady):
            return False
        heappush(self._waiting, (now.steady + after, next(self._numbers), Datagram(data, to)))
        return True

    def soon(self) -> float:
        """Return how long an answer waits."""
        return self.random.uniform(*self._settings.answer_delay)

    def due(self, now: Moment) -> list[Datagram]:
        """Return what is to be sent by now."""
        if not self._waiting or self._waiting[0][0] > now.steady:
            return []
        found = []
        while self._waiting and self._waiting[0][0] <= now.steady:
            found.append(heappop(self._waiting)[2])
        for datagram in found:
            self.sent.add(datagram.data, now.steady)
        return found

    def timer(self) -> float | None:
        """Return when something is to be sent next."""
        return self._waiting[0][0] if self._waiting else None
