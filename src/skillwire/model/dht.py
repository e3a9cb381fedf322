"""The values of the DHT, without its protocol: found skills, answers, and the state of a node. Spec: SDP §6.

The texts in ``Annotated`` describe the fields, here and in the documents of ``skillwire dht --json``.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from skillwire.model.lan import Trust

_Addresses = Annotated[tuple[str, ...], "HOST:PORT of nodes that did not answer"]
_Seconds = Annotated[float, "Time that it took, in seconds"]
_NodeId = Annotated[str, "ID of the node, hexadecimal"]


class DhtSkill(NamedTuple):
    """One skill that a publisher put into the DHT; its signature was verified here."""

    agent_id: Annotated[str, "Agent that announces it"]
    skill_id: Annotated[str, "ID in Skill Discovery"]
    version: Annotated[str, "Version"]
    skill_type: Annotated[str, "Type, such as tool-skill"]
    endpoint: Annotated[str, "URL of its server"]
    capabilities: Annotated[tuple[str, ...], "Capabilities"]
    scenes: Annotated[tuple[str, ...], "Scenes it takes part in"]
    digest: Annotated[str, "Digest of its artifact, sha256:...; empty if its publisher states none"]
    trust: Annotated[Trust, "Whether its signer is certified"]
    announced: Annotated[float, "Time at which it was signed, in seconds since the epoch"]
    expires: Annotated[float, "End of the record, in seconds since the epoch"]
    key_id: Annotated[str, "SHA-256 of the signer's public key, hexadecimal"]


class DhtAnswer(NamedTuple):
    """What a question found, and what it did not reach."""

    skills: Annotated[tuple[DhtSkill, ...], "Verified records"] = ()
    asked: Annotated[int, "Number of nodes that answered"] = 0
    unanswered: _Addresses = ()
    keys_without_answer: Annotated[tuple[str, ...], "Capabilities or names that no node answered for"] = ()
    seconds: _Seconds = 0.0


class DhtPut(NamedTuple):
    """How many nodes stored a record, or its removal, and which did not answer."""

    stored: Annotated[int, "Number of nodes that stored it, at least under each key with room"]
    unanswered: _Addresses = ()
    seconds: _Seconds = 0.0
    full: Annotated[tuple[str, ...], "Capabilities or names under which no node has room for another publisher"] = ()


class DhtPong(NamedTuple):
    """A node that answered."""

    node_id: _NodeId
    agent_id: Annotated[str, "Its agent"]
    trust: Annotated[Trust, "Whether its key is certified"]
    seconds: Annotated[float, "Round trip, in seconds"]


class DhtBucket(NamedTuple):
    """The nodes of one distance."""

    prefix: Annotated[int, "Bits that the nodes' IDs share with ours"]
    nodes: Annotated[tuple[str, ...], "HOST:PORT of each node"]


class DhtOwn(NamedTuple):
    """A skill of ours."""

    skill_id: Annotated[str, "The skill"]
    version: Annotated[str, "Version"]
    last_put: Annotated[float, "Time of the last put, in seconds since the epoch; 0 for never"]
    stored: Annotated[int, "Number of nodes that stored it"]


class DhtBootstrap(NamedTuple):
    """A bootstrap node."""

    address: Annotated[str, "HOST:PORT"]
    answers: Annotated[bool, "Whether it answers"]


class DhtStatus(NamedTuple):
    """The state of a node."""

    node_id: _NodeId
    addresses: Annotated[tuple[str, ...], "HOST:PORT that it listens on"]
    profile: Annotated[str, "open or signed"]
    buckets: Annotated[tuple[DhtBucket, ...], "Known nodes by distance"]
    held: Annotated[int, "Number of records that it stores for others, tombstones included"]
    held_bytes: Annotated[int, "Size of these records"]
    own: Annotated[tuple[DhtOwn, ...], "Skills that it announces"]
    bootstrap: Annotated[tuple[DhtBootstrap, ...], "Bootstrap nodes"]
    counters: Annotated[dict[str, int], "Datagrams and refusals by name, since the start"]

    @property
    def nodes(self) -> int:
        """How many nodes it knows."""
        return sum(len(bucket.nodes) for bucket in self.buckets)
