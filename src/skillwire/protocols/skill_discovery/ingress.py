"""What the gate lets through: a message, and what is known of who sent it. Spec: SDP §10; specs §3.

Whoever speaks otherwise than we do: in the other profile, or with another group key. Nothing of that is heard.

Two halves of a network that were set up differently see an empty network, each of them, and nothing is wrong with any
datagram. So what cannot be read or verified is looked at once more: would it be good if *we* were set up otherwise? The
answer counts for nothing but a word to people, told once for each host and kind, and for so many hosts in all: anybody
can make it up. Spec: SDP §10.1; specs §3 "Profiles".

The gate of a node: of all that arrives, what may be acted on, and what is known of who sent it.

In this order, the cheap before the dear: the rate of the source, the form, the time, the key, the signature. What is
stopped is counted by its reason in :attr:`Gate.stopped`, and is never an exception. A message by a key that we do not
have is held, and its sender challenged; when the answer is good, what was held passes as if it came then.

Who signed is the agent that a message names, where the text signs its type; in the profile *signed*, for the types
that name somebody else, it is the agent that has proven to be at the address. Spec: SDP §10; specs §3.

Trust: everything here is a stranger's until :class:`~skillwire.protocols.skill_discovery.ingress.VerifiedMessage` says
otherwise.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.challenges import Challenger, Pending, ResponderProofs, challenge_text
from skillwire.protocols.skill_discovery.codec import decode, signed_part
from skillwire.protocols.skill_discovery.events import PeerMismatch
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.limits import Freshness, RateLimits, ReplayGuard
from skillwire.protocols.skill_discovery.messages import Profile, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.identity import Judgement, Key, KeyRing
    from skillwire.protocols.skill_discovery.limits import AmplificationLimit
    from skillwire.protocols.skill_discovery.messages import Message, Outcome
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


class VerifiedMessage(NamedTuple):
    """A message that may be acted on.

    Args:
        message: what it says.
        data: the datagram.
        source: where it came from.
        standing: what is known of its signer.
        judgement: of the signer's key; None for a stranger, and for what is not signed.
        is_repeated: whether the very same datagram came before.
        is_proven: whether its signer has proven to be at ``source``; of what nobody signs, whether anybody has.
        is_released: whether it was held until now.
        signer: whose key ``judgement`` is of.
        proves: digest of the answer to us that the signer has proven to have sent; empty where it is not about that.
        refused: what a registration is answered that counts for nothing; None for one that is judged by what it says.
    """

    message: Message
    data: bytes
    source: Peer
    standing: Standing
    judgement: Judgement | None = None
    is_repeated: bool = False
    is_proven: bool = False
    signer: str = ""
    proves: bytes = b""
    is_released: bool = False
    refused: tuple[Outcome, str] | None = None


def from_untrusted(
    message: Message,
    data: bytes,
    source: Peer,
    *,
    is_proven: bool = False,
    is_released: bool = True,
    refused: tuple[Outcome, str] | None = None,
) -> VerifiedMessage:
    """Return a message by a key that we do not have, or that counts for nothing."""
    return VerifiedMessage(
        message, data, source, Standing.STRANGER, None, False, is_proven, "", b"", is_released, refused
    )


_OTHER: Final = {Profile.OPEN: Profile.SIGNED, Profile.SIGNED: Profile.OPEN}
#: HMAC-SHA256 in hexadecimal; a signature by a key of one's own is longer.
_GROUP: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
#: Hosts of which it is told, for each kind.
_TOLD: Final = 16


class ProfileMismatches:
    """Looks at what a gate has refused.

    Args:
        profile: ours.
        has_group_key: whether all whom we hear share a key.
        tell: is told of each host and kind once.
    """

    def __init__(self, profile: Profile, *, has_group_key: bool, tell: Callable[[PeerMismatch], object]) -> None:
        self._profile = profile
        self._has_group_key = has_group_key
        self._tell = tell
        self._told: dict[str, set[str]] = {}

    def of_form(self, data: bytes, source: Peer) -> str:
        """Return why a datagram is refused that cannot be read in our profile. Trust: it is a stranger's."""
        other = _OTHER[self._profile]
        try:
            if isinstance(decode(data, other), Unknown):
                return "malformed"
        except DecodeError:
            return "malformed"
        return self._said("another profile", f"speaks the profile {other}, and we {self._profile}", source)

    def of_forged(self, signature: str, source: Peer) -> str:
        """Return why a signature is refused that the key of its signer does not verify. Trust: as above."""
        if not self._has_group_key:
            return "forged"
        is_group = _GROUP.fullmatch(signature) is not None
        theirs = "another group key than we" if is_group else "a key of its own, and we with a group key"
        return self._said("another group key", f"signs with {theirs}", source)

    def of_untrusted_peer(self, signature: str, source: Peer) -> str:
        """Return why a signature is refused whose key we do not have; empty when it may yet be shown to us."""
        if _GROUP.fullmatch(signature) is None:
            return ""
        return self._said("another group key", "signs with a group key, and we have none", source)

    def _said(self, reason: str, said: str, source: Peer) -> str:
        told = self._told.setdefault(reason, set())
        if source.host not in told and len(told) < _TOLD:
            told.add(source.host)
            self._tell(PeerMismatch(source, said))
        return reason


