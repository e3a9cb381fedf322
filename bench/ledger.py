"""The ledger of executions beside DBOS, both on SQLite: ``python bench/ledger.py [ROUNDS]``.

Each side works in a process of its own with a database of its own on the disk, in turns. Compared are how many
executions a second are accepted, each on the disk when its caller is told; how many a second are then run, 32 at a
time, of a function that does nothing; and how long one takes from its call to the beginning of its run, while nothing
else is done. Ours go through the desk and the worker of the server. DBOS accepts as its client does and runs as its
queue does, which looks for work a hundred times a second here; its latency is that of a workflow started without a
queue.

``dbos`` is looked for where ours is; where ``SKILLWIRE_BENCH_DBOS`` names the Python of another environment, there.
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
PYTHON: Final = os.environ.get("SKILLWIRE_BENCH_DBOS", sys.executable)
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
    for what, name in (("accept durably", "enqueue"), ("run", "drain")):
        mine, others = [one[name] for one in ours], [one[name] for one in theirs]
        compare(f"executions: {what}", mine, others, Goal("at least", 6.0), peer=peer, unit="/s")
    mine, others = ([statistics.median(one["starts"]) * 1e3 for one in side] for side in (ours, theirs))
    compare("executions: from the call to the start", mine, others, Goal("at most", 0.6), peer=peer)


def _measure(python: str, script: str, number: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as folder:
        command = [python, str(HERE / script), folder, *map(str, (number, STARTS, CALLERS))]
        measured: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return measured


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
