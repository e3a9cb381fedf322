"""Reads of three servers over one PostgreSQL beside those of one: ``python bench/postgres_scale.py [ROUNDS]``.

Two cores cannot hold three busy servers, a database and a load, so machines are simulated: the kernel gives each
server a seventh of a core (a control group with a quota), and the database and the load take what they need of the
rest. wrk asks each server over 16 connections, in turns one server and all three: for one of 2,000 packages from the
database, for a skill, a search and a list from memory. Compared are answers a second. Printed is also the processor
time of an answer in the server and in the database, and from these (computed, not measured) how many servers, each
with a core, keep one core of the database busy.

Needs root, control groups of version 1 or 2, and wrk.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.cluster import Servers
from tests.support.postgres import PostgresServer
from tests.support.soak import fill

from comparison import Goal, compare
from processes import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.cluster import Server

ROUNDS: Final = 3
PACKAGES: Final = 2_000
SECONDS: Final = 5
SHARE: Final = 1 / 7
GROUPS: Final = Path("/sys/fs/cgroup")
READS: Final = {
    "a package, from the database": "/api/registry/packages/team/skill-0%04d",
    "a skill, from memory": "/api/skills/skill-0%04d",
    "a search, from memory": "/api/search?limit=20&q=data+%d",
    "a list of 100 skills, from memory": "/api/skills?limit=100&n=%d",
}
SCRIPT: Final = f"""
local number = tonumber(os.getenv("FIRST"))
function request()
    number = (number + 7) % {PACKAGES}
    return wrk.format("GET", string.format(os.getenv("READ"), number))
end
"""


@contextlib.contextmanager
def limited(server: Server, number: int) -> Iterator[None]:
    """Give a server ``SHARE`` of a core."""
    is_unified = (GROUPS / "cgroup.controllers").exists()
    group = (GROUPS if is_unified else GROUPS / "cpu") / f"skillwire-bench-{number}"
    group.mkdir()
    try:
        quota, period = int(100_000 * SHARE), 100_000
        if is_unified:
            (group / "cpu.max").write_text(f"{quota} {period}")
        else:
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        (group / "cgroup.procs").write_text(str(server.pid))
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(server.pid))
        group.rmdir()


def ask(servers: Sequence[Server], path: str, script: Path) -> tuple[float, int]:
    """Ask servers at the same time; return answers a second, and how many there were."""
    started = []
    for number, server in enumerate(servers):
        command = ["wrk", "-t1", "-c16", f"-d{SECONDS}s", "--timeout", "20s", "-s", str(script), server.url]
        variables = {"READ": path, "FIRST": str(number)}
        started.append(subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in started]
    assert not any("Non-2xx" in output for output in outputs), outputs
    rates = [re.search(r"Requests/sec:\s+([\d.]+)", output) for output in outputs]
    numbers = [re.search(r"(\d+) requests in", output) for output in outputs]
    return sum(float(one[1]) for one in rates if one), sum(int(one[1]) for one in numbers if one)


def measure(servers: Sequence[Server], database: PostgresServer, script: Path, rounds: int) -> None:
    """Print the ratios and the processor time."""
    for what, path in READS.items():
        ask(servers, path, script)  # each has read the statements and the code then
        alone, together = [], []
        answers, ours, theirs = 0, 0.0, 0.0
        for _ in range(rounds):
            alone.append(ask(servers[:1], path, script)[0])
            before = [processor_seconds(server.pid) for server in servers], processor_seconds(database.process.pid)
            rate, number = ask(servers, path, script)
            together.append(rate)
            answers += number
            ours += sum(processor_seconds(server.pid) for server in servers) - sum(before[0])
            theirs += processor_seconds(database.process.pid) - before[1]
        compare(f"3 servers: {what}", together, alone, Goal("at least", 2.5), peer="1 server", unit="/s")
        mine, other = (1e6 * seconds / answers for seconds in (ours, theirs))
        print(f"  one answer takes {mine:.0f} us of a server and {other:.0f} us of the database", end="")
        print(f": computed, {mine / other:.0f} servers with a core each keep one core of it busy" if other > 1 else "")


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing (as root: apt-get install wrk)")
    folder = Path(tempfile.mkdtemp(prefix="skillwire-scale-", dir="/tmp"))
    folder.chmod(0o755)  # PostgreSQL runs as another user than root
    (folder / "script.lua").write_text(SCRIPT)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        database = PostgresServer(folder=folder / "postgres", fsync="off")
        stack.callback(database.close)
        database.execute("CREATE DATABASE skillwire")
        servers = Servers(folder, database.url("skillwire"))
        stack.callback(servers.close)
        asyncio.run(fill(servers.store, PACKAGES))
        asyncio.run(servers.start())
        for number, server in enumerate(servers.servers):
            stack.enter_context(limited(server, number))
        measure(servers.servers, database, folder / "script.lua", rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
