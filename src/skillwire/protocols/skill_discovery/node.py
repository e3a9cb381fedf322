"""The node of Skill Discovery: roles, the gate before them, and what goes out, as one state machine without IO.

An agent has one or several of the text's roles: an MCPAgent keeps the registry and the scenes, a RouteAgent offers
skills, an EndAgent asks. What arrives passes the gate and goes to the role that it is for; what the roles say goes to
the outbox. Nobody is answered with more than three times what they sent before they have proven to be where they say:
what is larger than that waits until they have. Spec: SDP §2 to §5, §8 to §10; specs §3.

How a challenge of something that we sent is answered: with our certificate, and a signature over the nonce.

A proof is larger than three challenges, so it goes to an address only when that may be sent as much; until then the
challenge is held, and answered with one of ours. Nothing is signed before that is known, and no more than so often:
strangers cannot use up what is left for who has proven to be where it says. Spec: SDP §10.3; specs §3.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.challenges import challenge_text
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.end_agent import EndAgent
from skillwire.protocols.skill_discovery.events import NameTaken
from skillwire.protocols.skill_discovery.identity import KeyRing
from skillwire.protocols.skill_discovery.ingress import Ingress
from skillwire.protocols.skill_discovery.mcp_agent import McpAgent
from skillwire.protocols.skill_discovery.messages import Challenge, ChallengeResponse, Profile
from skillwire.protocols.skill_discovery.outbox import Outbox
from skillwire.protocols.skill_discovery.route_agent import UNKNOWN_SKILL, RouteAgent
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.health import Key, Listed
    from skillwire.protocols.skill_discovery.identity import Authority, Identity
    from skillwire.protocols.skill_discovery.identity import Key as SignerKey
    from skillwire.protocols.skill_discovery.ingress import VerifiedMessage
    from skillwire.protocols.skill_discovery.limits import ReplayGuard
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.registry import Registry
    from skillwire.wire.node import Datagram, Peer


#: Proofs a second, and at once, to addresses that are proven and to the others: of 1 % of a core each, and for as many
#: agents as start together.
_PROOFS: Final = 100.0
_MOST_PROOFS: Final = 128
#: A time as long as those of today, in milliseconds since the epoch, and the base64 of the longest signature.
_SOME_TIME: Final = 1_707_868_800_000
_LONGEST_SIGNATURE: Final = "A" * 96


class ChallengeResponder:
    """Answers the challenges of one node.

    Args:
        agent_id: who we are.
        outbox: takes what is sent, and knows what was.
        hold: holds a challenge until its sender has proven to be where it says.
    """

    def __init__(self, agent_id: str, outbox: Outbox, hold: Callable[[VerifiedMessage, Moment], object]) -> None:
        self._agent_id = agent_id
        self._outbox = outbox
        self._hold = hold
        self._sizes: tuple[bytes, int] = b"", 0
        self._until = {True: 0.0, False: 0.0}  # of addresses that are proven, and of the others

    def challenged(self, admitted: VerifiedMessage, message: Challenge, now: Moment) -> bool:
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


class Role(StrEnum):
    """What an agent does on the network. Spec: SDP §2.2, §3.3.

    An observer **[ours]** keeps a registry as an MCPAgent does, and answers no question from it: what is there for a
    moment has heard too little to say of anything that it is not there.
    """

    MCP_AGENT = "MCPAgent"
    ROUTE_AGENT = "RouteAgent"
    END_AGENT = "EndAgent"
    OBSERVER = "Observer"


class DiscoveryNode:
    """One agent on a local network; a :class:`skillwire.wire.node.Node`.

    Args:
        agent_id: its identifier.
        identity: what it signs with.
        authority: judges the certificates of others.
        random: jitter and nonces; ``SystemRandom`` outside of tests.
        roles: what it does.
        profile: which messages are signed.
        settings: figures.
        health: says how a skill of ours is, whenever it beats; what was reported last, when there is none.
        replay: the newest timestamps, as kept over a restart.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        identity: Identity,
        authority: Authority,
        random: Random,
        roles: frozenset[Role] = frozenset(Role),
        profile: Profile = Profile.OPEN,
        settings: DiscoverySettings | None = None,
        health: Callable[[str], HealthStatus] | None = None,
        replay: ReplayGuard | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.settings = settings = settings or DiscoverySettings()
        self._roles = roles
        self._keeps_registry = bool(roles & {Role.MCP_AGENT, Role.OBSERVER})
        self._events: list[NodeEvent] = []
        self._outbox = Outbox(identity, profile, settings, random)
        self.mcp_agent = McpAgent(self._outbox, settings, self._answer, self._hold, self._events.append)
        self._prover = ChallengeResponder(agent_id, self._outbox, self._hold)
        self.route_agent = RouteAgent(agent_id, self._outbox, settings, self._events.append, health)
        self.ring = KeyRing(authority, settings.proof, lambda agent: self.registry.count_of_agent(agent) > 0)
        self.gate = Ingress(
            agent_id,
            profile=profile,
            settings=settings,
            ring=self.ring,
            owed=self.registry.count_of_host,
            challenge=self._challenge,
            allowances=self._outbox.allowances,
            random=random,
            replay=replay,
            awaited=self.route_agent.awaits_from,
            on_namesake=self._has_our_name,
            on_unheard=self._events.append,
        )
        ask, tell = self.gate.witnesses.ask, self._events.append
        self.end_agent = EndAgent(agent_id, self._outbox, settings, ask, tell, listed=self._listed, invite=self._invite)
        asking = *self.end_agent.timers, *self.gate.timers
        self._timers = self._outbox.timer, *self.mcp_agent.timers, self.route_agent.timer, *asking

    @property
    def registry(self) -> Registry:
        """What is registered, as far as this agent heard."""
        return self.mcp_agent.registry

    def receive(self, data: bytes, source: Peer, now: Moment) -> None:
        """Take a datagram. Trust: it is a stranger's; it never raises."""
        for admitted in self.gate.accept(data, source, now):
            if not self._dispatch(admitted, now):
                self.gate.stopped["not for us"] += 1

    def datagrams_to_send(self, now: Moment) -> Sequence[Datagram]:
        """Return what is to be sent by now."""
        return self._outbox.due(now)

    def events(self, now: Moment) -> Sequence[NodeEvent]:  # noqa: ARG002 - the form of a node
        """Return what has happened since the last time."""
        found, self._events[:] = self._events[:], []
        return found

    def timer(self) -> float | None:
        """Return when the node wants to be told the time."""
        first = None
        for timer in self._timers:
            due = timer()
            if due is not None and (first is None or due < first):
                first = due
        return first

    def on_timer(self, now: Moment) -> None:
        """Do what is due."""
        self.mcp_agent.on_timer(now)
        self.route_agent.on_timer(now)
        self.end_agent.on_timer(now)
        self.gate.on_timer(now)

    def review(self, now: Moment) -> None:
        """Forget the agents whose certificates were taken back, and what they have registered, at once. Spec: §10.2."""
        hints = {one.key[0] for one in self.registry if one.is_hint and self.ring.is_withheld(one.key[0])}
        self.mcp_agent.evict(self.ring.revoked() | hints, now)

    def answered_probe(self, key: Key, now: Moment) -> None:
        """Take note that the endpoint of a suspect answered."""
        self.mcp_agent.answered_probe(key, now)

    def hint(self, message: m.Register, host: str, now: Moment) -> bool:
        """Take what mDNS says of a skill at ``host``; False when it counts for nothing. Spec: specs §3 "mDNS"."""
        return not self.ring.is_withheld(message.agent_id) and self.mcp_agent.hint(message, host, now)

    def unhint(self, key: Key, now: Moment) -> bool:
        """Take back what mDNS said of a skill; False when there was nothing left of it."""
        return self.mcp_agent.unhint(key, now)

    def _dispatch(self, admitted: VerifiedMessage, now: Moment) -> bool:
        message = admitted.message
        if isinstance(message, m.Challenge):
            return self._prover.challenged(admitted, message, now)
        if self._keeps_registry and self._heard(admitted, now):
            return True
        if Role.MCP_AGENT in self._roles and self._asked(admitted, now):
            return True
        if Role.ROUTE_AGENT in self._roles and self._offering(admitted, now):
            return True
        return Role.END_AGENT in self._roles and self._asking(admitted, now)

    def _heard(self, admitted: VerifiedMessage, now: Moment) -> bool:
        """Take what is for a registry."""
        match admitted.message:
            case m.Heartbeat() | m.StatusUpdate() as message:
                self.mcp_agent.beat(admitted, message, now)
            case m.Register() as message:
                self.mcp_agent.register(admitted, message, now)
            case m.Unregister() as message:
                self.mcp_agent.unregister(admitted, message, now)
            case _:
                return False
        return True

    def _asked(self, admitted: VerifiedMessage, now: Moment) -> bool:
        """Take what is asked of an MCPAgent."""
        match admitted.message:
            case m.Discover() as message:
                self.mcp_agent.discover(admitted, message, now)
            case m.JoinScene() | m.RequestScene() as message:
                self.mcp_agent.join(admitted, message, now)
            case _:
                return False
        return True

    def _offering(self, admitted: VerifiedMessage, now: Moment) -> bool:
        """Take what is for a RouteAgent."""
        match admitted.message:
            case m.RegisterAck(agent_id=self.agent_id) as message:
                self.route_agent.acknowledged(message, admitted.source, now)
            case m.UnregisterAck(agent_id=self.agent_id) as message:
                self.route_agent.farewell(message, admitted.source, now)
            case _:
                return False
        return True

    def _asking(self, admitted: VerifiedMessage, now: Moment) -> bool:
        """Take what is for an EndAgent."""
        match admitted.message:
            case m.DiscoverResponse() as message:
                return self.end_agent.found(admitted, message, now)
            case m.ChallengeResponse():
                return self._proven(admitted, now)
            case m.JoinSceneResponse() | m.SceneJoinResponse() as message:
                return self.end_agent.joined(admitted, message, now)
            case m.SceneNotFound() as message:
                return self.end_agent.missing(message, now)
            case m.SceneEvent() as message:
                return self.end_agent.group_changed(message, admitted.source, now)
            case _:
                return False

    def _has_our_name(self, key: SignerKey, source: Peer) -> None:
        """Tell of an agent with our name; we hear ourselves, too, whose key verifies what we sign."""
        data = self.agent_id.encode()
        if not key.verifies(data, self._outbox.identity.sign(data)):
            self._events.append(NameTaken(self.agent_id, source))

    def _listed(self, wanted: m.Discover) -> Sequence[Listed] | None:
        """Return what is registered here of what a discovery asks for; None where no registry is kept."""
        return self.registry.find(wanted) if self._keeps_registry else None

    def _proven(self, admitted: VerifiedMessage, now: Moment) -> bool:
        """Take a proof of who has answered; let that agent register what it offers with us: answers name no agent."""
        offered = self.end_agent.proven(admitted, now)
        if offered and self._keeps_registry and not self.registry.count_of_agent(admitted.signer):
            self._invite(admitted.signer, offered, admitted.source, now)
        return offered is not None

    def _invite(self, agent_id: str, skill_id: str, peer: Peer, now: Moment) -> None:
        """Let an agent register with us what it offers."""
        ask = m.RegisterAck(agent_id, m.Outcome.INVALID, f"{skill_id} {UNKNOWN_SKILL}", self._outbox.stamp(now))
        self._outbox.send(self._outbox.write(ask), now, peer)

    def _hold(self, question: VerifiedMessage, now: Moment) -> None:
        self.gate.hold(question, now)

    def _challenge(self, peer: Peer, nonce: bytes, now: Moment) -> None:
        self._outbox.send(self._outbox.write(m.Challenge(self.agent_id, nonce, self._outbox.stamp(now))), now, peer)

    def _answer(self, question: VerifiedMessage, answers: Sequence[bytes], now: Moment) -> None:
        """Send answers a moment later; what an address that is not proven may not be sent waits until it is."""
        if sum(map(len, answers)) > self._outbox.allowances.room(question.source, now.steady):
            self.gate.hold(question, now)
        pause = self._outbox.soon()
        for data in answers:
            self._outbox.send(data, now, question.source, after=pause)
