"""A local network of one test's own: on loopback, with a group and a port that no other process has.

Sockets of a group share its port, so that the system gives no error when two tests take one: each would hear the other.
A port is therefore held for as long as this process lives, by a socket that shares with nobody; the system gives it to
no one else who asks for a free one. The group has the number of the process in its address.
"""

import atexit
import os
import socket
from typing import NamedTuple

from skillwire.adapters.files.atomic import state_directory
from skillwire.adapters.lan.agent import AgentIdentity
from skillwire.adapters.lan.probes import Prober

_held: list[socket.socket] = []


class OwnLan(NamedTuple):
    """A group on IPv4, and its port."""

    group: str
    port: int


def own_lan():
    """Return a network that no test has had, in this process or another one that runs."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    high, low = (os.getpid() & 0xFFFF).to_bytes(2, "big")
    return OwnLan(f"239.255.{high}.{low}", holder.getsockname()[1])


@atexit.register
def _release():
    for holder in _held:
        holder.close()


def discovery(lan, *, agent="", trust="", patience=2000):
    """Return a ``skillwire.toml`` that speaks there: a beat each second, and answers collected for a little more."""
    name = f'[discovery]\nagentId = "{agent}"\n' if agent else ""
    return f"""{name}
[discovery.udp]
interfaces = ["lo"]
multicastGroup = "{lan.group}"
port = {lan.port}
patience = {patience}
datagramsPerSecond = 1000

[discovery.mdns]
enabled = false

[discovery.healthCheck]
heartbeatInterval = 1000
timeout = 10000
{trust}"""


def given(agent_id, identity, authority=None):
    """Return an agent with an identity of the test's, which no file has; a group key is its own authority."""
    return AgentIdentity(agent_id, identity, authority or identity, state_directory() / "lan")


def accept_probes(monkeypatch):
    """Have every endpoint take a connection: agents of a test have no server."""

    async def connect(*_):
        return True

    monkeypatch.setattr(Prober, "_connect", connect)
