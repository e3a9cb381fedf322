"""A server is unready while it cannot store, and while it is behind its registry for too long."""

import asyncio
import errno

import pytest
from tests.support.publishing import Asgi, write_skill

from skillwire import limits
from skillwire.errors import StorageError
from skillwire.server.app import create_app
from skillwire.server.readiness import Lag, ReadinessCheck


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

    monkeypatch.setattr("skillwire.server.readiness._LOOK_SECONDS", 0.0)
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
