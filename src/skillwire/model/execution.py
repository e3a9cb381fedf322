"""An execution: one call of a skill, from the moment it was accepted to the moment it is forgotten.

The ledger holds these; every protocol shows them in its own words. Times are seconds since the epoch.

What a function is told of the call that it answers, when it asks for it.

A grant: somebody agreed that a skill's code runs here, with what it asks for.

What is said to the ledger of executions, and what it says.

Blobs: bytes that somebody hands in for a run, or that a run hands out. Spec: specs §4.

A blob is known by what is in it: ``blob:`` and the SHA-256 in hexadecimal. It belongs to whoever made it; to everybody
else it is not there, whatever they know of its content.

An execution as who called the skill sees it: how far it is, what it gave, how it is asked for again.

What is remembered of a call, so that it can be asked for by its id, and is not executed twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from skillwire.errors import ExecutionError, NotFoundError, PendingError, SourceLocation, ValidationError
from skillwire.model.digest import Digest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from skillwire.model.skill import ExecutorKind, Permissions, Skill


class ExecutionStatus(StrEnum):
    """How far an execution is. Spec: SSP §3.4.4."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self in FINAL


#: Where an execution ends.
FINAL: Final = frozenset({ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT})


class Priority(StrEnum):
    """How urgent an invocation is. Spec: SSP §5.3."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


#: Why an execution did not complete; ``details.reason`` on the wire. Ours: the text has no field for it.
Reason = Literal[
    "cancelled",  # its caller, or an operator, took it back
    "worker_lost",  # whoever ran it died, and it may not be run twice
    "deadline",  # it took too long
    "exception",  # the skill's code raised
    "exit",  # the skill's code ended without a result
    "limit",  # it met a bound of the sandbox
    "output",  # what it gave is not what the descriptor promises
    "upstream",  # the API behind it failed
    "rejected",  # a person declined the task
    "not_granted",  # nobody granted this digest with these permissions
    "unavailable",  # the skill, or what runs it, is not there any more
]


class Failure(NamedTuple):
    """Why an attempt, or an execution, failed.

    ``code`` is one of Skill Sharing's, or ``EXECUTION_FAILED``. ``is_passing`` when another attempt may succeed.
    ``details`` are JSON values for the caller; never a secret.
    """

    reason: Reason
    message: str
    code: str = "EXECUTION_FAILED"
    details: Mapping[str, Any] = {}
    is_passing: bool = False


class OutputBlob(NamedTuple):
    """A file that a run handed out: a blob of whoever called, and the name that the run gave it.

    ``digest`` is ``sha256:...``, ``kind`` a media type, ``size`` in bytes, ``name`` a path that
    :func:`skillwire.trust.paths.check_path` lets pass.
    """

    digest: str
    kind: str
    size: int
    name: str


class Attachments(NamedTuple):
    """What a run is given beside its inputs. Spec: specs §4.

    Args:
        blobs: the digests of blobs of its caller, which are kept until its deadline at least.
        mounts: dotted names of skills, each with the digest of the artifact that is meant.
        code: what is run, where that is no published skill.
    """

    blobs: tuple[str, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()
    code: str | None = None


class Outcome(NamedTuple):
    """What came of an attempt: a ``failure``, or else an ``output``, which is any JSON value.

    ``log`` is the end of what was printed, without secrets. ``blobs`` were handed out beside the output.
    """

    output: Any = None
    failure: Failure | None = None
    log: str = ""
    blobs: tuple[OutputBlob, ...] = ()


class Event(NamedTuple):
    """One line of an execution's timeline. ``what`` is an event of the state table, ``by`` who caused it."""

    at: float
    what: str
    by: str = ""
    note: str = ""


