"""What many callers at once, and a server that stops, must not do."""

import asyncio
import json

from tests.support.eventually import PATIENCE, eventually_async
from tests.support.invoking import write_action
from tests.support.opened import open_ledger


async def test_who_waits_for_an_execution_holds_nothing_of_its_body(tmp_path, serving, executor):
    write_action(tmp_path / "skills", "slow", tables='[inputs.text]\ntype = "string"\n')
    caller = await serving()
    executor.script = lambda _: asyncio.sleep(60)
    waiting = asyncio.create_task(caller.invoke("slow", {"text": "x" * 100_000}, {"Prefer": "wait=50"}))
    await executor.began()
    await eventually_async(lambda: caller.application.services.executions.bodies._held == 0)
    caller.application.close_streams()
    async with asyncio.timeout(PATIENCE):
        answer = await waiting
    assert (answer.status, answer.fields["preference-applied"]) == (202, "wait=50")


async def test_a_server_that_stops_answers_who_waits_at_once(tmp_path, serving, executor):
    write_action(tmp_path / "skills", "slow")
    caller = await serving()
    executor.script = lambda _: asyncio.sleep(60)
    accepted = await caller.invoke("slow")
    await executor.began()
    path = f"/executions/{accepted.json()['execution_id']}"
    polling = asyncio.create_task(caller.get(path, {"Prefer": "wait=50", "If-None-Match": '"none"'}))
    tag = (await caller.get(path)).fields["etag"]
    waiting = asyncio.create_task(caller.get(path, {"Prefer": "wait=50", "If-None-Match": tag}))
    streaming = asyncio.create_task(caller.get(path, {"Accept": "text/event-stream"}))
    await asyncio.sleep(0.1)
    caller.application.close_streams()
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(polling, waiting, streaming)
    assert [answer.status for answer in answers] == [200, 304, 200]
    assert json.loads(answers[2].body.decode().rpartition("data: ")[2].split("\n")[0])["status"] == "running"


async def test_a_server_takes_up_the_work_of_a_ledger_that_another_one_makes(tmp_path, serving, monkeypatch, home):
    monkeypatch.setattr("skillwire.server.executions._LEDGER_LOOK", 0.05)
    write_action(tmp_path / "skills", "sum-up")
    idle = await serving()
    assert not idle.application.services.executions._tasks
    assert not list(home.glob("**/*.db"))
    open_ledger().count()
    await eventually_async(lambda: idle.application.services.executions._tasks)
