"""The inbox: tasks are listed, claimed, handed in, declined and given back.

Each form carries the attempt for which it was made, so what somebody typed while they had a task counts only as long
as they have it: when it was given back meanwhile, and taken by another, it does not.
"""

from __future__ import annotations

import asyncio
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode

from skillwire import limits
from skillwire.errors import UsageError, ValidationError
from skillwire.invocation.forms import read_form
from skillwire.model.execution import FINAL, Claim, ExecutionStatus
from skillwire.model.ledger import ExecutionQuery, FoundExecutions
from skillwire.server.executions_console.executions import show_gone
from skillwire.web.inbox_page import TRAYS, Tasks, inbox_page
from skillwire.web.task_page import Shown, read_typed, task_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skillwire.model.execution import Execution
    from skillwire.model.ledger import Whose
    from skillwire.server.executions_console.callers import Callers
    from skillwire.server.executions_console.desk import ConsoleDesk
    from skillwire.server.executions_console.request import ConsoleRequest, Pairs
    from skillwire.server.executions_console.stream import Streams
    from skillwire.web.inbox_page import Tray

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_TOLD: Final = {
    "claimed": "The task is yours.",
    "taken": "Somebody else was quicker, or it has ended: you do not have this task.",
    "lost": "You do not have this task any more, so nothing was handed in.",
    "completed": "The task was handed in.",
    "rejected": "The task was declined.",
    "released": "The task was given back. It is open again.",
}


class InboxPages:
    """Answers what concerns tasks.

    Args:
        desk: where they are.
        callers: names their callers.
        streams: keeps pages live.
        clock: seconds since the epoch.
    """

    def __init__(
        self, desk: ConsoleDesk, callers: Callers, streams: Streams, clock: Callable[[], float] = time.time
    ) -> None:
        self._desk = desk
        self._callers = callers
        self._streams = streams
        self._clock = clock

    async def show_list(self, request: ConsoleRequest) -> None:
        """Answer with the inbox."""
        tasks = await self._tasks(request)
        tasks = tasks._replace(told=_TOLD.get(request.parameter("told"), ""))
        await request.show(await asyncio.to_thread(inbox_page, tasks, request.frame))

    async def follow_list(self, request: ConsoleRequest, is_good: Callable[[], Awaitable[bool]]) -> None:
        """Send the inbox whenever it changes."""

        async def make() -> str:
            return await asyncio.to_thread(inbox_page, await self._tasks(request), request.frame, part=True)

        await self._streams.serve(make, is_good, request.receive, request.send)

    async def show(self, request: ConsoleRequest, execution_id: str) -> None:
        """Answer with the page of one task."""
        task = await self._task(execution_id)
        if task is None:
            await show_gone(request)
            return
        await self._show(request, task, told=_TOLD.get(request.parameter("told"), ""))

    async def claim(self, request: ConsoleRequest, execution_id: str) -> None:
        """Take a task."""
        await request.form()
        if await self._task(execution_id) is None:
            await show_gone(request)
            return
        taken = await self._desk.take_task(execution_id, request.worker)
        await request.lead(f"/inbox/{execution_id}?{urlencode({'told': 'claimed' if taken else 'taken'})}")

    async def complete(self, request: ConsoleRequest, execution_id: str) -> None:
        """Hand in a task; show it again, with what was typed, when that does not fit."""
        pairs = await request.form()
        task = await self._task(execution_id)
        if task is None:
            await show_gone(request)
            return
        fields, typed = await asyncio.to_thread(read_typed, task, pairs)
        claim = _claim(request, execution_id, pairs)
        done = False
        try:
            output = await asyncio.to_thread(read_form, fields, typed)
            done = await self._desk.complete_task(claim, output)
        except ValidationError as error:
            if claim == (execution_id, task.worker, task.attempt):
                await self._show(request, task, HTTPStatus.UNPROCESSABLE_ENTITY, typed=typed, errors=_errors(error))
                return
        await request.lead("/inbox?tray=mine&told=completed" if done else f"/inbox/{execution_id}?told=lost")

    async def reject(self, request: ConsoleRequest, execution_id: str) -> None:
        """Decline a task, with a reason."""
        pairs = await request.form()
        task = await self._task(execution_id)
        if task is None:
            await show_gone(request)
            return
        reason, most = dict(pairs).get("reason", "").strip(), limits.TASK_REASON_LENGTH
        try:
            done = await self._desk.reject_task(_claim(request, execution_id, pairs), reason)
        except UsageError:
            problem = f"Say it in at most {most:,} characters." if reason else "Say why."
            unfit = HTTPStatus.UNPROCESSABLE_ENTITY
            await self._show(request, task, unfit, reason=reason[:most], reject_problem=problem)
            return
        await request.lead("/inbox?tray=mine&told=rejected" if done else f"/inbox/{execution_id}?told=lost")

    async def release(self, request: ConsoleRequest, execution_id: str) -> None:
        """Give a task back."""
        pairs = await request.form()
        if await self._task(execution_id) is None:
            await show_gone(request)
            return
        done = await self._desk.release_task(_claim(request, execution_id, pairs))
        await request.lead("/inbox?told=released" if done else f"/inbox/{execution_id}?told=lost")

    async def _task(self, execution_id: str) -> Execution | None:
        execution = await self._desk.look_up(execution_id)
        return execution if execution is not None and execution.executor == "human" else None

    async def _show(self, request: ConsoleRequest, task: Execution, status: int = HTTPStatus.OK, **more: Any) -> None:
        output = await self._desk.output_of(task) if task.status is ExecutionStatus.COMPLETED else None
        names = await asyncio.to_thread(self._callers.names, (task.caller,))
        shown = Shown(task, output, names[task.caller], request.worker, self._clock(), **more)
        await request.show(await asyncio.to_thread(task_page, shown, request.frame), status)

    async def _tasks(self, request: ConsoleRequest) -> Tasks:
        wanted = request.parameter("tray")
        tray: Tray = cast("Tray", wanted) if wanted in TRAYS else "open"
        after = request.parameter("after") or None
        whose: Whose = "open" if tray == "ended" else tray
        active = await self._desk.tasks(request.worker, whose, limits.CONSOLE_TASKS)
        found = await self._ended(after) if tray == "ended" else FoundExecutions(active.tasks)
        names = await asyncio.to_thread(self._callers.names, [task.caller for task in found.executions])
        return Tasks(tray, found.executions, active.counts, names, self._clock(), found.after, after is None)

    async def _ended(self, after: str | None) -> FoundExecutions:
        query = ExecutionQuery(statuses=FINAL, executor="human", limit=limits.CONSOLE_EXECUTIONS, after=after)
        try:
            return await self._desk.search(query)
        except UsageError:  # a cursor that is none of ours
            return await self._desk.search(query._replace(after=None))


def _claim(request: ConsoleRequest, execution_id: str, pairs: Pairs) -> Claim:
    """Return the claim under which a form was sent."""
    written = dict(pairs).get("attempt", "")
    return Claim(execution_id, request.worker, int(written) if _NUMBER.fullmatch(written) else 0)


def _errors(error: ValidationError) -> list[Any]:
    """Return what is wrong, and where in the output."""
    found = error.details.get("errors")
    return found if isinstance(found, list) else [{"path": "", "message": error.message}]
