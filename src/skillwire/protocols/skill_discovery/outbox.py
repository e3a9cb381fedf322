"""What a node sends: signed as its profile says, with timestamps that only rise, and some of it a little later.

Answers wait a short random time, so that those of many agents do not meet. Nothing goes to one address alone that is
more than that address may be sent: :mod:`~skillwire.protocols.skill_discovery.allowances`. What was sent in the last
seconds is remembered by its digest: a challenge is about one datagram, and is answered only when we sent it, and not
too often, since a signature costs time. Spec: specs §3.
"""

from __future__ import annotations

import hashlib
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.allowances import Allowances
from skillwire.protocols.skill_discovery.challenge import name_of, named_in
from skillwire.protocols.skill_discovery.codec import encode_signed
from skillwire.wire.node import Datagram

if TYPE_CHECKING:
    from random import Random

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.identity import Identity
    from skillwire.protocols.skill_discovery.messages import Message, Profile
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

#: What nobody is challenged for: it is said again and again, or is a proof itself.
_UNCHALLENGED: Final = (b"SKILL_HEARTBEAT:", b"SKILL_STATUS:", b"CHALLENGE_RESPONSE:")
_CHALLENGE: Final = b"CHALLENGE:"
#: Proofs a second, and at once: of 2 % of a core, and for as many agents as start together.
_PROOFS: Final = 200.0
_MOST_PROOFS: Final = 256


class _Sent:
    """Digests of datagrams that were sent lately, by how a nonce names them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._digests: dict[bytes, tuple[bytes, float]] = {}

    def add(self, data: bytes, now: float) -> None:
        digest = hashlib.sha256(data).digest()
        name = name_of(digest)
        self._digests.pop(name, None)
        self._digests[name] = digest, now
        if len(self._digests) > limits.LAN_SENT:
            del self._digests[next(iter(self._digests))]

    def named(self, nonce: bytes, now: float) -> bytes | None:
        return self._fresh(self._digests.get(named_in(nonce)), now)

    def last(self, now: float) -> bytes | None:
        return self._fresh(next(reversed(self._digests.values()), None), now)

    def _fresh(self, found: tuple[bytes, float] | None, now: float) -> bytes | None:
        return found[0] if found is not None and found[1] > now - self._seconds else None


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
        self._said = _Sent(settings.challenge)
        self._challenges = _Sent(settings.challenge)  # apart, since whoever sends us much makes us send many
        self._proofs = 0.0

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
            if datagram.data.startswith(_CHALLENGE):
                self._challenges.add(datagram.data, now.steady)
            elif not datagram.data.startswith(_UNCHALLENGED):
                self._said.add(datagram.data, now.steady)
        return found

    def timer(self) -> float | None:
        """Return when something is to be sent next."""
        return self._waiting[0][0] if self._waiting else None

    def challenged(self, nonce: bytes, now: Moment) -> bytes | None:
        """Return the digest of the datagram that a nonce is about: by another's rule, that of the last one.

        None when we have sent nothing for as long as a challenge has to be answered.
        """
        named = self._said.named(nonce, now.steady) or self._challenges.named(nonce, now.steady)
        return named or self._said.last(now.steady)

    def may_prove(self, now: Moment) -> bool:
        """Whether one more challenge is answered now, and take note of that."""
        if self._proofs > now.steady + _MOST_PROOFS / _PROOFS:
            return False
        self._proofs = max(self._proofs, now.steady) + 1 / _PROOFS
        return True
