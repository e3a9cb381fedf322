"""The pages of executions: the list, one of them, its documents, and what cancels it.

The inbox: tasks are listed, claimed, handed in, declined and given back.

Each form carries the attempt for which it was made, so what a person typed while they had a task counts only as long
as they have it: when it was given back meanwhile, and taken by another, it does not.

The page of the local network: what the server's agent knows of it, for operators.

What a skill does tells itself: a change makes the page anew at once. That a skill was heard again, as before, is no
change, so the page is made anew every few seconds, too, and says how long ago each was heard.
"""

from __future__ import annotations

import asyncio
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import urlencode

from skillwire import limits
from skillwire.errors import UsageError, ValidationError
from skillwire.executions.task_form import read_form
from skillwire.model.execution import FINAL, Claim, ExecutionQuery, ExecutionStatus, FoundExecutions
from skillwire.model.lan import LanSnapshot
from skillwire.server.event_streams import PageStreams
from skillwire.server.http import encode_fields
from skillwire.web.environment import notice_page
from skillwire.web.executions_page import (
    ListedExecutions,
    ShownExecution,
    execution_page,
    executions_page,
    read_filters,
)
from skillwire.web.lan_map import read_lan_filters
from skillwire.web.lan_page import lan_page
from skillwire.web.task_page import TRAYS, ShownTask, TaskList, inbox_page, read_typed, task_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from skillwire.model.execution import Execution, TaskOwner
    from skillwire.server.console_requests import CallerNames, ConsoleExecutions, ConsoleRequest, Pairs
    from skillwire.web.executions_page import Filters
    from skillwire.web.lan_map import LanFilters
    from skillwire.web.task_page import Tray


