"""Calling a skill over HTTP: accepted, followed, taken back. Spec: SSP §5, §7, §8, §10."""

import asyncio
import json

import pytest
from tests.support.eventually import PATIENCE
from tests.support.invoking import write_action

from skillwire.adapters.clock import moment
from skillwire.model.execution import Outcome

INPUTS = """
[inputs.text]
type = "string"
description = "What is summed up."
required = true
[inputs.max_length]
type = "number"
description = "How long the summary is."
default = 100
"""


@pytest.fixture
def skills(tmp_path):
    folder = tmp_path / "skills"
    write_action(folder, "sum-up", tables=INPUTS)
    return folder


@pytest.mark.usefixtures("skills")
async def test_cancelling_ends_what_runs_and_is_told_as_ours(serving, executor):
    caller = await serving()
    executor.script = lambda _: asyncio.sleep(60)
    accepted = await caller.invoke("sum-up", {"text": "a"})
    path = f"/executions/{accepted.json()['execution_id']}"
    await executor.began()
    cancelled = await caller.request(path, method="DELETE")
    assert cancelled.status == 200
    assert cancelled.json()["status"] == "failed"
    assert cancelled.json()["error"]["code"] == "EXECUTION_FAILED"
    assert cancelled.json()["error"]["details"] == {"reason": "cancelled"}
    async with asyncio.timeout(PATIENCE):
        await executor.cancelled.wait()
    assert (await caller.request(path, method="DELETE")).json() == cancelled.json()


@pytest.mark.usefixtures("skills")
async def test_the_least_of_all_time_limits_ends_an_execution(serving, executor):
    caller = await serving()
    desk, now = caller.application.services.executions.service, moment()
    desk.clock = lambda: moment()._replace(wall=now.wall)  # however late the worker begins, its time is not over
    executor.script = lambda _: asyncio.sleep(60)
    ended = await caller.ended(await caller.invoke("sum-up", {"text": "a"}, context={"timeout_ms": 200}))
    assert ended.json()["status"] == "timeout"
    error = ended.json()["error"]
    assert (error["code"], error["message"]) == ("INVOCATION_TIMEOUT", "Skill execution timed out after 200ms")
    assert error["details"]["timeout_ms"] == 200
    assert error["retry"] == {"suggested_delay_ms": 1000, "max_attempts": 3}
    async with asyncio.timeout(PATIENCE):
        await executor.cancelled.wait()


@pytest.mark.usefixtures("skills")
async def test_polls_carry_tags_and_pauses_and_can_wait(serving, executor):
    caller = await serving()
    gate = asyncio.Event()

    async def wait():
        await gate.wait()
        return Outcome(1)

    executor.script = lambda _: wait()
    accepted = await caller.invoke("sum-up", {"text": "a"})
    path = f"/executions/{accepted.json()['execution_id']}"
    await executor.began()
    running = await caller.get(path)
    assert running.json()["status"] == "running"
    assert running.fields["retry-after"] == "1"
    tag = {"If-None-Match": running.fields["etag"]}
    assert (await caller.get(path, tag)).status == 304
    assert (await caller.get(f"{path}/result")).status == 202
    waiting = asyncio.create_task(caller.get(path, {**tag, "Prefer": "wait=20"}))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    gate.set()
    async with asyncio.timeout(PATIENCE):
        answer = await waiting
    assert answer.json()["output"] == 1
    assert answer.fields["preference-applied"] == "wait=20"
    assert "retry-after" not in answer.fields


@pytest.mark.usefixtures("skills")
async def test_a_stream_tells_each_change_until_the_end(serving, executor):
    caller = await serving()
    executor.script = lambda _: asyncio.sleep(0.1, Outcome("out"))
    accepted = await caller.invoke("sum-up", {"text": "a"})
    async with asyncio.timeout(PATIENCE):
        answer = await caller.get(f"/executions/{accepted.json()['execution_id']}", {"Accept": "text/event-stream"})
    assert answer.fields["content-type"] == "text/event-stream"
    events = [event for event in answer.body.decode().split("\n\n") if event.startswith("event: status")]
    statuses = [json.loads(event.partition("data: ")[2])["status"] for event in events]
    assert statuses[-1] == "completed"
    assert statuses == sorted(set(statuses), key=["accepted", "running", "completed"].index)
