"""How many datagrams are read from one source: a bucket for each host, which fills as time passes.

What a host has registered it owes heartbeats for, so its bucket fills faster by twice as many as those are. A host
that has shown a key that signs is about to register, or to answer what we asked: for some minutes it may send as if it
owed a thousand more, as many as one agent may have; so whoever starts to listen beside an agent with very many skills
reads its beats and its registrations both. When there are more hosts than are remembered, whoever came first goes.
Spec: specs §3; issue "20 datagrams a second per source".
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

    def allows(self, host: str, owed: int, now: float) -> bool:
        """Whether one more datagram of ``host`` is read, which owes heartbeats for so many skills."""
        if self._known.get(host, now) > now:
            owed += limits.LAN_SKILLS_PER_AGENT
        most = self._burst + owed * self._beat
        left, since = self._buckets.get(host, (most, now))
        left = min(most, left + (now - since) * (self._rate + owed * self._beat))
        if host not in self._buckets and len(self._buckets) >= limits.LAN_SOURCES:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[host] = (left - 1 if left >= 1 else left), now
        return left >= 1

    def know(self, host: str, now: float) -> None:
        """Take note that somebody at a host has shown a key that signs what came from there."""
        self._known.pop(host, None)
        self._known[host] = now + self._proof
        if len(self._known) > limits.LAN_SOURCES:
            del self._known[next(iter(self._known))]
