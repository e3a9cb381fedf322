"""What members are told of a group: each change once, however many agents tell it, and in whichever order.

A notice goes out several times, over a way that loses and reorders, and every agent that has let us in sends its own.
Of one agent the timestamps tell what is newer. Those of two agents cannot be compared, since their clocks may differ:
what one tells that another has told a moment ago is the same change, come late. Spec: SDP §8.3, §9.2; specs §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.skill_discovery.messages import GroupEvent
from skillwire.protocols.skill_discovery.recent import Recent

if TYPE_CHECKING:
    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.messages import SceneEvent
    from skillwire.wire.node import Peer

    #: What a notice is about: a group's PRIMARY, or whether an agent's skill is a member, or how it is.
    Fact = tuple[str, ...]
    #: What it says of that.
    Said = GroupEvent | str | tuple[str, str] | None

_REMEMBERED: Final = 1024
#: Seconds in which all agents have told one change: those in which one repeats it, and in which another hears of it.
_SAME: Final = 2.0


class Notices:
    """What was told of the groups that one agent is in."""

    def __init__(self) -> None:
        self._says: Recent[Fact, Said] = Recent(_REMEMBERED)
        self._heard: Recent[tuple[Fact, Peer], int] = Recent(_REMEMBERED)  # the newest timestamp
        self._told: Recent[tuple[Fact, Said], tuple[Peer, float]] = Recent(_REMEMBERED)

    def begin(self, group_id: str, primary: tuple[str, str]) -> None:
        """Know who is PRIMARY of a group that was joined: its agent and skill."""
        self._says.put(_first(group_id), primary)

    def take(self, message: SceneEvent, source: Peer, now: Moment) -> bool:
        """Whether a notice tells what was not told before."""
        fact, says = _read(message)
        if message.timestamp <= self._heard.get((fact, source), -1):  # said before, or not true any more
            return False
        self._heard.put((fact, source), message.timestamp)
        if fact in self._says and self._says[fact] == says:
            return False
        teller, at = self._told.get((fact, says), (source, 0.0))
        if teller != source and now.steady < at + _SAME:
            return False
        self._says.put(fact, says)
        self._told.put((fact, says), (source, now.steady))
        self._follow(message)
        return True

    def forget(self, group_id: str) -> None:
        """Know nothing of a group that was left."""
        for fact in [fact for fact in self._says if fact[0] == group_id]:
            del self._says[fact]
        for key in [key for key in self._heard if key[0][0] == group_id]:
            del self._heard[key]
        for told in [told for told in self._told if told[0][0] == group_id]:
            del self._told[told]

    def _follow(self, message: SceneEvent) -> None:
        """Know what follows from who is there: how one begins that came, and that one that is gone is nothing more."""
        if message.event is GroupEvent.MEMBER_JOINED:
            self._says.put(_status(message), message.status)
        elif message.event is GroupEvent.MEMBER_LEFT:
            self._says.pop(_status(message), None)
            if self._says.get(first := _first(message.group_id)) == (message.agent_id, message.skill_id):
                del self._says[first]


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
