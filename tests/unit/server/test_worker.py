"""What an executor gives or raises becomes of an execution, without holding up the loop."""

import asyncio
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from tests.support.eventually import eventually_async
from tests.support.invoking import failing, write_action
from tests.support.telemetry import recorded_spans

from skillwire.adapters.clock import moment
from skillwire.executions.callable_skill import OutputRules
from skillwire.model.execution import Claim, ExecutionSettings, Outcome
from skillwire.server import worker

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


async def test_what_is_claimed_while_late_executions_end_is_not_lost():
    running, held = [], []

    async def expire(*_, **__):
        running.append(Claim("exec-1", "worker", 1))
        return ()

    async def recover(_, **options):
        held.extend(options["held"])
        return ()

    ledger = SimpleNamespace(expire=expire, recover=recover)
    service: Any = SimpleNamespace(ledger=ledger, clock=moment, lease_expiries=0)
    assert not await worker.ExpiryTask(service, None).run(lambda: list(running))
    assert held == running != []


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


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def spans(monkeypatch):
    ended = recorded_spans(monkeypatch)

    async def named():
        """Return the spans by name, once the attempt's has ended."""
        await eventually_async(lambda: any(one.name.startswith("execute") for one in ended()))
        return {one.name: one for one in ended()}

    return named


async def test_the_worker_continues_the_trace_of_the_request_that_was_accepted(tmp_path, serving, spans):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    fields = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    accepted = await caller.invoke("sum-up", fields=fields)
    await caller.ended(accepted)
    found = await spans()
    await caller.application.shutdown()
    request, sent, attempt = (
        found[one] for one in ("POST /skills/{skill}/executions", "accept sum-up", "execute sum-up")
    )
    assert {f"{one.context.trace_id:032x}" for one in (request, sent, attempt)} == {TRACE}
    assert [f"{one.parent.span_id:016x}" for one in (request, sent, attempt)] == [
        SPAN,
        f"{request.context.span_id:016x}",
        f"{sent.context.span_id:016x}",
    ]
    assert [one.kind.name for one in (request, sent, attempt)] == ["SERVER", "PRODUCER", "CONSUMER"]
    attributes = {"http.request.method": "POST", "http.response.status_code": 202, "url.scheme": "http"}
    assert attributes.items() <= request.attributes.items()
    message = {
        "messaging.system": "skillwire",
        "messaging.destination.name": "sum-up",
        "messaging.message.id": accepted.json()["execution_id"][:-24],
    }
    assert message.items() <= sent.attributes.items()
    assert message.items() <= attempt.attributes.items()
    operations = [one.attributes["messaging.operation.type"] for one in (sent, attempt)]
    assert (operations, attempt.attributes["skillwire.execution.outcome"]) == (["send", "process"], "completed")


@pytest.mark.parametrize("trace_id", [TRACE, f"00-{TRACE}-{SPAN}-01"])
async def test_an_attempt_is_a_span_of_the_trace_that_its_caller_names(tmp_path, serving, spans, trace_id):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    await caller.ended(await caller.invoke("sum-up", context={"trace_id": trace_id}))
    span = (await spans())["execute sum-up"]
    await caller.application.shutdown()
    assert f"{span.context.trace_id:032x}" == TRACE


@pytest.mark.parametrize("trace_id", ["trace-9e8d7c6b", "0" * 32])
async def test_a_trace_of_another_form_is_an_attribute_and_a_failure_a_status(
    tmp_path, serving, executor, spans, trace_id
):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    executor.script = lambda _: failing()
    await caller.ended(await caller.invoke("sum-up", context={"trace_id": trace_id}))
    span = (await spans())["execute sum-up"]
    await caller.application.shutdown()
    assert span.attributes["skillwire.trace_id"] == trace_id
    assert span.parent is None
    assert span.status.status_code is trace.StatusCode.ERROR
    assert (span.status.description, span.attributes["error.type"]) == ("exception", "exception")


async def test_a_trace_goes_to_the_worker_without_the_library_too(tmp_path, serving, executor, monkeypatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    traceparent = f"00-{TRACE}-{SPAN}-01"
    await caller.ended(await caller.invoke("sum-up", fields={"traceparent": traceparent}))
    await caller.ended(await caller.invoke("sum-up"))
    assert [one.execution.trace_id for one in executor.attempts] == [traceparent, None]


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

    async def look(attempt):  # what an ended execution needed may be removed
        read = third.application.catalog.blobs.read
        assert all([await asyncio.to_thread(read, file.digest) is not None for file in attempt.skill.files])
        return Outcome(str(attempt.skill.artifact.digest))

    executor.script = look
    ended = await third.ended(accepted)
    now = third.application.catalog.current.everything.skills["sum-up"]
    assert ended.json()["status"] == "completed"
    assert ended.json()["output"] != str(now.artifact.digest)
    assert len(executor.attempts) == 1
