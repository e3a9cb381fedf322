"""An event loop whose time is virtual: where nothing is left to do before a timer, that timer is next.

A test that sleeps for an hour ends at once, and in the same order each time. What threads do takes no virtual time:
while an executor works, the loop waits for it in earnest. The mark ``virtual_time`` gives such a loop to a test, or to
all of a module.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any

from skillwire.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.execution import Moment

#: Seconds for which the loop waits for a thread, a process or a peer before the test is taken to hang.
PATIENCE = 30.0


class VirtualTimeSelector(selectors.DefaultSelector):
    """Waits in earnest only for what happens outside of the loop."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is not None and not self._loop.is_busy():
            self._loop.advance(timeout)
            return []
        events = super().select(PATIENCE)
        if not events:
            raise RuntimeError("the test waits for something that never happens")
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer as soon as nothing else is to do.

    ``clock`` shows the same time, for what is given a clock.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._threads = 0
        super().__init__(VirtualTimeSelector(self))

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self.clock.steady

    def moment(self) -> Moment:
        """Return the virtual moment: a :class:`~skillwire.ports.Clock`."""
        return self.clock.moment()

    def advance(self, seconds: float) -> None:
        self.clock.move_to(self.clock.steady + seconds)

    def is_busy(self) -> bool:
        return self._threads > 0

    def run_in_executor(  # type: ignore[override]  # its type variables are asyncio's own
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Start it in a thread, and let no time pass until it ended."""
        self._threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        self._threads -= 1


def virtual_loop() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop
