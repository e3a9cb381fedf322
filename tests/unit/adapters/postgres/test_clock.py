"""The clock of a shared database: what the clock of a machine shows changes nothing."""

from typing import cast

import pytest

from skillwire.adapters.postgres.connection import Counters
from skillwire.adapters.postgres.database import BOOT, PostgresClock, PostgresDatabase
from skillwire.errors import StorageError

THERE = 1_000_000.0


class Machine:
    """A machine whose steady clock began at another time, and a database that answers after ``delays``."""

    def __init__(self, local=50.0):
        self.passed = 0.0
        self.local = local
        self.delays = [0.0]
        self.is_down = False
        self.shift = 0.0
        self.counters = Counters()
        self.measured = 0
        self.clock = PostgresClock(cast("PostgresDatabase", self), self.steady)

    def steady(self):
        return self.local + self.passed

    async def read(self, call):
        if self.is_down:
            raise StorageError("DATABASE", "it did not answer in time")
        self.measured += 1
        return await call(self)

    async def value(self, _):
        delay = self.delays.pop(0) if len(self.delays) > 1 else self.delays[0]
        self.passed += delay / 2
        there = THERE + self.passed + self.shift
        self.passed += delay / 2
        return there

    async def keep(self, seconds):
        """Keep the clock for so many seconds."""

        async def sleep(wait):
            self.passed += wait
            if self.passed >= end:
                raise StopAsyncIteration

        end = self.passed + seconds
        with pytest.raises(StopAsyncIteration):
            await self.clock.keep(sleep)


@pytest.mark.parametrize("local", [-300.0, 0.0, 50.0, 300.0, 1e9])
async def test_every_machine_has_the_time_of_the_database(local):
    machine = Machine(local)
    await machine.clock.measure()
    machine.passed += 7.0
    now = machine.clock()
    assert now.wall == now.steady == pytest.approx(THERE + 7)
    assert now.boot == BOOT


async def test_the_quickest_answer_counts():
    machine = Machine()
    machine.delays = [3.0, 0.002, 1.0]
    await machine.clock.measure()
    assert machine.clock().wall == pytest.approx(THERE + machine.passed)


async def test_a_clock_that_was_not_measured_shows_no_time():
    with pytest.raises(RuntimeError):
        Machine().clock()


async def test_it_is_measured_each_minute_and_after_a_lost_connection():
    machine = Machine()
    await machine.clock.measure()
    await machine.keep(5)
    assert machine.measured == 2
    await machine.keep(185)
    assert machine.measured == 6
    machine.shift = 0.5  # another primary, whose clock is ahead
    machine.counters.reconnects += 1
    await machine.keep(5)
    assert machine.clock().wall == pytest.approx(THERE + machine.passed + 0.5)


async def test_a_database_that_is_down_is_measured_when_it_is_back():
    machine = Machine()
    await machine.clock.measure()
    machine.is_down = True
    await machine.keep(5)
    assert machine.clock().wall == pytest.approx(THERE + machine.passed)
    machine.is_down, machine.shift = False, 2.0
    await machine.keep(3)
    assert machine.clock().wall == pytest.approx(THERE + machine.passed + 2)
