"""Background tasks go on whatever they raise, and what fails is reported until it works again."""

import asyncio
from typing import Any

import pytest
import structlog

from skillwire.errors import StorageError
from skillwire.server.background import BackgroundTasks

FULL = StorageError("DATABASE", "database or disk is full")


class Script:
    """Tasks that do what a script says, one entry a call, and the pauses that they make."""

    def __init__(self):
        self.reports: list[Any] = []
        self.pauses: list[float] = []
        self.tasks = BackgroundTasks(self.reports.append)

    async def run(self, *script):
        left = list(script)

        async def do():
            if (error := left.pop(0)) is not None:
                raise error

        async def pause(seconds):
            self.pauses.append(seconds)

        with structlog.testing.capture_logs() as log:
            await self.tasks.repeat("claims", do, pause, 3.0, lambda: not left)
        return log


@pytest.fixture
def world():
    return Script()


async def test_a_task_that_raises_is_repeated_later_each_time_up_to_a_bound(world):
    await world.run(*[FULL] * 6, None, FULL)
    assert world.pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 3.0, 0.5]
    assert world.tasks.failures == {"claims": 7}


async def test_what_fails_is_reported_until_it_works_again(world):
    await world.run(None, FULL)
    assert world.tasks.failing == {"claims": "DATABASE"}
    await world.run(ValueError("mine"), None)
    assert world.tasks.failing == {}
    assert world.reports == [{"claims": "DATABASE"}, {"claims": "INTERNAL"}, {}]


async def test_the_last_report_is_what_fails_now_whatever_thread_is_slow(world, monkeypatch):
    overtaken, threads = asyncio.Event(), []

    async def to_thread(do, *arguments):
        threads.append(do)
        if len(threads) == 1:
            await overtaken.wait()
        do(*arguments)
        overtaken.set()

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    await asyncio.gather(world.tasks.failed("claims", FULL), world.tasks.recovered("claims"))
    assert world.reports[-1] == world.tasks.failing == {}


async def test_the_log_has_a_line_for_each_change_and_none_for_repetitions(world):
    log = await world.run(FULL, FULL, FULL, None, None, ValueError("mine"), ValueError("mine"))
    assert [(entry["log_level"], entry["task"]) for entry in log] == [
        ("error", "claims"),
        ("info", "claims"),
        ("error", "claims"),
    ]
    assert log[0]["error"] == "DATABASE: database or disk is full"
    assert log[1]["failures"] == 3
    assert isinstance(log[2]["exc_info"], ValueError)
