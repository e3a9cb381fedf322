"""A registry under 20,000 hostile datagrams a second registers who is honest: the bench, for a few seconds.

How long the slowest answer takes is asserted by the bench alone: it depends on what else the machine does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "lan_hostile.py"
SECONDS, RATE = 5, 20_000


@pytest.mark.deep
def test_who_is_honest_is_registered_under_attack_and_memory_stays(tmp_path):
    done = subprocess.run(
        [sys.executable, BENCH, str(SECONDS), str(RATE)],
        env={**os.environ, "SKILLWIRE_BENCH_RESULTS": str(tmp_path / "results")},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr  # an agent that is not registered ends it with TimeoutError
    rows = [json.loads(line) for line in (tmp_path / "results").read_text("utf-8").splitlines()]
    memories = [row["ours"] / row["theirs"] for row in rows if "memory" in row["what"]]
    assert len(memories) == 2  # of one address, and of a thousand
    assert max(memories) < 1.3
