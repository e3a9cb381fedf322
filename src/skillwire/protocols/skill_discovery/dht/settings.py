"""The settings of a DHT node; ``discovery.dht`` of a configuration sets them. Spec: SDP §6.4, §13.2."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DhtSettings:
    """How a node takes part in the DHT. Durations are in seconds."""

    enabled: bool = False
    bootstrap: tuple[tuple[str, int], ...] = ()  # host or address, and port
    replication_factor: int = 3  # nodes that acknowledge a put before it counts as done
    port: int = 6881
    k: int = 8  # nodes of a bucket, and nodes that store a record
    announces_restricted: bool = False  # skills with restricted access
    lifetime: float = 600.0  # of a record
    bind: tuple[str, ...] = ()  # addresses to listen on, at most one IPv4 and one IPv6; all by default
    put_again: tuple[float, float] = (60.0, 120.0)  # shortest and longest pause between two puts of an own record
