"""What a node sends: signed as its profile says, with timestamps that only rise, and some of it a little later.

Answers wait a short random time, so that those of many agents do not meet. Nothing goes to one address alone that is
more than that address may be sent: :mod:`~skillwire.protocols.skill_discovery.limits`. Spec: specs §3.

What was sent in the last seconds, by its digest: a challenge is about one datagram, and is answered only for ours.

Spec: SDP §10.3; specs §3.
"""

from __future__ import annotations

import hashlib
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.challenges import name_of, named_in
from skillwire.protocols.skill_discovery.codec import encode_signed
from skillwire.protocols.skill_discovery.limits import AmplificationLimit
from skillwire.protocols.skill_discovery.scheduling import BoundedDict
from skillwire.wire.node import Datagram

if TYPE_CHECKING:
    from random import Random

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.identity import Identity
    from skillwire.protocols.skill_discovery.messages import Message, Profile
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


#: What nobody is challenged for: it is said again and again, or is a proof itself.
_UNCHALLENGED: Final = (b"SKILL_HEARTBEAT:", b"SKILL_STATUS:", b"CHALLENGE_RESPONSE:")
_CHALLENGE: Final = b"CHALLENGE:"


class _Digests:
    """Digests of datagrams, by how a nonce names them; the oldest goes first when there are too many."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: BoundedDict[bytes, tuple[bytes, float]] = BoundedDict(limits.LAN_SENT)

    def add(self, data: bytes, now: float) -> None:
        digest = hashlib.sha256(data).digest()
        self._known.put(name_of(digest), (digest, now))

    def named(self, nonce: bytes, now: float) -> bytes | None:
        return self._fresh(self._known.get(named_in(nonce)), now)

    def last(self, now: float) -> bytes | None:
        return self._fresh(next(reversed(self._known.values()), None), now)

    def _fresh(self, found: tuple[bytes, float] | None, now: float) -> bytes | None:
        return found[0] if found is not None and found[1] > now - self._seconds else None


class RecentlySent:
    """The datagrams of one node that may be challenged.

    Args:
        seconds: for which a datagram may be.
    """

    def __init__(self, seconds: float) -> None:
        self._said = _Digests(seconds)
        self._challenges = _Digests(seconds)  # apart, since whoever sends us much makes us send many

    def add(self, data: bytes, now: float) -> None:
        """Take note of a datagram that is sent ``now``, by the steady clock."""
        if data.startswith(_CHALLENGE):
            self._challenges.add(data, now)
        elif not data.startswith(_UNCHALLENGED):
            self._said.add(data, now)

    def challenged(self, nonce: bytes, now: float) -> bytes | None:
        """Return the digest of the datagram that a nonce is about: by another's rule, that of the last one.

        None when nothing was sent for as long as a challenge has to be answered.
        """
        named = self._said.named(nonce, now) or self._challenges.named(nonce, now)
        return named or self._said.last(now)


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
        self.allowances = AmplificationLimit(settings.amplification, settings.proof)
        self.sent = RecentlySent(settings.challenge)

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
