"""EndAgent: asks for skills and scenes, and stays told of the groups it is in.

What is asked is asked again after short pauses, since datagrams are lost, and answers are collected until there is
enough or patience ends; an answer to nothing that was asked is dropped. Who lets us into a scene is asked to prove
itself, and certified ones are waited for. What several agents tell of a group counts once. Spec: SDP §3.3, §4.2.

What members are told of a group: each change once, however many agents tell it, and in whichever order.

A notice goes out several times, over a way that loses and reorders, and every agent that has let us in sends its own.
Of one agent the timestamps tell what is newer. Those of two agents cannot be compared, since their clocks may differ:
what one tells that another has told a moment ago is the same change, come late. Nobody signs a notice, so what a
stranger makes up is remembered like any other, in so many places. Spec: SDP §8.3, §9.2; specs §3.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.challenges import Responder
from skillwire.protocols.skill_discovery.events import GroupChanged, SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.messages import GroupEvent
from skillwire.protocols.skill_discovery.scheduling import BoundedDict, Timer, TimerQueue
from skillwire.protocols.skill_discovery.search import Searches

if TYPE_CHECKING:
    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.messages import SceneEvent
    from skillwire.wire.node import Peer

    Fact = tuple[str, ...]
    Said = GroupEvent | str | tuple[str, str] | None
    from collections.abc import Callable, Sequence

    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.health import Listed
    from skillwire.protocols.skill_discovery.ingress import VerifiedMessage
    from skillwire.protocols.skill_discovery.messages import SkillType
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.search import StopCondition
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


#: Seconds in which all agents have told one change: those in which one repeats it, and in which another hears of it.
_SAME: Final = 2.0


class GroupNotices:
    """What was told of the groups that one agent is in.

    Args:
        window: seconds that a timestamp may differ from our clock. What is twice as far ahead counts as never told,
            since whoever sets such a clock right begins anew with its timestamps.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._first: dict[str, Said] = {}  # who is PRIMARY of each group
        self._says: BoundedDict[Fact, Said] = BoundedDict(limits.LAN_NOTICES)
        self._heard: BoundedDict[tuple[Fact, Peer], int] = BoundedDict(limits.LAN_NOTICES)  # the newest timestamp
        self._told: BoundedDict[tuple[Fact, Said], tuple[Peer, float]] = BoundedDict(limits.LAN_NOTICES)

    def begin(self, group_id: str, primary: tuple[str, str]) -> None:
        """Know who is PRIMARY of a group that was joined: its agent and skill."""
        self._first[group_id] = primary

    def take(self, message: SceneEvent, source: Peer, now: Moment) -> bool:
        """Whether a notice, of a group that we are in, tells what was not told before."""
        fact, says = _read(message)
        newest = self._heard.get((fact, source), -1)
        if message.timestamp <= newest <= (now.wall + 2 * self._window) * 1000:  # said before, or not true any more
            return False
        if self._known(fact) == says:
            self._heard.put((fact, source), message.timestamp)
            return False
        teller, at = self._told.get((fact, says), (source, 0.0))
        if teller != source and now.steady < at + _SAME:  # not heard: what it repeats after that is another change
            return False
        self._heard.put((fact, source), message.timestamp)
        self._told.put((fact, says), (source, now.steady))
        self._know(message, fact, says)
        return True

    def forget(self, group_id: str) -> None:
        """Know nothing of a group that was left."""
        self._first.pop(group_id, None)
        for fact in [fact for fact in self._says if fact[0] == group_id]:
            del self._says[fact]
        for key in [key for key in self._heard if key[0][0] == group_id]:
            del self._heard[key]
        for told in [told for told in self._told if told[0][0] == group_id]:
            del self._told[told]

    def _known(self, fact: Fact) -> Said:
        return self._first.get(fact[0]) if fact == _first(fact[0]) else self._says.get(fact)

    def _know(self, message: SceneEvent, fact: Fact, says: Said) -> None:
        """Know what was told, and what follows: how a member begins, and that one that is gone is nothing more."""
        if message.event is GroupEvent.PRIMARY_CHANGED:
            self._first[message.group_id] = says
            return
        self._says.put(fact, says)
        if message.event is GroupEvent.MEMBER_JOINED:
            self._says.put(_status(message), message.status)
        elif message.event is GroupEvent.MEMBER_LEFT:
            self._says.pop(_status(message), None)
            if self._first.get(message.group_id) == (message.agent_id, message.skill_id):
                del self._first[message.group_id]


