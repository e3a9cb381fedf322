"""Who listens is told everything, or that something was missed."""

from __future__ import annotations

import asyncio
import gc

from skillwire.adapters.lan.listening import Listeners
from skillwire.model.lan import LanChange


def test_each_listener_is_told_what_happens_from_then_on():
    async def main():
        listeners = Listeners()
        listeners.tell(LanChange("left", 1.0))
        first, second = listeners.new(), listeners.new()
        listeners.tell(LanChange("status", 2.0))
        listeners.end()
        return [[change async for change in one] for one in (first, second)]

    assert asyncio.run(main()) == [[LanChange("status", 2.0)]] * 2


def test_who_waits_is_woken():
    async def main():
        listeners = Listeners()
        waiting = asyncio.ensure_future(anext(aiter(listeners.new())))
        await asyncio.sleep(0)
        listeners.tell(LanChange("status", 2.0))
        async with asyncio.timeout(10):
            return await waiting

    assert asyncio.run(main()).kind == "status"


def test_who_does_not_keep_up_is_told_so_once_and_costs_no_memory():
    async def main():
        listeners = Listeners()
        slow = listeners.new()
        for number in range(10_000):
            listeners.tell(LanChange("status", float(number)))
        listeners.end()
        return [change async for change in slow]

    found = asyncio.run(main())
    assert len(found) < 5_000
    assert found[0].kind == "missed"
    assert [change.kind for change in found].count("missed") == 1
    assert found[-1] == LanChange("status", 9_999.0)


def test_who_is_forgotten_elsewhere_is_told_nothing():
    listeners = Listeners()
    listeners.new()
    gc.collect()
    assert not listeners._all
