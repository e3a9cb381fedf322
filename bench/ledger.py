"""The ledger of executions beside DBOS, both on SQLite: ``python bench/ledger.py [ROUNDS]``.

Each side works in a separate process with its own database on the disk, in turns. Compared are the executions accepted
per second, each on the disk before it is acknowledged; the executions then run per second, 32 at a time, of a function
that does nothing; and the time from one call to the start of its run on an idle system. Ours use the server's execution
service and worker. DBOS accepts through its client and runs through its queue, which polls a hundred times a second
here; its latency is that of a workflow started without a queue.

``dbos`` is imported from our environment, or from the one of the Python that ``SKILLWIRE_BENCH_PEERS`` names.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from comparison import Goal, compare

ROUNDS: Final = 5
OURS: Final = 5_000
THEIRS: Final = 600
STARTS: Final = 40
CALLERS: Final = 64
PYTHON: Final = os.environ.get("SKILLWIRE_BENCH_PEERS", sys.executable)
HERE: Final = Path(__file__).parent


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    version = "from importlib.metadata import version; print(version('dbos'))"
    found = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit("DBOS is missing (.venv/bin/uv pip install dbos)")
    peer = f"DBOS {found.stdout.strip()}"
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(_measure(sys.executable, "ledger_side.py", OURS))
        theirs.append(_measure(PYTHON, "dbos_side.py", THEIRS))
    for what, name, goal in (("accept durably", "enqueue", 50.0), ("run", "drain", 20.0)):
        mine, others = [one[name] for one in ours], [one[name] for one in theirs]
        compare(f"executions: {what}", mine, others, Goal("at least", goal), peer=peer, unit="/s")
    mine, others = ([statistics.median(one["starts"]) * 1e3 for one in side] for side in (ours, theirs))
    compare("executions: from the call to the start", mine, others, Goal("at most", 0.6), peer=peer)


def _measure(python: str, script: str, number: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as folder:
        command = [python, str(HERE / script), folder, *map(str, (number, STARTS, CALLERS))]
        measured: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return measured


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
