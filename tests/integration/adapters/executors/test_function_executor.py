"""Functions are called with what their hints say; whatever they do is an outcome."""

import asyncio
import threading
import time

import pytest
from tests.support.attempts import attempt_of
from tests.support.eventually import PATIENCE, eventually_async

from skillwire import limits
from skillwire.adapters.executors.function import FunctionExecutor
from skillwire.folder.functions import read_function
from skillwire.model.execution import (
    CallContext,  # hints are read
    Failure,
)


def executor_of(function):
    return FunctionExecutor({"demo": read_function(function)})


async def call(function, inputs=None, **fields):
    return await executor_of(function).execute(attempt_of("function", inputs=inputs, **fields))


async def test_a_function_that_takes_too_long_is_left_behind():
    seen = threading.Event()

    def function(context: CallContext):
        """Do it."""
        while not context.is_cancelled:
            time.sleep(0.01)
        seen.set()

    failure = (await call(function, seconds=0.05)).failure
    assert failure == Failure("deadline", "The function took too long", "INVOCATION_TIMEOUT")
    assert await asyncio.to_thread(seen.wait, PATIENCE)


async def test_cancelling_ends_a_coroutine_and_tells_a_thread():
    ended, told, begun = threading.Event(), threading.Event(), threading.Event()

    async def coroutine():
        """Do it."""
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    def plain(context: CallContext):
        """Do it."""
        begun.set()
        while not context.is_cancelled:
            time.sleep(0.01)
        told.set()

    for function, sign in ((coroutine, ended), (plain, told)):
        begun.clear()
        task = asyncio.create_task(call(function))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(sign.wait, PATIENCE)


async def test_threads_are_bounded_and_given_back(monkeypatch):
    monkeypatch.setattr(limits, "FUNCTION_THREADS", 2)
    running, most, gate, lock = 0, 0, threading.Event(), threading.Lock()

    def function():
        """Do it."""
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(PATIENCE)
        with lock:
            running -= 1

    executor = executor_of(function)
    tasks = [asyncio.create_task(executor.execute(attempt_of("function"))) for _ in range(5)]
    await eventually_async(lambda: running == 2)
    await asyncio.sleep(0.05)
    gate.set()
    assert [outcome.failure for outcome in await asyncio.gather(*tasks)] == [None] * 5
    assert most == 2


async def test_no_thread_is_waited_for_longer_than_there_is_time(monkeypatch):
    monkeypatch.setattr(limits, "FUNCTION_THREADS", 1)
    gate = threading.Event()

    def function():
        """Do it."""
        gate.wait(PATIENCE)

    executor = executor_of(function)
    first = asyncio.create_task(executor.execute(attempt_of("function")))
    await asyncio.sleep(0.05)
    failure = (await executor.execute(attempt_of("function", seconds=0.05))).failure
    assert failure is not None
    assert failure.reason == "deadline"
    gate.set()
    assert (await first).failure is None
    assert (await executor.execute(attempt_of("function"))).failure is None
