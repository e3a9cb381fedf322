"""How many datagrams are read from one source: a bucket for each host, which fills as time passes.

What a host has registered it owes heartbeats for, so it has a second bucket that fills by twice as many as those are,
and is for what is owed alone: beats, registrations, goodbyes, and what answers us. Questions are read from the
first bucket only, since whoever registers thousands of skills owes nobody a question. A host that has shown a key that
signs is about to register, or to answer what we asked: for some minutes it may send as if it owed a thousand more, as
many as one agent may have; so whoever starts to listen beside an agent with very many skills reads its beats and its
registrations both. When there are more hosts than are remembered, whoever came first goes.

A flood is what this is for, and what comes at once is read at one time. So a bucket is filled once for all that a host
sends in that time, and each datagram more costs a look at the bucket. Spec: specs §3; SPEC.md SDP-rate-bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


#: What is owed begins with one of these.
_OWED: Final = (
    b"SKILL_HEARTBEAT:",
    b"SKILL_REGISTER:",
    b"SKILL_REGISTER_ACK:",
    b"SKILL_UNREGISTER:",
    b"SKILL_UNREGISTER_ACK:",
    b"SKILL_STATUS:",
    b"SKILL_DISCOVER_RESPONSE:",
    b"CHALLENGE_RESPONSE:",
)


class _Bucket:
    """How many datagrams of a host may be read yet, how many of what it owes beside them, and as of when."""

    __slots__ = ("left", "owed", "since")

    def __init__(self, left: float, owed: float, since: float) -> None:
        self.left = left
        self.owed = owed
        self.since = since


class Rates:
    """The buckets of all sources.

    Args:
        settings: figures.
        owed: how many skills a host owes heartbeats for.
    """

    def __init__(self, settings: DiscoverySettings, owed: Callable[[str], int]) -> None:
        self._rate = settings.rate
        self._burst = settings.burst
        self._beat = 2 / settings.heartbeat_interval
        self._proof = settings.proof
        self._owed = owed
        self._known: Recent[str, float] = Recent(limits.LAN_SOURCES)
        self._buckets: dict[str, _Bucket] = {}

    def allows(self, host: str, data: bytes, now: float) -> bool:
        """Whether one more datagram of ``host`` is read."""
        bucket = self._buckets.get(host)
        if bucket is None or bucket.since != now:
            bucket = self._fill(bucket, host, now)
        if bucket.owed >= 1 and data.startswith(_OWED):
            bucket.owed -= 1
            return True
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True

    def know(self, host: str, now: float) -> None:
        """Take note that somebody at a host has shown a key that signs what came from there."""
        self._known.put(host, now + self._proof)

    def _fill(self, bucket: _Bucket | None, host: str, now: float) -> _Bucket:
        owed = self._owed(host)
        if self._known.get(host, now) > now:
            owed += limits.LAN_SKILLS_PER_AGENT
        beats = owed * self._beat
        if bucket is None:
            if len(self._buckets) >= limits.LAN_SOURCES:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[host] = _Bucket(self._burst, beats, now)
        passed = now - bucket.since
        bucket.left = min(self._burst, bucket.left + passed * self._rate)
        bucket.owed = min(beats, bucket.owed + passed * beats)
        bucket.since = now
        return bucket
