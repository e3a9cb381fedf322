"""The datagrams of the DHT, and the rates at which a node reads requests.

A datagram is byte 1, the version, then one MessagePack array of at most 1,199 bytes **[ours]**. Each array begins with
the type, a transaction of 8 random bytes that the answer repeats, the sender's id and its flags, in the shortest
MessagePack forms. Fields that a later version appends are ignored. HELLO and FIND have at least 400 bytes and every
answer is one datagram, so an answer is at most three times its request, wherever the source address leads. Spec: SDP
§6.2; specs §3. Trust: datagrams are untrusted; decoding raises :class:`~skillwire.errors.DecodeError` alone.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Final

import msgspec

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery.dht.records import Identifier
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.trust.address import AddressScope, classify, read_address
from skillwire.wire.node import Peer

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


def hello_text(nonce: bytes, node_id: bytes, client_id: bytes) -> bytes:
    """Return what a WELCOME signs: the nonce and both ids."""
    return _HELLO + nonce + node_id + client_id


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
