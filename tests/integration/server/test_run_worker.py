"""Servers that share a ledger: each runs what it accepted, by its own configuration and with its own secrets."""

import asyncio
from dataclasses import replace

from tests.support.invoking import write_action

from skillwire.model.execution import ExecutionSettings

ALL = ExecutionSettings(grant_all=True)


async def status_of(caller, answer):
    return (await caller.get(f"/executions/{answer.json()['execution_id']}")).json()["status"]


async def test_a_server_of_another_configuration_runs_nothing_of_it(tmp_path, serving, executor):
    write_action(tmp_path / "skills", "sum-up")
    first = await serving(replace(ALL, concurrency=0, queue="/srv/a.toml"))
    waits = await first.invoke("sum-up", {})
    other = await serving(ALL)
    assert (await other.ended(await other.invoke("sum-up", {}))).json()["status"] == "completed"
    await asyncio.sleep(0.6)  # it looks for work that nobody told it of
    assert await status_of(first, waits) == await status_of(other, waits) == "accepted"
    assert [attempt.execution.queue for attempt in executor.attempts] == [""]
    again = await serving(replace(ALL, queue="/srv/a.toml"))
    assert (await again.ended(waits)).json()["status"] == "completed"
    assert executor.attempts[-1].execution.queue == "/srv/a.toml"
