"""JSON documents that ``skillwire dht`` prints with ``--json``; see :mod:`skillwire.cli.documents`.

A document of :data:`VALUES` has the fields of a value of the DHT, too, which describe themselves.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict

from skillwire.model.dht import DhtAnswer, DhtPong, DhtPut, DhtStatus


class DhtFindDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-find/1"], "Records of the DHT, as dht find and dht get show them"]


class DhtPutDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-put/1"], "A record that dht put stored, or dht remove removed"]
    skill_id: Annotated[str, "The skill"]
    removed: Annotated[bool, "Whether the record is a tombstone"]


class DhtPingDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-ping/1"], "A node that answered dht ping"]
    address: Annotated[str, "HOST:PORT that was asked"]


class DhtServeDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-serve/1"], "A node that dht serve has started"]
    node_id: Annotated[str, "ID of the node, hexadecimal"]
    addresses: Annotated[list[str], "HOST:PORT that it listens on"]


class DhtStatusDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-status/1"], "The state of a node, as dht status shows it"]
    process: Annotated[int | None, "Process of this machine's node; null for one that joined for this command"]


#: Document → the value whose fields it has beside its own.
VALUES: Final[dict[type, type]] = {
    DhtFindDocument: DhtAnswer,
    DhtPutDocument: DhtPut,
    DhtPingDocument: DhtPong,
    DhtStatusDocument: DhtStatus,
}
