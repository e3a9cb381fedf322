"""The node of the DHT: a Kademlia node as a state machine without input and output.

It answers three requests. HELLO proves its key; FIND names the nodes closest to a key, and one record of it; STORE
keeps a record after its verification. Its own operations are walks, one for each key, and end with one
:class:`Finished`. A request is read within the rate of its source; one that costs a signature or its verification
counts for several, and all unproven sources share a rate for these. Spec: SDP §6; specs §3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError, ValidationError
from skillwire.model.execution import Moment
from skillwire.model.lan import DhtBootstrap, DhtBucket, DhtStatus, host_and_port
from skillwire.protocols.skill_discovery.dht import messages as m
from skillwire.protocols.skill_discovery.dht.lookup import Walk
from skillwire.protocols.skill_discovery.dht.messages import SourceRates
from skillwire.protocols.skill_discovery.dht.peers import Contact, Peers, Proof
from skillwire.protocols.skill_discovery.dht.records import (
    LIFETIME,
    REFUSED,
    TOMBSTONE_LIFETIME,
    DhtOffer,
    OwnOffers,
    OwnRecord,
    RecordReader,
    SignedRecord,
    Storage,
    Stream,
    check_offer,
    keys_to_write,
    sign_record,
)  # fmt: skip
from skillwire.protocols.skill_discovery.identity import Authority, Identity
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.scheduling import TimerQueue, earliest
from skillwire.protocols.skill_discovery.settings import DhtSettings
from skillwire.wire.node import Datagram, Peer

_DEFAULTS: Final = DhtSettings()
#: Seconds between two lookups of the own id.
_SELF_LOOKUP: Final = 1.0
#: How many plain requests a signature or its verification counts for.
_WORK: Final = 10.0
_UNPROVEN: Final = "unproven"


class Finished(NamedTuple):
    """The end of an operation.

    Args:
        records: newest of each signer, agent and skill, each verified; none that was removed.
        asked: nodes that answered.
        stored: nodes that hold the record, at least under each of its keys that had room.
        full: keys under which no node had room.
        unanswered: addresses of nodes that did not answer.
        keys_without_answer: keys for which no node answered.
        pong: of a ping that was answered.
    """

    number: int
    records: tuple[SignedRecord, ...] = ()
    asked: int = 0
    stored: int = 0
    full: tuple[bytes, ...] = ()
    unanswered: tuple[Peer, ...] = ()
    keys_without_answer: tuple[bytes, ...] = ()
    seconds: float = 0.0
    pong: Proof | None = None


@dataclass(slots=True)
class _Operation:
    number: int
    started: float
    enough: int = 0  # nodes that store, for a put
    walks: list[Walk] = field(default_factory=list)
    peer: Peer | None = None  # of a ping

    def is_done(self) -> bool:
        return all(walk.is_over or (self.enough and walk.stored >= self.enough) for walk in self.walks)


class DhtNode:
    """One node; see :class:`~skillwire.wire.node.Node` for what its driver does."""

    def __init__(
        self,
        agent_id: str,
        *,
        identity: Identity,
        authority: Authority,
        random: Random,
        profile: Profile = Profile.OPEN,
        settings: DhtSettings = _DEFAULTS,
        is_client: bool = False,
        contacts: Iterable[Contact] = (),
    ) -> None:
        self._agent_id, self._identity = agent_id, identity
        self._profile, self._settings = profile, settings
        self._is_client = is_client
        self._reader = RecordReader(authority)
        self._peers = Peers(
            agent_id,
            identity=identity,
            judge=self._reader,
            random=random,
            profile=profile,
            settings=settings,
            is_client=is_client,
            contacts=contacts,
            on_return=self.network_changed,
        )
        self.id = self._peers.id
        self._requests = self._peers.requests
        self._storage = Storage(self.id)
        self._rates = SourceRates()
        self._offers = OwnOffers(random)
        self._operations: dict[int, _Operation] = {}
        self._deadlines: TimerQueue[int] = TimerQueue()
        self._parked: list[_Operation] = []  # until a node is known
        self._numbers = count(1)
        self._events: list[Finished] = []
        self._counters: Counter[str] = Counter()
        self._stamp = 0
        self._looked_up = float("-inf")
        self._handlers: dict[type, Any] = {m.Hello: self._hello, m.Find: self._find, m.Store: self._store}

    # --- operations ---

    def bootstrap(self, peers: Iterable[Peer], now: Moment) -> None:
        """Take the addresses of the bootstrap nodes, all of them; say HELLO to the new ones."""
        self._peers.bootstrap(peers, now)

    def find(self, keys: Sequence[bytes], now: Moment, seconds: float) -> int:
        """Look up keys, all at once; return the number of the operation, which one ``Finished`` ends.

        Like each operation it waits for :meth:`bootstrap`, and for the first of these nodes to answer or not.

        For the two forms of one key, look up the figure's form only when the first finds nothing: a key without
        records costs eight requests or more, one with records three.
        """
        operation = self._begin(now, seconds)
        self._counters["get"] += 1
        operation.walks = [
            Walk(
                self._peers,
                key,
                self._settings.k,
                partial(self._progress, operation),
                reader=self._reader,
                at_the_end=self._peers.bootstrap_contacts,
            )
            for key in dict.fromkeys(keys)
        ]
        return self._start(operation, now)

    def put(self, offer: DhtOffer, now: Moment, seconds: float, *, is_removed: bool = False) -> int:
        """Put a skill once; return the number of the operation. Raises: ValidationError (``DHT_RECORD``)."""
        data = self._sign(offer, now, is_removed=is_removed)
        operation = self._begin(now, seconds)
        operation.enough = self._settings.replication_factor
        self._counters["put"] += 1
        keys = keys_to_write(offer.skill_id, offer.capabilities)
        operation.walks = self._walks_to_store(keys, data, partial(self._progress, operation))
        return self._start(operation, now)

    def remove(self, skill_id: str, capabilities: Sequence[str], now: Moment, seconds: float) -> int:
        """Put a tombstone; return the number of the operation. Raises: ValidationError (``DHT_RECORD``)."""
        return self.put(_tombstone(skill_id, capabilities), now, seconds, is_removed=True)

    def ping(self, peer: Peer, now: Moment, seconds: float) -> int:
        """Say HELLO to an address; return the number of the operation."""
        operation = self._begin(now, seconds)
        operation.peer = peer
        self._peers.hello(peer, now, partial(self._finish, operation))
        return operation.number

    def offer(self, offers: Sequence[DhtOffer], now: Moment, seconds: float = 30.0) -> int:
        """Announce these skills from now on, and no others: what was announced before gets a tombstone.

        Return the number of the operation that stores the tombstones. Raises: ValidationError (``DHT_RECORD``) for the
        first that fits into no record; nothing changes then.
        """
        for offer in offers:
            check_offer(offer, self._agent_id, self._identity.certificate)
        operation = self._begin(now, seconds)
        for before, after in self._offers.replace(offers, now.steady):
            kept = () if after is None else keys_to_write(after.skill_id, after.capabilities)
            keys = [key for key in keys_to_write(before.skill_id, before.capabilities) if key not in kept]
            with suppress(ValidationError):  # the certificate is longer than before
                data = self._sign(_tombstone(before.skill_id, before.capabilities), now, is_removed=True)
                operation.walks += self._walks_to_store(keys, data, partial(self._progress, operation))
        self._on_timer_of_offers(now)
        return self._start(operation, now)

    def cancel(self, number: int) -> None:
        """End an operation without an event."""
        operation = self._operations.pop(number, None)
        self._deadlines.cancel(number)
        if operation is not None:
            for walk in operation.walks:
                walk.is_over = True

    def network_changed(self, now: Moment) -> None:
        """Put own skills again soon, and look for nodes: an address or interface of this machine changed."""
        self._offers.soon(now.steady)
        if not self._is_client and now.steady >= self._looked_up + _SELF_LOOKUP:
            self._looked_up = now.steady
            Walk(self._peers, self.id, self._settings.k, lambda _: None).start(now)

    def contacts(self) -> list[Contact]:
        """Return the nodes of the table, to be given to the next node after a restart."""
        return [contact for table in self._peers.tables for contact in table.contacts()]

    def reached(self) -> dict[Peer, bool]:
        """Return the bootstrap nodes, and whether each answers."""
        return self._peers.bootstraps

    def status(self) -> DhtStatus:
        """Return the state of the node, which does not know where it listens."""
        buckets: dict[int, list[str]] = {}
        for shared, peer in (pair for table in self._peers.tables for pair in table.distances()):
            buckets.setdefault(shared, []).append(host_and_port(*peer))
        return DhtStatus(
            self.id.hex(),
            (),
            self._profile.value,
            tuple(DhtBucket(shared, tuple(nodes)) for shared, nodes in sorted(buckets.items())),
            self._storage.count,
            self._storage.size,
            self._offers.status(),
            tuple(DhtBootstrap(host_and_port(*peer), answers) for peer, answers in self._peers.bootstraps.items()),
            dict(self._counters),
        )

    def _begin(self, now: Moment, seconds: float) -> _Operation:
        operation = _Operation(next(self._numbers), now.steady)
        self._operations[operation.number] = operation
        self._deadlines.set(operation.number, now.steady + seconds)
        return operation

    def _start(self, operation: _Operation, now: Moment) -> int:
        if self._peers.may_come(now):
            self._parked.append(operation)
            return operation.number
        self._start_walks(operation.walks, now)
        self._progress(operation, now)
        return operation.number

    def _start_walks(self, walks: Sequence[Walk], now: Moment) -> None:
        """Start walks; keep a record here, too, where this node is among the closest."""
        for walk in walks:
            if walk.start(now) and walk.record is not None and not self._is_client:
                self._keep(walk.target, walk.record, now)

    def _start_parked(self, now: Moment) -> None:
        if not self._peers.may_come(now):
            parked, self._parked = self._parked, []
            for operation in parked:
                if operation.number in self._operations:
                    self._start(operation, now)

    def _sign(self, offer: DhtOffer, now: Moment, *, is_removed: bool = False) -> bytes:
        """Return a record with a timestamp newer than all before, but for those of a clock that was set back."""
        at = int(now.wall * 1000)
        self._stamp = max(at, self._stamp + 1) if self._stamp < at + 60_000 else at
        most = TOMBSTONE_LIFETIME if is_removed else LIFETIME
        return sign_record(offer, self._agent_id, self._identity, self._stamp, lifetime=most, is_removed=is_removed)

    def _walks_to_store(self, keys: Sequence[bytes], data: bytes, changed: Any) -> list[Walk]:
        k = max(self._settings.k, self._settings.replication_factor)
        last = self._peers.bootstrap_contacts if self._profile is Profile.SIGNED else tuple
        return [Walk(self._peers, key, k, changed, record=data, at_the_end=last) for key in keys]

    def _progress(self, operation: _Operation, now: Moment) -> None:
        if operation.number in self._operations and operation.is_done():
            self._finish(operation, None, now)

    def _finish(self, operation: _Operation, pong: Proof | None, now: Moment) -> None:
        if self._operations.pop(operation.number, None) is None:
            return
        self._deadlines.cancel(operation.number)
        walks = operation.walks
        found: dict[Stream, SignedRecord] = {}
        for walk in walks:
            if not operation.enough:
                walk.is_over = True
                self._merge(walk, found, now)
        unanswered = dict.fromkeys(peer for walk in walks for peer in walk.unanswered)
        if operation.peer is not None and pong is None:
            unanswered[operation.peer] = None
        if operation.peer is None and not any(walk.answered for walk in walks):
            unanswered |= {peer: None for peer, is_reached in self._peers.bootstraps.items() if not is_reached}
        event = Finished(
            operation.number,
            tuple(found.values()),
            len({node_id for walk in walks for node_id in walk.answerers}),
            *_stored(walks),
            tuple(unanswered),
            tuple(walk.target for walk in walks if not walk.answered),
            now.steady - operation.started,
            pong,
        )
        self._events.append(event)

    def _merge(self, walk: Walk, found: dict[Stream, SignedRecord], now: Moment) -> None:
        """Add the newest records of a key, ours included, unless they were removed."""
        newest = dict(walk.records)
        for record in self._storage.get(walk.target, now.wall):
            if record.stream not in newest or newest[record.stream].timestamp < record.timestamp:
                newest[record.stream] = record
        for stream, record in newest.items():
            if not record.removed and (stream not in found or found[stream].timestamp < record.timestamp):
                found[stream] = record

    # --- datagrams ---

    def receive(self, data: bytes, source: Peer, now: Moment) -> None:
        """Take a datagram. Trust: untrusted; it never raises."""
        self._counters["received"] += 1
        if refused := self._refusal(data, source, now):
            self._counters[refused] += 1
        if self._parked:
            self._start_parked(now)

    def _refusal(self, data: bytes, source: Peer, now: Moment) -> str:
        """Act on a datagram; return why not, empty when it counts."""
        if data[2:3] in m.ANSWER_TAGS:
            if not self._requests.awaits(data):
                return "not asked for"
        elif self._is_client or not self._rates.allows(source, 1, now.steady):
            return "rate"
        try:
            message = m.decode(data)
        except DecodeError:
            return "malformed"
        if isinstance(message, m.Welcome | m.Found | m.Stored):
            return "" if self._requests.take(message, source, now) else "not asked for"
        answer: m.Answer | str = self._handlers[type(message)](message, len(data), source, now)
        return answer if isinstance(answer, str) else self._send(answer, message, len(data), source, now)

    def _may_work(self, sender: bytes, source: Peer, now: Moment) -> bool:
        """Return whether a request may cost a signature or its verification."""
        is_known = self._peers.is_proven(Contact(sender, source), now)
        return (is_known or self._rates.allows(_UNPROVEN, 1, now.steady)) and self._rates.allows(
            source, _WORK, now.steady
        )

    def _hello(self, message: m.Hello, size: int, source: Peer, now: Moment) -> m.Answer | str:
        if size < m.REQUEST_BYTES:
            return "malformed"
        if not self._may_work(message.sender, source, now):
            return "rate"
        return m.Welcome(message.transaction, self.id, 0, *self._peers.prove(message))

    def _find(self, message: m.Find, size: int, source: Peer, now: Moment) -> m.Answer | str:
        if size < m.REQUEST_BYTES:
            return "malformed"
        found = self._storage.get(message.target, now.wall) if message.wants_records else []
        record = found[message.page].data if message.page < len(found) else b""
        contacts = [] if message.page else self._near(message.target, message, size, len(record), source)
        return m.Found(message.transaction, self.id, 0, contacts, len(found), message.page, record)

    def _store(self, message: m.Store, size: int, source: Peer, now: Moment) -> m.Answer | str:
        if self._reader.known(message.record, now) is None and not self._may_work(message.sender, source, now):
            return "rate"
        status = self._keep(message.key, message.record, now)
        self._counters[status] += 1
        contacts = self._near(message.key, message, size, 0, source)
        return m.Stored(message.transaction, self.id, 0, status, contacts)

    def _keep(self, key: bytes, data: bytes, now: Moment) -> str:
        try:
            record = self._reader.read(data, now)
        except SkillwireError:
            return REFUSED
        if not record.belongs_under(key) or not self._peers.admits(record.standing):
            return REFUSED
        return self._storage.put(key, record, now)

    def _near(self, target: bytes, asked: m.Request, size: int, record: int, source: Peer) -> list[m.WireContact]:
        """Return the nodes closest to a key that may be named to an asker, as many as fit beside a record."""
        most = min(int(limits.DATAGRAM_BYTES), 3 * size)
        fits = min(self._settings.k, m.contacts_within(most, record, is_ipv6=":" in source.host))
        least = max(1, m.reach(source.host))
        closest = self._peers.table(source).closest(int.from_bytes(target, "big"), fits + 1, least)
        return [entry.wire for entry in closest if entry.contact.id != asked.sender][:fits]

    def _send(self, answer: m.Answer, asked: m.Request, size: int, source: Peer, now: Moment) -> str:
        """Answer a request; say HELLO to a node that is new, unless that would exceed the bound of the answer."""
        data = m.encode(answer)
        if len(data) > 3 * size:
            return "malformed"
        self._requests.outbox.append(Datagram(data, source))
        may_greet = not asked.flags & m.CLIENT and len(data) + m.HELLO_BYTES <= 3 * size
        if may_greet and self._peers.would_learn(asked.sender, source, now):
            self._peers.hello(source, now, is_once=True)
        return ""

    # --- the driver ---

    def datagrams_to_send(self, now: Moment) -> Sequence[Datagram]:  # noqa: ARG002 - a port's form
        """Return the datagrams due by now, each once."""
        found, self._requests.outbox = self._requests.outbox, []
        return found

    def events(self, now: Moment) -> Sequence[Finished]:  # noqa: ARG002 - a port's form
        """Return the events since the last call."""
        found, self._events = self._events, []
        return found

    def timer(self) -> float | None:
        """Return the next due time by the steady clock, or None."""
        if self._requests.outbox:
            return 0.0
        parts = self._requests, self._peers, self._storage, self._offers, self._deadlines
        return earliest(*(part.timer for part in parts))

    def on_timer(self, now: Moment) -> None:
        """Do what is due."""
        self._requests.on_timer(now)
        self._peers.on_timer(now)
        self._storage.on_timer(now)
        while (number := self._deadlines.pop(now.steady)) is not None:
            self._finish(self._operations[number], None, now)
        self._on_timer_of_offers(now)
        if self._parked:
            self._start_parked(now)

    def _on_timer_of_offers(self, now: Moment) -> None:
        while (own := self._offers.pop(now.steady)) is not None:
            try:
                data = self._sign(own.offer, now)
            except ValidationError:  # its certificate is longer than the one before
                self._counters["put: too large"] += 1
                own.stored = 0
                continue
            keys = keys_to_write(own.offer.skill_id, own.offer.capabilities)
            self._counters["put"] += 1
            walks: list[Walk] = []
            walks += self._walks_to_store(keys, data, partial(self._own_progress, own, walks))
            self._start_walks(walks, now)

    def _own_progress(self, own: OwnRecord, walks: list[Walk], now: Moment) -> None:
        if all(walk.is_over for walk in walks):
            stored, full = _stored(walks)
            self._offers.note(own, stored, now.wall, now.steady, has_room=len(full) < len(walks))


def _stored(walks: Sequence[Walk]) -> tuple[int, tuple[bytes, ...]]:
    """Return on how many nodes a record is, at least under each key that had room, and the keys that had none."""
    full = [walk for walk in walks if walk.is_full and not walk.stored]
    return min((walk.stored for walk in walks if walk not in full), default=0), tuple(walk.target for walk in full)


def _tombstone(skill_id: str, capabilities: Sequence[str]) -> DhtOffer:
    return DhtOffer(skill_id, "0.0.0", "removed", "", tuple(capabilities))
