"""The node of the DHT: a Kademlia node as a state machine without input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.protocols.skill_discovery.dht.settings import DhtSettings
from skillwire.protocols.skill_discovery.messages import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.dht.records import DhtOffer, SignedRecord
    from skillwire.protocols.skill_discovery.identity import Authority, Identity, Standing
    from skillwire.wire.node import Datagram, Peer


class Contact(NamedTuple):
    """A node: its id, and the address at which it proved its key."""

    id: bytes
    peer: Peer


class Pong(NamedTuple):
    """A node that answered a HELLO, and the address at which it saw us."""

    id: bytes
    agent_id: str
    standing: Standing
    seen: Peer


class Finished(NamedTuple):
    """The end of an operation.

    Args:
        records: newest of each signer, agent and skill, each verified; none that was removed.
        asked: nodes that answered.
        stored: nodes that hold the record, at least under each of its keys.
        unanswered: addresses of nodes that did not answer.
        keys_without_answer: keys for which no node answered.
        pong: of a ping that was answered.
    """

    number: int
    records: tuple[SignedRecord, ...] = ()
    asked: int = 0
    stored: int = 0
    unanswered: tuple[Peer, ...] = ()
    keys_without_answer: tuple[bytes, ...] = ()
    seconds: float = 0.0
    pong: Pong | None = None


DhtEvent = Finished
_DEFAULTS: Final = DhtSettings()


class OwnOffer(NamedTuple):
    """A skill that this node announces: when it was last put (seconds since the epoch, 0 for never), on how many."""

    skill_id: str
    version: str
    last_put: float
    stored: int


class NodeStatus(NamedTuple):
    """The state of a node: nodes by the bits that they share with its id, bootstrap nodes and whether they answer."""

    buckets: tuple[tuple[int, tuple[Peer, ...]], ...]
    held: int
    held_bytes: int
    own: tuple[OwnOffer, ...]
    bootstrap: tuple[tuple[Peer, bool], ...]
    counters: dict[str, int]


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
        self.id: bytes = b""
        self._given = agent_id, identity, authority, random, profile, settings, is_client, contacts
        raise NotImplementedError

    def bootstrap(self, peers: Iterable[Peer], now: Moment) -> None:
        """Take the addresses of the bootstrap nodes, all of them; say HELLO to the new ones."""
        raise NotImplementedError

    def find(self, keys: Sequence[bytes], now: Moment, seconds: float) -> int:
        """Look up keys, all at once; return the number of the operation, which one ``Finished`` ends.

        For the two forms of one key, look up the figure's form only when the first finds nothing: a key without
        records costs eight requests or more, one with records three.
        """
        raise NotImplementedError

    def put(self, offer: DhtOffer, now: Moment, seconds: float) -> int:
        """Put a skill once; return the number of the operation. Raises: ValidationError (``DHT_RECORD``)."""
        raise NotImplementedError

    def remove(self, skill_id: str, capabilities: Sequence[str], now: Moment, seconds: float) -> int:
        """Put a tombstone; return the number of the operation. Raises: ValidationError (``DHT_RECORD``)."""
        raise NotImplementedError

    def ping(self, peer: Peer, now: Moment, seconds: float) -> int:
        """Say HELLO to an address; return the number of the operation."""
        raise NotImplementedError

    def offer(self, offers: Sequence[DhtOffer], now: Moment) -> None:
        """Announce these skills from now on, and no others: what was announced before gets a tombstone.

        Raises: ValidationError (``DHT_RECORD``) for the first that fits into no record; nothing changes then.
        """
        raise NotImplementedError

    def cancel(self, number: int) -> None:
        """End an operation without an event."""
        raise NotImplementedError

    def network_changed(self, now: Moment) -> None:
        """Put own skills again soon, and look for nodes: an address or interface of this machine changed."""
        raise NotImplementedError

    def contacts(self) -> list[Contact]:
        """Return the nodes of the table, to be given to the next node after a restart."""
        raise NotImplementedError

    def status(self) -> NodeStatus:
        """Return the state of the node."""
        raise NotImplementedError

    def receive(self, data: bytes, source: Peer, now: Moment) -> None:
        """Take a datagram. Trust: untrusted; it never raises."""
        raise NotImplementedError

    def datagrams_to_send(self, now: Moment) -> Sequence[Datagram]:
        """Return the datagrams due by now, each once."""
        raise NotImplementedError

    def events(self, now: Moment) -> Sequence[DhtEvent]:
        """Return the events since the last call."""
        raise NotImplementedError

    def timer(self) -> float | None:
        """Return the next due time by the steady clock, or None."""
        raise NotImplementedError

    def on_timer(self, now: Moment) -> None:
        """Do what is due."""
        raise NotImplementedError
