"""The sweep: what is late is ended, and what lost its worker is taken up, as many at once as a short write can hold.

Whoever ran it is silent, so this is where a log hears of it. What is old is forgotten here, too: outputs, executions,
and blobs that have expired.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from skillwire.invocation.states import WORKER_LOST
from skillwire.model.ledger import SWEPT_AT_ONCE
from skillwire.server.invocation.desk import facts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.model.execution import Execution
    from skillwire.model.ledger import Moment
    from skillwire.server.invocation.desk import Desk


_DAY: Final = 86_400.0


class Sweep:
    """Looks for executions that nobody will end otherwise.

    Args:
        desk: where they are.
        wake: called when there may be something to run again.
        sweep_blobs: forgets blobs that have expired at a time, and returns how many. Called in a thread.
    """

    def __init__(
        self, desk: Desk, wake: Callable[[], object], sweep_blobs: Callable[[float], int] = lambda _: 0
    ) -> None:
        self._desk = desk
        self._sweep_blobs = sweep_blobs
        self._wake = wake
        self._outputs_due = float("-inf")
        self._log = structlog.get_logger("skillwire.executions")

    async def run(self) -> bool:
        """End what is late, and take up what was lost; return whether there was anything."""
        ledger = self._desk.ledger
        was_late = await self._all(ledger.expire, lambda _: "deadline")
        return await self._all(ledger.recover, _loss) or was_late

    async def forget(self, is_over: Callable[[], bool]) -> None:
        """Forget what is old, until nothing is left of it or ``is_over``."""
        settings, desk = self._desk.settings, self._desk
        forgotten = 1
        while forgotten and not is_over():
            forgotten = await desk.writer.run(
                lambda: desk.ledger.forget(desk.clock(), outputs=settings.keep_outputs, rows=settings.keep_executions)
            )
        await asyncio.to_thread(self._sweep_outputs)
        swept = 1
        while swept and not is_over():
            swept = await asyncio.to_thread(self._sweep_blobs, desk.clock().wall)

    def _sweep_outputs(self) -> None:
        """Remove, once a day, what no execution has as its output."""
        now = self._desk.clock().steady
        if now >= self._outputs_due:
            self._outputs_due = now + _DAY
            if removed := self._desk.ledger.sweep_outputs():
                self._log.info("outputs of no execution were removed", number=removed)

    async def _all(self, sweep: Callable[[Moment], Sequence[str]], outcome: Callable[[Execution], str]) -> bool:
        number, is_any = SWEPT_AT_ONCE, False
        while number >= SWEPT_AT_ONCE:
            swept = await asyncio.to_thread(lambda: sweep(self._desk.clock()))
            number, is_any = len(swept), is_any or bool(swept)
            if swept:
                self._desk.changes.tell(*swept)
                self._wake()
                await asyncio.to_thread(self._say, swept, outcome)
        return is_any

    def _say(self, swept: Sequence[str], outcome: Callable[[Execution], str]) -> None:
        for execution_id in swept:
            found = self._desk.ledger.find(execution_id)
            if found is not None:
                self._log.warning("ended or given back", outcome=outcome(found), **facts_of(found))


def _loss(execution: Execution) -> str:
    """Return what became of an execution that lost its worker."""
    failure = execution.failure
    return WORKER_LOST.reason if failure is not None and failure.reason == WORKER_LOST.reason else "released"