#: Counting looks at every row, so what was counted is good for a moment, whoever looks.
_COUNTED_SECONDS: Final = 1.0
_COUNTED: Final = 64
_NOTICES: Final = {
    "cancelled": "The execution was cancelled.",
    "ended": "It had ended already, so nothing was cancelled.",
}
_DOCUMENT: Final = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ExecutionPages:
    """The pages of executions; ``has_skill`` tells whether a skill has a public page."""

    def __init__(
        self,
        desk: ConsoleExecutions,
        callers: CallerNames,
        streams: PageStreams,
        has_skill: Callable[[str], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._desk = desk
        self._callers = callers
        self._streams = streams
        self._has_skill = has_skill
        self._clock = clock
        self._counts: dict[ExecutionQuery, tuple[float, Mapping[ExecutionStatus, int]]] = {}

    async def show_list(self, request: ConsoleRequest) -> None:
        """Answer with the list."""
        filters = read_filters(request.scope["query_string"])
        listed = await self._listed(filters, request)
        html = await asyncio.to_thread(executions_page, listed, filters, request.frame)
        await request.show(html, HTTPStatus.BAD_REQUEST if listed.problem else HTTPStatus.OK)

    async def follow_list(self, request: ConsoleRequest, is_good: Callable[[], Awaitable[bool]]) -> None:
        """Send the list whenever it changes."""
        filters = read_filters(request.scope["query_string"])

        async def make() -> str:
            listed = await self._listed(filters, request)
            return await asyncio.to_thread(executions_page, listed, filters, request.frame, part=True)

        await self._streams.serve(make, is_good, request.receive, request.send)

    async def show(self, request: ConsoleRequest, execution_id: str) -> None:
        """Answer with the page of one; lead there from the beginning of its ID, which logs tell."""
        execution = await self._seen(request, execution_id)
        if execution is None:
            begun = await self._desk.find_begun(execution_id)
            if begun is not None and request.sees(begun):
                await request.lead(f"/executions/{begun.execution_id}")
                return
            await show_gone(request)
            return
        shown = await self._shown(execution)
        told = _NOTICES.get(request.parameter("told"), "")
        await request.show(await asyncio.to_thread(execution_page, shown._replace(notice=told), request.frame))

    async def follow(self, request: ConsoleRequest, execution_id: str, is_good: Callable[[], Awaitable[bool]]) -> None:
        """Send what changes of the page whenever it does."""
        if await self._seen(request, execution_id) is None:
            await show_gone(request)
            return

        async def make() -> str:
            execution = await self._desk.look_up(execution_id)
            if execution is None:
                return await asyncio.to_thread(notice_page, "gone", request.frame)
            shown = await self._shown(execution)
            return await asyncio.to_thread(execution_page, shown, request.frame, part=True)

        await self._streams.serve(make, is_good, request.receive, request.send)

    async def send_document(self, request: ConsoleRequest, execution_id: str, which: str) -> None:
        """Answer with the inputs or the output, as a file."""
        execution = await self._seen(request, execution_id)
        data = None
        if execution is not None:
            data = execution.inputs if which == "inputs" else await self._desk.output_of(execution)
        if data is None:
            await show_gone(request)
            return
        name = f'attachment; filename="{execution_id}-{which}.json"'
        fields = {**_DOCUMENT, "Content-Disposition": name, "Content-Length": str(len(data))}
        await request.send({"type": "http.response.start", "status": 200, "headers": encode_fields(fields)})
        body = b"" if request.scope["method"] == "HEAD" else data
        await request.send({"type": "http.response.body", "body": body})

    async def cancel(self, request: ConsoleRequest, execution_id: str) -> None:
        """Cancel one, and lead back to its page."""
        await request.form()
        execution = await self._seen(request, execution_id)
        if execution is None:
            await show_gone(request)
            return
        ended = execution.status.is_final
        if not ended:
            after = await self._desk.cancel(execution_id, request.name)
            ended = after is None or after.failure is None or after.failure.reason != "cancelled"
        told = urlencode({"told": "ended" if ended else "cancelled"})
        await request.lead(f"/executions/{execution_id}?{told}")

    async def _seen(self, request: ConsoleRequest, execution_id: str) -> Execution | None:
        """Return an execution, if the person may see it."""
        execution = await self._desk.look_up(execution_id)
        return execution if execution is not None and request.sees(execution) else None

    async def _shown(self, execution: Execution) -> ShownExecution:
        output = await self._desk.output_of(execution) if execution.status is ExecutionStatus.COMPLETED else None
        names = await self._callers.names((execution.caller,))
        return ShownExecution(
            execution,
            output,
            names[execution.caller],
            self._clock(),
            may_cancel=True,
            has_skill=self._has_skill(execution.skill),
        )

    async def _listed(self, filters: Filters, request: ConsoleRequest) -> ListedExecutions:
        query = filters.query(await self._callers.caller_of(filters.caller) if filters.caller else "")
        if not request.sees_all:
            query = query._replace(caller=request.caller)
        problem = ""
        try:
            page = await self._desk.search(query)
        except UsageError as error:
            page, problem = FoundExecutions(()), error.message
        names = await self._callers.names([execution.caller for execution in page.executions])
        return ListedExecutions(page, await self._counted(query), names, self._clock(), problem)

    async def _counted(self, query: ExecutionQuery) -> Mapping[ExecutionStatus, int]:
        asked = query._replace(statuses=None, after=None)
        now = time.monotonic()
        until, counts = self._counts.get(asked, (0.0, {}))
        if until <= now:
            counts = await self._desk.count(asked)
            if len(self._counts) >= _COUNTED:
                self._counts.clear()
            self._counts[asked] = (now + _COUNTED_SECONDS, counts)
        return counts


async def show_gone(request: ConsoleRequest) -> None:
    """Answer with the page that says that there is no such execution, for this person."""
    html = await asyncio.to_thread(notice_page, "gone", request.frame)
    await request.show(html, HTTPStatus.NOT_FOUND)


_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_TASK_NOTICES: Final = {
    "claimed": "The task is yours.",
    "taken": "Somebody else was quicker, or it has ended: you do not have this task.",
    "lost": "You do not have this task any more, so nothing was handed in.",
    "completed": "The task was handed in.",
    "rejected": "The task was declined.",
    "released": "The task was given back. It is open again.",
}


class InboxPages:
    """The pages of tasks."""

    def __init__(
        self,
        desk: ConsoleExecutions,
        callers: CallerNames,
        streams: PageStreams,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._desk = desk
        self._callers = callers
        self._streams = streams
        self._clock = clock

    async def show_list(self, request: ConsoleRequest) -> None:
        """Answer with the inbox."""
        tasks = await self._tasks(request)
        tasks = tasks._replace(notice=_TASK_NOTICES.get(request.parameter("told"), ""))
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
        await self._show(request, task, notice=_TASK_NOTICES.get(request.parameter("told"), ""))

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
        names = await self._callers.names((task.caller,))
        shown = ShownTask(task, output, names[task.caller], request.worker, self._clock(), **more)
        await request.show(await asyncio.to_thread(task_page, shown, request.frame), status)

    async def _tasks(self, request: ConsoleRequest) -> TaskList:
        wanted = request.parameter("tray")
        tray: Tray = cast("Tray", wanted) if wanted in TRAYS else "open"
        after = request.parameter("after") or None
        whose: TaskOwner = "open" if tray == "ended" else tray
        active = await self._desk.tasks(request.worker, whose, limits.CONSOLE_TASKS)
        found = await self._ended(after) if tray == "ended" else FoundExecutions(active.tasks)
        names = await self._callers.names([task.caller for task in found.executions])
        return TaskList(tray, found.executions, active.counts, names, self._clock(), found.after, after is None)

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


#: Seconds: as often as a skill is heard that has nothing new to say.
_REFRESH_SECONDS: Final = 5.0


class LanSnapshots(Protocol):
    """What the page needs of :class:`skillwire.server.lan.service.LanService`."""

    trouble: str

    def snapshot(self) -> LanSnapshot | None:
        """Return what is known; None while there is no network."""

    async def changed(self, since: int, seconds: float) -> int:
        """Return the number of the last change, when it is more than ``since`` or after ``seconds``."""


class LanPages:
    """The page of the local network; ``beat`` is the seconds between two updates without a change."""

    def __init__(
        self, network: LanSnapshots, clock: Callable[[], float] = time.time, beat: float = _REFRESH_SECONDS
    ) -> None:
        self._network = network
        self._clock = clock
        self._beat = beat
        self._streams = PageStreams(self._changed)

    def close(self) -> None:
        """End the streams of live pages."""
        self._streams.close()

    async def show(self, request: ConsoleRequest) -> None:
        """Answer with the page; without a network, with the reason."""
        filters = read_lan_filters(request.scope["query_string"])
        html = await self._page(filters, request, part=False)
        trouble = self._network.snapshot() is None
        await request.show(html, HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK)

    async def follow(self, request: ConsoleRequest, is_good: Callable[[], Awaitable[bool]]) -> None:
        """Send what changes of the page whenever it does."""
        filters = read_lan_filters(request.scope["query_string"])
        await self._streams.serve(
            lambda: self._page(filters, request, part=True), is_good, request.receive, request.send
        )

    async def _page(self, filters: LanFilters, request: ConsoleRequest, *, part: bool) -> str:
        now = self._clock()
        snapshot = self._network.snapshot()
        trouble = "" if snapshot else self._network.trouble or "this server is not on the network yet"
        known = snapshot or LanSnapshot("", now, (), ())
        return await asyncio.to_thread(lan_page, known, now, filters, request.frame, part=part, trouble=trouble)

    async def _changed(self, since: int, seconds: float) -> int:
        """Return a number that rises with every change, and with every beat of the clock."""
        beats, gone = divmod(time.monotonic(), self._beat)
        number = await self._network.changed(since - int(beats), min(seconds, self._beat - gone))
        return number + int(time.monotonic() // self._beat)
