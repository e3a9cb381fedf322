"""The ledger against a model of it: whatever servers, workers, people and clocks do, in whatever order.

What holds: a status never goes back and each execution ends once; a report counts only with the claim that holds;
nothing is lost and nothing made up; no attempt is begun beyond ``max_attempts``, but those after one that was given
back or lost; leases do not care who sets the clock.
"""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from tests.support.executions import Clock, make_execution
from tests.support.memory_ledger import MemoryLedger
from tests.support.opened import BlockingLedger

from skillwire import limits
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sql.blobs import FileOutputs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.executions.callable_skill import queue_position
from skillwire.executions.states import STATES
from skillwire.model.execution import (
    FINAL,
    Claim,
    Event,
    Execution,
    ExecutionQuery,
    ExecutionStatus,
    Failure,
    IdempotencyKey,
    Moment,
    Priority,
    Quota,
)

LEASE = 30.0
QUOTA = Quota(per_caller=2, per_skill=3, lease=LEASE)
RANKS = {ExecutionStatus.ACCEPTED: 0, ExecutionStatus.RUNNING: 1, **dict.fromkeys(FINAL, 2)}
#: A folder in memory where there is one: what is proved here needs no disk.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  # a random name below it
workers = st.sampled_from(["w1", "w2", "w3"])
people = st.sampled_from(["anna", "bert"])
sides = st.sampled_from([0, 1])
fields_of_executions = st.fixed_dictionaries(
    {
        "caller": st.sampled_from(["anna", "bert"]),
        "skill": st.sampled_from(["book", "find"]),
        "executor": st.sampled_from(["python", "python", "python", "http", "human"]),
        "timeout": st.sampled_from([5.0, 60.0, 1e6]),
        "priority": st.sampled_from(Priority),
        "max_attempts": st.integers(1, 3),
        "is_repeatable": st.booleans(),
    }
)


@dataclass
class Model:
    """What an execution should be."""

    execution: Execution
    status: ExecutionStatus = ExecutionStatus.ACCEPTED
    attempt: int = 0
    worker: str | None = None
    not_before: float = 0.0
    lease: tuple[float, str] | None = None
    failures: int = 0
    uncounted: int = 0
    output: bytes | None = None
    reason: str | None = None
    events: list[str] = field(default_factory=lambda: ["accept"])

    @property
    def is_open(self):
        return self.status not in FINAL

    def waits(self, now):
        return self.is_open and self.worker is None and self.not_before <= now.wall < self.execution.deadline

    def is_held_under(self, claim):
        return self.status is ExecutionStatus.RUNNING and (self.worker, self.attempt) == claim[1:]

    def is_lost(self, now):
        return self.lease is not None and (self.lease[1] != now.boot or self.lease[0] < now.steady)

    def is_late(self, wall):
        more = limits.EXECUTION_END_SECONDS if self.lease is not None else 0
        return self.is_open and self.execution.deadline + more <= wall

    def take(self, worker, lease):
        self.status, self.worker, self.lease = ExecutionStatus.RUNNING, worker, lease
        self.attempt += 1
        self.events.append("claim")

    def let_go(self, what, *, not_before=None):
        self.worker = self.lease = None
        self.not_before = self.not_before if not_before is None else not_before
        self.uncounted += what in {"release", "lose"}
        self.events.append(what)

    def end(self, what, status, *, output=None, reason=None):
        self.let_go(what)
        self.status, self.output, self.reason = status, output, reason


