"""The node of Skill Discovery: one agent on a local network, as a state machine without input and output.

An agent has one or several of the text's roles: an MCPAgent keeps the registry and the scenes (:class:`McpAgent`), a
RouteAgent offers skills, an EndAgent searches. A datagram passes the ingress, and a table gives its message to the role
that handles it. The parts return events, which the driver takes; they share the outbox, which sends.

Several MCPAgents on one network hear the same messages and list the same skills: the newest timestamp wins, and each
requests what it missed when it hears a heartbeat of a skill that it does not list. Each notifies the members of a group
of changes, and members take each change once. Spec: SDP §2 to §5, §8 to §10; specs §3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from random import Random
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.execution import Moment
from skillwire.model.lan import GoneReason
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.codec import encode_responses
from skillwire.protocols.skill_discovery.health import FALLEN, Change, ChangeKind, Key, ListedSkill
from skillwire.protocols.skill_discovery.identity import Authority, Identity, KeyRing, Standing
from skillwire.protocols.skill_discovery.ingress import (
    ChallengeResponder,
    Challenges,
    Ingress,
    PeerMismatch,
    VerifiedMessage,
)
from skillwire.protocols.skill_discovery.limits import RateLimits, ReplayGuard, ReportLimit
from skillwire.protocols.skill_discovery.messages import HealthStatus, Outcome, Profile
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.route_agent import (
    Acknowledged,
    RouteAgent,
    check_record_size,
    check_scenes,
    record_of,
)
from skillwire.protocols.skill_discovery.scenes import SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.scheduling import (
    SILENT_SKILL,
    UNKNOWN_SKILL,
    Outbox,
    Timer,
    TimerQueue,
    earliest,
)
from skillwire.protocols.skill_discovery.search import Discovered, Searches
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Datagram, Peer

_GONE: Final[dict[m.Reason, GoneReason]] = {
    m.Reason.SHUTDOWN: "shutdown", m.Reason.ERROR: "error", m.Reason.MAINTENANCE: "maintenance",
    m.Reason.UPGRADE: "upgrade",
}  # fmt: skip


class Role(StrEnum):
    """What an agent does on the network. Spec: SDP §2.2, §3.3.

    An observer **[ours]** keeps a registry as an MCPAgent does, and answers no requests: a command that runs for a
    moment hears too little to report that a skill is missing.
    """

    MCP_AGENT = "MCPAgent"
    ROUTE_AGENT = "RouteAgent"
    END_AGENT = "EndAgent"
    OBSERVER = "Observer"


class Refused(NamedTuple):
    """A registration of another agent was refused; a few for each host. The names can be empty."""

    by: Peer
    agent_id: str
    skill_id: str
    status: Outcome
    reason: str


class ProbeRequested(NamedTuple):
    """The endpoint of a skill is to be probed: it became PRIMARY, or refused the last probe and is heard."""

    listed: ListedSkill


#: A change that says ``suspected``, and :class:`ProbeRequested`, ask the driver to probe the skill's endpoint, and to
#: report the result to :meth:`DiscoveryNode.on_probe`.
NodeEvent = Change | Acknowledged | Refused | Discovered | SceneJoined | SceneMissing | PeerMismatch | ProbeRequested


#: Takes a message and the time; returns the events, or None when the message is not for this agent.
Handler = Callable[[VerifiedMessage, Any, "Moment"], Sequence[NodeEvent] | None]

_KEEP_A_REGISTRY: Final = frozenset({Role.MCP_AGENT, Role.OBSERVER})
#: Bytes of the shortest record, ``a|1.0.0|b:1||``, and its separator.
_LEAST_RECORD: Final = 14


class SuspectPinger:
    """Asks agents of suspects for a heartbeat until silence makes a skill UNHEALTHY, or the network is suspected.

    With a third of all datagrams lost, two missed heartbeats in a row are common. **[ours]**: the request is a
    ``SKILL_REGISTER_ACK`` with ``DUPLICATE``, which is true, and the text :data:`SILENT_SKILL`. Our agents answer with
    a heartbeat at once; others read that they are registered. Spec: SDP §8, "retryCount".
    """

    def __init__(self, registry: Registry, outbox: Outbox, settings: DiscoverySettings) -> None:
        self._registry = registry
        self._outbox = outbox
        self._settings = settings
        self._addresses: dict[str, Peer] = {}
        self._schedule: TimerQueue[tuple[Key, int]] = TimerQueue()  # with the number of requests sent
        self.timer: Timer = self._schedule.timer
        self._sent_in_second = (0, 0)
        span = (settings.unhealthy_missed - settings.suspect_missed) * settings.heartbeat_interval
        self._pause = span / (settings.retry_count + 1)

    def note_address(self, agent_id: str, peer: Peer) -> None:
        """Remember where an agent with listed skills was heard from."""
        if self._addresses.get(agent_id) != peer and self._registry.count_of_agent(agent_id):
            self._addresses[agent_id] = peer

    def changed(self, change: Change, now: Moment) -> None:
        """Take a change of the registry."""
        if change.after is not None and change.kind is not ChangeKind.SUSPECTED:
            return
        agent_id, _ = key = change.listed.key
        if change.after is None and not self._registry.count_of_agent(agent_id):
            self._addresses.pop(agent_id, None)
        if change.kind is ChangeKind.SUSPECTED and agent_id in self._addresses and self._settings.retry_count:
            self._schedule.set((key, 0), now.steady)

    def on_timer(self, now: Moment) -> None:
        """Ask the agents of skills that are still silent."""
        while (due := self._schedule.pop(now.steady)) is not None:
            key, sends = due
            listed = self._registry.get(key)
            if listed is None or not listed.health.is_suspect or listed.health.status in FALLEN:
                continue
            if self._registry.network_is_suspected(now.steady, listed):
                continue
            second, count = self._sent_in_second
            self._sent_in_second = int(now.steady), (count + 1 if second == int(now.steady) else 1)
            peer = self._addresses.get(key[0])
            if peer is not None and self._sent_in_second[1] <= limits.LAN_SUSPECT_PINGS:
                message = m.RegisterAck(key[0], Outcome.DUPLICATE, f"{key[1]} {SILENT_SKILL}", self._outbox.stamp(now))
                self._outbox.send(self._outbox.write(message), now, peer)
            if sends + 1 < self._settings.retry_count:
                self._schedule.set((key, sends + 1), now.steady + self._pause)


class McpAgent:
    """The registry and the scenes of one agent."""

    def __init__(
        self, outbox: Outbox, challenges: Challenges, settings: DiscoverySettings, *, answers: bool = True
    ) -> None:
        self.registry = Registry(settings, knows_newcomers=answers)
        self.probe_requests: list[ProbeRequested] = []
        self._answers = answers
        self._primaries: dict[str, tuple[Key, m.Endpoint]] = {}
        #: Called when a goodbye waits to be stored; without it goodbyes are acknowledged unstored.
        self.on_goodbye: Callable[[], object] | None = None
        self._unstored: list[tuple[VerifiedMessage, m.UnregisterAck]] = []
        self._outbox = outbox
        self._challenges = challenges
        self._groups = scenes.Groups(self.registry, outbox, settings)
        self._pinger = SuspectPinger(self.registry, outbox, settings)
        self._reports = ReportLimit()

    def register(self, received: VerifiedMessage, message: m.Register, now: Moment) -> list[NodeEvent]:
        """Take a registration, and acknowledge its outcome. Spec: SDP §2.2."""
        status, why = self._judge(received, message, now)
        if status in m.ACCEPTED:
            self._note_heard((message.agent_id, message.skill_id), received.source)
        text = f"{message.skill_id} {why}"
        if message.agent_id:
            self._reply(received, m.RegisterAck(message.agent_id, status, text, self._outbox.stamp(now)), now)
        events: list[NodeEvent] = [*self.take_changes(now)]
        is_new = not received.is_repeated and message.agent_id != self._outbox.agent_id
        if status not in m.ACCEPTED and is_new and self._reports.allows(received.source.host, text, now.steady):
            events.append(Refused(received.source, message.agent_id, message.skill_id, status, why))
        return events

    def on_heartbeat(
        self, received: VerifiedMessage, message: m.Heartbeat | m.StatusUpdate, now: Moment
    ) -> list[Change]:
        """Take a heartbeat or a status; request the registration of a skill that is not listed."""
        key = message.agent_id, message.skill_id
        is_unknown = received.standing is Standing.UNKNOWN_KEY
        if is_unknown:  # its certificate has expired, or was revoked
            self.registry.distrust(key)
        if is_unknown or not self.registry.on_heartbeat(key, message.status, message.timestamp, now.steady):
            text = f"{message.skill_id} {UNKNOWN_SKILL}"
            request = m.RegisterAck(message.agent_id, Outcome.INVALID, text, self._outbox.stamp(now))
            self._reply(received, request, now)
        else:
            self._note_heard(key, received.source)
        return self.take_changes(now)

    def on_notice(self, received: VerifiedMessage, message: m.SceneEvent, now: Moment) -> Sequence[NodeEvent] | None:
        """Request the registration of a skill that its own agent names, and that is not listed; ignore all else.

        A member that joined a moment ago may know none but the PRIMARY, and would name no other until a heartbeat.
        """
        known = self.registry.get((message.agent_id, message.skill_id))
        is_listed = known is not None and not known.is_hint
        if is_listed or message.event is m.GroupEvent.MEMBER_LEFT or received.signer not in ("", message.agent_id):
            return None
        if not received.signer:
            self._challenges.hold(received, now)
            return ()
        self._outbox.request_registration(message.agent_id, message.skill_id, received.source, now)
        return ()

    def unregister(self, received: VerifiedMessage, message: m.Unregister, now: Moment) -> list[Change]:
        """Take a goodbye, and acknowledge its outcome, once it is stored. Spec: SDP §9.2."""
        status = Outcome.UNAUTHORIZED
        if received.standing is not Standing.UNKNOWN_KEY:
            key, reason = (message.agent_id, message.skill_id), _GONE[message.reason]
            status = self.registry.unregister(key, message.timestamp, now.steady, reason)
        answer = m.UnregisterAck(message.agent_id, message.skill_id, status, self._outbox.stamp(now))
        if self.on_goodbye is not None and status in m.ACCEPTED:
            self._unstored.append((received, answer))
            self.on_goodbye()
        else:
            self._reply(received, answer, now)
        return self.take_changes(now)

    def take_goodbyes(self) -> list[tuple[VerifiedMessage, m.UnregisterAck]]:
        """Return the goodbyes that wait to be stored, and their acknowledgments; wait for them no more."""
        goodbyes, self._unstored = self._unstored, []
        return goodbyes

    def acknowledge(self, goodbyes: Sequence[tuple[VerifiedMessage, m.UnregisterAck]], now: Moment) -> None:
        """Acknowledge goodbyes that are stored."""
        for received, answer in goodbyes:
            self._reply(received, answer, now)

    def discover(self, received: VerifiedMessage, message: m.Discover, now: Moment) -> tuple[()]:
        """Answer with the skills that pass the filters, as many as fit; not at all without any. Spec: SDP §3.3."""
        limit, source = self._outbox.limit, received.source
        allowed = limit.answer_allowance(source, now.steady)
        most = min(int(limits.LAN_ANSWER_SKILLS), allowed // _LEAST_RECORD + 1)  # one more shows that there are more
        listed = self.registry.find(message, int(most))
        found = [record_of(one.registration, is_stale=one.health.is_stale) for one in listed]
        if found:
            sign = self._outbox.identity.sign if self._outbox.profile is Profile.SIGNED else None
            write = partial(encode_responses, message.requester_id, found, self._outbox.stamp(now), sign=sign)
            answers = write()
            limit.allow_answer(source, sum(map(len, answers)), now.steady)
            self._challenges.answer(received, answers, now, lambda most: write(most=most))
        return ()

    def join(self, received: VerifiedMessage, message: m.JoinScene | m.RequestScene, now: Moment) -> tuple[()]:
        """Let an agent join a scene, and send it the group; or SCENE_NOT_FOUND. Spec: SDP §4.2.

        A provider that fits into no answer counts as missing, because silence would be taken for loss. An address joins
        only after its proof: it gets the notices of the group from then on.
        """
        if received.standing is Standing.UNKNOWN_KEY:
            return ()
        stamp = self._outbox.stamp(now)
        missing = m.SceneNotFound(message.agent_id, message.scene, stamp)
        able = self.registry.provider(message.scene, message.capabilities)
        if able is None:
            self._reply(received, missing, now)
            return ()
        if not received.is_proven:
            self._challenges.hold(received, now)
            return ()
        kind = m.JoinSceneResponse if isinstance(message, m.JoinScene) else m.SceneJoinResponse
        found: m.SceneAnswer | None = scenes.answer(
            message.scene, able, self.registry.providers(message.scene, scenes.MEMBERS)
        )
        while found is not None:
            try:
                data = self._outbox.write(kind(message.agent_id, found, stamp))
            except ValidationError:
                found = scenes.shorter(found)
            else:
                self._groups.add_member(message.scene, message.agent_id, received.source, now)
                self._challenges.answer(received, [data], now)
                return ()
        self._reply(received, missing, now)
        return ()

    def take_changes(self, now: Moment) -> list[Change]:
        """Return what changed in the registry; notify the members of groups, and ask the agents of new suspects."""
        changes = self.registry.changes()
        for change in changes:
            self._groups.changed(change, now)
            self._pinger.changed(change, now)
        if self._answers:
            self._probe_primaries({scene for change in changes for scene in change.listed.registration.scenes})
        return changes

    def _probe_primaries(self, changed: Iterable[str]) -> None:
        """Have the endpoint of each new PRIMARY of the changed scenes probed, since it is handed out from now on."""
        for scene in changed:
            if (first := self.registry.provider(scene)) is None:
                self._primaries.pop(scene, None)
            elif self._primaries.get(scene) != (place := (first.key, first.registration.endpoint)):
                self._primaries[scene] = place
                self.probe_requests.append(ProbeRequested(first))

    def _note_heard(self, key: Key, source: Peer) -> None:
        """Remember where an agent was heard from; a skill whose endpoint refused may listen again."""
        self._pinger.note_address(key[0], source)
        if (listed := self.registry.get(key)) is not None and listed.health.is_refused:
            self.probe_requests.append(ProbeRequested(listed))

    def timer(self) -> float | None:
        """Return when something is due next."""
        return earliest(self.registry.timer, self._groups.timer, self._pinger.timer)

    def on_timer(self, now: Moment) -> list[Change]:
        """Do what is due."""
        self.registry.on_timer(now.steady)
        changes = self.take_changes(now)
        self._groups.on_timer(now)
        self._pinger.on_timer(now)
        return changes

    def _judge(self, received: VerifiedMessage, message: m.Register, now: Moment) -> tuple[Outcome, str]:
        if received.refused is not None:
            return received.refused
        judgement = received.judgement
        if judgement is None or received.standing is Standing.UNKNOWN_KEY:
            return Outcome.UNAUTHORIZED, "certified for another"
        if received.is_repeated:  # it counted when it came; sent again it is no sign of life
            known = self.registry.get((message.agent_id, message.skill_id))
            is_listed = known is not None and known.registration.timestamp >= message.timestamp
            return (Outcome.DUPLICATE, "already registered") if is_listed else (Outcome.INVALID, "refused before")
        host, source = message.endpoint.host, received.source.host
        if host != source and host not in {without_zone(source), *judgement.hosts}:
            return Outcome.INVALID, "endpoint host does not match the sender's address"
        try:
            check_record_size(message, len(received.data))
        except ValidationError as error:
            return Outcome.INVALID, error.message
        is_verified = received.standing is Standing.CERTIFIED
        return self.registry.register(message, now.steady, is_verified=is_verified, host=source)

    def _reply(self, received: VerifiedMessage, message: m.Message, now: Moment) -> None:
        self._challenges.answer(received, [self._outbox.write(message)], now)


class DiscoveryNode:
    """One agent on a local network; a :class:`skillwire.wire.node.Node`.

    ``random`` makes jitter and nonces; ``health`` returns the status of an offered skill for its heartbeat, the last
    reported one by default; ``replay`` holds the newest timestamps from before a restart.
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
        self._events: list[NodeEvent] = []
        self._outbox = outbox = Outbox(agent_id, identity, profile, settings, random)
        self._challenges = Challenges(outbox, settings.challenge)
        self._responder = ChallengeResponder(outbox, self._challenges, settings.challenge)
        self.mcp_agent = McpAgent(outbox, self._challenges, settings, answers=Role.MCP_AGENT in roles)
        self.registry = self.mcp_agent.registry
        self.route_agent = RouteAgent(outbox, settings, health)
        own_registry = self.registry if roles & _KEEP_A_REGISTRY else None
        self.searches = Searches(outbox, settings, self._challenges, own_registry)
        self.memberships = scenes.Memberships(outbox, settings)
        self.ring = KeyRing(authority, settings.proof, lambda agent: self.registry.count_of_agent(agent) > 0)
        self.ingress = Ingress(
            outbox,
            ring=self.ring,
            challenges=self._challenges,
            rates=RateLimits(settings, self.registry.count_of_host),
            answer_rates=RateLimits(settings, self.route_agent.awaits_from),
            replay=replay or ReplayGuard(settings.window),
        )
        handlers: dict[type[m.Message], tuple[frozenset[Role], Handler]] = {
            m.Challenge: (frozenset(Role), self._responder.challenged),
            m.Register: (_KEEP_A_REGISTRY, self.mcp_agent.register),
            m.Heartbeat: (_KEEP_A_REGISTRY, self.mcp_agent.on_heartbeat),
            m.StatusUpdate: (_KEEP_A_REGISTRY, self.mcp_agent.on_heartbeat),
            m.Unregister: (_KEEP_A_REGISTRY, self.mcp_agent.unregister),
            m.SceneEvent: (_KEEP_A_REGISTRY, self.mcp_agent.on_notice),
            m.Discover: (frozenset({Role.MCP_AGENT}), self.mcp_agent.discover),
            m.JoinScene: (frozenset({Role.MCP_AGENT}), self.mcp_agent.join),
            m.RequestScene: (frozenset({Role.MCP_AGENT}), self.mcp_agent.join),
            m.RegisterAck: (frozenset({Role.ROUTE_AGENT}), self.route_agent.on_register_ack),
            m.UnregisterAck: (frozenset({Role.ROUTE_AGENT}), self.route_agent.on_unregister_ack),
            m.DiscoverResponse: (frozenset({Role.END_AGENT}), self.searches.on_answer),
            m.JoinSceneResponse: (frozenset({Role.END_AGENT}), self.memberships.on_answer),
            m.SceneJoinResponse: (frozenset({Role.END_AGENT}), self.memberships.on_answer),
            m.SceneNotFound: (frozenset({Role.END_AGENT}), self.memberships.on_missing),
        }
        self._handlers = {kind: handler for kind, (of, handler) in handlers.items() if of & roles}
        parts = self.mcp_agent, self.route_agent, self.searches, self.memberships, self._challenges
        self._timers = (outbox.timer, *(part.timer for part in parts))

    def use_networks(self, networks: Sequence[IPv4Network | IPv6Network]) -> None:
        """Answer questions from these networks, the link's own, without a proof; in the profile *open* alone."""
        if self._outbox.profile is Profile.OPEN:
            self._outbox.limit.networks = networks

    def receive(self, data: bytes, source: Peer, now: Moment) -> None:
        """Take a datagram. Trust: it comes from an untrusted peer; it never raises."""
        self._handle(self.ingress.accept(data, source, now), now)

    def _handle(self, messages: Sequence[VerifiedMessage], now: Moment) -> None:
        for received in messages:
            handler = self._handlers.get(type(received.message))
            events = None if handler is None else handler(received, received.message, now)
            if events is None:
                self.ingress.stopped["not for us"] += 1
            else:
                self._events += events

    def datagrams_to_send(self, now: Moment) -> Sequence[Datagram]:
        """Return what is to be sent by now."""
        sent = self._outbox.due(now)
        for datagram in sent:
            self._responder.note_sent(datagram.data, now.steady)
        return sent

    def events(self, now: Moment) -> Sequence[NodeEvent]:  # noqa: ARG002 - the form of a node
        """Return what happened since the last call."""
        found = [*self._events, *self.ingress.events, *self.mcp_agent.probe_requests]
        self._events, self.ingress.events, self.mcp_agent.probe_requests = [], [], []
        return found

    def timer(self) -> float | None:
        """Return when :meth:`on_timer` or :meth:`datagrams_to_send` is due next."""
        return earliest(*self._timers)

    def on_timer(self, now: Moment) -> None:
        """Do what is due."""
        self._events += self.mcp_agent.on_timer(now)
        self.route_agent.on_timer(now)
        self._events += self.searches.on_timer(now)
        self._events += self.memberships.on_timer(now)
        self._challenges.on_timer(now)
        self._handle(self.ingress.refuse_unanswered(now), now)

    def review(self, now: Moment) -> None:
        """Remove the skills of agents whose certificates were revoked. Spec: SDP §10.2."""
        is_withheld = self.ring.authority.is_withheld
        hints = {one.key[0] for one in self.registry if one.is_hint and is_withheld(one.key[0])}
        self.registry.evict(self.ring.revoked() | hints)
        self._events += self.mcp_agent.take_changes(now)

    def on_probe(self, key: Key, now: Moment, *, is_there: bool) -> None:
        """Count an answer of a skill's endpoint, or its refusal."""
        if is_there:
            self.registry.answered_probe(key, now.steady)
        else:
            self.registry.refused_probe(key)
        self._events += self.mcp_agent.take_changes(now)

    def hint(self, message: m.Register, host: str, now: Moment) -> bool:
        """Take a skill that mDNS announces at ``host``; False when it is ignored. Spec: specs §3 "mDNS"."""
        try:
            check_scenes(message)
        except ValidationError:
            return False
        is_withheld = self.ring.authority.is_withheld(message.agent_id)
        if is_withheld or not self.registry.hint(message, now.steady, host=host):
            return False
        self._events += self.mcp_agent.take_changes(now)
        return True

    def unhint(self, key: Key, now: Moment) -> bool:
        """Remove a skill that mDNS no longer announces; False when it is not listed as a hint."""
        was_listed = self.registry.unhint(key)
        self._events += self.mcp_agent.take_changes(now)
        return was_listed
