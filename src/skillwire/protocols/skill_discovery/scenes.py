"""Scenes: the groups that a registry keeps, and the groups that an agent joins.

**Groups.** A group follows from the registry alone, so agents that list the same skills have the same groups. Providers
are ordered: certified before unverified, well before UNKNOWN, those that registered first before newcomers, then by
name; one whose endpoint refuses a probe is last of its trust. The first is PRIMARY, the others are BACKUP; when the
PRIMARY can no longer be called, the next one takes over. A skill that recovers takes its former rank after two good
heartbeats, or later when it flaps; after a goodbye it is a newcomer. A notice is about one member or about the PRIMARY.
Nothing acknowledges it, so it is sent several times. When much changes at once only the newest notice of each kind is
sent, the PRIMARY first and the rest at the rate that members read from one source. So at most one notice waits for each
member.

**Memberships.** A request for a scene is repeated after short pauses, since datagrams are lost. The first answers
compete: the agent asks each responder for a proof, takes a certified one at once, and otherwise waits a moment for the
others. An answer to no request is dropped. A member of ours ignores the notices, which are not signed: it hears the
skills of the scene itself. Spec: SDP §3.3, §4, §8.3, §9.2; specs §3 "Scene groups".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.challenges import Responder
from skillwire.protocols.skill_discovery.events import SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.health import ChangeKind
from skillwire.protocols.skill_discovery.messages import GroupEvent, HealthStatus, SceneAnswer, SkillInfo
from skillwire.protocols.skill_discovery.scheduling import Timer, TimerQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.challenges import ResponderProofs
    from skillwire.protocols.skill_discovery.events import NodeEvent, VerifiedMessage
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


@dataclass(slots=True)
class _Group:
    primary: Key | None
    members: dict[str, tuple[Peer, float]] = field(default_factory=dict)
    waiting: dict[tuple[str, Key], _Notice] = field(default_factory=dict)
    is_busy: bool = False
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
        group.is_busy = len(group.waiting) > _FEW or (group.is_busy and bool(group.waiting))
        most = _EACH_SECOND if group.is_busy else _FEW
        chosen += [group.waiting.pop(key) for key in list(group.waiting)[:most]]
        late = now.steady - group.due
        for notice in chosen:
            stamp = self._outbox.stamp(now)
            data = self._outbox.write(m.SceneEvent(group_id(scene), notice.event, *notice.key, notice.status, stamp))
            for peer, _ in group.members.values():
                for pause in _PAUSES_OF_MANY if group.is_busy else _PAUSES:
                    self._outbox.send(data, now, peer, after=pause - late)
        if chosen and group.is_busy:
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


#: How often a request to join is sent at least: other registries notify members, too.
_LEAST_JOINS: Final = 2
#: Answers about one scene that compete, in all and of one host, since the fastest responder need not be honest.
_MOST_ANSWERS: Final = 64
_MOST_OF_HOST: Final = 4
#: Seconds after the first answer in which others arrive: the longest answer delay and a round trip.
_ANSWERS_COME: Final = 0.3


class _Request(NamedTuple):
    capabilities: tuple[str, ...]
    ends: float
    data: bytes
    sends: int = 0
    is_answered: bool = False  # since it was last requested
    is_joined: bool = False
    is_missing: bool = False


@dataclass(slots=True)
class _SceneAnswers:
    since: float
    answers: dict[bytes, SceneJoined] = field(default_factory=dict)  # by their digests
    unproven: set[bytes] = field(default_factory=set)  # digests of those whose senders are not known yet


class Memberships:
    """The scenes that one agent requested or joined; ``proofs`` ask responders to prove that an answer is theirs."""

    def __init__(self, outbox: Outbox, settings: DiscoverySettings, proofs: ResponderProofs) -> None:
        self._agent_id = outbox.agent_id
        self._outbox = outbox
        self._settings = settings
        self._proofs = proofs
        self._requests: dict[str, _Request] = {}
        self._answers: dict[str, _SceneAnswers] = {}
        self._schedule: TimerQueue[tuple[str, str]] = TimerQueue()  # ("scene" or "answers", scene)
        self.timer: Timer = self._schedule.timer

    def request(self, scene: str, capabilities: tuple[str, ...], now: Moment, *, is_join: bool) -> None:
        """Join a scene, or request one. Raises: ValidationError: no datagram can hold it. Spec: SDP §2.2, §4.2."""
        kind = m.JoinScene if is_join else m.RequestScene
        data = self._outbox.write(kind(self._agent_id, scene, capabilities, self._outbox.stamp(now)))
        self._forget_answers(scene)
        self._requests[scene] = _Request(capabilities, now.steady + self._settings.patience, data)
        self._schedule.set(("scene", scene), now.steady)

    def leave(self, scene: str) -> None:
        """Join a scene no more; registries forget this member after a while."""
        self._forget_answers(scene)
        self._requests.pop(scene, None)
        self._schedule.cancel(("scene", scene))

    def on_answer(
        self, received: VerifiedMessage, message: m.JoinSceneResponse | m.SceneJoinResponse, now: Moment
    ) -> Sequence[NodeEvent] | None:
        """Take an answer that names a scene's group; None when it was not requested."""
        # Our agents name the one instance of a scene. Others may name several: `auth-1` is one of `auth`, and
        # `auth-admin-1` is one of `auth-admin`.
        instance = message.answer.scene_id
        exact = next((scene for scene in self._requests if instance in (scene, scene_id(scene))), None)
        scene = exact or next((scene for scene in self._requests if scene == instance.rpartition("-")[0]), None)
        if scene is None or message.agent_id != self._agent_id:
            return None
        if self._requests[scene].is_joined:
            self._stay(scene, now)
            return ()
        found = self._answers.setdefault(scene, _SceneAnswers(now.steady))
        joined, digest = SceneJoined(scene, message.answer, received.source), hashlib.sha256(received.data).digest()
        of_host = [one for one in found.answers.values() if one.by.host == joined.by.host]
        is_known = any((one.by, one.answer) == (joined.by, joined.answer) for one in of_host)
        if is_known or len(of_host) >= _MOST_OF_HOST or len(found.answers) >= _MOST_ANSWERS:
            return ()
        found.answers[digest] = joined
        if received.judgement is not None:
            responder = Responder(received.source, received.signer, received.judgement)
            return self._identify(scene, digest, responder, now)
        found.unproven.add(digest)
        self._schedule.set(("answers", scene), found.since + _ANSWERS_COME)
        self._proofs.ask(received.source, received.data, now)
        return ()

    def on_proof(self, responder: Responder, digest: bytes, now: Moment) -> tuple[str | None, Sequence[NodeEvent]]:
        """Take a proof; return a skill that the responder offers, empty for none, None without such an answer."""
        for scene, found in self._answers.items():
            if digest in found.unproven:
                proven = found.answers[digest].answer
                events = self._identify(scene, digest, responder, now)
                return proven.skill_info.skill_id if responder.is_own(proven.connection_info.host) else "", events
        return None, ()

    def on_missing(self, _: VerifiedMessage, message: m.SceneNotFound, now: Moment) -> Sequence[NodeEvent] | None:
        """Take the answer that one agent knows no provider; others may. None when it was not requested."""
        request = self._requests.get(message.scene)
        if request is None or message.agent_id != self._agent_id:
            return None
        if not request.is_missing and not request.is_joined:
            ends = min(request.ends, now.steady + self._settings.not_found_patience)
            self._requests[message.scene] = request._replace(is_missing=True, ends=ends)
        return ()

    def on_timer(self, now: Moment) -> list[NodeEvent]:
        """Repeat requests, and end those whose time is over."""
        events: list[NodeEvent] = []
        while (due := self._schedule.pop(now.steady)) is not None:
            kind, scene = due
            events += self._choose(scene, now) if kind == "answers" else self._send(scene, now)
        return events

    def _identify(self, scene: str, digest: bytes, responder: Responder, now: Moment) -> Sequence[NodeEvent]:
        """Record the sender of an answer; a certified one is taken at once."""
        found = self._answers[scene]
        found.unproven.discard(digest)
        joined = found.answers[digest]
        skill, host = joined.answer.skill_info.skill_id, joined.answer.connection_info.host
        is_verified = responder.vouches(skill, host)
        known = found.answers[digest] = joined._replace(
            agent_id=responder.agent_id, standing=responder.judgement.standing, is_verified=is_verified
        )
        if is_verified:
            return self._take(scene, known, now)
        if ("answers", scene) not in self._schedule:
            self._schedule.set(("answers", scene), found.since + _ANSWERS_COME)
        return ()

    def _choose(self, scene: str, now: Moment) -> Sequence[NodeEvent]:
        """Choose an answer about a scene, once the unknown responders had time for a proof."""
        found = self._answers[scene]
        ends = found.since + self._settings.not_found_patience
        if found.unproven and now.steady < ends:
            self._schedule.set(("answers", scene), ends)
            return ()
        return self._take(scene, max(found.answers.values(), key=lambda one: bool(one.agent_id)), now)

    def _take(self, scene: str, joined: SceneJoined, now: Moment) -> Sequence[NodeEvent]:
        self._forget_answers(scene)
        self._stay(scene, now)
        return [joined]

    def _stay(self, scene: str, now: Moment) -> None:
        request = self._requests[scene]._replace(is_joined=True, is_answered=True, is_missing=False)
        self._requests[scene] = request
        if request.sends >= _LEAST_JOINS:
            self._rest(scene, now)

    def _rest(self, scene: str, now: Moment) -> None:
        """Join again after a while, to stay a member."""
        pause = self._settings.announce_interval * self._outbox.random.uniform(0.8, 1)
        self._schedule.set(("scene", scene), now.steady + pause)
        self._requests[scene] = self._requests[scene]._replace(data=b"", sends=0)

    def _forget_answers(self, scene: str) -> None:
        self._answers.pop(scene, None)
        self._schedule.cancel(("answers", scene))

    def _send(self, scene: str, now: Moment) -> Sequence[NodeEvent]:
        request = self._requests[scene]
        if request.is_joined and not request.data:  # time to join again
            message = m.JoinScene(self._agent_id, scene, request.capabilities, self._outbox.stamp(now))
            ends = now.steady + self._settings.patience
            request = request._replace(is_answered=False, ends=ends, data=self._outbox.write(message))
        elif request.is_answered and request.sends >= _LEAST_JOINS:
            self._rest(scene, now)
            return ()
        elif now.steady >= request.ends:
            if request.is_joined:  # no registry answers now, and the member stays
                self._requests[scene] = request._replace(data=b"", sends=0)
                self._schedule.set(("scene", scene), now.steady + self._settings.announce_interval)
            elif scene not in self._answers:
                del self._requests[scene]
                return [SceneMissing(scene, is_certain=request.is_missing)]
            return ()
        due, pauses = request.ends, self._settings.searches
        if request.sends < len(pauses):
            self._outbox.send(request.data, now)
            due = min(due, now.steady + pauses[request.sends])
        self._schedule.set(("scene", scene), due)
        self._requests[scene] = request._replace(sends=request.sends + 1)
        return ()