class LedgerMachine(RuleBasedStateMachine):
    """Two servers on one database, workers, people, and whoever sets the clock."""

    executions = Bundle("executions")
    claims = Bundle("claims")

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY, prefix="skillwire-test-"))
        self.clock = Clock()
        self.models: dict[str, Model] = {}
        self.keys: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.seen: dict[str, Execution] = {}
        self.touched: set[str] = set()
        self.ledgers = [self.open(), self.open()]

    def open(self):
        database = AsyncDatabase(Database(self.folder / "skillwire.db"))
        return BlockingLedger(SqlLedger(database, FileOutputs(FileBlobs(self.folder / "outputs")), chance=lambda: 0.5))

    @property
    def now(self) -> Moment:
        return self.clock.now

    def model(self, execution_id):
        self.touched.add(execution_id)
        return self.models[execution_id]

    # --- what callers do

    @rule(
        target=executions,
        side=sides,
        fields=fields_of_executions,
        key=st.none() | st.tuples(st.sampled_from(["k1", "k2"]), st.sampled_from([b"1", b"2"])),
    )
    def accept(self, side, fields, key):
        turn = queue_position(fields["priority"], self.clock.wall) + len(self.models) * 1e-6  # no two are the same
        execution = make_execution(self.clock, turn=turn, backoff=2.0, **fields)
        named = IdempotencyKey(execution.caller, *key) if key else None
        accepted = self.ledgers[side].accept(execution, named)
        if named is not None and named[:2] in self.keys:
            body, first = self.keys[named[:2]]
            assert accepted.how == ("repeated" if body == named.body else "another")
            assert accepted.execution.execution_id == first
            return multiple()
        assert accepted == (execution, "new")
        self.models[execution.execution_id] = Model(execution)
        self.touched.add(execution.execution_id)
        if named is not None:
            self.keys[named[:2]] = named.body, execution.execution_id
        return execution.execution_id

    @rule(side=sides, execution_id=executions, by=people)
    def cancel(self, side, execution_id, by):
        model = self.model(execution_id)
        if model.is_open:
            model.end("cancel", ExecutionStatus.FAILED, reason="cancelled")
        found = self.ledgers[side].cancel(execution_id, by, self.now)
        assert found is not None
        assert found.status is model.status

    # --- what workers and people do

    @rule(target=claims, side=sides, worker=workers, limit=st.integers(1, 4))
    def claim(self, side, worker, limit):
        expected = self.next_ones(limit)
        claimed = self.ledgers[side].claim(worker, self.now, QUOTA, limit=limit)
        assert [one.execution_id for one in claimed] == expected
        for execution_id in expected:
            self.model(execution_id).take(worker, (self.clock.steady + LEASE, self.clock.boot))
        return multiple(*[Claim(one.execution_id, worker, one.attempt) for one in claimed])

    def next_ones(self, limit):
        """Return what is next: in the order of the turns, as far as callers and skills have room."""
        held = [
            one.execution
            for one in self.models.values()
            if one.worker is not None and one.execution.executor != "human"
        ]
        callers, skills = [one.caller for one in held], [one.skill for one in held]
        chosen: list[str] = []
        waiting = [one for one in self.models.values() if one.waits(self.now)]
        for one in sorted(waiting, key=lambda one: one.execution.turn):
            execution = one.execution
            fits = callers.count(execution.caller) < 2 and skills.count(execution.skill) < 3
            if execution.executor != "human" and fits and len(chosen) < limit:
                callers.append(execution.caller)
                skills.append(execution.skill)
                chosen.append(execution.execution_id)
        return chosen

    @rule(target=claims, side=sides, execution_id=executions, person=people)
    def claim_task(self, side, execution_id, person):
        model = self.model(execution_id)
        can = model.waits(self.now) and model.execution.executor == "human"
        taken = self.ledgers[side].claim_task(execution_id, person, self.now)
        assert (taken is not None) is can
        if not can:
            return multiple()
        model.take(person, None)
        return Claim(execution_id, person, model.attempt)

    @rule(side=sides, some=st.lists(claims, max_size=4, unique=True))
    def renew(self, side, some):
        some = [one for one in some if self.models[one.execution_id].execution.executor != "human"]
        over = self.ledgers[side].renew(some, self.now, LEASE)
        assert list(over) == [one for one in some if not self.models[one.execution_id].is_held_under(one)]
        for one in set(some) - set(over):
            self.models[one.execution_id].lease = (self.clock.steady + LEASE, self.clock.boot)

    @rule(side=sides, claim=claims, number=st.integers(0, 9))
    def complete(self, side, claim, number):
        model, output = self.model(claim.execution_id), str(number).encode()
        counts = model.is_held_under(claim)
        assert self.ledgers[side].complete(claim, output, self.now) is counts
        if counts:
            model.end("complete", ExecutionStatus.COMPLETED, output=output)

    @rule(side=sides, claim=claims, is_passing=st.booleans(), pause=st.sampled_from([None, 0, 3, 100.5, 10**400]))
    def fail(self, side, claim, is_passing, pause):
        model = self.model(claim.execution_id)
        counts = model.is_held_under(claim)
        details = {} if pause is None else {"retry_after": pause}
        failure = Failure("upstream", "no", details=details, is_passing=is_passing)
        again = self.clock.wall + (2.0 * 2 ** (model.attempt - 1) * 0.5 if pause is None else min(pause, 1e9))
        assert self.ledgers[side].fail(claim, failure, self.now) is counts
        if not counts:
            return
        model.failures += 1
        if is_passing and model.failures < model.execution.max_attempts and again < model.execution.deadline:
            model.let_go("retry", not_before=again)
        else:
            model.end("fail", ExecutionStatus.FAILED, reason="upstream")

    @rule(side=sides, claim=claims)
    def release(self, side, claim):
        model = self.model(claim.execution_id)
        counts = model.is_held_under(claim)
        assert self.ledgers[side].release(claim, self.now) is counts
        if counts:
            model.let_go("release")

    @rule(claim=consumes(claims))
    def die(self, claim):
        """A worker is never heard of again."""

    # --- what servers do now and then

    @rule(side=sides)
    def expire(self, side):
        late = {name for name, one in self.models.items() if one.is_late(self.clock.wall)}
        assert set(self.ledgers[side].expire(self.now)) == late
        for execution_id in late:
            self.model(execution_id).end("expire", ExecutionStatus.TIMEOUT, reason="deadline")

    @rule(side=sides)
    def recover(self, side):
        lost = {name for name, one in self.models.items() if one.is_lost(self.now)}
        assert set(self.ledgers[side].recover(self.now)) == lost
        for execution_id in lost:
            model = self.model(execution_id)
            if model.execution.is_repeatable and model.events.count("lose") + 1 < limits.EXECUTION_LOSSES:
                model.let_go("lose")
            else:
                model.end("abandon", ExecutionStatus.FAILED, reason="worker_lost")

    @rule(side=sides)
    def begin_anew(self, side):
        """A server ends and begins again."""
        self.ledgers[side].close()
        self.ledgers[side] = self.open()

    # --- what time does

    @rule(seconds=st.sampled_from([0.5, 4.0, 20.0, 31.0, 300.0]))
    def time_passes(self, seconds):
        self.clock.pass_(seconds)

    @rule(seconds=st.sampled_from([-1e5, -50.0, -1.0, 1.0, 50.0, 1e5]))
    def clock_is_set(self, seconds):
        self.clock.wall += seconds

    @rule(steady=st.sampled_from([1.0, 1e6]))
    def machine_restarts(self, steady):
        self.clock.boot += "'"
        self.clock.steady = steady

    # --- what holds

    @invariant()
    def everything_is_as_it_should_be(self):
        for execution_id in self.touched:
            self.check(execution_id, self.ledgers[0].find(execution_id))
        self.touched.clear()

    def check(self, execution_id, found):
        model = self.models[execution_id]
        assert found is not None, "it was lost"
        assert (found.status, found.attempt, found.worker) == (model.status, model.attempt, model.worker)
        assert (found.output, found.not_before) == (model.output, model.not_before)
        assert (found.failure and found.failure.reason) == model.reason
        assert [event.what for event in found.timeline] == model.events
        assert (found.completed is not None) is found.status.is_final
        assert found.attempt <= found.max_attempts == model.execution.max_attempts + model.uncounted
        self.check_history(found)
        before = self.seen.get(execution_id)
        if before is not None:
            assert RANKS[before.status] <= RANKS[found.status]
            assert before.attempt <= found.attempt
            assert found.timeline[: len(before.timeline)] == before.timeline
            if before.status.is_final:
                assert found == before
        self.seen[execution_id] = found

    def check_history(self, found):
        """Hold the timeline against the state table."""
        status = ExecutionStatus.ACCEPTED
        first, *rest = found.timeline
        assert first == Event(found.created, "accept", found.caller_id)
        for event in rest:
            assert (status, event.what) in STATES
            status = STATES[status, event.what]
        assert status is found.status

    @precondition(lambda self: self.models)
    @rule(side=sides)
    def all_is_there(self, side):
        """Nothing was lost and nothing made up."""
        ledger = self.ledgers[side]
        page = ledger.search(ExecutionQuery(limit=1_000))
        assert [one.execution_id for one in page.executions] == list(self.models)[::-1]
        assert sum(ledger.count().values()) == len(self.models)
        open_ones = [one.execution.caller for one in self.models.values() if one.is_open]
        assert ledger.waiting() == {caller: open_ones.count(caller) for caller in set(open_ones)}

    def teardown(self):
        if not hasattr(self, "folder"):
            return
        for execution_id in self.models:
            self.check(execution_id, self.ledgers[1].find(execution_id))
        for ledger in self.ledgers:
            ledger.close()
        shutil.rmtree(self.folder)


class MemoryLedgerMachine(LedgerMachine):
    """The same with a ledger in memory, which outlives its servers."""

    def open(self):
        self.kept = getattr(self, "kept", None) or BlockingLedger(MemoryLedger(chance=lambda: 0.5))
        return self.kept


TestMemoryLedger = MemoryLedgerMachine.TestCase
TestMemoryLedger.settings = settings(stateful_step_count=60)
TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(stateful_step_count=60)
