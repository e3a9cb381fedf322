"""A process that does things to a ledger, for tests in which several do: ``python ledger_child.py FOLDER``.

It opens the ledger, says ``ready``, reads a line of JSON with what it is to do, and writes what came of it, as JSON.
"""

import asyncio
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sql.blobs import FileOutputs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.errors import StorageError
from skillwire.model.execution import Accepted, Claim, Event, Execution, Moment, NewExecution, Quota

sys.path.insert(0, str(Path(__file__).parents[2]))  # it is run as a program
from tests.support.opened import BlockingLedger  # from there

QUOTA = Quota(per_caller=10_000, per_skill=10_000)


def main() -> None:
    folder = Path(sys.argv[1])
    database = AsyncDatabase(Database(folder / "skillwire.db"))
    ledger = BlockingLedger(SqlLedger(database, FileOutputs(FileBlobs(folder / "outputs", durable=True))))
    ledger.count()
    say("ready")
    order = json.loads(sys.stdin.readline())
    say(json.dumps(ORDERS[order.pop("do")](ledger, **order)))


def say(line: str) -> None:
    """Tell whoever began this process."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def claim_all(ledger: BlockingLedger, worker: str, now: list[Any]) -> list[str]:
    """Claim one after the other, until there are no more."""
    mine: list[str] = []
    while claimed := ledger.claim(worker, Moment(*now), QUOTA, limit=2):
        mine += [execution.execution_id for execution in claimed]
    return mine


def cancel_all(ledger: BlockingLedger, ids: list[str], now: list[Any]) -> dict[str, str]:
    """Cancel each; return how each is then."""
    found = {execution_id: ledger.cancel(execution_id, "anna", Moment(*now)) for execution_id in ids}
    return {execution_id: one.status for execution_id, one in found.items() if one}


def complete_all(ledger: BlockingLedger, claims: list[list[Any]], now: list[Any]) -> list[str]:
    """Complete each; return those of which it counted."""
    mine = [Claim(*claim) for claim in claims]
    return [claim.execution_id for claim in mine if ledger.complete(claim, b"1", Moment(*now))]


def expire_often(ledger: BlockingLedger, nows: list[list[Any]]) -> list[str]:
    return [execution_id for now in nows for execution_id in ledger.expire(Moment(*now))]


def recover_often(ledger: BlockingLedger, nows: list[list[Any]]) -> list[str]:
    """Take up what is lost, at each of these moments."""
    return [execution_id for now in nows for execution_id in ledger.recover(Moment(*now))]


def fill(ledger: BlockingLedger, room: int | None, number: int) -> dict[str, Any]:
    """Accept as many as there is room on the disk for, and more; then, where ``room`` was a limit, without it."""
    return asyncio.run(_fill(ledger.wrapped, room, number))


async def _fill(ledger: SqlLedger, room: int | None, number: int) -> dict[str, Any]:
    accepted: list[str] = []
    refused: list[str] = []

    async def accept(name: str) -> None:
        try:
            (stored,) = await ledger.accept_all([NewExecution(large_execution(name))])
        except StorageError:
            stored = None
        (accepted if isinstance(stored, Accepted) else refused).append(name)

    async def accept_many(prefix: str) -> None:
        for start in range(0, number, 16):
            await asyncio.gather(*[accept(f"exec-{prefix}{n}") for n in range(start, start + 16)])

    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    await accept_many("full-")
    was_refused = len(refused)
    still_readable = all([await ledger.find(name) is not None for name in accepted])
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await accept_many("more-")
    await ledger.close()
    return {"accepted": accepted, "refused": refused, "first": was_refused, "readable": still_readable}


def large_execution(name: str) -> Execution:
    """Return one that needs some pages."""
    event = Event(1e6, "accept", "anna")
    fields: dict[str, Any] = {"executor": "python", "caller": "anna", "caller_id": "anna", "caller_type": "agent"}
    return Execution(
        execution_id=name,
        skill="book",
        skill_id="acme.book",
        version="1.0.0",
        digest="sha256:0",
        inputs=b"x" * 8_000,
        created=1e6,
        updated=1e6,
        deadline=2e6,
        timeout=1e6,
        turn=1e6,
        timeline=(event,),
        **fields,
    )


ORDERS: dict[str, Callable[..., Any]] = {
    "claim": claim_all,
    "cancel": cancel_all,
    "complete": complete_all,
    "expire": expire_often,
    "recover": recover_often,
    "fill": fill,
}

if __name__ == "__main__":
    main()
