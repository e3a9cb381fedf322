"""The cost of an agent that only listens to 1,000 skills: ``python bench/lan_idle.py [SECONDS]``.

Another process offers the skills, each with a heartbeat every 5 seconds, signed with ECDSA. Measured is the processor
time of the listening agent, once it lists all of them, beside the elapsed time. The goal is 4 % of a core. The bench
runs on loopback, in a group of its own, with the default settings except the pace of registering; storing is included.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Final

from comparison import Goal, compare
from lan_agents import agent_process, free_port
from skillwire.protocols.skill_discovery.node import Role

#: In which each skill is registered anew once, beside its beats.
SECONDS: Final = 60.0
ROUNDS: Final = 3
SKILLS: Final = 1000
#: Registrations would take a minute otherwise.
FIGURES: Final = {"rate": 400.0, "burst": 400.0}
_PATIENCE: Final = 120.0


def main(seconds: float = SECONDS) -> None:
    """Measure and print."""
    port = free_port()
    with contextlib.ExitStack() as running:
        listener = running.enter_context(agent_process("listener", port=port, figures=FIGURES))
        roles = [Role.ROUTE_AGENT]
        running.enter_context(agent_process("agent", SKILLS, roles=roles, port=port, figures=FIGURES))
        ends = time.monotonic() + _PATIENCE
        while (report := listener.ask()).healthy < SKILLS:
            assert time.monotonic() < ends, report
            time.sleep(1)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            before, began = listener.ask(), time.monotonic()
            time.sleep(seconds)
            after, passed = listener.ask(), time.monotonic() - began
            ours.append((after.cpu - before.cpu) * 1000)
            theirs.append(passed * 1000)
        assert after.healthy == SKILLS, after
    what = f"LAN: processor time with {SKILLS:,} known skills"
    compare(what, ours, theirs, Goal("at most", 0.04), peer="a core of its own")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
