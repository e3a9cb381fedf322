"""Executions: one call of a skill from acceptance to deletion, and queries of the ledger.

The ledger stores :class:`Execution`; every protocol has its own wire form. A :class:`Grant` allows a skill's code to
run on this machine. A :class:`RunBlob` holds bytes for a run or from one; its id is ``blob:`` and the SHA-256 in
hexadecimal, and it exists for its owner only. Times are seconds since the epoch. Spec: SSP §5; specs §4.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from skillwire import limits
from skillwire.errors import NotFoundError, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.ref import BLOB_PREFIX
from skillwire.model.skill import ExecutorKind, Permissions, Skill


class ExecutionStatus(StrEnum):
    """The state of an execution. Spec: SSP §3.4.4."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"

    @property
    def is_final(self) -> bool:
        """Whether the execution has ended."""
        return self in FINAL


#: Where an execution ends.
FINAL: Final = frozenset({ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT})


class Priority(StrEnum):
    """The urgency of an invocation. Spec: SSP §5.3."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


#: Why an execution did not complete; ``details.reason`` on the wire. An extension: the text has no such field.
Reason = Literal[
    "cancelled",  # its caller, or an operator, took it back
    "worker_lost",  # its worker died, and it may not run twice
    "deadline",  # it took too long
    "exception",  # the skill's code raised
    "exit",  # the skill's code ended without a result
    "limit",  # it met a bound of the sandbox
    "output",  # what it gave is not what the descriptor promises
    "upstream",  # the API behind it failed
    "rejected",  # a person declined the task
    "not_granted",  # this digest has no grant with these permissions
    "unavailable",  # the skill, or what runs it, is not there any more
]


class Failure(NamedTuple):
    """Why an attempt or an execution failed; ``details`` are JSON values for the caller, never secrets."""

    reason: Reason
    message: str
    code: str = "EXECUTION_FAILED"
    details: Mapping[str, Any] = {}
    is_passing: bool = False


class OutputBlob(NamedTuple):
    """A file that a run returned: digest (``sha256:...``), media type, bytes, and a checked relative path."""

    digest: str
    kind: str
    size: int
    name: str


class Attachments(NamedTuple):
    """A run's digests of blobs, mounts (dotted name and artifact digest), and code. Spec: specs §4."""

    blobs: tuple[str, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()
    code: str | None = None


class Outcome(NamedTuple):
    """The result of an attempt: a ``failure``, or an ``output``; ``log`` is the end of its text, without secrets."""

    output: Any = None
    failure: Failure | None = None
    log: str = ""
    blobs: tuple[OutputBlob, ...] = ()


class Event(NamedTuple):
    """One line of an execution's timeline: an event of the state table and its cause."""

    at: float
    what: str
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One row of the ledger; instants in seconds since the epoch, durations in seconds.

    Args:
        execution_id: ``exec-``, 12 hexadecimal digits of time (not for tasks), and 32 of 128 random bits.
        digest: of the skill's artifact (``sha256:...``): exactly the accepted version runs, or none.
        caller: the owner, as of :func:`skillwire.server.quotas.caller_of`; ``caller_id`` is only stated.
        inputs: a checked JSON object with defaults.
        turn: position in the queue; the lowest is next.
        is_repeatable: may be started again when its worker is lost.
        output: JSON as bytes; ``output_blob`` is the digest of an output too large for the row.
        webhook: URL to notify of the end; ``callbacks`` is how many notifications were tried.
        queue: whose workers run it; see :class:`ExecutionSettings`.
        task: a JSON object with ``title``, ``description`` and ``output``, the result's schema.
    """

    execution_id: str
    skill: str
    skill_id: str
    version: str
    digest: str
    executor: ExecutorKind
    caller: str
    caller_id: str
    caller_type: str
    inputs: bytes
    created: float
    updated: float
    deadline: float
    timeout: float
    turn: float
    priority: Priority = Priority.NORMAL
    status: ExecutionStatus = ExecutionStatus.ACCEPTED
    trace_id: str | None = None
    attempt: int = 0
    worker: str | None = None
    not_before: float = 0.0
    max_attempts: int = 1
    backoff: float = 0.0
    is_repeatable: bool = False
    completed: float | None = None
    output: bytes | None = None
    output_blob: str | None = None
    output_forgotten: bool = False
    failure: Failure | None = None
    webhook: str | None = None
    callbacks: int = 0
    queue: str = ""
    task: bytes | None = None
    timeline: tuple[Event, ...] = ()
    attachments: Attachments | None = None
    log: str = ""
    blobs: tuple[OutputBlob, ...] = ()


class Claim(NamedTuple):
    """The right to run an execution: a result counts only with the claim that holds at that moment."""

    execution_id: str
    worker: str
    attempt: int


class Attempt(NamedTuple):
    """What an executor gets; ``seconds`` are left, ``mounts`` are skills that the code can read, by dotted name."""

    execution: Execution
    skill: Skill
    inputs: Mapping[str, Any]
    seconds: float
    mounts: Mapping[str, Skill] = {}

    @property
    def claim(self) -> Claim:
        """The claim under which it runs."""
        return Claim(self.execution.execution_id, self.execution.worker or "", self.execution.attempt)


@dataclass(slots=True)
class CallContext:
    """The call that a function answers. A parameter of this type gets it; it is not an input.

    ``attempt`` begins at 1. ``is_cancelled`` becomes true when the result is no longer needed: a thread cannot be
    stopped from outside, so a long function checks it and returns.
    """

    execution_id: str
    trace_id: str | None
    attempt: int
    deadline: datetime
    is_cancelled: bool = False


class Grant(NamedTuple):
    """Permission to run one artifact (``sha256:...``) with exactly these permissions.

    ``files`` are the artifact's files with digests, so that the next grant can show the differences.
    """

    digest: str
    permissions: Permissions
    skill: str
    version: str
    by: str
    at: float
    files: Mapping[str, str] = MappingProxyType({})


#: How many late or lost executions are ended or resumed in one transaction, during which nothing else writes.
EXPIRED_PER_BATCH: Final = 256
#: How many old executions, or outputs, one transaction deletes at most.
DELETED_PER_BATCH: Final = 500
#: Seconds that a process has for a callback that it took from the ledger.
CALLBACK_SECONDS: Final = 60.0


class Moment(NamedTuple):
    """A time on two clocks: ``wall`` since the epoch for deadlines, ``steady`` since the machine started for leases.

    ``steady`` is equal in all processes; ``boot`` identifies the start, since earlier leases are over.
    """

    wall: float
    steady: float
    boot: str = ""


class IdempotencyKey(NamedTuple):
    """A caller's name for a request; ``body`` is the digest of the request."""

    caller: str
    key: str
    body: bytes


class Accepted(NamedTuple):
    """An execution that is ``new`` or ``repeated``, or a conflict: the key was used with ``another`` body."""

    execution: Execution
    how: Literal["new", "repeated", "another"]


class BlobHold(NamedTuple):
    """Blobs of ``owner`` to keep until a time, in seconds since the epoch."""

    owner: str
    digests: tuple[Digest, ...]
    now: float
    until: float


class NewExecution(NamedTuple):
    """An execution to accept, and skill versions and blobs that the same transaction stores or holds."""

    execution: Execution
    key: IdempotencyKey | None = None
    skills: tuple[Skill, ...] = ()
    hold: BlobHold | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing is stored beside the execution."""
        return self.key is None and not self.skills and self.hold is None


#: Which callers may use a feature: none, all, or authenticated ones.
AllowedCallers = bool | Literal["authenticated"]


@dataclass(frozen=True, slots=True)
class ExecutionSettings:
    """How executions are run and kept; durations in seconds.

    Args:
        concurrency: how many run at once in this process; 0 for a server that only accepts.
        per_caller, per_skill: how many run at once of one caller and of one skill, in all processes.
        waiting: how many of one caller may wait or run.
        longest: what one may take; ``longest_task`` a task for a person.
        lease: how long a worker may be silent before its executions are taken from it.
        queue: whose workers run the executions; those of other queues may have other secrets and rules.
        grant_all: whether every published skill may run ungranted.
        secrets_file: where skills' secrets are, beside the environment.
        allow: networks and hosts beyond the public ones that skills may reach; ``allow_callbacks`` callers' addresses.
    """

    concurrency: int = 8
    per_caller: int = 8
    per_skill: int = 16
    waiting: int = limits.EXECUTION_WAITING
    longest: float = limits.EXECUTION_SECONDS
    longest_task: float = limits.EXECUTION_TASK_SECONDS
    lease: float = 30.0
    keep_outputs: float = limits.EXECUTION_OUTPUT_KEPT_SECONDS
    keep_executions: float = limits.EXECUTION_KEPT_SECONDS
    queue: str = ""
    grant_all: bool = False
    secrets_file: str | None = None
    allow: tuple[str, ...] = ()
    allow_callbacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The operator's settings of runs; everything is off by default.

    Args:
        execute_skill, run_code: callers for which granted skills, or code that they bring, are executed.
        blob_bytes: of one blob; ``blobs_per_owner`` bytes of all blobs of one caller.
        blob_seconds: how long a blob is kept after its last use.
        is_local: whether the caller started this process; a refusal then contains the option to start it with.
        origins: of pages that may act without a credential, beside our own and this machine's.
    """

    execute_skill: AllowedCallers = False
    run_code: AllowedCallers = False
    blob_bytes: int = limits.BLOB_BYTES
    blobs_per_owner: int = limits.BLOBS_OWNER_BYTES
    blob_seconds: float = limits.BLOB_SECONDS
    is_local: bool = False
    origins: tuple[str, ...] = ()


class StatisticsCursor(NamedTuple):
    """Up to where statistics were read, of what happened ``since`` a time; the ledger knows what the others mean."""

    since: float
    place: float = 0
    ended: int = 0
    accepted: int | None = None


class EndedExecution(NamedTuple):
    """``completed`` or the reason of the failure, and the seconds it ``waited`` and ``took``."""

    outcome: str
    waited: float | None
    took: float


class LedgerStatistics(NamedTuple):
    """Executions by status, those that run, and how many were accepted and which ended since the cursor before.

    ``oldest`` is when the oldest one that waits for a worker was accepted.
    """

    statuses: Mapping[ExecutionStatus, int]
    running: int
    accepted: int
    ended: Sequence[EndedExecution]
    cursor: StatisticsCursor
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of concurrent executions per caller and per skill, over all workers of a ledger.

    ``lease`` is how many seconds a worker may be silent. ``functions`` are the digests of the functions this process
    registered, None for all.
    """

    per_caller: int = 8
    per_skill: int = 16
    executors: Collection[ExecutorKind] = ("python", "http", "function")
    lease: float = 30.0
    skills: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    functions: Collection[str] | None = None
    queue: str = ""

    def per_skill_of(self, skill: str) -> int:
        """Return the limit of the skill of this name."""
        return self.skills.get(skill, self.per_skill)


class ExecutionQuery(NamedTuple):
    """A filter of executions; None matches all. ``after`` is the cursor of an earlier page."""

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


#: Who works on a task: no one, the asking person, or another one.
TaskOwner = Literal["open", "mine", "others"]


class OpenTasks(NamedTuple):
    """Tasks that have not ended, by priority and deadline, and how many there are of each kind."""

    tasks: tuple[Execution, ...]
    counts: Mapping[TaskOwner, int]


#: What the id of every blob fits, as JSON Schema writes patterns.
BLOB_PATTERN: Final = f"^{BLOB_PREFIX}[0-9a-f]{{64}}$"
_BLOB_ID: Final = re.compile(f"{BLOB_PREFIX}([0-9a-f]{{64}})", re.ASCII)
_MEDIA_TYPE_WORD: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_MEDIA_TYPE: Final = re.compile(
    rf"{_MEDIA_TYPE_WORD}/{_MEDIA_TYPE_WORD}"
    rf'(?:; ?{_MEDIA_TYPE_WORD}=(?:{_MEDIA_TYPE_WORD}|"[A-Za-z0-9 !#$&^_.+:/-]*"))*',
    re.ASCII,
)
_MEDIA_TYPE_LENGTH: Final = 255
_SHOWN: Final = 80


class RunBlob(NamedTuple):
    """A caller's blob; ``expires`` is in seconds since the epoch."""

    digest: Digest
    kind: str
    size: int
    expires: float

    @property
    def blob_id(self) -> str:
        """The id by which its owner knows it."""
        return BLOB_PREFIX + self.digest.hex


def is_blob_id(value: object) -> bool:
    """Whether ``value`` has the form of a blob id."""
    return isinstance(value, str) and _BLOB_ID.fullmatch(value) is not None


def digest_of(blob_id: str) -> Digest:
    """Return the digest in a blob id. Raises NotFoundError (``BLOB_NOT_FOUND``) for another form."""
    found = _BLOB_ID.fullmatch(blob_id)
    if found is None:
        raise blob_not_found(blob_id)
    return Digest(f"sha256:{found[1]}")


def blob_not_found(blob_id: str) -> NotFoundError:
    """Return the error for a blob that the caller does not have."""
    return NotFoundError("BLOB_NOT_FOUND", f"you have no blob {blob_id[:_SHOWN]!a}")


def check_kind(kind: str) -> str:
    """Return ``kind`` if it is a media type; it becomes a header field. Raises ValidationError (``BLOB_KIND``)."""
    if len(kind) > _MEDIA_TYPE_LENGTH or not _MEDIA_TYPE.fullmatch(kind):
        raise ValidationError("BLOB_KIND", f"{kind[:_SHOWN]!a} is no media type")
    return kind