def _first(group_id: str) -> Fact:
    return group_id, "PRIMARY"


def _status(message: SceneEvent) -> Fact:
    return message.group_id, "status", message.agent_id, message.skill_id


def _read(message: SceneEvent) -> tuple[Fact, Said]:
    """Return what a notice is about, and what it says of that."""
    if message.event is GroupEvent.PRIMARY_CHANGED:
        return _first(message.group_id), (message.agent_id, message.skill_id)
    if message.event is GroupEvent.STATUS_CHANGED:
        return _status(message), message.status
    return (message.group_id, "member", message.agent_id, message.skill_id), message.event


#: How often it is said at least that we are in a scene, whoever has let us in: there may be more who tell its group.
_LEAST_JOINS: Final = 2
#: Answers about one scene among which the best is chosen, in all and of one host: who is quick is not who is honest.
_MOST_ANSWERS: Final = 64
_MOST_OF_HOST: Final = 4
#: Seconds after the first answer in which others come: the longest pause before an answer, and a way forth and back.
_ANSWERS_COME: Final = 0.3


class _WantedScene(NamedTuple):
    """A scene that we want to be in, or are in."""

    capabilities: tuple[str, ...]
    ends: float
    data: bytes
    sends: int = 0
    is_answered: bool = False  # since it was said anew
    is_joined: bool = False
    is_missing: bool = False


class _Heard:
    """The answers about a scene that were heard, by their digest, and of which of them the sender is not known yet."""

    __slots__ = ("answers", "since", "unproven")

    def __init__(self, since: float) -> None:
        self.since = since
        self.answers: dict[bytes, SceneJoined] = {}
        self.unproven: set[bytes] = set()


