"""EndAgent: searches for skills, requests scenes, and takes the notices of the groups that it joined.

A request is repeated after short pauses, since datagrams are lost. The first answers about a scene compete: the agent
asks each responder for a proof, takes a certified one at once, and otherwise waits a moment for the others. An answer
to no request is dropped.

Notices are not signed, are sent several times, and come from every registry of the network. Of one sender the timestamp
tells which notice is newer; what another sender said a moment ago is the same change. Spec: SDP §3.3, §4.2, §8.3; specs
§3.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.challenges import Responder
from skillwire.protocols.skill_discovery.events import GroupChanged, SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.protocols.skill_discovery.messages import GroupEvent, HealthStatus
from skillwire.protocols.skill_discovery.scheduling import TimerQueue
from skillwire.protocols.skill_discovery.search import Searches

if TYPE_CHECKING:
    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.challenges import ResponderProofs
    from skillwire.protocols.skill_discovery.events import NodeEvent, VerifiedMessage
    from skillwire.protocols.skill_discovery.messages import SkillType
    from skillwire.protocols.skill_discovery.registry import Registry
    from skillwire.protocols.skill_discovery.scheduling import Outbox
    from skillwire.protocols.skill_discovery.search import StopCondition
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

#: How often a request to join is sent at least: other registries notify members, too.
_LEAST_JOINS: Final = 2
#: Answers about one scene that compete, in all and of one host, since the fastest responder need not be honest.
_MOST_ANSWERS: Final = 64
_MOST_OF_HOST: Final = 4
#: Seconds after the first answer in which others arrive: the longest answer delay and a round trip.
_ANSWERS_COME: Final = 0.3
#: Seconds in which several registries report one change.
_SAME_CHANGE: Final = 2.0

#: The subject of a notice: a group, and one of its members or its PRIMARY.
_Subject = tuple[str, ...]


class _WantedScene(NamedTuple):
    """A scene that this agent requested or joined."""

    capabilities: tuple[str, ...]
    ends: float
    data: bytes
    sends: int = 0
    is_answered: bool = False  # since it was last requested
    is_joined: bool = False
    is_missing: bool = False


class _SceneAnswers:
    """The answers about a scene by their digests, and the digests whose senders are not known yet."""

    __slots__ = ("answers", "since", "unproven")

    def __init__(self, since: float) -> None:
        self.since = since
        self.answers: dict[bytes, SceneJoined] = {}
        self.unproven: set[bytes] = set()


class GroupNotices:
    """Which notices about groups are new.

    A timestamp two windows ahead of our clock is ignored later: a sender whose clock was set right begins anew.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._primaries: dict[str, tuple[str, str]] = {}
        self._statuses: BoundedDict[_Subject, HealthStatus | None] = BoundedDict(limits.LAN_NOTICES)  # None: it left
        self._newest: BoundedDict[tuple[_Subject, Peer], int] = BoundedDict(limits.LAN_NOTICES)
        self._taken: BoundedDict[tuple[_Subject, object], tuple[Peer, float]] = BoundedDict(limits.LAN_NOTICES)

    def begin(self, group: str, primary: tuple[str, str]) -> None:
        """Record the PRIMARY of a group that was joined: its agent and skill."""
        self._primaries[group] = primary

    def take(self, message: m.SceneEvent, source: Peer, now: Moment) -> bool:
        """Return whether a notice says something new, and remember it."""
        group, member = message.group_id, (message.agent_id, message.skill_id)
        is_primary = message.event is GroupEvent.PRIMARY_CHANGED
        status = None if message.event is GroupEvent.MEMBER_LEFT else message.status
        subject, says = ((group,), member) if is_primary else ((group, *member), status)
        newest = self._newest.get((subject, source), -1)
        if message.timestamp <= newest <= (now.wall + 2 * self._window) * 1000:
            return False
        by, at = self._taken.get((subject, says), (source, 0.0))
        if by != source and now.steady < at + _SAME_CHANGE:
            return False
        self._newest.put((subject, source), message.timestamp)
        known = self._primaries.get(group) if is_primary else self._statuses.get(subject, HealthStatus.OFFLINE)
        if known == says:
            return False
        self._taken.put((subject, says), (source, now.steady))
        if is_primary:
            self._primaries[group] = member
            return True
        self._statuses.put(subject, status)
        if status is None and self._primaries.get(group) == member:
            del self._primaries[group]
        return True

    def forget(self, group: str) -> None:
        """Forget a group that was left."""
        self._primaries.pop(group, None)
        for subject in [subject for subject in self._statuses if subject[0] == group]:
            del self._statuses[subject]
        for key in [key for key in self._newest if key[0][0] == group]:
            del self._newest[key]
        for taken in [taken for taken in self._taken if taken[0][0] == group]:
            del self._taken[taken]


