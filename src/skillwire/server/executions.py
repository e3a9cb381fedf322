"""Executions as one part of the server: requests for them, and the tasks that run them in the background.

A call may carry its credentials in its body, so the body is read before the caller is authenticated.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import uvloop
from starlette.exceptions import HTTPException

from skillwire import limits
from skillwire.errors import SkillwireError, TrustError
from skillwire.executions.callable_skill import is_code
from skillwire.protocols.skill_sharing import EXECUTIONS, REGISTRY
from skillwire.protocols.skill_sharing.server import not_found
from skillwire.protocols.skills_rpc.errors import FIXES
from skillwire.server.auth.authentication import Authentication, has_credentials
from skillwire.server.background import BackgroundTasks
from skillwire.server.execution_responses import problem_for
from skillwire.server.execution_service import CallableSkills, ExecutionService, GrantCache
from skillwire.server.http import PAGE_REFUSED, Origins, read_fields, site_of
from skillwire.server.openapi import CONDITION, JSON, TEXT
from skillwire.server.problems import NOT_FOUND, READ, ProblemError
from skillwire.server.request_bodies import Bodies, Body
from skillwire.server.routes.executions import (
    EndpointMatch,
    Endpoints,
    InvocationRoute,
    Request,
    RequestOptions,
    body_credentials,
    match_standard_path,
    read_options,
    read_request,
    requested_name,
)
from skillwire.server.routing import Answer, Handler, Operation, Route
from skillwire.server.rpc_methods import RPC_BOUNDS
from skillwire.server.runs import Runs
from skillwire.server.webhooks import WebhookSender
from skillwire.server.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from starlette.types import ASGIApp, Scope

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.executions.grants import Grants
    from skillwire.model.access import Principal
    from skillwire.model.execution import Execution, RunSettings
    from skillwire.model.skill import ExecutorKind, Skill
    from skillwire.ports import BlobStore, Clock, ExecutionLedger, Executor, RunBlobs
    from skillwire.protocols.skill_sharing.messages import InvocationRequest
    from skillwire.server.configuration import ServerConfiguration
    from skillwire.server.revision import AccessView, Revision
    from skillwire.server.routes.console import ExecutionsConsole
    from skillwire.server.routes.pages import SkillPages
    from skillwire.server.routing import RequestContext
    from skillwire.server.worker import Restore


_SKILLS_KEPT: Final = 1_000
#: Seconds between two looks whether another process has made the ledger.
_LEDGER_LOOK: Final = 2.0
#: Seconds for which a form without a script waits for the result.
_FORM_WAIT: Final = 2


class ExecutionStores(Protocol):
    """The stores that executions need; :class:`skillwire.adapters.stores.Stores` has them."""

    @property
    def is_shared(self) -> bool:
        """Whether several servers share the stores."""

    @property
    def ledger(self) -> ExecutionLedger:
        """The executions."""

    @property
    def clock(self) -> Clock:
        """The clock by which the ledger is changed."""

    def grants(self) -> Grants:
        """Return the skills that may run here."""

    def run_blobs(self, settings: RunSettings) -> RunBlobs:
        """Return the files that come with calls."""

    def server_key(self) -> bytes:
        """Return the server's key. Raises StorageError."""

    async def leads(self, work: str) -> bool:
        """Whether this process does ``work`` for all servers. Raises StorageError."""


