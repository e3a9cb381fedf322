"""Ledgers for benches: realistic executions, and the invariants of every ledger."""

from __future__ import annotations

import secrets
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.clock import moment
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sql.blobs import FileOutputs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.executions.callable_skill import queue_position
from skillwire.executions.states import STATES
from skillwire.model.execution import Event, Execution, ExecutionQuery, ExecutionStatus, Priority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from skillwire.executions.states import Transition

DIGEST: Final = "sha256:" + "5" * 64
INPUTS: Final = b'{"restaurant":"Chez Louise","date":"2026-11-21","time":"19:30","guests":4,"name":"Anna","notes":""}'
TIMEOUT: Final = 3600.0
FAILED: Final = {ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT}
_PAGE: Final = 1_000


def open_ledger(folder: Path) -> SqlLedger:
    """Return the ledger in ``folder``, as servers and workers open it."""
    database = AsyncDatabase(Database(folder / "skillwire.db"))
    return SqlLedger(database, FileOutputs(FileBlobs(folder / "outputs", durable=True)))


def make_execution(number: int, *, is_repeatable: bool = True, max_attempts: int = 3) -> Execution:
    """Return an execution that is accepted now; ``number`` decides its caller, its skill and its priority."""
    now = moment().wall
    priority = list(Priority)[number % 3]
    return Execution(
        execution_id=f"exec-{secrets.token_hex(16)}",
        skill=f"book-table-{number % 7}",
        skill_id=f"acme.book-table-{number % 7}",
        version="1.2.0",
        digest=DIGEST,
        executor="python",
        caller=f"principal agent-{number % 11}",
        caller_id=f"agent-{number % 11}",
        caller_type="agent",
        inputs=INPUTS,
        created=now,
        updated=now,
        deadline=now + TIMEOUT,
        timeout=TIMEOUT,
        turn=queue_position(priority, now),
        priority=priority,
        trace_id=f"trace-{number}",
        max_attempts=max_attempts,
        backoff=0.01,
        is_repeatable=is_repeatable,
        timeline=(Event(now, "accept", f"agent-{number % 11}"),),
    )


def has_lost_too_many(execution: Execution) -> bool:
    """Whether so many of its workers were lost that it is not run again, though it may be."""
    losses = sum(event.what in {"lose", "abandon"} for event in execution.timeline)
    return losses >= limits.EXECUTION_LOSSES


async def all_of(ledger: SqlLedger) -> AsyncIterator[Execution]:
    """Yield every execution, newest first."""
    after = None
    while True:
        page = await ledger.search(ExecutionQuery(limit=_PAGE, after=after))
        for execution in page.executions:
            yield execution
        after = page.after
        if after is None:
            return


async def found_in(folder: Path) -> list[Execution]:
    """Return every execution of the ledger in a folder, newest first."""
    ledger = open_ledger(folder)
    found = [execution async for execution in all_of(ledger)]
    await ledger.close()
    return found


async def flaws_of(folder: Path, *, ended: bool) -> Counter[str]:
    """Return what is wrong with a ledger; nothing, if it is as it must be.

    Args:
        folder: of the ledger; nothing writes to it.
        ended: whether every execution should have ended.
    """
    flaws: Counter[str] = Counter()
    with closing(sqlite3.connect(folder / "skillwire.db")) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            flaws["the database is damaged"] += 1
    ledger = open_ledger(folder)
    async for execution in all_of(ledger):
        has_output = await ledger.output(execution) is not None
        flaws.update(_flaws_of_execution(execution, ended=ended, has_output=has_output))
    await ledger.close()
    return flaws


def _flaws_of_execution(execution: Execution, *, ended: bool, has_output: bool) -> Iterator[str]:
    status: ExecutionStatus | None = ExecutionStatus.ACCEPTED
    first, *rest = execution.timeline
    if first.what != "accept":
        yield "a timeline does not begin with the beginning"
    for event in rest:
        what: Transition = event.what  # type: ignore[assignment]  # what else it may be is found in no table
        status = status and STATES.get((status, what))
    if status is not execution.status:
        yield "a timeline is not one of the state table"
    if sum(event.what == "claim" for event in rest) != execution.attempt:
        yield "an attempt was not counted"
    if execution.attempt > execution.max_attempts:
        yield "too many attempts"
    if ended and not execution.status.is_final:
        yield "an execution has not ended"
    if (execution.completed is not None) is not execution.status.is_final:
        yield "an execution has the time of an end without one, or none with one"
    if execution.status is ExecutionStatus.COMPLETED and not has_output:
        yield "an output is missing"
    if (execution.failure is not None) is not (execution.status in FAILED):
        yield "an execution that failed does not say why, or one that did not does"
