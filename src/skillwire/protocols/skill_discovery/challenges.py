"""Challenge and response: who asks has a key, and is at the address that it asks from.

A challenge goes to the address that a question came from, and the answer has to come from there: so it proves the
address, too, and until then nobody is sent more than three times what came from there. Each nonce counts once and for
ten seconds. **[ours]**: its second half is the beginning of the SHA-256 of the datagram that is challenged, so that who
sent many knows which one is meant; 128 bits of it are random. What is signed is :func:`challenge_text`.
Spec: SDP §10.3; specs §3.

Who has answered us: whoever sends an answer is asked to prove that this datagram is theirs.

An answer to a discovery or about a scene is signed by nobody in the profile *open*, and its source address can be made
up. So who asked challenges who answered, as a registry challenges who registers: the nonce names the answer by its
digest, and the proof tells the agent, its key, and how it stands. What such an agent says is its own word where it is
certified for the skill, or is the certified agent at the skill's own host; what it says of others stays hearsay.

Since the address can be made up, who may be sent no more is not asked again. Spec: SDP §10.3; specs §3.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.scheduling import BoundedDict, Timer, TimerQueue

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.identity import Judgement
    from skillwire.wire.node import Peer


_HALF: Final = 16
#: Seconds until a challenge is sent again, where that is done at all.
_PAUSE: Final = 0.06


def challenge_text(challenger: str, prover: str, nonce: bytes, datagram_digest: bytes) -> bytes:
    """Return what the answer to a challenge signs. Spec: specs §3.

    Args:
        challenger: the agent that asks.
        prover: the agent that answers.
        nonce: of the challenge.
        datagram_digest: SHA-256 of the datagram that is challenged.
    """
    encoded = base64.b64encode(nonce).decode("ascii")
    return f"skill-discovery/0.7 challenge\n{challenger}\n{prover}\n{encoded}\n{datagram_digest.hex()}".encode()


def nonce_about(datagram_digest: bytes, random: Random) -> bytes:
    """Return a nonce that challenges the datagram with this digest."""
    return random.randbytes(_HALF) + name_of(datagram_digest)


def name_of(datagram_digest: bytes) -> bytes:
    """Return how a nonce names the datagram with this digest."""
    return datagram_digest[:_HALF]


def named_in(nonce: bytes) -> bytes:
    """Return the name of the datagram that a nonce of ours is about; of another's, bytes that name nothing."""
    return nonce[_HALF:]


class Pending(NamedTuple):
    """One challenge under way, and the datagrams that wait for its answer, first the one that is challenged."""

    nonce: bytes
    digest: bytes
    expires: float
    held: tuple[bytes, ...]


class Challenger:
    """The challenges that one agent has under way, one for each address.

    Args:
        random: where nonces come from; ``SystemRandom`` outside of tests.
        seconds: that an answer may take.
    """

    def __init__(self, random: Random, seconds: float) -> None:
        self._random = random
        self._seconds = seconds
        self._pending: dict[Peer, Pending] = {}
        self._agenda: TimerQueue[Peer] = TimerQueue()
        self.timer: Timer = self._agenda.timer

    def ask(self, peer: Peer, datagram: bytes, now: float) -> bytes:
        """Hold a datagram until its sender has proven itself; return the nonce to send.

        While a challenge is under way it is sent again rather than another one. When there are too many the oldest is
        given up: who is there answers within milliseconds, and who made the addresses up never does.
        """
        found = self._pending.get(peer)
        if found is not None and found.expires > now:
            if datagram not in found.held and len(found.held) < limits.LAN_HELD_DATAGRAMS:
                self._pending[peer] = found._replace(held=(*found.held, datagram))
            return found.nonce
        self._pending.pop(peer, None)
        if len(self._pending) >= limits.LAN_CHALLENGES:
            del self._pending[next(iter(self._pending))]
        digest = hashlib.sha256(datagram).digest()
        nonce = nonce_about(digest, self._random)
        self._pending[peer] = Pending(nonce, digest, now + self._seconds, (datagram,))
        return nonce

    def repeat(self, peer: Peer, now: float) -> None:
        """Ask again soon, unless an answer comes: for a question that nobody else repeats in time."""
        if peer not in self._agenda:
            self._agenda.set(peer, now + _PAUSE)

    def due(self, now: float) -> list[tuple[Peer, bytes]]:
        """Return whom to ask again now, with the nonces."""
        found = []
        while (peer := self._agenda.pop(now)) is not None:
            if self.awaits(peer, now):
                found.append((peer, self._pending[peer].nonce))
        return found

    def take(self, peer: Peer, nonce: bytes, now: float) -> Pending | None:
        """Return the challenge that an answer from ``peer`` is to, which is over by that; None when there is none."""
        found = self._pending.get(peer)
        if found is None or found.nonce != nonce:
            return None
        del self._pending[peer]
        return found if found.expires > now else None

    def awaits(self, peer: Peer, now: float) -> bool:
        """Whether a challenge of an address is under way."""
        found = self._pending.get(peer)
        return found is not None and found.expires > now


