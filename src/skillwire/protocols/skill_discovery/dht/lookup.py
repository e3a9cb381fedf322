"""Walks: the way to the nodes closest to a key, to find its records or to store one there.

The k closest known nodes are dealt out to three paths, and each path continues with the nodes that its own nodes name,
so no node is asked by two paths, and a liar misleads one. A path has one request in flight, and continues when that is
slow. A walk ends when no path knows a node closer than the k closest that answered; one for records ends before, when
two nodes gave all their records and the first node of each path had its answer or was slow. Contacts that a node named
and that did not prove themselves count against it. A node that is named at two addresses is asked at both, so a liar
masks none. At the end some nodes are asked wherever they are: the bootstrap nodes. Spec: SDP §6; specs §3.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, Final

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.dht.messages import (
    Find,
    Found,
    Store,
    Stored,
    WireContact,
    may_name,
    read_host,
    write_host,
)
from skillwire.protocols.skill_discovery.dht.peers import Contact, Peers, Proof
from skillwire.protocols.skill_discovery.dht.records import FULL, STORED, RecordReader, SignedRecord, Stream
from skillwire.wire.node import Peer

PATHS: Final = 3
#: Nodes that gave all their records after which a walk needs no more.
_ENOUGH: Final = 2
#: Silent contacts after which a node's other contacts come last, and after which they are ignored.
_BLAMED: Final = 2
_IGNORED: Final = 6
#: Pages of one node in flight.
_PAGES: Final = 4


@dataclass(slots=True, eq=False)
class Candidate:
    """A node of a walk; ``namer`` named it, None for one of our table, and for one that is asked at the end."""

    contact: Contact
    distance: int
    path: int
    namer: Candidate | None
    silent: int = 0  # of the contacts that it named
    pages: int = 0  # that were requested
    reading: int = 0  # pages under way


class Walk:
    """One walk; ``changed`` is called whenever it got further. Results are attributes."""

    def __init__(
        self,
        peers: Peers,
        target: bytes,
        k: int,
        changed: Callable[[Moment], None],
        *,
        record: bytes | None = None,
        reader: RecordReader | None = None,
        at_the_end: Callable[[], Sequence[Contact]] = tuple,
    ) -> None:
        self.records: dict[Stream, SignedRecord] = {}
        self.answered: list[int] = []  # distances, the least first
        self.answerers: set[bytes] = set()
        self.unanswered: dict[Peer, None] = {}
        self.stored = 0
        self.is_full = False  # a node had no room
        self.is_over = False
        self.target = target
        self.record = record
        self._number = int.from_bytes(target, "big")
        self._peers, self._k, self._changed = peers, k, changed
        self._reader = reader
        self._at_the_end = at_the_end
        self._seen: set[WireContact] = set()
        self._paths: list[list[Candidate]] = [[] for _ in range(PATHS)]  # the closest first
        self._busy: list[Candidate | None] = [None] * PATHS
        self._unread: list[tuple[Candidate, Sequence[WireContact]]] = []  # contacts that answers named
        self._first: set[Candidate] = set()
        self._in_flight = 0
        self._slow_ones: set[Candidate] = set()
        self._read: set[bytes] = set()  # nodes that gave all their records
        self._reading = 0

    def start(self, now: Moment) -> bool:
        """Ask the closest known nodes; return whether ours is among the closest."""
        closest = self._peers.closest(self._number, self._k)
        for number, contact in enumerate(closest):
            self._add(contact, number % PATHS, None)
        self._go_on(now)
        self._first = {one for one in self._busy if one is not None}
        own = self._peers.number ^ self._number
        return len(closest) < self._k or int.from_bytes(closest[-1].id, "big") ^ self._number > own

    def _add(self, contact: Contact, path: int, namer: Candidate | None) -> None:
        if self._is_new(contact) and contact.id != self._peers.id and len(self._seen) <= limits.DHT_WALK_NODES:
            distance = int.from_bytes(contact.id, "big") ^ self._number
            insort(self._paths[path], Candidate(contact, distance, path, namer), key=lambda one: one.distance)

    def _is_new(self, contact: Contact) -> bool:
        """Return whether a node is seen for the first time at its address."""
        before = len(self._seen)
        self._seen.add((contact.id, write_host(contact.peer.host), contact.peer.port))
        return len(self._seen) > before

    def _go_on(self, now: Moment) -> None:
        if self.is_over:
            return
        is_first = bool(self._first) and bool(self.records or self.stored)  # which may be enough
        self.is_over = len(self._read) >= _ENOUGH and not self._first
        if not self.is_over and not is_first:
            for path in range(PATHS):
                if self._busy[path] is None and (candidate := self._next(path)) is not None:
                    self._busy[path] = candidate
                    self._ask(candidate, now)
            waits = self._in_flight - (len(self._slow_ones) if self.records else 0) + self._reading
            if not waits and not self.records:
                contacts, self._at_the_end = self._at_the_end, tuple
                for contact in contacts():
                    if self._is_new(contact):
                        self._ask(Candidate(contact, 1 << 256, 0, None), now)
                waits = self._in_flight
            self.is_over = not waits
        self._changed(now)

    def _next(self, path: int) -> Candidate | None:
        while self._unread:
            self._take_contacts(*self._unread.pop())
        waiting = self._paths[path]
        enough = self.answered[self._k - 1] if len(self.answered) >= self._k else 1 << 256
        for most in (_BLAMED, _IGNORED):
            for index, candidate in enumerate(waiting):
                if candidate.distance < enough and (candidate.namer is None or candidate.namer.silent < most):
                    return waiting.pop(index)
        return None

    def _ask(self, candidate: Candidate, now: Moment) -> None:
        self._in_flight += 1
        if self._peers.is_proven(candidate.contact, now):
            self._send(candidate, now)
        else:
            then = partial(self._proven, candidate)
            self._peers.hello(candidate.contact.peer, now, then, partial(self._slow, candidate))

    def _proven(self, candidate: Candidate, proof: Proof | None, now: Moment) -> None:
        if self.is_over:
            return
        if proof is not None and proof.id == candidate.contact.id and self._peers.admits(proof.standing):
            self._send(candidate, now)
        else:
            self._settle(candidate, None, now)

    def _send(self, candidate: Candidate, now: Moment) -> None:
        fields: tuple[Any, ...] = self.target, self._reader is not None, 0
        if self.record is not None:
            fields = self.target, self.record
        kind = Find if self.record is None else Store
        done, slow = partial(self._settle, candidate), partial(self._slow, candidate)
        self._peers.requests.ask(candidate.contact.peer, candidate.contact.id, kind, fields, now, done, slow)

    def _slow(self, candidate: Candidate, now: Moment) -> None:
        if not self.is_over:
            self.unanswered[candidate.contact.peer] = None
            self._slow_ones.add(candidate)
            self._release(candidate)
            self._go_on(now)

    def _release(self, candidate: Candidate) -> None:
        self._first.discard(candidate)
        if self._busy[candidate.path] is candidate:
            self._busy[candidate.path] = None

    def _settle(self, candidate: Candidate, answer: Found | Stored | None, now: Moment) -> None:
        self._in_flight -= 1
        if self.is_over:
            return
        self._release(candidate)
        self._slow_ones.discard(candidate)
        if answer is None:
            self.unanswered[candidate.contact.peer] = None
            if candidate.namer is not None:
                candidate.namer.silent += 1
        else:
            if candidate.contact.id not in self.answerers:
                insort(self.answered, candidate.distance)
                self.answerers.add(candidate.contact.id)
            self._peers.learn(answer.contacts, candidate.contact.peer, now)
            self.unanswered.pop(candidate.contact.peer, None)
            self._unread.append((candidate, answer.contacts))
            if isinstance(answer, Stored):
                self.stored += answer.status == STORED
                self.is_full = self.is_full or answer.status == FULL
            elif answer.record:
                self._take_record(candidate, answer, now)
        self._go_on(now)

    def _take_contacts(self, namer: Candidate, contacts: Sequence[WireContact]) -> None:
        source = namer.contact.peer
        idle = (path for path in range(PATHS) if not self._paths[path] and self._busy[path] is None)
        paths = cycle(dict.fromkeys((namer.path, *idle)))
        for one in contacts[: self._k]:
            node_id, address, port = one
            if one not in self._seen and (host := read_host(address)) and may_name(source, host):
                self._add(Contact(node_id, Peer(host, port)), next(paths), namer)

    def _take_record(self, candidate: Candidate, answer: Found, now: Moment) -> bool:
        """Take a record and ask for the other pages; False when it proves nothing, and its node is read no further."""
        if self._reader is None:
            return False
        try:
            record = self._reader.read(answer.record, now)
        except SkillwireError:
            return False
        if not record.belongs_under(self.target) or not self._peers.admits(record.standing):
            return False
        known = self.records.get(record.stream)
        if known is None or known.timestamp < record.timestamp:
            self.records[record.stream] = record
        if answer.page == 0:
            candidate.pages = 1
            self._read_pages(candidate, _PAGES, answer.total, now)
        return True

    def _read_pages(self, candidate: Candidate, most: int, total: int, now: Moment) -> None:
        total = min(total, limits.DHT_SIGNERS_PER_KEY * limits.DHT_RECORDS_PER_SIGNER)
        peer, node_id = candidate.contact.peer, candidate.contact.id
        for page in range(candidate.pages, min(total, candidate.pages + most)):
            candidate.pages += 1
            candidate.reading += 1
            self._reading += 1
            done = partial(self._page_read, candidate, total)
            self._peers.requests.ask(peer, node_id, Find, (self.target, True, page), now, done)
        if not candidate.reading:
            self._read.add(node_id)

    def _page_read(self, candidate: Candidate, total: int, answer: Found | None, now: Moment) -> None:
        self._reading -= 1
        candidate.reading -= 1
        if self.is_over:
            return
        is_right = answer is not None and answer.page and answer.record and self._take_record(candidate, answer, now)
        self._read_pages(candidate, 1 if is_right else 0, total, now)
        self._go_on(now)
