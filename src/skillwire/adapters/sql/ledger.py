"""The execution ledger in a database.

Each change locks the row of an execution, reads what decides about it, asks the state table, and writes, in one
transaction, so only one server updates an execution at a time. A change of several executions leaves out those that
another transaction has locked, and claims have one turn in all servers: quotas hold exactly, and no server waits for
another one that waits for it. What was accepted survives a crash of the process, of the machine and of the power.

A claim is fenced by the number of the attempt, which rises with each claim: a worker that was thought dead writes
nothing, even if the execution was claimed again under the same name.

The lease of a claim is its own until its worker first renews it. From then on it ends with the lease of the worker, so
renewing any number of leases writes one row.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from skillwire import limits
from skillwire.adapters.sql import Connection, Database, Store, reads, writes
from skillwire.adapters.sql.blobs import Outputs, hold_blobs
from skillwire.adapters.sql.ledger_rows import (
    CLAIMED,
    NAMED,
    NOTHING,
    SELECT,
    SELECT_STATE,
    STATE,
    WAITING,
    Queue,
    Step,
    apply_step,
    apply_steps,
    claimed_by,
    claimed_state,
    count_executions,
    encode_json,
    find,
    find_tasks,
    insert,
    read_execution,
    read_state,
    read_statistics,
    search_executions,
    state_in,
    state_of,
)
from skillwire.executions.states import (
    CANCELLED,
    after_failure,
    after_loss,
    loss_of,
    next_attempt,
    timed_out,
)
from skillwire.model.catalog import pack_skill, unpack_skill
from skillwire.model.digest import Digest
from skillwire.model.execution import (
    CALLBACK_SECONDS,
    DELETED_PER_BATCH,
    EXPIRED_PER_BATCH,
    Accepted,
    Claim,
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
    Quota,
    StatisticsCursor,
    TaskOwner,
)
from skillwire.model.skill import Skill

#: What has not ended.
_OPEN: Final = "completed IS NULL"
#: Where executions in progress are counted by caller: waiting ones, tasks, and held ones.
_CALLERS: Final = (
    f"INDEXED BY executions_lanes WHERE {WAITING}",
    f"INDEXED BY executions_tasks WHERE executor = 'human' AND {_OPEN}",
    f"INDEXED BY executions_held WHERE {CLAIMED} AND executor <> 'human'",
)
_LATE: Final = (
    f"SELECT execution_id, timeout, {STATE} FROM executions WHERE {_OPEN}"  # noqa: S608  # constants
    " AND deadline <= ? AND (lease_until IS NULL OR deadline <= ?)"
)
#: Claims whose leases end with those of their workers.
_KEPT: Final = f"{CLAIMED} AND lease_boot IS NULL AND lease_until = 0"
_HELD: Final = f"SELECT execution_id, {STATE} FROM executions"  # noqa: S608  # constants
#: Claims whose own lease is over, and those whose worker's is.
_LOST: Final = (
    f"{_HELD} WHERE {CLAIMED} AND lease_boot IS NOT NULL AND (lease_boot <> ? OR lease_until < ?)",
    f"{_HELD} WHERE {_KEPT} AND worker IN (SELECT worker FROM worker_leases WHERE boot <> ? OR ends < ?)",  # noqa: S608  # constants
)
#: What no claim ends with any more.
_END_LEASES: Final = (
    "DELETE FROM worker_leases WHERE (boot <> ? OR ends < ?)"  # noqa: S608  # constants
    f" AND NOT EXISTS (SELECT 1 FROM executions WHERE {_KEPT} AND executions.worker = worker_leases.worker)"
)
_DUE: Final = "SELECT execution_id FROM executions WHERE queue = ? AND callback_at <= ?"


class SqlLedger(Store):
    """Fills :class:`skillwire.ports.ExecutionLedger`; ``chance`` (0 to 1) is the jitter of retries."""

    def __init__(self, database: Database, outputs: Outputs, *, chance: Callable[[], float] = random.random) -> None:
        super().__init__(database)
        self._outputs = outputs
        self._chance = chance
        self._queue = Queue()

    # --- accepting and reading

    @writes
    async def accept_all(self, connection: Connection, new: Sequence[NewExecution]) -> Sequence[Accepted | Exception]:
        plain = [one.execution for one in new if one.is_plain]
        try:
            async with connection.part():
                await insert(connection, plain)
            are_stored = True
        except Exception:
            if not connection.is_usable:  # it has undone everything, as a full disk does
                raise
            are_stored = False
        return [
            Accepted(one.execution, "new") if one.is_plain and are_stored else await self._accept(connection, one)
            for one in new
        ]

    async def _accept(self, connection: Connection, new: NewExecution) -> Accepted | Exception:
        try:
            async with connection.part():
                if new.key is not None:  # of several servers with one key, the others wait here for the first
                    put = "INSERT INTO idempotency_keys VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
                    row = (new.key.caller, new.key.key, new.key.body, new.execution.execution_id)
                    if await connection.run(put, row) == 0:
                        query = "SELECT body, execution_id FROM idempotency_keys WHERE caller = ? AND key = ?"
                        used = await connection.row(query, row[:2])
                        if used and (earlier := await find(connection, used[1])) is not None:
                            return Accepted(earlier, "repeated" if used[0] == new.key.body else "another")
                await insert(connection, [new.execution])
                if new.hold is not None:
                    await hold_blobs(connection, new.hold)
                versions = [(str(skill.artifact.digest), pack_skill(skill)) for skill in new.skills]
                await connection.run_many("INSERT INTO skill_versions VALUES (?, ?) ON CONFLICT DO NOTHING", versions)
        except Exception as error:
            if not connection.is_usable:
                raise
            return error
        return Accepted(new.execution, "new")

    @reads
    async def find(self, connection: Connection, execution_id: str) -> Execution | None:
        return await find(connection, execution_id)

    @reads
    async def find_begun(self, connection: Connection, beginning: str) -> Execution | None:
        query = f"{SELECT} WHERE execution_id >= ? AND execution_id < ? LIMIT 2"
        rows = await connection.rows(query, (beginning, f"{beginning}~"))
        return read_execution(rows[0]) if len(rows) == 1 else None

    async def output(self, execution: Execution) -> bytes | None:
        if execution.output_blob is None or execution.output_forgotten:
            return execution.output
        return await self._outputs.read(Digest(execution.output_blob))

    async def output_file(self, execution: Execution) -> Path | None:
        if execution.output_blob is None or execution.output_forgotten:
            return None
        return await self._outputs.path(Digest(execution.output_blob))

    @reads
    async def find_skill(self, connection: Connection, digest: str) -> Skill | None:
        row = await connection.row("SELECT skill FROM skill_versions WHERE digest = ?", (digest,))
        return None if row is None else unpack_skill(row[0])

    @reads
    async def open_skills(self, connection: Connection) -> Sequence[Skill]:
        is_open = "FROM executions INDEXED BY executions_open WHERE completed IS NULL"
        mounted = f"SELECT digest FROM run_mounts WHERE execution_id IN (SELECT execution_id {is_open})"  # noqa: S608  # a constant
        query = f"SELECT skill FROM skill_versions WHERE digest IN (SELECT digest {is_open} UNION {mounted})"  # noqa: S608  # same
        return [unpack_skill(row[0]) for row in await connection.rows(query)]

    @reads
    async def search(self, connection: Connection, query: ExecutionQuery) -> FoundExecutions:
        return await search_executions(connection, query)

    @reads
    async def waiting(self, connection: Connection) -> Mapping[str, int]:
        number: Counter[str] = Counter()
        for where in _CALLERS:
            rows = await connection.rows(f"SELECT caller, count(*) FROM executions {where} GROUP BY caller")  # noqa: S608  # a constant
            number.update(dict(rows))
        return number

    @reads
    async def count(self, connection: Connection, query: ExecutionQuery | None = None) -> Mapping[ExecutionStatus, int]:
        return await count_executions(connection, query or ExecutionQuery())

    @reads
    async def tasks(self, connection: Connection, worker: str, whose: TaskOwner, *, limit: int) -> OpenTasks:
        return await find_tasks(connection, worker, whose, limit)

    async def claim(self, worker: str, now: Moment, quota: Quota, *, limit: int = 1) -> Sequence[Execution]:
        call = partial(self._claim, worker=worker, now=now, quota=quota, limit=limit)
        return await self._database.write(call, "claims")

    async def _claim(
        self, connection: Connection, worker: str, now: Moment, quota: Quota, limit: int
    ) -> Sequence[Execution]:
        chosen = await self._queue.choose(connection, now, quota, limit)
        query = f"{SELECT_STATE} WHERE {NAMED} AND {WAITING}{connection.skip_locked}"
        rows = await connection.rows(query, (encode_json(chosen),)) if chosen else ()
        found = {row[0]: (read_execution(row[:-1]), row[-1]) for row in rows}
        claimed, steps = [], []
        step = Step("claim", worker, worker, lease=(now.steady + quota.lease, now.boot))
        for execution, losses in [found[name] for name in chosen if name in found]:
            steps.append((execution.execution_id, state_in(execution, losses), step))
            claimed.append(claimed_by(execution, step, now))
        await apply_steps(connection, steps, now)
        return claimed

    @writes
    async def claim_task(self, connection: Connection, execution_id: str, worker: str, now: Moment) -> Execution | None:
        state = await state_of(connection, execution_id)
        if state is None or not state.is_waiting(now.wall):
            return None
        query = "SELECT 1 FROM executions WHERE execution_id = ? AND executor = 'human'"
        if await connection.row(query, (execution_id,)) is None:
            return None
        await apply_step(connection, execution_id, state, Step("claim", worker, worker), now)
        return await find(connection, execution_id)

    @writes
    async def release(self, connection: Connection, claim: Claim, now: Moment) -> bool:
        state = await claimed_state(connection, claim)
        return await apply_step(connection, claim.execution_id, state, Step("release", claim.worker), now)

    @writes
    async def renew(
        self, connection: Connection, claims: Collection[Claim], now: Moment, lease: float
    ) -> Collection[Claim]:
        over: set[Claim] = set()
        for worker in sorted({claim.worker for claim in claims}):
            over |= await self._renew(connection, worker, {one for one in claims if one.worker == worker}, now, lease)
        return [claim for claim in claims if claim in over]

    @staticmethod
    async def _renew(connection: Connection, worker: str, claims: set[Claim], now: Moment, lease: float) -> set[Claim]:
        query = "SELECT ends FROM worker_leases WHERE worker = ? AND boot = ?"
        earlier = await connection.value(query, (worker, now.boot))
        put = (
            "INSERT INTO worker_leases VALUES (?, ?, ?)"
            " ON CONFLICT (worker) DO UPDATE SET boot = excluded.boot, ends = excluded.ends"
        )
        await connection.run(put, (worker, now.boot, now.steady + lease))
        query = f"SELECT execution_id, attempt FROM executions INDEXED BY executions_held WHERE {_KEPT} AND worker = ?"  # noqa: S608  # constants
        kept = {Claim(name, worker, attempt) for name, attempt in await connection.rows(query, (worker,))}
        for claim in kept - claims:  # it is not renewed, and keeps what it had
            which = f"execution_id = ? AND attempt = ? AND {_KEPT}"
            query = f"UPDATE executions SET lease_until = ?, lease_boot = ? WHERE {which}"  # noqa: S608  # constants
            await connection.run(query, (earlier or 0.0, now.boot, claim.execution_id, claim.attempt))
        new = claims - kept
        query = (
            f"UPDATE executions SET lease_until = 0, lease_boot = NULL WHERE {NAMED} AND {CLAIMED} AND worker = ?"  # noqa: S608  # constants
            " AND execution_id || ' ' || attempt IN (SELECT value FROM json_each(?)) RETURNING execution_id, attempt"
        )
        names = encode_json([one.execution_id for one in new]), encode_json([f"{one[0]} {one[2]}" for one in new])
        rows = await connection.rows(query, (names[0], worker, names[1])) if new else ()
        return new - {Claim(name, worker, attempt) for name, attempt in rows}

    @writes
    async def complete(
        self,
        connection: Connection,
        claim: Claim,
        output: bytes,
        now: Moment,
        *,
        log: str = "",
        blobs: Sequence[OutputBlob] = (),
    ) -> bool:
        state = await claimed_state(connection, claim)
        if state is None:
            return False
        is_large = len(output) > limits.EXECUTION_ROW_OUTPUT_BYTES
        also = {
            "output": None if is_large else output,
            "output_blob": str(await self._outputs.put(connection, output)) if is_large else None,
            "log": log or None,
            "blobs": encode_json(list(blobs)) if blobs else None,
        }
        step = Step("complete", claim.worker, also=also)
        return await apply_step(connection, claim.execution_id, state, step, now)

    @writes
    async def fail(self, connection: Connection, claim: Claim, failure: Failure, now: Moment, *, log: str = "") -> bool:
        state = await claimed_state(connection, claim)
        if state is None:
            return False
        chance = self._chance()
        what = after_failure(state, failure, now.wall, chance)
        not_before = next_attempt(state, failure, now.wall, chance) if what == "retry" else None
        if what == "expire":
            query = "SELECT timeout FROM executions WHERE execution_id = ?"
            late = timed_out(claim.execution_id, await connection.value(query, (claim.execution_id,)))
            failure = late._replace(details={**failure.details, **late.details})  # such as the worker's log
        also = {"log": log} if log else NOTHING
        step = Step(what, claim.worker, not_before=not_before, failure=failure, also=also)
        return await apply_step(connection, claim.execution_id, state, step, now)

    @writes
    async def cancel(self, connection: Connection, execution_id: str, by: str, now: Moment) -> Execution | None:
        step = Step("cancel", by, failure=CANCELLED)
        await apply_step(connection, execution_id, await state_of(connection, execution_id), step, now)
        return await find(connection, execution_id)

    # --- what servers do now and then; mostly there is nothing to do, which a read finds out without a lock

    @reads
    async def _is_any(self, connection: Connection, query: str, values: tuple[object, ...]) -> bool:
        return await connection.row(f"{query} LIMIT 1", values) is not None

    async def expire(self, now: Moment, *, held: Collection[Claim] = ()) -> Sequence[str]:
        times = now.wall, now.wall - limits.EXECUTION_END_SECONDS

        async def expire(connection: Connection) -> Sequence[str]:
            query = f"{_LATE} LIMIT ?{connection.skip_locked}"
            late = await connection.rows(query, (*times, EXPIRED_PER_BATCH + len(held)))
            found = [(name, timeout, read_state(rest)) for name, timeout, *rest in late]
            steps = [
                (name, state, Step("expire", failure=timed_out(name, timeout)))
                for name, timeout, state in found
                if Claim(name, state.worker or "", state.attempt) not in held
            ]
            return await apply_steps(connection, steps, now)

        return await self._database.write(expire) if await self._is_any(_LATE, times) else ()

    async def recover(self, now: Moment, *, held: Collection[Claim] = ()) -> Sequence[str]:
        times = now.boot, now.steady

        async def recover(connection: Connection) -> Sequence[str]:
            lost: list[tuple[Any, ...]] = []
            for query in _LOST:
                values = (*times, EXPIRED_PER_BATCH + len(held))
                lost += await connection.rows(f"{query} LIMIT ?{connection.skip_locked}", values)
            found = [(name, read_state(rest)) for name, *rest in lost]
            steps = [
                (name, state, Step(after_loss(state), failure=loss_of(state)))
                for name, state in found
                if Claim(name, state.worker or "", state.attempt) not in held
            ]
            await connection.run(_END_LEASES, times)
            return await apply_steps(connection, steps[:EXPIRED_PER_BATCH], now)

        is_any = [await self._is_any(query, times) for query in _LOST]
        return await self._database.write(recover) if any(is_any) else ()

    async def due_callbacks(self, now: Moment, *, limit: int, queue: str = "") -> Sequence[Execution]:
        return await self._due_callbacks(now, limit, queue) if await self._is_any(_DUE, (queue, now.wall)) else ()

    @writes
    async def _due_callbacks(self, connection: Connection, now: Moment, limit: int, queue: str) -> Sequence[Execution]:
        due = [
            row[0]
            for row in await connection.rows(
                f"{_DUE} ORDER BY callback_at LIMIT ?{connection.skip_locked}", (queue, now.wall, limit)
            )
        ]
        taken = "UPDATE executions SET callback_at = ?, callbacks = callbacks + 1 WHERE execution_id = ?"
        await connection.run_many(taken, [(now.wall + CALLBACK_SECONDS, execution_id) for execution_id in due])
        return [found for execution_id in due if (found := await find(connection, execution_id)) is not None]

    @writes
    async def put_off_callback(
        self, connection: Connection, execution_id: str, until: float | None, *, was_tried: bool = True
    ) -> None:
        put_off = "UPDATE executions SET callback_at = ?, callbacks = callbacks - ? WHERE execution_id = ?"
        await connection.run(put_off, (until, 0 if was_tried else 1, execution_id))

    @writes
    async def forget(self, connection: Connection, now: Moment, *, outputs: float, rows: float) -> int:
        number = await forget_outputs(connection, now.wall - outputs, self._outputs)
        return number + await forget_rows(connection, now.wall - rows, self._outputs)

    async def remove_orphaned_outputs(self) -> int:
        return await self._outputs.remove_orphans(self._database)

    async def shrink(self) -> int:
        return await self._database.shrink()

    @reads
    async def statistics(
        self, connection: Connection, after: StatisticsCursor, until: float, limit: int
    ) -> LedgerStatistics:
        return await read_statistics(connection, after, until, limit)

    # --- the database

    async def exists(self) -> bool:
        return await self._database.exists()

    async def check(self) -> None:
        await self._database.check()

    def watch(self, changed: Callable[[], object]) -> None:
        self._database.watch(changed)

    async def close(self) -> None:
        await self._database.close()


async def forget_outputs(connection: Connection, before: float, outputs: Outputs) -> int:
    """Forget outputs of executions that completed before a time; return how many."""
    query = (
        "SELECT number, output_blob FROM executions WHERE status = 'completed' AND output_forgotten = 0"
        " AND completed < ? ORDER BY completed LIMIT ?"
    )
    found = await connection.rows(query, (before, DELETED_PER_BATCH))
    forget = "UPDATE executions SET output = NULL, log = NULL, blobs = NULL, output_forgotten = 1 WHERE number = ?"
    await connection.run_many(forget, [(number,) for number, _ in found])
    for blob in {blob for _, blob in found if blob}:
        await outputs.remove(connection, Digest(blob))
    return len(found)


async def forget_rows(connection: Connection, before: float, outputs: Outputs) -> int:
    """Forget executions that ended before a time, with all that was kept for them alone; return how many."""
    query = "SELECT execution_id, digest, output_blob FROM executions WHERE completed < ? ORDER BY completed LIMIT ?"
    found = await connection.rows(query, (before, DELETED_PER_BATCH))
    names = [(execution_id,) for execution_id, _, _ in found]
    await connection.run_many("DELETE FROM executions WHERE execution_id = ?", names)
    await connection.run_many("DELETE FROM idempotency_keys WHERE execution_id = ?", names)
    query = "DELETE FROM run_mounts WHERE execution_id = ? RETURNING digest"
    mounted = [row for name in names for row in await connection.rows(query, name)]
    is_unused = (
        "NOT EXISTS (SELECT 1 FROM executions WHERE digest = ?1 AND completed IS NOT NULL)"
        " AND NOT EXISTS (SELECT 1 FROM executions INDEXED BY executions_open WHERE completed IS NULL AND digest = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM run_mounts WHERE digest = ?1)"
    )
    digests = {*mounted, *((digest,) for _, digest, _ in found)}
    await connection.run_many(f"DELETE FROM skill_versions WHERE digest = ?1 AND {is_unused}", digests)  # noqa: S608  # a constant
    for blob in {blob for _, _, blob in found if blob}:
        await outputs.remove(connection, Digest(blob))
    return len(found)
