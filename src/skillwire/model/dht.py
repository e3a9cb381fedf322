"""The values of the DHT, without its protocol: found skills, answers, and the state of a node. Spec: SDP §6."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from skillwire.model.lan import Trust


class DhtSkill(NamedTuple):
    """One skill that a publisher put into the DHT; its signature was verified here.

    Args:
        agent_id: the agent that announces it.
        skill_type: such as ``tool-skill``.
        endpoint: URL of the server that serves it.
        digest: of its artifact, ``sha256:...``; empty when the publisher states none.
        trust: whether the signer is certified.
        announced: when it was signed, seconds since the epoch.
        expires: when the record ends, seconds since the epoch.
        key_id: SHA-256 of the signer's public key, hexadecimal.
    """

    agent_id: str
    skill_id: str
    version: str
    skill_type: str
    endpoint: str
    capabilities: tuple[str, ...]
    scenes: tuple[str, ...]
    digest: str
    trust: Trust
    announced: float
    expires: float
    key_id: str


class DhtAnswer(NamedTuple):
    """What a question found, and what it did not reach.

    Args:
        asked: how many nodes answered.
        unanswered: addresses of nodes that did not, ``host:port``.
        keys_without_answer: capabilities or names whose keys no node answered for.
        seconds: how long it took.
    """

    skills: tuple[DhtSkill, ...] = ()
    asked: int = 0
    unanswered: tuple[str, ...] = ()
    keys_without_answer: tuple[str, ...] = ()
    seconds: float = 0.0


class DhtPut(NamedTuple):
    """How many nodes stored a record, or its removal, at least under each of its keys; and which did not answer.

    ``full`` are the capabilities and names under which no node has room for another publisher.
    """

    stored: int
    unanswered: tuple[str, ...] = ()
    seconds: float = 0.0
    full: tuple[str, ...] = ()


class DhtPong(NamedTuple):
    """A node that answered: its id (hexadecimal), agent, trust, and the round trip in seconds."""

    node_id: str
    agent_id: str
    trust: Trust
    seconds: float


class DhtBucket(NamedTuple):
    """The nodes of one distance: ``prefix`` bits shared with our id, and their addresses."""

    prefix: int
    nodes: tuple[str, ...]


class DhtOwn(NamedTuple):
    """A skill of ours: when it was last put (seconds since the epoch, 0 for never), and on how many nodes."""

    skill_id: str
    version: str
    last_put: float
    stored: int


class DhtStatus(NamedTuple):
    """The state of a node.

    Args:
        node_id: hexadecimal.
        addresses: that it listens on, ``host:port``.
        held: records that it stores for others, tombstones included.
        held_bytes: their size.
        own: skills that it announces.
        bootstrap: address of each bootstrap node, and whether it answers.
        counters: datagrams and refusals by name, since the start.
    """

    node_id: str
    addresses: tuple[str, ...]
    profile: str
    buckets: tuple[DhtBucket, ...]
    held: int
    held_bytes: int
    own: tuple[DhtOwn, ...]
    bootstrap: tuple[tuple[str, bool], ...]
    counters: dict[str, int]

    @property
    def nodes(self) -> int:
        """How many nodes it knows."""
        return sum(len(bucket.nodes) for bucket in self.buckets)
