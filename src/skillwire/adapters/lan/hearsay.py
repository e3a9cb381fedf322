"""What others tell of our groups, and is not seen here: a member that we cannot hear, or another choice of PRIMARY.

Whoever has let us into a scene tells what changes in its group, and nobody signs that. What we hear ourselves, signed,
says nearly all of it in the same moment, and is what counts; so a notice is told to the user only when a heartbeat
later the network looks otherwise from here. It is a hint then, and a reason to ask again. Spec: SDP §8.3; specs §3.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillwire.model.lan import LanChange, LanMember, LanNotice
from skillwire.protocols.skill_discovery.messages import GroupEvent
from skillwire.protocols.skill_discovery.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.lan.view import View
    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.events import GroupChanged
    from skillwire.protocols.skill_discovery.listing import Key

_WAITING: Final = 256


class Hearsay:
    """The notices of one agent that wait until it has seen itself what they tell.

    Args:
        view: what is listed here.
        tell: is told what is not.
        now: says what time it is.
        patience: seconds in which it is seen here, too, if ever: one heartbeat.
    """

    def __init__(
        self, view: View, tell: Callable[[LanChange], object], now: Callable[[], Moment], patience: float
    ) -> None:
        self._view = view
        self._tell = tell
        self._now = now
        self._patience = patience
        self._waiting: Recent[tuple[str, ...], tuple[float, GroupChanged]] = Recent(_WAITING)
        self._timer: asyncio.TimerHandle | None = None
        self._gone: Recent[Key, None] = Recent(_WAITING)  # from what is listed here

    def gone(self, key: Key) -> None:
        """Know that a skill is listed here no more."""
        self._gone.put(key, None)

    def take(self, event: GroupChanged) -> None:
        """Take what was told of a group; what it says of the same before counts no more."""
        about = _about(event)
        if event.event is GroupEvent.MEMBER_JOINED:
            self._gone.pop((event.agent_id, event.skill_id), None)
        self._waiting.put(about, (asyncio.get_running_loop().time() + self._patience, event))
        if self._timer is None:
            self._set_timer()

    def end(self) -> None:
        """Tell no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._waiting.clear()

    def _set_timer(self) -> None:
        due, _ = next(iter(self._waiting.values()))  # the oldest stands first
        self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for about, (due, event) in list(self._waiting.items()):
            if due > now:
                break
            del self._waiting[about]
            self._check(event)
        if self._waiting:
            self._set_timer()

    def _check(self, event: GroupChanged) -> None:
        if not self._is_seen(event):
            about = event.scene, event.group_id, str(event.event), event.agent_id, event.skill_id, str(event.status)
            skill = self._view.skill((event.agent_id, event.skill_id))
            self._tell(LanChange("notice", self._now().wall, skill=skill, notice=LanNotice(*about)))

    def _is_seen(self, event: GroupChanged) -> bool:
        """Whether the network looks from here as it was told.

        Of each scene one notice at most is about its PRIMARY, for which all its providers are looked at.
        """
        if event.event is GroupEvent.PRIMARY_CHANGED:
            members = self._view.scene(event.scene).members
            return members[:1] == (LanMember(event.agent_id, event.skill_id, "PRIMARY"),)
        skill = self._view.skill(key := (event.agent_id, event.skill_id))
        if event.event is GroupEvent.MEMBER_LEFT:  # that it is not here says nothing where it never was
            return key in self._gone if skill is None else event.scene not in skill.scenes
        if skill is None or event.scene not in skill.scenes:
            return False
        return event.event is GroupEvent.MEMBER_JOINED or skill.status == event.status


def _about(event: GroupChanged) -> tuple[str, ...]:
    if event.event is GroupEvent.PRIMARY_CHANGED:
        return (event.scene,)
    return event.scene, event.agent_id, event.skill_id
