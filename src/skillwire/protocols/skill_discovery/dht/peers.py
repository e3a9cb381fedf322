"""The other nodes: the routing table, how they prove their keys, and which are tried again.

The table has the nodes that proved their keys, in buckets by the bits that their ids share with ours. A bucket has k
nodes, and the farthest four 16, 8, 4 and 2 times as many, so that most lookups take one step. It prefers the nodes that
have been there longest; newer ones wait as its spares. A node that left two requests unanswered makes way for the
newest spare. One that left one unanswered stays, but is neither asked first nor named to others. At most two nodes of
one public /24 or /64 are in a bucket.

A node is asked, kept in a table and named to others only after it answered our HELLO: the signature proves its key, the
key is its id, and the authority decides its standing. In the profile *signed* only certified nodes are admitted. Later
messages are unsigned: an answer comes from the address that was proven and repeats a random transaction.

Once a second one node is tried again that was lost, or is a bootstrap node without an answer, so a healed network is
noticed within seconds. Beside that the node that was heard longest ago is asked for nodes near a random id, more often
while nodes leave; this also refreshes the table, which a revoked node leaves then. Spec: SDP §6, §10; specs §3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.dht import records
from skillwire.protocols.skill_discovery.dht.messages import (
    CLIENT,
    NONCE_BYTES,
    PUBLIC,
    Find,
    Found,
    Hello,
    Welcome,
    WireContact,
    hello_text,
    may_name,
    reach,
    read_host,
    write_host,
)  # fmt: skip
from skillwire.protocols.skill_discovery.dht.requests import Pending, Requests, TimeoutCallback
from skillwire.protocols.skill_discovery.identity import CertificateJudge, Identity, Standing
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.settings import DhtSettings
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


#: Seconds between two tries of nodes that do not answer; between two checks of nodes that do, at most and at first.
_RETRY: Final = 1.0
_CHECK: Final = 10.0
_FIRST_CHECK: Final = 0.4
#: Seconds in which the first node may answer, on the slowest of networks.
_PATIENCE: Final = 2.0
#: Seconds before a node that did not prove its key is challenged again without need.
_DECLINED: Final = 10.0


class Proof(NamedTuple):
    """A node that proved its key; ``until`` is in seconds since the epoch. The key itself would take 2 KiB."""

    id: bytes
    agent_id: str
    standing: Standing
    until: float
    is_revoked: Callable[[], bool]


#: Takes the proof of a node, or None when it gave none.
Proven = Callable[["Proof | None", "Moment"], None]


class Peers:
    """The nodes that one node knows; ``on_return`` is called when one that was not reached answers again."""

    def __init__(
        self,
        agent_id: str,
        *,
        identity: Identity,
        judge: CertificateJudge,
        random: Random,
        profile: Profile,
        settings: DhtSettings,
        is_client: bool,
        contacts: Iterable[Contact],
        on_return: Callable[[Moment], None],
    ) -> None:
        # A node with a client's key may run on this machine.
        self.id = random.randbytes(32) if is_client else records.own_id(identity, agent_id)
        self.number = int.from_bytes(self.id, "big")
        self.requests = Requests(self.id, CLIENT if is_client else 0, random, self._settled)
        self.tables = Table(self.id, settings.k), Table(self.id, settings.k)
        self.bootstraps: dict[Peer, bool] = {}  # whether each answers
        self._knows_bootstraps = False
        self._patient_until = 0.0
        self._agent_id, self._identity, self._judge = agent_id, identity, judge
        self._random = random
        self._profile = profile
        self._on_return = on_return
        self._proofs: BoundedDict[Peer, Proof] = BoundedDict(limits.DHT_PROVEN)
        self._hellos: dict[Peer, list[tuple[Proven, TimeoutCallback | None]]] = {}
        self._declined: BoundedDict[Peer, float] = BoundedDict(limits.DHT_PROVEN)
        self._suspects: BoundedDict[Peer, None] = BoundedDict(limits.DHT_LOST)  # left one request unanswered
        self._lost: BoundedDict[Peer, None] = BoundedDict(limits.DHT_LOST)
        for contact in contacts:
            self._lost.put(contact.peer, None)
        self._pause = _CHECK if is_client else _FIRST_CHECK
        self._next_check = 0.0
        self._next_retry = 0.0
        self._next_try: float | None = None

    def table(self, peer: Peer) -> Table:
        """Return the table of an address's family."""
        return self.tables[":" in peer.host]

    def may_come(self, now: Moment) -> bool:
        """Return whether no node is known, but the bootstrap nodes may still answer, or are not named yet."""
        waits = not self._knows_bootstraps or bool(self._hellos) or now.steady < self._patient_until
        return waits and not any(map(len, self.tables))

    def admits(self, standing: Standing) -> bool:
        """Return whether the profile lets a signer of this standing take part."""
        return self._profile is Profile.OPEN or standing is Standing.CERTIFIED

    def closest(self, number: int, most: int) -> list[Contact]:
        """Return the nodes closest to an id, given as a number, of both families, each once."""
        found = [entry for table in self.tables for entry in table.closest(number, most)]
        if len(self.tables[True]):
            found = list({entry.number: entry for entry in found}.values())
            found.sort(key=lambda entry: entry.number ^ number)
        return [entry.contact for entry in found[:most]]

    def is_proven(self, contact: Contact, now: Moment) -> bool:
        """Return whether a node proved that it is at its address, and is admitted still."""
        proof = self._proofs.get(contact.peer)
        return proof is not None and proof.id == contact.id and self._is_admitted(proof, now)

    def _is_admitted(self, proof: Proof, now: Moment) -> bool:
        return self.admits(proof.standing) and proof.until > now.wall and not proof.is_revoked()

    def bootstrap(self, peers: Iterable[Peer], now: Moment) -> None:
        """Take the addresses of the bootstrap nodes; say HELLO to the new ones."""
        self.bootstraps = {peer: self.bootstraps.get(peer, False) for peer in peers}
        if not self._knows_bootstraps:
            for peer in self._lost:  # from before a restart
                self.hello(peer, now)
            if self._lost or self.bootstraps:
                self._patient_until = now.steady + _PATIENCE
        self._knows_bootstraps = True
        for peer, is_reached in self.bootstraps.items():
            if not is_reached:
                self.hello(peer, now)
        self._try_by(now.steady + _RETRY)

    def bootstrap_contacts(self) -> list[Contact]:
        """Return the bootstrap nodes that answer."""
        known = ((self._proofs.get(peer), peer) for peer in self.bootstraps)
        return [Contact(proof.id, peer) for proof, peer in known if proof is not None]

    def hello(
        self,
        peer: Peer,
        now: Moment,
        then: Proven = lambda _proof, _now: None,
        on_timeout: TimeoutCallback | None = None,
        *,
        is_once: bool = False,
    ) -> None:
        """Ask a node to prove its key; concurrent calls share one HELLO, which ``is_once`` sends once."""
        waiting = self._hellos.setdefault(peer, [])
        waiting.append((then, on_timeout))
        if len(waiting) == 1:
            nonce = self._random.randbytes(NONCE_BYTES)
            done = partial(self._welcomed, peer, nonce)
            self.requests.ask(peer, None, Hello, (nonce,), now, done, partial(self._on_timeout, peer), is_once=is_once)

    def _on_timeout(self, peer: Peer, now: Moment) -> None:
        for _, on_timeout in list(self._hellos.get(peer, ())):
            if on_timeout is not None:
                on_timeout(now)

    def _welcomed(self, peer: Peer, nonce: bytes, answer: Welcome | None, now: Moment) -> None:
        waiting = self._hellos.pop(peer, ())  # empty for a late answer
        proof = None if answer is None else self._verify(nonce, answer, now)
        if proof is not None:
            self._take(peer, proof, now)
        else:
            self._declined.put(peer, now.steady + _DECLINED)
            if answer is not None:
                self._forget(peer)
        for then, _ in waiting:
            then(proof, now)

    def _verify(self, nonce: bytes, answer: Welcome, now: Moment) -> Proof | None:
        judgement = self._judge.judge(answer.agent_id, answer.certificate, now.wall)
        standing = None if judgement is None else judgement.standing_of(answer.agent_id)
        if judgement is None or standing is None or records.signer_id(judgement, answer.agent_id) != answer.sender:
            return None
        if not records.is_signed(judgement, hello_text(nonce, answer.sender, self.id), answer.signature):
            return None
        return Proof(answer.sender, answer.agent_id, standing, judgement.until, judgement.is_revoked)

    def _take(self, peer: Peer, proof: Proof, now: Moment) -> None:
        """Keep a proof; admit the node to its table."""
        known = self._proofs.get(peer)
        if known is not None and known.id != proof.id:
            self._forget(peer)
        self._proofs.put(peer, proof)
        self._suspects.pop(peer, None)
        if not self._is_admitted(proof, now):
            return
        if proof.id != self.id:
            self.table(peer).add(Entry.of(Contact(proof.id, peer), now.steady))
            self._try_by(now.steady + self._pause)
        is_back = peer in self._lost or self.bootstraps.get(peer) is False
        self._lost.pop(peer, None)
        if peer in self.bootstraps:
            self.bootstraps[peer] = True
        if is_back and proof.id != self.id:
            self._on_return(now)

    def _forget(self, peer: Peer) -> None:
        """Forget what a node at an address proved: another one is there now, or it is admitted no longer."""
        proof = self._proofs.pop(peer, None)
        if proof is not None and (entry := self.table(peer).get(proof.id)) and entry.contact.peer == peer:
            self.table(peer).remove(proof.id)

    def prove(self, hello: Hello) -> tuple[str, bytes, bytes]:
        """Return the fields with which we answer a HELLO; the signature costs some 50 microseconds."""
        signature = records.sign(self._identity, hello_text(hello.nonce, self.id, hello.sender))
        return self._agent_id, self._identity.certificate, signature

    def would_learn(self, node_id: bytes, peer: Peer, now: Moment) -> bool:
        """Return whether a node that came up is worth a HELLO; one that is proven already is taken at once."""
        table = self.table(peer)
        known = table.get(node_id)
        if known is not None and known.contact.peer != peer:  # it may have moved
            self._suspects.put(known.contact.peer, None)
            self._try_by(now.steady + _RETRY)
        if not table.wants(node_id) or peer in self._hellos:
            return False
        proof = self._proofs.get(peer)
        if proof is not None and proof.id == node_id and self._is_admitted(proof, now):
            table.add(Entry.of(Contact(node_id, peer), now.steady))
            return False
        return len(self._hellos) < limits.DHT_HELLOS and self._declined.get(peer, 0.0) <= now.steady

    def learn(self, contacts: Sequence[WireContact], source: Peer, now: Moment) -> None:
        """Say HELLO to one node that an answer names and the table lacks: a proof costs both sides a millisecond."""
        for node_id, address, port in contacts:
            peer, is_unknown = Peer(read_host(address), port), self.table(source).get(node_id) is None
            may_ask = is_unknown and node_id != self.id and peer.host and may_name(source, peer.host)
            if may_ask and self.would_learn(node_id, peer, now):
                self.hello(peer, now)
                return

    def _settled(self, request: Pending, is_answered: bool, now: Moment) -> None:  # noqa: FBT001 - a callback
        peer = request.peer
        if is_answered:
            if request.node_id is not None:
                self.table(peer).heard(request.node_id, now.steady)
                self._suspects.pop(peer, None)
            return
        if self.bootstraps.get(peer):
            self.bootstraps[peer] = False
        proof = self._proofs.get(peer)
        if proof is not None:
            if self.table(peer).failed(Contact(proof.id, peer)):
                del self._proofs[peer]
                self._suspects.pop(peer, None)
                self._lost.put(peer, None)
            else:
                self._suspects.put(peer, None)
            self._pause = max(_RETRY, self._pause / 2)
        self._try_by(now.steady + _RETRY)

    def timer(self) -> float | None:
        """Return when something is due next."""
        return self._next_try

    def _try_by(self, due: float) -> None:
        self._next_try = due if self._next_try is None else min(due, self._next_try)

    def on_timer(self, now: Moment) -> None:
        """Try one node again that did not answer; check the one that was heard longest ago."""
        if self._next_try is None or self._next_try > now.steady:
            return
        unreached = [peer for peer, is_reached in self.bootstraps.items() if not is_reached]
        queues = [queue for queue in (list(self._suspects), list(self._lost), unreached) if queue]
        if queues and now.steady >= self._next_retry:
            self._next_retry = now.steady + _RETRY
            turn, which = divmod(int(now.steady / _RETRY), len(queues))
            peer = queues[which][turn % len(queues[which])]
            self.hello(peer, now, is_once=peer not in self._suspects)  # the others are tried again anyway
        if now.steady >= self._next_check:
            self._check(now)
        self._next_try = min(self._next_check, now.steady + _RETRY) if queues else self._next_check

    def _check(self, now: Moment) -> None:
        self._next_check = now.steady + self._pause
        self._pause = min(_CHECK, self._pause * 1.2)
        for table in self.tables:
            for contact in table.contacts():
                if not self.is_proven(contact, now):  # revoked, or its certificate or our memory of the proof ended
                    table.remove(contact.id)
                    self.hello(contact.peer, now)
            entry = table.oldest()
            if entry is None:
                continue
            peer = entry.contact.peer
            depth = self._random.randrange(table.depth + 1)
            near = self.number ^ (self._random.getrandbits(256) >> depth)
            fields = near.to_bytes(32, "big"), False, 0
            self.requests.ask(peer, entry.contact.id, Find, fields, now, partial(self._checked, peer))

    def _checked(self, peer: Peer, answer: Found | None, now: Moment) -> None:
        if answer is not None:
            self.learn(answer.contacts, peer, now)
