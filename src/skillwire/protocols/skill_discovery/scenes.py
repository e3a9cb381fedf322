"""Scenes: the groups that a registry keeps, and the groups that an agent joins.

**Groups.** A group follows from the registry alone, so agents that list the same skills have the same groups. Providers
are ordered: certified before unverified, well before UNKNOWN, those that registered first before newcomers, then by
name; one whose endpoint refuses a probe is last of its trust. The first is PRIMARY, the others are BACKUP; when the
PRIMARY can no longer be called, the next one takes over. A skill that recovers takes its former rank after two good
heartbeats, or later when it flaps; after a goodbye it is a newcomer. A notice is about one member or about the PRIMARY.
Nothing acknowledges it, so it is sent several times. When much changes at once only the newest notice of each kind is
sent, the PRIMARY first and the rest at the rate that members read from one source. So at most one notice waits for each
member.

**Memberships.** A request for a scene is repeated after short pauses until it is answered, since datagrams are lost.
The first answer names the group, and proves nothing: which provider is used follows from the registrations that the
agent hears. An answer to no request is dropped. A member of ours believes no notice, since none is signed: it hears the
skills of the scene itself, and requests the registration of one that it missed. Spec: SDP §3.3, §4, §8.3, §9.2;
specs §3 "Scene groups".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.health import Change, ChangeKind, Key, ListedSkill
from skillwire.protocols.skill_discovery.ingress import VerifiedMessage
from skillwire.protocols.skill_discovery.messages import GroupEvent, HealthStatus, SceneAnswer, SkillInfo
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.scheduling import Outbox, Timer, TimerQueue
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Peer

#: Members in an answer; more would not fit into a datagram.
MEMBERS: Final = 6
_INSTANCE: Final = "-001"
_GROUP: Final = "group-"
#: Characters of a scene's name, so that the name of its group is an identifier, too.
LONGEST: Final = int(limits.LAN_IDENTIFIER_LENGTH) - len(_GROUP + _INSTANCE)


def scene_id(scene: str) -> str:
    """Return the identifier of a scene's one instance on this network."""
    return f"{scene}{_INSTANCE}"


def group_id(scene: str) -> str:
    """Return the identifier of a scene's group, the same for all agents."""
    return f"{_GROUP}{scene_id(scene)}"


def answer(scene: str, able: ListedSkill, providers: Sequence[ListedSkill]) -> SceneAnswer:
    """Return the answer for a scene with its first able provider and its first members. Spec: SDP §4.3; specs §3.

    It has no API key and no base path: a provider does not register them, and sends both with the key.
    """
    message = able.registration
    place = message.endpoint
    info = m.ConnectionInfo("http", place.host, place.port, endpoint=str(place))
    skill = SkillInfo(message.skill_id, message.version, message.capabilities)
    members = tuple(m.GroupMember(*one.key, "BACKUP" if rank else "PRIMARY") for rank, one in enumerate(providers))
    return SceneAnswer(scene_id(scene), group_id(scene), info, skill, members)


