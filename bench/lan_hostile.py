"""A registry under attack: ``python bench/lan_hostile.py [SECONDS [RATE]]``.

Datagrams of random bytes, of the protocol's words, and of the corpus arrive 20,000 times a second, for a minute by
default (more than a million), from one address and then from a thousand. Meanwhile unknown agents register one after
the other: each is challenged, proves its identity, and receives its acknowledgment. The goals are that the slowest
waits at most a second, and that the registry's memory does not grow after the start. The bench runs on loopback, in a
group of its own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final

from comparison import Goal, compare
from flood import flood
from lan_agents import GROUP, AgentProcess, agent_process, free_port, offers
from skillwire.adapters.clock import moment
from skillwire.adapters.lan.link import Driver
from skillwire.adapters.lan.sockets import LinkAddress, LinkSockets
from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.protocols.skill_discovery.messages import Endpoint, Outcome
from skillwire.protocols.skill_discovery.node import DiscoveryNode, Role
from skillwire.protocols.skill_discovery.route_agent import Acknowledged
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.protocols.skill_discovery.node import NodeEvent

SECONDS: Final = 60.0
RATE: Final = 20_000
SOURCES: Final = (1, 1_000)
_CORPUS: Final = Path(__file__).parent.parent / "tests" / "corpus" / "documents" / "datagram.json"
_KINDS: Final = 4_000  # of random datagrams, said again and again with other ones in between
_SETTLED: Final = 0.2  # of the time, after which memory is looked at for the first time
_PATIENCE: Final = 30.0
_BETWEEN: Final = 0.25
_HOST: Final = "127.0.0.1"
#: A repeated registration is acknowledged as known; answers wait a random time, so that one may come first.
_REGISTERED: Final = frozenset({Outcome.SUCCESS, Outcome.DUPLICATE})


def main(seconds: float = SECONDS, rate: float = RATE) -> None:
    """Measure and print."""
    for sources in SOURCES:
        port = free_port()
        with agent_process("registry", port=port, roles=[Role.MCP_AGENT]) as registry:
            command = [sys.executable, __file__, "flood", str(port), str(sources), str(seconds + 1), str(rate)]
            attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                waited, first, last = asyncio.run(_register(registry, port, seconds))
                sent = int(attack.communicate(timeout=_PATIENCE)[0])
            finally:
                attack.kill()
            dropped = sum(registry.ask().counters.values())
        of = f"{sent:,} hostile datagrams of {sources:,} address{'es' if sources > 1 else ''}"
        print(f"{of}: {dropped:,} read and dropped, {len(waited)} agents registered in {seconds:.0f} s")
        compare(
            f"LAN: slowest answer under {of}", [max(waited)], [1.0], Goal("at most", 1.0), peer="a second", unit="s"
        )
        compare(
            f"LAN: memory after {of}", [last], [first], Goal("at most", 1.1), peer="memory at the beginning", unit="MiB"
        )


async def _register(registry: AgentProcess, port: int, seconds: float) -> tuple[list[float], float, float]:
    """Register agents one after the other; return how long each waited, and the memory at the beginning and the end."""
    began = time.monotonic()
    waited: list[float] = []
    first = 0.0
    while (passed := time.monotonic() - began) < seconds or not first:
        if not first and passed > _SETTLED * seconds:
            first = registry.ask().memory / 2**20
        waited.append(await _registered(f"agent-{len(waited)}", port))
        await asyncio.sleep(_BETWEEN)
    return waited, first, registry.ask().memory / 2**20


async def _registered(name: str, port: int) -> float:
    """Return the seconds that an unknown agent waits."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def take(events: Sequence[NodeEvent]) -> None:
        for event in events:
            if isinstance(event, Acknowledged) and event.status in _REGISTERED and not done.done():
                done.set_result(None)

    settings = LanSettings(group=GROUP, port=port)
    node = DiscoveryNode(
        name,
        identity=self_signed(name, new_key(), datetime.now(UTC)),
        authority=ChainAuthority(Chain()),
        random=SystemRandom(),
        roles=frozenset({Role.ROUTE_AGENT}),
    )
    driver = Driver(node, take, moment)
    driver.open(LinkSockets(LinkAddress("lo", 1, _HOST), settings, Counter()))
    try:
        [offer] = offers(1, name)
        began = time.monotonic()
        node.route_agent.offer(offer._replace(endpoint=Endpoint(_HOST, 8080)), moment())
        node.on_timer(moment())
        driver.tend()
        async with asyncio.timeout(_PATIENCE):
            await done
        return time.monotonic() - began
    finally:
        driver.end()


def _datagrams() -> list[bytes]:
    """Return the corpus, random bytes, and messages whose fields are random."""
    random = Random(1)  # noqa: S311 - the same attack each time
    documents = json.loads(_CORPUS.read_text("utf-8"))
    corpus = [
        base64.b64decode(one["b64"]) if "b64" in one else one["data"].encode("utf-8", "surrogatepass")
        for one in documents
    ]
    types = ["SKILL_REGISTER", "SKILL_HEARTBEAT", "SKILL_UNREGISTER", "SKILL_DISCOVER", "CHALLENGE_RESPONSE"]
    found = []
    for _ in range(_KINDS):
        found.append(random.randbytes(random.randrange(1, 1200)))
        fields = [f"{random.randrange(10**6)}" for _ in range(random.randrange(9))]
        found.append(f"{random.choice(types)}:{';'.join(fields)}".encode())
        found.append(random.choice(corpus)[:1400])
        found.append(_well_formed(random))
    random.shuffle(found)
    return found


def _well_formed(random: Random) -> bytes:
    """Return an unsigned registration of an unknown agent, with a valid time."""
    agent, now = random.randrange(10**9), int(time.time() * 1000)
    facts = "0.7.0;tool-skill;127.0.0.1:80;user-auth;auth"
    return f"SKILL_REGISTER:agent-{agent};skill-{agent};{facts};{now};QUJD".encode()


if __name__ == "__main__":
    if sys.argv[1:2] == ["flood"]:
        flood(_datagrams(), (GROUP, int(sys.argv[2])), int(sys.argv[3]), *map(float, sys.argv[4:]))
    else:
        main(*map(float, sys.argv[1:]))