class Executions:
    """Calls and executions in this server: answers requests, and runs the tasks in the background.

    ``executors`` are made when first needed; ``callbacks`` delivers webhooks. ``report`` gets the background tasks that
    fail, whenever they change.
    """

    def __init__(
        self,
        configuration: ServerConfiguration,
        stores: ExecutionStores,
        blobs: BlobStore,
        authentication: Authentication,
        executors: Mapping[ExecutorKind, Callable[[], Executor]],
        *,
        callbacks: AsyncDriver,
        restore: Restore,
        report: Callable[[Mapping[str, str]], object],
        base_url: str = "",
        access_log: bool = True,
        functions: Collection[str] = (),
    ) -> None:
        settings, runs = configuration.executions, configuration.runs
        callables = CallableSkills(blobs)
        self.service = service = ExecutionService(
            stores.ledger,
            settings=settings,
            clock=stores.clock,
            log_accepted=access_log,
            background=BackgroundTasks(report),
        )

        async def may_run(skill: Skill) -> bool:
            if is_code(skill):  # no grant can name code that comes with a call: all of it is allowed, or none
                return bool(runs.run_code)
            return settings.grant_all or await stores.grants().allows(skill)

        granted, run_blobs = GrantCache(may_run), stores.run_blobs(runs)
        webhooks = WebhookSender(service, callbacks, stores.server_key, queue=settings.queue)
        self._worker = Worker(
            service,
            executors,
            callables,
            may_run,
            functions=functions,
            expire_blobs=run_blobs.expire,
            leads=stores.leads,
            restore=restore if stores.is_shared else None,
        )
        self._background = (self._worker, webhooks)
        self._route = InvocationRoute(
            service,
            callables,
            granted,
            webhook_secret=webhooks.secret_of,
            callbacks=callbacks.policy,
            base_url=base_url,
        )
        self.runs = Runs(service, callables, granted, run_blobs, settings=runs)
        self.runs.on_accept = self.start
        self._origins = Origins(runs.origins, base_url)
        self._callables = callables
        self._locked = partial(authentication.forbidden, wish="invoke")
        self._base_url = base_url
        self.bodies = Bodies()
        self.answers = Bodies(RPC_BOUNDS)
        self._awaiting: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._skills: tuple[int, dict[str, Skill]] = (0, {})
        self._endpoints: tuple[int, Endpoints] | None = None

    async def resume(self) -> None:
        """Begin to run what other processes accepted, as soon as there may be something."""

        async def look() -> None:
            if await self.service.ledger.exists():
                self.start()

        def has_begun() -> bool:
            return bool(self._tasks)

        await look()
        if not self._tasks:  # another process may create it
            looking = self.service.background.repeat("ledger", look, asyncio.sleep, _LEDGER_LOOK, has_begun)
            self._awaiting = asyncio.create_task(looking)

    def start(self) -> None:
        """Begin to run what waits, unless that has begun."""

        def look() -> None:
            self.service.look()
            self._worker.look()

        if not self._tasks:
            self.service.ledger.watch(look)
            self._tasks = [asyncio.create_task(one.work()) for one in self._background]

    def close_streams(self) -> None:
        """End the streams and the waiting requests, since the server stops."""
        self.service.changes.close()

    def run(self, *, on_ready: Callable[[], object]) -> None:
        """Work until SIGINT or SIGTERM; running executions get a while to end."""

        async def work() -> None:
            stopping = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, stopping.set)
            self.start()
            on_ready()
            await stopping.wait()
            await self.stop()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work())

    async def stop(self) -> None:
        """End what runs, after a while; return when all of it is on the disk."""
        if self._awaiting is not None:
            self._awaiting.cancel()
            await asyncio.gather(self._awaiting, return_exceptions=True)
        if self._tasks:
            await asyncio.gather(*(one.stop(limits.SERVER_SHUTDOWN_SECONDS) for one in self._background))
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks = []
            await self.service.ledger.close()
        await self.service.background.close()  # other parts report there, too

    def _skill(self, name: str, view: AccessView, revision: int) -> Skill | None:
        """Return the skill of this name if its caller may use it; skills that are called often stay unpacked."""
        if name not in view.usable.skills:
            return None
        if self._skills[0] != revision or len(self._skills[1]) > _SKILLS_KEPT:
            self._skills = (revision, {})
        kept = self._skills[1]
        if name not in kept:
            kept[name] = view.usable.skills[name]
        return kept[name]

    async def described(self, path: str, scope: Scope, revision: Revision) -> EndpointMatch | None:
        """Return the match of a path that a publisher's own descriptor names, or None."""
        if self._endpoints is None or self._endpoints[0] != revision.number:
            skills = revision.everything.skills
            self._endpoints = (revision.number, await asyncio.to_thread(Endpoints, skills, self._callables))
        return self._endpoints[1].match(f"{site_of(scope, self._base_url)}{path}")

    async def answer(self, match: EndpointMatch, context: RequestContext) -> None:
        """Answer a request for an execution.

        Raises ProblemError (401, 403) for a skill that the caller may not use; HTTPException (404) for a path that only
        descriptors of skills name that the caller may not know of, before anything else is said.
        """
        scope, may_hide = context.scope, bool(match.described_by)
        try:
            async with self.bodies.reading(scope, context.receive) as body:
                authenticating = scope
                if b'"credentials"' in body.data and not has_credentials(scope["headers"]):
                    with suppress(SkillwireError):  # an invalid body is reported when it is read
                        headers = [*scope["headers"], *body_credentials(read_request(body.data, ""))]
                        authenticating = {**scope, "headers": headers}
                may_hide = may_hide and authenticating is not scope  # fields are refused alike at every path
                caller = await context.authenticate(body.data, scope=authenticating)
                view = await context.load()
                if match.is_hidden(view.visible.skills):
                    raise HTTPException(404)
                may_hide = False
                try:
                    await self._answer(match, context, view, caller.principal, body)
                except SkillwireError as error:
                    if error.code == "AUTH_REQUIRED":
                        raise self._locked(caller.principal, match.skill, scope) from error
                    await problem_for(error).send(context.send, head=scope["method"] == "HEAD")
        except ProblemError as error:  # where no skill is, no body is refused
            if may_hide:
                await context.authenticate()
                if match.is_hidden((await context.load()).visible.skills):
                    raise HTTPException(404) from error
            raise

    async def _answer(
        self, match: EndpointMatch, context: RequestContext, view: AccessView, principal: Principal | None, body: Body
    ) -> None:
        scope, send = context.scope, context.send
        acting = match.method.value if match.purpose == "invoke" else "DELETE"
        if scope["method"] == acting and principal is None:
            self._check_page(scope)
        request = Request(scope, principal, body, read_options(scope["headers"]))
        if match.purpose != "invoke":
            await self._route.follow(match, request, context.receive, send)
            return
        skill = self._skill(match.skill, view, context.revision.number)
        if skill is None and match.skill in view.visible.skills and request.method != "OPTIONS":
            raise self._locked(principal, match.skill, scope)
        if skill is None:
            raise not_found(requested_name(match, body.data))
        self.start()
        await self._route.invoke(match, skill, request, send)

    def _check_page(self, scope: Scope) -> None:
        """Raise TrustError for a request without credentials from a page that may not act."""
        if not self._origins.let_in(scope):
            page = read_fields(scope["headers"], b"origin").get(b"origin", "another site")
            message = f"a page of {ascii(page[:100])[1:-1]} calls skills with a credential only"
            raise TrustError(PAGE_REFUSED, message, details={"fix": FIXES[PAGE_REFUSED]})

    async def check(self, skill: Skill, principal: Principal | None, scope: Scope) -> CallableSkill:
        """Return the skill for a form on our page. Raises SkillwireError, ProblemError (503) for a refused call."""
        if principal is None:
            self._check_page(scope)
        return await self._route.check(skill, principal, is_call=scope["method"] not in READ)

    async def begin(
        self, skill: Skill, invocation: InvocationRequest, principal: Principal | None, scope: Scope
    ) -> Execution:
        """Accept a call of a form on our page, by the same rules as any; return it when it ends, or after a moment.

        Raises SkillwireError, ProblemError.
        """
        await self.check(skill, principal, scope)
        self.start()
        body = Body(self.bodies, "")
        body.data = msgspec.json.encode(invocation)
        asked = RequestOptions("application/json", _FORM_WAIT, None, None, "", "")
        request = Request(scope, principal, body, asked)
        return (await self._route.begin(EndpointMatch("invoke", skill.name), skill, request))[0]


