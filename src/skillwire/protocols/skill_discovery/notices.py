"""What members are told of a group: each change once, however many agents tell it, and in whichever order.

A notice goes out several times, over a way that loses and reorders, and every agent that has let us in sends its own.
Of one agent the timestamps tell what is newer. Those of two agents cannot be compared, since their clocks may differ:
what one tells that another has told a moment ago is the same change, come late. Nobody signs a notice, so what a
stranger makes up is remembered like any other, in so many places. Spec: SDP §8.3, §9.2; specs §3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
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

#: Seconds in which all agents have told one change: those in which one repeats it, and in which another hears of it.
_SAME: Final = 2.0


class Notices:
    """What was told of the groups that one agent is in.

    Args:
        window: seconds that a timestamp may differ from our clock. What is twice as far ahead counts as never told,
            since whoever sets such a clock right begins anew with its timestamps.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._first: dict[str, Said] = {}  # who is PRIMARY of each group
        self._says: Recent[Fact, Said] = Recent(limits.LAN_NOTICES)
        self._heard: Recent[tuple[Fact, Peer], int] = Recent(limits.LAN_NOTICES)  # the newest timestamp
        self._told: Recent[tuple[Fact, Said], tuple[Peer, float]] = Recent(limits.LAN_NOTICES)

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
