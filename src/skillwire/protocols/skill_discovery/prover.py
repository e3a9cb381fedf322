"""How a challenge of something that we sent is answered: with our certificate, and a signature over the nonce.

A proof is larger than three challenges, so it goes to an address only when that may be sent as much; until then the
challenge is held, and answered with one of ours. Nothing is signed before that is known, and no more than so often:
strangers cannot use up what is left for who has proven to be where it says. Spec: SDP §10.3; specs §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.skill_discovery.challenge import challenge_text
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.messages import Challenge, ChallengeResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.admitted import Admitted
    from skillwire.protocols.skill_discovery.outbox import Outbox

#: Proofs a second, and at once, to addresses that are proven and to the others: of 1 % of a core each, and for as many
#: agents as start together.
_PROOFS: Final = 100.0
_MOST_PROOFS: Final = 128
#: A time as long as those of today, in milliseconds since the epoch, and the base64 of the longest signature.
_SOME_TIME: Final = 1_707_868_800_000
_LONGEST_SIGNATURE: Final = "A" * 96


class Prover:
    """Answers the challenges of one node.

    Args:
        agent_id: who we are.
        outbox: takes what is sent, and knows what was.
        hold: holds a challenge until its sender has proven to be where it says.
    """

    def __init__(self, agent_id: str, outbox: Outbox, hold: Callable[[Admitted, Moment], object]) -> None:
        self._agent_id = agent_id
        self._outbox = outbox
        self._hold = hold
        self._sizes: tuple[bytes, int] = b"", 0
        self._until = {True: 0.0, False: 0.0}  # of addresses that are proven, and of the others

    def challenged(self, admitted: Admitted, message: Challenge, now: Moment) -> bool:
        """Answer a challenge; False when it is about nothing that we sent. Who asks learns no more than who we are."""
        outbox, source = self._outbox, admitted.source
        digest = outbox.sent.challenged(message.nonce, now.steady)
        if digest is None:
            return False
        if outbox.allowances.room(source, now.steady) < self._size():
            self._hold(admitted, now)
        elif self._may_sign(now.steady, is_proven=outbox.allowances.is_proven(source, now.steady)):
            identity = outbox.identity
            signature = identity.sign(challenge_text(message.agent_id, self._agent_id, message.nonce, digest))
            stamp = outbox.stamp(now)
            proof = ChallengeResponse(self._agent_id, message.nonce, identity.certificate, stamp, signature)
            outbox.send(encode(proof), now, source)
        return True

    def _size(self) -> int:
        """Return how many bytes a proof has at most; anew for each certificate."""
        certificate = self._outbox.identity.certificate
        if self._sizes[0] is not certificate:
            proof = ChallengeResponse(self._agent_id, bytes(32), certificate, _SOME_TIME, _LONGEST_SIGNATURE)
            self._sizes = certificate, len(encode(proof))
        return self._sizes[1]

    def _may_sign(self, now: float, *, is_proven: bool) -> bool:
        until = self._until[is_proven]
        if until > now + _MOST_PROOFS / _PROOFS:
            return False
        self._until[is_proven] = max(until, now) + 1 / _PROOFS
        return True
