"""Places: nobody takes those of all others, whoever it says it is."""

import asyncio
from contextlib import ExitStack
from typing import Any, cast

import pytest
from tests.support.executions import Clock
from tests.support.invoking import write_action
from tests.support.opened import open_database, open_ledger

from skillwire.errors import ConflictError
from skillwire.model.execution import ExecutionSettings
from skillwire.server import quotas
from skillwire.server.quotas import ConcurrencyLimit, QueueQuota


@pytest.fixture
def places():
    return ConcurrencyLimit(lambda: (16, 2))


def fill(places, stack, owners):
    """Let owners take places as long as there is room; return how many were taken."""
    number = 0
    for owner in owners:
        while places.has_capacity(owner):
            stack.enter_context(places.occupy(owner))
            number += 1
    return number


def test_a_caller_has_its_share_and_has_it_again(places):
    with ExitStack() as stack:
        assert fill(places, stack, ["principal anna"]) == 2
        assert places.has_capacity("principal bert")
    assert places.has_capacity("principal anna")
    assert not places._taken


def test_all_have_so_many(places):
    with ExitStack() as stack:
        assert fill(places, stack, (f"principal {number}" for number in range(20))) == 16
        assert not places.has_capacity("principal late")


@pytest.mark.parametrize("near", ["address 192.0.2.{}", "address 2001:db8:1:{}::/64", "address 2001:db8:1:{}::7/128"])
def test_addresses_next_to_each_other_share(places, near):
    with ExitStack() as stack:
        assert fill(places, stack, (near.format(number) for number in range(20))) == 4
        for other in ("address 198.51.100.7", "address 2001:db8:2::/64", "address testclient", "principal anna"):
            assert places.has_capacity(other)


def test_strangers_leave_room_to_those_who_say_who_they_are(places):
    with ExitStack() as stack:
        assert fill(places, stack, (f"address 10.0.{number}.1" for number in range(100))) == 12
        assert not places.has_capacity("address 198.51.100.7")
        assert fill(places, stack, ["principal anna", "identity token:1"]) == 4
    assert not places._taken


class Ledger:
    """Says how many wait; each count waits for the gate."""

    def __init__(self, **waiting):
        self.now = waiting
        self.counts = 0
        self.clock = Clock()
        self.counting, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def waiting(self):
        self.counts += 1
        found = dict(self.now)
        self.counting.set()
        await self.gate.wait()
        return found


def room_of(ledger, most=2):
    """Return the room for so many executions of each caller."""
    return QueueQuota(cast("Any", ledger), most, lambda: ledger.clock.now)


async def test_what_ended_since_the_last_count_makes_room():
    ledger = Ledger(ann=1)
    one = room_of(ledger)
    await one.refresh("ann")
    one.take("ann")
    ledger.now = {}
    await one.refresh("bob")
    assert ledger.counts == 1
    ledger.clock.pass_(0.3)
    await one.refresh("ann")
    one.check("ann")
    assert ledger.counts == 2


async def test_where_there_is_no_room_it_is_not_counted_each_time():
    ledger = Ledger(ann=2)
    one = room_of(ledger)
    for _ in range(50):
        await one.refresh("ann")
        with pytest.raises(ConflictError):
            one.check("ann")
    assert ledger.counts == 1
    ledger.clock.pass_(0.3)
    await one.refresh("ann")
    assert ledger.counts == 2


async def test_what_is_taken_while_it_is_counted_stays_counted():
    ledger = Ledger()
    one = room_of(ledger, 1)
    ledger.gate.clear()
    looking = asyncio.ensure_future(one.refresh("ann"))
    await ledger.counting.wait()
    one.take("ann")
    ledger.gate.set()
    await looking
    assert one.is_full("ann")


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(quotas, "_FULL_SECONDS", 0.0)


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