_FOLLOWED: Final = ("execution", "Prefer", CONDITION)


def _execution(meaning: str, *fields: str) -> Answer:
    kept = ("ETag", "Cache-Control", "Vary", "Pause", "Preference-Applied")
    return Answer(meaning, {JSON: "InvocationResponse"}, (*kept, *fields))


_REFUSED: Final[dict[str, Answer | str]] = {"404": "SkillNotFound", "503": "NotRunning"}
_CALL: Final = Operation(
    "Call a skill; with PUT, GET or DELETE where its own descriptor says so",
    {
        **_REFUSED,
        "200": _execution("It has ended already.", "Location", "Webhook-Secret"),
        "202": _execution("It is accepted, and on the disk.", "Location", "Webhook-Secret"),
        "403": "StrayPage",
        "413": "TooLarge",
        "415": "NoJson",
        "422": "Invalid",
        "429": "TooManyExecutions",
    },
    ("skill", "Prefer", "Idempotency-Key", "Callback-Url"),
    {JSON: "InvocationRequest"},
)
_STATUS: Final = Operation(
    "The status of an execution",
    {
        **_REFUSED,
        "200": _execution("The status, or a stream of it.")._replace(
            content={JSON: "InvocationResponse", "text/event-stream": TEXT}
        ),
        "304": "NotModified",
    },
    _FOLLOWED,
)
_CANCEL: Final = Operation(
    "Cancel an execution",
    {**_REFUSED, "403": "StrayPage", "200": _execution("As it ended, now or before.")},
    ("execution",),
)
_RESULT: Final = Operation(
    "The result of an execution",
    {
        **_REFUSED,
        "200": _execution("It has ended."),
        "202": _execution("It has not ended yet."),
        "304": "NotModified",
        "410": "Gone",
    },
    _FOLLOWED,
)


