"""Nodes of a DHT in one process, for ``dht_opendht.py``: ``python bench/dht_nodes.py {ours|opendht} NODES``.

It prints a line of JSON with the ports of its nodes, then one for each line of standard input, which is a list in JSON:
``["join", PORT]``, ``["put", NODE, NAME]``, ``["get", NODE, NAME]``, of ours also ``["state", NODE]``. The answer has
``ok`` and ``ms``, and the state. The peer's interpreter runs this file, too.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import secrets
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

if importlib.util.find_spec("skillwire"):  # the peer's interpreter has no package of ours
    from skillwire.adapters.dht.agent import DhtAgent
    from skillwire.adapters.lan.agent import AgentIdentity
    from skillwire.protocols.skill_discovery.dht.records import DhtOffer
    from skillwire.protocols.skill_discovery.identity import ChainAuthority
    from skillwire.protocols.skill_discovery.settings import DhtSettings, LanSettings
    from skillwire.trust.certificates import Chain
    from skillwire.trust.ecdsa import new_key, self_signed
    from skillwire.wire.node import Peer

HOST: Final = "127.0.0.1"
#: Bytes of the peer's value: a record of ours without its certificate.
VALUE_BYTES: Final = 600
SECONDS: Final = 30.0


class Nodes(Protocol):
    """The nodes of one implementation in this process."""

    async def start(self, count: int) -> list[int]:
        """Start nodes; return their ports."""

    async def join(self, port: int) -> None:
        """Have all nodes join the network of the node at a port."""

    async def put(self, node: int, name: str) -> bool:
        """Store a record under a name; return whether it was stored."""

    async def get(self, node: int, name: str) -> bool:
        """Return whether a node finds the record of a name."""


class OpenDht:
    """Nodes of opendht, without its limit of requests."""

    def __init__(self) -> None:
        self._library: Any = importlib.import_module("opendht")
        self._nodes: list[Any] = []

    async def start(self, count: int) -> list[int]:
        """See :class:`Nodes`."""
        for _ in range(count):
            config = self._library.DhtConfig()
            config.setRateLimit(-1, -1)
            node = self._library.DhtRunner()
            node.run(port=0, ipv4=HOST, ipv6="::1", config=config)
            self._nodes.append(node)
        return [node.getBound().getPort() for node in self._nodes]

    async def join(self, port: int) -> None:
        """See :class:`Nodes`."""
        for node in self._nodes:
            node.bootstrap(HOST, str(port))

    async def put(self, node: int, name: str) -> bool:
        """See :class:`Nodes`."""
        value = self._library.Value(name.encode().ljust(VALUE_BYTES, b"."))
        return bool(self._nodes[node].put(self._library.InfoHash.get(name), value))

    async def get(self, node: int, name: str) -> bool:
        """See :class:`Nodes`."""
        values = self._nodes[node].get(self._library.InfoHash.get(name))
        return any(value.data.startswith(name.encode()) for value in values or ())


class Ours:
    """Nodes of ours, each with its own key and a self-signed certificate."""

    def __init__(self) -> None:
        self._nodes: list[DhtAgent] = []

    async def start(self, count: int) -> list[int]:
        """See :class:`Nodes`."""
        return [await self._start_one() for _ in range(count)]

    async def _start_one(self) -> int:
        name = f"agent-{secrets.token_hex(4)}"
        settings = LanSettings(dht=DhtSettings(enabled=True, port=0, bind=(HOST,)))
        identity = self_signed(name, new_key(), datetime.now(UTC))
        node = DhtAgent(settings, own=AgentIdentity(name, identity, ChainAuthority(Chain()), Path()))
        await node.start()
        self._nodes.append(node)
        return node.port

    async def client(self, ports: Sequence[int]) -> DhtAgent:
        """Return a client that no node knows, with bootstrap nodes at some ports; the caller stops it."""
        name = f"agent-{secrets.token_hex(4)}"
        settings = LanSettings(
            dht=DhtSettings(enabled=True, bootstrap=tuple((HOST, port) for port in ports), bind=(HOST,))
        )
        identity = self_signed(name, new_key(), datetime.now(UTC))
        node = DhtAgent(settings, own=AgentIdentity(name, identity, ChainAuthority(Chain()), Path()), is_client=True)
        await node.start()
        return node

    async def state(self, node: int) -> dict[str, object]:
        """Return how many records a node holds, and what it counted."""
        status = self._nodes[node].status()
        return {"held": status.held, "counters": status.counters}

    async def join(self, port: int) -> None:
        """See :class:`Nodes`."""
        for node in self._nodes:
            node.use_found([Peer(HOST, port)])

    async def put(self, node: int, name: str) -> bool:
        """See :class:`Nodes`."""
        offer = DhtOffer(name, "1.0.0", "tool-skill", f"http://{HOST}:8000/{name}", (), (), f"sha256:{'0' * 64}")
        return (await self._nodes[node].put(offer, seconds=SECONDS)).stored > 0

    async def get(self, node: int, name: str) -> bool:
        """See :class:`Nodes`."""
        return bool((await self._nodes[node].find_by_name(name, seconds=SECONDS)).skills)


async def main(kind: str, count: int) -> None:
    """Serve the commands of standard input."""
    nodes: Nodes = OpenDht() if kind == "opendht" else Ours()
    print(json.dumps(await nodes.start(count)), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, *arguments = json.loads(line)
        began = time.perf_counter()
        done = await getattr(nodes, verb)(*arguments)
        passed = (time.perf_counter() - began) * 1e3
        more = done if isinstance(done, dict) else {}
        print(json.dumps({"ok": done is not False, "ms": passed, **more}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
