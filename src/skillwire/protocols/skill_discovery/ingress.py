"""Ingress: of all datagrams that arrive, the messages that a node may act on, and what is known of their signers.

The checks run from the cheapest to the most expensive: the rate of the source, the form, the timestamp, the key, the
signature. A refused datagram is counted by its reason in :attr:`Ingress.stopped` and never raises. A message by an
unknown key is held and its sender challenged; it passes when the proof is good, as if it came then. The signer is the
agent that a message names, for the types that the text signs. In the profile *signed* the other types are signed, too,
by the agent that proved to be at the source address. Peers with another profile or group key would be ignored without a
trace, so a refused datagram is also read as if we had theirs, and a match is reported; a question of theirs is answered
with a challenge, which they notice alike. Spec: SDP §10; specs §3.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from skillwire.errors import DecodeError, in_seconds
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.challenges import REGISTRATION, Challenges, Pending, challenge_text
from skillwire.protocols.skill_discovery.codec import decode, read_registrant, signed_part
from skillwire.protocols.skill_discovery.events import NodeEvent, PeerMismatch, VerifiedMessage
from skillwire.protocols.skill_discovery.identity import KeyRing, Standing
from skillwire.protocols.skill_discovery.limits import Freshness, RateLimits, ReplayGuard, ReportLimit
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.scheduling import Outbox
from skillwire.wire.node import Peer

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
        self.events: list[NodeEvent] = []
        self.stopped: Counter[str] = Counter()
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
            return self._release(pending, source, now, "certificate")
        text = challenge_text(self._agent_id, message.agent_id, message.nonce, pending.digest)
        if not judgement.key.verifies(text, message.signature):
            return self._stop_forged(message.signature, data, source, now)
        if refused := self._ring.learn(message.agent_id, judgement, source, now.steady):
            return self._release(pending, source, now, refused)
        self._rates.extend(source.host, now.steady)
        return self._release(pending, source, now)

    def _release(self, pending: Pending, source: Peer, now: Moment, refused: str = "") -> list[VerifiedMessage]:
        """Return what waited for a proof; of a refused signer its challenges, and its registrations with the reason."""
        if refused:
            self.stopped[refused] += 1
        found = []
        for data in pending.held:
            if not refused or data.startswith(_QUESTION):
                found += self._judge(decode(data, self._profile), data, source, now, is_released=True)
            elif data.startswith(REGISTRATION):
                message = decode(data, self._profile)
                found.append(VerifiedMessage(message, data, source, is_released=True, refused=_REFUSALS[refused]))
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
