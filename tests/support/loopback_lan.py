"""A local network of one test's own: on loopback, at a port of the group that nobody else has."""

from __future__ import annotations

import socket


def free_group_port():
    """Return a UDP port that the system has free."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def discovery(port, *, agent="", trust=""):
    """Return a ``skillwire.toml`` that speaks there: a beat each second, and answers collected for a little more."""
    name = f'[discovery]\nagentId = "{agent}"\n' if agent else ""
    return f"""{name}
[discovery.udp]
interfaces = ["lo"]
port = {port}
patience = 1500
datagramsPerSecond = 1000

[discovery.mdns]
enabled = false

[discovery.healthCheck]
heartbeatInterval = 1000
timeout = 10000
{trust}"""
