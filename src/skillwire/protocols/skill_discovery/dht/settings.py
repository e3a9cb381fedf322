"""The settings of a DHT node; ``discovery.dht`` of a configuration sets them. Spec: SDP §6.4, §13.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Seconds between two puts of an own record, at least and at most.
PUT_AGAIN: Final = 60.0, 120.0


@dataclass(frozen=True, slots=True)
class DhtSettings:
    """How a node takes part in the DHT."""

    enabled: bool = False
    bootstrap: tuple[tuple[str, int], ...] = ()  # host or address, and port
    replication_factor: int = 3  # nodes that acknowledge a put before it counts as done
    port: int = 6881
    k: int = 8  # nodes of a bucket, and nodes that store a record
    announces_restricted: bool = False  # skills with restricted access
    bind: tuple[str, ...] = ()  # addresses to listen on, at most one IPv4 and one IPv6; all by default
