"""The thread of a client's agent: it may be ended at any moment, also while it starts, and begun again."""

import asyncio
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.eventually import PATIENCE, eventually
from tests.support.fake_lan import FakeLanAgent, lan_skill

from skillwire.client.agent_thread import LanThread
from skillwire.errors import FetchError
from skillwire.model.lan import LanChange

CHANGE = LanChange("registered", 1.0, lan_skill())


async def live(_):
    await asyncio.Event().wait()


async def agent_of(agent):
    return agent


def run(thread, use):
    return thread.submit(use).result()


def lan_threads():
    return [thread for thread in threading.enumerate() if thread.name == "skillwire-lan"]


class Gate:
    """Makes agents, of which the first has to wait until the gate is open."""

    def __init__(self):
        self.made = []
        self.open = threading.Event()
        self.is_waiting = threading.Event()

    def __call__(self):
        agent = FakeLanAgent()
        self.made.append(agent)
        if len(self.made) == 1:
            self.is_waiting.set()
            assert self.open.wait(PATIENCE)
        return agent


@pytest.fixture
def gate():
    before = set(lan_threads())
    made = Gate()
    yield made
    made.open.set()
    eventually(lambda: set(lan_threads()) <= before)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as made:
        yield made


def test_what_is_asked_after_the_end_of_one_that_still_starts_has_a_life_of_its_own(gate, pool):
    thread = LanThread(gate, live)
    first = pool.submit(run, thread, agent_of)
    assert gate.is_waiting.wait(PATIENCE)
    ending = pool.submit(thread.end)
    eventually(lambda: thread._life is None)  # until the end has begun, it is the life that still starts
    second = pool.submit(run, thread, agent_of).result(PATIENCE)
    gate.open.set()
    ending.result(PATIENCE)
    assert second is gate.made[1]
    assert first.result(PATIENCE) is gate.made[0]
    assert gate.made[0].asked == ["start", "stop"]
    assert len(lan_threads()) == 1
    thread.end()
    assert gate.made[1].asked == ["start", "stop"]


def test_who_still_waits_when_it_ends_is_told_so_and_nothing_else_is_said(gate, pool, caplog):
    gate.open.set()
    thread = LanThread(gate, live)
    waiting = threading.Event()

    async def wait(_):
        waiting.set()
        await asyncio.Event().wait()

    asked = pool.submit(run, thread, wait)
    assert waiting.wait(PATIENCE)
    thread.end()
    with pytest.raises(FetchError) as caught:
        asked.result(PATIENCE)
    assert caught.value.code == "LAN_UNAVAILABLE"
    assert "was closed" in caught.value.message
    assert not caplog.records, "it is no failure of the loop"


def test_an_iteration_ends_with_its_agent_and_makes_no_other(gate):
    gate.open.set()
    thread = LanThread(gate, live)
    run(thread, agent_of)
    (agent,) = gate.made
    changes = thread.listen()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, changes)
        agent.tell(CHANGE)
        assert first.result(PATIENCE) == CHANGE
    thread.end()
    assert list(changes) == []
    assert gate.made == [agent]


def test_a_listener_goes_with_its_closed_iteration(gate):
    gate.open.set()
    thread = LanThread(gate, live)
    run(thread, agent_of)
    (agent,) = gate.made
    kept = []
    listen = agent.listen

    def listen_and_note():
        listener = listen()
        kept.append(weakref.ref(listener))
        return listener

    agent.listen = listen_and_note
    changes: Any = thread.listen()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, changes)
        eventually(lambda: kept)
        agent.tell(CHANGE)
        assert first.result(PATIENCE) == CHANGE
    del first
    changes.close()
    eventually(lambda: gc.collect() is not None and kept[0]() is None)
    thread.end()


def test_changes_are_kept_from_the_call_on(gate):
    gate.open.set()
    thread = LanThread(gate, live)
    run(thread, agent_of)
    changes = thread.listen()
    gate.made[0].tell(CHANGE)
    assert next(changes) == CHANGE
    thread.end()


def test_an_awaited_iteration_ends_with_its_agent_and_makes_no_other(gate):
    gate.open.set()
    thread = LanThread(gate, live)

    async def main():
        agent = await asyncio.wrap_future(thread.submit(agent_of))
        changes = thread.listen_awaited()
        first = asyncio.ensure_future(anext(changes))
        await asyncio.to_thread(agent.tell, CHANGE)
        found = [await first]
        await asyncio.to_thread(thread.end)
        return found + [one async for one in changes]

    assert asyncio.run(main()) == [CHANGE]
    assert len(gate.made) == 1


def test_many_who_ask_and_end_at_once_leave_no_thread(gate, pool):
    gate.open.set()
    thread = LanThread(gate, live)

    def use(number):
        if number % 3 == 0:
            return thread.end()
        return run(thread, agent_of)

    list(pool.map(use, range(200)))
    thread.end()
    assert [agent.asked for agent in gate.made] == [["start", "stop"]] * len(gate.made)


def test_a_start_that_failed_is_tried_again():
    agents: list[Any] = [FakeLanAgent(error=FetchError("LAN_UNAVAILABLE", "down")), FakeLanAgent()]
    thread = LanThread(lambda: agents.pop(0), live)
    with pytest.raises(FetchError):
        run(thread, agent_of)
    assert run(thread, agent_of).asked == ["start"]
    thread.end()