class EndAgent:
    """What one agent asks for.

    Args:
        agent_id: who asks.
        outbox: takes what is sent.
        settings: figures.
        ask: asks a source whether a datagram is its own.
        on_event: is told the answers.
        listed: returns what is registered with us of what a discovery asks for; None where no registry is kept.
        invite: lets an agent register a skill with us.
    """

    def __init__(
        self,
        agent_id: str,
        outbox: Outbox,
        settings: DiscoverySettings,
        ask: Callable[[Peer, bytes, Moment], object],
        on_event: Callable[[NodeEvent], object],
        *,
        listed: Callable[[m.Discover], Sequence[Listed] | None] = lambda _: None,
        invite: Callable[[str, str, Peer, Moment], object] = lambda *_: None,
    ) -> None:
        self._agent_id = agent_id
        self._outbox = outbox
        self._settings = settings
        self._ask = ask
        self._on_event = on_event
        self._searches = Searches(agent_id, outbox, settings, ask, on_event, listed=listed, invite=invite)
        self._wishes: dict[str, _WantedScene] = {}
        self._heard: dict[str, _Heard] = {}
        self._groups: dict[str, str] = {}  # of the scenes that we are in, as they are told
        self._notices = GroupNotices(settings.window)
        self._agenda: TimerQueue[tuple[str, str]] = TimerQueue()
        self.timers: tuple[Timer, ...] = (self._searches.timer, self._agenda.timer)

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
        """Ask for skills; return the name of the request, which stands in the event that ends it.

        Answers are collected for ``patience`` seconds, or those of the settings, unless there is ``enough`` before.
        """
        return self._searches.begin((capabilities, scenes, skill_types), now, patience, enough)

    def suffice(self, request: str, now: Moment) -> None:
        """Let a discovery end as soon as nothing more comes: what is wanted was found on another network."""
        self._searches.suffice(request, now)

    def want_scene(self, scene: str, capabilities: tuple[str, ...], now: Moment, *, is_request: bool) -> None:
        """Join a scene that is known to be there, or ask for one. Spec: SDP §2.2, §4.2.

        Raises:
            ValidationError: ``DATAGRAM_FIELD`` or ``DATAGRAM_SIZE`` when it cannot be asked for.
        """
        kind = m.RequestScene if is_request else m.JoinScene
        data = self._outbox.write(kind(self._agent_id, scene, capabilities, self._outbox.stamp(now)))
        self._forget_answers(scene)
        self._wishes[scene] = _WantedScene(capabilities, now.steady + self._settings.patience, data)
        self._agenda.set(("scene", scene), now.steady)

    def leave_scene(self, scene: str) -> None:
        """Join no more; who tells the group forgets us by and by."""
        self._forget_answers(scene)
        self._wishes.pop(scene, None)
        for group_id in {scenes.group_id(scene), self._groups.pop(scene, "")}:
            self._notices.forget(group_id)
        self._agenda.cancel(("scene", scene))

    def found(self, admitted: VerifiedMessage, message: m.DiscoverResponse, now: Moment) -> bool:
        """Take the answer to a discovery; False when it was not asked for."""
        return self._searches.found(admitted, message, now)

    def joined(
        self, admitted: VerifiedMessage, message: m.JoinSceneResponse | m.SceneJoinResponse, now: Moment
    ) -> bool:
        """Take the answer of an agent that has let us in; False when it was not asked for."""
        scene = self._scene_of(message)
        if scene is None or message.agent_id != self._agent_id:
            return False
        if self._wishes[scene].is_joined:
            self._stay(scene, now)
            return True
        heard = self._heard.setdefault(scene, _Heard(now.steady))
        answer, digest = SceneJoined(scene, message.answer, admitted.source), hashlib.sha256(admitted.data).digest()
        of_host = [one for one in heard.answers.values() if one.by.host == answer.by.host]
        is_known = any((one.by, one.answer) == (answer.by, answer.answer) for one in of_host)
        if is_known or len(of_host) >= _MOST_OF_HOST or len(heard.answers) >= _MOST_ANSWERS:
            return True
        heard.answers[digest] = answer
        if admitted.judgement is not None:
            self._know(scene, digest, Responder(admitted.source, admitted.signer, admitted.judgement), now)
        else:
            heard.unproven.add(digest)
            self._agenda.set(("answers", scene), heard.since + _ANSWERS_COME)
            self._ask(admitted.source, admitted.data, now)
        return True

    def proven(self, admitted: VerifiedMessage, now: Moment) -> str | None:
        """Take note of who has proven to have sent an answer; None when it was none of ours.

        Returns a skill that the agent has told of as its own, empty when there is none.
        """
        if admitted.judgement is None or not admitted.proves:
            return None
        author = Responder(admitted.source, admitted.signer, admitted.judgement)
        for scene, heard in self._heard.items():
            if admitted.proves in heard.unproven:
                info = heard.answers[admitted.proves].answer
                self._know(scene, admitted.proves, author, now)
                return info.skill_info.skill_id if author.is_own(info.connection_info.host) else ""
        return self._searches.proven(author, admitted.proves, now)

    def missing(self, message: m.SceneNotFound, now: Moment) -> bool:
        """Take note that one agent does not know a scene; others may. False when it was not asked for."""
        wish = self._wishes.get(message.scene)
        if wish is None or message.agent_id != self._agent_id:
            return False
        if not wish.is_missing and not wish.is_joined:
            ends = min(wish.ends, now.steady + self._settings.not_found_patience)
            self._wishes[message.scene] = wish._replace(is_missing=True, ends=ends)
        return True

    def group_changed(self, message: m.SceneEvent, source: Peer, now: Moment) -> bool:
        """Take what has changed in a group; False when we are not in it, or it was told before."""
        told = message.group_id
        scene = next((one for one in self._wishes if told in (scenes.group_id(one), self._groups.get(one))), None)
        if scene is None or not self._notices.take(message, source, now):
            return False
        self._on_event(GroupChanged(scene, told, message.event, message.agent_id, message.skill_id, message.status))
        return True

    def on_timer(self, now: Moment) -> None:
        """Ask again, or end what has taken long enough."""
        self._searches.on_timer(now)
        while (due := self._agenda.pop(now.steady)) is not None:
            kind, scene = due
            if kind == "answers":
                self._choose(scene, now)
            else:
                self._want(scene, now)

    def _know(self, scene: str, digest: bytes, author: Responder, now: Moment) -> None:
        """Take note of who sent an answer about a scene; who is certified is waited for no longer."""
        heard = self._heard[scene]
        heard.unproven.discard(digest)
        answer = heard.answers[digest]
        skill, host = answer.answer.skill_info.skill_id, answer.answer.connection_info.host
        known = answer._replace(
            agent_id=author.agent_id, standing=author.judgement.standing, is_verified=author.vouches(skill, host)
        )
        heard.answers[digest] = known
        if known.is_verified:
            self._settle(scene, known, now)
        elif ("answers", scene) not in self._agenda:
            self._agenda.set(("answers", scene), heard.since + _ANSWERS_COME)

    def _choose(self, scene: str, now: Moment) -> None:
        """Choose among the answers about a scene, after those whose senders are not known yet had their time."""
        heard = self._heard[scene]
        ends = heard.since + self._settings.not_found_patience
        if heard.unproven and now.steady < ends:
            self._agenda.set(("answers", scene), ends)
            return
        self._settle(scene, max(heard.answers.values(), key=lambda one: bool(one.agent_id)), now)

    def _settle(self, scene: str, joined: SceneJoined, now: Moment) -> None:
        """Be in a scene by one of the answers."""
        self._forget_answers(scene)
        answer = joined.answer
        self._stay(scene, now)
        self._groups[scene] = answer.group_id
        primary = next((one for one in answer.members if one.role == "PRIMARY"), None)
        if primary is not None:
            self._notices.begin(answer.group_id, (primary.agent_id, primary.skill_id))
        self._on_event(joined)

    def _stay(self, scene: str, now: Moment) -> None:
        """Be in a scene, since somebody has let us in."""
        wish = self._wishes[scene] = self._wishes[scene]._replace(is_joined=True, is_answered=True, is_missing=False)
        if wish.sends >= _LEAST_JOINS:
            self._rest(scene, now)

    def _rest(self, scene: str, now: Moment) -> None:
        """Say after a while again that we are there."""
        pause = self._settings.announce_interval * self._outbox.random.uniform(0.8, 1)
        self._agenda.set(("scene", scene), now.steady + pause)
        self._wishes[scene] = self._wishes[scene]._replace(data=b"", sends=0)

    def _forget_answers(self, scene: str) -> None:
        self._heard.pop(scene, None)
        self._agenda.cancel(("answers", scene))

    def _want(self, scene: str, now: Moment) -> None:
        wish = self._wishes[scene]
        if wish.is_joined and not wish.data:  # time to say that we are still there
            data = self._outbox.write(m.JoinScene(self._agent_id, scene, wish.capabilities, self._outbox.stamp(now)))
            wish = wish._replace(is_answered=False, ends=now.steady + self._settings.patience, data=data)
        elif wish.is_answered and wish.sends >= _LEAST_JOINS:
            self._rest(scene, now)
            return
        elif now.steady >= wish.ends:
            self._give_up(scene, wish, now)
            return
        due, pauses = wish.ends, self._settings.searches
        if wish.sends < len(pauses):
            self._outbox.send(wish.data, now)
            due = min(due, now.steady + pauses[wish.sends])
        self._agenda.set(("scene", scene), due)
        self._wishes[scene] = wish._replace(sends=wish.sends + 1)

    def _give_up(self, scene: str, wish: _WantedScene, now: Moment) -> None:
        if wish.is_joined:  # nobody answers for now; the group is not left for that
            self._wishes[scene] = wish._replace(data=b"", sends=0)
            self._agenda.set(("scene", scene), now.steady + self._settings.announce_interval)
        elif scene not in self._heard:  # otherwise somebody has let us in, and is about to be chosen
            del self._wishes[scene]
            self._on_event(SceneMissing(scene, is_certain=wish.is_missing))

    def _scene_of(self, message: m.JoinSceneResponse | m.SceneJoinResponse) -> str | None:
        """Return which scene that we want an answer is about; None for none.

        Ours name the one instance of a scene. Of another rule's instances the name has no hyphen, since
        ``auth-admin-1`` is one of ``auth-admin``, and none of ``auth``.
        """
        told = message.answer.scene_id
        exact = next((scene for scene in self._wishes if told in (scene, scenes.scene_id(scene))), None)
        return exact or next((scene for scene in self._wishes if scene == told.rpartition("-")[0]), None)
