"""Forgetting what ended long ago: outputs first, then executions with all that was kept for them alone.

A blob goes only while the transaction holds the database, and only when no other execution has its output in it.

The ledger of executions in SQLite.

Each step reads what decides about an execution, asks the state table, and writes, all in one immediate transaction: of
any number of threads and processes one is at it at a time, and the others find what it left. Nothing is returned before
it is committed with ``synchronous = FULL``, so what was accepted survives a crash of the process, of the machine, and
of the power.

Outputs too large for a row are blobs in a folder beside the database. They are written, and removed, while the
transaction holds the database, so that no blob goes that a row needs.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.sqlite.ledger_queue import HELD, WAITING, Queue
from skillwire.adapters.sqlite.ledger_rows import (
    SELECT,
    STATE,
    apply_transition,
    encode_blobs,
    find,
    find_by_key,
    held_state,
    insert,
    read_execution,
    read_state,
    state_of,
    timeout_failure,
)
from skillwire.adapters.sqlite.ledger_search import count, search, tasks
from skillwire.executions.states import CANCELLED, after_failure, after_loss, loss_of, next_attempt, timed_out
from skillwire.model.digest import Digest
from skillwire.model.execution import EXPIRED_PER_BATCH, Accepted, ExecutionQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path
    from sqlite3 import Connection

    from skillwire.adapters.files.blobs import FileBlobs
    from skillwire.adapters.sqlite.database import Database
    from skillwire.model.execution import (
        Claim,
        Execution,
        ExecutionStatus,
        Failure,
        FoundExecutions,
        IdempotencyKey,
        Moment,
        OpenTasks,
        OutputBlob,
        Quota,
        TaskOwner,
    )


#: How many rows one round takes at most.
_AT_ONCE: Final = 500


def forget_outputs(connection: Connection, before: float, outputs: FileBlobs) -> int:
    """Forget outputs of executions that completed before a time; return how many."""
    query = (
        "SELECT number, output_blob FROM executions WHERE status = 'completed' AND output_forgotten = 0"
        " AND completed < ? ORDER BY completed LIMIT ?"
    )
    found = connection.execute(query, (before, _AT_ONCE)).fetchall()
    forget = "UPDATE executions SET output = NULL, log = NULL, blobs = NULL, output_forgotten = 1 WHERE number = ?"
    connection.executemany(forget, [(number,) for number, _ in found])
    _remove_blobs(connection, {blob for _, blob in found if blob}, outputs)
    return len(found)


def forget_rows(connection: Connection, before: float, outputs: FileBlobs) -> int:
    """Forget executions that ended before a time, with all that was kept for them alone; return how many."""
    query = "SELECT execution_id, digest, output_blob FROM executions WHERE completed < ? ORDER BY completed LIMIT ?"
    found = connection.execute(query, (before, _AT_ONCE)).fetchall()
    names = [(execution_id,) for execution_id, _, _ in found]
    connection.executemany("DELETE FROM executions WHERE execution_id = ?", names)
    connection.executemany("DELETE FROM idempotency_keys WHERE execution_id = ?", names)
    query = "DELETE FROM run_mounts WHERE execution_id = ? RETURNING digest"
    mounted = [row for name in names for row in connection.execute(query, name).fetchall()]
    is_unused = (
        "NOT EXISTS (SELECT 1 FROM executions WHERE digest = ?1 AND completed IS NOT NULL)"
        " AND NOT EXISTS (SELECT 1 FROM executions INDEXED BY executions_open WHERE completed IS NULL AND digest = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM run_mounts WHERE digest = ?1)"
    )
    digests = {*mounted, *((digest,) for _, digest, _ in found)}
    connection.executemany(f"DELETE FROM skill_versions WHERE digest = ?1 AND {is_unused}", digests)  # noqa: S608  # a constant
    _remove_blobs(connection, {blob for _, _, blob in found if blob}, outputs)
    return len(found)


def _remove_blobs(connection: Connection, blobs: set[str], outputs: FileBlobs) -> None:
    for blob in map(Digest, blobs):
        if not is_needed(connection, blob):
            outputs.remove(blob)


def is_needed(connection: Connection, blob: Digest) -> bool:
    """Whether an execution has its output in this blob."""
    query = "SELECT 1 FROM executions WHERE output_blob = ? AND output_forgotten = 0 LIMIT 1"
    return connection.execute(query, (str(blob),)).fetchone() is not None


#: What has not ended.
_OPEN: Final = "completed IS NULL"
#: Where whoever waits or runs is counted by caller: what waits, tasks, and what workers have.
_CALLERS: Final = (
    f"INDEXED BY executions_lanes WHERE {WAITING}",
    f"INDEXED BY executions_tasks WHERE executor = 'human' AND {_OPEN}",
    f"INDEXED BY executions_held WHERE {HELD} AND executor <> 'human'",
)
#: Seconds in which whoever took a callback makes it.
_CALLBACK_SECONDS: Final = 60.0


class SqliteLedger:
    """Fills :class:`skillwire.ports.ExecutionLedger`.

    Args:
        database: where the ledger is.
        outputs: where large outputs are; durable.
        chance: from 0 to 1, for the jitter of retries.
    """

    def __init__(
        self,
        database: Database,
        outputs: FileBlobs,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.database = database
        self._outputs = outputs
        self._chance = chance
        self._queue = Queue()

    def accept(self, execution: Execution, key: IdempotencyKey | None = None) -> Accepted:
        """Keep a new execution, or return the one that its key was first used for."""
        with self.database.writing() as connection:
            earlier = find_by_key(connection, key) if key else None
            if earlier is not None:
                return earlier
            insert(connection, [execution])
            if key is not None:
                row = (key.caller, key.key, key.body, execution.execution_id)
                connection.execute("INSERT INTO idempotency_keys VALUES (?, ?, ?, ?)", row)
        return Accepted(execution, "new")

    def accept_all(self, executions: Sequence[Execution]) -> None:
        """Keep new executions: all of them, or none."""
        with self.database.writing() as connection:
            insert(connection, executions)

    def find(self, execution_id: str) -> Execution | None:
        """Return an execution."""
        with self.database.reading() as connection:
            return find(connection, execution_id)

    def find_begun(self, beginning: str) -> Execution | None:
        """Return the one execution whose ID begins so."""
        query = f"{SELECT} WHERE execution_id >= ? AND execution_id < ? LIMIT 2"
        with self.database.reading() as connection:
            rows = connection.execute(query, (beginning, f"{beginning}~")).fetchall()
        return read_execution(rows[0]) if len(rows) == 1 else None

    def output(self, execution: Execution) -> bytes | None:
        """Return what it gave, from its row or its blob."""
        if execution.output_blob is None or execution.output_forgotten:
            return execution.output
        return self._outputs.read(Digest(execution.output_blob))

    def output_file(self, execution: Execution) -> Path | None:
        """Return the file of its blob, if its output is in one."""
        if execution.output_blob is None or execution.output_forgotten:
            return None
        return self._outputs.path(Digest(execution.output_blob))

    def search(self, query: ExecutionQuery) -> FoundExecutions:
        """Return the executions that ``query`` asks for, newest first."""
        with self.database.reading() as connection:
            return search(connection, query)

    def waiting(self) -> Mapping[str, int]:
        """Return how many executions wait or run, by caller."""
        with self.database.reading() as connection:
            number: Counter[str] = Counter()
            for where in _CALLERS:
                rows = connection.execute(f"SELECT caller, count(*) FROM executions {where} GROUP BY caller")  # noqa: S608  # a constant
                number.update(dict(rows.fetchall()))
            return number

    def count(self, query: ExecutionQuery | None = None) -> Mapping[ExecutionStatus, int]:
        """Return how many executions there are, or ``query`` finds, by status."""
        with self.database.reading() as connection:
            return count(connection, query or ExecutionQuery())

    def tasks(self, worker: str, whose: TaskOwner, *, limit: int) -> OpenTasks:
        """Return the most urgent tasks for people."""
        with self.database.reading() as connection:
            return tasks(connection, worker, whose, limit)

    def claim(self, worker: str, now: Moment, quota: Quota, *, limit: int = 1) -> Sequence[Execution]:
        """Give ``worker`` the next executions that may run."""
        with self.database.writing() as connection:
            chosen = self._queue.choose(connection, now, quota, limit)
            lease = (now.steady + quota.lease, now.boot)
            for execution_id in chosen:
                apply_transition(connection, execution_id, "claim", now, worker=worker, by=worker, lease=lease)
            return [found for name in chosen if (found := find(connection, name)) is not None]

    def claim_task(self, execution_id: str, worker: str, now: Moment) -> Execution | None:
        """Give a person a task; without a lease, since people are silent for hours."""
        with self.database.writing() as connection:
            state = state_of(connection, execution_id)
            if state is None or not state.is_waiting(now.wall):
                return None
            query = "SELECT 1 FROM executions WHERE execution_id = ? AND executor = 'human'"
            if connection.execute(query, (execution_id,)).fetchone() is None:
                return None
            apply_transition(connection, execution_id, "claim", now, worker=worker, by=worker)
            return find(connection, execution_id)

    def release(self, claim: Claim, now: Moment) -> bool:
        """Give back what was claimed."""
        with self.database.writing() as connection:
            return held_state(connection, claim) is not None and apply_transition(
                connection, claim.execution_id, "release", now, by=claim.worker
            )

    def renew(self, claims: Collection[Claim], now: Moment, lease: float) -> Collection[Claim]:
        """Prolong the leases by ``lease`` seconds from now; return the claims that hold no more."""
        with self.database.writing() as connection:
            which = f"execution_id = ? AND worker = ? AND attempt = ? AND {HELD}"
            query = f"UPDATE executions SET lease_until = ?, lease_boot = ? WHERE {which}"  # noqa: S608  # a constant
            return [
                claim
                for claim in claims
                if connection.execute(query, (now.steady + lease, now.boot, *claim)).rowcount == 0
            ]

    def complete(
        self, claim: Claim, output: bytes, now: Moment, *, log: str = "", blobs: Sequence[OutputBlob] = ()
    ) -> bool:
        """Keep what the execution gave, if the claim holds."""
        with self.database.writing() as connection:
            if held_state(connection, claim) is None:
                return False
            is_large = len(output) > limits.EXECUTION_ROW_OUTPUT_BYTES
            kept = (None, str(self._outputs.put(output))) if is_large else (output, None)
            query = "UPDATE executions SET output = ?, output_blob = ?, log = ?, blobs = ? WHERE execution_id = ?"
            connection.execute(query, (*kept, log or None, encode_blobs(blobs), claim.execution_id))
            return apply_transition(connection, claim.execution_id, "complete", now, by=claim.worker)

    def fail(self, claim: Claim, failure: Failure, now: Moment, *, log: str = "") -> bool:
        """Keep that an attempt failed, if the claim holds."""
        with self.database.writing() as connection:
            state = held_state(connection, claim)
            if state is None:
                return False
            chance = self._chance()
            what = after_failure(state, failure, now.wall, chance)
            not_before = next_attempt(state, failure, now.wall, chance) if what == "retry" else None
            if what == "expire":
                failure = timeout_failure(connection, claim.execution_id, failure.details)
            if log:
                query = "UPDATE executions SET log = ? WHERE execution_id = ?"
                connection.execute(query, (log, claim.execution_id))
            return apply_transition(
                connection,
                claim.execution_id,
                what,
                now,
                by=claim.worker,
                not_before=not_before,
                failure=failure,
            )

    def cancel(self, execution_id: str, by: str, now: Moment) -> Execution | None:
        """End an execution, unless it has ended."""
        with self.database.writing() as connection:
            apply_transition(connection, execution_id, "cancel", now, by=by, failure=CANCELLED)
            return find(connection, execution_id)

    def expire(self, now: Moment) -> Sequence[str]:
        """End what is past its deadline, some of it at a time: nobody else writes meanwhile."""
        query = f"SELECT execution_id, timeout FROM executions WHERE {_OPEN} AND deadline <= ?"  # noqa: S608  # a constant
        with self.database.reading() as connection:  # nothing to do is the rule, and needs no lock
            if connection.execute(f"{query} LIMIT 1", (now.wall,)).fetchone() is None:
                return ()
        with self.database.writing() as connection:
            late = connection.execute(f"{query} LIMIT ?", (now.wall, EXPIRED_PER_BATCH)).fetchall()
            return [
                execution_id
                for execution_id, timeout in late
                if apply_transition(connection, execution_id, "expire", now, failure=timed_out(execution_id, timeout))
            ]

    def recover(self, now: Moment) -> Sequence[str]:
        """Take up what lost its worker, some of it at a time as in expire."""
        silent = "lease_until IS NOT NULL AND (lease_boot <> ? OR lease_until < ?)"
        query = f"SELECT execution_id, {STATE} FROM executions WHERE {HELD} AND {silent}"  # noqa: S608  # constants
        with self.database.reading() as connection:  # as in expire
            if connection.execute(f"{query} LIMIT 1", (now.boot, now.steady)).fetchone() is None:
                return ()
        with self.database.writing() as connection:
            lost = connection.execute(f"{query} LIMIT ?", (now.boot, now.steady, EXPIRED_PER_BATCH)).fetchall()
            return [
                execution_id
                for execution_id, state in [(execution_id, read_state(rest)) for execution_id, *rest in lost]
                if apply_transition(connection, execution_id, after_loss(state), now, failure=loss_of(state))
            ]

    def due_callbacks(self, now: Moment, *, limit: int, queue: str = "") -> Sequence[Execution]:
        """Return ended executions whose caller is to be told now."""
        query = "SELECT execution_id FROM executions WHERE queue = ? AND callback_at <= ? ORDER BY callback_at LIMIT ?"
        with self.database.reading() as connection:  # as in expire
            if connection.execute(query, (queue, now.wall, 1)).fetchone() is None:
                return ()
        with self.database.writing() as connection:
            due = [row[0] for row in connection.execute(query, (queue, now.wall, limit))]
            taken = "UPDATE executions SET callback_at = ?, callbacks = callbacks + 1 WHERE execution_id = ?"
            connection.executemany(taken, [(now.wall + _CALLBACK_SECONDS, execution_id) for execution_id in due])
            return [found for execution_id in due if (found := find(connection, execution_id)) is not None]

    def put_off_callback(self, execution_id: str, until: float | None, *, was_tried: bool = True) -> None:
        """Keep when a caller is to be told again."""
        put_off = "UPDATE executions SET callback_at = ?, callbacks = callbacks - ? WHERE execution_id = ?"
        with self.database.writing() as connection:
            connection.execute(put_off, (until, 0 if was_tried else 1, execution_id))

    def forget(self, now: Moment, *, outputs: float, rows: float) -> int:
        """Forget outputs and executions that ended long ago, some hundreds at a time."""
        with self.database.writing() as connection:
            number = forget_outputs(connection, now.wall - outputs, self._outputs)
            return number + forget_rows(connection, now.wall - rows, self._outputs)

    def sweep_outputs(self) -> int:
        """Remove the outputs that were written for a commit which a crash has prevented; return how many."""
        with self.database.reading() as connection:
            strays = [file for file, digest in self._outputs.files() if not is_needed(connection, digest)]
        removed = 0
        for file in strays:
            with self.database.writing() as connection:  # outputs are written in a transaction, too
                if not is_needed(connection, Digest(f"sha256:{file.parent.name}{file.name}")):
                    file.unlink(missing_ok=True)
                    removed += 1
        return removed
