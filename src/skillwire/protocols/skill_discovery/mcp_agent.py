"""MCPAgent: keeps the registry and the scenes, and answers for them.

Several of them on one network hear the same and list the same: the newest timestamp wins, and each asks for what it
missed when it hears a heartbeat of a skill that it does not list. Each tells the members of a group what has changed;
members take it once. Spec: SDP §2.2, §3.3, §4.2, §8.3, §9.2; specs §3.
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
from skillwire.protocols.skill_discovery.route_agent import UNKNOWN_SKILL, check_record_size, check_scenes, record_of
from skillwire.protocols.skill_discovery.scenes import Groups

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.health import Change, Key
    from skillwire.protocols.skill_discovery.ingress import VerifiedMessage
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.scheduling import Timer
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings

#: Bytes of the shortest record, ``a|1.0.0|b:1||``, with what separates it from the next.
_LEAST_RECORD: Final = 14


class McpAgent:
    """The registry and the scenes of one agent.

    Args:
        outbox: takes what is sent.
        settings: figures.
        answer: sends answers to a question, as large as its sender may be given.
        hold: holds a question until its sender has proven to be where it says.
        on_change: is told every change of the registry.
    """

    def __init__(
        self,
        outbox: Outbox,
        settings: DiscoverySettings,
        answer: Callable[[VerifiedMessage, Sequence[bytes], Moment], object],
        hold: Callable[[VerifiedMessage, Moment], object],
        on_change: Callable[[Change], object],
    ) -> None:
        self.registry = Registry(settings, self._changed)
        self._outbox = outbox
        self._answer = answer
        self._hold = hold
        self._on_change = on_change
        self._groups = Groups(self.registry, outbox, settings)
        self._doubts = SuspectPinger(self.registry, outbox, settings)
        self._changes: list[Change] = []
        self.timers: tuple[Timer, ...] = (self.registry.timer, self._groups.timer, self._doubts.timer)

    def register(self, admitted: VerifiedMessage, message: m.Register, now: Moment) -> None:
        """Take a registration, and say what became of it. Spec: SDP §2.2."""
        status, why = self._judge(admitted, message, now)
        if status in m.ACCEPTED:
            self._doubts.heard(message.agent_id, admitted.source)
        text = f"{message.skill_id} {why}"
        self._reply(admitted, m.RegisterAck(message.agent_id, status, text, self._outbox.stamp(now)), now)
        self._tell(now)

    def beat(self, admitted: VerifiedMessage, message: m.Heartbeat | m.StatusUpdate, now: Moment) -> None:
        """Take a heartbeat or a change of status; ask for the registration of a skill that is not listed."""
        key = message.agent_id, message.skill_id
        is_stranger = admitted.standing is Standing.STRANGER
        if is_stranger:  # its certificate has expired, or was taken back
            self.registry.distrust(key)
        if is_stranger or not self.registry.told(key, message.status, message.timestamp, now.steady):
            text = f"{message.skill_id} {UNKNOWN_SKILL}"
            ask = m.RegisterAck(message.agent_id, Outcome.INVALID, text, self._outbox.stamp(now))
            self._reply(admitted, ask, now)
        else:
            self._doubts.heard(message.agent_id, admitted.source)
        self._tell(now)

    def unregister(self, admitted: VerifiedMessage, message: m.Unregister, now: Moment) -> None:
        """Take a goodbye, and say what became of it. Spec: SDP §9.2."""
        status = Outcome.UNAUTHORIZED
        if admitted.standing is not Standing.STRANGER:
            key, reason = (message.agent_id, message.skill_id), message.reason.lower()
            status = self.registry.unregister(key, message.timestamp, now.steady, reason)
        stamp = self._outbox.stamp(now)
        self._reply(admitted, m.UnregisterAck(message.agent_id, message.skill_id, status, stamp), now)
        self._tell(now)

    def discover(self, admitted: VerifiedMessage, message: m.Discover, now: Moment) -> None:
        """Answer with the skills that pass the filters, as many as datagrams are good for; not at all without any.

        The rest is not told: who asks for less, by a capability or a scene, is told all of that. Spec: SDP §3.3.
        """
        room = self._outbox.allowances.room(admitted.source, now.steady)
        most = min(int(limits.LAN_ANSWER_SKILLS), room // _LEAST_RECORD + 1)  # one more, to see that there are more
        found = [record_of(listed.registration) for listed in self.registry.find(message, int(most))]
        if found:
            sign = self._outbox.identity.sign if self._outbox.profile is Profile.SIGNED else None
            stamp = self._outbox.stamp(now)
            self._answer(admitted, encode_responses(message.requester_id, found, stamp, sign=sign), now)

    def join(self, admitted: VerifiedMessage, message: m.JoinScene | m.RequestScene, now: Moment) -> None:
        """Let an agent join a scene that is here, and tell it the group; or that there is none. Spec: SDP §4.2.

        A provider that no answer has room for is as good as none: who hears nothing would take it for loss. Nobody
        joins for an address that is not proven: whoever is there would be told of the group ever after.
        """
        if admitted.standing is Standing.STRANGER:
            return
        stamp = self._outbox.stamp(now)
        missing = m.SceneNotFound(message.agent_id, message.scene, stamp)
        if not self.registry.provides(message.scene, message.capabilities):
            self._reply(admitted, missing, now)
            return
        able = self.registry.provider(message.scene, message.capabilities) if admitted.is_proven else None
        if able is None:
            self._hold(admitted, now)
            return
        found = scenes.answer(message.scene, able, self.registry.providers(message.scene, scenes.MEMBERS))
        kind = m.JoinSceneResponse if isinstance(message, m.JoinScene) else m.SceneJoinResponse
        data = self._largest(partial(kind, message.agent_id), found, stamp)
        if not data:
            self._reply(admitted, missing, now)
            return
        self._groups.let_in(message.scene, message.agent_id, admitted.source, now)
        self._answer(admitted, [data], now)

    def _largest(self, message: Callable[[m.SceneAnswer, int], m.Message], found: m.SceneAnswer, stamp: int) -> bytes:
        """Return the datagram of as much of an answer as fits into one; empty when not even the least of it does."""
        rest: m.SceneAnswer | None = found
        while rest is not None:
            try:
                return self._outbox.write(message(rest, stamp))
            except ValidationError:
                rest = scenes.shorter(rest)
        return b""

    def evict(self, agents: Collection[str], now: Moment) -> None:
        """Forget what agents have registered, and tell the members of their groups."""
        self.registry.evict(agents)
        self._tell(now)

    def answered_probe(self, key: Key, now: Moment) -> None:
        """Take note that the endpoint of a suspect answered."""
        self.registry.answered_probe(key, now.steady)
        self._tell(now)

    def hint(self, message: m.Register, host: str, now: Moment) -> bool:
        """Take what an unsigned source says of a skill; False when it counts for nothing.

        Its lists may be longer than a datagram, since it is told to nobody else.
        """
        try:
            check_scenes(message)
        except ValidationError:
            return False
        counts = self.registry.hint(message, now.steady, host=host)
        self._tell(now)
        return counts

    def unhint(self, key: Key, now: Moment) -> bool:
        """Take back what an unsigned source said; False when there was nothing left of it."""
        counts = self.registry.unhint(key)
        self._tell(now)
        return counts

    def on_timer(self, now: Moment) -> None:
        """Do what silence has come to."""
        self.registry.on_timer(now.steady)
        self._tell(now)
        self._groups.on_timer(now)
        self._doubts.on_timer(now)

    def _judge(self, admitted: VerifiedMessage, message: m.Register, now: Moment) -> tuple[Outcome, str]:
        if admitted.refused is not None:
            return admitted.refused
        judgement = admitted.judgement
        if judgement is None or admitted.standing is Standing.STRANGER:
            return Outcome.UNAUTHORIZED, "certified for another"
        if admitted.is_repeated:  # it counted when it came; sent again it is no sign of life
            known = self.registry.get((message.agent_id, message.skill_id))
            is_listed = known is not None and known.registration.timestamp >= message.timestamp
            return (Outcome.DUPLICATE, "already registered") if is_listed else (Outcome.INVALID, "refused before")
        host, source = message.endpoint.host, admitted.source.host
        if host != source and host not in {without_zone(source), *judgement.hosts}:
            return Outcome.INVALID, "endpoint is not where it comes from"
        try:
            check_record_size(message, len(admitted.data))
        except ValidationError as error:
            return Outcome.INVALID, error.message
        is_verified = admitted.standing is Standing.CERTIFIED
        return self.registry.register(message, now.steady, is_verified=is_verified, host=admitted.source.host)

    def _reply(self, admitted: VerifiedMessage, message: m.Message, now: Moment) -> None:
        self._answer(admitted, [self._outbox.write(message)], now)

    def _changed(self, change: Change) -> None:
        self._changes.append(change)
        self._on_change(change)

    def _tell(self, now: Moment) -> None:
        """Tell members what has changed in their groups, after all of it has, and ask who is silent."""
        if not self._changes:
            return
        changes, self._changes = self._changes, []
        for change in changes:
            self._groups.changed(change, now)
            self._doubts.changed(change, now)
