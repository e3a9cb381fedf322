"""Limits on what untrusted peers can make a node do: how much is read, how much is sent to them, and what counts twice.

**Rate.** Each host has a bucket for the datagrams that are read from it. A second bucket, which fills at twice the rate
of the heartbeats that the host owes, pays only for heartbeats, registrations, goodbyes and answers. A host that showed
a key that signs is treated for some minutes as if it owed a thousand heartbeats more: it is about to register or to
answer. **Amplification.** A source address can be forged, and the answer then hits its owner. So each address may get
three bytes for each byte that came from there, until it returned one of our nonces. Peers that know only the text
return none, so in the profile *open* an address in the link's own network gets whole answers to its questions, within a
budget for each host and for all. **Replay.** A signed message counts
once: its timestamp lies in a window around our clock and is newer than the last of its stream (agent, skill, message
type); a digest tells a repetition from another message with the same time. Spec: specs §3; SPEC.md SDP-rate-bound,
SDP-amplification, SDP-replay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final, TypeVar

from skillwire import limits
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Peer

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(dict[K, V]):
    """A mapping that keeps its newest ``most`` entries; :meth:`put` moves an entry to the end."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self._most = most

    def put(self, key: K, value: V) -> K | None:
        """Put an entry last; return the key of the dropped entry, if any."""
        self.pop(key, None)
        self[key] = value
        if len(self) <= self._most:
            return None
        first = next(iter(self))
        del self[first]
        return first


class KeysByHost(dict[str, dict[K, None]]):
    """The keys of each host, in the order in which they came; no host is without keys."""

    def add(self, host: str, key: K) -> None:
        """Add a key of a host."""
        self.setdefault(host, {})[key] = None

    def discard(self, host: str, key: K) -> None:
        """Remove a key of a host, if it is there."""
        keys = self.get(host, {})
        keys.pop(key, None)
        if not keys:
            self.pop(host, None)

    def of_largest(self) -> dict[K, None]:
        """Return the keys of the host that has the most; empty without hosts."""
        return max(self.values(), key=len, default={})


#: The second bucket of a host pays for datagrams that begin like this.
_RESERVED: Final = (
    *(b"SKILL_HEARTBEAT:", b"SKILL_REGISTER:", b"SKILL_REGISTER_ACK:", b"SKILL_UNREGISTER:", b"SKILL_UNREGISTER_ACK:"),
    *(b"SKILL_STATUS:", b"SKILL_DISCOVER_RESPONSE:", b"CHALLENGE_RESPONSE:"),
)


@dataclass(slots=True)
class _Bucket:
    """How many datagrams of a host may still be read, how many reserved ones beside them, and when it was filled."""

    left: float
    reserved: float
    since: float


class RateLimits:
    """The buckets of all hosts; ``owed`` returns how many heartbeats, or acknowledgments, a host owes."""

    def __init__(self, settings: DiscoverySettings, owed: Callable[[str], int]) -> None:
        self.owed = owed
        self._rate = settings.rate
        self._burst = settings.burst
        self._heartbeat_rate = 2 / settings.heartbeat_interval
        self._proof = settings.proof
        self._signing: BoundedDict[str, float] = BoundedDict(limits.LAN_SOURCES)
        self._buckets: dict[str, _Bucket] = {}

    def allows(self, host: str, data: bytes, now: float) -> bool:
        """Return whether one more datagram of ``host`` is read."""
        bucket = self._buckets.get(host)
        if bucket is None or bucket.since != now:
            owed = self.owed(host) + (int(limits.LAN_SKILLS_PER_AGENT) if self._signing.get(host, now) > now else 0)
            heartbeats = owed * self._heartbeat_rate
            if bucket is None:
                if len(self._buckets) >= limits.LAN_SOURCES:
                    del self._buckets[next(iter(self._buckets))]
                bucket = self._buckets[host] = _Bucket(self._burst, heartbeats, now)
            passed = now - bucket.since
            bucket.left = min(self._burst, bucket.left + passed * self._rate)
            bucket.reserved = min(heartbeats, bucket.reserved + passed * heartbeats)
            bucket.since = now
        if bucket.reserved >= 1 and data.startswith(_RESERVED):
            bucket.reserved -= 1
            return True
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True

    def extend(self, host: str, now: float) -> None:
        """Read more of a host from now on: an agent there showed a key that signs what came from there."""
        self._signing.put(host, now + self._proof)


#: Seconds in which a spent budget for answers in our own network is whole again.
_BUDGET_SECONDS: Final = 10.0
_ALL_HOSTS: Final = ""


