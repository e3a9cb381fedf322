"""Functions are called with what their hints say; whatever they do is an outcome."""

import asyncio
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps

import pytest
from tests.support.attempts import attempt_of

from skillwire.adapters.executors.function import FunctionExecutor
from skillwire.errors import FetchError
from skillwire.folder.functions import read_function
from skillwire.model.execution import (
    CallContext,  # hints are read
    Failure,
)


@dataclass
class Place:
    city: str
    country: str | None = None


def executor_of(function):
    return FunctionExecutor({"demo": read_function(function)})


async def call(function, inputs=None, **fields):
    return await executor_of(function).execute(attempt_of("function", inputs=inputs, **fields))


async def test_a_function_runs_in_a_thread_and_a_coroutine_in_the_loop():
    def plain(place: Place) -> list[str]:
        """Do it."""
        return [place.city, threading.current_thread().name]

    async def coroutine(place: Place) -> Place:
        """Do it."""
        await asyncio.sleep(0)
        return Place(threading.current_thread().name, place.city)

    inputs = {"place": {"city": "Oslo"}}
    assert (await call(plain, inputs)).output == ["Oslo", "skillwire-function"]
    assert (await call(coroutine, inputs)).output == {"city": "MainThread", "country": "Oslo"}


async def test_a_decorated_coroutine_is_awaited_too():
    async def inner(n: int) -> int:
        """Do it."""
        return n + 1

    @wraps(inner)
    def outer(n):
        return inner(n)

    assert (await call(outer, {"n": 1})).output == 2


async def test_the_context_says_which_call_it_is():
    def function(context: CallContext):
        """Do it."""
        return [context.execution_id, context.trace_id, context.attempt, context.deadline, context.is_cancelled]

    result = await call(function, trace_id="t", attempt=2)
    when = datetime.fromtimestamp(1020, UTC).isoformat().replace("+00:00", "Z")
    assert result.output == ["exec-" + "0" * 32, "t", 2, when, False]


async def test_inputs_that_do_not_fit_are_the_callers_mistake():
    def function(place: Place):
        """Do it."""

    failure = (await call(function, {"place": {"city": 3}})).failure
    assert failure == Failure(
        "exception",
        "/inputs/place/city: Expected `str`, got `int`",
        "VALIDATION_ERROR",
        {"errors": [{"path": "/inputs/place/city", "message": "Expected `str`, got `int`"}]},
    )


@pytest.mark.parametrize(
    ("error", "message", "passing"),
    [
        (ValueError("no such\x1b[31m order"), "no such[U+001B][31m order", False),
        (KeyError("x"), "'x'", False),
        (RuntimeError(), "RuntimeError", False),
        (ConnectionRefusedError("busy"), "busy", True),
        (TimeoutError("slow"), "slow", True),
        (FetchError("CONNECT_FAILED", "down"), "down", True),
        (SystemExit(3), "3", False),
        (StopIteration("x"), "x", False),
        (ValueError("y" * 9999), "y" * 500, False),
        (ExceptionGroup("several", [ValueError("inner")]), "several (1 sub-exception)", False),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_function_raises_is_told_without_internals(error, message, passing, is_async):
    def plain():
        """Do it."""
        raise error

    async def coroutine():
        """Do it."""
        raise error

    if is_async and isinstance(error, StopIteration):
        pytest.skip("Python makes a RuntimeError of it")
    failure = (await call(coroutine if is_async else plain)).failure
    assert failure == Failure("exception", message, is_passing=passing)
    assert "Traceback" not in repr(failure)


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError])
async def test_a_thread_cannot_end_the_server(error):
    def function():
        """Do it."""
        raise error

    failure = (await call(function)).failure
    assert failure is not None
    assert failure.reason == "exception"


async def test_a_coroutine_that_says_it_was_cancelled_has_failed():
    async def coroutine():
        """Do it."""
        raise asyncio.CancelledError

    def plain():
        """Do it."""
        return coroutine()

    for function in (coroutine, plain):
        assert (await call(function)).failure == Failure("exception", "CancelledError")
