"""How long a backup and a restore take: ``python bench/postgres_restore.py [PACKAGES]``.

A database of 50,000 packages is dumped and restored into an empty one of another PostgreSQL, with the commands of
``docs/topics/many-machines.md``. The times are those of the commands; PostgreSQL waits for the disk.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.postgres import PostgresServer
from tests.support.soak import fill

from comparison import Goal, compare

PACKAGES: Final = 50_000
PAGE: Final = Path(__file__).parents[1] / "docs" / "topics" / "many-machines.md"


def follow(title: str, url: str, server: PostgresServer, folder: str) -> float:
    """Run the commands of a box of the page; return the seconds that they took."""
    box = re.search(rf'^```console title="{title}"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert box
    began = time.monotonic()
    for command in re.findall(r"^\$ (.+)$", box[1], re.MULTILINE):
        variables = {**os.environ, "PATH": f"{server.programs}:{os.environ['PATH']}", "SKILLWIRE_STORE": url}
        subprocess.run(["sh", "-c", command], cwd=folder, env=variables, check=True)
    return time.monotonic() - began


def measure(full: PostgresServer, empty: PostgresServer, packages: int) -> None:
    """Print the times."""
    empty.execute("CREATE DATABASE skillwire")
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as folder:
        for what, title, server, goal in (("back up", "backup", full, 60.0), ("restore", "restore", empty, 300.0)):
            seconds = follow(title, server.url("skillwire"), server, folder)
            compare(f"{what} {packages:,} packages", [seconds], [goal], Goal("at most", 1), peer="the goal", unit="s")
        print(f"the dump has {Path(folder, 'skillwire.dump').stat().st_size / 1e6:.1f} MB")
    assert empty.has(f"SELECT count(*) >= {packages} FROM packages", "skillwire")  # noqa: S608  # a number


def main(packages: int = PACKAGES) -> None:
    """Measure and print."""
    full, empty = PostgresServer(), PostgresServer()
    try:
        full.execute("CREATE DATABASE skillwire")
        asyncio.run(fill(full.url("skillwire"), packages))
        measure(full, empty, packages)
    finally:
        full.close()
        empty.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
