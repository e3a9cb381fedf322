"""DBOS's side of ``ledger.py``: ``python bench/dbos_side.py FOLDER NUMBER STARTS CALLERS``; prints a line of JSON.

DBOS runs on SQLite with its defaults, except that its queue polls a hundred times a second instead of once. Workflows
that start at once bypass the queue, which would wait for its next poll.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

dbos: Final[Any] = importlib.import_module("dbos")  # it need not be where the types are checked
DBOS: Final = dbos.DBOS
CONCURRENCY: Final = 32
INPUTS: Final = {"restaurant": "Chez Louise", "date": "2026-11-21", "time": "19:30", "guests": 4, "name": "Anna"}
_QUEUE: Final = "calls"
_LOOK: Final = 0.01
begun: list[float] = []


async def run_nothing(inputs: dict[str, Any]) -> dict[str, Any]:
    """Give the inputs back."""
    begun.append(time.perf_counter())
    return inputs


nothing: Final = DBOS.workflow()(run_nothing)


async def enqueue(address: str, number: int, callers: int) -> float:
    """Return the seconds to accept so many executions, which do not run yet."""
    client = dbos.DBOSClient(system_database_url=address)
    left = iter(range(number))

    async def call() -> None:
        for _ in left:
            await client.enqueue_async({"queue_name": _QUEUE, "workflow_name": nothing.__qualname__}, INPUTS)

    start = time.perf_counter()
    await asyncio.gather(*[call() for _ in range(callers)])
    seconds = time.perf_counter() - start
    client.destroy()
    return seconds


async def drain(number: int) -> float:
    """Return how many seconds it takes to run so many."""
    start = time.perf_counter()
    await DBOS.register_queue_async(_QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=_LOOK)
    while len(begun) < number or await _has_more():  # noqa: ASYNC110  # as a caller sees it
        await asyncio.sleep(0.01)
    return time.perf_counter() - start


async def _has_more() -> bool:
    return bool(await DBOS.list_workflows_async(status=["ENQUEUED", "PENDING"], load_input=False, load_output=False))


async def main() -> None:
    """Do the work."""
    folder, number, starts, callers = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    address = f"sqlite:///{folder}/dbos.db"
    config = dbos.DBOSConfig(name="bench", system_database_url=address, application_version="1", log_level="ERROR")
    DBOS(config=config)
    DBOS.launch()
    measured: dict[str, Any] = {"enqueue": number / await enqueue(address, number, callers)}
    measured["drain"] = number / await drain(number)
    measured["starts"] = []
    for _ in range(starts):
        await asyncio.sleep(0.02)
        called = time.perf_counter()
        handle = await DBOS.start_workflow_async(nothing, INPUTS)
        await handle.get_result()
        measured["starts"].append(begun[-1] - called)
    print(json.dumps(measured), flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main())
