"""Nodes of the DHT that nobody asks: ``python bench/dht_idle.py [SECONDS]``.

Eight processes with one node each are measured for their processor time, beside the elapsed time; the busiest counts.
The memory of a node is what a process with forty has more than one with a single node. All is on loopback.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from comparison import Goal, compare
from dht_opendht import NodesProcess
from processes import processor_seconds

SECONDS: Final = 120.0
PROCESSES: Final = 8
NODES: Final = 40
_SETTLE: Final = 20.0


def main(seconds: float = SECONDS) -> None:
    """Measure and print."""
    processes = [NodesProcess("ours", 1) for _ in range(PROCESSES)]
    processes.append(NodesProcess("ours", NODES))
    try:
        for process in processes:
            process.ask("join", processes[0].ports[0])
        time.sleep(_SETTLE)
        before = [processor_seconds(one.process.pid) for one in processes]
        time.sleep(seconds)
        used = [processor_seconds(one.process.pid) - begun for one, begun in zip(processes, before, strict=True)]
        memory = (processes[-1].memory() - processes[0].memory()) / (NODES - 1)
    finally:
        for process in processes:
            process.kill()
    what = "DHT: processor time of an idle node"
    compare(what, [max(used[:-1]) * 1e3], [seconds * 1e3], Goal("at most", 0.002), peer="a core of its own")
    compare("DHT: memory of an idle node", [memory], [2.0], Goal("at most", 1.0), peer="2 MiB", unit="MiB")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
