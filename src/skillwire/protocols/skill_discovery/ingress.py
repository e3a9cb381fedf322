"""Ingress: of all datagrams that arrive, the messages that a node may act on, and what is known of their signers.

The checks run from the cheapest to the most expensive: the rate of the source, the form, the timestamp, the key, the
signature. A refused datagram is counted by its reason in :attr:`Ingress.stopped` and never raises. A message by an
unknown key is held and its sender challenged; it passes when the proof is good, as if it came then. The signer is the
agent that a message names, for the types that the text signs. In the profile *signed* the other types are signed, too,
by the agent that proved to be at the source address. Peers with another profile or group key would be ignored without a
trace, so a refused datagram is also read as if we had theirs, and a match is reported; a question of theirs is answered
with a challenge, which they notice alike. Spec: SDP §10; specs §3.

Challenges: an agent proves which key it has, and that it is at the address that it sends from.

A challenge goes to the address of a message, and the answer has to come from there, so it proves the address, too. Each
nonce begins with 32 random bytes, counts once, and for ten seconds. **[ours]**: it ends with the beginning of the
challenged datagram's SHA-256, so an agent that sent many knows which one is meant; to others it is opaque.

:class:`Challenges` holds messages by unknown keys, questions with large answers, answers of unknown responders, and
scene notices of unlisted skills from unproven addresses, until their senders prove themselves. One challenge is under
way for each address, and is sent again within the amplification limit alone. :class:`ChallengeResponder` answers the
challenges of other agents. Spec: SDP §10.3; specs §3.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, ValidationError, in_seconds
from skillwire.model.execution import Moment
from skillwire.model.lan import REVOKED
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import (
    ABOUT_BYTES,
    NONCE_BYTES,
    decode,
    encode,
    encode_signed,
    read_registrant,
    signed_part,
)
from skillwire.protocols.skill_discovery.identity import Judgement, KeyRing, Standing
from skillwire.protocols.skill_discovery.limits import BoundedDict, Freshness, RateLimits, ReplayGuard, ReportLimit
from skillwire.protocols.skill_discovery.messages import (
    Challenge,
    ChallengeResponse,
    DiscoverResponse,
    Message,
    Outcome,
    Profile,
)
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


class VerifiedMessage(NamedTuple):
    """A message that passed the ingress, and what is known of its signer. Spec: SDP §10; specs §3."""

    message: Message
    data: bytes
    source: Peer
    standing: Standing = Standing.UNKNOWN_KEY
    judgement: Judgement | None = None  # of the signer's key; None for an unknown key, and for an unsigned message
    is_repeated: bool = False  # the same datagram came before
    is_proven: bool = False  # the signer proved to be at `source`; for an unsigned message, any agent did
    signer: str = ""  # the agent whose key `judgement` is about; for an unsigned message, the one at `source`
    is_released: bool = False  # it was held until now
    refused: tuple[Outcome, str] | None = None  # the answer to a registration that is not judged by its content


class PeerMismatch(NamedTuple):
    """A peer uses another profile or group key, so its messages are ignored; once for each host and kind."""

    by: Peer
    difference: str  # such as `speaks the profile open, and we signed`


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

        A released message is not held again: a second proof would prove nothing more. Agents repeat a request until it
        is answered, and each repetition is challenged. An agent that challenges, answers or notifies us does not repeat
        itself soon, so it is challenged twice, in case our first challenge is lost. Further notices of an address are
        not challenged while a challenge is under way, since a group sends many.
        """
        if question.is_released:
            return
        is_first = not self.awaits(question.source, now.steady)
        nonce = self._ask(question.source, question.data, now.steady)
        asked = self._pending[question.source]
        if question.data.startswith(REGISTRATION):
            self._unanswered.set(question.source, asked.expires)
        if is_first or not isinstance(question.message, m.SceneEvent):
            self._outbox.send_challenge(question.source, nonce, now)
        if (
            is_first
            and isinstance(question.message, Challenge | DiscoverResponse | m.SceneEvent)
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

    def challenged(self, question: VerifiedMessage, message: Challenge, now: Moment) -> tuple[()] | None:
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
            except ValidationError:  # with this nonce the response exceeds a datagram
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


#: The types that name their signer in ``agent_id``, and the field that says what they are about.
_ABOUT: Final = {
    m.Register: "skill_id",
    m.Unregister: "skill_id",
    m.Heartbeat: "skill_id",
    m.StatusUpdate: "skill_id",
    m.JoinScene: "scene",
    m.RequestScene: "scene",
}
#: Of these types, the ones for which an unknown key is challenged; the others lead to a request for a registration.
_CHALLENGED: Final = (m.Register, m.JoinScene, m.RequestScene)
_PROOF: Final = b"CHALLENGE_RESPONSE:"
_QUESTION: Final = b"CHALLENGE:"
_DISCOVER: Final = b"SKILL_DISCOVER:"
#: The answers to a registration that is refused for its sender.
_REFUSALS: Final = {
    "certificate": (m.Outcome.UNAUTHORIZED, "the certificate is refused"),
    "another key": (m.Outcome.UNAUTHORIZED, "another key has this name"),
    "no room": (m.Outcome.INVALID, "no room"),
    "unanswered": (m.Outcome.UNAUTHORIZED, "no answer to the challenge"),
}
_ACKS: Final = b"SKILL_REGISTER_ACK:", b"SKILL_UNREGISTER_ACK:"
_STALE: Final = {Freshness.OUTSIDE: "outside the window", Freshness.OLD: "replayed"}
_OTHER: Final = {Profile.OPEN: Profile.SIGNED, Profile.SIGNED: Profile.OPEN}
#: HMAC-SHA256 in hexadecimal; an ECDSA signature is longer.
_GROUP_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Ingress:
    """Decides which messages a node may act on; ``events`` are what it noticed of peers, until the node takes them."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        ring: KeyRing,
        challenges: Challenges,
        rates: RateLimits,
        answer_rates: RateLimits,
        replay: ReplayGuard,
    ) -> None:
        self.events: list[PeerMismatch] = []
        self.stopped: Counter[str] = Counter()
        #: The agents whose keys were revoked, by the address at which each showed its certificate.
        self.revoked: BoundedDict[Peer, str] = BoundedDict(limits.LAN_AGENTS)
        self.replay = replay
        self._outbox = outbox
        self._agent_id, self._profile = outbox.agent_id, outbox.profile
        self._ring = ring
        self._challenges = challenges
        self._rates = rates
        self._answer_rates = answer_rates
        self._reports: dict[str, ReportLimit] = {}  # by the kind of the mismatch
        self._last_signer: tuple[str, Peer, int] | None = None

    def accept(self, data: bytes, source: Peer, now: Moment) -> list[VerifiedMessage]:
        """Return the messages to act on: none, this one, or those that were held until this one proved their signer."""
        if not self._rates.allows(source.host, data, now.steady) and not self._is_asked_for(data, source, now):
            return self._stop("rate")
        self._outbox.limit.came(source, len(data))
        try:
            message = decode(data, self._profile)
        except DecodeError as error:
            return self._refuse_malformed(data, source, error.message, now)
        if isinstance(message, m.Unknown):
            return self._stop("unknown type")
        if isinstance(message, m.ChallengeResponse):
            return self._prove(message, data, source, now)
        return self._judge(message, data, source, now)

    def _is_asked_for(self, data: bytes, source: Peer, now: Moment) -> bool:
        """Return whether a datagram answers us, and is read although its host sent too much."""
        if data.startswith(_ACKS):
            is_asked_for = self._answer_rates.owed(source.host) > 0
        else:
            is_asked_for = data.startswith(_PROOF) and self._challenges.awaits(source, now.steady)
        return is_asked_for and self._answer_rates.allows(source.host, data, now.steady)

    def _stop(self, reason: str) -> list[VerifiedMessage]:
        self.stopped[reason] += 1
        return []

    def _judge(
        self, message: Any, data: bytes, source: Peer, now: Moment, *, is_released: bool = False
    ) -> list[VerifiedMessage]:
        agent_there = self._ring.agent_at(source, now.steady)
        if type(message) in _ABOUT:
            signer = message.agent_id
            is_proven = agent_there == signer
        else:
            signer, is_proven = agent_there or "", agent_there is not None
            if isinstance(message, m.Challenge) and self._is_of_other_group(message.signature, data):
                return self._stop_other_group(message.signature, data, source, now)
            if self._profile is Profile.OPEN or isinstance(message, m.Challenge):
                unsigned = VerifiedMessage(message, data, source, Standing.NONE, is_proven=is_proven, signer=signer)
                return [unsigned._replace(is_released=is_released)]
        return self._verify(
            VerifiedMessage(message, data, source, is_proven=is_proven, is_released=is_released), message, signer, now
        )

    def _verify(  # noqa: PLR0911 - one return for each refusal
        self, received: VerifiedMessage, message: Any, signer: str, now: Moment
    ) -> list[VerifiedMessage]:
        data, source, kind = received.data, received.source, type(received.message)
        # The types that the text does not sign have no order among them: each message is a stream of its own.
        field = _ABOUT.get(kind)
        stream = kind.__name__, signer, getattr(message, field) if field else hashlib.sha256(data).hexdigest()
        freshness = self.replay.judge(stream, message.timestamp, data, now.wall)
        if freshness in _STALE:
            self.stopped[_STALE[freshness]] += 1
            if freshness is not Freshness.OUTSIDE or not isinstance(message, m.Register):
                return []
            seconds = message.timestamp / 1000 - now.wall
            differs = f"{in_seconds(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} ours"
            why = f"its clock is {differs}, and up to {in_seconds(self.replay.window)} count"
            return [VerifiedMessage(message, data, source, is_released=True, refused=(m.Outcome.INVALID, why))]
        judgement = self._ring.judgement_of(signer, now.wall)
        if judgement is None:
            if _GROUP_SIGNATURE.fullmatch(message.signature):
                self._stop_other_group(message.signature, data, source, now)
                refused = m.Outcome.UNAUTHORIZED, "signed with a group key, which is unknown here"
                return [received._replace(refused=refused)] if kind is m.Register else []
            if kind in _ABOUT and not isinstance(message, _CHALLENGED):
                return [received]
            self._challenges.hold(received, now)
            return self._stop("held")
        if not judgement.key.verifies(signed_part(data), message.signature):
            if isinstance(message, _CHALLENGED) and self._ring.may_change(signer):  # the agent may have a new key
                self._challenges.hold(received, now)
            return self._stop_forged(message.signature, data, source, now)
        if freshness is Freshness.FRESH:
            self.replay.keep(stream, message.timestamp, data, now.wall)
            self._note_signer(signer, source, now)
        standing = judgement.standing_of(signer, getattr(message, "skill_id", None)) or Standing.UNKNOWN_KEY
        is_repeated = freshness is Freshness.REPEATED
        known = standing, judgement, is_repeated, received.is_proven, signer, received.is_released
        return [VerifiedMessage(message, data, source, *known)]

    def _note_signer(self, signer: str, source: Peer, now: Moment) -> None:
        """Prolong what an agent proved, since it signed something new; once a second."""
        if self._last_signer == (seen := (signer, source, int(now.steady))):
            return
        self._last_signer = seen
        self._rates.extend(source.host, now.steady)
        if self._ring.is_there_again(signer, source, now.steady):
            self._outbox.limit.prove(source, now.steady)

    def _prove(self, message: m.ChallengeResponse, data: bytes, source: Peer, now: Moment) -> list[VerifiedMessage]:
        pending = self._challenges.take(source, message.nonce, now.steady)
        if pending is None:
            return self._stop("not asked for")
        self._outbox.limit.prove(source, now.steady)  # the nonce came back from there
        judgement = self._ring.authority.judge(message.agent_id, message.certificate, now.wall)
        if judgement is None or judgement.standing_of(message.agent_id) is None:
            if _GROUP_SIGNATURE.fullmatch(message.signature):
                self._stop_other_group(message.signature, data, source, now)
            why = self._ring.authority.why_refused(message.agent_id, message.certificate, now.wall)
            if why == REVOKED:
                self.revoked.put(source, message.agent_id)
            return self._release(pending, source, now, "certificate", why)
        text = challenge_text(self._agent_id, message.agent_id, message.nonce, pending.digest)
        if not judgement.key.verifies(text, message.signature):
            return self._stop_forged(message.signature, data, source, now)
        if refused := self._ring.learn(message.agent_id, judgement, source, now.steady):
            return self._release(pending, source, now, refused)
        self.revoked.pop(source, None)
        self._rates.extend(source.host, now.steady)
        return self._release(pending, source, now)

    def _release(
        self, pending: Pending, source: Peer, now: Moment, refused: str = "", why: str = ""
    ) -> list[VerifiedMessage]:
        """Return what waited for a proof; of a refused signer its challenges, and its registrations with the reason."""
        if refused:
            self.stopped[refused] += 1
            outcome, text = _REFUSALS[refused]
            refusal = outcome, f"{text}: {why}" if why else text
        found = []
        for data in pending.held:
            if not refused or data.startswith(_QUESTION):
                found += self._judge(decode(data, self._profile), data, source, now, is_released=True)
            elif data.startswith(REGISTRATION):
                message = decode(data, self._profile)
                found.append(VerifiedMessage(message, data, source, is_released=True, refused=refusal))
        return found

    def refuse_unanswered(self, now: Moment) -> list[VerifiedMessage]:
        """Return the registrations whose senders did not answer our challenge in time, each with its refusal."""
        expired = self._challenges.expired(now.steady)
        return [one for source, pending in expired for one in self._release(pending, source, now, "unanswered")]

    def _refuse_malformed(self, data: bytes, source: Peer, why: str, now: Moment) -> list[VerifiedMessage]:
        other = _OTHER[self._profile]
        with suppress(DecodeError):
            if not isinstance(decode(data, other), m.Unknown):
                difference = f"speaks the profile {other}, and we {self._profile}"
                return self._stop_mismatch("another profile", difference, data, source, now)
        self.stopped["malformed"] += 1
        if not data.startswith(REGISTRATION):
            return []
        refused = m.Outcome.INVALID, why
        return [VerifiedMessage(read_registrant(data), data, source, is_released=True, refused=refused)]

    def _is_of_other_group(self, signature: str, data: bytes) -> bool:
        key = self._ring.authority.shared_key()
        if key is None:
            return _GROUP_SIGNATURE.fullmatch(signature) is not None
        return bool(signature) and not key.verifies(signed_part(data), signature)

    def _stop_forged(self, signature: str, data: bytes, source: Peer, now: Moment) -> list[VerifiedMessage]:
        return self._stop_other_group(signature, data, source, now) if self._ring.is_shared else self._stop("forged")

    def _stop_other_group(self, signature: str, data: bytes, source: Peer, now: Moment) -> list[VerifiedMessage]:
        difference = "signs with a group key, and we have none"
        if self._ring.is_shared:
            is_group = _GROUP_SIGNATURE.fullmatch(signature) is not None
            theirs = "another group key than we" if is_group else "a key of its own, and we with a group key"
            difference = f"signs with {theirs}"
        return self._stop_mismatch("another group key", difference, data, source, now)

    def _stop_mismatch(
        self, kind: str, difference: str, data: bytes, source: Peer, now: Moment
    ) -> list[VerifiedMessage]:
        """Report a mismatch; answer a question with a challenge, by which the other agent notices the mismatch, too."""
        if self._reports.setdefault(kind, ReportLimit()).allows(source.host, kind, now.steady):
            self.events.append(PeerMismatch(source, difference))
        if data.startswith(_DISCOVER):
            self._outbox.send_challenge(source, self._outbox.nonce(hashlib.sha256(data).digest()), now)
        return self._stop(kind)
