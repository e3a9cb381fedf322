"""How many datagrams are read from one source: a bucket for each host, which fills as time passes.

What a host has registered it owes heartbeats for, so its bucket fills faster by twice as many as those are. A host
that has shown a key that signs is about to register, or to answer what we asked: for some minutes it may send as if it
owed a thousand more, as many as one agent may have; so whoever starts to listen beside an agent with very many skills
reads its beats and its registrations both. When there are more hosts than are remembered, whoever came first goes.

A flood is what this is for, so a host whose bucket is empty is remembered with the time at which there will be
something in it again, and until then a look at that is all that its datagrams cost. Spec: specs §3; issue "20
datagrams a second per source".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire import limits

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


class Rates:
    """The buckets of all sources."""

    def __init__(self, settings: DiscoverySettings) -> None:
        self._rate = settings.rate
        self._burst = settings.burst
        self._beat = 2 / settings.heartbeat_interval
        self._proof = settings.proof
        self._known: dict[str, float] = {}
        self._buckets: dict[str, tuple[float, float]] = {}
        self._empty: dict[str, float] = {}  # until when

    def is_empty(self, host: str, now: float) -> bool:
        """Whether it is known already that no more of ``host`` is read for the moment."""
        return self._empty.get(host, now) > now

    def allows(self, host: str, owed: int, now: float) -> bool:
        """Whether one more datagram of ``host`` is read, which owes heartbeats for so many skills."""
        if self._known.get(host, now) > now:
            owed += limits.LAN_SKILLS_PER_AGENT
        most = self._burst + owed * self._beat
        rate = self._rate + owed * self._beat
        bucket = self._buckets.get(host)
        if bucket is None:
            self._make_room()
            left = most
        else:
            left = min(most, bucket[0] + (now - bucket[1]) * rate)
        if left < 1:
            self._buckets[host] = left, now
            self._empty[host] = now + (1 - left) / rate
            return False
        self._buckets[host] = left - 1, now
        return True

    def know(self, host: str, now: float) -> None:
        """Take note that somebody at a host has shown a key that signs what came from there."""
        self._known.pop(host, None)
        self._known[host] = now + self._proof
        self._empty.pop(host, None)
        if len(self._known) > limits.LAN_SOURCES:
            del self._known[next(iter(self._known))]

    def _make_room(self) -> None:
        if len(self._buckets) >= limits.LAN_SOURCES:
            oldest = next(iter(self._buckets))
            del self._buckets[oldest]
            self._empty.pop(oldest, None)
