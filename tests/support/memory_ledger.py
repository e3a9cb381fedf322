"""An execution ledger in memory: the model that the durable one is compared with, and what unit tests run on.

It keeps the rules of :class:`skillwire.ports.ExecutionLedger` with plain data structures. All calls come from one event
loop, and no method waits.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.errors import SkillwireError, StorageError, UsageError
from skillwire.executions.states import (
    CANCELLED,
    EXPLAINED,
    State,
    Transition,
    after_failure,
    after_loss,
    loss_of,
    next_attempt,
    timed_out,
)
from skillwire.model.execution import (
    CALLBACK_SECONDS,
    DELETED_PER_BATCH,
    EXPIRED_PER_BATCH,
    FINAL,
    Accepted,
    BlobHold,
    Claim,
    EndedExecution,
    Event,
    Execution,
    ExecutionQuery,
    ExecutionStatus,
    Failure,
    FoundExecutions,
    LedgerStatistics,
    Moment,
    NewExecution,
    OpenTasks,
    OutputBlob,
    Priority,
    Quota,
    StatisticsCursor,
    TaskOwner,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from skillwire.model.skill import Skill

_CURSOR: Final = re.compile(r"[0-9]{1,18}")
#: Seconds that the process has for a callback that it took from the ledger.


@dataclass(slots=True)
class _Row:
    """An execution, and what only the ledger knows of it."""

    number: int
    execution: Execution
    losses: int = 0
    lease: tuple[float, str] | None = None
    callback_at: float | None = None

    @property
    def state(self) -> State:
        one = self.execution
        own = (one.attempt, one.worker, one.not_before, one.deadline, one.max_attempts, one.backoff, one.is_repeatable)
        return State(one.status, *own, self.losses)


class MemoryLedger:
    """Fills :class:`skillwire.ports.ExecutionLedger`; ``chance`` (0 to 1) is the jitter of retries."""

    def __init__(
        self, *, chance: Callable[[], float] = random.random, hold_blobs: Callable[[BlobHold], object] = lambda _: None
    ) -> None:
        self._chance = chance
        self._hold_blobs = hold_blobs
        self._rows: dict[str, _Row] = {}
        self._number = 0
        self._keys: dict[tuple[str, str], tuple[bytes, str]] = {}
        self._skills: dict[str, Skill] = {}

    # --- accepting and reading

    async def accept_all(self, new: Sequence[NewExecution]) -> Sequence[Accepted | Exception]:
        return [self._accept(one) for one in new]

    def _accept(self, new: NewExecution) -> Accepted | Exception:
        execution, key = new.execution, new.key
        if key is not None and (known := self._keys.get((key.caller, key.key))) is not None:
            return Accepted(self._rows[known[1]].execution, "repeated" if known[0] == key.body else "another")
        if execution.execution_id in self._rows:
            return StorageError("DATABASE", f"the execution {execution.execution_id} exists already")
        try:
            if new.hold is not None:
                self._hold_blobs(new.hold)
        except SkillwireError as error:
            return error
        self._number += 1
        self._rows[execution.execution_id] = _Row(self._number, execution)
        if key is not None:
            self._keys[key.caller, key.key] = key.body, execution.execution_id
        for skill in new.skills:
            self._skills.setdefault(str(skill.artifact.digest), skill)
        return Accepted(execution, "new")

    async def find(self, execution_id: str) -> Execution | None:
        row = self._rows.get(execution_id)
        return None if row is None else row.execution

    async def find_begun(self, beginning: str) -> Execution | None:
        found = [row.execution for name, row in self._rows.items() if name.startswith(beginning)]
        return found[0] if len(found) == 1 else None

    async def output(self, execution: Execution) -> bytes | None:
        return execution.output

    async def output_file(self, execution: Execution) -> Path | None:  # noqa: ARG002  # no output is in a file
        return None

    async def find_skill(self, digest: str) -> Skill | None:
        return self._skills.get(digest)

    async def open_skills(self) -> Sequence[Skill]:
        return [self._skills[digest] for digest in self._digests(self._open()) if digest in self._skills]

    @staticmethod
    def _digests(rows: Iterable[_Row]) -> dict[str, None]:
        digests: dict[str, None] = {}
        for one in (row.execution for row in rows):
            mounts = one.attachments.mounts if one.attachments else ()
            digests |= dict.fromkeys((one.digest, *(digest for _, digest in mounts)))
        return digests

    async def search(self, query: ExecutionQuery) -> FoundExecutions:
        if query.after is not None and not _CURSOR.fullmatch(query.after):
            raise UsageError("CURSOR", "the cursor is invalid")
        before = self._number + 1 if query.after is None else int(query.after)
        found = [row for row in reversed(self._rows.values()) if row.number < before and _matches(row, query)]
        page = found[: query.limit]
        after = str(page[-1].number) if page and len(found) > len(page) else None
        return FoundExecutions(tuple(row.execution for row in page), after)

    async def count(self, query: ExecutionQuery | None = None) -> Mapping[ExecutionStatus, int]:
        query = (query or ExecutionQuery())._replace(statuses=None)
        return Counter(row.execution.status for row in self._rows.values() if _matches(row, query))

    async def tasks(self, worker: str, whose: TaskOwner, *, limit: int) -> OpenTasks:
        found: dict[TaskOwner, list[Execution]] = {"open": [], "mine": [], "others": []}
        order = (Priority.HIGH, Priority.NORMAL, Priority.LOW)
        for row in sorted(
            self._open(),
            key=lambda row: (order.index(row.execution.priority), row.execution.deadline, row.number),
        ):
            one = row.execution
            if one.executor == "human":
                found["open" if one.worker is None else "mine" if one.worker == worker else "others"].append(one)
        return OpenTasks(tuple(found[whose][:limit]), {name: len(tasks) for name, tasks in found.items()})

    async def waiting(self) -> Mapping[str, int]:
        return Counter(row.execution.caller for row in self._open())

    # --- what workers and people do

    async def claim(self, worker: str, now: Moment, quota: Quota, *, limit: int = 1) -> Sequence[Execution]:
        held = [row.execution for row in self._open() if row.execution.worker is not None]
        callers = Counter(one.caller for one in held if one.executor != "human")
        skills = Counter(one.skill for one in held if one.executor != "human")
        waiting = [row for row in self._open() if row.state.is_waiting(now.wall) and _may_run(row.execution, quota)]
        claimed: list[Execution] = []
        for row in sorted(waiting, key=lambda row: (row.execution.turn, row.number)):
            one = row.execution
            has_capacity = callers[one.caller] < quota.per_caller and skills[one.skill] < quota.per_skill_of(one.skill)
            if len(claimed) < limit and has_capacity:
                callers[one.caller] += 1
                skills[one.skill] += 1
                self._step(row, "claim", now, worker=worker, by=worker)
                row.lease = (now.steady + quota.lease, now.boot)
                claimed.append(row.execution)
        return claimed

    async def claim_task(self, execution_id: str, worker: str, now: Moment) -> Execution | None:
        row = self._rows.get(execution_id)
        if row is None or row.execution.executor != "human" or not row.state.is_waiting(now.wall):
            return None
        self._step(row, "claim", now, worker=worker, by=worker)
        return row.execution

    async def release(self, claim: Claim, now: Moment) -> bool:
        row = self._claimed(claim)
        return row is not None and self._step(row, "release", now, by=claim.worker)

    async def renew(self, claims: Collection[Claim], now: Moment, lease: float) -> Collection[Claim]:
        over = []
        for claim in claims:
            row = self._claimed(claim)
            if row is None:
                over.append(claim)
            else:
                row.lease = (now.steady + lease, now.boot)
        return over

    async def complete(
        self, claim: Claim, output: bytes, now: Moment, *, log: str = "", blobs: Sequence[OutputBlob] = ()
    ) -> bool:
        row = self._claimed(claim)
        if row is None:
            return False
        row.execution = replace(row.execution, output=output, log=log, blobs=tuple(blobs))
        return self._step(row, "complete", now, by=claim.worker)

    async def fail(self, claim: Claim, failure: Failure, now: Moment, *, log: str = "") -> bool:
        row = self._claimed(claim)
        if row is None:
            return False
        chance = self._chance()
        what = after_failure(row.state, failure, now.wall, chance)
        not_before = next_attempt(row.state, failure, now.wall, chance) if what == "retry" else None
        if what == "expire":
            late = timed_out(row.execution.execution_id, row.execution.timeout)
            failure = late._replace(details={**failure.details, **late.details})
        if log:
            row.execution = replace(row.execution, log=log)
        return self._step(row, what, now, by=claim.worker, not_before=not_before, failure=failure)

    async def cancel(self, execution_id: str, by: str, now: Moment) -> Execution | None:
        row = self._rows.get(execution_id)
        if row is None:
            return None
        self._step(row, "cancel", now, by=by, failure=CANCELLED)
        return row.execution

    # --- what servers do now and then

    async def expire(self, now: Moment, *, held: Collection[Claim] = ()) -> Sequence[str]:
        ended = now.wall - limits.EXECUTION_END_SECONDS
        open_rows = [(row, now.wall if row.lease is None else ended) for row in self._open()]
        late = [row for row, until in open_rows if row.execution.deadline <= until and not _is_held(row, held)]
        late = late[:EXPIRED_PER_BATCH]
        for row in late:
            one = row.execution
            self._step(row, "expire", now, failure=timed_out(one.execution_id, one.timeout))
        return [row.execution.execution_id for row in late]

    async def recover(self, now: Moment, *, held: Collection[Claim] = ()) -> Sequence[str]:
        lost = [row for row in self._open() if row.lease and (row.lease[1] != now.boot or row.lease[0] < now.steady)]
        lost = [row for row in lost if not _is_held(row, held)]
        for row in lost[:EXPIRED_PER_BATCH]:
            self._step(row, after_loss(row.state), now, failure=loss_of(row.state))
        return [row.execution.execution_id for row in lost[:EXPIRED_PER_BATCH]]

    async def due_callbacks(self, now: Moment, *, limit: int, queue: str = "") -> Sequence[Execution]:
        due = [
            row
            for row in self._rows.values()
            if row.callback_at is not None and row.callback_at <= now.wall and row.execution.queue == queue
        ]
        due = sorted(due, key=lambda row: row.callback_at or 0.0)[:limit]
        for row in due:
            row.callback_at = now.wall + CALLBACK_SECONDS
            row.execution = replace(row.execution, callbacks=row.execution.callbacks + 1)
        return [row.execution for row in due]

    async def put_off_callback(self, execution_id: str, until: float | None, *, was_tried: bool = True) -> None:
        row = self._rows.get(execution_id)
        if row is not None:
            row.callback_at = until
            row.execution = replace(row.execution, callbacks=row.execution.callbacks - (not was_tried))

    async def forget(self, now: Moment, *, outputs: float, rows: float) -> int:
        ended = sorted(
            (row.execution.completed, row.number, row)
            for row in self._rows.values()
            if row.execution.completed is not None
        )
        old_outputs = [
            row
            for completed, _, row in ended
            if completed < now.wall - outputs
            and row.execution.status is ExecutionStatus.COMPLETED
            and not row.execution.output_forgotten
        ][:DELETED_PER_BATCH]
        for row in old_outputs:
            row.execution = replace(row.execution, output=None, log="", blobs=(), output_forgotten=True)
        old = [row for completed, _, row in ended if completed < now.wall - rows][:DELETED_PER_BATCH]
        for row in old:
            del self._rows[row.execution.execution_id]
        self._keys = {key: value for key, value in self._keys.items() if value[1] in self._rows}
        needed = self._digests(self._rows.values())
        for digest in [digest for digest in self._digests(old) if digest not in needed]:
            self._skills.pop(digest, None)
        return len(old_outputs) + len(old)

    async def remove_orphaned_outputs(self) -> int:
        return 0

    async def shrink(self) -> int:
        return 0

    async def check(self) -> None:
        """Memory does not fail."""

    async def exists(self) -> bool:
        return True

    def watch(self, changed: Callable[[], object]) -> None:
        """Do nothing: no other process can change this ledger."""

    async def close(self) -> None:
        """Do nothing."""

    async def statistics(self, after: StatisticsCursor, until: float, limit: int) -> LedgerStatistics:
        rows = list(self._rows.values())
        last = after.accepted
        if last is None:
            last = max((row.number for row in rows if row.execution.created < after.since), default=0)
        accepted = [row.number for row in rows if row.number > last]
        ended = sorted(
            (row.execution.completed, row.number, row.execution)
            for row in rows
            if row.execution.completed is not None
            and (row.execution.completed, row.number) > (max(after.place, after.since), after.ended)
            and row.execution.completed <= until
        )[:limit]
        running = sum(row.execution.worker is not None for row in self._open())
        completed, number = ended[-1][:2] if ended else (after.place, after.ended)
        cursor = StatisticsCursor(after.since, completed, number, max(accepted, default=last))
        waiting = [one.execution for one in rows if one.execution.status == "accepted"]
        oldest = min((one.created for one in waiting if one.executor != "human"), default=None)
        return LedgerStatistics(
            await self.count(), running, len(accepted), [_ended(execution) for *_, execution in ended], cursor, oldest
        )

    # --- steps

    def _open(self) -> Iterator[_Row]:
        return (row for row in list(self._rows.values()) if not row.execution.status.is_final)

    def _claimed(self, claim: Claim) -> _Row | None:
        row = self._rows.get(claim.execution_id)
        return row if row is not None and row.state.holds(claim) else None

    @staticmethod
    def _step(
        row: _Row,
        what: Transition,
        now: Moment,
        *,
        worker: str | None = None,
        by: str = "",
        not_before: float | None = None,
        failure: Failure | None = None,
    ) -> bool:
        after = row.state.step(what, worker=worker, not_before=not_before)
        if after is None:
            return False
        is_final = after.status in FINAL
        changes: dict[str, Any] = {
            "status": after.status,
            "attempt": after.attempt,
            "max_attempts": after.max_attempts,
            "worker": after.worker,
            "not_before": after.not_before,
            "updated": now.wall,
            "completed": now.wall if is_final else None,
            "failure": failure if is_final else None,
        }
        note = failure.message if failure and what in EXPLAINED else ""
        timeline = (*row.execution.timeline, Event(now.wall, what, by, note))
        row.execution = replace(row.execution, timeline=timeline, **changes)
        row.losses, row.lease = after.losses, None
        row.callback_at = now.wall if is_final and row.execution.webhook is not None else None
        return True


def _is_held(row: _Row, held: Collection[Claim]) -> bool:
    return Claim(row.execution.execution_id, row.execution.worker or "", row.execution.attempt) in held


def _matches(row: _Row, query: ExecutionQuery) -> bool:
    one = row.execution
    wanted = {name: getattr(query, name) for name in ("caller", "skill", "executor", "trace_id")}
    return (query.statuses is None or one.status in query.statuses) and all(
        value is None or getattr(one, name) == value for name, value in wanted.items()
    )


def _may_run(execution: Execution, quota: Quota) -> bool:
    is_here = execution.executor != "function" or quota.functions is None or execution.digest in quota.functions
    return execution.queue == quota.queue and execution.executor in quota.executors and is_here


def _ended(execution: Execution) -> EndedExecution:
    outcome = execution.failure.reason if execution.failure is not None else str(execution.status)
    claimed = next((event.at for event in execution.timeline if event.what == "claim"), None)
    waited = None if claimed is None else max(0.0, claimed - execution.created)
    return EndedExecution(outcome, waited, max(0.0, (execution.completed or 0.0) - execution.created))
