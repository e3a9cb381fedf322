"""MCPAgent: keeps the registry and the scenes of a network, and answers for them.

Several MCPAgents on one network hear the same messages and list the same skills: the newest timestamp wins, and each
requests what it missed when it hears a heartbeat of a skill that it does not list. Each notifies the members of a group
of changes, and members take each change once. Spec: SDP §2.2, §3.3, §4.2, §8.3, §9.2; specs §3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.codec import encode_responses
from skillwire.protocols.skill_discovery.heartbeats import SuspectPinger
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.messages import Outcome, Profile
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.route_agent import check_record_size, check_scenes, record_of
from skillwire.protocols.skill_discovery.scheduling import UNKNOWN_SKILL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.challenges import Challenges
    from skillwire.protocols.skill_discovery.events import NodeEvent, VerifiedMessage
    from skillwire.protocols.skill_discovery.health import Key
    from skillwire.protocols.skill_discovery.scheduling import Outbox
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings

#: Bytes of the shortest record, ``a|1.0.0|b:1||``, and its separator.
_LEAST_RECORD: Final = 14


class McpAgent:
    """The registry and the scenes of one agent."""

    def __init__(
        self, outbox: Outbox, challenges: Challenges, settings: DiscoverySettings, events: list[NodeEvent]
    ) -> None:
        self.registry = Registry(settings)
        self._outbox = outbox
        self._challenges = challenges
        self._events = events
        self._groups = scenes.Groups(self.registry, outbox, settings)
        self._pinger = SuspectPinger(self.registry, outbox, settings)
        self._parts = self.registry, self._groups, self._pinger

    def register(self, received: VerifiedMessage, message: m.Register, now: Moment) -> None:
        """Take a registration, and acknowledge its outcome. Spec: SDP §2.2."""
        status, why = self._judge(received, message, now)
        if status in m.ACCEPTED:
            self._pinger.note_address(message.agent_id, received.source)
        text = f"{message.skill_id} {why}"
        self._reply(received, m.RegisterAck(message.agent_id, status, text, self._outbox.stamp(now)), now)
        self._take_changes(now)

    def on_heartbeat(self, received: VerifiedMessage, message: m.Heartbeat | m.StatusUpdate, now: Moment) -> None:
        """Take a heartbeat or a status; request the registration of a skill that is not listed."""
        key = message.agent_id, message.skill_id
        is_unknown = received.standing is Standing.UNKNOWN_KEY
        if is_unknown:  # its certificate has expired, or was revoked
            self.registry.distrust(key)
        if is_unknown or not self.registry.on_heartbeat(key, message.status, message.timestamp, now.steady):
            text = f"{message.skill_id} {UNKNOWN_SKILL}"
            ask = m.RegisterAck(message.agent_id, Outcome.INVALID, text, self._outbox.stamp(now))
            self._reply(received, ask, now)
        else:
            self._pinger.note_address(message.agent_id, received.source)
        self._take_changes(now)

    def unregister(self, received: VerifiedMessage, message: m.Unregister, now: Moment) -> None:
        """Take a goodbye, and acknowledge its outcome. Spec: SDP §9.2."""
        status = Outcome.UNAUTHORIZED
        if received.standing is not Standing.UNKNOWN_KEY:
            key, reason = (message.agent_id, message.skill_id), message.reason.lower()
            status = self.registry.unregister(key, message.timestamp, now.steady, reason)
        stamp = self._outbox.stamp(now)
        self._reply(received, m.UnregisterAck(message.agent_id, message.skill_id, status, stamp), now)
        self._take_changes(now)

    def discover(self, received: VerifiedMessage, message: m.Discover, now: Moment) -> None:
        """Answer with the skills that pass the filters, at most as many as fit; not at all without any.

        A query with a capability or a scene finds those that did not fit. Spec: SDP §3.3.
        """
        room = self._outbox.limit.room(received.source, now.steady)
        most = min(int(limits.LAN_ANSWER_SKILLS), room // _LEAST_RECORD + 1)  # one more shows that there are more
        found = [record_of(listed.registration) for listed in self.registry.find(message, int(most))]
        if found:
            sign = self._outbox.identity.sign if self._outbox.profile is Profile.SIGNED else None
            answers = encode_responses(message.requester_id, found, self._outbox.stamp(now), sign=sign)
            self._challenges.answer(received, answers, now)

    def join(self, received: VerifiedMessage, message: m.JoinScene | m.RequestScene, now: Moment) -> None:
        """Let an agent join a scene, and send it the group; or SCENE_NOT_FOUND. Spec: SDP §4.2.

        A provider that fits into no answer counts as missing, because silence would be taken for loss. An address joins
        only after its proof: it gets the notices of the group from then on.
        """
        if received.standing is Standing.UNKNOWN_KEY:
            return
        stamp = self._outbox.stamp(now)
        missing = m.SceneNotFound(message.agent_id, message.scene, stamp)
        if not self.registry.provides(message.scene, message.capabilities):
            self._reply(received, missing, now)
            return
        able = self.registry.provider(message.scene, message.capabilities) if received.is_proven else None
        if able is None:
            self._challenges.hold(received, now)
            return
        found = scenes.answer(message.scene, able, self.registry.providers(message.scene, scenes.MEMBERS))
        kind = m.JoinSceneResponse if isinstance(message, m.JoinScene) else m.SceneJoinResponse
        data = self._largest(partial(kind, message.agent_id), found, stamp)
        if not data:
            self._reply(received, missing, now)
            return
        self._groups.add_member(message.scene, message.agent_id, received.source, now)
        self._challenges.answer(received, [data], now)

    def _largest(self, message: Callable[[m.SceneAnswer, int], m.Message], found: m.SceneAnswer, stamp: int) -> bytes:
        """Return the datagram of as much of an answer as fits; empty when nothing fits."""
        rest: m.SceneAnswer | None = found
        while rest is not None:
            try:
                return self._outbox.write(message(rest, stamp))
            except ValidationError:
                rest = scenes.shorter(rest)
        return b""

    def evict(self, agents: Collection[str], now: Moment) -> None:
        """Remove the skills of agents."""
        self.registry.evict(agents)
        self._take_changes(now)

    def answered_probe(self, key: Key, now: Moment) -> None:
        """Count an answer of a suspect's endpoint."""
        self.registry.answered_probe(key, now.steady)
        self._take_changes(now)

    def hint(self, message: m.Register, host: str, now: Moment) -> bool:
        """Take a skill from mDNS; False when it is ignored. Its lists may be longer than a datagram."""
        try:
            check_scenes(message)
        except ValidationError:
            return False
        counts = self.registry.hint(message, now.steady, host=host)
        self._take_changes(now)
        return counts

    def unhint(self, key: Key, now: Moment) -> bool:
        """Remove a skill from mDNS; False when there is none."""
        counts = self.registry.unhint(key)
        self._take_changes(now)
        return counts

    def timer(self) -> float | None:
        """Return when something is due next."""
        return min((due for part in self._parts if (due := part.timer()) is not None), default=None)

    def on_timer(self, now: Moment) -> None:
        """Do what is due."""
        self.registry.on_timer(now.steady)
        self._take_changes(now)
        self._groups.on_timer(now)
        self._pinger.on_timer(now)

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
        return self.registry.register(message, now.steady, is_verified=is_verified, host=received.source.host)

    def _reply(self, received: VerifiedMessage, message: m.Message, now: Moment) -> None:
        self._challenges.answer(received, [self._outbox.write(message)], now)

    def _take_changes(self, now: Moment) -> None:
        """Notify the members of groups of what changed, and ask the agents of new suspects."""
        changes = self.registry.changes()
        self._events += changes
        for change in changes:
            self._groups.changed(change, now)
            self._pinger.changed(change, now)
