"""EndAgent: asks for skills and scenes, and stays told of the groups it is in.

What is asked is asked again after short pauses, since datagrams are lost, and answers are collected until patience
ends. Each discovery has a requester's identifier of its own **[ours]**, by which answers find it; an answer to nothing
that was asked is dropped. What several agents tell of a group counts once. Spec: SDP §3.3, §4.2; specs §3.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.agenda import Agenda
from skillwire.protocols.skill_discovery.events import Discovered, GroupChanged, SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.messages import GroupEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.messages import Discover, Endpoint, SkillRecord, SkillType
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

_REMEMBERED: Final = 512


class _Search:
    """One discovery under way."""

    __slots__ = ("ends", "found", "message", "sends")

    def __init__(self, message: Discover, ends: float) -> None:
        self.message = message
        self.ends = ends
        self.sends = 0
        self.found: dict[tuple[str, Endpoint], tuple[SkillRecord, Peer]] = {}


class _Wish(NamedTuple):
    """A scene that we want to be in, or are in."""

    capabilities: tuple[str, ...]
    is_request: bool
    ends: float
    data: bytes = b""
    sends: int = 0
    is_joined: bool = False
    is_missing: bool = False


class EndAgent:
    """What one agent asks for.

    Args:
        agent_id: who asks.
        outbox: takes what is sent.
        settings: figures.
        on_event: is told the answers.
    """

    def __init__(
        self, agent_id: str, outbox: Outbox, settings: DiscoverySettings, on_event: Callable[[NodeEvent], object]
    ) -> None:
        self._agent_id = agent_id
        self._outbox = outbox
        self._settings = settings
        self._on_event = on_event
        self._number = 0
        self._searches: dict[str, _Search] = {}
        self._wishes: dict[str, _Wish] = {}
        self._states: dict[tuple[str, ...], object] = {}
        self._notices: dict[bytes, None] = {}
        self._agenda: Agenda[tuple[str, str]] = Agenda()

    def discover(
        self,
        now: Moment,
        *,
        capabilities: tuple[str, ...] = (),
        scenes: tuple[str, ...] = (),
        skill_types: tuple[SkillType, ...] = (),
        patience: float | None = None,
    ) -> str:
        """Ask for skills; return the name of the request, which stands in the event that ends it.

        Answers are collected for ``patience`` seconds, or as long as the settings say.
        """
        self._number += 1
        request = f"{self._agent_id}.{self._number}"
        message = m.Discover(request, capabilities, scenes, skill_types, self._outbox.stamp(now))
        seconds = self._settings.patience if patience is None else patience
        self._searches[request] = _Search(message, now.steady + seconds)
        self._agenda.set(("search", request), now.steady)
        return request

    def want_scene(self, scene: str, capabilities: tuple[str, ...], now: Moment, *, is_request: bool) -> None:
        """Join a scene that is known to be there, or ask for one. Spec: SDP §2.2, §4.2."""
        self._wishes[scene] = _Wish(capabilities, is_request, now.steady + self._settings.patience)
        self._agenda.set(("scene", scene), now.steady)

    def leave_scene(self, scene: str) -> None:
        """Join no more; who tells the group forgets us by and by."""
        self._wishes.pop(scene, None)
        self._agenda.cancel(("scene", scene))

    def found(self, message: m.DiscoverResponse, source: Peer) -> bool:
        """Take the answer to a discovery; False when it was not asked for."""
        search = self._searches.get(message.requester_id)
        if search is None:
            return False
        for record in message.skills:
            if len(search.found) < limits.LAN_FOUND:
                search.found.setdefault((record.skill_id, record.endpoint), (record, source))
        return True

    def joined(self, message: m.JoinSceneResponse | m.SceneJoinResponse, now: Moment) -> bool:
        """Take the answer of an agent that has let us in; False when it was not asked for."""
        scene = self._scene_of(message)
        if scene is None or message.agent_id != self._agent_id:
            return False
        wish = self._wishes[scene]
        pause = self._settings.announce_interval * self._outbox.random.uniform(0.8, 1)
        self._agenda.set(("scene", scene), now.steady + pause)
        self._wishes[scene] = wish._replace(is_joined=True, is_missing=False, data=b"", sends=0)
        if not wish.is_joined:
            primary = next((one for one in message.answer.members if one.role == "PRIMARY"), None)
            if primary is not None:
                self._states[message.answer.group_id, GroupEvent.PRIMARY_CHANGED] = primary.agent_id, primary.skill_id
            self._on_event(SceneJoined(scene, message.answer))
        return True

    def missing(self, message: m.SceneNotFound, now: Moment) -> bool:
        """Take note that one agent does not know a scene; others may. False when it was not asked for."""
        wish = self._wishes.get(message.scene)
        if wish is None or message.agent_id != self._agent_id:
            return False
        if not wish.is_missing and not wish.is_joined:
            ends = min(wish.ends, now.steady + self._settings.not_found_patience)
            self._wishes[message.scene] = wish._replace(is_missing=True, ends=ends)
        return True

    def group_changed(self, message: m.SceneEvent, data: bytes) -> bool:
        """Take what has changed in a group; False when we are not in it, or it was told before."""
        is_ours = any(message.group_id.startswith(f"group-{scene}-") for scene in self._wishes)
        digest = hashlib.sha256(data).digest()
        if not is_ours or digest in self._notices:
            return False
        self._notices[digest] = None
        if len(self._notices) > _REMEMBERED:
            del self._notices[next(iter(self._notices))]
        state: tuple[str, ...] = (message.group_id, message.event, message.agent_id, message.skill_id)
        said: object = message.status
        if message.event is GroupEvent.PRIMARY_CHANGED:
            state, said = (message.group_id, message.event), (message.agent_id, message.skill_id)
        elif message.event is not GroupEvent.STATUS_CHANGED:
            state, said = (message.group_id, "member", message.agent_id, message.skill_id), message.event
        if self._states.get(state) == said:
            return False
        self._states.pop(state, None)
        self._states[state] = said
        if len(self._states) > _REMEMBERED:
            del self._states[next(iter(self._states))]
        self._on_event(
            GroupChanged(message.group_id, message.event, message.agent_id, message.skill_id, message.status)
        )
        return True

    def timer(self) -> float | None:
        """Return when there is something to ask again, or to end."""
        return self._agenda.timer()

    def on_timer(self, now: Moment) -> None:
        """Ask again, or end what has taken long enough."""
        while (due := self._agenda.pop(now.steady)) is not None:
            kind, name = due
            if kind == "search":
                self._search(name, now)
            else:
                self._want(name, now)

    def _search(self, request: str, now: Moment) -> None:
        search = self._searches[request]
        if now.steady >= search.ends:
            del self._searches[request]
            self._on_event(Discovered(request, tuple(search.found.values())))
            return
        if search.sends < len(self._settings.searches):
            self._outbox.send(self._outbox.write(search.message), now)
        due = self._next_send(search.sends, search.ends, now)
        search.sends += 1
        self._agenda.set(("search", request), due)

    def _next_send(self, sends: int, ends: float, now: Moment) -> float:
        pauses = self._settings.searches
        return min(ends, now.steady + pauses[sends]) if sends < len(pauses) else ends

    def _want(self, scene: str, now: Moment) -> None:
        wish = self._wishes[scene]
        if wish.is_joined and not wish.data:  # time to say that we are still there
            wish = wish._replace(is_joined=True, ends=now.steady + self._settings.patience)
        elif now.steady >= wish.ends:
            self._give_up(scene, wish, now)
            return
        if not wish.data:
            kind = m.RequestScene if wish.is_request and not wish.is_joined else m.JoinScene
            message = kind(self._agent_id, scene, wish.capabilities, self._outbox.stamp(now))
            wish = wish._replace(data=self._outbox.write(message))
        if wish.sends < len(self._settings.searches):
            self._outbox.send(wish.data, now)
        self._agenda.set(("scene", scene), self._next_send(wish.sends, wish.ends, now))
        self._wishes[scene] = wish._replace(sends=wish.sends + 1)

    def _give_up(self, scene: str, wish: _Wish, now: Moment) -> None:
        if wish.is_joined:  # nobody answers for now; the group is not left for that
            self._wishes[scene] = wish._replace(data=b"", sends=0)
            self._agenda.set(("scene", scene), now.steady + self._settings.announce_interval)
            return
        del self._wishes[scene]
        self._on_event(SceneMissing(scene, is_certain=wish.is_missing))

    def _scene_of(self, message: m.JoinSceneResponse | m.SceneJoinResponse) -> str | None:
        told = message.answer.scene_id
        return next((scene for scene in self._wishes if told == scene or told.startswith(f"{scene}-")), None)
