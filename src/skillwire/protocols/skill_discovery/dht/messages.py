"""The datagrams of the DHT, and the requests under way.

A datagram is byte 1, the version, then one MessagePack array of at most 1,199 bytes **[ours]**.

Each array begins with the type, a transaction of 8 random bytes that the answer repeats, the sender's id and its flags,
in the shortest MessagePack forms. Fields that a later version appends are ignored. HELLO and FIND have at least 400
bytes and every answer is one datagram, so an answer is at most three times its request, wherever the source address
leads. Trust: datagrams are untrusted; decoding raises :class:`~skillwire.errors.DecodeError` alone.

An answer counts when it comes from the address that was asked, within the time, with the transaction, the type and the
sender's id that belong to it. The timeout follows RFC 6298: the smoothed round trip and four times its variation. After
it the request is sent once more, and its asker may ask another node meanwhile. A node without a measured round trip has
twice the usual time. An answer that comes too late for its asker still measures the round trip, and a proof still
counts, so a slow node has the time that it needs from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from random import Random
from typing import Annotated, Any, Final

import msgspec

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.dht.records import Identifier
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.protocols.skill_discovery.scheduling import TimerQueue
from skillwire.trust.address import AddressScope, classify, read_address
from skillwire.wire.node import Datagram, Peer

VERSION: Final = b"\x01"
#: The sender is not to be put into tables: it leaves soon, and stores nothing.
CLIENT: Final = 1
NONCE_BYTES: Final = 16
TRANSACTION_BYTES: Final = 8
#: Where the transaction stands, after the version, the array's head, the type and the transaction's head.
TRANSACTION: Final = slice(5, 5 + TRANSACTION_BYTES)
REQUEST_BYTES: Final = 400
HELLO_BYTES: Final = 404  # of ours
_PADDING: Final = bytes(331)
#: Bytes of an answer beside its record and contacts, and of one contact.
_HEAD: Final = 64
_CONTACT_BYTES: Final = {False: 44, True: 56}
_HELLO: Final = b"skillwire dht 1 hello\0"

Id = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Address = Annotated[bytes, msgspec.Meta(min_length=4, max_length=16)]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=65535)]
#: A node: its id, its address (4 or 16 bytes) and its port.
WireContact = tuple[Id, _Address, _Port]


class _Message(msgspec.Struct, array_like=True, frozen=True, gc=False):
    transaction: Annotated[bytes, msgspec.Meta(min_length=TRANSACTION_BYTES, max_length=TRANSACTION_BYTES)]
    sender: Id
    flags: _Count


class Hello(_Message, tag=1, frozen=True):
    """Asks a node to prove its key."""

    nonce: Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
    padding: bytes = _PADDING


class Welcome(_Message, tag=2, frozen=True):
    """The proof: a signature of :func:`hello_text`."""

    agent_id: Identifier
    certificate: bytes
    signature: bytes


class Find(_Message, tag=3, frozen=True):
    """Asks for the nodes closest to a key, and for one of its records: ``page`` counts from 0."""

    target: Id
    wants_records: bool
    page: _Count
    padding: bytes = _PADDING[18:]


class Found(_Message, tag=4, frozen=True):
    """The closest proven nodes, as many as fit; how many records the key has, and the one of the page, or nothing."""

    contacts: list[WireContact]
    total: _Count
    page: _Count
    record: bytes


class Store(_Message, tag=5, frozen=True):
    """Asks a node to keep a record under a key."""

    key: Id
    record: bytes


class Stored(_Message, tag=6, frozen=True):
    """Whether the record is kept, by one of the words of the storage; nodes as in FOUND."""

    status: Annotated[str, msgspec.Meta(max_length=32)]
    contacts: list[WireContact]


Request = Hello | Find | Store
Answer = Welcome | Found | Stored
#: Each request's type, and that of its answer.
ANSWERS: Final[dict[type[Request], type[Answer]]] = {Hello: Welcome, Find: Found, Store: Stored}
#: The answers' types, each the third byte of its datagram.
ANSWER_TAGS: Final = frozenset({b"\x02", b"\x04", b"\x06"})

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(Request | Answer).decode


def encode(message: Request | Answer) -> bytes:
    """Return the datagram of a message."""
    return VERSION + _ENCODE(message)


def decode(data: bytes) -> Request | Answer:
    """Return the message of a datagram. Raises: DecodeError (``DATAGRAM``), also for another version or type."""
    if data[:1] != VERSION or len(data) > limits.DATAGRAM_BYTES:
        raise DecodeError("DATAGRAM", "another version, or too long")
    try:
        message: Request | Answer = _DECODE(memoryview(data)[1:])
    except (ValueError, RecursionError) as error:
        raise DecodeError("DATAGRAM", f"not a message of the DHT: {error}") from None
    return message


def contacts_within(size: int, record: int, *, is_ipv6: bool) -> int:
    """Return how many contacts fit into an answer of ``size`` bytes beside a record of ``record`` bytes."""
    return max(0, size - _HEAD - record) // _CONTACT_BYTES[is_ipv6]


def hello_text(nonce: bytes, node_id: bytes, asker_id: bytes) -> bytes:
    """Return what a WELCOME signs: the nonce and both ids."""
    return _HELLO + nonce + node_id + asker_id


@lru_cache(maxsize=4096)
def write_host(host: str) -> bytes:
    """Return an IP address, without its zone, as 4 or 16 bytes."""
    return ip_address(host.partition("%")[0]).packed


@lru_cache(maxsize=4096)
def read_host(address: bytes) -> str:
    """Return an address of 4 or 16 bytes as text; empty for another length."""
    return str(ip_address(address)) if len(address) in {4, 16} else ""


#: How far an address leads. A link-local IPv6 address means nothing without the interface, so it is never handed on.
THIS_MACHINE, _LOCAL, PUBLIC = 1, 2, 3
_REACH: Final = {
    AddressScope.LOOPBACK: THIS_MACHINE,
    AddressScope.PRIVATE: _LOCAL,
    AddressScope.SPECIAL: _LOCAL,
    AddressScope.PUBLIC: PUBLIC,
}


@lru_cache(maxsize=4096)
def reach(host: str) -> int:
    """Return 3 for a public address, 2 for one of a local network, 1 for this machine, 0 for one of no node."""
    scope = classify(read_address(host.partition("%")[0]))
    if scope is AddressScope.LINK_LOCAL:
        return 0 if ":" in host else _LOCAL
    return _REACH.get(scope, 0)


def may_name(source: Peer, host: str) -> bool:
    """Return whether a node at ``source`` and one at ``host`` may be named to each other.

    They are of one family, and a public node is never sent to a local address, nor another machine to itself.
    """
    return reach(host) >= max(1, reach(source.host)) and (":" in host) == (":" in source.host)


#: Seconds until a request is sent again: to a node without a measured round trip at most, the least and the most.
_UNKNOWN: Final = 0.4
_LEAST: Final = 0.08
_MOST: Final = 2.0
#: Seconds after a request in which a late answer counts.
_LATE: Final = 5.0

#: Takes the answer, or None when none came.
Done = Callable[[Any, "Moment"], None]
Slow = Callable[["Moment"], None]


@dataclass(slots=True, eq=False)
class Pending:
    """A request that waits for its answer; ``node_id`` is whom it is for, if that is known."""

    peer: Peer
    node_id: bytes | None
    kind: type[Request]
    data: bytes
    sent: float
    timeout: float
    done: Done
    slow: Slow | None
    is_last: bool


class Requests:
    """The requests of one node; ``settled`` is called with each that was answered (True) or not."""

    def __init__(
        self, node_id: bytes, flags: int, random: Random, settled: Callable[[Pending, bool, Moment], None]
    ) -> None:
        self.outbox: list[Datagram] = []
        self._head = node_id, flags
        self._random = random
        self._settled = settled
        self._pending: dict[bytes, Pending] = {}
        self._due: TimerQueue[bytes] = TimerQueue()
        self._late: BoundedDict[bytes, Pending] = BoundedDict(limits.DHT_HELLOS)  # that were given up
        self._usual = 0.0  # seconds of a timeout, of the nodes that answered
        self._round_trips: BoundedDict[Peer, tuple[float, float]] = BoundedDict(limits.DHT_PROVEN)
        self.timer = self._due.timer

    def ask(  # noqa: PLR0917 - what a request consists of
        self,
        peer: Peer,
        node_id: bytes | None,
        kind: type[Request],
        fields: tuple[Any, ...],
        now: Moment,
        done: Done,
        slow: Slow | None = None,
        *,
        is_once: bool = False,
    ) -> None:
        """Send a request, twice unless ``is_once``; ``done`` gets its answer, and ``slow`` may come before."""
        transaction = self._random.randbytes(TRANSACTION_BYTES)
        data = encode(kind(transaction, *self._head, *fields))
        timeout = self._timeout(peer)
        self._pending[transaction] = Pending(peer, node_id, kind, data, now.steady, timeout, done, slow, is_once)
        self._due.set(transaction, now.steady + timeout)
        self.outbox.append(Datagram(data, peer))

    def _timeout(self, peer: Peer) -> float:
        known = self._round_trips.get(peer)
        if known is None:
            return max(self._usual, min(_UNKNOWN, 2 * self._usual or _UNKNOWN))
        timeout = min(_MOST, max(_LEAST, known[0] + 4 * known[1]))
        self._usual += (timeout - self._usual) / (8 if self._usual else 1)
        return timeout

    def awaits(self, data: bytes) -> bool:
        """Return whether a datagram has the transaction of a request under way."""
        return data[TRANSACTION] in self._pending or data[TRANSACTION] in self._late

    def take(self, answer: Answer, source: Peer, now: Moment) -> bool:
        """Give an answer to its asker; False when it is not one that was asked for."""
        late = self._late.get(answer.transaction)
        asked = late or self._pending.get(answer.transaction)
        if asked is None or asked.peer != source or type(answer) is not ANSWERS[asked.kind]:
            return False
        (self._late if late else self._pending).pop(answer.transaction)
        self._due.cancel(answer.transaction)
        trip = now.steady - asked.sent
        if trip > _LATE:
            return False
        if not asked.is_last or late:
            mean, spread = self._round_trips.get(source) or (trip, trip / 2)
            spread += (abs(trip - mean) - spread) / 4
            share = 8 if trip > mean else 2  # the first trips, of many nodes that start at once, are forgotten soon
            self._round_trips.put(source, (mean + (trip - mean) / share, spread if trip > mean else spread / 2))
        is_right = asked.node_id is None or answer.sender == asked.node_id
        self._settled(asked, is_right, now)
        if not late or asked.kind is Hello:
            asked.done(answer if is_right else None, now)
        return True

    def on_timer(self, now: Moment) -> None:
        """Send again what was not answered in time; give up on what was sent twice."""
        while (transaction := self._due.pop(now.steady)) is not None:
            asked = self._pending[transaction]
            if asked.is_last:
                self._late.put(transaction, self._pending.pop(transaction))
                self._settled(asked, False, now)
                asked.done(None, now)
                continue
            asked.is_last = True
            self._due.set(transaction, now.steady + max(asked.timeout, _UNKNOWN))
            self.outbox.append(Datagram(asked.data, asked.peer))
            if asked.slow is not None:
                asked.slow(now)


class SourceRates:
    """A bucket of requests for each source: its host, its /64 on the internet, or its port where it is this machine."""

    def __init__(self) -> None:
        self._left: BoundedDict[Peer | str, tuple[float, float]] = BoundedDict(limits.LAN_SOURCES)  # left, since when

    def allows(self, source: Peer | str, cost: float, now: float) -> bool:
        """Return whether a request that costs as much is read, and count it."""
        if isinstance(source, Peer) and (distance := reach(source.host)) != THIS_MACHINE:
            is_wide = distance == PUBLIC and ":" in source.host  # one subscriber has many addresses
            source = write_host(source.host)[:8].hex() if is_wide else source.host
        left, since = self._left.get(source, (float(limits.DHT_BURST), now))
        left = min(limits.DHT_BURST, left + (now - since) * limits.DHT_RATE)
        is_allowed = left >= cost
        self._left.put(source, (left - cost if is_allowed else left, now))
        return is_allowed