class Webhook(NamedTuple):
    """Whom to tell of the end: the URL that the caller gave."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One row of the ledger.

    Args:
        execution_id: ``exec-``, 12 hexadecimal digits of time, which a task for people does not have, and 32 of 128
            random bits.
        skill: its name in the catalog; ``skill_id`` is its id in Skill Sharing, ``digest`` that of its artifact
            (``sha256:...``): an execution runs what was published when it was accepted, or not at all.
        caller: whom it belongs to: who may ask for it. See :func:`skillwire.server.auth.rate_limit.caller_of`.
        caller_id, caller_type: what the caller said of itself.
        inputs: a JSON object, checked, with defaults.
        deadline: when it ends as ``timeout``.
        turn: its place in the queue; the least is next.
        attempt: how often it was begun. ``worker`` who has it now, None for nobody.
        not_before: when the next attempt may begin.
        max_attempts, backoff: of attempts that failed for a reason that may pass; ``backoff`` in seconds.
        is_repeatable: whether it may be begun again when its worker was lost.
        output: JSON as bytes, None until it completed and after it was forgotten; ``output_blob`` is the digest of
            one that is too large for the row.
        callbacks: how often its caller was told, or tried to be told, of the end.
        queue: whose workers run it; see :class:`skillwire.executions.accept.ExecutionSettings`.
        task: for a ``human`` skill, what a person is shown: a JSON object with ``title``, ``description`` and
            ``output``, the schema of what is to be handed in.
        attachments: what it was given beside its inputs; None for one whose caller has no use for blobs.
        log, blobs: as of the :class:`Outcome` of its last attempt.
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
    webhook: Webhook | None = None
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
    """What an executor is handed.

    Args:
        execution: as it was claimed.
        skill: what is run; its files are in the blob store.
        inputs: the decoded inputs.
        seconds: how much time is left.
        mounts: the skills whose files its code is to find, by their dotted names.
    """

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
    """The call that a function answers. A parameter of this type gets it; it is no input.

    Args:
        execution_id: the execution's; who knows that of a stranger's call may ask for its result.
        trace_id: the caller's name for what this is part of, None when it gave none.
        attempt: 1 at first.
        deadline: when the result counts no more, in UTC.
        is_cancelled: becomes true when nobody waits any more. A function in a thread cannot be stopped from outside:
            one that takes long looks at this now and then, and returns.
    """

    execution_id: str
    trace_id: str | None
    attempt: int
    deadline: datetime
    is_cancelled: bool = False


class Grant(NamedTuple):
    """What was agreed to: this artifact (``sha256:...``), with these permissions and no others.

    ``skill`` and ``version`` say to people what it was; ``by`` who agreed, ``at`` when, in seconds since the epoch.
    ``files`` are its files with their digests, so that the next grant can say what has changed.
    """

    digest: str
    permissions: Permissions
    skill: str
    version: str
    by: str
    at: float
    files: Mapping[str, str] = MappingProxyType({})


#: How many executions are ended, or taken up, at once for being late or lost. Nobody else writes meanwhile.
EXPIRED_PER_BATCH: Final = 256


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
TaskOwner = Literal["open", "mine", "others"]


class OpenTasks(NamedTuple):
    """Tasks that have not ended, the most urgent first, and how many there are of each kind."""

    tasks: tuple[Execution, ...]
    counts: Mapping[TaskOwner, int]


PREFIX: Final = "blob:"
#: What every id fits, as JSON Schema writes patterns.
PATTERN: Final = f"^{PREFIX}[0-9a-f]{{64}}$"
_ID: Final = re.compile(f"{PREFIX}([0-9a-f]{{64}})", re.ASCII)
_WORD: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_KIND: Final = re.compile(rf'{_WORD}/{_WORD}(?:; ?{_WORD}=(?:{_WORD}|"[A-Za-z0-9 !#$&^_.+:/-]*"))*', re.ASCII)
_KIND_LENGTH: Final = 255
_SHOWN: Final = 80


class RunBlob(NamedTuple):
    """A blob of somebody: its digest, its media type, its size in bytes, and when it is forgotten.

    ``expires`` is in seconds since the epoch.
    """

    digest: Digest
    kind: str
    size: int
    expires: float

    @property
    def blob_id(self) -> str:
        """The id by which its owner knows it."""
        return PREFIX + self.digest.hex


def is_blob_id(value: object) -> bool:
    """Whether ``value`` is written as the ids of blobs are."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def digest_of(blob_id: str) -> Digest:
    """Return the digest in the id of a blob. Raises NotFoundError: ``BLOB_NOT_FOUND`` for what can be no id of ours."""
    found = _ID.fullmatch(blob_id)
    if found is None:
        raise blob_not_found(blob_id)
    return Digest(f"sha256:{found[1]}")


def blob_not_found(blob_id: str) -> NotFoundError:
    """Return the error that says that somebody has no such blob."""
    return NotFoundError("BLOB_NOT_FOUND", f"you have no blob {blob_id[:_SHOWN]!a}")


def check_kind(kind: str) -> str:
    """Return the media type of a blob, if it is one; it becomes a header field.

    Raises:
        ValidationError: ``BLOB_KIND``.
    """
    if len(kind) > _KIND_LENGTH or not _KIND.fullmatch(kind):
        raise ValidationError("BLOB_KIND", f"{kind[:_SHOWN]!a} is no media type")
    return kind


_LOST = (
    "It may have done a part of its work: see what became of that, then call the skill again; its provider can let it"
    " be run again by itself, with idempotent = true."
)
_CODES = {
    ExecutionStatus.FAILED: "EXECUTION_FAILED",
    ExecutionStatus.TIMEOUT: "EXECUTION_TIMED_OUT",
}
_CANCELLED = "cancelled"