class ExecutionRoutes:
    """The rows of calls and executions, and the last row: paths that publishers' own descriptors name."""

    def __init__(self, executions: Executions, console: ExecutionsConsole, pages: SkillPages) -> None:
        self._executions = executions
        self._console = console
        self._pages = pages

    def routes(self) -> Sequence[Route]:
        """Return the rows at paths of ours. Methods are looked at behind them: a descriptor may name others."""
        one = f"{EXECUTIONS}/{{execution}}"
        return [
            self._row(f"{REGISTRY}/{{skill}}{EXECUTIONS}", self._answer, {"post": _CALL}),
            self._row(one, self._follow, {"get": _STATUS, "delete": _CANCEL}),
            self._row(f"{one}/result", self._answer, {"get": _RESULT}),
        ]

    def last_route(self) -> Route:
        """Return the row for every other path."""
        return self._row("/{rest:path}", self._described, {})

    def _row(self, path: str, handler: Handler, operations: Mapping[str, Operation]) -> Route:
        return Route(path, handler, "execution", methods=(), authenticates=False, loads=False, describes=operations)

    async def _follow(self, context: RequestContext) -> None:
        """Answer at the path of an execution: with its page to a browser, with its status to a program."""
        if self._console.prefers(context.path, context.scope):
            await self._console.show(context)
        else:
            await self._answer(context)

    async def _answer(self, context: RequestContext) -> None:
        match = match_standard_path(context.path)
        if match is None:
            raise HTTPException(404)
        await self._executions.answer(match, context)

    async def _described(self, context: RequestContext) -> ASGIApp | None:
        revision = await context.find_revision(limits.SERVER_LOADING_SECONDS)
        match = await self._executions.described(context.path, context.scope, revision) if revision else None
        if match is None:
            await context.authenticate()
        else:
            with suppress(HTTPException):
                await self._executions.answer(match, context)
                return None
        context.label = "none"
        return await self._pages.absent(context) if context.prefers_html() else NOT_FOUND
