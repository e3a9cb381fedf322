"""The worker: it claims executions, runs them, and stores their outcomes.

It holds a lease on each execution that it runs, and renews it. When a lease is lost, because the execution was
cancelled, ran out of time or was taken for lost, the attempt is ended, since its result would not count. When the
server stops, running attempts get some time; then those that may be repeated are given back, and the others have
failed.

It also expires executions past their deadline, recovers those whose worker is gone, and forgets old outputs,
executions and blobs. Each attempt is a span of OpenTelemetry where its API is installed (the extra ``otel``): set it
up as usual, such as with ``opentelemetry-instrument skillwire serve``. A caller's ``context.trace_id`` that is a W3C
trace becomes the trace of the span, so a call is one trace on both sides; any other text is an attribute.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import structlog

from skillwire import limits
from skillwire.errors import SkillwireError, StorageError, one_line
from skillwire.executions.grants import needs_grant
from skillwire.executions.states import WORKER_LOST, timed_out
from skillwire.executions.view import read_trace, without_ids
from skillwire.model.execution import EXPIRED_PER_BATCH, Attempt, Claim, Failure, Outcome, Quota
from skillwire.server.execution_service import log_facts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from opentelemetry.context import Context

    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.model.execution import Execution, Moment
    from skillwire.model.skill import ExecutorKind, Skill
    from skillwire.ports import Dispatcher, Executor
    from skillwire.server.callable_skills import CallableSkills
    from skillwire.server.execution_service import ExecutionService

    SweepBlobs = Callable[[float], Awaitable[int]]

#: Beyond so many bytes an output is held against its schema in a thread: the loop has others to serve.
_LARGE: Final = 64 * 1024


def is_cancelled(error: BaseException) -> bool:
    """Return whether ``error`` means that this task was cancelled, rather than that the exception was just raised."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


async def validate_output(value: Any, offer: CallableSkill | None) -> tuple[bytes, Failure | None]:
    """Return the output as JSON, and what is wrong with it."""
    try:
        output = msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        return b"", Failure("output", f"What the skill gave cannot be written as JSON: {error}")
    if len(output) > limits.EXECUTION_OUTPUT_BYTES:
        message = f"What the skill gave has {len(output):,} bytes, at most {limits.EXECUTION_OUTPUT_BYTES:,} are kept"
        return b"", Failure("output", message)
    if offer is None:
        return output, None
    find = offer.output.find_flaw
    flaw = find(value) if len(output) <= _LARGE else await asyncio.to_thread(find, value)
    if flaw is not None:
        details = {"errors": [flaw._asdict()]}
        return b"", Failure("output", "What the skill gave is not what its descriptor promises", details=details)
    return output, None


try:
    from opentelemetry import trace

    is_installed = True
except ImportError:
    is_installed = False


class OutcomeCallback(Protocol):
    """Records how an attempt ended."""

    def __call__(self, outcome: str) -> None:
        """Tell ``completed``, or the reason of the failure."""


@contextmanager
def attempt_span(execution: Execution) -> Iterator[OutcomeCallback]:
    """Open a span for an attempt, and give the function that sets its outcome."""
    if not is_installed:
        yield _ignore_outcome
        return
    attributes: dict[str, str | int] = {
        "skillwire.execution.id": without_ids(execution.execution_id),
        "skillwire.execution.attempt": execution.attempt,
        "skillwire.execution.executor": execution.executor,
        "skillwire.skill.name": execution.skill,
        "skillwire.skill.version": execution.version,
        "skillwire.trace_id": execution.trace_id or "",
    }
    tracer = trace.get_tracer("skillwire")
    parent = _parent_context(execution.trace_id)
    with tracer.start_as_current_span(f"execute {execution.skill}", context=parent, attributes=attributes) as span:

        def tell(outcome: str) -> None:
            span.set_attribute("skillwire.execution.outcome", outcome)
            if outcome != "completed":
                span.set_status(trace.StatusCode.ERROR, outcome)

        yield tell


def _ignore_outcome(outcome: str) -> None:
    """Do nothing: OpenTelemetry is not installed."""


