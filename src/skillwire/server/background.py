"""The background tasks of a server: each is repeated for as long as the server runs, whatever it raises.

After an error a task pauses, twice as long each time up to a bound. Until it works again, ``/readyz``, the metrics and
``skillwire doctor`` name it with the code of its error. The log has a line when that begins, changes and ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

import structlog

from skillwire.errors import SkillwireError, one_line

T = TypeVar("T")
#: Seconds until a task that failed is repeated: the first time, and at most.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 5.0


class BackgroundTasks:
    """Repeats tasks; ``failing`` are those that do not work now, with the codes of their errors.

    ``report`` gets ``failing`` whenever it has changed, in a thread.
    """

    def __init__(self, report: Callable[[Mapping[str, str]], object] = lambda _: None) -> None:
        self.failing: dict[str, str] = {}
        self.failures: Counter[str] = Counter()
        self._report = report
        self._reporting = threading.Lock()
        self._log = structlog.get_logger("skillwire")

    async def repeat(
        self,
        name: str,
        do: Callable[[], Awaitable[object]],
        pause: Callable[[float], Awaitable[object]],
        every: float,
        is_over: Callable[[], bool],
    ) -> None:
        """Repeat ``do`` with ``every`` seconds between two calls, until ``is_over``; ``pause`` waits some seconds."""
        after_failure = _FIRST_PAUSE
        while not is_over():
            try:
                await do()
            except Exception as error:  # noqa: BLE001  # whatever it is, it may pass
                await self.failed(name, error)
                await pause(after_failure)
                after_failure = min(2 * after_failure, _LONGEST_PAUSE)
            else:
                if name in self.failing:
                    await self.recovered(name)
                after_failure = _FIRST_PAUSE
                await pause(every)

    async def failed(self, name: str, error: Exception, *, is_logged: bool = True) -> None:
        """Count a failure; log and report the first of several with the same code."""
        self.failures[name] += 1
        code = error.code if isinstance(error, SkillwireError) else "INTERNAL"
        if self.failing.get(name) == code:
            return
        self.failing[name] = code
        if is_logged:
            trace = None if isinstance(error, SkillwireError) else error
            self._log.error("a background task failed", task=name, error=one_line(error), exc_info=trace)
        await asyncio.to_thread(self._report_failing)

    async def recovered(self, name: str) -> None:
        """Log and report that a task works again, if it failed."""
        if self.failing.pop(name, None) is None:
            return
        self._log.info("a background task works again", task=name, failures=self.failures[name])
        await asyncio.to_thread(self._report_failing)

    async def close(self) -> None:
        """Report that no task fails any more: none will be repeated."""
        self.failing.clear()
        await asyncio.to_thread(self._report_failing)

    def _report_failing(self) -> None:
        with self._reporting:  # threads overtake each other, so the last report reads what fails by then
            self._report(dict(self.failing))


async def wait_until_set(event: asyncio.Event, seconds: float) -> None:
    """Return when ``event`` is set, or after ``seconds``."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, for a thread without a loop, such as the one that follows the folders."""
    return asyncio.run_coroutine_threadsafe(coroutine, _make_loop()).result()


@cache
def _make_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that runs in a thread: one for each call would open the database anew."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="skillwire-waiting", daemon=True).start()
    return loop
