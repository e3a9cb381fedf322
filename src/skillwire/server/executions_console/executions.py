"""The pages of executions: the list, one of them, its documents, and what cancels it."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from skillwire.errors import UsageError
from skillwire.model.execution import ExecutionStatus
from skillwire.model.ledger import ExecutionQuery, FoundExecutions
from skillwire.server.headers import encode_fields
from skillwire.web.execution_page import Shown, execution_page
from skillwire.web.execution_query import read_filters
from skillwire.web.executions_page import Listed, executions_page
from skillwire.web.notice_page import notice_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from skillwire.model.execution import Execution
    from skillwire.server.executions_console.callers import Callers
    from skillwire.server.executions_console.desk import ConsoleDesk
    from skillwire.server.executions_console.request import ConsoleRequest
    from skillwire.server.executions_console.stream import Streams
    from skillwire.web.execution_query import Filters

#: Counting looks at every row, so what was counted is good for a moment, whoever looks.
_COUNTED_SECONDS: Final = 1.0
_COUNTED: Final = 64
_TOLD: Final = {
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
    """Answers what concerns executions.

    Args:
        desk: where they are.
        callers: names their callers.
        streams: keeps pages live.
        has_skill: whether everybody may see the skill of this name, so that it has a page.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        desk: ConsoleDesk,
        callers: Callers,
        streams: Streams,
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
        told = _TOLD.get(request.parameter("told"), "")
        await request.show(await asyncio.to_thread(execution_page, shown._replace(told=told), request.frame))

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

    async def _shown(self, execution: Execution) -> Shown:
        output = await self._desk.output_of(execution) if execution.status is ExecutionStatus.COMPLETED else None
        names = await asyncio.to_thread(self._callers.names, (execution.caller,))
        return Shown(
            execution,
            output,
            names[execution.caller],
            self._clock(),
            may_cancel=True,
            has_skill=self._has_skill(execution.skill),
        )

    async def _listed(self, filters: Filters, request: ConsoleRequest) -> Listed:
        query = await asyncio.to_thread(filters.query, self._callers.caller_of)
        if not request.sees_all:
            query = query._replace(caller=request.caller)
        problem = ""
        try:
            page = await self._desk.search(query)
        except UsageError as error:
            page, problem = FoundExecutions(()), error.message
        names = await asyncio.to_thread(self._callers.names, [execution.caller for execution in page.executions])
        return Listed(page, await self._counted(query), names, self._clock(), problem)

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
