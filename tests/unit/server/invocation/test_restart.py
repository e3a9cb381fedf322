"""What was accepted outlives the server, and the skill as it was then."""

import asyncio
import threading
import time

from tests.support.invoking import write_action

from skillwire.adapters.sqlite.ledger import SqliteLedger
from skillwire.adapters.sqlite.open import open_ledger
from skillwire.invocation.settings import ExecutionSettings
from skillwire.model.execution import ExecutionStatus, Outcome

ACCEPTING = ExecutionSettings(concurrency=0, grant_all=True)


async def test_a_restarted_server_runs_what_was_accepted_as_it_was_published_then(tmp_path, serving, executor):
    folder = write_action(tmp_path / "skills", "sum-up", files={"main.py": "def main(args):\n    return 1\n"})
    first = await serving(ACCEPTING)
    accepted = await first.invoke("sum-up")
    await first.application.shutdown()
    (folder / "main.py").write_text("def main(args):\n    return 2\n")
    second = await serving(ACCEPTING)
    assert (await second.get(f"/executions/{accepted.json()['execution_id']}")).json()["status"] == "accepted"
    await second.application.shutdown()
    third = await serving()
    executor.script = lambda attempt: Outcome(str(attempt.skill.artifact.digest))
    ended = await third.ended(accepted)
    now = third.application.publication.current.everything.skills["sum-up"]
    assert ended.json()["status"] == "completed"
    assert ended.json()["output"] != str(now.artifact.digest)
    (attempt,) = executor.attempts
    for file in attempt.skill.files:
        assert third.application.publication.blobs.read(file.digest) is not None, file.path


async def test_a_server_that_ends_finishes_gives_back_or_fails_what_runs(tmp_path, serving, executor, monkeypatch):
    monkeypatch.setattr("skillwire.limits.SERVER_SHUTDOWN_SECONDS", 0.1)
    write_action(tmp_path / "skills", "once")
    write_action(tmp_path / "skills", "again", more="idempotent = true")
    caller = await serving()
    executor.script = lambda _: asyncio.sleep(60)
    once, again = await caller.invoke("once"), await caller.invoke("again")
    async with asyncio.timeout(10):
        while len(executor.attempts) < 2:  # noqa: ASYNC110  # the executor counts, and wakes nobody
            await asyncio.sleep(0.01)
    await caller.application.shutdown()
    executor.script = lambda _: Outcome("done")
    later = await serving()
    lost = await later.ended(once)
    assert lost.json()["error"]["details"]["reason"] == "worker_lost"
    assert (await later.ended(again)).json()["output"] == "done"


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
