"""Who has answered us: whoever sends an answer is asked to prove that this datagram is theirs.

An answer to a discovery or about a scene is signed by nobody in the profile *open*, and its source address can be made
up. So who asked challenges who answered, as a registry challenges who registers: the nonce names the answer by its
digest, and the proof tells the agent, its key, and how it stands. What such an agent says is its own word where it is
certified for the skill, or is the certified agent at the skill's own host; what it says of others stays hearsay.

Since the address can be made up, who may be sent no more is not asked again. Spec: SDP §10.3; specs §3.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.agenda import Agenda, Timer
from skillwire.protocols.skill_discovery.challenge import Pending, nonce_about
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.identity import Judgement
    from skillwire.wire.node import Peer

#: Seconds after which it is asked again; as many as loss demands.
_PAUSES: Final = (0.06, 0.1, 0.15, 0.2, 0.25, 0.3)


class Author(NamedTuple):
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


class Witnesses:
    """The answers whose senders are asked to prove themselves.

    Args:
        random: where nonces come from.
        challenge: sends a nonce to somebody, who may be sent that much.
    """

    def __init__(self, random: Random, challenge: Callable[[Peer, bytes, Moment], object]) -> None:
        self._random = random
        self._challenge = challenge
        self._asked: Recent[bytes, _Asked] = Recent(limits.LAN_CHALLENGES)
        self._agenda: Agenda[bytes] = Agenda()
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
        if asked.tries > len(_PAUSES):
            del self._asked[nonce]
            return
        self._challenge(asked.peer, nonce, now)
        self._asked[nonce] = asked._replace(tries=asked.tries + 1)
        self._agenda.set(nonce, now.steady + [*_PAUSES, _PAUSES[-1]][asked.tries])
