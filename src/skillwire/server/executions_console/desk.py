"""What the console needs of the desk, where executions are looked up and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.execution import Claim, Execution, ExecutionStatus
    from skillwire.model.ledger import ExecutionQuery, FoundExecutions, OpenTasks, Whose


class ConsoleDesk(Protocol):
    """Executions and tasks, as :class:`skillwire.server.invocation.desk.Desk` has them."""

    async def look_up(self, execution_id: str) -> Execution | None:
        """Return an execution."""

    async def find_begun(self, beginning: str) -> Execution | None:
        """Return the one execution whose ID begins so; None when none does, or several."""

    async def search(self, query: ExecutionQuery) -> FoundExecutions:
        """Return a page of executions, newest first.

        Raises:
            UsageError: ``CURSOR`` when ``query.after`` is none of ours.
        """

    async def count(self, query: ExecutionQuery) -> Mapping[ExecutionStatus, int]:
        """Return how many executions ``query`` finds, by status; its statuses, limit and cursor do not matter."""

    async def tasks(self, worker: str, whose: Whose, limit: int) -> OpenTasks:
        """Return the most urgent tasks that nobody has, that ``worker`` has, or that others have."""

    async def output_of(self, execution: Execution) -> bytes | None:
        """Return what an execution gave, as JSON; None where there is nothing, or nothing more."""

    async def cancel(self, execution_id: str, by: str) -> Execution | None:
        """End an execution, unless it has ended; return it as it is then."""

    async def take_task(self, execution_id: str, person: str) -> Execution | None:
        """Give a task to a person; None when somebody has it, or it ended."""

    async def complete_task(self, claim: Claim, output: Any) -> bool:
        """Hand in a task; False when the claim holds no more.

        Raises:
            ValidationError: ``VALIDATION_ERROR``, its errors in ``details["errors"]``, when the output does not fit.
        """

    async def reject_task(self, claim: Claim, message: str) -> bool:
        """Decline a task; False when the claim holds no more.

        Raises:
            UsageError: ``USAGE`` without a reason, or with one that is too long.
        """

    async def release_task(self, claim: Claim) -> bool:
        """Give a task back; False when the claim holds no more."""

    async def changed(self, since: int, seconds: float) -> int:
        """Return a number that rises with every change, as soon as it is not ``since``, or after ``seconds``."""
