"""A worker claims executions, runs them, and stores their outcomes; it also expires, recovers and forgets.

It renews a lease on each execution that it runs. When the lease is lost, because the execution was cancelled, ran out
of time or was recovered, the attempt is ended, since its result would not count. When the server stops, attempts get
some time; then repeatable ones are given back, and the others have failed. Each attempt is a span
(:mod:`skillwire.wire.tracing`). A caller's ``context.trace_id`` that is a W3C trace becomes the trace of the span; any
other text is an attribute.
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
from skillwire.errors import SkillwireError, StorageError, one_line
from skillwire.executions.grants import needs_grant
from skillwire.executions.states import WORKER_LOST, attempt_seconds, timed_out
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
from skillwire.server.background import wait_until_set
from skillwire.server.execution_service import Dispatcher, ExecutionService, log_facts, span_attributes
from skillwire.wire.tracing import open_span, read_trace

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
_CLAIM_LOOK_SECONDS: Final = 0.5
#: A lease is renewed so many times before it would end.
_RENEWALS: Final = 4
#: Seconds between two looks for what is late or lost, and between two rounds of forgetting.
_WATCH_SECONDS: Final = 0.5
_FORGET_SECONDS: Final = 600.0
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
            group.create_task(repeat("ledger", self._service.ledger.check, self._pause, _WATCH_SECONDS, is_over))
            group.create_task(repeat("expiry", self._watch, self._pause, _WATCH_SECONDS, is_over))
            group.create_task(repeat("leases", self._keep, self._pause, 0.0, self._is_over))
            group.create_task(repeat("retention", self._forget, self._pause, _FORGET_SECONDS, is_over))
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
            await service.dispatcher.wait(_CLAIM_LOOK_SECONDS)

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
            await self._pause(_CLAIM_LOOK_SECONDS)
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
