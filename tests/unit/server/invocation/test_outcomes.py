"""What an executor gives or raises becomes of an execution, without holding up the loop."""

import asyncio
import threading

from tests.support.invoking import write_action

from skillwire.invocation.inputs import OutputRules
from skillwire.model.execution import Outcome

OUTPUT = '[output]\ntype = "array"\n[output.schema]\ntype = "array"\n'


async def test_an_executor_that_says_it_was_cancelled_has_failed_once(tmp_path, serving, executor):
    async def cancelled():
        raise asyncio.CancelledError

    write_action(tmp_path / "skills", "again", more="idempotent = true")
    caller = await serving()
    executor.script = lambda _: cancelled()
    ended = (await caller.ended(await caller.invoke("again"))).json()
    assert ended["error"]["details"]["reason"] == "exception"
    assert len(executor.attempts) == 1


async def test_a_large_output_is_held_against_its_schema_in_a_thread(tmp_path, serving, executor, monkeypatch):
    threads, find = [], OutputRules.find_flaw

    def look(self, value):
        threads.append(threading.current_thread() is threading.main_thread())
        return find(self, value)

    monkeypatch.setattr(OutputRules, "find_flaw", look)
    write_action(tmp_path / "skills", "list", tables=OUTPUT)
    caller = await serving()
    for size in (10, 100_000):
        executor.script = lambda _, size=size: Outcome([1] * size)
        assert (await caller.ended(await caller.invoke("list"))).json()["status"] == "completed"
    assert threads == [True, False]
