"""What was answered to one discovery, and by whom: tables in which nobody keeps others from a place **[ours]**.

The question goes to all, so whoever means ill knows its name, and answers before others do, who wait up to 120 ms.
Places are therefore not for who comes first. Each host has so many, whatever its ports are; when all are taken, the
host that has most makes room for one that has fewer; and what somebody has proven to offer takes the place of what was
merely told, as what is certified takes that of both. Who has proven itself is not pushed out by who has not, and who
has not had its time for that: else we would ask made-up sources without end.

Trust: sources, and all that they say, are a stranger's. Spec: SDP §3.3; specs §3.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.model.url import without_zone

if TYPE_CHECKING:
    from collections.abc import Collection

    from skillwire.protocols.skill_discovery.events import Found
    from skillwire.protocols.skill_discovery.messages import Endpoint, SkillRecord
    from skillwire.protocols.skill_discovery.witnesses import Author
    from skillwire.wire.node import Peer

Records = tuple["SkillRecord", ...]
Place = tuple[str, "Endpoint"]

#: Seconds after which a proof has to have come, or others are asked for.
PROOF_TAKES: Final = 0.25
_HEARSAY, _PROVEN, _VERIFIED = range(3)


class Answerer:
    """What one source has answered: who it is, what it was asked to prove, and what waits until it is known."""

    __slots__ = ("asked", "author", "judged", "proofs", "since", "waiting")

    def __init__(self, since: float) -> None:
        self.since = since
        self.author: Author | None = None
        self.asked: dict[bytes, tuple[Records, float]] = {}
        self.waiting: list[tuple[bytes, Records]] = []
        self.judged: set[Place] = set()
        self.proofs = 0


class Taken(NamedTuple):
    """A place of a source; ``gone`` is a host that has none any more, since it made room; empty for none."""

    answerer: Answerer
    gone: str = ""


class Answerers:
    """The sources of the answers to one discovery."""

    def __init__(self) -> None:
        self._sources: dict[Peer, Answerer] = {}
        self._per_host: Counter[str] = Counter()
        self._unproven: dict[str, dict[Peer, None]] = {}  # by host, the oldest first

    def get(self, source: Peer) -> Answerer | None:
        """Return what a source has answered; None where it has no place."""
        return self._sources.get(source)

    def take(self, source: Peer, now: float) -> Taken | None:
        """Return the place of a source, a new one when it has none; None when there is no room for it."""
        known = self._sources.get(source)
        if known is not None:
            return Taken(known)
        gone = ""
        if self._per_host[source.host] >= limits.LAN_ANSWERERS_PER_HOST:
            if not self._has_overdue(source.host, now):
                return None
            self._drop_oldest(source.host)
        elif len(self._sources) >= limits.LAN_ANSWERERS:
            most = max(self._unproven, key=lambda host: len(self._unproven[host]), default=None)
            has_less = most is not None and self._per_host[source.host] + 1 < len(self._unproven[most])
            if most is None or not (has_less or self._has_overdue(most := next(iter(self._unproven)), now)):
                return None
            gone = self._drop_oldest(most)
        made = self._sources[source] = Answerer(now)
        self._per_host[source.host] += 1
        self._unproven.setdefault(source.host, {})[source] = None
        return Taken(made, gone)

    def know(self, source: Peer, author: Author) -> None:
        """Take note of who a source has proven to be."""
        self._sources[source].author = author
        self._settle(source)

    def _has_overdue(self, host: str, now: float) -> bool:
        """Whether somebody of a host has had its time to prove itself, and did not."""
        oldest = next(iter(self._unproven.get(host, ())), None)
        return oldest is not None and self._sources[oldest].since <= now - PROOF_TAKES

    def _drop_oldest(self, host: str) -> str:
        """Forget who of a host has waited longest without a proof; return the host when that was its last place."""
        oldest = next(iter(self._unproven[host]))
        self._settle(oldest)
        del self._sources[oldest]
        self._per_host[host] -= 1
        if self._per_host[host]:
            return ""
        del self._per_host[host]
        return host

    def _settle(self, source: Peer) -> None:
        of_host = self._unproven.get(source.host, {})
        of_host.pop(source, None)
        if not of_host:
            self._unproven.pop(source.host, None)


class Told:
    """The skills that answers to one discovery have told of: each at each endpoint once."""

    def __init__(self) -> None:
        self._found: dict[Place, Found] = {}
        self._by_host: tuple[dict[str, dict[Place, None]], ...] = ({}, {})  # hearsay, and what is proven
        self.skills: Collection[Found] = self._found.values()

    def get(self, place: Place) -> Found | None:
        """Return what was told of a skill at an endpoint."""
        return self._found.get(place)

    def hear(self, found: Found) -> bool:
        """Take what somebody says; False when that is nothing new, or there is no room for it.

        Who says it from the skill's own host stands before who says it from elsewhere.
        """
        old = self._found.get(_place(found))
        if old is None:
            return self._take(found)
        if not old.agent_id and _is_own(found) and not _is_own(old):
            self.believe(found)
        return False

    def believe(self, found: Found) -> bool:
        """Take what stands before what was told of the same; False when there is no room for it."""
        old = self._found.get(_place(found))
        if old is not None:
            self._drop(old)
        if self._take(found):
            return True
        if old is not None:
            self._put(old)
        return False

    def forget(self, host: str) -> None:
        """Forget what was merely told from a host."""
        for place in tuple(self._by_host[_HEARSAY].get(host, ())):
            self._drop(self._found[place])

    def _take(self, found: Found) -> bool:
        has_room = self._make_room(_rank(found), found.source.host)
        if has_room:
            self._put(found)
        return has_room

    def _make_room(self, rank: int, host: str) -> bool:
        """Whether there is room for something of this rank from a host, once what matters less has gone."""
        hearsay = self._by_host[_HEARSAY]
        of_host = sum(len(by_host.get(host, ())) for by_host in self._by_host)
        if rank is not _VERIFIED and of_host >= limits.LAN_FOUND_PER_HOST:
            if rank is _HEARSAY or host not in hearsay:
                return False
            self._drop_last(hearsay[host])
        if len(self._found) < limits.LAN_FOUND:
            return True
        for lower, by_host in enumerate(self._by_host[: rank + 1]):
            most: dict[Place, None] = max(by_host.values(), key=len, default={})
            if most and (lower < rank or len(by_host.get(host, ())) + 1 < len(most)):
                self._drop_last(most)
                return True
        return False

    def _drop_last(self, places: dict[Place, None]) -> None:
        self._drop(self._found[next(reversed(places))])

    def _put(self, found: Found) -> None:
        place, rank = _place(found), _rank(found)
        self._found[place] = found
        if rank is not _VERIFIED:
            self._by_host[rank].setdefault(found.source.host, {})[place] = None

    def _drop(self, found: Found) -> None:
        place, rank, host = _place(found), _rank(found), found.source.host
        del self._found[place]
        if rank is not _VERIFIED:
            of_host = self._by_host[rank][host]
            del of_host[place]
            if not of_host:
                del self._by_host[rank][host]


def _place(found: Found) -> Place:
    return found.record.skill_id, found.record.endpoint


def _rank(found: Found) -> int:
    if found.is_verified:
        return _VERIFIED
    return _PROVEN if found.agent_id else _HEARSAY


def _is_own(found: Found) -> bool:
    return found.record.endpoint.host == without_zone(found.source.host)
