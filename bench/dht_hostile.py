"""Nodes of the DHT under attack: ``python bench/dht_hostile.py [SECONDS [RATE]]``.

Datagrams reach one of eight nodes 20,000 times a second, for fifty seconds by default (a million), from one address
and then from a thousand: random bytes, requests with random fields, and records that a stranger signed wrongly.
Meanwhile clients that no node knows, with all eight as bootstrap nodes, find a record, one after the other. The goals
are that the slowest waits at most a second, that the node keeps no forged record, and that its memory does not grow
after the start. Four of the nodes are in the process of the attacked one. All is on loopback.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Final

from comparison import Goal, compare
from dht_nodes import HOST, Ours
from dht_opendht import NodesProcess
from flood import flood
from skillwire.protocols.skill_discovery.dht import messages as m
from skillwire.protocols.skill_discovery.dht.records import DhtOffer, keys_to_write, sign_record
from skillwire.trust.ecdsa import new_key, self_signed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECONDS: Final = 50.0
RATE: Final = 20_000
SOURCES: Final = (1, 1_000)
_KINDS: Final = 2_000  # of datagrams, sent again and again
_SETTLED: Final = 0.2  # of the time, after which memory is looked at for the first time
_BETWEEN: Final = 0.25
_PATIENCE: Final = 60.0
_SKILL: Final = "honest"


def main(seconds: float = SECONDS, rate: float = RATE) -> None:
    """Measure and print."""
    for sources in SOURCES:
        nodes, others = NodesProcess("ours"), NodesProcess("ours")
        try:
            for process in nodes, others:
                process.ask("join", nodes.ports[0])
            time.sleep(1.0)
            assert others.ask("put", 0, _SKILL)["ok"]
            ports = [*nodes.ports, *others.ports]
            memory: list[float] = []

            def look(nodes: NodesProcess = nodes, memory: list[float] = memory) -> None:
                memory.append(nodes.memory())

            quiet = asyncio.run(_look_up(ports, seconds / 5, look))
            memory.clear()
            command = [
                sys.executable,
                __file__,
                "flood",
                str(nodes.ports[0]),
                str(sources),
                str(seconds + 1),
                str(rate),
            ]
            attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                waited = asyncio.run(_look_up(ports, seconds, look))
                sent = int(attack.communicate(timeout=_PATIENCE)[0])
            finally:
                attack.kill()
            state = nodes.ask("state", 0)
        finally:
            nodes.kill()
            others.kill()
        of = f"{sent:,} hostile datagrams of {sources:,} address{'es' if sources > 1 else ''}"
        first, last = memory[int(len(memory) * _SETTLED)], memory[-1]
        print(f"{of}: {len(waited)} lookups by new clients in {seconds:.0f} s; {state}")
        assert state["held"] <= 1, "a forged record is kept"
        compare(
            f"DHT: slowest lookup under {of}", [max(waited)], [1.0], Goal("at most", 1.0), peer="a second", unit="s"
        )
        middle, usual = sorted(waited)[len(waited) // 2], sorted(quiet)[len(quiet) // 2]
        what = f"DHT: usual lookup of a new client under {of}"
        compare(what, [middle * 1e3], [usual * 1e3], Goal("at most", 2.0), peer="a quiet one")
        what = f"DHT: memory after {of}"
        compare(what, [last], [first], Goal("at most", 1.1), peer="memory at the beginning", unit="MiB")


async def _look_up(ports: Sequence[int], seconds: float, look: Callable[[], object]) -> list[float]:
    """Have new clients find the record one after the other, and call ``look``; return the seconds that each took."""
    began = time.monotonic()
    waited: list[float] = []
    while time.monotonic() - began < seconds:
        look()
        client = await Ours().client(ports)
        try:
            started = time.monotonic()
            answer = await client.find_by_name(_SKILL, seconds=_PATIENCE)
            waited.append(time.monotonic() - started)
        finally:
            await client.stop()
        assert answer.skills, "the honest record was not found"
        await asyncio.sleep(_BETWEEN)
    return waited


def _datagrams() -> list[bytes]:
    """Return random bytes, requests of all types with random fields, damaged ones, and forged records."""
    random = Random(1)  # noqa: S311 - the same attack each time
    stranger = self_signed("stranger", new_key(), datetime.now(UTC))
    found: list[bytes] = []
    for number in range(_KINDS):
        head = random.randbytes(8), random.randbytes(32), random.randrange(2)
        offer = DhtOffer(_SKILL, f"1.0.{number}", "tool-skill", "http://127.0.0.1:1/")
        signed = sign_record(offer, "stranger", stranger, int(time.time() * 1000) + number)
        forged = signed[:-1] + bytes([signed[-1] ^ 1])  # the signature is checked, and wrong
        store = m.encode(m.Store(*head, keys_to_write(_SKILL, ())[0], forged))
        requests = [
            m.encode(m.Hello(*head, random.randbytes(16))),
            m.encode(m.Find(*head, random.randbytes(32), number % 2 == 0, number % 3)),
            store,
        ]
        damaged = bytearray(random.choice(requests))
        damaged[random.randrange(len(damaged))] ^= random.randrange(1, 256)
        found += [random.randbytes(random.randrange(1, 1200)), bytes(damaged), *requests]
    random.shuffle(found)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["flood"]:
        flood(_datagrams(), (HOST, int(sys.argv[2])), int(sys.argv[3]), *map(float, sys.argv[4:]))
    else:
        main(*map(float, sys.argv[1:]))
