"""Our DHT beside opendht: ``python bench/dht_opendht.py [RECORDS]``.

Forty nodes in ten processes on loopback. Each of the records is put from one node and read from another, first quietly;
then three processes, twelve nodes, are killed, and each record is read again from a node that lives. The peer runs
first, then ours: two networks at once would compete for the processors. The peer's package is installed by
``tools/pypi_peers.sh``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from comparison import Goal, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDS: Final = 200
PROCESSES: Final = 10
NODES: Final = 4
KILLED: Final = 3
PEER: Final = Path(__file__).parent.parent / "tests" / "interop" / ".peers" / "bin" / "python"
_SETTLE: Final = 5.0


class Figures(NamedTuple):
    """Milliseconds of each put, of each quiet get, and of each get after the kill; how many gets found nothing."""

    put: list[float]
    get: list[float]
    after: list[float]
    not_found: int
    lost: int


class NodesProcess:
    """A process with nodes."""

    def __init__(self, kind: str, nodes: int = NODES) -> None:
        python = str(PEER) if kind == "opendht" else sys.executable
        command = [python, str(Path(__file__).with_name("dht_nodes.py")), kind, str(nodes)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports: list[int] = self._line()

    def ask(self, *command: object) -> Any:
        """Return the answer to a command."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._line()

    def memory(self) -> float:
        """Return the MiB that it has in memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def _line(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()


def main(records: int = RECORDS) -> None:
    """Measure and print."""
    theirs, ours = (measure(kind, records) for kind in ("opendht", "ours"))
    peer = "opendht"
    compare("DHT of 40 nodes: put", [middle(ours.put)], [middle(theirs.put)], Goal("at most", 4.0), peer=peer)
    what = f"DHT of 40 nodes: get ({ours.not_found} of {records} not found; peer {theirs.not_found})"
    compare(what, [middle(ours.get)], [middle(theirs.get)], Goal("at most", 1.0), peer=peer)
    what = f"DHT, 12 of 40 nodes killed: get, p95 ({ours.lost} of {records} lost; peer {theirs.lost})"
    compare(what, [p95(ours.after)], [p95(theirs.after)], Goal("at most", 0.5), peer=peer)


def measure(kind: str, records: int) -> Figures:
    """Return the figures of one implementation."""
    random = Random(21)  # noqa: S311 - the same nodes and records for both
    processes = [NodesProcess(kind) for _ in range(PROCESSES)]
    try:
        for process in processes:
            process.ask("join", processes[0].ports[0])
        time.sleep(_SETTLE)
        names = [f"record-{number}" for number in range(records)]

        def ask(verb: str, name: str, living: Sequence[NodesProcess]) -> Any:
            return random.choice(living).ask(verb, random.randrange(NODES), name)

        put = [ask("put", name, processes) for name in names]
        assert all(one["ok"] for one in put), "a put failed"
        get = [ask("get", name, processes) for name in names]
        for process in processes[-KILLED:]:
            process.kill()
        after = [ask("get", name, processes[:-KILLED]) for name in names]
        lost = [sum(not one["ok"] for one in asked) for asked in (get, after)]
        times = [[one["ms"] for one in asked] for asked in (put, get, after)]
        return Figures(times[0], times[1], times[2], lost[0], lost[1])
    finally:
        for process in processes:
            process.kill()


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    """Return what 95 % of the values do not exceed."""
    return statistics.quantiles(values, n=20)[-1]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
