"""What was sent in the last seconds, by its digest: a challenge is about one datagram, and is answered only for ours.

Spec: SDP §10.3; specs §3.
"""

from __future__ import annotations

import hashlib
from typing import Final

from skillwire import limits
from skillwire.protocols.skill_discovery.challenge import name_of, named_in
from skillwire.protocols.skill_discovery.recent import Recent

#: What nobody is challenged for: it is said again and again, or is a proof itself.
_UNCHALLENGED: Final = (b"SKILL_HEARTBEAT:", b"SKILL_STATUS:", b"CHALLENGE_RESPONSE:")
_CHALLENGE: Final = b"CHALLENGE:"


class _Digests:
    """Digests of datagrams, by how a nonce names them; the oldest goes first when there are too many."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: Recent[bytes, tuple[bytes, float]] = Recent(limits.LAN_SENT)

    def add(self, data: bytes, now: float) -> None:
        digest = hashlib.sha256(data).digest()
        self._known.put(name_of(digest), (digest, now))

    def named(self, nonce: bytes, now: float) -> bytes | None:
        return self._fresh(self._known.get(named_in(nonce)), now)

    def last(self, now: float) -> bytes | None:
        return self._fresh(next(reversed(self._known.values()), None), now)

    def _fresh(self, found: tuple[bytes, float] | None, now: float) -> bytes | None:
        return found[0] if found is not None and found[1] > now - self._seconds else None


class SentLately:
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