class AmplificationLimit:
    """How many bytes may go to each address: ``factor`` for each byte that came; any number once it is proven.

    ``networks`` are the link's own; their hosts may get answers from a budget before their proof.
    """

    def __init__(self, factor: float, proof: float) -> None:
        self.networks: Sequence[IPv4Network | IPv6Network] = ()
        self._budgets: BoundedDict[str, tuple[float, float]] = BoundedDict(limits.LAN_SOURCES)  # bytes left, since when
        self._factor = factor
        self._proof = proof
        self._most = factor * limits.DATAGRAM_BYTES
        self._allowed: BoundedDict[Peer, float] = BoundedDict(limits.LAN_SOURCES)
        self._proven: BoundedDict[Peer, float] = BoundedDict(limits.LAN_AGENTS)

    def came(self, peer: Peer, size: int) -> None:
        """Count a datagram of ``size`` bytes that came from an address."""
        self._allowed.put(peer, min(self._most, self._allowed.get(peer, 0.0) + self._factor * size))

    def allowance(self, peer: Peer, now: float) -> float:
        """Return how many bytes may go to an address."""
        return float("inf") if self.is_proven(peer, now) else self._allowed.get(peer, 0.0)

    def take(self, peer: Peer, size: int, now: float) -> bool:
        """Return whether ``size`` bytes may go to an address, and subtract them from its allowance."""
        if self.is_proven(peer, now):
            return True
        allowed = self._allowed.get(peer, 0.0)
        if size > allowed:
            return False
        self._allowed[peer] = allowed - size
        return True

    def answer_allowance(self, peer: Peer, now: float) -> float:
        """Return how many bytes of an answer to a question may go to an address."""
        allowed = self.allowance(peer, now)
        if not self.networks or not any(ip_address(peer.host) in one for one in self.networks):
            return allowed
        return max(allowed, min(self._left(peer.host, now), self._left(_ALL_HOSTS, now)))

    def allow_answer(self, peer: Peer, size: int, now: float) -> None:
        """Allow an answer of ``size`` bytes to an address, at the cost of the budgets where they suffice."""
        if self.allowance(peer, now) < size <= self.answer_allowance(peer, now):
            for host in (peer.host, _ALL_HOSTS):
                self._budgets.put(host, (self._left(host, now) - size, now))
            self._allowed.put(peer, size)

    def _left(self, host: str, now: float) -> float:
        most = limits.LAN_ANSWERS_BYTES if host == _ALL_HOSTS else limits.LAN_ANSWERS_PER_HOST_BYTES
        left, since = self._budgets.get(host, (most, now))
        return min(most, left + (now - since) * most / _BUDGET_SECONDS)

    def is_proven(self, peer: Peer, now: float) -> bool:
        """Return whether an agent proved lately that it is at an address."""
        return self._proven.get(peer, now) > now

    def prove(self, peer: Peer, now: float) -> None:
        """Lift the limit of an address, since a nonce that was sent there came back."""
        self._proven.put(peer, now + self._proof)


#: Seconds after which a report may come again.
_REPORT_SECONDS: Final = 3600.0


class ReportLimit:
    """Bounds the reports of an hour: each text once for a host or kind, few for each of the first ``subjects``."""

    def __init__(self, subjects: int = 16, texts: int = 4) -> None:
        self._subjects, self._texts = subjects, texts
        self._reported: dict[str, set[str]] = {}
        self._ends = 0.0

    def allows(self, subject: str, text: str, now: float) -> bool:
        """Return whether a text about a subject is to be reported at ``now``, and count it."""
        if now >= self._ends:
            self._reported, self._ends = {}, now + _REPORT_SECONDS
        if subject not in self._reported and len(self._reported) >= self._subjects:
            return False
        texts = self._reported.setdefault(subject, set())
        if text in texts or len(texts) >= self._texts:
            return False
        texts.add(text)
        return True


#: Message type, agent, and skill or scene.
Stream = tuple[str, str, str]


class Freshness(StrEnum):
    """How a message relates to those that came before."""

    FRESH = "fresh"
    REPEATED = "repeated"  # the very same message as the newest one
    OLD = "old"  # not newer than one that came
    OUTSIDE = "outside"  # of the window


class ReplayGuard:
    """The newest message of each stream; a timestamp may differ from our clock by ``window`` seconds."""

    def __init__(self, window: float, kept: Iterable[tuple[Stream, int]] = ()) -> None:
        self.window = window
        self._window_ms = window * 1000
        self._newest: dict[Stream, tuple[int, bytes]] = {stream: (timestamp, b"") for stream, timestamp in kept}
        self._changed: set[Stream] = set()

    def judge(self, stream: Stream, timestamp: int, data: bytes, now: float) -> Freshness:
        """Return how fresh a message of that timestamp (ms) is; remember nothing, since its signature may be wrong."""
        if abs(timestamp - now * 1000) > self._window_ms:
            return Freshness.OUTSIDE
        newest, digest = self._newest.get(stream, (-1, b""))
        if timestamp > newest:
            return Freshness.FRESH
        is_same = timestamp == newest and digest == hashlib.sha256(data).digest()
        return Freshness.REPEATED if is_same else Freshness.OLD

    def keep(self, stream: Stream, timestamp: int, data: bytes, now: float) -> None:
        """Remember a fresh message whose signature is good."""
        if len(self._newest) >= limits.LAN_STREAMS and stream not in self._newest:
            # Forget the streams that the window refuses anyway, or else the oldest tenth.
            edge = now * 1000 - self._window_ms
            self._newest = {one: kept for one, kept in self._newest.items() if kept[0] >= edge}
            if len(self._newest) >= limits.LAN_STREAMS:
                by_age = sorted(self._newest, key=lambda one: self._newest[one][0])
                for old in by_age[: len(by_age) // 10]:
                    del self._newest[old]
            self._changed &= self._newest.keys()
        self._newest[stream] = timestamp, hashlib.sha256(data).digest()
        self._changed.add(stream)

    def changed(self) -> list[tuple[Stream, int]]:
        """Return the newest timestamp of each stream that changed since the last call, to be stored."""
        changed, self._changed = self._changed, set()
        return [(stream, self._newest[stream][0]) for stream in changed]