#: Types that name their signer in ``agent_id``, because the text signs them, and which field says what they are about.
_ABOUT: Final = {
    m.Register: "skill_id",
    m.Unregister: "skill_id",
    m.Heartbeat: "skill_id",
    m.StatusUpdate: "skill_id",
    m.JoinScene: "scene",
    m.RequestScene: "scene",
}
#: Of these, what a stranger is challenged for. For the others it is enough to ask for a registration.
_CHALLENGED: Final = (m.Register, m.JoinScene, m.RequestScene)
_PROOF: Final = b"CHALLENGE_RESPONSE:"
_QUESTION: Final = b"CHALLENGE:"
_REGISTRATION: Final = b"SKILL_REGISTER:"
#: What a registration is answered whose signer has proven to be there, and is refused for one of these reasons.
_REFUSALS: Final = {
    "certificate": (m.Outcome.UNAUTHORIZED, "the certificate is refused"),
    "another key": (m.Outcome.UNAUTHORIZED, "another key has this name"),
    "no room": (m.Outcome.INVALID, "no room"),
}
_ACKS: Final = b"SKILL_REGISTER_ACK:", b"SKILL_UNREGISTER_ACK:"
#: Hosts of which it is asked whether they have our name.
_NAMESAKES: Final = 16
_STALE: Final = {Freshness.OUTSIDE: "outside the window", Freshness.OLD: "replayed"}