#: Seconds after which it is asked again; as many as loss demands.
_CHALLENGE_PAUSES: Final = (0.06, 0.1, 0.15, 0.2, 0.25, 0.3)


class Responder(NamedTuple):
    """What is known of who sent a datagram.

    Args:
        source: where it came from.
        agent_id: who has proven to have sent it.
        judgement: of that agent's key.
    """

    source: Peer
    agent_id: str
    judgement: Judgement

    def is_own(self, host: str) -> bool:
        """Whether the agent speaks of a skill on a host of its own: where it is, or what it is certified for."""
        is_certified = self.judgement.standing is Standing.CERTIFIED
        return host == without_zone(self.source.host) or (is_certified and host in self.judgement.hosts)

    def vouches(self, skill_id: str, host: str) -> bool:
        """Whether the agent is certified for what it says of a skill on a host."""
        if self.judgement.standing is not Standing.CERTIFIED or self.judgement.is_revoked():
            return False
        is_agent = self.agent_id in self.judgement.agents and self.is_own(host)
        return is_agent or skill_id in self.judgement.skills


class _Asked(NamedTuple):
    """Whom we asked which datagram is theirs, and how often."""

    nonce: bytes
    digest: bytes
    peer: Peer
    tries: int = 0


class ResponderProofs:
    """The answers whose senders are asked to prove themselves.

    Args:
        random: where nonces come from.
        challenge: sends a nonce to somebody, who may be sent that much.
    """

    def __init__(self, random: Random, challenge: Callable[[Peer, bytes, Moment], object]) -> None:
        self._random = random
        self._challenge = challenge
        self._asked: BoundedDict[bytes, _Asked] = BoundedDict(limits.LAN_CHALLENGES)
        self._agenda: TimerQueue[bytes] = TimerQueue()
        self.timer: Timer = self._agenda.timer

    def ask(self, peer: Peer, data: bytes, now: Moment) -> bytes:
        """Ask ``peer`` whether it has sent a datagram; return its digest, by which the proof names it."""
        digest = hashlib.sha256(data).digest()
        nonce = nonce_about(digest, self._random)
        oldest = self._asked.put(nonce, _Asked(nonce, digest, peer))
        if oldest is not None:
            self._agenda.cancel(oldest)
        self._say(nonce, now)
        return digest

    def take(self, peer: Peer, nonce: bytes) -> Pending | None:
        """Return what a proof from ``peer`` is about, which is asked no more by that; None for nothing."""
        found = self._asked.get(nonce)
        if found is None or found.peer != peer:
            return None
        del self._asked[nonce]
        self._agenda.cancel(nonce)
        return Pending(nonce, found.digest, float("inf"), ())

    def on_timer(self, now: Moment) -> None:
        """Ask again who has not answered, or give it up."""
        while (nonce := self._agenda.pop(now.steady)) is not None:
            self._say(nonce, now)

    def _say(self, nonce: bytes, now: Moment) -> None:
        asked = self._asked[nonce]
        if asked.tries > len(_CHALLENGE_PAUSES):
            del self._asked[nonce]
            return
        self._challenge(asked.peer, nonce, now)
        self._asked[nonce] = asked._replace(tries=asked.tries + 1)
        self._agenda.set(nonce, now.steady + [*_CHALLENGE_PAUSES, _CHALLENGE_PAUSES[-1]][asked.tries])
