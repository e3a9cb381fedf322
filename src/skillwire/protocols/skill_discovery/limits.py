"""How many datagrams are read from one source: a bucket for each host, which fills as time passes.

What a host has registered it owes heartbeats for, so it has a second bucket that fills by twice as many as those are,
and is for what is owed alone: beats, registrations, goodbyes, and what answers us. Questions are read from the
first bucket only, since whoever registers thousands of skills owes nobody a question. A host that has shown a key that
signs is about to register, or to answer what we asked: for some minutes it may send as if it owed a thousand more, as
many as one agent may have; so whoever starts to listen beside an agent with very many skills reads its beats and its
registrations both. When there are more hosts than are remembered, whoever came first goes.

A flood is what this is for, and what comes at once is read at one time. So a bucket is filled once for all that a host
sends in that time, and each datagram more costs a look at the bucket. Spec: specs §3; SPEC.md SDP-rate-bound.

How much may be sent to an address: three times what came from it, until somebody has proven to be there.

Whoever makes up the address that a datagram comes from lets others be answered in its place. So each address has an
allowance, which grows with every datagram that comes from there and shrinks with every one that goes there; what is
larger than the allowance is not sent. It is no limit for an address where a nonce that was sent there came back from.
That is remembered for some minutes, and anew when the agent that was there signs something new from there.

What two agents say to each other lets both allowances grow, so each can prove itself to the other although a proof is
larger than three questions. Spec: specs §3; SPEC.md SDP-amplification.

What keeps a signed message from counting twice, or late.

Three things together: a window around our clock; the newest timestamp of each agent, skill and message type, which
outlives a restart when it is kept; and the digest of the message that had it, which tells one that was sent again,
since nobody acknowledged it, from one that only claims the same time. What is older than the window needs no memory,
so the memory is that of a minute. Spec: specs §3 "replay".
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.scheduling import BoundedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


#: What is owed begins with one of these.
_RESERVED: Final = (
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


class RateLimits:
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
        self._known: BoundedDict[str, float] = BoundedDict(limits.LAN_SOURCES)
        self._buckets: dict[str, _Bucket] = {}

    def allows(self, host: str, data: bytes, now: float) -> bool:
        """Whether one more datagram of ``host`` is read."""
        bucket = self._buckets.get(host)
        if bucket is None or bucket.since != now:
            bucket = self._fill(bucket, host, now)
        if bucket.owed >= 1 and data.startswith(_RESERVED):
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


class AmplificationLimit:
    """The allowances of all addresses that one node has heard from.

    Args:
        factor: bytes that may go to an address for one that came from it.
        proof: seconds that an address stays proven.
    """

    def __init__(self, factor: float, proof: float) -> None:
        self._factor = factor
        self._proof = proof
        self._most = factor * limits.DATAGRAM_BYTES
        self._rooms: BoundedDict[Peer, float] = BoundedDict(limits.LAN_SOURCES)
        self._proven: BoundedDict[Peer, float] = BoundedDict(limits.LAN_AGENTS)

    def came(self, peer: Peer, size: int) -> None:
        """Take note that a datagram of ``size`` bytes came from an address."""
        self._rooms.put(peer, min(self._most, self._rooms.get(peer, 0.0) + self._factor * size))

    def room(self, peer: Peer, now: float) -> float:
        """Return how many bytes may go to an address; ``now`` is of the steady clock."""
        return float("inf") if self.is_proven(peer, now) else self._rooms.get(peer, 0.0)

    def take(self, peer: Peer, size: int, now: float) -> bool:
        """Whether ``size`` bytes may go to an address, which takes them from what may go there."""
        if self.is_proven(peer, now):
            return True
        room = self._rooms.get(peer, 0.0)
        if size > room:
            return False
        self._rooms[peer] = room - size
        return True

    def is_proven(self, peer: Peer, now: float) -> bool:
        """Whether somebody has proven to be at an address."""
        return self._proven.get(peer, now) > now

    def prove(self, peer: Peer, now: float) -> None:
        """Take note that somebody has proven to be at an address, now or again."""
        self._proven.put(peer, now + self._proof)


#: Message type, agent, and skill or scene.
Stream = tuple[str, str, str]


class Freshness(StrEnum):
    """What a timestamp says of a message."""

    FRESH = "fresh"
    REPEATED = "repeated"  # the very same message as the newest one
    OLD = "old"  # not newer than one that came
    OUTSIDE = "outside"  # of the window


class ReplayGuard:
    """The newest message of each stream.

    Args:
        window: seconds that a timestamp may differ from our clock, either way.
        kept: what :meth:`changed` gave before a restart, the newest of each stream.
    """

    def __init__(self, window: float, kept: Iterable[tuple[Stream, int]] = ()) -> None:
        self.window = window
        self._window_ms = window * 1000
        self._newest: dict[Stream, tuple[int, bytes]] = {stream: (timestamp, b"") for stream, timestamp in kept}
        self._changed: set[Stream] = set()

    def judge(self, stream: Stream, timestamp: int, data: bytes, now: float) -> Freshness:
        """Return how fresh a message is; keep nothing, since its signature may be wrong.

        Args:
            stream: that it belongs to.
            timestamp: in milliseconds since the epoch.
            data: the datagram.
            now: seconds since the epoch.
        """
        if abs(timestamp - now * 1000) > self._window_ms:
            return Freshness.OUTSIDE
        newest, digest = self._newest.get(stream, (-1, b""))
        if timestamp > newest:
            return Freshness.FRESH
        is_same = timestamp == newest and digest == hashlib.sha256(data).digest()
        return Freshness.REPEATED if is_same else Freshness.OLD

    def keep(self, stream: Stream, timestamp: int, data: bytes, now: float) -> None:
        """Take note of a fresh message whose signature is good."""
        if len(self._newest) >= limits.LAN_STREAMS and stream not in self._newest:
            self._forget(now)
        self._newest[stream] = timestamp, hashlib.sha256(data).digest()
        self._changed.add(stream)

    def newest_of(self, stream: Stream) -> int:
        """Return the newest timestamp of a stream; -1 when nothing came."""
        return self._newest.get(stream, (-1, b""))[0]

    def changed(self) -> list[tuple[Stream, int]]:
        """Return the newest timestamp of each stream that had a message since the last call, to be kept."""
        changed, self._changed = self._changed, set()
        return [(stream, self._newest[stream][0]) for stream in changed]

    def _forget(self, now: float) -> None:
        """Forget what the window refuses anyway; were that nothing, the oldest tenth."""
        edge = now * 1000 - self._window_ms
        self._newest = {stream: kept for stream, kept in self._newest.items() if kept[0] >= edge}
        if len(self._newest) >= limits.LAN_STREAMS:
            by_age = sorted(self._newest, key=lambda stream: self._newest[stream][0])
            for stream in by_age[: len(by_age) // 10]:
                del self._newest[stream]
        self._changed &= self._newest.keys()
