"""The one place where a test waits: for a condition, asked again and again, with a bound that only a fault reaches."""

import asyncio
import inspect
import selectors
import time
from collections.abc import Callable
from typing import Any

#: Seconds. Far more than anything takes on a machine that is busy with other work.
PATIENCE = 45.0
_PAUSE = 0.01


def eventually(
    ask: Callable[[], Any],
    accept: Callable[[Any], object] = bool,
    what: object = "",
    *,
    every: float = _PAUSE,
    patience: float = PATIENCE,
) -> Any:
    """Call ``ask`` until ``accept`` takes what it returns, and return that.

    Args:
        ask: returns what is now.
        accept: whether that is what the test waits for; by default anything that is true.
        what: what is said when it never comes; when it can be called, what that returns.
        every: seconds between two calls.
        patience: seconds after which the test fails.
    """
    ends = time.monotonic() + patience
    while not accept(found := ask()):
        assert time.monotonic() < ends, _message(ask, found, what)
        time.sleep(every)
    return found


async def eventually_async(
    ask: Callable[[], Any],
    accept: Callable[[Any], object] = bool,
    what: object = "",
    *,
    every: float = _PAUSE,
    patience: float = PATIENCE,
) -> Any:
    """Do as :func:`eventually` while the event loop runs; ``ask`` may be a coroutine function."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + patience
    while True:
        found = ask()
        if inspect.isawaitable(found):
            found = await found
        if accept(found):
            return found
        assert loop.time() < ends, _message(ask, found, what)
        await asyncio.sleep(every)


def readable(*streams: Any, seconds: float | None = PATIENCE) -> list[Any]:
    """Return the streams with something to read, after ``seconds`` at the latest.

    Their descriptors may have any number; ``select.select`` fails for those above 1,023.
    """
    with selectors.PollSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds)]


def _message(ask: Callable[[], object], found: object, what: object) -> str:
    what = what() if callable(what) else what
    return f"{what or inspect.getsource(ask).strip()} never came; at last there was {found!r}"