def _parent_context(trace_id: str | None) -> Context | None:
    """Return the context of the caller's trace, if it named one."""
    found = read_trace(trace_id)
    if found is None:
        return None
    span_id = int(found.span_id or secrets.token_hex(8), 16) or 1
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if found.is_sampled else trace.TraceFlags.DEFAULT)
    caller = trace.SpanContext(int(found.trace_id, 16), span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(caller))


_DAY: Final = 86_400.0


class ExpiryTask:
    """Expires and recovers executions, and forgets old ones."""

    def __init__(self, service: ExecutionService, wake: Callable[[], object], sweep_blobs: SweepBlobs | None) -> None:
        self._service = service
        self._sweep_blobs = sweep_blobs
        self._wake = wake
        self._outputs_due = float("-inf")
        self._log = structlog.get_logger("skillwire.executions")

    async def run(self) -> bool:
        """End what is late, and take up what was lost; return whether there was anything."""
        ledger = self._service.ledger
        was_late = await self._all(ledger.expire, lambda _: "deadline")
        return await self._all(ledger.recover, _loss_outcome) or was_late

    async def forget(self, is_over: Callable[[], bool]) -> None:
        """Forget what is old, until nothing is left of it or ``is_over``."""
        settings, service = self._service.settings, self._service
        forgotten = 1
        while forgotten and not is_over():
            forgotten = await service.ledger.forget(
                service.clock(), outputs=settings.keep_outputs, rows=settings.keep_executions
            )
        if service.clock().steady >= self._outputs_due:
            self._outputs_due = service.clock().steady + _DAY
            if removed := await service.ledger.sweep_outputs():
                self._log.info("outputs of no execution were removed", number=removed)
        swept = 1
        while swept and self._sweep_blobs is not None and not is_over():
            swept = await self._sweep_blobs(service.clock().wall)

    async def _all(
        self, sweep: Callable[[Moment], Awaitable[Sequence[str]]], outcome: Callable[[Execution], str]
    ) -> bool:
        number, is_any = EXPIRED_PER_BATCH, False
        while number >= EXPIRED_PER_BATCH:
            swept = await sweep(self._service.clock())
            number, is_any = len(swept), is_any or bool(swept)
            if swept:
                self._service.changes.tell(*swept)
                self._wake()
            for execution_id in swept:
                found = await self._service.ledger.find(execution_id)
                if found is not None:
                    self._log.warning("ended or given back", outcome=outcome(found), **log_facts(found))
        return is_any


def _loss_outcome(execution: Execution) -> str:
    """Return what became of an execution that lost its worker."""
    failure = execution.failure
    return WORKER_LOST.reason if failure is not None and failure.reason == WORKER_LOST.reason else "released"


#: Seconds after which a worker looks for work though nothing woke it: a pause before an attempt may be over.
_LOOK: Final = 0.5
#: A lease is renewed so many times before it would end.
_RENEWALS: Final = 4
#: Seconds between two looks for what is late or lost, and between two rounds of forgetting.
_WATCH: Final = 0.5
_FORGET: Final = 600.0
#: So many skills are kept unpacked.
_VERSIONS: Final = 1_000


