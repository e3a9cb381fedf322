"""What an executor gives or raises becomes of an execution, without holding up the loop."""

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest
import structlog
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.invoking import failing, write_action
from tests.support.opened import open_database, open_ledger

from skillwire.adapters.clock import moment
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sqlite.database import Database
from skillwire.errors import StorageError
from skillwire.model.execution import ExecutionSettings, ExecutionStatus, Moment, Outcome, Quota
from skillwire.server import worker


async def test_what_is_being_claimed_while_the_server_ends_is_run_and_waited_for(
    tmp_path, serving, executor, monkeypatch
):
    write_action(tmp_path / "skills", "once")
    claiming, claim = threading.Event(), SqlLedger.claim

    def slowly(*arguments, **options):
        claiming.set()
        time.sleep(0.3)
        return claim(*arguments, **options)

    caller = await serving()
    monkeypatch.setattr(SqlLedger, "claim", slowly)
    accepted = await caller.invoke("once")
    claiming.clear()
    await asyncio.to_thread(claiming.wait, PATIENCE)
    await caller.application.shutdown()
    execution = open_ledger().find(accepted.json()["execution_id"])
    assert execution is not None
    assert execution.status in {ExecutionStatus.ACCEPTED, ExecutionStatus.COMPLETED}
    assert len(executor.attempts) == (execution.status is ExecutionStatus.COMPLETED)


def told(log, outcome):
    return {(entry["execution"], entry["skill"]) for entry in log if entry.get("outcome") == outcome}


async def begin(caller, executor, *names):
    """Call skills, and return the answers when all of them run."""
    answers = [await caller.invoke(name) for name in names]
    await eventually_async(lambda: len(executor.attempts) == len(names))
    return answers


def id_of(answer):
    return answer.json()["execution_id"]


async def test_leases_are_renewed_while_a_server_waits_for_what_runs(tmp_path, serving, executor, monkeypatch):
    monkeypatch.setattr("skillwire.limits.SERVER_SHUTDOWN_SECONDS", PATIENCE)
    monkeypatch.setattr(worker, "_RENEWALS", 600)  # ten a second
    write_action(tmp_path / "skills", "once")
    caller = await serving(ExecutionSettings(grant_all=True, lease=60.0))
    service, end, later = caller.application.services.executions.service, asyncio.Event(), 0.0
    renew, renewed = service.ledger.renew, list[float]()

    def clock():
        now = moment()
        return now._replace(wall=now.wall + later, steady=now.steady + later)

    async def note(claims, now, lease):
        found = await renew(claims, now, lease)
        renewed.append(now.steady)
        return found

    async def wait(_):
        await end.wait()
        return Outcome("done")

    monkeypatch.setattr(service, "clock", clock)
    monkeypatch.setattr(service.ledger, "renew", note)
    executor.script = wait
    (once,) = await begin(caller, executor, "once")
    ending = asyncio.ensure_future(caller.application.shutdown())
    for _ in range(3):
        later += 40.0  # less than a lease
        await eventually_async(lambda: renewed and clock().steady - renewed[-1] < 20.0)
        assert not await asyncio.to_thread(lambda: open_ledger().recover(clock()))
    end.set()
    await ending
    ended = open_ledger().find(id_of(once))
    assert ended is not None
    assert ended.status is ExecutionStatus.COMPLETED


async def test_a_server_that_ends_finishes_gives_back_or_fails_what_runs(tmp_path, serving, executor, monkeypatch):
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
    assert told(log, "worker_lost") == {(id_of(once)[:-24], "once")}
    assert told(log, "released") == {(id_of(again)[:-24], "again")}
    executor.script = lambda _: Outcome("done")
    later = await serving()
    assert (await later.ended(once)).json()["error"]["details"]["reason"] == "worker_lost"
    assert (await later.ended(again)).json()["output"] == "done"


@pytest.fixture
def disk(monkeypatch):
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


@pytest.mark.usefixtures("report")
async def test_a_result_that_cannot_be_written_outlasts_its_lease_and_its_deadline(serving, executor, monkeypatch):
    caller = await serving()
    service = caller.application.services.executions.service
    ledger, complete, recover = service.ledger, service.ledger.complete, service.ledger.recover
    swept, is_locked = [], [True]

    def later():
        now = moment()
        return now._replace(wall=now.wall + 10_000, steady=now.steady + 10_000)

    async def refuse(*arguments, **options):
        service.clock = later
        if is_locked[0]:
            raise StorageError("DATABASE", "database is locked")
        return await complete(*arguments, **options)

    async def sweep(now, **options):
        swept.append(now.wall > moment().wall + 5_000)
        return await recover(now, **options)

    monkeypatch.setattr(ledger, "complete", refuse)
    monkeypatch.setattr(ledger, "recover", sweep)
    executor.script = lambda _: Outcome("done")
    accepted = await caller.invoke("report")
    await eventually_async(lambda: swept.count(True) > 1)
    is_locked[0] = False
    assert (await caller.ended(accepted)).json()["status"] == "completed"


ACCEPTING = ExecutionSettings(concurrency=0, grant_all=True)


async def test_the_log_says_what_was_taken_from_others(tmp_path, serving):
    write_action(tmp_path / "skills", "once")
    write_action(tmp_path / "skills", "again", more="idempotent = true")
    write_action(tmp_path / "skills", "late")
    first = await serving(ACCEPTING)
    names = {name: (await first.invoke(name)).json()["execution_id"] for name in ("once", "again")}
    claimed = open_ledger().claim("gone", moment(), Quota(10, 10, lease=3600.0), limit=2)
    assert {one.execution_id for one in claimed} == set(names.values())
    late = (await first.invoke("late")).json()["execution_id"]
    await first.application.shutdown()
    with open_database().writing() as connection:
        connection.execute("UPDATE executions SET deadline = 1 WHERE execution_id = ?", (late,))
        connection.execute("UPDATE executions SET lease_until = 0 WHERE lease_until IS NOT NULL")
    with structlog.testing.capture_logs() as log:
        await serving()
        await eventually_async(lambda: len({entry["outcome"] for entry in log if "outcome" in entry}) >= 3)
        await eventually_async(lambda: told(log, "deadline"))
        await eventually_async(lambda: told(log, "worker_lost") and told(log, "released"))
    assert told(log, "worker_lost") == {(names["once"][:-24], "once")}
    assert told(log, "released") == {(names["again"][:-24], "again")}
    assert told(log, "deadline") == {(late[:-24], "late")}


async def test_all_that_is_late_is_ended_in_one_sweep(tmp_path, serving, monkeypatch):
    write_action(tmp_path / "skills", "once")
    caller = await serving(ACCEPTING)
    for _ in range(7):
        await caller.invoke("once")
    desk = caller.application.services.executions.service
    await caller.application.shutdown()
    monkeypatch.setattr("skillwire.adapters.sql.ledger.EXPIRED_PER_BATCH", 2)
    monkeypatch.setattr(worker, "EXPIRED_PER_BATCH", 2)
    now = moment()
    desk.clock = lambda: Moment(now.wall + 10_000_000, now.steady, now.boot)
    assert await worker.ExpiryTask(desk, None).run()
    assert await desk.ledger.count() == {ExecutionStatus.TIMEOUT: 7}
