"""The node of Skill Discovery: one agent on a local network, as a state machine without input and output.

An agent has one or several of the text's roles: an MCPAgent keeps the registry and the scenes, a RouteAgent offers
skills, an EndAgent searches. A datagram passes the ingress, and its message goes to the role that it is for. The parts
share the outbox, which sends, and a list of events, which the driver takes. Spec: SDP §2 to §5, §8 to §10; specs §3.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.challenges import ChallengeResponder, Challenges, ResponderProofs
from skillwire.protocols.skill_discovery.end_agent import EndAgent
from skillwire.protocols.skill_discovery.identity import KeyRing
from skillwire.protocols.skill_discovery.ingress import Ingress
from skillwire.protocols.skill_discovery.limits import RateLimits, ReplayGuard
from skillwire.protocols.skill_discovery.mcp_agent import McpAgent
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.route_agent import RouteAgent
from skillwire.protocols.skill_discovery.scheduling import Outbox
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.events import NodeEvent, VerifiedMessage
    from skillwire.protocols.skill_discovery.health import Key
    from skillwire.protocols.skill_discovery.identity import Authority, Identity
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.registry import Registry
    from skillwire.wire.node import Datagram, Peer


class Role(StrEnum):
    """What an agent does on the network. Spec: SDP §2.2, §3.3.

    An observer **[ours]** keeps a registry as an MCPAgent does, and answers no requests: a command that runs for a
    moment hears too little to report that a skill is missing.
    """

    MCP_AGENT = "MCPAgent"
    ROUTE_AGENT = "RouteAgent"
    END_AGENT = "EndAgent"
    OBSERVER = "Observer"


class DiscoveryNode:
    """One agent on a local network; a :class:`skillwire.wire.node.Node`."""

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
        self._outbox = outbox = Outbox(agent_id, identity, profile, settings, random)
        self._challenges = Challenges(outbox, settings.challenge)
        self._responder = ChallengeResponder(outbox, self._challenges, settings.challenge)
        self._proofs = ResponderProofs(outbox)
        self.mcp_agent = McpAgent(outbox, self._challenges, settings, self._events)
        self.registry: Registry = self.mcp_agent.registry
        self.route_agent = RouteAgent(outbox, settings, self._events, health)
        registry = self.registry if self._keeps_registry else None
        self.end_agent = EndAgent(outbox, settings, self._proofs, registry, self._events)
        self.ring = KeyRing(authority, settings.proof, lambda agent: self.registry.count_of_agent(agent) > 0)
        self.ingress = Ingress(
            outbox,
            ring=self.ring,
            challenges=self._challenges,
            proofs=self._proofs,
            rates=RateLimits(settings, self.registry.count_of_host),
            answer_rates=RateLimits(settings, self.route_agent.awaits_from),
            replay=replay or ReplayGuard(settings.window),
            events=self._events,
        )
        self._parts = self.mcp_agent, self.route_agent, self.end_agent, self._challenges, self._proofs

    def receive(self, data: bytes, source: Peer, now: Moment) -> None:
        """Take a datagram. Trust: it comes from an untrusted peer; it never raises."""
        for received in self.ingress.accept(data, source, now):
            if not self._dispatch(received, now):
                self.ingress.stopped["not for us"] += 1

    def datagrams_to_send(self, now: Moment) -> Sequence[Datagram]:
        """Return what is to be sent by now."""
        sent = self._outbox.due(now)
        for datagram in sent:
            self._responder.note_sent(datagram.data, now.steady)
        return sent

    def events(self, now: Moment) -> Sequence[NodeEvent]:  # noqa: ARG002 - the form of a node
        """Return what happened since the last call."""
        found = self._events[:]
        self._events.clear()
        return found

    def timer(self) -> float | None:
        """Return when :meth:`on_timer` or :meth:`datagrams_to_send` is due next."""
        first = self._outbox.timer()
        for part in self._parts:
            due = part.timer()
            if due is not None and (first is None or due < first):
                first = due
        return first

    def on_timer(self, now: Moment) -> None:
        """Do what is due."""
        for part in self._parts:
            part.on_timer(now)

    def review(self, now: Moment) -> None:
        """Remove the skills of agents whose certificates were revoked. Spec: SDP §10.2."""
        hints = {one.key[0] for one in self.registry if one.is_hint and self.ring.is_withheld(one.key[0])}
        self.mcp_agent.evict(self.ring.revoked() | hints, now)

    def answered_probe(self, key: Key, now: Moment) -> None:
        """Count an answer of a suspect's endpoint."""
        self.mcp_agent.answered_probe(key, now)

    def hint(self, message: m.Register, host: str, now: Moment) -> bool:
        """Take a skill that mDNS announces at ``host``; False when it is ignored. Spec: specs §3 "mDNS"."""
        return not self.ring.is_withheld(message.agent_id) and self.mcp_agent.hint(message, host, now)

    def unhint(self, key: Key, now: Moment) -> bool:
        """Remove a skill that mDNS no longer announces; False when it is not listed as a hint."""
        return self.mcp_agent.unhint(key, now)

    def _dispatch(self, received: VerifiedMessage, now: Moment) -> bool:
        """Give a message to the role that it is for; False when this agent has no such role."""
        message = received.message
        if isinstance(message, m.Challenge):
            return self._responder.challenged(received, message, now)
        return (
            (self._keeps_registry and self._to_registry(received, now))
            or (Role.MCP_AGENT in self._roles and self._to_mcp_agent(received, now))
            or (Role.ROUTE_AGENT in self._roles and self._to_route_agent(received, now))
            or (Role.END_AGENT in self._roles and self._to_end_agent(received, now))
        )

    def _to_registry(self, received: VerifiedMessage, now: Moment) -> bool:
        match received.message:
            case m.Heartbeat() | m.StatusUpdate() as message:
                self.mcp_agent.on_heartbeat(received, message, now)
            case m.Register() as message:
                self.mcp_agent.register(received, message, now)
            case m.Unregister() as message:
                self.mcp_agent.unregister(received, message, now)
            case _:
                return False
        return True

    def _to_mcp_agent(self, received: VerifiedMessage, now: Moment) -> bool:
        match received.message:
            case m.Discover() as message:
                self.mcp_agent.discover(received, message, now)
            case m.JoinScene() | m.RequestScene() as message:
                self.mcp_agent.join(received, message, now)
            case _:
                return False
        return True

    def _to_route_agent(self, received: VerifiedMessage, now: Moment) -> bool:
        match received.message:
            case m.RegisterAck(agent_id=self.agent_id) as message:
                self.route_agent.on_register_ack(message, received.source, now)
            case m.UnregisterAck(agent_id=self.agent_id) as message:
                self.route_agent.on_unregister_ack(message, received.source, now)
            case _:
                return False
        return True

    def _to_end_agent(self, received: VerifiedMessage, now: Moment) -> bool:
        match received.message:
            case m.DiscoverResponse() as message:
                return self.end_agent.searches.on_answer(received, message, now)
            case m.ChallengeResponse():
                return self.end_agent.on_proof(received, now)
            case m.JoinSceneResponse() | m.SceneJoinResponse() as message:
                return self.end_agent.on_scene_answer(received, message, now)
            case m.SceneNotFound() as message:
                return self.end_agent.on_scene_missing(message, now)
            case m.SceneEvent() as message:
                return self.end_agent.on_notice(message, received.source, now)
            case _:
                return False
