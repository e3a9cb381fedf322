"""From a request to an execution: every check before anything is stored. Spec: SSP §5.3, §7.4.

Credentials in a request authenticate its caller and are dropped: they are in no row and no log.

The place of an execution in the queue is the time when it was accepted, shifted by its priority: *high* goes before
what was accepted up to a minute earlier, *low* behind what is accepted up to a minute later. Beyond that the order is
that of arrival, so no execution waits for ever.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.execution import Event, Execution, Priority, Webhook
from skillwire.protocols.skill_sharing.messages import Caller, InvocationContext, InvocationRequest

if TYPE_CHECKING:
    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.model.execution import Attachments


#: Which callers may use a feature: none, all, or authenticated ones.
AllowedCallers = bool | Literal["authenticated"]


@dataclass(frozen=True, slots=True)
class ExecutionSettings:
    """How executions are run and kept; durations in seconds.

    Args:
        concurrency: how many run at once in this process; 0 for a server that only accepts, and leaves them to others.
        per_caller, per_skill: how many run at once of one caller and of one skill, in all processes.
        waiting: how many of one caller may wait or run.
        longest: what one may take; ``longest_task`` a task for a person.
        lease: how long a worker may be silent before its executions are taken from it.
        keep_outputs, keep_executions: how long what has ended is kept.
        queue: the name of what these settings are for. Executions are run by workers of the queue that accepted
            them, and by no others of the same ledger, which may have other secrets and allow other things.
        grant_all: whether every skill that is published here may run as it is, ungranted.
        secrets_file: where skills' secrets are, beside the environment.
        allow: networks and hosts beyond the public ones that skills may reach.
        allow_callbacks: the same for the addresses that callers give; callers are untrusted.
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
        execute_skill: callers for which granted skills are executed.
        run_code: callers for which code that they bring is run.
        blob_bytes: of one blob.
        blobs_per_owner: bytes of all blobs of one caller.
        blob_seconds: how long a blob is kept after its last use.
        is_local: whether the caller started this process; a refusal then says how to start it.
        origins: of pages that may have something done without a credential, beside our own and this machine's.
    """

    execute_skill: AllowedCallers = False
    run_code: AllowedCallers = False
    blob_bytes: int = limits.BLOB_BYTES
    blobs_per_owner: int = limits.BLOBS_OWNER_BYTES
    blob_seconds: float = limits.BLOB_SECONDS
    is_local: bool = False
    origins: tuple[str, ...] = ()


#: Priority → seconds by which the turn moves.
PRIORITY_SHIFTS: Final[dict[Priority, float]] = {Priority.HIGH: -60.0, Priority.NORMAL: 0.0, Priority.LOW: 60.0}


def queue_position(priority: Priority, accepted: float) -> float:
    """Return the turn of an execution that was accepted at this time."""
    return accepted + PRIORITY_SHIFTS[priority]


PREFIX: Final = "exec-"
_ID_BYTES: Final = 16
_TEXT_LENGTH: Final = 256
_MS: Final = 1000
_TIMES: Final = (1 << 48) - 1
_encoder: Final = msgspec.json.Encoder()


class Invocation(NamedTuple):
    """What a caller asks for, without what it proved itself by.

    ``caller`` will own the execution; ``accepted`` is when it was requested, in seconds since the epoch.
    """

    request: InvocationRequest
    caller: str
    accepted: float
    webhook: Webhook | None = None
    attachments: Attachments | None = None


def new_execution_id(accepted: float, *, is_task: bool = False) -> str:
    """Return ``exec-``, the time in milliseconds and 128 random bits, so that an ID cannot be guessed.

    The time is there for the ledger: what comes together lies together in its index. A task for people has none, since
    people type the beginning of its ID, and calls of one hour begin alike.
    """
    when = "" if is_task else f"{int(accepted * _MS) & _TIMES:012x}"
    return PREFIX + when + secrets.token_hex(_ID_BYTES)


def make_execution(
    offer: CallableSkill, invocation: Invocation, settings: ExecutionSettings, execution_id: str | None = None
) -> Execution:
    """Return the execution that an invocation of ``offer`` asks for.

    Raises:
        ValidationError: ``VALIDATION_ERROR`` with everything that is wrong in ``details``. Spec: SSP §8.3.1.
    """
    request, accepted = invocation.request, invocation.accepted
    if request.skill_id != offer.skill_id:
        message = "names another skill than the one that is called"
        raise invalid_request("/skill_id", message, offer.skill_id, request.skill_id[:_TEXT_LENGTH])
    context = request.context or _NO_CONTEXT
    _check_texts(request.caller, context)
    offer.inputs.check(request.inputs)
    priority = context.priority or Priority.NORMAL
    timeout = _timeout(offer, context, settings)
    skill = offer.skill
    return Execution(
        execution_id=execution_id or new_execution_id(accepted, is_task=offer.task is not None),
        skill=skill.name,
        skill_id=offer.skill_id,
        version=skill.version,
        digest=str(skill.artifact.digest),
        executor=offer.action.executor,
        caller=invocation.caller,
        caller_id=request.caller.id,
        caller_type=request.caller.type,
        inputs=_encoder.encode({**offer.inputs.defaults, **request.inputs}),
        created=accepted,
        updated=accepted,
        deadline=accepted + timeout,
        timeout=timeout,
        turn=queue_position(priority, accepted),
        priority=priority,
        trace_id=context.trace_id or None,
        max_attempts=offer.max_attempts,
        backoff=offer.backoff,
        is_repeatable=offer.action.idempotent,
        webhook=invocation.webhook,
        queue=settings.queue,
        task=offer.task,
        attachments=invocation.attachments,
        timeline=(Event(accepted, "accept", request.caller.id),),
    )


_NO_CONTEXT: Final = InvocationContext()


def invalid_request(path: str, message: str, expected: object, actual: object) -> ValidationError:
    """Return the error that says what is wrong with a request, at one place. Spec: SSP §8.3.1."""
    error = {"path": path, "message": message, "expected": expected, "actual": actual}
    where = f"{path} " if path else ""
    return ValidationError(
        "VALIDATION_ERROR", f"Invalid InvocationRequest: {where}{message}", details={"errors": [error]}
    )


def _timeout(offer: CallableSkill, context: InvocationContext, settings: ExecutionSettings) -> float:
    """Return the least of what the publisher, the caller and the operator allow, in seconds."""
    longest = float(settings.longest_task if offer.action.executor == "human" else settings.longest)
    wanted = context.timeout_ms
    if not wanted and wanted != 0:
        return min(offer.timeout or longest, longest)
    if not math.isfinite(wanted) or wanted <= 0:
        raise invalid_request("/context/timeout_ms", "must be a time to come", "more than 0", str(wanted))
    return min(offer.timeout or longest, longest, wanted / _MS)


def _check_texts(caller: Caller, context: InvocationContext) -> None:
    """Refuse what would not fit into a line of a log."""
    texts = {"/caller/id": caller.id, "/caller/type": caller.type, "/context/trace_id": context.trace_id or "-"}
    for path, text in texts.items():
        if not text or len(text) > _TEXT_LENGTH or not text.isprintable():
            message = f"must be a text of one line, 1 to {_TEXT_LENGTH} characters"
            raise invalid_request(path, message, f"1 to {_TEXT_LENGTH} characters", text[:_TEXT_LENGTH])


def check_key(key: str) -> str:
    """Return an Idempotency-Key, if it is one.

    Raises:
        ValidationError: ``VALIDATION_ERROR``.
    """
    if not key or len(key) > limits.IDEMPOTENCY_KEY_LENGTH or not key.isascii() or not key.isprintable():
        message = f"Idempotency-Key has 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable characters"
        raise ValidationError("VALIDATION_ERROR", message)
    return key