class Ingress:
    """What stands before one node.

    Args:
        agent_id: of the node.
        profile: which messages are signed.
        settings: its figures.
        ring: whose key is whose.
        owed: how many skills a host owes heartbeats for.
        challenge: sends a nonce to somebody, who may be sent that much.
        allowances: grow with what comes.
        random: where nonces come from.
        replay: what keeps a message from counting twice.
        awaited: how many acknowledgments a host owes us.
        on_namesake: is told the key of who has proven to have our name, and where it is.
        on_unheard: is told who speaks otherwise than we do.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        profile: Profile,
        settings: DiscoverySettings,
        ring: KeyRing,
        owed: Callable[[str], int],
        challenge: Callable[[Peer, bytes, Moment], object],
        allowances: AmplificationLimit,
        random: Random,
        replay: ReplayGuard | None = None,
        awaited: Callable[[str], int] = lambda _: 0,
        on_namesake: Callable[[Key, Peer], object] = lambda *_: None,
        on_unheard: Callable[[PeerMismatch], object] = lambda _: None,
    ) -> None:
        self.stopped: Counter[str] = Counter()
        self.replay = replay or ReplayGuard(settings.window)
        self._agent_id = agent_id
        self._profile = profile
        self._ring = ring
        self._challenge = challenge
        self._challenger = Challenger(random, settings.challenge)
        self._allowances = allowances
        self.witnesses = ResponderProofs(random, challenge)
        self.timers = self._challenger.timer, self.witnesses.timer
        self._rates = RateLimits(settings, owed)
        self._awaited = awaited
        self._on_namesake = on_namesake
        self._namesakes: set[str] = set()  # hosts that have proven to have our name, our own among them
        self._heard_last: tuple[str, Peer, int] | None = None
        self._answer_rates = RateLimits(settings, awaited)  # of what we asked for, from hosts that send too much else
        self._mismatches = ProfileMismatches(profile, has_group_key=ring.is_shared, tell=on_unheard)

    def accept(self, data: bytes, source: Peer, now: Moment) -> list[VerifiedMessage]:
        """Return what may be acted on now that a datagram came: nothing, it, or what it proved the sender of."""
        if not self._rates.allows(source.host, data, now.steady) and not self._is_asked_for(data, source, now):
            return self._stop("rate")
        self._allowances.came(source, len(data))
        try:
            message = decode(data, self._profile)
        except DecodeError:
            return self._stop(self._mismatches.of_form(data, source))
        if isinstance(message, m.Unknown):
            return self._stop("unknown type")
        if isinstance(message, m.ChallengeResponse):
            return self._proven(message, data, source, now)
        return self._judge(message, data, source, now)

    def hold(self, admitted: VerifiedMessage, now: Moment) -> None:
        """Hold a question whose answer is too large for an address that is not proven, and challenge it.

        Not again what was held until now: a proof has said all that it says. Who challenges us waits for its answer, so
        it is challenged once more when ours may have been lost.
        """
        if admitted.is_released:
            return
        is_first = not self._challenger.awaits(admitted.source, now.steady)
        self._challenge(admitted.source, self._challenger.ask(admitted.source, admitted.data, now.steady), now)
        if is_first and isinstance(admitted.message, m.Challenge):
            self._challenger.repeat(admitted.source, now.steady)

    def on_timer(self, now: Moment) -> None:
        """Ask again whose proof is awaited."""
        for peer, nonce in self._challenger.due(now.steady):
            self._challenge(peer, nonce, now)
        self.witnesses.on_timer(now)

    def heard(self, signer: str, source: Peer, now: Moment) -> None:
        """Take note that an agent has signed something new that came from an address; once for much of it."""
        if self._heard_last == (heard := (signer, source, int(now.steady))):
            return
        self._heard_last = heard
        self._rates.know(source.host, now.steady)
        if self._ring.is_there_again(signer, source, now.steady):
            self._allowances.prove(source, now.steady)

    def _is_asked_for(self, data: bytes, source: Peer, now: Moment) -> bool:
        """Whether a datagram answers a challenge or registration of ours; it is read beside what its host may send."""
        if data.startswith(_ACKS):
            is_asked_for = self._awaited(source.host) > 0
        else:
            is_asked_for = data.startswith(_PROOF) and self._challenger.awaits(source, now.steady)
        return is_asked_for and self._answer_rates.allows(source.host, data, now.steady)

    def _stop(self, reason: str) -> list[VerifiedMessage]:
        self.stopped[reason] += 1
        return []

    def _judge(
        self, message: Any, data: bytes, source: Peer, now: Moment, *, is_released: bool = False
    ) -> list[VerifiedMessage]:
        prover = self._ring.agent_at(source, now.steady)
        if type(message) in _ABOUT:
            signer = message.agent_id
            is_proven = prover == signer
        else:
            signer, is_proven = prover or "", prover is not None
            if self._profile is Profile.OPEN or isinstance(message, m.Challenge):  # answering proves us, whoever asks
                found = VerifiedMessage(
                    message, data, source, Standing.NONE, None, False, is_proven, is_released=is_released
                )
                return [found]
        return self._verify(message, data, source, now, signer=signer, is_proven=is_proven, is_released=is_released)

    def _verify(
        self, message: Any, data: bytes, source: Peer, now: Moment, *, signer: str, is_proven: bool, is_released: bool
    ) -> list[VerifiedMessage]:
        stream = _stream(message, signer, data)
        freshness = self.replay.judge(stream, message.timestamp, data, now.wall)
        if freshness is not Freshness.FRESH and freshness in _STALE:
            self.stopped[_STALE[freshness]] += 1
            if freshness is not Freshness.OUTSIDE or not isinstance(message, m.Register):
                return []
            return [from_untrusted(message, data, source, refused=self._too_far(message.timestamp, now))]
        judgement = self._ring.judgement_of(signer, now.wall)
        if judgement is None:
            return self._stranger(
                from_untrusted(message, data, source, is_proven=is_proven, is_released=is_released), now
            )
        if not judgement.key.verifies(signed_part(data), message.signature):
            may_change = isinstance(message, _CHALLENGED) and self._ring.may_change(signer)
            if may_change or self._may_be_namesake(signer, source):  # perhaps it has another key by now
                self.hold(from_untrusted(message, data, source, is_proven=is_proven, is_released=is_released), now)
            return self._stop(self._mismatches.of_forged(message.signature, source))
        if freshness is Freshness.FRESH:
            self.replay.keep(stream, message.timestamp, data, now.wall)
            self.heard(signer, source, now)
        standing = judgement.standing_of(signer, getattr(message, "skill_id", None)) or Standing.STRANGER
        is_repeated = freshness is Freshness.REPEATED
        return [
            VerifiedMessage(
                message, data, source, standing, judgement, is_repeated, is_proven, signer, b"", is_released
            )
        ]

    def _may_be_namesake(self, signer: str, source: Peer) -> bool:
        """Whether somebody takes part under our name of whom that is not known yet."""
        is_new = source.host not in self._namesakes and len(self._namesakes) < _NAMESAKES
        return signer == self._agent_id and is_new

    def _stranger(self, admitted: VerifiedMessage, now: Moment) -> list[VerifiedMessage]:
        if refused := self._mismatches.of_untrusted_peer(getattr(admitted.message, "signature", ""), admitted.source):
            return self._stop(refused)
        if type(admitted.message) in _ABOUT and not isinstance(admitted.message, _CHALLENGED):
            return [admitted]
        self.stopped["held"] += 1
        self.hold(admitted, now)
        return []

    def _proven(self, message: m.ChallengeResponse, data: bytes, source: Peer, now: Moment) -> list[VerifiedMessage]:
        answer = self.witnesses.take(source, message.nonce)
        pending = answer or self._challenger.take(source, message.nonce, now.steady)
        if pending is None:
            return self._stop("not asked for")
        self._allowances.prove(source, now.steady)  # who got the nonce is there, whoever it is
        judgement = self._ring.judge(message.agent_id, message.certificate, now.wall)
        if judgement is None or judgement.standing_of(message.agent_id) is None:
            return self._released(pending, source, now, "certificate")
        text = challenge_text(self._agent_id, message.agent_id, message.nonce, pending.digest)
        if not judgement.key.verifies(text, message.signature):
            return self._stop(self._mismatches.of_forged(message.signature, source))
        if message.agent_id == self._agent_id:
            self._namesakes.add(source.host)
            self._on_namesake(judgement.key, source)
        if refused := self._ring.learn(message.agent_id, judgement, source, now.steady):
            return self._released(pending, source, now, refused)
        self._rates.know(source.host, now.steady)
        if answer is not None:
            known = message.agent_id, answer.digest
            return [VerifiedMessage(message, data, source, judgement.standing, judgement, False, True, *known)]
        return self._released(pending, source, now)

    def _released(self, pending: Pending, source: Peer, now: Moment, refused: str = "") -> list[VerifiedMessage]:
        """Return what waited for a proof.

        Of who is refused only whom we are asked to be, which says no more than who we are, and what is answered with
        the reason.
        """
        if refused:
            self.stopped[refused] += 1
        found = []
        for data in pending.held:
            if not refused or data.startswith(_QUESTION):
                found += self._judge(decode(data, self._profile), data, source, now, is_released=True)
            elif data.startswith(_REGISTRATION):
                found.append(from_untrusted(decode(data, self._profile), data, source, refused=_REFUSALS[refused]))
        return found

    def _too_far(self, timestamp: int, now: Moment) -> tuple[m.Outcome, str]:
        """Return what a registration is answered from a clock that is not as ours."""
        seconds = timestamp / 1000 - now.wall
        differs = f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} ours"
        return m.Outcome.INVALID, f"its clock is {differs}, and up to {self.replay.window:.0f} s count"


def _stream(message: m.Message, signer: str, data: bytes) -> tuple[str, str, str]:
    """Return the stream in which a message has to be newer than the last one.

    What the text does not sign has no order among its messages: there each one is a stream of its own.
    """
    kind = type(message)
    field = _ABOUT.get(kind)
    return kind.__name__, signer, getattr(message, field) if field else hashlib.sha256(data).hexdigest()
