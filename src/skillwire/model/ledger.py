"""What is said to the ledger of executions, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from skillwire.model.action import ExecutorKind
    from skillwire.model.execution import Execution, ExecutionStatus

#: How many executions are ended, or taken up, at once for being late or lost. Nobody else writes meanwhile.
SWEPT_AT_ONCE: Final = 256


class Moment(NamedTuple):
    """When something happens, on two clocks.

    ``wall`` is seconds since the epoch, by which deadlines are kept. ``steady`` is seconds since the machine started,
    the same in all of its processes and deaf to whoever sets the clock, by which leases are kept; ``boot`` tells one
    start of the machine from another: the leases of an earlier one are over.
    """

    wall: float
    steady: float
    boot: str = ""


class IdempotencyKey(NamedTuple):
    """A caller's name for a request; ``body`` is the digest of what was asked with it."""

    caller: str
    key: str
    body: bytes


class Accepted(NamedTuple):
    """An execution, and how it came about: ``new``, ``repeated``, or refused: the key has ``another`` body."""

    execution: Execution
    how: Literal["new", "repeated", "another"]


@dataclass(frozen=True, slots=True)
class Quota:
    """How many executions may run at once, of one caller and of one skill, on all workers of a ledger.

    ``executors`` are those that the worker has; ``lease`` is how many seconds it may be silent. ``skills`` are skills
    with a limit of their own. ``functions`` are the digests of the skills whose functions the worker's own process
    registered, since no other process has them; None stands for all. ``queue`` is the one that the worker works for.
    """

    per_caller: int = 8
    per_skill: int = 16
    executors: Collection[ExecutorKind] = ("python", "http", "function")
    lease: float = 30.0
    skills: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    functions: Collection[str] | None = None
    queue: str = ""

    def per_skill_of(self, skill: str) -> int:
        """Return how many executions of the skill of this name may run at once."""
        return self.skills.get(skill, self.per_skill)


class ExecutionQuery(NamedTuple):
    """Which executions are asked for. None stands for all; ``after`` is the cursor of an earlier page."""

    statuses: Collection[ExecutionStatus] | None = None
    skill: str | None = None
    caller: str | None = None
    executor: ExecutorKind | None = None
    trace_id: str | None = None
    limit: int = 50
    after: str | None = None


class FoundExecutions(NamedTuple):
    """A page of executions, and the cursor of the next one."""

    executions: tuple[Execution, ...]
    after: str | None = None


#: Who has a task: nobody, the person who asks, or somebody else.
Whose = Literal["open", "mine", "others"]


class OpenTasks(NamedTuple):
    """Tasks that have not ended, the most urgent first, and how many there are of each kind."""

    tasks: tuple[Execution, ...]
    counts: Mapping[Whose, int]
