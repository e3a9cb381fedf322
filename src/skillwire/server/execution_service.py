"""Who waits for an execution, or for any, and is told when it changes.

A change of this process names its executions. One of another process is seen by the database alone, and names none, so
everybody looks again. Being woken for nothing does no harm.

The intake: new executions on their way to the disk, as many at once as come.

What comes while others are being written is gathered, and written together next: with one statement for many, one turn
of the writer's thread and one call back to the event loop. So the more come, the less each costs, and one that comes
alone does not wait for company.

Behind a batch there is a short pause. Those who were answered then ask again, and are in the next one. Without it the
callers fall into two halves, of which each waits for the disk while the other one asks: twice as many commits for the
same work.

The desk: what routes, pages and workers do with executions, on the event loop.

Writes go through one thread that commits them together; reads go to threads. Whoever follows an execution is woken by
:class:`~skillwire.server.execution_service.Notifier`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import structlog

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.executions.accept import make_execution
from skillwire.executions.tasks import check_task_output, rejection
from skillwire.executions.view import without_ids
from skillwire.server.quotas import ConcurrencyLimit, QueueQuota

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.sqlite.group_commit import GroupCommit
    from skillwire.model.execution import Execution
    from skillwire.ports import ExecutionLedger

    Told = Callable[[BaseException | None], object]
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from skillwire.executions.accept import ExecutionSettings, Invocation
    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.model.digest import Digest
    from skillwire.model.execution import (
        Accepted,
        Claim,
        ExecutionQuery,
        ExecutionStatus,
        Failure,
        FoundExecutions,
        IdempotencyKey,
        Moment,
        OpenTasks,
        OutputBlob,
        TaskOwner,
    )
    from skillwire.model.skill import Skill
    from skillwire.ports import Dispatcher, SkillVersions


class Notifier:
    """The changes of the ledger, as one event loop hears of them. ``number`` rises with each."""

    def __init__(self) -> None:
        self.number = 0
        self.is_closed = False
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._watchers: set[asyncio.Event] = set()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._watchers) + sum(map(len, self._followers.values()))

    def tell(self, *execution_ids: str) -> None:
        """Say that these changed."""
        self.number += 1
        for execution_id in execution_ids:
            for event in self._followers.get(execution_id, ()):
                event.set()
        for event in self._watchers:
            event.set()

    def tell_all(self) -> None:
        """Say that any may have changed."""
        self.tell(*self._followers)

    def close(self) -> None:
        """Wake everybody for the last time: nobody waits any more."""
        self.is_closed = True
        self.tell_all()

    def follow(self, execution_id: str) -> Subscription:
        """Begin to listen for changes of one execution: before it is looked up, so that none is missed."""
        return Subscription(self._followers.setdefault(execution_id, set()), lambda: self._drop(execution_id))

    def _drop(self, execution_id: str) -> None:
        if not self._followers.get(execution_id):
            self._followers.pop(execution_id, None)

    async def beyond(self, since: int, seconds: float) -> int:
        """Return :attr:`number` when it is more than ``since``, or as it is after ``seconds``."""
        if self.number <= since:
            with Subscription(self._watchers, lambda: None) as following:
                await following.wait(seconds)
        return self.number


class Subscription:
    """Somebody who listens; a context manager that ends it."""

    def __init__(self, events: set[asyncio.Event], end: Callable[[], None]) -> None:
        self._events = events
        self._end = end
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._events.add(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        self._events.discard(self._event)
        self._end()

    async def wait(self, seconds: float) -> bool:
        """Return whether something was said since the last call, waiting at most ``seconds`` for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        was_told = self._event.is_set()
        self._event.clear()
        return was_told


#: Seconds between a batch and the next; a commit takes about as long.
_PAUSE: Final = 0.001


class WriteBatcher:
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


T = TypeVar("T")

#: For how long a version is taken to be where it was kept. It goes with the last execution of it, a day later at least.
_VERSION_SECONDS: Final = 600.0
#: Of so many versions that is remembered.
_VERSIONS: Final = 20_000


