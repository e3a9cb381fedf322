"""Scene groups: who provides a scene, in which order, and how the first of them is reached.

A group is made from what is registered and from nothing else, so agents that list the same have the same groups:
whoever has a certified key stands before who has none, who is well before who is unknown, then by name. The first is
PRIMARY, the others are BACKUP; when the first can no longer be called, the next one is PRIMARY. A skill that recovers
takes its place again after two good beats, or later when it flaps. The order is kept in
:mod:`~skillwire.protocols.skill_discovery.index`. Spec: SDP §4; specs §3 "Scene groups".

The groups of scenes: which agents are in them, and what those are told when something changes.

A notice is about one member or about who is PRIMARY, and nobody acknowledges it, so it is sent several times; a member
takes it once. When much changes at once only the newest of each counts, who is PRIMARY comes first, and the rest goes
out as fast as members read from one source and no faster: what waits is one notice for each member at most.
Spec: SDP §8.3, §9.2; specs §3 "Scene groups".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.protocols.skill_discovery.health import What
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
    from skillwire.protocols.skill_discovery.health import Change, Key, Listed
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.registry import Registry
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


#: Members that are told of; more would not fit into a datagram.
MEMBERS: Final = 6
_INSTANCE: Final = "-001"
_GROUP: Final = "group-"
#: Of a scene's name, whose group has a name, too.
LONGEST: Final = int(limits.LAN_IDENTIFIER_LENGTH) - len(_GROUP + _INSTANCE)


def scene_id(scene: str) -> str:
    """Return the identifier of a scene's one instance on this network."""
    return f"{scene}{_INSTANCE}"


def group_id(scene: str) -> str:
    """Return the identifier of its group, the same for all agents."""
    return f"{_GROUP}{scene_id(scene)}"


def answer(scene: str, able: Listed, providers: Sequence[Listed]) -> SceneAnswer:
    """Return what somebody is told who asks for a scene. Spec: SDP §4.3; specs §3.

    An API key is never told; nor is how a provider takes one, which it does not register: it says that itself, with the
    key. Paths of a provider begin at its root unless it says otherwise there, so no base path is told.

    Args:
        scene: its name.
        able: the first provider that can do what is asked for.
        providers: the first :data:`MEMBERS` of all, in their order.
    """
    message = able.registration
    place = message.endpoint
    info = ConnectionInfo("http", place.host, place.port, endpoint=str(place))
    skill = SkillInfo(message.skill_id, message.version, message.capabilities)
    members = tuple(GroupMember(*one.key, "BACKUP" if rank else "PRIMARY") for rank, one in enumerate(providers))
    return SceneAnswer(scene_id(scene), group_id(scene), info, skill, members)


