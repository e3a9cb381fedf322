"""How long until another process sees a new agent's skill: ``python bench/lan_visible.py [ROUNDS]``.

From the moment at which an agent begins to announce (its process is up, its key is made) to the moment at which
another one lists its skill: by multicast, with the challenge that proves who it is, signed and verified; and by mDNS
alone, which has to probe for a free name. The goals are 150 ms and 2 s. All of it is on loopback.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from os import environ
from typing import Any, Final

from comparison import Goal, compare
from lan_agents import agent_process, free_port, loopback
from skillwire.adapters.lan.agent import LanAgent
from skillwire.protocols.skill_discovery.configuration import LanSettings

ROUNDS: Final = 10
_PATIENCE: Final = 30.0
#: How, the settings of both agents, and the goal in seconds.
WAYS: Final[list[tuple[str, dict[str, Any], float]]] = [
    ("multicast", {}, 0.15),
    ("mDNS", {"multicast": False, "mdns": True}, 2.0),
]


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as home:
        environ["SKILLWIRE_HOME"] = home
        for way, settings, goal in WAYS:
            seen = [asyncio.run(_seen_after(number, settings)) for number in range(rounds)]
            what = f"LAN: from announcing to visible by {way}"
            compare(what, [one * 1000 for one in seen], [goal * 1000] * rounds, Goal("at most", 1.0), peer="the goal")


async def _seen_after(number: int, settings: dict[str, Any]) -> float:
    """Return the seconds from an agent's beginning to its skill in our list."""
    port = free_port()
    ours = loopback("looking", port=port, **settings)
    async with LanAgent(LanSettings(**ours | {"interfaces": ("127.0.0.1",)})) as agent:
        changes = agent.listen()
        await asyncio.sleep(0.5)  # until our own mDNS is up
        name = f"new-{number}-{port}"
        running = agent_process(name, 1, port=port, **settings)
        entering = asyncio.create_task(asyncio.to_thread(running.__enter__))
        try:
            async with asyncio.timeout(_PATIENCE):
                async for change in changes:
                    if change.skill is not None and change.skill.agent_id == name:
                        break
            at = time.time()
            return at - (await entering).began
        finally:
            await entering
            await asyncio.to_thread(running.__exit__, None, None, None)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