class ExecutionService:
    """Executions, as one server handles them.

    Args:
        ledger: the truth about them.
        versions: of the skills that they run.
        writer: commits what is written.
        settings: the operator's.
        changes: who waits is told through it.
        dispatcher: wakes workers.
        clock: what time it is.
        log_accepted: whether a line is logged for each execution that is accepted.

    ``on_cancel`` is called with the ID of an execution that was cancelled here. ``places`` are for requests that wait
    for executions.
    """

    def __init__(
        self,
        ledger: ExecutionLedger,
        versions: SkillVersions,
        writer: GroupCommit,
        *,
        settings: ExecutionSettings,
        changes: Notifier,
        dispatcher: Dispatcher,
        clock: Callable[[], Moment],
        log_accepted: bool = True,
    ) -> None:
        self.ledger = ledger
        self.versions = versions
        self.writer = writer
        self.settings = settings
        self.changes = changes
        self.clock = clock
        self.places = ConcurrencyLimit(lambda: (limits.EXECUTION_FOLLOWERS, limits.EXECUTION_FOLLOWERS_CALLER))
        self.on_cancel: Callable[[str], object] = lambda _: None
        self._dispatcher = dispatcher
        self._log_accepted = log_accepted
        self._versions_kept: dict[Digest, float] = {}
        self._room = QueueQuota(ledger, settings.waiting)
        self._intake = WriteBatcher(ledger, writer)
        self._log = structlog.get_logger("skillwire.executions")

    async def accept(
        self,
        offer: CallableSkill,
        invocation: Invocation,
        key: IdempotencyKey | None = None,
        *,
        also: Callable[[Execution], object] = lambda _: None,
    ) -> Accepted:
        """Keep a new execution, durably; or return that of an earlier request with the same key.

        ``also`` is called with a new one while it is written, by the writer: what it writes belongs to the same
        transaction, and what it raises is raised here, with nothing accepted. Who is cancelled while it is written has
        it accepted nonetheless: counted, told of and run.

        Raises:
            ValidationError: ``VALIDATION_ERROR`` when it does not fit the offer, or the key was used for another body.
            ConflictError: ``TOO_MANY_EXECUTIONS``. StorageError: ``DATABASE``.
        """
        execution = make_execution(offer, invocation, self.settings)
        await self._room.look(execution.caller)
        self._room.check(execution.caller)
        is_kept = self._is_kept(offer.skill)

        def write() -> Accepted:
            accepted = self.ledger.accept(execution, key)
            if accepted.how == "new" and not is_kept:
                self.versions.keep(offer.skill)  # in the same transaction, and none that no execution needs
            if accepted.how == "new":
                also(accepted.execution)
            return accepted

        def written(accepted: Accepted) -> None:
            if accepted.how == "new":
                self._remember_version(offer.skill)
                self._accepted(execution)

        accepted = await self.writer.run(write, then=written)
        if accepted.how == "another":
            raise ValidationError("VALIDATION_ERROR", "this Idempotency-Key was used with another request")
        return accepted

    def accept_soon(
        self, offer: CallableSkill, invocation: Invocation, told: Callable[[Execution | None], object]
    ) -> bool:
        """Keep a new execution as :meth:`accept` does, unless something has to be looked up before; return whether.

        Later ``told`` is called: with the execution when it is on the disk, with None when it could not be written.

        Raises:
            ValidationError: as :meth:`accept`.
        """
        if not self._room.is_known or not self._is_kept(offer.skill):
            return False
        execution = make_execution(offer, invocation, self.settings)
        if self._room.is_full(execution.caller):  # the ordinary way counts again before it refuses
            return False

        def written(error: BaseException | None) -> None:
            if error is None:
                self._accepted(execution)
            told(execution if error is None else None)

        self._intake.take(execution, written)
        return True

    def _is_kept(self, skill: Skill) -> bool:
        """Whether the ledger holds the version of a skill for certain: an execution of it was accepted a while ago."""
        return self._versions_kept.get(skill.artifact.digest, 0.0) > time.monotonic()

    def _remember_version(self, skill: Skill) -> None:
        now = time.monotonic()
        if len(self._versions_kept) >= _VERSIONS:  # code that callers bring is another version each time
            self._versions_kept = {digest: until for digest, until in self._versions_kept.items() if until > now}
            if len(self._versions_kept) >= _VERSIONS:
                self._versions_kept.clear()
        self._versions_kept[skill.artifact.digest] = now + _VERSION_SECONDS

    def _accepted(self, execution: Execution) -> None:
        self._room.take(execution.caller)
        self._tell(execution.execution_id)
        if self._log_accepted:
            self._log.info("accepted", **log_facts(execution))

    async def look_up(self, execution_id: str) -> Execution | None:
        """Return an execution."""
        return await asyncio.to_thread(self.ledger.find, execution_id)

    async def output_of(self, execution: Execution) -> bytes | None:
        """Return what it gave, JSON as bytes; None where there is nothing, or nothing more."""
        if execution.output_blob is None:
            return self.ledger.output(execution)
        return await asyncio.to_thread(self.ledger.output, execution)

    async def output_file(self, execution: Execution) -> Path | None:
        """Return the file with what it gave, where that is too large to be held for each who asks."""
        if execution.output_blob is None:
            return None
        return await asyncio.to_thread(self.ledger.output_file, execution)

    async def find_begun(self, beginning: str) -> Execution | None:
        """Return the one execution whose ID begins so; None when none does, or several."""
        return await asyncio.to_thread(self.ledger.find_begun, beginning)

    async def search(self, query: ExecutionQuery) -> FoundExecutions:
        """Return a page of executions, newest first."""
        return await asyncio.to_thread(self.ledger.search, query)

    async def tasks(self, worker: str, whose: TaskOwner, limit: int) -> OpenTasks:
        """Return the most urgent tasks that nobody has, that ``worker`` has, or that others have."""
        return await asyncio.to_thread(lambda: self.ledger.tasks(worker, whose, limit=limit))

    async def count(self, query: ExecutionQuery) -> Mapping[ExecutionStatus, int]:
        """Return how many executions ``query`` finds, whatever their status, by status."""
        return await asyncio.to_thread(self.ledger.count, query)

    async def changed(self, since: int, seconds: float) -> int:
        """Return the number of the last change, when it is more than ``since`` or after ``seconds``."""
        return await self.changes.beyond(since, seconds)

    async def cancel(self, execution_id: str, by: str) -> Execution | None:
        """End an execution, unless it has ended; return it as it is then."""
        ended = await self.writer.run(lambda: self.ledger.cancel(execution_id, by, self.clock()))
        if ended is not None:
            self._tell(execution_id)
            self.on_cancel(execution_id)
            self._log.info("cancelled", by=by, **log_facts(ended))
        return ended

    async def take_task(self, execution_id: str, person: str) -> Execution | None:
        """Give a task to a person; None when somebody has it, or it has ended."""
        return await self._change(execution_id, lambda: self.ledger.claim_task(execution_id, person, self.clock()))

    async def release_task(self, claim: Claim) -> bool:
        """Give a task back for somebody else."""
        return await self._change(claim.execution_id, lambda: self.ledger.release(claim, self.clock()))

    async def complete_task(self, claim: Claim, output: Any) -> bool:
        """Keep what a person handed in; False when the task is not theirs any more.

        Raises:
            ValidationError: ``VALIDATION_ERROR`` when it does not fit what was asked for.
        """
        task = await self.look_up(claim.execution_id)
        return task is not None and await self.complete(claim, await asyncio.to_thread(check_task_output, task, output))

    async def reject_task(self, claim: Claim, message: str) -> bool:
        """Keep that a person will not do it.

        Raises:
            UsageError: ``USAGE`` without a reason, or with one that is too long.
        """
        return await self.fail(claim, rejection(message))

    async def complete(self, claim: Claim, output: bytes, *, log: str = "", blobs: Sequence[OutputBlob] = ()) -> bool:
        """Keep what an execution gave; False when the claim holds no more."""
        complete = self.ledger.complete
        return await self._change(
            claim.execution_id, lambda: complete(claim, output, self.clock(), log=log, blobs=blobs)
        )

    async def fail(self, claim: Claim, failure: Failure, *, log: str = "") -> bool:
        """Keep that an attempt failed; False when the claim holds no more."""
        return await self._change(claim.execution_id, lambda: self.ledger.fail(claim, failure, self.clock(), log=log))

    async def _change(self, execution_id: str, call: Callable[[], T]) -> T:
        result = await self.writer.run(call)
        if result:
            self._tell(execution_id)
        return result

    def _tell(self, execution_id: str) -> None:
        self.changes.tell(execution_id)
        self._dispatcher.wake()


def log_facts(execution: Execution) -> dict[str, Any]:
    """Return what logs say of an execution: never what goes in or comes out."""
    facts = {"execution": without_ids(execution.execution_id), "skill": execution.skill}
    return {**facts, "trace": execution.trace_id} if execution.trace_id else facts
