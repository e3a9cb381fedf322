"""Readiness follows the store and the registry, and each end of an execution counts once."""

import asyncio
import errno

import pytest
from tests.support.executions import LASTING, MemoryOffice, Office, claim_of
from tests.support.invoking import failing, write_action
from tests.support.opened import Blocking, open_ledger
from tests.support.publishing import Asgi, write_skill

from skillwire import limits
from skillwire.adapters.sql.ledger_rows import _SELECT_ENDED
from skillwire.errors import StorageError
from skillwire.server import monitoring as module
from skillwire.server.app import create_app
from skillwire.server.monitoring import ExecutionStats, Lag, ReadinessCheck


class Store:
    """A database whose next look finds ``obstacle``, or raises it."""

    obstacle: str | Exception = ""
    looks = 0

    def statistics(self):
        return {}

    async def find_obstacle(self):
        self.looks += 1
        if isinstance(self.obstacle, Exception):
            raise self.obstacle
        return self.obstacle


class World:
    """A check, with the clock and the numbers that it reads."""

    def __init__(self):
        self.now, self.reached, self.revision, self.store = 1000.0, 0, 0, Store()

        async def revision():
            return self.revision

        self.check = ReadinessCheck(self.store, lambda: self.now, lambda: self.reached, revision)

    async def look(self, seconds=10.0, *, reached, revision):
        self.now, self.reached, self.revision = self.now + seconds, reached, revision
        await self.check.look()
        return self.check.lag


async def test_the_lag_is_how_long_the_oldest_change_has_not_been_served():
    world = World()
    assert await world.look(reached=4, revision=4) == Lag(0, 0.0)
    assert await world.look(reached=4, revision=7) == Lag(3, 0.0)  # just noticed
    assert await world.look(reached=4, revision=9) == Lag(5, 10.0)
    assert await world.look(reached=7, revision=12) == Lag(5, 0.0)  # those of then are served
    for seconds in (10.0, 20.0, 30.0, 40.0):
        assert await world.look(reached=8, revision=12) == Lag(4, seconds)
        assert world.check.is_stale == (seconds > limits.REGISTRY_STALE_SECONDS)
    assert await world.look(reached=12, revision=12) == Lag(0, 0.0)
    assert not world.check.is_stale


async def test_a_database_that_went_back_makes_no_lag():
    world = World()
    await world.look(reached=4, revision=9)
    for _ in range(5):
        assert await world.look(reached=9, revision=5) == Lag(0, 0.0)  # what it lost is still served
        assert await world.look(reached=5, revision=5) == Lag(0, 0.0)
    assert await world.look(reached=5, revision=7) == Lag(2, 0.0)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("the migration 0002_more is pending", "the migration 0002_more is pending"),
        (StorageError("DATABASE", "database or disk is full"), "the database fails: database or disk is full"),
        (TimeoutError(), "the database fails: no answer within 2 s"),
    ],
)
async def test_an_obstacle_is_told_until_it_is_gone_and_looked_for_once_in_a_while(found, told):
    world = World()
    world.store.obstacle = found
    await asyncio.gather(*(world.look(0.0, reached=0, revision=0) for _ in range(5)))
    assert (world.check.obstacle, world.store.looks) == (told, 1)
    world.store.obstacle = ""
    await world.look(10.0, reached=0, revision=0)
    assert world.check.obstacle == ""


async def test_a_full_disk_makes_a_server_unready(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skill(tmp_path / "skills", "notes")
    application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs", access_log=False, registry=True)
    caller = Asgi(application)
    await caller.get("/.well-known/agent-skills/index.json")
    assert (await caller.get("/readyz")).json()["status"] == "ready"

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "/state/tmp1")

    monkeypatch.setattr("skillwire.server.monitoring._LOOK_SECONDS", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr("tempfile.TemporaryFile", fail)
        answer = await caller.get("/readyz")
    told = answer.json()
    reason = "the disk cannot be written: No space left on device"
    assert (answer.status, told["status"], told["reason"]) == (503, "blocked", reason)
    answer = await caller.get("/readyz")
    assert (answer.status, answer.json()["status"]) == (200, "ready")
    monkeypatch.setattr(ReadinessCheck, "is_stale", True)
    answer = await caller.get("/readyz")
    assert (answer.status, answer.json()["status"]) == (503, "stale")
    await application.shutdown()


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
