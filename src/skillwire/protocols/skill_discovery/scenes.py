"""Scene groups: which agents provide a scene, in which order, and what the members are notified of.

A group follows from the registry alone, so agents that list the same skills have the same groups. Providers are
ordered: certified before unverified, well before UNKNOWN, then by name. The first is PRIMARY, the others are BACKUP;
when the PRIMARY can no longer be called, the next one takes over. A skill that recovers takes its former rank after two
good heartbeats, or later when it flaps.

A notice is about one member or about the PRIMARY. Nothing acknowledges it, so it is sent several times. When much
changes at once only the newest notice of each kind is sent, the PRIMARY first and the rest at the rate that members
read from one source. So at most one notice waits for each member of a group. Spec: SDP §4, §8.3, §9.2; specs §3 "Scene
groups".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.protocols.skill_discovery.health import ChangeKind
from skillwire.protocols.skill_discovery.messages import (
    ConnectionInfo,
    GroupEvent,
    GroupMember,
    HealthStatus,
    SceneAnswer,
    SceneEvent,
    SkillInfo,
)
from skillwire.protocols.skill_discovery.scheduling import Timer, TimerQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.health import Change, Key, ListedSkill
    from skillwire.protocols.skill_discovery.registry import Registry
    from skillwire.protocols.skill_discovery.scheduling import Outbox
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
    info = ConnectionInfo("http", place.host, place.port, endpoint=str(place))
    skill = SkillInfo(message.skill_id, message.version, message.capabilities)
    members = tuple(GroupMember(*one.key, "BACKUP" if rank else "PRIMARY") for rank, one in enumerate(providers))
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


#: Seconds until each copy of a notice, for a few changes and for many.
_PAUSES: Final = (0.0, 0.1, 0.3, 0.6, 1.0)
_PAUSES_OF_MANY: Final = (0.0, 0.4)
_FEW: Final = 6
#: Notices a second for many changes: a member reads twice as many datagrams.
_EACH_SECOND: Final = 8
#: Intervals of announcing for which a member may be silent.
_MEMBERSHIP: Final = 3
#: Members of one host, which can make up agents.
_PER_HOST: Final = 64


class _Notice(NamedTuple):
    event: GroupEvent
    key: Key
    status: HealthStatus


class _Group:
    """One scene's group."""

    __slots__ = ("due", "is_busy", "members", "primary", "waiting")

    def __init__(self, primary: Key | None) -> None:
        self.members: dict[str, tuple[Peer, float]] = {}
        self.primary = primary
        self.waiting: dict[tuple[str, Key], _Notice] = {}
        self.is_busy = False
        self.due = 0.0


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
        if agent_id not in group.members and _is_full(group, peer.host):
            _forget_silent(group, now)
            if _is_full(group, peer.host):
                return
        until = now.steady + _MEMBERSHIP * self._settings.announce_interval
        group.members[agent_id] = peer, until
        if ("end", scene) not in self._schedule:
            self._schedule.set(("end", scene), until)

    def changed(self, change: Change, now: Moment) -> None:
        """Take a change of the registry."""
        if not self._groups:
            return
        for scene in sorted(_scenes_of(change.before) | _scenes_of(change.after)):
            group = self._groups.get(scene)
            if group is None:
                continue
            event, listed = _event_of(scene, change), change.listed
            status = change.after.health.status if change.after else HealthStatus.OFFLINE
            if event is not None:
                _put(group, _Notice(event, listed.key, status))
            if ("notify", scene) not in self._schedule:
                self._notify_at(scene, group, now.steady + self._collected)

    def on_timer(self, now: Moment) -> None:
        """Send the notices that are due, and forget groups without members."""
        while (due := self._schedule.pop(now.steady)) is not None:
            kind, scene = due
            group = self._groups[scene]
            _forget_silent(group, now)
            if not group.members:
                del self._groups[scene]
                self._schedule.cancel(("notify", scene))
                self._schedule.cancel(("end", scene))
            elif kind == "end":
                self._schedule.set(due, max(until for _, until in group.members.values()))
            else:
                self._notify_waiting(scene, group, now)

    def _notify_waiting(self, scene: str, group: _Group, now: Moment) -> None:
        chosen = self._chosen(scene, group)
        pauses = _PAUSES_OF_MANY if group.is_busy else _PAUSES
        late = now.steady - group.due
        for notice in chosen:
            self._notify(scene, group.members.values(), notice, [pause - late for pause in pauses], now)
        if chosen and group.is_busy:
            self._notify_at(scene, group, now.steady + 1.0)

    def _notify_at(self, scene: str, group: _Group, due: float) -> None:
        group.due = due
        self._schedule.set(("notify", scene), due)

    def _chosen(self, scene: str, group: _Group) -> list[_Notice]:
        """Return the notices to send now: all of a few, a part of many, the PRIMARY first."""
        chosen: list[_Notice] = []
        first = self._first(scene)
        if first != group.primary:
            group.primary = first
            found = self._registry.get(first) if first else None
            if found is not None:
                chosen.append(_Notice(GroupEvent.PRIMARY_CHANGED, found.key, found.health.status))
        group.is_busy = len(group.waiting) > _FEW or (group.is_busy and bool(group.waiting))
        most = _EACH_SECOND if group.is_busy else _FEW
        return chosen + [group.waiting.pop(what) for what in list(group.waiting)[:most]]

    def _notify(
        self, scene: str, members: Iterable[tuple[Peer, float]], notice: _Notice, pauses: Iterable[float], now: Moment
    ) -> None:
        stamp = self._outbox.stamp(now)
        message = SceneEvent(group_id(scene), notice.event, *notice.key, notice.status, stamp)
        data = self._outbox.write(message)
        for peer, _ in members:
            for pause in pauses:
                self._outbox.send(data, now, peer, after=pause)

    def _first(self, scene: str) -> Key | None:
        first = self._registry.provider(scene)
        return first.key if first else None


def _is_full(group: _Group, host: str) -> bool:
    """Return whether one more member from a host would be too many."""
    members = group.members.values()
    return len(members) >= limits.LAN_MEMBERS or sum(peer.host == host for peer, _ in members) >= _PER_HOST


def _forget_silent(group: _Group, now: Moment) -> None:
    """Remove the members that were silent for too long."""
    group.members = {name: one for name, one in group.members.items() if one[1] > now.steady}


def _put(group: _Group, notice: _Notice) -> None:
    """Put a notice in place of those that it makes obsolete."""
    is_status = notice.event is GroupEvent.STATUS_CHANGED
    if not is_status:
        group.waiting.pop(("status", notice.key), None)
    group.waiting["status" if is_status else "member", notice.key] = notice


def _scenes_of(listed: ListedSkill | None) -> frozenset[str]:
    """Return the scenes of a skill; a hint is in none."""
    return frozenset(listed.registration.scenes) if listed and not listed.is_hint else frozenset()


def _event_of(scene: str, change: Change) -> GroupEvent | None:
    was, is_now = (scene in _scenes_of(listed) for listed in (change.before, change.after))
    if was and is_now:
        return GroupEvent.STATUS_CHANGED if change.kind is ChangeKind.STATUS else None
    return GroupEvent.MEMBER_JOINED if is_now else GroupEvent.MEMBER_LEFT
