"""The desk: what routes, pages and workers do with executions, on the event loop.

Writes go through one thread that commits them together; reads go to threads. Whoever follows an execution is woken by
:class:`~skillwire.server.invocation.changes.Changes`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.invocation.accept import make_execution
from skillwire.invocation.inbox import declined, handed_in
from skillwire.invocation.log_ids import without_ids
from skillwire.server.invocation.intake import Intake
from skillwire.server.invocation.places import Places
from skillwire.server.invocation.room import Room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from skillwire.adapters.sqlite.group_commit import GroupCommit
    from skillwire.invocation.accept import Invocation
    from skillwire.invocation.offer import Offer
    from skillwire.invocation.settings import ExecutionSettings
    from skillwire.model.digest import Digest
    from skillwire.model.execution import Claim, Execution, ExecutionStatus, Failure, OutputBlob
    from skillwire.model.ledger import (
        Accepted,
        ExecutionQuery,
        FoundExecutions,
        IdempotencyKey,
        Moment,
        OpenTasks,
        Whose,
    )
    from skillwire.model.skill import Skill
    from skillwire.ports import Dispatcher, ExecutionLedger, SkillVersions
    from skillwire.server.invocation.changes import Changes

T = TypeVar("T")

#: For how long a version is taken to be where it was kept. It goes with the last execution of it, a day later at least.
_VERSION_SECONDS: Final = 600.0
#: Of so many versions that is remembered.
_VERSIONS: Final = 20_000


class Desk:
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
        changes: Changes,
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
        self.places = Places(lambda: (limits.EXECUTION_FOLLOWERS, limits.EXECUTION_FOLLOWERS_CALLER))
        self.on_cancel: Callable[[str], object] = lambda _: None
        self._dispatcher = dispatcher
        self._log_accepted = log_accepted
        self._versions_kept: dict[Digest, float] = {}
        self._room = Room(ledger, settings.waiting)
        self._intake = Intake(ledger, writer)
        self._log = structlog.get_logger("skillwire.executions")

    async def accept(
        self,
        offer: Offer,
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

    def accept_soon(self, offer: Offer, invocation: Invocation, told: Callable[[Execution | None], object]) -> bool:
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
            self._log.info("accepted", **facts_of(execution))

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

    async def tasks(self, worker: str, whose: Whose, limit: int) -> OpenTasks:
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
            self._log.info("cancelled", by=by, **facts_of(ended))
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
        return task is not None and await self.complete(claim, await asyncio.to_thread(handed_in, task, output))

    async def reject_task(self, claim: Claim, message: str) -> bool:
        """Keep that a person will not do it.

        Raises:
            UsageError: ``USAGE`` without a reason, or with one that is too long.
        """
        return await self.fail(claim, declined(message))

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


def facts_of(execution: Execution) -> dict[str, Any]:
    """Return what logs say of an execution: never what goes in or comes out."""
    facts = {"execution": without_ids(execution.execution_id), "skill": execution.skill}
    return {**facts, "trace": execution.trace_id} if execution.trace_id else facts