class EndAgent:
    """The searches and the scenes of one agent."""

    def __init__(
        self,
        outbox: Outbox,
        settings: DiscoverySettings,
        proofs: ResponderProofs,
        registry: Registry | None,
        events: list[NodeEvent],
    ) -> None:
        self.searches = Searches(outbox, settings, proofs, registry, events)
        self._agent_id = outbox.agent_id
        self._outbox = outbox
        self._settings = settings
        self._proofs = proofs
        self._registry = registry
        self._events = events
        self._wanted: dict[str, _WantedScene] = {}
        self._answers: dict[str, _SceneAnswers] = {}
        self._groups: dict[str, str] = {}  # group of each joined scene, as the answer named it
        self._notices = GroupNotices(settings.window)
        self._schedule: TimerQueue[tuple[str, str]] = TimerQueue()  # ("scene" or "answers", scene)

    def timer(self) -> float | None:
        """Return when something is due next."""
        due = [due for due in (self.searches.timer(), self._schedule.timer()) if due is not None]
        return min(due, default=None)

    def discover(
        self,
        now: Moment,
        *,
        capabilities: tuple[str, ...] = (),
        scenes: tuple[str, ...] = (),
        skill_types: tuple[SkillType, ...] = (),
        patience: float | None = None,
        enough: StopCondition | None = None,
    ) -> str:
        """Search for skills; return the name of the request, which the event ``Discovered`` repeats.

        Answers are collected for ``patience`` seconds (those of the settings by default), or until ``enough`` holds.
        """
        return self.searches.begin((capabilities, scenes, skill_types), now, patience, enough)

    def want_scene(self, scene: str, capabilities: tuple[str, ...], now: Moment, *, is_request: bool) -> None:
        """Join a scene, or request one. Raises: ValidationError: no datagram can hold it. Spec: SDP §2.2, §4.2."""
        kind = m.RequestScene if is_request else m.JoinScene
        data = self._outbox.write(kind(self._agent_id, scene, capabilities, self._outbox.stamp(now)))
        self._forget_answers(scene)
        self._wanted[scene] = _WantedScene(capabilities, now.steady + self._settings.patience, data)
        self._schedule.set(("scene", scene), now.steady)

    def leave_scene(self, scene: str) -> None:
        """Join a scene no more; registries forget this member after a while."""
        self._forget_answers(scene)
        self._wanted.pop(scene, None)
        for group in {scenes.group_id(scene), self._groups.pop(scene, "")}:
            self._notices.forget(group)
        self._schedule.cancel(("scene", scene))

    def on_scene_answer(
        self, received: VerifiedMessage, message: m.JoinSceneResponse | m.SceneJoinResponse, now: Moment
    ) -> bool:
        """Take an answer that names a scene's group; False when it was not requested."""
        scene = self._scene_of(message)
        if scene is None or message.agent_id != self._agent_id:
            return False
        if self._wanted[scene].is_joined:
            self._stay(scene, now)
            return True
        found = self._answers.setdefault(scene, _SceneAnswers(now.steady))
        answer, digest = SceneJoined(scene, message.answer, received.source), hashlib.sha256(received.data).digest()
        of_host = [one for one in found.answers.values() if one.by.host == answer.by.host]
        is_known = any((one.by, one.answer) == (answer.by, answer.answer) for one in of_host)
        if is_known or len(of_host) >= _MOST_OF_HOST or len(found.answers) >= _MOST_ANSWERS:
            return True
        found.answers[digest] = answer
        if received.judgement is not None:
            self._identify(scene, digest, Responder(received.source, received.signer, received.judgement), now)
        else:
            found.unproven.add(digest)
            self._schedule.set(("answers", scene), found.since + _ANSWERS_COME)
            self._proofs.ask(received.source, received.data, now)
        return True

    def on_proof(self, received: VerifiedMessage, now: Moment) -> bool:
        """Take a proof of an answer to us; False when it is about no current request.

        An agent that answered for a skill of its own is asked to register it with us.
        """
        if received.judgement is None or not received.proves:
            return False
        responder = Responder(received.source, received.signer, received.judgement)
        offered = self._offered_by(responder, received.proves, now)
        if offered and self._registry is not None and not self._registry.count_of_agent(responder.agent_id):
            self._outbox.request_registration(responder.agent_id, offered, responder.source, now)
        return offered is not None

    def _offered_by(self, responder: Responder, digest: bytes, now: Moment) -> str | None:
        """Return a skill that a responder offers itself, empty for none; None when it proved no answer of ours."""
        for scene, found in self._answers.items():
            if digest in found.unproven:
                answer = found.answers[digest].answer
                self._identify(scene, digest, responder, now)
                return answer.skill_info.skill_id if responder.is_own(answer.connection_info.host) else ""
        return self.searches.on_proof(responder, digest, now)

    def on_scene_missing(self, message: m.SceneNotFound, now: Moment) -> bool:
        """Take the answer that one agent knows no provider of a scene; others may. False when it was not requested."""
        wanted = self._wanted.get(message.scene)
        if wanted is None or message.agent_id != self._agent_id:
            return False
        if not wanted.is_missing and not wanted.is_joined:
            ends = min(wanted.ends, now.steady + self._settings.not_found_patience)
            self._wanted[message.scene] = wanted._replace(is_missing=True, ends=ends)
        return True

    def on_notice(self, message: m.SceneEvent, source: Peer, now: Moment) -> bool:
        """Take a notice about a group; False when this agent did not join it, or knows the change."""
        group = message.group_id
        scene = next((one for one in self._wanted if group in (scenes.group_id(one), self._groups.get(one))), None)
        if scene is None or not self._notices.take(message, source, now):
            return False
        about = message.event, message.agent_id, message.skill_id, message.status
        self._events.append(GroupChanged(scene, group, *about))
        return True

    def on_timer(self, now: Moment) -> None:
        """Repeat requests, and end those whose time is over."""
        self.searches.on_timer(now)
        while (due := self._schedule.pop(now.steady)) is not None:
            kind, scene = due
            if kind == "answers":
                self._choose(scene, now)
            else:
                self._request(scene, now)

    def _identify(self, scene: str, digest: bytes, responder: Responder, now: Moment) -> None:
        """Record who sent an answer; a certified one is taken at once."""
        found = self._answers[scene]
        found.unproven.discard(digest)
        answer = found.answers[digest]
        skill, host = answer.answer.skill_info.skill_id, answer.answer.connection_info.host
        is_verified = responder.vouches(skill, host)
        known = answer._replace(
            agent_id=responder.agent_id, standing=responder.judgement.standing, is_verified=is_verified
        )
        found.answers[digest] = known
        if is_verified:
            self._take(scene, known, now)
        elif ("answers", scene) not in self._schedule:
            self._schedule.set(("answers", scene), found.since + _ANSWERS_COME)

    def _choose(self, scene: str, now: Moment) -> None:
        """Choose an answer about a scene, once the unknown responders had time for a proof."""
        found = self._answers[scene]
        ends = found.since + self._settings.not_found_patience
        if found.unproven and now.steady < ends:
            self._schedule.set(("answers", scene), ends)
            return
        self._take(scene, max(found.answers.values(), key=lambda one: bool(one.agent_id)), now)

    def _take(self, scene: str, joined: SceneJoined, now: Moment) -> None:
        self._forget_answers(scene)
        self._stay(scene, now)
        self._groups[scene] = joined.answer.group_id
        primary = next((one for one in joined.answer.members if one.role == "PRIMARY"), None)
        if primary is not None:
            self._notices.begin(joined.answer.group_id, (primary.agent_id, primary.skill_id))
        self._events.append(joined)

    def _stay(self, scene: str, now: Moment) -> None:
        wanted = self._wanted[scene]._replace(is_joined=True, is_answered=True, is_missing=False)
        self._wanted[scene] = wanted
        if wanted.sends >= _LEAST_JOINS:
            self._rest(scene, now)

    def _rest(self, scene: str, now: Moment) -> None:
        """Join again after a while, to stay a member."""
        pause = self._settings.announce_interval * self._outbox.random.uniform(0.8, 1)
        self._schedule.set(("scene", scene), now.steady + pause)
        self._wanted[scene] = self._wanted[scene]._replace(data=b"", sends=0)

    def _forget_answers(self, scene: str) -> None:
        self._answers.pop(scene, None)
        self._schedule.cancel(("answers", scene))

    def _request(self, scene: str, now: Moment) -> None:
        wanted = self._wanted[scene]
        if wanted.is_joined and not wanted.data:  # time to join again
            data = self._outbox.write(m.JoinScene(self._agent_id, scene, wanted.capabilities, self._outbox.stamp(now)))
            wanted = wanted._replace(is_answered=False, ends=now.steady + self._settings.patience, data=data)
        elif wanted.is_answered and wanted.sends >= _LEAST_JOINS:
            self._rest(scene, now)
            return
        elif now.steady >= wanted.ends:
            self._give_up(scene, wanted, now)
            return
        due, pauses = wanted.ends, self._settings.searches
        if wanted.sends < len(pauses):
            self._outbox.send(wanted.data, now)
            due = min(due, now.steady + pauses[wanted.sends])
        self._schedule.set(("scene", scene), due)
        self._wanted[scene] = wanted._replace(sends=wanted.sends + 1)

    def _give_up(self, scene: str, wanted: _WantedScene, now: Moment) -> None:
        if wanted.is_joined:  # no registry answers for now, and the member stays
            self._wanted[scene] = wanted._replace(data=b"", sends=0)
            self._schedule.set(("scene", scene), now.steady + self._settings.announce_interval)
        elif scene not in self._answers:
            del self._wanted[scene]
            self._events.append(SceneMissing(scene, is_certain=wanted.is_missing))

    def _scene_of(self, message: m.JoinSceneResponse | m.SceneJoinResponse) -> str | None:
        instance = message.answer.scene_id
        exact = next((scene for scene in self._wanted if instance in (scene, scenes.scene_id(scene))), None)
        return exact or next((scene for scene in self._wanted if scene == instance.rpartition("-")[0]), None)
