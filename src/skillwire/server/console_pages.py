"""The pages of the console: signing in, executions, tasks and the local network.

Each form of a task carries the attempt that it was made for, so it counts only as long as the person has the task.

A live page is sent anew with each change. A repeated heartbeat of a LAN skill is no change, so the page of the local
network is also sent every few seconds, with the time since each skill was heard. A page gets a few events a second at
most. Its stream ends with its session, with its reader, with the server, or after
:data:`~skillwire.limits.CONSOLE_STREAM_SECONDS`; the page opens another where that makes sense.

Trust: everything in a request is untrusted. Wrong keys count against the address like other refused credentials; after
signing in, a person is only redirected to a page of the console.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode

import structlog
from starlette.types import Receive, Send

from skillwire import limits
from skillwire.errors import UsageError, ValidationError
from skillwire.executions.tasks import form_of, read_form, read_task
from skillwire.model.execution import (
    FINAL,
    Claim,
    Execution,
    ExecutionQuery,
    ExecutionStatus,
    FoundExecutions,
    TaskOwner,
)
from skillwire.model.lan import LanSnapshot
from skillwire.server.console_request import (
    ANYONE,
    CallerNames,
    ConsoleRequest,
    Pairs,
    RefusedError,
    Sessions,
    first_page,
    following_path,
    read_console_request,
)
from skillwire.server.http import encode_fields, send_response
from skillwire.server.problems import ProblemError
from skillwire.server.responses import run_while_connected
from skillwire.web.environment import Notice, login_page, notice_page
from skillwire.web.executions_page import (
    TRAYS,
    Filters,
    ListedExecutions,
    ShownExecution,
    ShownTask,
    TaskList,
    Tray,
    execution_page,
    executions_page,
    inbox_page,
    read_filters,
    read_task_filters,
    task_page,
)
from skillwire.web.forms import read_typed
from skillwire.web.lan_page import DhtView, lan_page, read_lan_filters

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.dht import DhtService
    from skillwire.server.execution_service import ExecutionService
    from skillwire.server.lan.service import LanService
    from skillwire.server.routing import RequestContext

    Changed = Callable[[int, float], Coroutine[None, None, int]]
    #: Makes a page, with ``part`` its live part, and its status.
    MakePage = Callable[..., Awaitable[tuple[str, int]]]

_GONE: Final[tuple[HTTPStatus, Notice]] = (HTTPStatus.NOT_FOUND, "gone")
_LOOPBACK: Final = ("127.", "::1", "::ffff:127.")
_WRONG: Final = "The key is not valid on this server, or it has expired. Keys begin with sw_."
_TOO_MANY_WRONG: Final = "Too many wrong keys came from your address. Wait a minute, then try again."

#: Seconds for which counts of executions are reused: counting looks at every row.
_COUNTED_SECONDS: Final = 1.0
_COUNTED: Final = 64
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_NOTICES: Final = {
    "cancelled": "The execution was cancelled.",
    "ended": "It had ended already, so nothing was cancelled.",
}
_TASK_NOTICES: Final = {
    "claimed": "The task is yours.",
    "taken": "Another person has this task, or it has ended: you do not have it.",
    "lost": "You do not have this task any more, so nothing was handed in.",
    "completed": "The task was handed in.",
    "rejected": "The task was declined.",
    "released": "The task was given back. It is open again.",
}
_DOCUMENT: Final = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: Pages without a session; those for people who work the inbox; and those for operators.
_PUBLIC: Final = frozenset({"log_in", "log_out"})
#: Pages whose parts a visitor follows without a session, where any client with the ID may.
_FOLLOWED: Final = frozenset({"show_execution", "send_document"})
_WORK: Final = frozenset({"list_tasks", "claim", "complete", "reject", "release", "show_task", "no_task"})
#: Seconds until a line shows that a quiet stream lives.
_HEARTBEAT: Final = 15.0
#: Between two events.
_PAUSE: Final = 0.4
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_STREAMS_FULL: Final = {"Content-Length": "0", "Cache-Control": "no-store", "Retry-After": "30"}
_STREAM_FIELDS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Cookie",
}


class PageStreams:
    """The open live pages; ``changed`` waits for a change, as ``ExecutionService.changed`` does."""

    def __init__(self, changed: Callable[[int, float], Awaitable[int]]) -> None:
        self._changed = changed
        self._open: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def close(self) -> None:
        """End all, and let no more begin: the server stops."""
        self._is_closed = True
        for task in self._open:
            task.cancel()

    async def serve(
        self, make: Callable[[], Awaitable[str]], is_good: Callable[[], Awaitable[bool]], receive: Receive, send: Send
    ) -> None:
        """Send what ``make`` returns whenever something changed, for as long as ``is_good``."""
        if self._is_closed or len(self._open) >= limits.CONSOLE_STREAMS:
            await send_response(send, HTTPStatus.SERVICE_UNAVAILABLE, encode_fields(_STREAMS_FULL))
            return
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": encode_fields(_STREAM_FIELDS)})
        writing = asyncio.create_task(self._write(make, is_good, send))
        self._open.add(writing)
        try:
            await run_while_connected(writing, receive)
        finally:
            self._open.discard(writing)
        if not writing.cancelled():
            writing.result()
        await send({"type": "http.response.body", "body": b""})

    async def _write(
        self, make: Callable[[], Awaitable[str]], is_good: Callable[[], Awaitable[bool]], send: Send
    ) -> None:
        number, last = -1, ""
        end = time.monotonic() + limits.CONSOLE_STREAM_SECONDS
        await send(_part(b"retry: 2000\n\n"))
        while time.monotonic() < end:
            now = await self._changed(number, _HEARTBEAT)
            if not await is_good():
                await send(_part(_event("ended", "")))
                return
            if now == number:
                await send(_part(b": still here\n\n"))
                continue
            number, html = now, await make()
            if html != last:
                await send(_part(_event("part", html)))
                last = html
            await asyncio.sleep(_PAUSE)


def _part(data: bytes) -> dict[str, object]:
    """Return the message that carries a piece of a stream."""
    return {"type": "http.response.body", "body": data, "more_body": True}


def _event(name: str, html: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(html))
    return f"event: {name}\n{lines}\n".encode("utf-8", "replace")


class ConsolePages:
    """Answers each page of the console; ``has_skill`` tells whether a skill has a public page."""

    def __init__(
        self,
        service: ExecutionService,
        authentication: Authentication,
        *,
        base_url: str = "",
        has_skill: Callable[[str], bool] = lambda _: False,
        lan: LanService | None = None,
        dht: DhtService | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._service = service
        self._authentication = authentication
        self.sessions = Sessions(authentication.tokens, clock, base_url)
        self._base_url = base_url
        self._has_skill = has_skill
        self._clock = clock
        self._callers = CallerNames(authentication.tokens)
        self._streams = PageStreams(service.changes.beyond)
        self._visitor_streams = PageStreams(service.changes.beyond)  # visitors take no stream from a person
        self._lan = lan
        self._dht = dht
        self._has_network = lan is not None or dht is not None
        self._lan_streams = PageStreams(with_refreshes(lan.changed if lan else service.changes.beyond))
        self._counts: dict[ExecutionQuery, tuple[float, Mapping[ExecutionStatus, int]]] = {}

    def close(self) -> None:
        """End the streams of live pages, which would otherwise delay the end of the server."""
        for streams in (self._streams, self._visitor_streams, self._lan_streams):
            streams.close()

    async def answer(self, page: str, context: RequestContext) -> None:
        """Answer a request for ``page``, which is a method of this class."""
        request = await read_console_request(context, self.sessions, self._base_url, has_lan=self._has_network)
        execution_id = context.parameters.get("id") or context.path.rpartition("/")[2]
        is_followed = request.session is None and page in _FOLLOWED and await self._is_open(request, execution_id)
        if is_followed:
            request = replace(request, frame=request.frame._replace(person=ANYONE))
        if request.session is None and page not in _PUBLIC and not is_followed:
            if request.path.endswith("/live"):
                await request.show_notice("gone", HTTPStatus.FORBIDDEN)
            else:
                await request.send_to_login()
        elif page in _WORK and not request.may_work:
            await request.show_notice("denied", HTTPStatus.FORBIDDEN)
        elif page == "show_lan" and not self._has_network:
            await request.show_notice("no-lan", HTTPStatus.NOT_FOUND)
        elif page == "show_lan" and not request.sees_all:
            await request.show_notice("denied-lan", HTTPStatus.FORBIDDEN)
        else:
            try:
                await getattr(self, page)(request, execution_id)
            except RefusedError as error:
                await request.show_notice(error.notice, error.status)

    async def _is_open(self, request: ConsoleRequest, execution_id: str) -> bool:
        """Whether a visitor without a session may follow what the page of a skill shows of an execution."""
        is_part = request.path.rpartition("/")[2] != execution_id
        return is_part and request.sees(await self._service.ledger.find(execution_id))

    async def _show(self, request: ConsoleRequest, make: MakePage, streams: PageStreams | None = None) -> None:
        """Answer with a page; at its path with ``/live``, send its live part whenever that changes."""
        if not request.path.endswith("/live"):
            html, status = await make(part=False)
            await request.show(html, status)
            return

        async def make_part() -> str:
            return (await make(part=True))[0]

        async def is_valid() -> bool:
            """Whether the session is still valid, with the rights that the stream began with."""
            return await self.sessions.find(request.scope) == request.session

        streams = streams or (self._streams if request.session else self._visitor_streams)
        await streams.serve(make_part, is_valid, request.receive, request.send)

    # --- signing in and out

    async def log_in(self, request: ConsoleRequest, _: str) -> None:
        """Answer with the form, or take the typed key."""
        if request.scope["method"] != "POST" or request.session is not None:
            await self._show_login(request, following_path(request.parameter("next")))
            return
        sent = dict(await request.form())
        following = following_path(sent.get("next", ""))
        try:
            token = await self._authentication.recognise_typed(sent.get("key", "").strip(), request.scope)
        except ProblemError as refusal:
            fields = {"Retry-After": refusal.problem.fields["Retry-After"]}
            await self._show_login(request, following, _TOO_MANY_WRONG, HTTPStatus.TOO_MANY_REQUESTS, fields)
            return
        if token is None:
            await self._show_login(request, following, _WRONG, HTTPStatus.FORBIDDEN)
            return
        structlog.get_logger("skillwire").info("signed in to the console", token=token.token_id)
        cookie = await asyncio.to_thread(self.sessions.set_cookie, request.scope, self.sessions.begin(token))
        await request.redirect(following or first_page(token), cookie)

    async def log_out(self, request: ConsoleRequest, _: str) -> None:
        """End the session after a POST of our own form."""
        if request.scope["method"] != "POST" or request.session is None:
            await request.redirect("/login")
            return
        await request.form()
        await self.sessions.end(request.session)
        await request.redirect("/login", await asyncio.to_thread(self.sessions.set_cookie, request.scope, ""))

    async def _show_login(
        self,
        request: ConsoleRequest,
        following: str,
        problem: str = "",
        status: int = HTTPStatus.OK,
        fields: Mapping[str, str] = {},
    ) -> None:
        is_local = (request.scope.get("client") or ("", 0))[0].startswith(_LOOPBACK)
        html = await asyncio.to_thread(
            login_page,
            request.frame,
            following=following,
            problem=problem,
            is_local=is_local,
            provider=self._authentication.provider,
        )
        await request.show(html, status, fields)

    # --- executions

    async def list_executions(self, request: ConsoleRequest, _: str) -> None:
        """Answer with the list."""
        filters = read_filters(request.scope["query_string"])

        async def make(*, part: bool) -> tuple[str, int]:
            listed = await self._listed(filters, request)
            html = await asyncio.to_thread(executions_page, listed, filters, request.frame, part=part)
            return html, HTTPStatus.BAD_REQUEST if listed.problem else HTTPStatus.OK

        await self._show(request, make)

    async def show_execution(self, request: ConsoleRequest, execution_id: str) -> None:
        """Answer with the page of one; redirect from the beginning of its ID, which logs show."""
        ledger, notice = self._service.ledger, _NOTICES.get(request.parameter("notice"), "")
        if not request.sees(execution := await ledger.find(execution_id)):
            begun = await ledger.find_begun(execution_id) if execution is None else None
            if begun is None or not request.sees(begun):
                raise RefusedError(*_GONE)
            await request.redirect(f"/executions/{begun.execution_id}")
            return

        async def make(*, part: bool) -> tuple[str, int]:
            execution = await ledger.find(execution_id)
            if execution is None:
                return await asyncio.to_thread(notice_page, "gone", request.frame), HTTPStatus.NOT_FOUND
            shown = (await self._shown(execution))._replace(notice="" if part else notice)
            if request.session is None:
                shown = shown._replace(may_cancel=False)
            return await asyncio.to_thread(execution_page, shown, request.frame, part=part), HTTPStatus.OK

        await self._show(request, make)

    async def send_document(self, request: ConsoleRequest, execution_id: str) -> None:
        """Answer with the inputs or the output, as a file."""
        execution = await self._service.ledger.find(execution_id)
        which, data = request.path.rpartition("/")[2], None
        if execution is not None and request.sees(execution):
            data = execution.inputs if which == "inputs.json" else await self._service.ledger.output(execution)
        if data is None:
            raise RefusedError(*_GONE)
        name = f'attachment; filename="{execution_id}-{which}"'
        fields = {**_DOCUMENT, "Content-Disposition": name, "Content-Length": str(len(data))}
        body = b"" if request.scope["method"] == "HEAD" else data
        await send_response(request.send, HTTPStatus.OK, encode_fields(fields), body)

    async def cancel(self, request: ConsoleRequest, execution_id: str) -> None:
        """Cancel one, and redirect to its page."""
        await request.form()
        execution = await self._service.ledger.find(execution_id)
        if execution is None or not request.sees(execution):
            raise RefusedError(*_GONE)
        ended = execution.status.is_final
        if not ended:
            after = await self._service.cancel(execution_id, request.name)
            ended = after is None or after.failure is None or after.failure.reason != "cancelled"
        await request.redirect(f"/executions/{execution_id}", notice="ended" if ended else "cancelled")

    async def _shown(self, execution: Execution) -> ShownExecution:
        output = await self._service.ledger.output(execution) if execution.status is ExecutionStatus.COMPLETED else None
        caller = (await self._callers.names((execution.caller,)))[execution.caller]
        has_skill = self._has_skill(execution.skill)
        return ShownExecution(execution, output, caller, self._clock(), may_cancel=True, has_skill=has_skill)

    async def _listed(self, filters: Filters, request: ConsoleRequest) -> ListedExecutions:
        query = filters.query(await self._callers.caller_of(filters.caller) if filters.caller else "")
        if not request.sees_all:
            query = query._replace(caller=request.caller)
        page, problem = FoundExecutions(()), ""
        try:
            page = await self._service.ledger.search(query)
        except UsageError as error:
            problem = error.message
        names = await self._callers.names([execution.caller for execution in page.executions])
        return ListedExecutions(page, await self._counted(query), names, self._clock(), problem)

    async def _counted(self, query: ExecutionQuery) -> Mapping[ExecutionStatus, int]:
        asked = query._replace(statuses=None, after=None)
        now = time.monotonic()
        until, counts = self._counts.get(asked, (0.0, {}))
        if until <= now:
            counts = await self._service.ledger.count(asked)
            if len(self._counts) >= _COUNTED:
                self._counts.clear()
            self._counts[asked] = (now + _COUNTED_SECONDS, counts)
        return counts

    # --- tasks

    async def list_tasks(self, request: ConsoleRequest, _: str) -> None:
        """Answer with the inbox."""

        async def make(*, part: bool) -> tuple[str, int]:
            notice = "" if part else _TASK_NOTICES.get(request.parameter("notice"), "")
            tasks = (await self._tasks(request))._replace(notice=notice)
            return await asyncio.to_thread(inbox_page, tasks, request.frame, part=part), HTTPStatus.OK

        await self._show(request, make)

    async def show_task(self, request: ConsoleRequest, execution_id: str) -> None:
        """Answer with the page of one task."""
        task = await self._task(execution_id)
        await self._show_task(request, task, notice=_TASK_NOTICES.get(request.parameter("notice"), ""))

    async def no_task(self, _request: ConsoleRequest, _: str) -> None:
        """Answer at a path of the inbox that is no task's."""
        raise RefusedError(*_GONE)

    async def claim(self, request: ConsoleRequest, execution_id: str) -> None:
        """Take a task."""
        await request.form()
        await self._task(execution_id)
        taken = await self._service.take_task(execution_id, request.worker)
        await request.redirect(f"/inbox/{execution_id}", notice="claimed" if taken else "taken")

    async def complete(self, request: ConsoleRequest, execution_id: str) -> None:
        """Hand in a task; show it again, as typed, when that does not fit."""
        pairs = await request.form()
        task = await self._task(execution_id)
        fields = await asyncio.to_thread(form_of, read_task(task).output)
        typed = read_typed(fields, pairs)
        claim, done = _claim(request, execution_id, pairs), False
        try:
            done = await self._service.complete_task(claim, await asyncio.to_thread(read_form, fields, typed))
        except ValidationError as error:
            if claim == (execution_id, task.worker, task.attempt):
                found = error.details.get("errors")
                errors = found if isinstance(found, list) else [{"path": "", "message": error.message}]
                await self._show_task(request, task, HTTPStatus.UNPROCESSABLE_ENTITY, typed=typed, errors=errors)
                return
        await self._redirect_after(request, execution_id, "completed" if done else "lost")

    async def reject(self, request: ConsoleRequest, execution_id: str) -> None:
        """Decline a task, with a reason."""
        pairs = await request.form()
        task = await self._task(execution_id)
        reason, most = dict(pairs).get("reason", "").strip(), limits.TASK_REASON_LENGTH
        try:
            done = await self._service.reject_task(_claim(request, execution_id, pairs), reason)
        except UsageError:
            problem = f"Say it in at most {most:,} characters." if reason else "Say why."
            unfit = HTTPStatus.UNPROCESSABLE_ENTITY
            await self._show_task(request, task, unfit, reason=reason[:most], reject_problem=problem)
            return
        await self._redirect_after(request, execution_id, "rejected" if done else "lost")

    async def release(self, request: ConsoleRequest, execution_id: str) -> None:
        """Give a task back."""
        pairs = await request.form()
        await self._task(execution_id)
        done = await self._service.release_task(_claim(request, execution_id, pairs))
        await self._redirect_after(request, execution_id, "released" if done else "lost")

    async def _redirect_after(self, request: ConsoleRequest, execution_id: str, notice: str) -> None:
        path = f"/inbox/{execution_id}" if notice == "lost" else "/inbox"
        query = {"notice": notice} if notice in {"lost", "released"} else {"tray": "mine", "notice": notice}
        await request.redirect(f"{path}?{urlencode(query)}")

    async def _task(self, execution_id: str) -> Execution:
        """Return a task. Raises RefusedError (404) for anything else."""
        execution = await self._service.ledger.find(execution_id)
        if execution is None or execution.executor != "human":
            raise RefusedError(*_GONE)
        return execution

    async def _show_task(
        self, request: ConsoleRequest, task: Execution, status: int = HTTPStatus.OK, **more: Any
    ) -> None:
        output = await self._service.ledger.output(task) if task.status is ExecutionStatus.COMPLETED else None
        names = await self._callers.names((task.caller,))
        shown = ShownTask(task, output, names[task.caller], request.worker, self._clock(), **more)
        await request.show(await asyncio.to_thread(task_page, shown, request.frame), status)

    async def _tasks(self, request: ConsoleRequest) -> TaskList:
        asked = request.parameter("tray")
        tray: Tray = cast("Tray", asked) if asked in TRAYS else "open"
        after = request.parameter("after") or None
        whose: TaskOwner = "open" if tray == "ended" else tray
        filters = read_task_filters(request.scope["query_string"])
        most = limits.CONSOLE_TASKS_SEARCHED if any(filters) else limits.CONSOLE_TASKS
        active = await self._service.ledger.tasks(request.worker, whose, limit=most)
        found = FoundExecutions(active.tasks)
        if tray == "ended":
            query = ExecutionQuery(statuses=FINAL, executor="human", limit=limits.CONSOLE_EXECUTIONS, after=after)
            try:
                found = await self._service.ledger.search(query)
            except UsageError:  # an invalid cursor
                found = await self._service.ledger.search(query._replace(after=None))
        passed = await asyncio.to_thread(filters.pass_on, found.executions)
        found = found._replace(executions=passed[: limits.CONSOLE_TASKS])
        names, now = await self._callers.names([task.caller for task in found.executions]), self._clock()
        listed = TaskList(tray, found.executions, active.counts, names, now, found.after, after is None)
        return listed._replace(filters=filters)

    # --- the local network

    async def show_lan(self, request: ConsoleRequest, _: str) -> None:
        """Answer with the page of the local network and the DHT; without one, with the reason."""
        filters = read_lan_filters(request.scope["query_string"])

        async def make(*, part: bool) -> tuple[str, int]:
            now, known, trouble, is_there = self._clock(), None, "", True
            if self._lan is not None:
                snapshot = self._lan.snapshot()
                is_there = snapshot is not None
                trouble = "" if is_there else self._lan.trouble or "this server is not on the network yet"
                known = snapshot or LanSnapshot("", now, (), ())
            node = None if self._dht is None else DhtView(self._dht.status(), self._dht.note())
            port = 0 if self._lan is None else self._lan.settings.port
            page = partial(lan_page, port=port, part=part, trouble=trouble, dht=node)
            html = await asyncio.to_thread(page, known, now, filters, request.frame)
            return html, HTTPStatus.OK if is_there else HTTPStatus.SERVICE_UNAVAILABLE

        await self._show(request, make, self._lan_streams)


def _claim(request: ConsoleRequest, execution_id: str, pairs: Pairs) -> Claim:
    written = dict(pairs).get("attempt", "")
    return Claim(execution_id, request.worker, int(written) if _NUMBER.fullmatch(written) else 0)


#: Seconds between two updates of an unchanged page of the local network: the interval of heartbeats.
_REFRESH_SECONDS: Final = 5.0


def with_refreshes(changed: Changed, seconds: float = _REFRESH_SECONDS) -> Changed:
    """Return what waits for a number that rises with every change, and once in so many ``seconds``."""

    async def wait(since: int, longest: float) -> int:
        times, gone = divmod(time.monotonic(), seconds)
        number = await changed(since - int(times), min(longest, seconds - gone))
        return number + int(time.monotonic() // seconds)

    return wait
