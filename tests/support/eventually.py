"""The one place where a test waits: for a condition, asked again and again, with a bound that only a fault reaches."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
#: Seconds. Far more than anything takes on a machine that is busy with other work.
PATIENCE = 45.0
_PAUSE = 0.01


def eventually(condition: Callable[[], T], what: object = "", *, patience: float = PATIENCE) -> T:
    """Ask until ``condition`` gives something true, and return that; ``what`` is said when it never does."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, _said(condition, what)
        time.sleep(_PAUSE)
    return found


async def eventually_async(
    condition: Callable[[], T | Awaitable[T]], what: object = "", *, patience: float = PATIENCE
) -> T:
    """Do as :func:`eventually` while the event loop runs; ``condition`` may be a coroutine function."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while True:
        asked = condition()
        found = await asked if inspect.isawaitable(asked) else asked
        if found:
            return found
        assert loop.time() < deadline, _said(condition, what)
        await asyncio.sleep(_PAUSE)


def _said(condition: Callable[[], object], what: object) -> str:
    what = what() if callable(what) else what
    return f"never came: {what or inspect.getsource(condition).strip()}"