class Worker:
    """Runs executions in this process, until it is stopped.

    ``executors`` makes each kind when it is first needed; only these kinds are claimed. ``functions`` are the digests
    of the skills whose functions this process registered; it claims no others of the kind.
    """

    def __init__(
        self,
        service: ExecutionService,
        executors: Mapping[ExecutorKind, Callable[[], Executor]],
        offers: CallableSkills,
        may_run: Callable[[Skill], Awaitable[bool]],
        dispatcher: Dispatcher,
        *,
        functions: Collection[str] = (),
        sweep_blobs: SweepBlobs | None = None,
    ) -> None:
        settings = service.settings
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._service = service
        self._makers = executors
        self._versions: dict[str, Skill] = {}
        self._executors: dict[ExecutorKind, Executor] = {}
        self._offers = offers
        self._may_run = may_run
        self._dispatcher = dispatcher
        self._sweep = ExpiryTask(service, dispatcher.wake, sweep_blobs)
        service.on_cancel = self._let_go_of
        kinds = tuple(executors)
        limits, queue = (settings.per_caller, settings.per_skill), settings.queue
        self._quota = Quota(*limits, kinds, settings.lease, functions=functions, queue=queue)
        self._running: dict[Claim, asyncio.Task[None]] = {}
        self._lost: set[Claim] = set()
        self._claiming = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._looked = asyncio.Event()
        self._log = structlog.get_logger("skillwire.executions")

    async def work(self) -> None:
        """Claim and run, until :meth:`stop`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._forever(self._watch, _WATCH))
            group.create_task(self._forever(self._keep, 0.0, self._is_over))
            group.create_task(self._forever(self._forget, _FORGET))
            group.create_task(self._forever(self._claim, 0.0))

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
        self._looked.set()  # there is no lease to renew any more

    def _is_over(self) -> bool:
        """Whether nothing runs any more, and nothing will."""
        return self._stopping.is_set() and not self._running and not self._claiming.locked()

    async def _forever(self, do: Callable[[], Any], pause: float, is_over: Callable[[], bool] | None = None) -> None:
        """Repeat ``do`` until the end. An error of the disk is logged each time."""
        is_over = is_over or self._stopping.is_set
        while not is_over():
            try:
                await do()
            except SkillwireError as error:
                self._log.error("the ledger failed", error=one_line(error))  # its message says all
                await self._pause(_LOOK)
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _claim(self) -> None:
        """Take as much as there is room for, then wait until something changes."""
        async with self._claiming:
            room = self._service.settings.concurrency - len(self._running)
            begun = 0 if room <= 0 or self._stopping.is_set() else await self._begin(room)
        if begun < room or room <= 0:
            await self._dispatcher.wait(_LOOK)

    async def _begin(self, limit: int) -> int:
        """Claim and begin at most ``limit`` executions; return how many."""
        service = self._service
        claimed = await service.ledger.claim(self.name, service.clock(), self._quota, limit=limit)
        for execution in claimed:
            claim = Claim(execution.execution_id, self.name, execution.attempt)
            service.changes.tell(execution.execution_id)
            task = asyncio.create_task(self._run(claim, execution))
            self._running[claim] = task
            task.add_done_callback(partial(self._ended, claim))
        return len(claimed)

    def _ended(self, claim: Claim, _: asyncio.Task[None]) -> None:
        self._running.pop(claim, None)
        self._lost.discard(claim)
        self._dispatcher.wake()

    async def _watch(self) -> None:
        """End what is late, take up what was lost, and end here what was ended elsewhere."""
        if await self._sweep.run():
            await self._renew()

    async def _keep(self) -> None:
        """Renew the leases when it is time, and when another process has changed the ledger."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._service.settings.lease / _RENEWALS):
                await self._looked.wait()
        self._looked.clear()
        await self._renew()

    async def _renew(self) -> None:
        claims = [claim for claim in self._running if claim not in self._lost]
        if not claims:
            return
        service = self._service
        for claim in await service.ledger.renew(claims, service.clock(), service.settings.lease):
            self._let_go(claim)

    def look(self) -> None:
        """Claim what others left, and find out what they ended."""
        self._dispatcher.wake()
        self._looked.set()

    def _let_go(self, claim: Claim) -> None:
        """End what runs under a claim that holds no more."""
        task = self._running.get(claim)
        if task is not None and claim not in self._lost:
            self._lost.add(claim)
            task.cancel()

    def _let_go_of(self, execution_id: str) -> None:
        """End what runs of an execution that has ended."""
        for claim in [claim for claim in self._running if claim.execution_id == execution_id]:
            self._let_go(claim)

    async def _forget(self) -> None:
        await self._sweep.forget(self._stopping.is_set)

    async def _run(self, claim: Claim, execution: Execution) -> None:
        with structlog.contextvars.bound_contextvars(**log_facts(execution)), attempt_span(execution) as tell:
            try:
                outcome, offer = await self._attempt(execution)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # the caller learns that it failed, the log why
                if is_cancelled(error):
                    await self._interrupted(claim, execution)
                    return
                self._log.error("an executor failed", attempt=claim.attempt, exc_info=error)
                outcome, offer = Outcome(failure=Failure("exception", "What runs the skill failed")), None
            with suppress(asyncio.CancelledError):  # the end is kept even now
                tell(await asyncio.shield(self._report(claim, outcome, offer)))

    async def _attempt(self, execution: Execution) -> tuple[Outcome, CallableSkill | None]:
        found: tuple[Skill, CallableSkill] | Failure | None = self._ready(execution)
        if found is None:
            found = await self._prepare(execution)
        if isinstance(found, Failure):
            return Outcome(failure=found), None
        skill, offer = found
        mounts: dict[str, Skill] | Failure = {}
        if execution.attachments is not None and execution.attachments.mounts:
            mounts = await self._mounts(execution.attachments.mounts)
        if isinstance(mounts, Failure):
            return Outcome(failure=mounts), None
        seconds = execution.deadline - self._service.clock().wall
        attempt = Attempt(execution, skill, msgspec.json.decode(execution.inputs), max(seconds, 0.0), mounts)
        try:
            async with asyncio.timeout(attempt.seconds):
                return await (await self._executor(execution.executor)).execute(attempt), offer
        except TimeoutError:
            return Outcome(failure=timed_out(execution.execution_id, execution.timeout)), offer

    def _ready(self, execution: Execution) -> tuple[Skill, CallableSkill] | None:
        """Return the skill that is to run and its offer, if nothing has to be looked up for it."""
        skill = self._versions.get(execution.digest)
        offer = self._offers.known(skill) if skill else None
        return (skill, offer) if skill and offer and not needs_grant(skill) else None

    async def _prepare(self, execution: Execution) -> tuple[Skill, CallableSkill] | Failure:
        """Return the skill that is to run and its offer, or why it does not run."""
        skill = self._versions.get(execution.digest) or await self._service.ledger.find_skill(execution.digest)
        offer = await asyncio.to_thread(self._offers.of, skill) if skill else None
        if skill is None or offer is None:
            return Failure("unavailable", "The skill is not here any more")
        if len(self._versions) >= _VERSIONS:
            self._versions.clear()
        self._versions[execution.digest] = skill
        if not await self._may_run(skill):
            return Failure("not_granted", "The operator has not granted that this skill runs")
        return skill, offer

    async def _mounts(self, wanted: Iterable[tuple[str, str]]) -> dict[str, Skill] | Failure:
        """Return the mounted skills by their dotted names, or why one is missing."""
        found: dict[str, Skill] = {}
        for name, digest in wanted:
            skill = await self._service.ledger.find_skill(digest)
            if skill is None:
                return Failure("unavailable", f"The skill {name}, which the run was to see, is not here any more")
            found[name] = skill
        return found

    async def _executor(self, kind: ExecutorKind) -> Executor:
        if kind not in self._executors:
            made = await asyncio.to_thread(self._makers[kind])
            self._executors.setdefault(kind, made)
        return self._executors[kind]

    async def _report(self, claim: Claim, outcome: Outcome, offer: CallableSkill | None) -> str:
        """Keep what came of an attempt; return ``completed``, or why it failed."""
        failure = outcome.failure
        output = b""
        if failure is None:
            output, failure = await validate_output(outcome.output, offer)
        service, failed = self._service, failure
        log, blobs = outcome.log, outcome.blobs
        is_kept = await self._kept(
            lambda: (
                service.fail(claim, failed, log=log)
                if failed
                else service.complete(claim, output, log=log, blobs=blobs)
            )
        )
        what = failure.reason if failure else "completed"
        self._log.info("ended" if is_kept else "ended too late to count", outcome=what, attempt=claim.attempt)
        return what

    async def _kept(self, write: Callable[[], Awaitable[bool]]) -> bool:
        """Write what came of an attempt, as soon as the disk lets one; return whether it counts then."""
        while True:
            try:
                return await write()
            except StorageError as error:
                if self._stopping.is_set():
                    raise
                self._log.error("what came of an attempt cannot be written", error=one_line(error))
            await self._pause(_LOOK)

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
