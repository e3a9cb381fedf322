"""What a node sends: signed as its profile says, with timestamps that only rise, and some of it a little later.

Answers wait a short random time, so that those of many agents do not meet. What was sent in the last seconds is
remembered by its digest: a challenge is about one datagram, and is answered only when we sent it, and not too often,
since its answer is larger than the challenge and may go to somebody else. Who names the datagram has heard it; for a
nonce of another form, that of another implementation, a host is answered a few times and no more. Spec: specs §3.
"""

from __future__ import annotations

import hashlib
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.challenge import is_about
from skillwire.protocols.skill_discovery.codec import encode_signed
from skillwire.wire.node import Datagram

if TYPE_CHECKING:
    from random import Random

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.identity import Identity
    from skillwire.protocols.skill_discovery.messages import Message, Profile
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

#: What nobody is challenged for: it is said again and again.
_UNCHALLENGED: Final = (b"SKILL_HEARTBEAT:", b"SKILL_STATUS:", b"CHALLENGE")
#: Challenges that are answered at once; as many as there may be registries.
_MOST_PROOFS: Final = int(limits.LAN_REGISTRIES)
#: Of them for nonces that name no datagram of ours; the others are left for those that do.
_MOST_GUESSES: Final = _MOST_PROOFS // 2
#: Of these for one host, in the time of a challenge: the first, and two more since datagrams are lost.
_GUESSES_OF_HOST: Final = 3


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
        self._sent: dict[bytes, float] = {}
        self._proofs = 0.0
        self._guesses: dict[str, float] = {}

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

    def send(self, data: bytes, now: Moment, to: Peer | None = None, *, after: float = 0.0) -> None:
        """Send a datagram to ``to``, or to the group, in ``after`` seconds."""
        heappush(self._waiting, (now.steady + after, next(self._numbers), Datagram(data, to)))

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
            if not datagram.data.startswith(_UNCHALLENGED):
                self._remember(hashlib.sha256(datagram.data).digest(), now)
        return found

    def timer(self) -> float | None:
        """Return when something is to be sent next."""
        return self._waiting[0][0] if self._waiting else None

    def challenged(self, nonce: bytes, host: str, now: Moment) -> bytes | None:
        """Return the digest of the datagram that a nonce is about: by another's rule, that of the last one.

        ``host`` is where the nonce came from. None when there is none, or when too many were answered lately.
        """
        edge = now.steady - self._settings.challenge
        lately = [digest for digest, at in reversed(self._sent.items()) if at > edge]
        named = next((digest for digest in lately if is_about(nonce, digest)), None)
        most = _MOST_PROOFS if named else _MOST_GUESSES
        if not lately or self._proofs > now.steady + most / self._settings.rate:
            return None
        if named is None and not self._may_guess(host, now.steady):
            return None
        self._proofs = max(self._proofs, now.steady) + 1 / self._settings.rate
        return named or lately[0]

    def _may_guess(self, host: str, now: float) -> bool:
        """Whether a host may have one more proof without naming what it is about, and take note of that."""
        pause = self._settings.challenge / _GUESSES_OF_HOST
        free = max(self._guesses.get(host, now), now)
        if free > now + self._settings.challenge - pause / 2:
            return False
        self._guesses.pop(host, None)
        self._guesses[host] = free + pause
        if len(self._guesses) > limits.LAN_SOURCES:
            del self._guesses[next(iter(self._guesses))]
        return True

    def _remember(self, digest: bytes, now: Moment) -> None:
        self._sent.pop(digest, None)
        self._sent[digest] = now.steady
        if len(self._sent) > limits.LAN_SENT:
            del self._sent[next(iter(self._sent))]
