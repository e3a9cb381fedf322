"""What is counted of executions: read from the ledger, each once, whoever accepted and ran it."""

import pytest
from tests.support.executions import LASTING, MemoryOffice, Office, claim_of
from tests.support.invoking import failing, write_action
from tests.support.opened import Blocking, open_ledger

from skillwire.adapters.sql.ledger_rows import _SELECT_ENDED
from skillwire.errors import StorageError
from skillwire.server import metrics as module
from skillwire.server.metrics import ExecutionStats


@pytest.fixture(params=[MemoryOffice, Office], ids=["memory", "sqlite"])
def office(request, tmp_path):
    made = request.param(tmp_path)
    yield made
    made.close()


@pytest.fixture
def figures(office):
    return Blocking(ExecutionStats(office.ledger.wrapped, lambda: office.clock.wall))


def test_what_was_there_before_is_not_counted_and_what_comes_is_counted_once(office, figures):
    office.clock.wall -= 100
    office.run()
    office.clock.wall += 101
    figures.refresh()
    assert (figures.accepted, figures.ended) == (0, {})
    assert figures.statuses == {"accepted": 0, "running": 0, "completed": 1, "failed": 0, "timeout": 0}
    office.accept()
    office.accept()
    waiting = office.accept()
    office.clock.pass_(2)
    first, second = map(claim_of, office.claim(limit=2))
    office.clock.pass_(5)
    office.another().complete(first, b"1", office.clock.now)
    office.ledger.fail(second, LASTING, office.clock.now)
    figures.refresh()
    assert (figures.accepted, figures.running, figures.ended) == (3, 0, {})  # the ends have not settled
    for _ in range(3):
        office.clock.pass_(6)
        figures.refresh()
        assert (figures.accepted, figures.ended) == (3, {"completed": 1, "exception": 1})
    assert (figures.seconds.total, sum(figures.seconds.slots)) == (14.0, 2)
    assert (figures.waits.total, sum(figures.waits.slots)) == (4.0, 2)
    assert figures.statuses["accepted"] == 1
    assert figures.oldest_queued == pytest.approx(office.clock.wall - waiting.created)


def test_every_way_to_end_is_told_by_its_reason(office, figures):
    lost, cancelled, _ = [office.accept(timeout=timeout) for timeout in (300.0, 300.0, 5.0)]
    office.claim(limit=2)
    office.ledger.cancel(cancelled.execution_id, "its caller", office.clock.now)
    office.clock.pass_(100)
    office.ledger.expire(office.clock.now)
    assert list(office.ledger.recover(office.clock.now)) == [lost.execution_id]
    office.clock.pass_(10)
    figures.refresh()
    assert figures.ended == {"cancelled": 1, "deadline": 1, "worker_lost": 1}
    assert figures.oldest_queued == 0.0
    assert sum(figures.waits.slots) == 2  # nobody began the one that was too late


def test_more_than_one_look_takes_at_once_are_counted_all_though_they_end_together(office, figures, monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    for _ in range(5):
        office.run()
    office.clock.pass_(10)
    figures.refresh()
    assert figures.ended == {"completed": 5}


def test_the_ledger_is_asked_only_every_few_seconds(office, figures):
    figures.refresh()
    office.accept()
    office.clock.pass_(1)
    figures.refresh()
    assert figures.accepted == 0
    office.clock.pass_(5)
    figures.refresh()
    assert figures.accepted == 1


def test_where_there_is_no_ledger_none_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    figures = Blocking(ExecutionStats(open_ledger().wrapped))
    figures.refresh()
    assert set(figures.statuses.values()) == {0}
    assert not (tmp_path / "home").exists()


def test_a_ledger_that_cannot_be_read_is_read_later(office, figures, monkeypatch):
    async def refuse(*_):
        raise StorageError("DATABASE", "disk I/O error")

    office.accept()
    with monkeypatch.context() as patched:
        patched.setattr(type(office.ledger.wrapped), "statistics", refuse)
        figures.refresh()
    office.clock.pass_(10)
    figures.refresh()
    assert figures.accepted == 1


def test_the_index_says_what_has_ended(tmp_path):
    office = Office(tmp_path)
    with office.database.reading() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {_SELECT_ENDED}", (0, 0, 0, 1)).fetchall()
    assert "USING INDEX executions_ended (completed>" in plan[0][3]
    assert not any("B-TREE" in row[3] for row in plan)  # in the order of the index


async def test_prometheus_is_told_and_no_skill_is_named(tmp_path, serving, executor, monkeypatch):
    monkeypatch.setattr(module, "_SETTLE_SECONDS", -1.0)
    write_action(tmp_path / "skills", "omega-plan")
    caller = await serving()
    assert "skillwire_executions_accepted_total 0.0" in (await caller.get("/metrics")).body.decode().splitlines()
    monkeypatch.setattr(module, "_CACHE_SECONDS", 0.0)
    await caller.ended(await caller.invoke("omega-plan"))
    executor.script = lambda _: failing()
    await caller.ended(await caller.invoke("omega-plan"))
    text = (await caller.get("/metrics")).body.decode()
    for line in (
        'skillwire_executions{status="completed"} 1.0',
        'skillwire_executions{status="running"} 0.0',
        "skillwire_executions_running 0.0",
        "skillwire_executions_accepted_total 2.0",
        'skillwire_executions_ended_total{outcome="completed"} 1.0',
        'skillwire_executions_ended_total{outcome="exception"} 1.0',
        "skillwire_execution_seconds_count 2.0",
        "skillwire_execution_wait_seconds_count 2.0",
        'skillwire_execution_seconds_bucket{le="+Inf"} 2.0',
    ):
        assert line in text.splitlines(), line
    assert "omega" not in text