def shorter(found: SceneAnswer) -> SceneAnswer | None:
    """Return an answer that tells less; None when it tells the least.

    First it names fewer BACKUP members, then fewer capabilities, and the PRIMARY as long as anything else can go.
    """
    facts, skill = (found.scene_id, found.group_id, found.connection_info), found.skill_info
    if len(found.members) > 1:
        return SceneAnswer(*facts, skill, found.members[:-1])
    if skill.capabilities:
        half = skill.capabilities[: len(skill.capabilities) // 2]
        return SceneAnswer(*facts, SkillInfo(skill.skill_id, skill.version, half), found.members)
    return SceneAnswer(*facts, skill, ()) if found.members else None


#: Pauses in seconds after which members are told again, of a few changes and of many.
_PAUSES: Final = (0.0, 0.1, 0.3, 0.6, 1.0)
_PAUSES_OF_MANY: Final = (0.0, 0.4)
_FEW: Final = 6
#: Of many changes so many are told each second: twice as many datagrams are within what a member reads.
_EACH_SECOND: Final = 8
_MEMBERSHIP: Final = 3  # of announcing, that a member may be silent
#: Members of one host, which may have made them up.
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
        self.due = 0.0  # for what waits


class Groups:
    """The groups that one agent tells of changes.

    Args:
        registry: who provides what.
        outbox: takes what is sent.
        settings: figures.
    """

    def __init__(self, registry: Registry, outbox: Outbox, settings: DiscoverySettings) -> None:
        self._registry = registry
        self._outbox = outbox
        self._settings = settings
        # Seconds in which changes are collected, so that what belongs together is told together: before whoever has
        # said goodbye is answered, as in the figure of SDP §9.2.
        self._collected = settings.answer_delay[0]
        self._groups: dict[str, _Group] = {}
        self._agenda: TimerQueue[tuple[str, str]] = (
            TimerQueue()
        )  # to tell a scene's group, or to look whether it has ended
        self.timer: Timer = self._agenda.timer

    def let_in(self, scene: str, agent_id: str, peer: Peer, now: Moment) -> None:
        """Tell an agent what changes in a scene from now on, for as long as it says again that it is there."""
        group = self._groups.get(scene)
        if group is None:
            group = self._groups[scene] = _Group(self._first(scene))
        if agent_id not in group.members and _is_full(group, peer.host):
            _forget_silent(group, now)
            if _is_full(group, peer.host):
                return
        until = now.steady + _MEMBERSHIP * self._settings.announce_interval
        group.members[agent_id] = peer, until
        if ("end", scene) not in self._agenda:
            self._agenda.set(("end", scene), until)

    def changed(self, change: Change, now: Moment) -> None:
        """Take a change of the registry, after it happened."""
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
            if ("tell", scene) not in self._agenda:
                self._tell_at(scene, group, now.steady + self._collected)

    def on_timer(self, now: Moment) -> None:
        """Tell what is due, and forget the groups that nobody is in any more."""
        while (due := self._agenda.pop(now.steady)) is not None:
            kind, scene = due
            group = self._groups[scene]
            _forget_silent(group, now)
            if not group.members:
                del self._groups[scene]
                self._agenda.cancel(("tell", scene))
                self._agenda.cancel(("end", scene))
            elif kind == "end":
                self._agenda.set(due, max(until for _, until in group.members.values()))
            else:
                self._tell(scene, group, now)

    def _tell(self, scene: str, group: _Group, now: Moment) -> None:
        chosen = self._chosen(scene, group)
        pauses = _PAUSES_OF_MANY if group.is_busy else _PAUSES
        late = now.steady - group.due
        for notice in chosen:
            self._notify(scene, group.members.values(), notice, [pause - late for pause in pauses], now)
        if chosen and group.is_busy:
            self._tell_at(scene, group, now.steady + 1.0)

    def _tell_at(self, scene: str, group: _Group, due: float) -> None:
        group.due = due
        self._agenda.set(("tell", scene), due)

    def _chosen(self, scene: str, group: _Group) -> list[_Notice]:
        """Return what is told now: of a few changes all, of many a part, who is PRIMARY first."""
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
    """Whether there is no place for one more member from a host."""
    members = group.members.values()
    return len(members) >= limits.LAN_MEMBERS or sum(peer.host == host for peer, _ in members) >= _PER_HOST


def _forget_silent(group: _Group, now: Moment) -> None:
    """Forget the members that have not said for long that they are there."""
    group.members = {name: one for name, one in group.members.items() if one[1] > now.steady}


def _put(group: _Group, notice: _Notice) -> None:
    """Let a notice wait in the place of what it makes untrue."""
    is_status = notice.event is GroupEvent.STATUS_CHANGED
    if not is_status:
        group.waiting.pop(("status", notice.key), None)
    group.waiting["status" if is_status else "member", notice.key] = notice


def _scenes_of(listed: Listed | None) -> frozenset[str]:
    """Return the scenes whose groups a skill is in; a hint is in none."""
    return frozenset(listed.registration.scenes) if listed and not listed.is_hint else frozenset()


def _event_of(scene: str, change: Change) -> GroupEvent | None:
    was, is_now = (scene in _scenes_of(listed) for listed in (change.before, change.after))
    if was and is_now:
        return GroupEvent.STATUS_CHANGED if change.what is What.STATUS else None
    return GroupEvent.MEMBER_JOINED if is_now else GroupEvent.MEMBER_LEFT
