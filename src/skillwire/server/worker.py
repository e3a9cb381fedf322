"""What runs in the background: a worker, and webhooks.

A worker claims executions, runs them, and stores their outcomes; it also expires, recovers and forgets. It renews a
lease on each execution that it runs. When the lease is lost, because the execution was cancelled, ran out of time or
was recovered, the attempt is ended, since its result would not count. When the server stops, attempts get some time;
then repeatable ones are given back, and the others have failed. Each attempt is a span (:mod:`skillwire.wire.tracing`).
A caller's ``context.trace_id`` that is a W3C trace becomes the trace of the span; any other text is an attribute.

By a webhook callers learn at an address of theirs that an execution has ended. The ledger decides which callback is
due. A process that takes one has a minute to deliver it, so a delivery that is lost with its process is made again.
Trust: the address is an untrusted peer's. Each connection goes through the address policy, redirects are not followed,
a response is read up to a limit and ignored, and a slow receiver holds a few places for a few seconds, never all.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from skillwire import limits
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.errors import FetchError, SkillwireError, StorageError, TrustError, ValidationError, one_line
from skillwire.executions.grants import needs_grant
from skillwire.executions.states import WORKER_LOST, attempt_seconds, timed_out
from skillwire.executions.view import encode_execution, without_ids
from skillwire.executions.webhooks import GONE, message_id, next_delivery, payload, sign, webhook_owner, webhook_secret
from skillwire.model.execution import (
    EXPIRED_PER_BATCH,
    Attempt,
    Claim,
    Execution,
    Failure,
    Moment,
    Outcome,
    Quota,
    Reason,
)
from skillwire.model.url import parse_url
from skillwire.server.background import wait_until_set
from skillwire.server.execution_service import Dispatcher, ExecutionService, log_facts, span_attributes
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.tracing import open_span, read_trace, send_traced

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence

    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.model.digest import Digest
    from skillwire.model.skill import ExecutorKind, Skill
    from skillwire.ports import Executor
    from skillwire.server.execution_service import CallableSkills

    ExpireBlobs = Callable[[float], Awaitable[int]]
    Restore = Callable[[Skill, Iterable[tuple[Digest, int]]], Awaitable[object]]


#: Larger outputs, in bytes, are validated in a thread.
_LARGE: Final = 64 * 1024


async def validate_output(value: Any, callable_skill: CallableSkill | None) -> tuple[bytes, Failure | None]:
    """Return the output as JSON, and what is wrong with it."""
    try:
        output = msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        return b"", Failure("output", f"What the skill gave cannot be written as JSON: {error}")
    if len(output) > limits.EXECUTION_OUTPUT_BYTES:
        message = f"What the skill gave has {len(output):,} bytes, at most {limits.EXECUTION_OUTPUT_BYTES:,} are kept"
        return b"", Failure("output", message)
    if callable_skill is None:
        return output, None
    find = callable_skill.output.find_flaw
    flaw = find(value) if len(output) <= _LARGE else await asyncio.to_thread(find, value)
    if flaw is not None:
        details = {"errors": [flaw._asdict()]}
        return b"", Failure("output", "What the skill gave is not what its descriptor promises", details=details)
    return output, None


_DAY: Final = 86_400.0


class ExpiryTask:
    """Expires and recovers executions, and forgets old ones and, with ``expire_blobs``, expired blobs."""

    def __init__(self, service: ExecutionService, expire_blobs: ExpireBlobs | None) -> None:
        self._service = service
        self._expire_blobs = expire_blobs
        self._outputs_due = float("-inf")
        self._log = structlog.get_logger("skillwire.executions")

    async def run(self, running: Callable[[], Collection[Claim]] = tuple, finished: Collection[Claim] = ()) -> bool:
        """End late executions, and recover those of lost workers; return whether there was any.

        Executions that run in this process are not lost; ``running`` returns them as late as possible, since the
        process claims others while late ones end. A ``finished`` result that waits for the disk is not late.
        """
        ledger = self._service.ledger
        was_late = await self._all(lambda now: ledger.expire(now, held=finished), lambda _: "deadline")

        def loss_outcome(execution: Execution) -> str:
            failure = execution.failure
            return WORKER_LOST.reason if failure is not None and failure.reason == WORKER_LOST.reason else "released"

        async def recover(now: Moment) -> Sequence[str]:
            lost = await ledger.recover(now, held=running())
            self._service.lease_expiries += len(lost)
            return lost

        return await self._all(recover, loss_outcome) or was_late

    async def forget(self, is_over: Callable[[], bool]) -> None:
        """Forget everything old, unless ``is_over`` comes first."""
        settings, service, number = self._service.settings, self._service, 1
        while number and not is_over():
            number = await service.ledger.forget(
                service.clock(), outputs=settings.keep_outputs, rows=settings.keep_executions
            )
        if service.clock().steady >= self._outputs_due:
            self._outputs_due = service.clock().steady + _DAY
            if removed := await service.ledger.remove_orphaned_outputs():
                self._log.info("outputs of no execution were removed", number=removed)
            while await service.ledger.shrink() and not is_over():
                pass
        number = 1
        while number and self._expire_blobs is not None and not is_over():
            number = await self._expire_blobs(service.clock().wall)

    async def _all(
        self, change: Callable[[Moment], Awaitable[Sequence[str]]], outcome: Callable[[Execution], str]
    ) -> bool:
        number, is_any = EXPIRED_PER_BATCH, False
        while number >= EXPIRED_PER_BATCH:
            changed = await change(self._service.clock())
            number, is_any = len(changed), is_any or bool(changed)
            if changed:
                self._service.changes.notify(*changed)
                self._service.dispatcher.wake()
            for execution_id in changed:
                if (found := await self._service.ledger.find(execution_id)) is not None:
                    self._log.warning("ended or given back", outcome=outcome(found), **log_facts(found))
        return is_any


#: Seconds after which a worker looks for work though nothing woke it: a pause before an attempt may be over.
_LOOK: Final = 0.5
#: A lease is renewed so many times before it would end.
_RENEWALS: Final = 4
#: Seconds between two looks for what is late or lost, and between two rounds of forgetting.
_WATCH: Final = 0.5
_FORGET: Final = 600.0
#: So many skills are kept unpacked.
_VERSIONS: Final = 1_000


class _UnavailableError(Exception):
    """A skill cannot run; ``failure`` is what its caller learns."""

    def __init__(self, message: str, reason: Reason = "unavailable") -> None:
        super().__init__(message)
        self.failure = Failure(reason, message)


class Worker:
    """Runs executions in this process, until it is stopped.

    ``executors`` makes each kind when it is first needed; only these kinds are claimed. ``functions`` are the digests
    of the skills whose functions this process registered; it claims no others of the kind. ``leads`` is whether this
    process does some work for all servers, and ``restore`` makes the files of a skill that this machine never had.
    """

    def __init__(
        self,
        service: ExecutionService,
        executors: Mapping[ExecutorKind, Callable[[], Executor]],
        callables: CallableSkills,
        may_run: Callable[[Skill], Awaitable[bool]],
        *,
        functions: Collection[str] = (),
        expire_blobs: ExpireBlobs | None = None,
        leads: Callable[[str], Awaitable[bool]] | None = None,
        restore: Restore | None = None,
    ) -> None:
        settings = service.settings
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._service = service
        self._makers = executors
        self._versions: dict[str, Skill] = {}
        self._executors: dict[ExecutorKind, Executor] = {}
        self._callables = callables
        self._may_run = may_run
        self._leads = leads
        self._restore = restore
        self._expiry = ExpiryTask(service, expire_blobs)
        service.on_cancel = self._let_go
        self._quota = Quota(
            settings.per_caller,
            settings.per_skill,
            tuple(executors),
            settings.lease,
            functions=functions,
            queue=settings.queue,
        )
        self._running: dict[Claim, asyncio.Task[None]] = {}
        self._lost: set[Claim] = set()
        self._finished: set[Claim] = set()  # whose outcome is known here and not in the ledger
        self._claiming = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._looked = Dispatcher()
        self._log = structlog.get_logger("skillwire.executions")

    async def work(self) -> None:
        """Claim and run, until :meth:`stop`."""
        repeat, is_over = self._service.background.repeat, self._stopping.is_set
        async with asyncio.TaskGroup() as group:
            group.create_task(repeat("ledger", self._service.ledger.check, self._pause, _WATCH, is_over))
            group.create_task(repeat("expiry", self._watch, self._pause, _WATCH, is_over))
            group.create_task(repeat("leases", self._keep, self._pause, 0.0, self._is_over))
            group.create_task(repeat("retention", self._forget, self._pause, _FORGET, is_over))
            group.create_task(repeat("claims", self._claim, self._pause, 0.0, is_over))

    async def stop(self, seconds: float) -> None:
        """Claim no more; wait ``seconds`` for what runs, then end it."""
        self._stopping.set()
        self.look()
        async with self._claiming:  # what is being claimed is waited for, as all that runs
            pass
        if self._running:
            self._log.info("waiting for executions", number=len(self._running), seconds=float(seconds))
            await asyncio.wait(self._running.values(), timeout=seconds)
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        self._looked.wake()  # there is no lease to renew any more

    def _is_over(self) -> bool:
        """Whether nothing runs any more, and nothing will."""
        return self._stopping.is_set() and not self._running and not self._claiming.locked()

    async def _pause(self, seconds: float) -> None:
        await wait_until_set(self._stopping, seconds)

    async def _claim(self) -> None:
        """Claim as many as may run, then wait until something changes."""
        service = self._service
        claimed: list[Execution] = []
        async with self._claiming:
            free = service.settings.concurrency - len(self._running)
            if free > 0 and not self._stopping.is_set():
                claimed += await service.ledger.claim(self.name, service.clock(), self._quota, limit=free)
            for execution in claimed:
                claim = Claim(execution.execution_id, self.name, execution.attempt)
                service.changes.notify(execution.execution_id)
                self._running[claim] = task = asyncio.create_task(self._run(claim, execution), context=Context())
                task.add_done_callback(partial(self._ended, claim))
        if len(claimed) < free or free <= 0:
            await service.dispatcher.wait(_LOOK)

    def _ended(self, claim: Claim, _: asyncio.Task[None]) -> None:
        self._running.pop(claim, None)
        self._lost.discard(claim)
        self._finished.discard(claim)
        self._service.dispatcher.wake()

    def _own_claims(self) -> list[Claim]:
        return [claim for claim in self._running if claim not in self._lost]

    async def _watch(self) -> None:
        """Expire and recover executions, and end here the attempts that ended elsewhere."""
        if await self._is_leading() and await self._expiry.run(self._own_claims, self._finished):
            await self._renew()

    async def _forget(self) -> None:
        if await self._is_leading():
            await self._expiry.forget(self._stopping.is_set)

    async def _is_leading(self) -> bool:
        return self._leads is None or await self._leads("executions")

    async def _keep(self) -> None:
        """Renew the leases when it is time, and when another process has changed the ledger."""
        await self._looked.wait(self._service.settings.lease / _RENEWALS)
        await self._renew()

    async def _renew(self) -> None:
        if not (claims := self._own_claims()):
            return
        service = self._service
        for claim in await service.ledger.renew(claims, service.clock(), service.settings.lease):
            self._end(claim)

    def look(self) -> None:
        """Claim what others left, and find out what they ended."""
        self._service.dispatcher.wake()
        self._looked.wake()

    def _end(self, claim: Claim) -> None:
        task = self._running.get(claim)
        if task is not None and claim not in self._lost:
            self._lost.add(claim)
            task.cancel()

    def _let_go(self, execution_id: str) -> None:
        """End what runs of an execution that has ended."""
        for claim in [claim for claim in self._running if claim.execution_id == execution_id]:
            self._end(claim)

    async def _run(self, claim: Claim, execution: Execution) -> None:
        attributes = span_attributes(execution, "process", "execute")
        attributes |= {"skillwire.execution.attempt": execution.attempt, "skillwire.trace_id": execution.trace_id or ""}
        name, trace = f"execute {execution.skill}", read_trace(execution.trace_id)
        with (
            structlog.contextvars.bound_contextvars(**log_facts(execution)),
            open_span(name, "consumer", trace, attributes) as span,
        ):
            try:
                outcome, callable_skill = await self._attempt(execution)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # the caller learns that it failed, the log why
                task = asyncio.current_task()  # an executor may raise the exception, too
                if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0):
                    await self._interrupted(claim, execution)
                    return
                self._log.error("an executor failed", attempt=claim.attempt, exc_info=error)
                outcome, callable_skill = Outcome(failure=Failure("exception", "What runs the skill failed")), None
            with suppress(asyncio.CancelledError):  # the end is kept even now
                reason = await asyncio.shield(self._report(claim, outcome, callable_skill))
                span.set({"skillwire.execution.outcome": reason})
                if reason != "completed":
                    span.fail(reason)

    async def _attempt(self, execution: Execution) -> tuple[Outcome, CallableSkill | None]:
        try:
            skill, callable_skill, mounts = await self._prepare(execution)
        except _UnavailableError as error:
            return Outcome(failure=error.failure), None
        executor = await self._executor(execution.executor)
        seconds = attempt_seconds(execution.timeout, execution.deadline, self._service.clock().wall)
        attempt = Attempt(execution, skill, msgspec.json.decode(execution.inputs), seconds, mounts)
        margin = limits.EXECUTION_END_SECONDS - limits.EXECUTION_START_SECONDS
        try:
            async with asyncio.timeout(attempt.seconds + margin):
                return await executor.execute(attempt), callable_skill
        except TimeoutError:
            return Outcome(failure=timed_out(execution.execution_id, execution.timeout)), callable_skill

    async def _prepare(self, execution: Execution) -> tuple[Skill, CallableSkill, dict[str, Skill]]:
        """Return the skill to run and those that it mounts. Raises _UnavailableError."""
        find = self._service.ledger.find_skill
        mounts: dict[str, Skill] = {}
        skill = self._versions.get(execution.digest) or await find(execution.digest)
        await self._restore_files(skill)
        callable_skill = await self._callables.load(skill) if skill else None
        if skill is None or callable_skill is None:
            raise _UnavailableError("The skill is not here any more")
        if execution.digest not in self._versions and len(self._versions) >= _VERSIONS:
            self._versions.clear()
        self._versions[execution.digest] = skill
        if needs_grant(skill) and not await self._may_run(skill):
            raise _UnavailableError("The skill is not granted at the server that took this execution", "not_granted")
        for name, digest in execution.attachments.mounts if execution.attachments else ():
            mounted = await find(digest)
            if mounted is None:
                raise _UnavailableError(f"The skill {name}, which the run mounts, is not here any more")
            await self._restore_files(mounted)
            mounts[name] = mounted
        return skill, callable_skill, mounts

    async def _restore_files(self, skill: Skill | None) -> None:
        if skill is not None and self._restore is not None:
            await self._restore(skill, [(file.digest, file.size) for file in skill.files])

    async def _executor(self, kind: ExecutorKind) -> Executor:
        if kind not in self._executors:
            made = await asyncio.to_thread(self._makers[kind])
            self._executors.setdefault(kind, made)
        return self._executors[kind]

    async def _report(self, claim: Claim, outcome: Outcome, callable_skill: CallableSkill | None) -> str:
        """Store an outcome, when the disk allows it; return ``completed``, or why it failed."""
        service, failure, output = self._service, outcome.failure, b""
        if failure is None:
            output, failure = await validate_output(outcome.output, callable_skill)
        self._finished.add(claim)
        while True:
            try:
                if failure is not None:
                    is_kept = await service.fail(claim, failure, log=outcome.log)
                else:
                    is_kept = await service.complete(claim, output, log=outcome.log, blobs=outcome.blobs)
                break
            except StorageError as error:
                if self._stopping.is_set():
                    raise
                self._log.error("the outcome of an attempt cannot be written", error=one_line(error))
            await self._pause(_LOOK)
        reason = failure.reason if failure else "completed"
        self._log.info("ended" if is_kept else "ended too late to count", outcome=reason, attempt=claim.attempt)
        return reason

    async def _interrupted(self, claim: Claim, execution: Execution) -> None:
        """Release or fail an execution whose task was cancelled, unless it had ended."""
        if claim in self._lost:
            return
        service, what, why = self._service, "released", None
        try:
            if execution.is_repeatable:
                is_kept = await service.ledger.release(claim, service.clock())
            else:
                is_kept, what = await service.fail(claim, WORKER_LOST), WORKER_LOST.reason
        except SkillwireError as error:
            is_kept, why = False, one_line(error)
        outcome = what if is_kept else "lost"
        self._log.warning("ended or given back", outcome=outcome, error=why, **log_facts(execution))


#: Seconds between two looks at what is due, when nothing has changed.
_DUE_LOOK: Final = 1.0
#: Seconds between two looks, however much changes: a busy ledger changes thousands of times a second.
_DUE_PAUSE: Final = 0.05
#: Seconds until a delivery comes back whose host is at its limit.
_HOST_PAUSE: Final = 3.0
#: The statuses by which a receiver has taken it.
_SUCCESS: Final = range(200, 300)


class WebhookSender:
    """Delivers due webhooks of one queue until it is stopped.

    ``key`` returns the server's key; it is called once, in a thread. The driver's policy bounds the addresses.
    """

    def __init__(
        self, service: ExecutionService, driver: AsyncDriver, key: Callable[[], bytes], *, queue: str = ""
    ) -> None:
        self._service = service
        self._queue = queue
        self._driver = driver
        self._read_key = key
        self._key = b""
        self._stopping = asyncio.Event()
        self._under_way: dict[asyncio.Task[None], str] = {}  # each delivery and its host
        self._log = structlog.get_logger("skillwire.webhooks")

    def secret_of(self, execution: Execution) -> str:
        """Return what the callbacks of an execution are signed with."""
        return webhook_secret(self._key or self._read_key(), webhook_owner(execution))

    async def work(self) -> None:
        """Deliver, until :meth:`stop`."""
        seen, service = 0, self._service

        async def begin_due() -> None:
            nonlocal seen
            self._key = self._key or await asyncio.to_thread(self._read_key)
            free = limits.WEBHOOK_CONCURRENCY - len(self._under_way)
            if free > 0:
                for one in await service.ledger.due_callbacks(service.clock(), limit=free, queue=self._queue):
                    await self._begin(one)
            if len(self._under_way) < limits.WEBHOOK_CONCURRENCY:
                seen = await service.changes.beyond(seen, _DUE_LOOK)
            else:
                await asyncio.wait(self._under_way, timeout=_DUE_LOOK, return_when=asyncio.FIRST_COMPLETED)

        await service.background.repeat("webhooks", begin_due, asyncio.sleep, _DUE_PAUSE, self._stopping.is_set)

    async def stop(self, seconds: float) -> None:
        """Begin no more deliveries; wait ``seconds`` for those under way, then leave them to be made again."""
        self._stopping.set()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=seconds)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._driver.close()

    async def _begin(self, execution: Execution) -> None:
        """Begin to deliver, unless as many deliveries go to the same host already: then it comes back soon."""
        host = parse_url(execution.webhook).host if execution.webhook else ""
        if list(self._under_way.values()).count(host) >= limits.WEBHOOK_HOST_CONCURRENCY:
            until = self._service.clock().wall + _HOST_PAUSE
            await self._service.ledger.put_off_callback(execution.execution_id, until, was_tried=False)
            return
        task = asyncio.create_task(self._deliver(execution), context=Context())
        self._under_way[task] = host
        task.add_done_callback(self._end)  # also of one that is cancelled before it begins

    def _end(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)

    async def _deliver(self, execution: Execution) -> None:
        try:
            until = await self._send(execution)
            await self._service.ledger.put_off_callback(execution.execution_id, until)
            if (task := asyncio.current_task()) is not None:
                self._end(task)  # from here on another delivery may begin
        except SkillwireError as error:
            self._log.error("the ledger failed", error=one_line(error))  # a minute later it is tried again
        except Exception as error:  # noqa: BLE001  # nothing else would log it; a minute later it is tried again
            self._log.error("a delivery raised", execution=without_ids(execution.execution_id), exc_info=error)

    async def _send(self, execution: Execution) -> float | None:
        """Make one delivery; return when to make the next, None for never."""
        if execution.webhook is None:
            return None
        output = await self._service.ledger.output(execution)
        is_large = output is not None and len(output) > limits.WEBHOOK_BYTES
        body = payload(execution, encode_execution(execution, None if is_large else output))
        headers = sign(self.secret_of(execution), message_id(execution), body, self._service.clock().wall)
        request = HttpRequest(
            execution.webhook,
            "POST",
            headers,
            body,
            max_bytes=limits.WEBHOOK_ANSWER_BYTES,
            timeout=limits.WEBHOOK_SECONDS,
        )
        log = self._log.bind(execution=without_ids(execution.execution_id))
        try:
            status = (await send_traced(self._driver.send, request, read_trace(execution.trace_id))).status
        except FetchError as error:
            status, reason = 0, error.code
        except (TrustError, ValidationError) as error:
            log.warning("a callback is not allowed", reason=error.message)
            return None
        else:
            reason = str(status)
        if status in _SUCCESS:
            log.info("delivered", delivery=execution.callbacks)
            return None
        if status == GONE:
            log.info("the receiver is gone")
            return None
        until = next_delivery(execution.callbacks, self._service.clock().wall)
        message = "a delivery failed" if until is not None else "the last delivery failed"
        log.warning(message, delivery=execution.callbacks, reason=reason)
        return until
