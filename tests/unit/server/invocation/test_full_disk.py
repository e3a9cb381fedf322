"""What a server does while nothing can be written, and afterwards."""

import asyncio
from contextlib import contextmanager

import pytest
from tests.support.invoking import failing, write_action

from skillwire.adapters.sqlite.database import Database
from skillwire.errors import StorageError
from skillwire.model.execution import Outcome


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
