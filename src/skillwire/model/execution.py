"""An execution: one call of a skill, from the moment it was accepted to the moment it is forgotten.

The ledger holds these; every protocol shows them in its own words. Times are seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.action import ExecutorKind
    from skillwire.model.skill import Skill


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
        queue: whose workers run it; see :class:`skillwire.invocation.settings.ExecutionSettings`.
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
