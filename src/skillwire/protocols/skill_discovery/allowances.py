"""How much may be sent to an address: three times what came from it, until somebody has proven to be there.

Whoever makes up the address that a datagram comes from lets others be answered in its place. So each address has an
allowance, which grows with every datagram that comes from there and shrinks with every one that goes there; what is
larger than the allowance is not sent. It is no limit for an address where a nonce that was sent there came back from.
That is remembered for some minutes, and anew when the agent that was there signs something new from there.

What two agents say to each other lets both allowances grow, so each can prove itself to the other although a proof is
larger than three questions. Spec: specs §3; SPEC.md SDP-amplification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.protocols.skill_discovery.recent import Recent

if TYPE_CHECKING:
    from skillwire.wire.node import Peer


class Allowances:
    """The allowances of all addresses that one node has heard from.

    Args:
        factor: bytes that may go to an address for one that came from it.
        proof: seconds that an address stays proven.
    """

    def __init__(self, factor: float, proof: float) -> None:
        self._factor = factor
        self._proof = proof
        self._most = factor * limits.DATAGRAM_BYTES
        self._rooms: Recent[Peer, float] = Recent(limits.LAN_SOURCES)
        self._proven: Recent[Peer, float] = Recent(limits.LAN_AGENTS)

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