class RemoteFailure(NamedTuple):
    """Why an execution did not complete, in the provider's words, made harmless.

    ``details`` are any JSON value. Calling again may help after ``retry_after`` seconds, where that is given.
    """

    code: str
    message: str
    details: Any = None
    retry_after: float | None = None

    @property
    def reason(self) -> str | None:
        """The word for it in ``details``, as our own servers give it: ``cancelled``, ``worker_lost``."""
        reason = self.details.get("reason") if isinstance(self.details, dict) else None
        return reason if isinstance(reason, str) else None


class RemoteBlob(NamedTuple):
    """A file that a run left where it ran: its id there, its media type, its size in bytes, and its name."""

    blob_id: str
    kind: str
    size: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteExecution:
    """One call of a skill.

    Args:
        execution_id: what the provider calls it; None where the output came at once, without one.
        skill_id: of the skill that was called.
        reference: what was typed to mean the skill; empty where only the URL of the status was given.
        status: how far it is.
        output: what the skill gave, once it has completed: a JSON value, or a text or bytes that came at once.
        content_type: of an output that came at once; that of others is JSON.
        error: why it failed or timed out.
        created_at, updated_at, completed_at: ISO 8601, as the provider says; empty where it does not.
        status_url: where it is asked for again; None where nothing tells.
        result_url: where its output is, when the status does not have it.
        summary: the provider's word on it in a sentence; this and what follows only the Skills Protocol says.
        log: the end of what it printed.
        blobs: files that it left at the endpoint.
    """

    execution_id: str | None
    skill_id: str
    reference: str
    status: ExecutionStatus
    output: Any = field(default=None, repr=False)
    content_type: str = "application/json"
    error: RemoteFailure | None = None
    created_at: str = ""
    updated_at: str = ""
    completed_at: str = ""
    status_url: str | None = None
    result_url: str | None = None
    summary: str = ""
    log: str = ""
    blobs: tuple[RemoteBlob, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether nothing follows: it has completed, failed or timed out."""
        return self.status.is_final

    @property
    def is_completed(self) -> bool:
        """Whether ``output`` is what the skill gave."""
        return self.status is ExecutionStatus.COMPLETED

    @property
    def is_cancelled(self) -> bool:
        """Whether it was taken back. Ours: in the text it has failed."""
        return self.status is ExecutionStatus.FAILED and self.error is not None and self.error.reason == _CANCELLED

    def check(self) -> Self:
        """Return the execution if it has completed.

        Raises:
            ExecutionError: ``EXECUTION_FAILED``, ``EXECUTION_TIMED_OUT``, ``EXECUTION_CANCELLED``.
            PendingError: ``EXECUTION_PENDING``.
        """
        if self.is_completed:
            return self
        place = SourceLocation(self.status_url or self.reference)
        if not self.is_final:
            name = self.execution_id or "it"
            raise PendingError("EXECUTION_PENDING", f"{name} is {self.status}", place=place, details=self._facts())
        code = "EXECUTION_CANCELLED" if self.is_cancelled else _CODES[self.status]
        message = self.error.message if self.error is not None else "the provider does not say why"
        fix = _LOST if self.error is not None and self.error.reason == "worker_lost" else None
        raise ExecutionError(code, message, place=place, fix=fix, details=self._facts())

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {
            "execution_id": self.execution_id,
            "status": str(self.status),
            "status_url": self.status_url,
        }
        if self.error is not None:
            facts |= {"code": self.error.code, "details": self.error.details}
        return facts


class CallRecord(NamedTuple):
    """One call; nothing in it is a secret or an input.

    Args:
        key: the idempotency key that it is sent under.
        reference: what was typed to mean the skill.
        skill_id: of the skill.
        url: of its endpoint.
        created: when it was made, in seconds since the epoch.
        origins: those of the index and of the endpoint, where they had been named.
        header: the field that the endpoint wants an API key in; None for ``Authorization``.
        is_lent: whether the credential of an origin that nobody has named goes along: somebody agreed, or the origin
            lies below the one that was named.
        fingerprint: tells whether another call is the same; None once it was answered.
        context: the circumstances that it was sent with, which are a part of it until it is answered.
        execution_id: what the provider calls it; None before it has answered.
        status_url: of its execution; None where nothing tells.
        result_url: of what the execution gave.
    """

    key: str
    reference: str
    skill_id: str
    url: str
    created: float
    origins: tuple[str, ...] = ()
    header: str | None = None
    is_lent: bool = False
    fingerprint: str | None = None
    context: Mapping[str, Any] = MappingProxyType({})
    execution_id: str | None = None
    status_url: str | None = None
    result_url: str | None = None
