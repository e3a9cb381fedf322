"""What an executor gives or raises becomes of an execution, without holding up the loop."""

from __future__ import annotations

import asyncio
import threading
import time

from tests.support.invoking import write_action

from skillwire.adapters.sqlite.ledger import SqliteLedger
from skillwire.adapters.sqlite.open import open_ledger
from skillwire.model.execution import ExecutionStatus


async def test_what_is_being_claimed_while_the_server_ends_is_run_and_waited_for(
    tmp_path, serving, executor, monkeypatch
):
    write_action(tmp_path / "skills", "once")
    claiming, claim = threading.Event(), SqliteLedger.claim

    def slowly(*arguments, **options):
        claiming.set()
        time.sleep(0.3)
        return claim(*arguments, **options)

    caller = await serving()
    monkeypatch.setattr(SqliteLedger, "claim", slowly)
    accepted = await caller.invoke("once")
    claiming.clear()
    await asyncio.to_thread(claiming.wait, 10)
    await caller.application.shutdown()
    execution = open_ledger().find(accepted.json()["execution_id"])
    assert execution is not None
    assert execution.status in {ExecutionStatus.ACCEPTED, ExecutionStatus.COMPLETED}
    assert len(executor.attempts) == (execution.status is ExecutionStatus.COMPLETED)
