"""Servers and databases that fail under a load: ``python bench/cluster_faults.py [KILLS FAIL_OVERS]``.

Three servers share a PostgreSQL primary with a synchronous standby. Clients publish, read and call at any of them while
servers are killed and the primary's power is cut, a server and the database are stopped for a while, one server is cut
off from both databases, the database has no connection and no room left, and all servers are restarted one after the
other. The clocks of two servers are five minutes wrong. In the end a checker goes through the whole history: no
acknowledged write is missing, no read went back, no execution was lost or ended twice.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.cluster import Cluster, Load, make_faults, suffer

KILLS: Final = 50
FAIL_OVERS: Final = 20


async def run(kills: int, fail_overs: int) -> int:
    """Run it and print what came of it; return how many promises were broken."""
    cluster = Cluster()
    try:
        await cluster.start()
        load = Load(cluster)
        faults = make_faults(kills, fail_overs)
        took = await suffer(cluster, load, faults, lasting=1.5, between=2.0, advance=print)
        broken = await load.finish()
    finally:
        cluster.close()
    for sentence in broken[:20]:
        print(f"  {sentence}")
    done = Counter((one.kind, one.outcome.split()[0]) for one in load.history)
    print(", ".join(f"{number:,} x {kind} {outcome}" for (kind, outcome), number in sorted(done.items())))
    names = {faults[number][0].rstrip(" 012") for number in range(len(took))}
    for name in sorted(names):
        times = [seconds for (one, _, _), seconds in zip(faults, took, strict=True) if one.rstrip(" 012") == name]
        print(f"{name}: {len(times)} times, recovered after {max(times):.1f} s at most (goal 10)")
    return len(broken)


def main() -> int:
    """Run it; return the exit code."""
    kills, fail_overs = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (KILLS, FAIL_OVERS)
    began = time.monotonic()
    broken = asyncio.run(run(kills, fail_overs))
    print(f"{broken} broken promises ({time.monotonic() - began:.0f} s)")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