def shorter(found: SceneAnswer) -> SceneAnswer | None:
    """Return a shorter answer, without BACKUPs, then capabilities, then the PRIMARY; None for the shortest."""
    facts, skill = (found.scene_id, found.group_id, found.connection_info), found.skill_info
    if len(found.members) > 1:
        return SceneAnswer(*facts, skill, found.members[:-1])
    if skill.capabilities:
        half = skill.capabilities[: len(skill.capabilities) // 2]
        return SceneAnswer(*facts, SkillInfo(skill.skill_id, skill.version, half), found.members)
    return SceneAnswer(*facts, skill, ()) if found.members else None


#: Seconds until each copy of a notice.
_PAUSES: Final = (0.0, 0.1, 0.3, 0.6, 1.0)
#: Notices a second about other members than the PRIMARY: a member reads 20 datagrams a second, and more at once.
_EACH_SECOND: Final = 4
#: Intervals of announcing for which a member may be silent.
_MEMBERSHIP: Final = 3
#: Members of one host, which can make up agents.
_PER_HOST: Final = 64


class _Notice(NamedTuple):
    event: GroupEvent
    key: Key
    status: HealthStatus


@dataclass(slots=True)
class _Group:
    primary: Key | None
    members: dict[str, tuple[Peer, float]] = field(default_factory=dict)
    waiting: dict[tuple[str, Key], _Notice] = field(default_factory=dict)
    due: float = 0.0

    def is_full(self, host: str) -> bool:
        members = self.members.values()
        return len(members) >= limits.LAN_MEMBERS or sum(peer.host == host for peer, _ in members) >= _PER_HOST

    def remove_silent(self, now: float) -> None:
        self.members = {name: one for name, one in self.members.items() if one[1] > now}

    def put(self, notice: _Notice) -> None:
        """Put a notice in place of those that it makes obsolete."""
        is_status = notice.event is GroupEvent.STATUS_CHANGED
        if not is_status:
            self.waiting.pop(("status", notice.key), None)
        self.waiting["status" if is_status else "member", notice.key] = notice


class Groups:
    """The groups whose members one agent notifies."""

    def __init__(self, registry: Registry, outbox: Outbox, settings: DiscoverySettings) -> None:
        self._registry = registry
        self._outbox = outbox
        self._settings = settings
        # Seconds in which changes are collected. They end before a goodbye is acknowledged, as in the figure of SDP
        # §9.2.
        self._collected = settings.answer_delay[0]
        self._groups: dict[str, _Group] = {}
        self._schedule: TimerQueue[tuple[str, str]] = TimerQueue()  # ("notify" or "end", scene)
        self.timer: Timer = self._schedule.timer

    def add_member(self, scene: str, agent_id: str, peer: Peer, now: Moment) -> None:
        """Notify an agent of changes in a scene, for as long as it repeats that it joined."""
        group = self._groups.get(scene)
        if group is None:
            group = self._groups[scene] = _Group(self._first(scene))
        if agent_id not in group.members and group.is_full(peer.host):
            group.remove_silent(now.steady)
            if group.is_full(peer.host):
                return
        until = now.steady + _MEMBERSHIP * self._settings.announce_interval
        group.members[agent_id] = peer, until
        if ("end", scene) not in self._schedule:
            self._schedule.set(("end", scene), until)

    def changed(self, change: Change, now: Moment) -> None:
        """Take a change of the registry."""
        if not self._groups:
            return
        before, after = _scenes_of(change.before), _scenes_of(change.after)
        for scene in sorted(before | after):
            group = self._groups.get(scene)
            if group is None:
                continue
            event: GroupEvent | None = GroupEvent.MEMBER_JOINED if scene in after else GroupEvent.MEMBER_LEFT
            if scene in before & after:
                event = GroupEvent.STATUS_CHANGED if change.kind is ChangeKind.STATUS else None
            if event is not None:
                status = change.after.health.status if change.after else HealthStatus.OFFLINE
                group.put(_Notice(event, change.listed.key, status))
            if ("notify", scene) not in self._schedule:
                self._notify_at(scene, group, now.steady + self._collected)

    def on_timer(self, now: Moment) -> None:
        """Send the notices that are due, and forget groups without members."""
        while (due := self._schedule.pop(now.steady)) is not None:
            kind, scene = due
            group = self._groups[scene]
            group.remove_silent(now.steady)
            if not group.members:
                del self._groups[scene]
                self._schedule.cancel(("notify", scene))
                self._schedule.cancel(("end", scene))
            elif kind == "end":
                self._schedule.set(due, max(until for _, until in group.members.values()))
            else:
                self._notify(scene, group, now)

    def _notify(self, scene: str, group: _Group, now: Moment) -> None:
        chosen: list[_Notice] = []
        first = self._first(scene)
        if first != group.primary:
            group.primary = first
            found = self._registry.get(first) if first else None
            if found is not None:
                chosen.append(_Notice(GroupEvent.PRIMARY_CHANGED, found.key, found.health.status))
        chosen += [group.waiting.pop(key) for key in list(group.waiting)[:_EACH_SECOND]]
        late = now.steady - group.due
        for notice in chosen:
            stamp = self._outbox.stamp(now)
            data = self._outbox.write(m.SceneEvent(group_id(scene), notice.event, *notice.key, notice.status, stamp))
            for peer, _ in group.members.values():
                for pause in _PAUSES:
                    self._outbox.send(data, now, peer, after=pause - late)
        if group.waiting:
            self._notify_at(scene, group, now.steady + 1.0)

    def _notify_at(self, scene: str, group: _Group, due: float) -> None:
        group.due = due
        self._schedule.set(("notify", scene), due)

    def _first(self, scene: str) -> Key | None:
        first = self._registry.provider(scene)
        return first.key if first else None


def _scenes_of(listed: ListedSkill | None) -> frozenset[str]:
    """Return the scenes of a skill; a hint is in none."""
    return frozenset(listed.registration.scenes) if listed and not listed.is_hint else frozenset()


class SceneJoined(NamedTuple):
    """This agent joined a scene; the answer has the group, and how its PRIMARY is reached."""

    scene: str
    answer: SceneAnswer
    by: Peer


class SceneMissing(NamedTuple):
    """No agent provides a requested scene; ``is_certain`` is False when none answered at all."""

    scene: str
    is_certain: bool


class _Request(NamedTuple):
    data: bytes
    ends: float
    sends: int = 0
    is_joined: bool = False
    is_missing: bool = False


class Memberships:
    """The scenes that one agent requests or joins."""

    def __init__(self, outbox: Outbox, settings: DiscoverySettings) -> None:
        self._agent_id = outbox.agent_id
        self._outbox = outbox
        self._settings = settings
        self._requests: dict[str, _Request] = {}
        self._schedule: TimerQueue[str] = TimerQueue()  # of the scenes
        self.timer: Timer = self._schedule.timer

    def request(self, scene: str, capabilities: tuple[str, ...], now: Moment, *, is_join: bool) -> None:
        """Join a scene, or request one. Raises: ValidationError: no datagram can hold it. Spec: SDP §2.2, §4.2."""
        kind = m.JoinScene if is_join else m.RequestScene
        data = self._outbox.write(kind(self._agent_id, scene, capabilities, self._outbox.stamp(now)))
        self._requests[scene] = _Request(data, now.steady + self._settings.patience)
        self._schedule.set(scene, now.steady)

    def cancel(self, scene: str) -> None:
        """Forget a request."""
        self._requests.pop(scene, None)
        self._schedule.cancel(scene)

    def on_answer(
        self, received: VerifiedMessage, message: m.JoinSceneResponse | m.SceneJoinResponse, now: Moment
    ) -> Sequence[SceneJoined] | None:
        """Take an answer that names a scene's group, the first of several; None when it was not requested."""
        # Our agents name the one instance of a scene. Others may name several: `auth-1` is one of `auth`, and
        # `auth-admin-1` is one of `auth-admin`.
        instance = message.answer.scene_id
        exact = next((scene for scene in self._requests if instance in (scene, scene_id(scene))), None)
        scene = exact or next((scene for scene in self._requests if scene == instance.rpartition("-")[0]), None)
        if scene is None or message.agent_id != self._agent_id:
            return None
        request = self._requests[scene]
        if request.is_joined:
            return ()
        self._requests[scene] = request._replace(ends=now.steady + self._settings.patience, is_joined=True)
        return [SceneJoined(scene, message.answer, received.source)]

    def on_missing(self, _: VerifiedMessage, message: m.SceneNotFound, now: Moment) -> tuple[()] | None:
        """Take the answer that one agent knows no provider; others may. None when it was not requested."""
        request = self._requests.get(message.scene)
        if request is None or message.agent_id != self._agent_id:
            return None
        if not request.is_missing and not request.is_joined:
            ends = min(request.ends, now.steady + self._settings.not_found_patience)
            self._requests[message.scene] = request._replace(is_missing=True, ends=ends)
        return ()

    def on_timer(self, now: Moment) -> list[SceneMissing]:
        """Repeat requests, and end those whose time is over."""
        events: list[SceneMissing] = []
        while (scene := self._schedule.pop(now.steady)) is not None:
            request = self._requests[scene]
            if now.steady >= request.ends:
                del self._requests[scene]
                if not request.is_joined:
                    events.append(SceneMissing(scene, is_certain=request.is_missing))
                continue
            due, pauses = request.ends, self._settings.searches
            if request.sends < len(pauses) and not request.is_joined:
                self._outbox.send(request.data, now)
                due = min(due, now.steady + pauses[request.sends])
            self._schedule.set(scene, due)
            self._requests[scene] = request._replace(sends=request.sends + 1)
        return events
