"""The records that a node stores: who may store how much, and what makes room for what.

Under a key each signer has a place, at most 16; a certified signer displaces an uncertified one, and otherwise the
first come stay. Of the records of one signer, agent and skill the newest timestamp stays, tombstones included. When the
memory is used up, uncertified records under the keys that are farthest from the node's id make room, then certified
ones, the newest first. :class:`Offers` are the skills that the node itself announces. Spec: SDP §6; specs §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Final

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.model.lan import DhtOwn
from skillwire.protocols.skill_discovery.dht.records import DhtOffer, SignedRecord, Stream
from skillwire.protocols.skill_discovery.identity import Standing
from skillwire.protocols.skill_discovery.scheduling import TimerQueue
from skillwire.protocols.skill_discovery.settings import PUT_AGAIN

#: The status words of STORED.
STORED: Final = "stored"
OLDER: Final = "older"  # than what is kept
FULL: Final = "full"
REFUSED: Final = "refused"  # forged, expired, not certified, or under a key that is not its own
#: Bytes that a record under a key costs beside its own, as measured.
_OVERHEAD: Final = 1000

Place = tuple[bytes, "Stream"]


class Storage:
    """The records of other publishers, by key and signer."""

    def __init__(self, node_id: bytes) -> None:
        self.size = 0
        self._number = int.from_bytes(node_id, "big")
        self._keys: dict[bytes, dict[bytes, dict[Stream, SignedRecord]]] = {}
        self._ends: TimerQueue[Place] = TimerQueue()
        #: Whether each record is certified, and how near its key is to our id; in the order in which they came.
        self._ranks: dict[Place, tuple[bool, int]] = {}
        self.timer = self._ends.timer

    @property
    def count(self) -> int:
        """How many records are stored."""
        return len(self._ranks)

    def put(self, key: bytes, record: SignedRecord, now: Moment) -> str:
        """Keep a verified record; return its status word."""
        signers = self._keys.get(key, {})
        known = signers.get(record.kid, {}).get(record.stream)
        if known is not None:
            if known.data == record.data:
                return STORED
            if known.timestamp >= record.timestamp:
                return OLDER
            self._forget(key, known)
        elif not self._has_place(key, signers, record):
            return FULL
        self._keys.setdefault(key, {}).setdefault(record.kid, {})[record.stream] = record
        place = key, record.stream
        distance = int.from_bytes(key, "big") ^ self._number
        self._ranks[place] = record.standing is Standing.CERTIFIED, -distance.bit_length()
        self._ends.set(place, now.steady + record.ends - now.wall)
        self.size += len(record.data) + _OVERHEAD
        while self.size > limits.DHT_STORED_BYTES:
            least = min(reversed(self._ranks), key=self._ranks.__getitem__)  # uncertified, then far, then new
            self._remove(least)
            if least == place:
                return FULL
        return STORED

    def get(self, key: bytes, wall: float) -> list[SignedRecord]:
        """Return the records under a key that still count."""
        signers = self._keys.get(key)
        if signers is None:
            return []
        return [one for one in chain.from_iterable(map(dict.values, signers.values())) if one.is_valid(wall)]

    def on_timer(self, now: Moment) -> None:
        """Forget what has ended."""
        while (place := self._ends.pop(now.steady)) is not None:
            self._remove(place)

    def _has_place(self, key: bytes, signers: dict[bytes, dict[Stream, SignedRecord]], record: SignedRecord) -> bool:
        """Return whether a signer has room for one more record under a key, once another has lost its place."""
        if record.kid in signers:
            return len(signers[record.kid]) < limits.DHT_RECORDS_PER_SIGNER
        if len(signers) < limits.DHT_SIGNERS_PER_KEY:
            return True
        if record.standing is not Standing.CERTIFIED:
            return False
        for kid in reversed(signers):
            if all(one.standing is not Standing.CERTIFIED for one in signers[kid].values()):
                for stream in list(signers[kid]):
                    self._remove((key, stream))
                return True
        return False

    def _forget(self, key: bytes, record: SignedRecord) -> None:
        """Count a record no longer; it keeps its rank among the pages of its key if another replaces it."""
        del self._ranks[key, record.stream]
        self.size -= len(record.data) + _OVERHEAD

    def _remove(self, place: Place) -> None:
        key, stream = place
        signers = self._keys[key]
        self._forget(key, signers[stream[0]].pop(stream))
        self._ends.cancel(place)
        if not signers[stream[0]]:
            del signers[stream[0]]
        if not signers:
            del self._keys[key]


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

    def __init__(self, random: Random) -> None:
        self._own: dict[str, Own] = {}
        self._due: TimerQueue[str] = TimerQueue()
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
        self._due.set(skill_id, now + self._random.uniform(*PUT_AGAIN))
        return self._own[skill_id]

    def note(self, own: Own, stored: int, wall: float, now: float, *, has_room: bool) -> None:
        """Note on how many nodes an offer was stored; one that no node stored is put again soon where it has room."""
        own.stored = stored
        if stored:
            own.last_put = wall
        elif has_room and self._own.get(own.offer.skill_id) is own:
            self._due.set_earlier(own.offer.skill_id, now + _UNSTORED)

    def status(self) -> tuple[DhtOwn, ...]:
        """Return the state of each."""
        return tuple(DhtOwn(*own.offer[:2], own.last_put, own.stored) for own in self._own.values())
