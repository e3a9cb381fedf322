"""The skills that a node announces: when each is put again. Spec: SDP §6; specs §3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillwire.model.dht import DhtOwn
from skillwire.protocols.skill_discovery.scheduling import TimerQueue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from skillwire.protocols.skill_discovery.dht.records import DhtOffer
    from skillwire.protocols.skill_discovery.dht.settings import DhtSettings

#: Seconds after a change of the network in which own records are put again, from and to.
_SOON: Final = 0.5, 1.5
#: Puts a second that are begun when many are due at once.
_PUTS: Final = 50.0
#: Seconds until a put that no node acknowledged is tried again.
_UNSTORED: Final = 5.0


@dataclass(slots=True)
class Own:
    """An own offer, its last put (seconds since the epoch, 0 for never), and on how many nodes it is."""

    offer: DhtOffer
    last_put: float = 0.0
    stored: int = 0


class Offers:
    """The own offers, by skill, and when each is due."""

    def __init__(self, settings: DhtSettings, random: Random) -> None:
        self._own: dict[str, Own] = {}
        self._due: TimerQueue[str] = TimerQueue()
        self._put_again = settings.put_again
        self._random = random
        self._free_at = 0.0
        self.timer = self._due.timer

    def replace(self, offers: Sequence[DhtOffer], now: float) -> list[tuple[DhtOffer, DhtOffer | None]]:
        """Take the offers from now on; return each earlier one that ended or changed, with what replaces it."""
        earlier, offered = self._own, {offer.skill_id: offer for offer in offers}
        self._own = {}
        for skill_id, offer in offered.items():
            known = earlier.get(skill_id)
            self._own[skill_id] = Own(offer) if known is None else Own(offer, known.last_put, known.stored)
            if known is None or known.offer != offer:
                self._set(skill_id, now)
        for skill_id in earlier.keys() - offered.keys():
            self._due.cancel(skill_id)
        pairs = ((own.offer, offered.get(skill_id)) for skill_id, own in earlier.items())
        return [(before, after) for before, after in pairs if before != after]

    def soon(self, now: float) -> None:
        """Put all again soon."""
        for skill_id in self._own:
            self._set(skill_id, now + self._random.uniform(*_SOON))

    def _set(self, skill_id: str, due: float) -> None:
        """Make a skill due at ``due``, later where many are due at once, and not later than before."""
        self._free_at = max(self._free_at + 1 / _PUTS, due)
        self._due.set_earlier(skill_id, self._free_at)

    def pop(self, now: float) -> Own | None:
        """Return the next offer that is to be put now, and make it due again."""
        skill_id = self._due.pop(now)
        if skill_id is None:
            return None
        self._due.set(skill_id, now + self._random.uniform(*self._put_again))
        return self._own[skill_id]

    def note(self, own: Own, stored: int, wall: float, now: float) -> None:
        """Note on how many nodes an offer was stored; one that no node stored is put again soon."""
        own.stored = stored
        if stored:
            own.last_put = wall
        elif self._own.get(own.offer.skill_id) is own:
            self._due.set_earlier(own.offer.skill_id, now + _UNSTORED)

    def status(self) -> tuple[DhtOwn, ...]:
        """Return the state of each."""
        return tuple(DhtOwn(*own.offer[:2], own.last_put, own.stored) for own in self._own.values())
