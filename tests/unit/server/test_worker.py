"""What an executor gives or raises becomes of an execution, without holding up the loop."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.invoking import failing, write_action

from skillwire.adapters.clock import moment
from skillwire.adapters.sqlite.database import Database
from skillwire.adapters.sqlite.open import open_ledger
from skillwire.errors import StorageError
from skillwire.executions.accept import ExecutionSettings
from skillwire.executions.inputs import OutputRules
from skillwire.model.execution import ExecutionStatus, Moment, Outcome, Quota
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


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter.get_finished_spans


@pytest.mark.parametrize("trace_id", [TRACE, f"00-{TRACE}-00f067aa0ba902b7-01"])
async def test_an_attempt_is_a_span_of_the_trace_that_its_caller_names(tmp_path, serving, spans, trace_id):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    accepted = await caller.invoke("sum-up", context={"trace_id": trace_id})
    await caller.ended(accepted)
    await caller.application.shutdown()
    (span,) = spans()
    assert f"{span.context.trace_id:032x}" == TRACE
    assert accepted.json()["execution_id"][:-24] == span.attributes["skillwire.execution.id"]
    assert span.attributes["skillwire.skill.name"] == "sum-up"
    assert span.attributes["skillwire.execution.outcome"] == "completed"


@pytest.mark.parametrize("trace_id", ["trace-9e8d7c6b", "0" * 32])
async def test_a_trace_of_another_form_is_an_attribute_and_a_failure_a_status(
    tmp_path, serving, executor, spans, trace_id
):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    executor.script = lambda _: failing()
    await caller.ended(await caller.invoke("sum-up", context={"trace_id": trace_id}))
    await caller.application.shutdown()
    (span,) = spans()
    assert span.attributes["skillwire.trace_id"] == trace_id
    assert span.parent is None
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == "exception"


async def test_a_trace_that_its_caller_does_not_record_is_not_recorded_here(tmp_path, serving, spans):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    await caller.ended(await caller.invoke("sum-up", context={"trace_id": f"00-{TRACE}-00f067aa0ba902b7-00"}))
    await caller.application.shutdown()
    assert spans() == ()


async def test_without_the_library_nothing_is_told(tmp_path, serving, spans, monkeypatch):
    monkeypatch.setattr(worker, "is_installed", False)
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    assert (await caller.ended(await caller.invoke("sum-up"))).json()["status"] == "completed"
    assert spans() == ()


ACCEPTING = ExecutionSettings(concurrency=0, grant_all=True)


def told(log, outcome):
    """Return of which executions and skills a log says this."""
    return {(entry["execution"], entry["skill"]) for entry in log if entry.get("outcome") == outcome}


async def until(is_so, seconds=10.0):
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)


async def begin(caller, executor, *names):
    """Call skills, and return their executions when all of them run."""
    answers = [await caller.invoke(name) for name in names]
    await until(lambda: len(executor.attempts) == len(names))
    return [answer.json()["execution_id"] for answer in answers]


async def test_leases_are_renewed_while_a_server_waits_for_what_runs(tmp_path, serving, executor):
    write_action(tmp_path / "skills", "once")
    caller = await serving(ExecutionSettings(grant_all=True, lease=0.4))

    async def slow(_):
        await asyncio.sleep(1.2)
        return Outcome("done")

    executor.script = slow
    (once,) = await begin(caller, executor, "once")
    ending = asyncio.ensure_future(caller.application.shutdown())
    lost: list[str] = []
    while not ending.done():
        lost += await asyncio.to_thread(lambda: open_ledger().recover(moment()))
        await asyncio.sleep(0.05)
    await ending
    assert lost == []
    ended = open_ledger().find(once)
    assert ended is not None
    assert ended.status is ExecutionStatus.COMPLETED


async def test_the_log_says_what_a_server_that_ends_waits_for_and_gives_up(tmp_path, serving, executor, monkeypatch):
    monkeypatch.setattr("skillwire.limits.SERVER_SHUTDOWN_SECONDS", 0.1)
    write_action(tmp_path / "skills", "once")
    write_action(tmp_path / "skills", "again", more="idempotent = true")
    caller = await serving()
    executor.script = lambda _: asyncio.sleep(60)
    once, again = await begin(caller, executor, "once", "again")
    with structlog.testing.capture_logs() as log:
        await caller.application.shutdown()
    [waiting] = [entry for entry in log if entry["event"] == "waiting for executions"]
    assert (waiting["number"], waiting["seconds"]) == (2, 0.1)
    assert told(log, "worker_lost") == {(once[:-24], "once")}
    assert told(log, "released") == {(again[:-24], "again")}


async def test_the_log_says_what_was_taken_from_others(tmp_path, serving):
    write_action(tmp_path / "skills", "once")
    write_action(tmp_path / "skills", "again", more="idempotent = true")
    write_action(tmp_path / "skills", "late")
    first = await serving(ACCEPTING)
    names = {name: (await first.invoke(name)).json()["execution_id"] for name in ("once", "again")}
    claimed = open_ledger().claim("gone", moment(), Quota(10, 10, lease=0.01), limit=2)
    assert {one.execution_id for one in claimed} == set(names.values())
    late = (await first.invoke("late")).json()["execution_id"]
    await first.application.shutdown()
    with open_ledger().database.writing() as connection:
        connection.execute("UPDATE executions SET deadline = 1 WHERE execution_id = ?", (late,))
    with structlog.testing.capture_logs() as log:
        await serving()
        await until(lambda: len({entry["outcome"] for entry in log if "outcome" in entry}) >= 3)
        await until(lambda: told(log, "deadline"))
        await until(lambda: told(log, "worker_lost") and told(log, "released"))
    assert told(log, "worker_lost") == {(names["once"][:-24], "once")}
    assert told(log, "released") == {(names["again"][:-24], "again")}
    assert told(log, "deadline") == {(late[:-24], "late")}


async def test_all_that_is_late_is_ended_in_one_sweep(tmp_path, serving, monkeypatch):
    write_action(tmp_path / "skills", "once")
    caller = await serving(ACCEPTING)
    for _ in range(7):
        await caller.invoke("once")
    desk = caller.application.services.executions.desk
    await caller.application.shutdown()
    monkeypatch.setattr("skillwire.adapters.sqlite.ledger.SWEPT_AT_ONCE", 2)
    monkeypatch.setattr(worker, "SWEPT_AT_ONCE", 2)
    now = moment()
    desk.clock = lambda: Moment(now.wall + 10_000_000, now.steady, now.boot)
    assert await worker.ExpiryTask(desk, lambda: None).run()
    assert desk.ledger.count() == {ExecutionStatus.TIMEOUT: 7}


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
    now = third.application.catalog.current.everything.skills["sum-up"]
    assert ended.json()["status"] == "completed"
    assert ended.json()["output"] != str(now.artifact.digest)
    (attempt,) = executor.attempts
    for file in attempt.skill.files:
        assert third.application.catalog.blobs.read(file.digest) is not None, file.path


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


@pytest.fixture
def disk(monkeypatch):
    """Return an event: while it is set, there is room on the disk."""
    room, writing = asyncio.Event(), Database.writing
    room.set()

    @contextmanager
    def guarded(database):
        if not room.is_set():
            raise StorageError("DATABASE", "database or disk is full")
        with writing(database) as connection:
            yield connection

    monkeypatch.setattr(Database, "writing", guarded)
    return room


@pytest.fixture
def report(tmp_path):
    write_action(tmp_path / "skills", "report")


@pytest.mark.usefixtures("report")
@pytest.mark.parametrize("ending", [(Outcome("done"), "completed"), (failing(), "failed")])
async def test_what_came_of_an_attempt_is_written_when_there_is_room_again(serving, executor, disk, ending):
    outcome, status = ending
    caller = await serving()

    async def fill():
        disk.clear()
        return outcome

    executor.script = lambda _: fill()
    accepted = await caller.invoke("report")
    await executor.began()
    await asyncio.sleep(0.1)
    assert (await caller.invoke("report")).status == 503
    running = await caller.get(f"/executions/{accepted.json()['execution_id']}")
    assert running.json()["status"] == "running"
    disk.set()
    assert (await caller.ended(accepted)).json()["status"] == status
    assert len(executor.attempts) == 1
