"""Room: nobody is refused for what has ended, and nobody is let in for a count that ran meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest
from tests.support.invoking import write_action

from skillwire.adapters.sqlite.open import open_database, open_ledger
from skillwire.errors import ConflictError
from skillwire.invocation.settings import ExecutionSettings
from skillwire.server.invocation import room
from skillwire.server.invocation.room import Room


class Ledger:
    """Says how many wait; each count waits for the gate."""

    def __init__(self, **waiting):
        self.now = waiting
        self.counts = 0
        self.counting, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def waiting(self):
        self.counts += 1
        found = dict(self.now)
        self.counting.set()
        assert self.gate.wait(10)
        return found


def room_of(ledger, most=2):
    """Return the room for so many executions of each caller."""
    return Room(cast("Any", ledger), most)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(room, "_FULL_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_what_ended_since_the_last_count_makes_room():
    ledger = Ledger(ann=1)
    one = room_of(ledger)
    await one.look("ann")
    one.take("ann")
    ledger.now = {}
    await one.look("bob")
    assert ledger.counts == 1
    await one.look("ann")
    one.check("ann")
    assert ledger.counts == 2


async def test_where_there_is_no_room_it_is_not_counted_each_time():
    ledger = Ledger(ann=2)
    one = room_of(ledger)
    for _ in range(50):
        await one.look("ann")
        with pytest.raises(ConflictError):
            one.check("ann")
    assert ledger.counts <= 2


@pytest.mark.usefixtures("at_once")
async def test_what_is_taken_while_it_is_counted_stays_counted():
    ledger = Ledger()
    one = room_of(ledger, 1)
    ledger.gate.clear()
    looking = asyncio.ensure_future(one.look("ann"))
    await asyncio.to_thread(ledger.counting.wait, 10)
    one.take("ann")
    ledger.gate.set()
    await looking
    assert one.is_full("ann")


@pytest.mark.usefixtures("at_once")
async def test_a_caller_is_not_refused_when_its_executions_have_ended(tmp_path, serving):
    write_action(tmp_path / "skills", "once")
    caller = await serving(ExecutionSettings(waiting=1, grant_all=True))
    for _ in range(3):
        accepted = await caller.invoke("once")
        assert accepted.status == 202
        await caller.ended(accepted)


async def test_a_repeated_key_keeps_no_version_that_no_execution_owns(tmp_path, serving):
    folder = write_action(tmp_path / "skills", "once")
    first = await serving(ExecutionSettings(concurrency=0, grant_all=True))
    key = {"Idempotency-Key": "k"}
    accepted = await first.invoke("once", fields=key)
    await first.application.shutdown()
    (folder / "main.py").write_text("def main(args):\n    return 2\n")
    second = await serving(ExecutionSettings(concurrency=0, grant_all=True))
    again = await second.invoke("once", fields=key)
    assert again.json()["execution_id"] == accepted.json()["execution_id"]
    execution = open_ledger().find(accepted.json()["execution_id"])
    assert execution is not None
    with open_database().reading() as connection:
        kept = [digest for (digest,) in connection.execute("SELECT digest FROM skill_versions")]
    assert kept == [execution.digest]
