"""What packages cost a server and PostgreSQL, and how it grows: ``python bench/postgres_capacity.py [PACKAGES...]``.

For 1,000, 10,000 and 50,000 packages of one version: the size of the database, of the index as it is sent, the memory
of a server after requests, and its processor time for a search of one word, a list of 100 skills and a skill. The
lines after them are on paper: the straight line through the last two points, at 1 and 10 million packages.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import shutil
import sys
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.cluster import Servers
from tests.support.postgres import PostgresServer
from tests.support.soak import WORDS, fill

from processes import processor_seconds

if TYPE_CHECKING:
    from tests.support.cluster import Server

PACKAGES: Final = (1_000, 10_000, 50_000)
ON_PAPER: Final = (1_000_000, 10_000_000)
ASKED: Final = 300
FIRST_START: Final = 900.0
UNITS: Final = ("MB of database", "MB of index", "MiB of a server", "ms a search", "ms a list", "ms a skill")


def measure(server: Server, database: PostgresServer, packages: int) -> list[float]:
    """Return the figures of ``UNITS``."""
    connection = HTTPConnection(server.place)

    def ask(path: str) -> int:
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status, body[:200])
        return len(body)

    def cost(paths: list[str]) -> float:
        before = processor_seconds(server.pid)
        for path in paths:
            ask(path)
        return 1e3 * (processor_seconds(server.pid) - before) / len(paths)

    source = random.Random(packages)  # noqa: S311  # the same each time, nothing secret
    size = float(database.ask("SELECT pg_database_size('skillwire')")) / 1e6
    index = ask("/.well-known/agent-skills/index.json") / 1e6
    pairs = [f"{source.choice(WORDS)}+{source.choice(WORDS)}" for _ in range(ASKED)]
    search = cost([f"/api/search?limit=20&q={pair}" for pair in pairs])
    listing = cost([f"/api/skills?limit=100&n={number}" for number in range(ASKED)])
    shown = cost([f"/api/skills/skill-{source.randrange(packages):05}" for _ in range(ASKED)])
    resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{server.pid}/status").read_text())
    assert resident
    return [size, index, int(resident[1]) / 1024, search, listing, shown]


def run(packages: int) -> list[float]:
    """Fill a registry, serve it, and measure."""
    folder = Path(tempfile.mkdtemp(prefix="skillwire-capacity-", dir="/tmp"))
    folder.chmod(0o755)  # PostgreSQL runs as another user than root
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        database = PostgresServer(folder=folder / "postgres", fsync="off")
        stack.callback(database.close)
        database.execute("CREATE DATABASE skillwire")
        servers = Servers(folder, database.url("skillwire"), (0.0,))
        stack.callback(servers.close)
        asyncio.run(fill(servers.store, packages))
        asyncio.run(servers.start(FIRST_START))
        return measure(servers.servers[0], database, packages)


def main(*packages: int) -> None:
    """Measure and print."""
    points = [(number, run(number)) for number in packages or PACKAGES]
    if len(points) > 1:
        (less, before), (more, after) = points[-2:]
        for number in ON_PAPER:
            steps = (number - more) / (more - less)
            paper = [last + steps * (last - first) for first, last in zip(before, after, strict=True)]
            points.append((number, paper))
    for number, figures in points:
        shown = ", ".join(f"{value:,.2f} {unit}" for value, unit in zip(figures, UNITS, strict=True))
        print(f"{number:,} packages{' (on paper)' if number in ON_PAPER else ''}: {shown}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
