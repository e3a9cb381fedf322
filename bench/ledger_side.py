"""Our side of ``ledger.py``: ``python bench/ledger_side.py FOLDER NUMBER STARTS CALLERS``; prints a line of JSON.

It runs the server's execution service and worker without HTTP, with an executor that does nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
import uvloop

from ledgers import open_ledger
from skillwire.adapters.clock import moment
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.executions.callable_skill import Invocation
from skillwire.model.digest import Digest
from skillwire.model.execution import ExecutionSettings, ExecutionStatus, Outcome
from skillwire.model.skill import Action, Artifact, Identifiers, SharedInput, Sharing, Skill, SkillFile
from skillwire.protocols.skill_sharing.messages import Caller, InvocationRequest
from skillwire.server.execution_service import CallableSkills, ExecutionService
from skillwire.server.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.sql.ledger import SqlLedger
    from skillwire.model.execution import Attempt
    from skillwire.model.skill import ExecutorKind

CONCURRENCY: Final = 32
SETTINGS: Final = ExecutionSettings(
    concurrency=CONCURRENCY, per_caller=1_000_000, per_skill=1_000_000, waiting=1_000_000, grant_all=True
)
INPUTS: Final = {"restaurant": "Chez Louise", "date": "2026-11-21", "time": "19:30", "guests": 4, "name": "Anna"}
_DIGEST: Final = Digest("sha256:" + "5" * 64)
SKILL: Final = Skill(
    publisher="acme",
    name="book-table",
    version="1.0.0",
    description="Books a table.",
    files=(SkillFile("SKILL.md", 100, _DIGEST),),
    artifact=Artifact("skill-md", "text/markdown", ".md", 100, _DIGEST),
    identifiers=Identifiers("acme/book-table", "book-table", "acme.book-table"),
    sharing=Sharing(
        "Book a table",
        "Books a table.",
        "1.0.0",
        "plugin",
        inputs=tuple(SharedInput(name, "number" if name == "guests" else "string", name) for name in INPUTS),
    ),
    kind="action",
    action=Action("function", idempotent=True),
)


class Nothing:
    """An executor that does nothing, and notes when it last began."""

    def __init__(self) -> None:
        self.began = 0.0
        self.has_begun = asyncio.Event()

    async def execute(self, attempt: Attempt) -> Outcome:
        """Give the inputs back."""
        self.began = time.perf_counter()
        self.has_begun.set()
        return Outcome(attempt.inputs)


async def _may_run(_: Skill) -> bool:
    return True


class Side:
    """A desk and a worker, with a ledger that is in ``folder`` unless another one is given."""

    def __init__(self, folder: Path, ledger: SqlLedger | None = None) -> None:
        self.ledger = ledger or open_ledger(folder)
        self.desk = ExecutionService(
            self.ledger,
            settings=SETTINGS,
            clock=moment,
            log_accepted=False,
        )
        offers = CallableSkills(FileBlobs(folder / "blobs"))
        offer = offers.of(SKILL)
        assert offer is not None
        self.offer = offer
        self.executor = Nothing()
        executors: dict[ExecutorKind, Callable[[], Nothing]] = {"function": lambda: self.executor}
        self.worker = Worker(self.desk, executors, offers, _may_run, functions={str(SKILL.artifact.digest)})

    async def accept(self) -> str:
        """Accept one as a POST does; return its ID when it is on the disk."""
        request = InvocationRequest(
            caller=Caller(id="agent-7", type="agent"), skill_id=self.offer.skill_id, inputs=INPUTS
        )
        invocation = Invocation(request, "principal agent-7", time.time())
        return (await self.desk.accept(self.offer, invocation)).execution.execution_id

    async def enqueue(self, number: int, callers: int) -> float:
        """Return how many seconds it takes to accept so many."""
        await self.accept()  # with the first one the skill is kept
        left = iter(range(number))

        async def call() -> None:
            for _ in left:
                await self.accept()

        began = time.perf_counter()
        await asyncio.gather(*[call() for _ in range(callers)])
        return time.perf_counter() - began

    async def drain(self, number: int) -> float:
        """Begin the worker; return how many seconds it takes to run so many."""
        self.working = asyncio.create_task(self.worker.work())
        began = time.perf_counter()
        while (await self.ledger.count()).get(ExecutionStatus.COMPLETED, 0) < number:  # noqa: ASYNC110  # as a caller sees it
            await asyncio.sleep(0.01)
        return time.perf_counter() - began

    async def start(self) -> float:
        """Return how many seconds it takes from the call to the beginning of the run, while nothing else is done."""
        self.executor.has_begun.clear()
        called = time.perf_counter()
        await self.accept()
        await self.executor.has_begun.wait()
        return self.executor.began - called


async def main() -> None:
    """Do the work."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    folder, number, starts, callers = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    side = Side(folder)
    measured: dict[str, Any] = {
        "enqueue": number / await side.enqueue(number, callers),
        "drain": number / await side.drain(number + 1),
        "starts": [],
    }
    for _ in range(starts):
        await asyncio.sleep(0.02)
        measured["starts"].append(await side.start())
    await side.worker.stop(1)
    await side.working
    await side.ledger.close()
    print(json.dumps(measured))


if __name__ == "__main__":
    uvloop.run(main())
