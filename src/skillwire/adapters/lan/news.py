"""News: what happens on the links of an agent, told to those of its parts whom it concerns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillwire.errors import TrustError
from skillwire.protocols.skill_discovery.events import Acknowledged, GroupChanged, NameTaken, Unheard
from skillwire.protocols.skill_discovery.listing import Change, What
from skillwire.protocols.skill_discovery.messages import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.adapters.lan.hearsay import Hearsay
    from skillwire.adapters.lan.keeping import Keeping
    from skillwire.adapters.lan.link import Link
    from skillwire.adapters.lan.questions import Questions
    from skillwire.adapters.lan.suspects import Suspects
    from skillwire.adapters.lan.view import View
    from skillwire.protocols.skill_discovery.events import NodeEvent

#: Seconds in which changes of a scene are collected, so that a hundred members that start together are one change.
_REST_PAUSE: Final = 0.05
_NOTES: Final = 8


class News:
    """The news of one agent.

    Args:
        view: is told what has changed in a registry.
        keeping: the same; None when nothing is kept.
        suspects: is told who has fallen silent.
        questions: is told what was answered.
        hearsay: is told what others tell of our groups.
        on_trouble: is told who does not register us, ``DISC_003``, who has our name, ``LAN_NAME``, and who speaks
            otherwise than we do, ``LAN_UNHEARD``.

    ``notes`` are those of it that hold for as long as the agent is there: who else has our name, and who is not heard.
    """

    def __init__(
        self,
        view: View,
        keeping: Keeping | None,
        suspects: Suspects,
        questions: Questions,
        *,
        hearsay: Hearsay,
        on_trouble: Callable[[TrustError], object],
    ) -> None:
        self.notes: tuple[str, ...] = ()
        self._view = view
        self._keeping = keeping
        self._suspects = suspects
        self._questions = questions
        self._hearsay = hearsay
        self._on_trouble = on_trouble
        self._rest_timer: asyncio.TimerHandle | None = None

    def take(self, link: Link, events: Sequence[NodeEvent]) -> None:
        """Take what has happened on a link."""
        for event in events:
            if isinstance(event, Change):
                self._changed(link, event)
            elif isinstance(event, Acknowledged):
                if event.status in {Outcome.INVALID, Outcome.UNAUTHORIZED}:
                    self._on_trouble(_refusal(event))
            elif isinstance(event, GroupChanged):
                self._hearsay.take(event)
            elif isinstance(event, NameTaken):
                self._note("LAN_NAME", _taken(event))
            elif isinstance(event, Unheard):
                self._note("LAN_UNHEARD", f"{event.by.host} {event.said}: nothing of that is heard")
            else:
                self._questions.take(link, event)
        if self._view.has_more and self._rest_timer is None:
            self._rest_timer = asyncio.get_running_loop().call_later(_REST_PAUSE, self._tell_rest)

    def end(self) -> None:
        """Tell no more."""
        self._hearsay.end()
        if self._rest_timer is not None:
            self._rest_timer.cancel()

    def _changed(self, link: Link, change: Change) -> None:
        self._view.changed(change)
        if change.after is None:
            self._hearsay.gone(change.listed.key)
        if self._keeping is not None:
            self._keeping.changed(link.name, change)
        if change.what is What.SUSPECTED:
            self._suspects.probe(link, change)

    def _note(self, code: str, text: str) -> None:
        """Keep what holds as long as we are there, once, and tell of it."""
        if text not in self.notes:
            self.notes = (*self.notes, text)[-_NOTES:]
            self._on_trouble(TrustError(code, text))

    def _tell_rest(self) -> None:
        self._rest_timer = None
        self._view.tell_rest()


def _taken(event: NameTaken) -> str:
    """Return who else has our name."""
    return f"{event.by.host} takes part as {event.agent_id}, too, with another key: who knows one refuses the other"


def _refusal(event: Acknowledged) -> TrustError:
    """Return why an agent does not list a skill of ours. Spec: SDP §2.3, §12.1."""
    said = ascii(event.message)[1:-1][:200]
    return TrustError("DISC_003", f"{event.by.host} does not register {event.skill_id}: {event.status} {said}".rstrip())
