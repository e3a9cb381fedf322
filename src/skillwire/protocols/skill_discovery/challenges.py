"""Challenges: an agent proves which key it has, and that it is at the address that it sends from.

A challenge goes to the address of a message, and the answer has to come from there, so it proves the address, too. Each
nonce begins with 32 random bytes, counts once, and for ten seconds. **[ours]**: it ends with the beginning of the
challenged datagram's SHA-256, so an agent that sent many knows which one is meant; to others it is opaque.

:class:`Challenges` holds messages by unknown keys, questions with large answers, and the answers of unknown responders,
until their senders prove themselves. :class:`ChallengeResponder` answers the challenges of other agents. Spec: SDP
§10.3; specs §3.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.codec import ABOUT_BYTES, NONCE_BYTES, encode, encode_signed
from skillwire.protocols.skill_discovery.events import NodeEvent, VerifiedMessage
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.protocols.skill_discovery.messages import Challenge, ChallengeResponse, DiscoverResponse
from skillwire.protocols.skill_discovery.scheduling import Outbox, TimerQueue, earliest
from skillwire.wire.node import Peer

Shorter = Callable[[float], Sequence[bytes]]

#: Seconds until a challenge of a challenger is sent again.
_REPEAT: Final = 0.06
#: Proofs a second, and at once, for proven addresses and again for all others: each costs 1 % of a core, and enough for
#: all agents that start together.
_PROOFS: Final = 100.0
_MOST_PROOFS: Final = 128
#: A timestamp and a signature of the greatest length.
_SOME_TIME: Final = 1_707_868_800_000
_LONGEST_SIGNATURE: Final = "A" * 96
#: Not challenged: heartbeats and statuses are repeated anyway, and a proof proves itself.
_UNCHALLENGED: Final = (b"SKILL_HEARTBEAT:", b"SKILL_STATUS:", b"CHALLENGE_RESPONSE:")
_CHALLENGE: Final = b"CHALLENGE:"
REGISTRATION: Final = b"SKILL_REGISTER:"


def challenge_text(challenger: str, prover: str, nonce: bytes, datagram_digest: bytes) -> bytes:
    """Return the text that the answer to a challenge of a datagram, given by its SHA-256, signs. Spec: specs §3."""
    encoded = base64.b64encode(nonce).decode("ascii")
    return f"skill-discovery/0.7 challenge\n{challenger}\n{prover}\n{encoded}\n{datagram_digest.hex()}".encode()


class Pending(NamedTuple):
    """A challenge under way, and the datagrams that wait for its answer; the first is the challenged one."""

    nonce: bytes
    digest: bytes
    expires: float
    held: tuple[bytes, ...]


class Challenges:
    """The challenges that one agent has under way: at most one for each address, each good for ``seconds``."""

    def __init__(self, outbox: Outbox, seconds: float) -> None:
        self._outbox = outbox
        self._seconds = seconds
        self._pending: dict[Peer, Pending] = {}
        self._repeats: TimerQueue[Peer] = TimerQueue()
        self._unanswered: TimerQueue[Peer] = TimerQueue()  # by the end of their challenges
        longest = Challenge(outbox.agent_id, bytes(NONCE_BYTES + ABOUT_BYTES), _SOME_TIME)
        self._challenge_size = len(encode_signed(longest, lambda _: _LONGEST_SIGNATURE, outbox.profile))

    def timer(self) -> float | None:
        """Return when something is due next."""
        return earliest(self._repeats.timer, self._unanswered.timer)

    def hold(self, question: VerifiedMessage, now: Moment) -> None:
        """Hold a message until its sender proves itself, and challenge the sender.

        A released message is not held again: a second proof would prove nothing more. An agent that challenges or
        answers us does not repeat itself soon, so it is challenged twice, in case our first challenge is lost.
        """
        if question.is_released:
            return
        is_first = not self.awaits(question.source, now.steady)
        nonce = self._ask(question.source, question.data, now.steady)
        asked = self._pending[question.source]
        if question.data.startswith(REGISTRATION):
            self._unanswered.set(question.source, asked.expires)
        self._outbox.send_challenge(question.source, nonce, now)
        if (
            is_first
            and isinstance(question.message, Challenge | DiscoverResponse)
            and question.source not in self._repeats
        ):
            self._repeats.set(question.source, now.steady + _REPEAT)

    def answer(
        self, question: VerifiedMessage, answers: Sequence[bytes], now: Moment, shorter: Shorter = lambda _: ()
    ) -> None:
        """Send answers after a short delay; an unproven address gets ``shorter`` ones, and all after its proof."""
        allowed = self._outbox.limit.allowance(question.source, now.steady)
        is_whole = sum(map(len, answers)) <= allowed
        if not is_whole:
            answers = shorter(allowed - self._challenge_size) or shorter(allowed)
        delay = self._outbox.answer_delay()
        for data in answers:
            self._outbox.send(data, now, question.source, after=delay)
        if not is_whole:
            self.hold(question, now)

    def take(self, peer: Peer, nonce: bytes, now: float) -> Pending | None:
        """Return and end the challenge that an answer from ``peer`` is to; None for no valid one."""
        found = self._pending.get(peer)
        if found is None or found.nonce != nonce:
            return None
        del self._pending[peer]
        self._unanswered.cancel(peer)
        return found if found.expires > now else None

    def awaits(self, peer: Peer, now: float) -> bool:
        """Return whether a challenge of an address is under way."""
        found = self._pending.get(peer)
        return found is not None and found.expires > now

    def on_timer(self, now: Moment) -> None:
        """Repeat the challenges that are due."""
        while (peer := self._repeats.pop(now.steady)) is not None:
            if self.awaits(peer, now.steady):
                self._outbox.send_challenge(peer, self._pending[peer].nonce, now)

    def expired(self, now: float) -> list[tuple[Peer, Pending]]:
        """Return and end the challenges of registrations that were not answered in time."""
        found = []
        while (peer := self._unanswered.pop(now)) is not None:
            pending = self._pending.get(peer)
            if pending is not None and pending.expires <= now:
                found.append((peer, self._pending.pop(peer)))
        return found

    def _ask(self, peer: Peer, datagram: bytes, now: float) -> bytes:
        """Hold a datagram; return the nonce to send, the same while a challenge lasts; the oldest makes way."""
        found = self._pending.get(peer)
        if found is not None and found.expires > now:
            if datagram not in found.held and len(found.held) < limits.LAN_HELD_DATAGRAMS:
                self._pending[peer] = found._replace(held=(*found.held, datagram))
            return found.nonce
        self._pending.pop(peer, None)
        if len(self._pending) >= limits.LAN_CHALLENGES:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            self._unanswered.cancel(oldest)
        digest = hashlib.sha256(datagram).digest()
        nonce = self._outbox.nonce(digest)
        self._pending[peer] = Pending(nonce, digest, now + self._seconds, (datagram,))
        return nonce


class ChallengeResponder:
    """Answers challenges of the datagrams that one agent sent lately.

    A proof is larger than three challenges, so it waits until its address may be sent that much; meanwhile the
    challenger is challenged itself. Proofs of each kind of address have a rate of their own, so untrusted peers cannot
    use up the proofs for agents that proved themselves.
    """

    def __init__(self, outbox: Outbox, challenges: Challenges, seconds: float) -> None:
        self._outbox = outbox
        self._challenges = challenges
        self._seconds = seconds
        self._sent: BoundedDict[bytes, tuple[bytes, float]] = BoundedDict(limits.LAN_SENT)
        # Challenges are kept apart, because an untrusted peer can make us send many.
        self._sent_challenges: BoundedDict[bytes, tuple[bytes, float]] = BoundedDict(limits.LAN_SENT)
        self._proof_size: tuple[tuple[bytes, int], int] = (b"", 0), 0  # for a certificate and a nonce's length
        self._until = {True: 0.0, False: 0.0}  # for proven addresses, and for the others

    def note_sent(self, data: bytes, now: float) -> None:
        """Remember a datagram that leaves now."""
        if data.startswith(_UNCHALLENGED):
            return
        digest = hashlib.sha256(data).digest()
        sent = self._sent_challenges if data.startswith(_CHALLENGE) else self._sent
        sent.put(digest[:ABOUT_BYTES], (digest, now))

    def challenged(self, question: VerifiedMessage, message: Challenge, now: Moment) -> Sequence[NodeEvent] | None:
        """Answer a challenge; None when it is about no datagram of ours, or too long."""
        outbox, source = self._outbox, question.source
        digest = self._digest_for(message.nonce[NONCE_BYTES:], now.steady)
        if digest is None:
            return None
        certificate = outbox.identity.certificate
        sized = certificate, len(message.nonce)
        if self._proof_size[0] != sized:
            proof = ChallengeResponse(
                outbox.agent_id, message.nonce, certificate, _SOME_TIME, signature=_LONGEST_SIGNATURE
            )
            try:
                self._proof_size = sized, len(encode(proof))
            except ValidationError:  # with a nonce of this length no datagram has room for it
                return None
        if outbox.limit.allowance(source, now.steady) < self._proof_size[1]:
            self._challenges.hold(question, now)
        elif self._may_sign(now.steady, is_proven=outbox.limit.is_proven(source, now.steady)):
            signed = challenge_text(message.agent_id, outbox.agent_id, message.nonce, digest)
            signature, stamp = outbox.identity.sign(signed), outbox.stamp(now)
            proof = ChallengeResponse(outbox.agent_id, message.nonce, certificate, stamp, signature=signature)
            outbox.send(encode(proof), now, source)
        return ()

    def _digest_for(self, about: bytes, now: float) -> bytes | None:
        """Return the digest of the datagram that a challenge names; of the last one when it names none."""
        last = next(reversed(self._sent.values()), None)
        for found in (self._sent.get(about), self._sent_challenges.get(about), last):
            if found is not None and found[1] > now - self._seconds:
                return found[0]
        return None

    def _may_sign(self, now: float, *, is_proven: bool) -> bool:
        until = self._until[is_proven]
        if until > now + _MOST_PROOFS / _PROOFS:
            return False
        self._until[is_proven] = max(until, now) + 1 / _PROOFS
        return True
