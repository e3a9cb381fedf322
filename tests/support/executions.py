"""Made-up executions, a ledger of them, and two clocks that a test sets."""

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.support.memory_ledger import MemoryLedger
from tests.support.opened import BlockingLedger

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.blobs import FileOutputs, RowOutputs
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.executions.callable_skill import queue_position
from skillwire.model.execution import Claim, Event, Execution, Failure, Moment, Priority, Quota

#: When the clock of a test begins, in seconds since the epoch.
BEGIN = 1_000_000.0
TIMEOUT = 300.0
#: How many processes a test has at most, where each has connections of its own.
PROCESSES = 9
#: As many as there are.
NO_QUOTA = Quota(per_caller=1_000, per_skill=1_000)
PASSING = Failure("upstream", "The API was busy", is_passing=True)
LASTING = Failure("exception", "ValueError: no")
_numbers = count(1)


def make_execution(now=BEGIN, **fields):
    if isinstance(now, Clock):
        now = now.wall
    execution_id = fields.pop("execution_id", f"exec-{next(_numbers):032x}")
    timeout = fields.pop("timeout", TIMEOUT)
    priority = fields.pop("priority", Priority.NORMAL)
    skill = fields.pop("skill", "book")
    caller_id = fields.pop("caller_id", "anna")
    values = {
        "skill_id": f"acme.{skill}",
        "version": "1.0.0",
        "digest": f"sha256:{'0' * 64}",
        "executor": "python",
        "caller": "principal anna",
        "caller_id": caller_id,
        "caller_type": "agent",
        "inputs": b'{"guests":2}',
        "created": now,
        "updated": now,
        "deadline": now + timeout,
        "turn": queue_position(priority, now),
        "timeline": (Event(now, "accept", caller_id),),
    }
    return Execution(execution_id=execution_id, skill=skill, timeout=timeout, priority=priority, **{**values, **fields})


def claim_of(execution):
    return Claim(execution.execution_id, execution.worker, execution.attempt)


@dataclass
class Clock:
    """Both clocks of a :class:`~skillwire.model.execution.Moment`."""

    wall: float = BEGIN
    steady: float = 500.0
    boot: str = "boot-1"

    @property
    def now(self):
        return Moment(self.wall, self.steady, self.boot)

    def pass_(self, seconds):
        """Let time pass on both."""
        self.wall += seconds
        self.steady += seconds


@dataclass
class Office:
    """A ledger, what is beside it, and a clock."""

    folder: Path
    chance: float = 1.0
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self):
        self.outputs = FileBlobs(self.folder / "outputs", durable=True)
        self.database = Database(self.folder / "skillwire.db")
        self.ledger = self.open(self.database)

    def another(self):
        """Return a ledger of another process on the same database."""
        return self.open(Database(self.database.path))

    def open(self, database):
        ledger = SqlLedger(AsyncDatabase(database), FileOutputs(self.outputs), chance=lambda: self.chance)
        return BlockingLedger(ledger)

    def close(self):
        self.ledger.close()
        self.database.close()

    def accept(self, skills=(), **fields):
        return self.ledger.accept(make_execution(self.clock, **fields), skills=skills).execution

    def claim(self, worker="w1", quota=NO_QUOTA, limit=1):
        return list(self.ledger.claim(worker, self.clock.now, quota, limit=limit))

    def claim_one(self, worker="w1", **options):
        (execution,) = self.claim(worker, **options)
        return execution

    def run(self, output=b"{}", **fields):
        """Let an execution be accepted, claimed and completed; return it as it is then."""
        accepted = self.accept(**fields)
        held = self.claim_one()
        assert held.execution_id == accepted.execution_id
        assert self.ledger.complete(claim_of(held), output, self.clock.now)
        return self.find(accepted)

    def find(self, execution):
        found = self.ledger.find(execution.execution_id)
        assert found is not None
        return found

    def events(self, execution):
        return [event.what for event in self.find(execution).timeline]

    def blobs(self):
        """Return the names of the files in the folder of outputs."""
        return sorted(path.name for path in self.outputs.directory.glob("??/*"))


@dataclass
class PostgresOffice(Office):
    """The same with the database at the address that is its folder."""

    def __post_init__(self):
        self._ledgers: deque[BlockingLedger] = deque()
        self.ledger = self.another()

    def another(self):
        """Return a ledger of one of a few other processes."""
        if len(self._ledgers) < PROCESSES:
            database = PostgresDatabase(str(self.folder), connections=4)
            self._ledgers.append(BlockingLedger(SqlLedger(database, RowOutputs(database), chance=lambda: self.chance)))
        self._ledgers.rotate()
        return self._ledgers[0]

    def close(self):
        for ledger in self._ledgers:
            ledger.close()


@dataclass
class MemoryOffice(Office):
    """The same with a ledger in memory."""

    def __post_init__(self):
        self.ledger = BlockingLedger(MemoryLedger(chance=lambda: self.chance))

    def another(self):
        return self.ledger

    def close(self):
        """Nothing is open."""


def ids(executions):
    return [execution.execution_id for execution in executions]


def fill(office, number, **fields):
    executions = [make_execution(office.clock.wall + n * 1e-6, **fields) for n in range(number)]
    office.ledger.accept_all(executions)
    office.clock.pass_(number * 1e-6 + 0.001)
    return executions
