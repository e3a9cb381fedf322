"""Runs: what is executed by name, for whom, with which blobs; and what becomes of it."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.executions import claim_of
from tests.support.invoking import write_action
from tests.support.publishing import write_skill
from tests.support.rpc import ANNA, BERT, CODE, ON, Site, held_back

from skillwire.adapters.stores import open_stores
from skillwire.errors import ConflictError, NotFoundError
from skillwire.model.execution import ExecutionQuery, ExecutionSettings, ExecutionStatus, Outcome, RunSettings
from skillwire.protocols.skills_rpc.messages import ReadBlob
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.routes.mcp import McpBackend, McpCaller
from skillwire.server.runs import result_of


@pytest.fixture
async def site(tmp_path, serving):
    write_action(tmp_path / "skills", "leads-sync", tables='[inputs.sheet]\ntype = "blob"\ndescription = "A sheet."')
    write_skill(tmp_path / "skills", "read-me")

    async def serve(runs=ON, settings=None):
        return Site(await serving(settings, ServerConfiguration(runs=runs)))

    return serve


async def test_a_person_does_what_a_person_does_within_the_time_of_a_run(tmp_path, site):
    folder = write_action(tmp_path / "skills", "approve")
    (folder / "skill.toml").write_text('kind = "action"\n[executor]\nkind = "human"\n')
    site = await site(settings=ExecutionSettings(longest=100.0))
    waiting = asyncio.create_task(site.execute("acme.approve"))
    found = await eventually_async(site.desk.ledger.waiting)
    assert found == {ANNA: 1}
    (task,) = (await site.desk.ledger.search(ExecutionQuery())).executions
    assert task.timeout == 100.0
    held = await site.desk.take_task(task.execution_id, "ann")
    await site.desk.complete_task(claim_of(held), {"ok": True})
    assert (await waiting).output == {"ok": True}


async def test_a_summary_tells_what_a_run_took_from_what_it_waited(site, executor):
    site = await site(settings=ExecutionSettings(concurrency=1, grant_all=True))
    release = asyncio.Event()

    async def wait(_):
        await release.wait()
        return Outcome(1)

    executor.script = wait
    first = asyncio.create_task(site.code())
    await executor.began()
    executor.script = lambda _: Outcome(1)
    second = asyncio.create_task(site.code("# another\n" + CODE))
    await eventually_async(site.desk.ledger.waiting, lambda found: found == {ANNA: 2})
    release.set()
    run_ids = [(await run).run_id for run in (first, second)]
    ended, waited = [await site.desk.ledger.find(run_id) for run_id in run_ids]
    began = next(event.at for event in waited.timeline if event.what == "claim")
    assert waited.created <= ended.completed <= began <= waited.completed  # its wait is no part of the run

    async def told(wait):
        moved = replace(waited, created=began - wait, completed=began + 0.25)
        return (await result_of(site.desk, moved, "the code")).summary

    assert await told(1.5) == "the code completed in 0.25 s after waiting 1.50 s for its turn"
    assert await told(1.0) == await told(0.0) == "the code completed in 0.25 s"


async def test_a_blob_is_held_until_the_deadline_of_the_run_that_waits_for_it(site, executor):
    runs = RunSettings(run_code=True, blob_seconds=600.0)
    site = await site(runs, ExecutionSettings(per_caller=1, grant_all=True, longest=3600.0))
    release = asyncio.Event()

    async def wait(attempt):
        await release.wait()
        return Outcome(len(attempt.execution.attachments.blobs))

    executor.script = wait
    first = asyncio.create_task(site.code())
    await executor.began()
    held, other = await site.blob("held"), await site.blob("other")
    second = asyncio.create_task(site.code(args={"x": held}))
    await eventually_async(site.desk.ledger.waiting, lambda found: found == {ANNA: 2})
    swept = await open_stores().run_blobs(runs).expire(time.time() + 3600.0)
    release.set()
    assert swept == 1
    assert ((await first).output, (await second).output) == (0, 1)
    assert (await site.runs.blobs.read(ANNA, ReadBlob(blob_id=held))).content == "held"
    with pytest.raises(NotFoundError):
        await site.runs.blobs.read(ANNA, ReadBlob(blob_id=other))


async def test_a_run_outlives_its_server_and_whoever_waited(tmp_path, serving, executor):
    on = ServerConfiguration(runs=ON)
    write_action(tmp_path / "skills", "leads-sync")
    first = Site(await serving(ExecutionSettings(concurrency=0), on))
    blob = await first.blob()
    waiting = asyncio.create_task(first.code("code = 1", {"x": blob}, mount_skills=("acme.leads.sync",)))
    await eventually_async(first.desk.ledger.waiting)
    waiting.cancel()
    await first.application.shutdown()
    looked_at = asyncio.Event()

    async def wait(_):  # what nothing runs any more may be removed
        await looked_at.wait()
        return Outcome({})

    executor.script = wait
    (tmp_path / "skills" / "leads-sync" / "main.py").write_text("changed = True")
    second = Site(await serving(None, on))
    async with asyncio.timeout(PATIENCE):
        await executor.began()
    (attempt,) = executor.attempts
    given = attempt.execution.attachments
    assert (given.code, given.blobs) == ("code = 1", (f"sha256:{blob.removeprefix('blob:')}",))
    for file in attempt.mounts["acme.leads.sync"].files:
        assert await asyncio.to_thread(second.application.catalog.blobs.read, file.digest) is not None, file.path
    looked_at.set()


async def test_code_that_waits_is_not_run_where_the_operator_took_that_back(tmp_path, serving, executor):
    write_action(tmp_path / "skills", "leads-sync")
    first = Site(await serving(ExecutionSettings(concurrency=0), ServerConfiguration(runs=ON)))
    waiting = asyncio.create_task(first.code())
    await eventually_async(lambda: first.desk.ledger.search(ExecutionQuery()), lambda found: found.executions)
    (execution,) = (await first.desk.ledger.search(ExecutionQuery())).executions
    waiting.cancel()
    await first.application.shutdown()
    second = Site(await serving(None, ServerConfiguration(runs=RunSettings(execute_skill=True))))
    found = await eventually_async(
        lambda: second.desk.ledger.find(execution.execution_id), lambda found: found.status.is_final
    )
    failure = found.failure
    assert (failure.reason, failure.message[-38:]) == ("not_granted", "at the server that took this execution")
    assert executor.attempts == []


async def test_one_caller_does_not_send_all_at_once(site, monkeypatch):
    monkeypatch.setattr("skillwire.limits.BLOB_UPLOADS_OWNER", 2)
    site = await site()
    go_on, waiting = asyncio.Event(), []

    async def slow():
        yield b"x" * 20_000
        waiting.append(1)
        await go_on.wait()

    slow_ones = [asyncio.create_task(site.runs.blobs.receive(ANNA, "text/plain", slow())) for _ in range(2)]
    await eventually_async(lambda: len(waiting) == 2)
    with pytest.raises(ConflictError, match="BLOB_ROOM"):
        await site.blob()
    assert await site.blob(owner=BERT)
    go_on.set()
    await asyncio.gather(*slow_ones)
    assert await site.blob()


async def test_who_sends_next_to_nothing_takes_no_place(site, monkeypatch):
    monkeypatch.setattr("skillwire.limits.BLOB_UPLOADS", 1)
    site = await site()
    go_on, waiting = asyncio.Event(), []

    async def stalled():
        yield b"x"
        waiting.append(1)
        await go_on.wait()

    stalled_ones = [
        asyncio.create_task(site.runs.blobs.receive(f"address 192.0.{number}.1", "text/plain", stalled()))
        for number in range(4)
    ]
    await eventually_async(lambda: len(waiting) == 4)
    assert await site.blob()
    for one in stalled_ones:
        one.cancel()
    await asyncio.gather(*stalled_ones, return_exceptions=True)
    assert await site.blob(owner="address 192.0.2.1")


async def test_a_call_over_mcp_that_is_cancelled_while_it_is_written_leaves_no_run(site, executor):
    site = await site()
    executor.script = lambda _: asyncio.sleep(60)
    skill = site.audience.usable.skills["leads-sync"]
    with held_back(site.desk) as (waits, go_on):
        unused: Any = None
        backend = McpBackend(unused, unused, site.runs, unused, set())
        caller = McpCaller(site.audience, unused, ANNA, backend)
        waiting = asyncio.create_task(caller.call(skill, {}, 20.0))
        await waits.wait()
        waiting.cancel()
        await asyncio.sleep(0.05)
        waiting.cancel()  # as a server does that stops
        await asyncio.sleep(0.05)
        go_on.set()
        await asyncio.gather(waiting, return_exceptions=True)
    ended = ExecutionQuery(statuses=(ExecutionStatus.FAILED,))
    await eventually_async(lambda: site.desk.ledger.search(ended), lambda found: found.executions)
    assert len((await site.desk.ledger.search(ExecutionQuery())).executions) == 1
