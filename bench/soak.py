"""Three servers over one PostgreSQL under a steady load: ``python bench/soak.py [MINUTES [PACKAGES [RATE]]]``.

50,000 packages are searched, shown, listed and downloaded, indexes are asked for with their tags, versions are
published and yanked, and functions are called, 20 requests a second, each at any server. In the end stand the times of
each kind, how the memory of each server between two revisions grew (the least of the last tenth of the time beside that
of the second one, goal: less than 5 %), and what contradicts a promise (goal: nothing). Both numbers can be others.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.cluster import Servers
from tests.support.postgres import PostgresServer
from tests.support.soak import Soak, fill

from comparison import Goal, compare

MINUTES: Final = 10.0
PACKAGES: Final = 50_000
RATE: Final = 20.0
SAMPLED: Final = 5.0
REPORTED: Final = 120.0
#: Seconds for the files of all packages, which each server writes at its first start.
FIRST_START: Final = 900.0


async def run(servers: Servers, minutes: float, packages: int, rate: float) -> int:
    """Run it and print what came of it; return how many errors and broken promises there were."""
    began = time.monotonic()
    await fill(servers.store, packages)
    print(f"{packages:,} packages published in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    await servers.start(FIRST_START)
    print(f"three servers started in {time.monotonic() - began:.1f} s", flush=True)
    soak = Soak(servers, packages, rate)
    reports = asyncio.create_task(report(soak))
    broken = await soak.run(60 * minutes, SAMPLED)
    reports.cancel()
    for kind, times in sorted(soak.times.items()):
        print(f"{kind}: {len(times):,}, median {slowest(times, 50):.1f} ms, p99 {slowest(times, 99):.1f} ms")
    for sentence in [*soak.errors[:20], *broken[:20]]:
        print(f"  {sentence}")
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{len(soak.errors)} errors, {len(broken)} broken promises; load {load}")
    usual = [one for kind, times in soak.times.items() if kind not in {"new index", "end of a call"} for one in times]
    what = f"{minutes:g} minutes with {packages:,} packages"
    compare(f"{what}: p99 of all requests", [slowest(usual, 99)], [50.0], Goal("at most", 1), peer="the goal")
    grown = [100 * (1 + one) for one in soak.drift()]
    compare(f"{what}: memory at the end", [max(grown)], [100.0], Goal("at most", 1.05), peer="after warm-up", unit="%")
    return len(soak.errors) + len(broken)


def slowest(times: list[float], percent: int) -> float:
    """Return the milliseconds that so many percent of the times stay below."""
    return 1e3 * sorted(times)[len(times) * percent // 100]


async def report(soak: Soak) -> None:
    """Print the memory of the servers now and then."""
    while True:
        await asyncio.sleep(REPORTED)
        shown = ", ".join(f"{one:.1f}" for one in soak.samples[-1])
        print(f"  {len(soak.history):,} changes and reads, {len(soak.errors)} errors, {shown} MiB", flush=True)


def main(minutes: float = MINUTES, packages: float = PACKAGES, rate: float = RATE) -> int:
    """Run it; return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="skillwire-soak-", dir="/tmp"))
    folder.chmod(0o755)  # PostgreSQL runs as another user than root
    database = PostgresServer(folder=folder / "postgres")
    servers = None
    try:
        database.execute("CREATE DATABASE skillwire")
        servers = Servers(folder, database.url("skillwire"))
        return 1 if asyncio.run(run(servers, minutes, int(packages), rate)) else 0
    finally:
        if servers is not None:
            servers.close()
        database.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
