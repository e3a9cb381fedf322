"""The routing table: the nodes that proved their keys, in buckets by the bits that their ids share with ours.

A bucket has k nodes, and the farthest four 16, 8, 4 and 2 times as many, so that most lookups take one step. It
prefers the nodes that have been there longest; newer ones wait as its spares. A node that left two requests unanswered
makes way for the newest spare. One that left one unanswered stays, but is neither asked first nor named to others. At
most two nodes of one public /24 or /64 are in a bucket. Spec: SDP §6; specs §3.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from skillwire.protocols.skill_discovery.dht.messages import PUBLIC, WireContact, reach, write_host
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.wire.node import Peer

_BITS: Final = 256
_PER_SUBNET: Final = 2
_MOST_FAILURES: Final = 2
_FARTHEST: Final = 16  # times k nodes in the first bucket, half as many in the next


class Contact(NamedTuple):
    """A node: its id, and the address at which it proved its key."""

    id: bytes
    peer: Peer


@dataclass(slots=True, eq=False)
class Entry:
    """A node of the table; ``number`` is its id, and ``failures`` counts its last unanswered requests."""

    contact: Contact
    number: int
    wire: WireContact
    subnet: bytes  # empty where addresses are not public
    reach: int  # of its address
    heard: float  # by the steady clock
    failures: int = 0

    @classmethod
    def of(cls, contact: Contact, now: float) -> Entry:
        """Return an entry of a node that proved its key at ``now``."""
        host, distance = write_host(contact.peer.host), reach(contact.peer.host)
        subnet = host[: 8 if len(host) > 4 else 3] if distance == PUBLIC else b""  # noqa: PLR2004 - IPv4
        wire = contact.id, host, contact.peer.port
        return cls(contact, int.from_bytes(contact.id, "big"), wire, subnet, distance, now)


class Table:
    """The nodes of one address family."""

    def __init__(self, node_id: bytes, k: int) -> None:
        self._number = int.from_bytes(node_id, "big")
        self._k = k
        self._entries: dict[bytes, Entry] = {}  # the one that was heard longest ago first
        self._buckets: defaultdict[int, dict[bytes, Entry]] = defaultdict(dict)
        self._spares: defaultdict[int, BoundedDict[bytes, Entry]] = defaultdict(partial(BoundedDict, k))

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, node_id: bytes) -> Entry | None:
        """Return the entry of a node."""
        return self._entries.get(node_id)

    def wants(self, node_id: bytes) -> bool:
        """Return whether a node that proves its key would get a place, or be a spare."""
        shared = self.shared_bits(node_id)
        is_full = len(self._buckets[shared]) >= self._capacity(shared) and len(self._spares[shared]) >= self._k
        return shared < _BITS and node_id not in self._entries and not is_full

    def add(self, entry: Entry) -> None:
        """Take a node into its bucket, or among its spares. A known node keeps its address while it answers there."""
        node_id = entry.contact.id
        shared = self.shared_bits(node_id)
        bucket, spares = self._buckets[shared], self._spares[shared]
        known = bucket.get(node_id)
        if shared == _BITS:
            return
        if known is not None and known.contact.peer == entry.contact.peer:
            self.heard(node_id, entry.heard)
        elif self._is_crowded(bucket, entry) or (
            len(bucket) >= self._capacity(shared) if known is None else not known.failures
        ):
            spares.put(node_id, entry)
        else:
            spares.pop(node_id, None)
            bucket[node_id] = entry
            self._entries.pop(node_id, None)
            self._entries[node_id] = entry

    def _capacity(self, shared: int) -> int:
        return self._k * max(1, _FARTHEST >> shared)

    @staticmethod
    def _is_crowded(bucket: dict[bytes, Entry], entry: Entry) -> bool:
        return bool(entry.subnet) and sum(one.subnet == entry.subnet for one in bucket.values()) >= _PER_SUBNET

    def heard(self, node_id: bytes, now: float) -> None:
        """Note that a node answered."""
        entry = self._entries.pop(node_id, None)
        if entry is not None:
            entry.failures, entry.heard = 0, now
            self._entries[node_id] = entry

    def failed(self, contact: Contact) -> bool:
        """Note that a node left a request unanswered; return whether it has no place now."""
        entry = self._entries.get(contact.id)
        if entry is None or entry.contact != contact:
            return True
        entry.failures += 1
        if entry.failures >= _MOST_FAILURES:
            self.remove(contact.id)
            return True
        return False

    def remove(self, node_id: bytes) -> None:
        """Remove a node, if it is there; its bucket takes its newest spare."""
        if self._entries.pop(node_id, None) is None:
            return
        shared = self.shared_bits(node_id)
        bucket, spares = self._buckets[shared], self._spares[shared]
        del bucket[node_id]
        for spare in reversed(list(spares.values())):
            if not self._is_crowded(bucket, spare):
                self.add(spare)
                return

    @property
    def depth(self) -> int:
        """How many bits the id of the closest node shares with ours."""
        return max((shared for shared, bucket in self._buckets.items() if bucket), default=0)

    def oldest(self) -> Entry | None:
        """Return the node that was heard longest ago."""
        return next(iter(self._entries.values()), None)

    def closest(self, number: int, most: int, least: int = 0) -> list[Entry]:
        """Return the nodes closest to an id that answered their last requests, of at least this reach."""
        entries = self._entries.values()
        good = [(one.number ^ number, one) for one in entries if not one.failures and one.reach >= least]
        good.sort(key=lambda pair: pair[0])
        return [entry for _, entry in good[:most]]

    def shared_bits(self, node_id: bytes) -> int:
        """Return how many leading bits an id shares with ours."""
        return _BITS - (int.from_bytes(node_id, "big") ^ self._number).bit_length()

    def distances(self) -> list[tuple[int, Peer]]:
        """Return how many bits the id of each node shares with ours, and the node's address."""
        return [(shared, one.contact.peer) for shared, bucket in self._buckets.items() for one in bucket.values()]

    def contacts(self) -> list[Contact]:
        """Return all nodes."""
        return [entry.contact for entry in self._entries.values()]
