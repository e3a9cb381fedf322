"""JSON documents that ``skillwire dht`` prints with ``--json``; see :mod:`skillwire.cli.documents`."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict


class DhtSkillObject(TypedDict):
    agent_id: Annotated[str, "Agent that announces it"]
    skill_id: Annotated[str, "ID in Skill Discovery"]
    version: Annotated[str, "Version"]
    skill_type: Annotated[str, "Type, such as tool-skill"]
    endpoint: Annotated[str, "URL of its server"]
    capabilities: Annotated[list[str], "Capabilities"]
    scenes: Annotated[list[str], "Scenes it takes part in"]
    digest: Annotated[str, "Digest of its artifact; empty if its publisher states none"]
    trust: Annotated[Literal["verified", "unverified", "not known"], "Whether its signer is certified"]
    announced: Annotated[float, "Time at which it was signed, in seconds since the epoch"]
    expires: Annotated[float, "End of the record, in seconds since the epoch"]
    key_id: Annotated[str, "SHA-256 of the signer's public key, hexadecimal"]


class DhtFindDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-find/1"], "Records of the DHT, as dht find and dht get show them"]
    skills: Annotated[list[DhtSkillObject], "Verified records"]
    asked: Annotated[int, "Number of nodes that answered"]
    unanswered: Annotated[list[str], "HOST:PORT of nodes that did not answer"]
    keys_without_answer: Annotated[list[str], "Capabilities or names that no node answered for"]
    seconds: Annotated[float, "Time that it took"]


class DhtPutDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-put/1"], "A record that dht put stored, or dht remove removed"]
    skill_id: Annotated[str, "The skill"]
    removed: Annotated[bool, "Whether the record is a tombstone"]
    stored: Annotated[int, "Number of nodes that stored it, at least under each key with room"]
    full: Annotated[list[str], "Capabilities or names under which no node has room for another publisher"]
    unanswered: Annotated[list[str], "HOST:PORT of nodes that did not answer"]
    seconds: Annotated[float, "Time that it took"]


class DhtPingDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-ping/1"], "A node that answered dht ping"]
    address: Annotated[str, "HOST:PORT that was asked"]
    node_id: Annotated[str, "ID of the node, hexadecimal"]
    agent_id: Annotated[str, "Its agent"]
    trust: Annotated[Literal["verified", "unverified", "not known"], "Whether its key is certified"]
    seconds: Annotated[float, "Round trip"]


class DhtServeDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-serve/1"], "A node that dht serve has started"]
    node_id: Annotated[str, "ID of the node, hexadecimal"]
    addresses: Annotated[list[str], "HOST:PORT that it listens on"]


class DhtBucketObject(TypedDict):
    prefix: Annotated[int, "Bits that the nodes' IDs share with ours"]
    nodes: Annotated[list[str], "HOST:PORT of each node"]


class DhtOwnObject(TypedDict):
    skill_id: Annotated[str, "The skill"]
    version: Annotated[str, "Version"]
    last_put: Annotated[float, "Time of the last put, in seconds since the epoch; 0 for never"]
    stored: Annotated[int, "Number of nodes that stored it"]


class DhtBootstrapObject(TypedDict):
    address: Annotated[str, "HOST:PORT"]
    answers: Annotated[bool, "Whether it answers"]


class DhtStatusDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-status/1"], "The state of a node, as dht status shows it"]
    process: Annotated[int | None, "Process of this machine's node; null for one that joined for this command"]
    node_id: Annotated[str, "ID of the node, hexadecimal"]
    addresses: Annotated[list[str], "HOST:PORT that it listens on"]
    profile: Annotated[str, "open or signed"]
    buckets: Annotated[list[DhtBucketObject], "Known nodes by distance"]
    held: Annotated[int, "Number of records that it stores for others"]
    held_bytes: Annotated[int, "Size of these records"]
    own: Annotated[list[DhtOwnObject], "Skills that it announces"]
    bootstrap: Annotated[list[DhtBootstrapObject], "Bootstrap nodes"]
    counters: Annotated[dict[str, int], "Datagrams and refusals by name, since the start"]


#: What ``Output.document`` takes.
Document = DhtFindDocument | DhtPutDocument | DhtPingDocument | DhtServeDocument | DhtStatusDocument
