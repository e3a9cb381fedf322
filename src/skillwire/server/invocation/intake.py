"""The intake: new executions on their way to the disk, as many at once as come.

What comes while others are being written is gathered, and written together next: with one statement for many, one turn
of the writer's thread and one call back to the event loop. So the more come, the less each costs, and one that comes
alone does not wait for company.

Behind a batch there is a short pause. Those who were answered then ask again, and are in the next one. Without it the
callers fall into two halves, of which each waits for the disk while the other one asks: twice as many commits for the
same work.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.sqlite.group_commit import GroupCommit
    from skillwire.model.execution import Execution
    from skillwire.ports import ExecutionLedger

    Told = Callable[[BaseException | None], object]

#: Seconds between a batch and the next; a commit takes about as long.
_PAUSE: Final = 0.001


class Intake:
    """Takes executions in; used by one event loop.

    Args:
        ledger: where they are kept.
        writer: commits what is written.
    """

    def __init__(self, ledger: ExecutionLedger, writer: GroupCommit) -> None:
        self._ledger = ledger
        self._writer = writer
        self._gathered: list[tuple[Execution, Told]] = []
        self._is_writing = False

    def take(self, execution: Execution, told: Told) -> None:
        """Keep a new execution. ``told`` is called when it is on the disk, or with the error when it is not.

        Then nothing of it is, and it may have been the fault of another that was written with it.
        """
        self._gathered.append((execution, told))
        if not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        taken, self._gathered = self._gathered, []
        executions = [execution for execution, _ in taken]
        self._writer.hand_in(lambda: self._ledger.accept_all(executions), partial(self._written, taken))

    def _written(self, taken: list[tuple[Execution, Told]], _: None, error: BaseException | None) -> None:
        loop = asyncio.get_running_loop()
        for _execution, told in taken:
            loop.call_soon(told, error)
        self._is_writing = bool(self._gathered)
        if self._is_writing:
            loop.call_later(_PAUSE, self._write)
