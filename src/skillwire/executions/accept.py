"""From a request to an execution: every check before anything is stored. Spec: SSP §5.3, §7.4.

Credentials in a request authenticate its caller and are dropped: they are in no row and no log.

The place of an execution in the queue is the time when it was accepted, shifted by its priority: *high* goes before
what was accepted up to a minute earlier, *low* behind what is accepted up to a minute later. Beyond that the order is
that of arrival, so no execution waits for ever.
"""

from __future__ import annotations

import math
import secrets
from typing import Final, NamedTuple

import msgspec

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.executions.callable_skill import CallableSkill
from skillwire.folder.executors import fill_title
from skillwire.model.execution import Attachments, Event, Execution, ExecutionSettings, Priority
from skillwire.protocols.skill_sharing.messages import InvocationContext, InvocationRequest

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
    """A caller's request without its credentials; ``accepted`` in seconds since the epoch."""

    request: InvocationRequest
    caller: str
    accepted: float
    webhook: str | None = None
    attachments: Attachments | None = None


def new_execution_id(accepted: float, *, is_task: bool = False) -> str:
    """Return ``exec-``, the time in milliseconds and 128 random bits, so that an ID cannot be guessed.

    The time keeps neighbours together in the ledger's index. A task has none, since people type the beginning of it.
    """
    when = "" if is_task else f"{int(accepted * _MS) & _TIMES:012x}"
    return PREFIX + when + secrets.token_hex(_ID_BYTES)


def make_execution(
    callable_skill: CallableSkill,
    invocation: Invocation,
    settings: ExecutionSettings,
    *,
    trace_id: str | None = None,
) -> Execution:
    """Return the execution that an invocation asks for, of ``trace_id`` unless it names one.

    Raises ValidationError, see SSP §8.3.1.
    """
    request, accepted = invocation.request, invocation.accepted
    if request.skill_id != callable_skill.skill_id:
        message = "names another skill than the one that is called"
        raise invalid_request("/skill_id", message, callable_skill.skill_id, request.skill_id[:_TEXT_LENGTH])
    context = request.context or _NO_CONTEXT
    who = request.caller
    texts = {"/caller/id": who.id, "/caller/type": who.type, "/context/trace_id": context.trace_id or "-"}
    for path, text in texts.items():  # each has to fit into a line of a log
        if not text or len(text) > _TEXT_LENGTH or not text.isprintable():
            message = f"must be a text of one line, 1 to {_TEXT_LENGTH} characters"
            raise invalid_request(path, message, f"1 to {_TEXT_LENGTH} characters", text[:_TEXT_LENGTH])
    callable_skill.inputs.check(request.inputs)
    priority = context.priority or Priority.NORMAL
    longest = float(settings.longest_task if callable_skill.action.executor == "human" else settings.longest)
    timeout, wanted = min(callable_skill.timeout or longest, longest), context.timeout_ms
    if wanted or wanted == 0:
        if not math.isfinite(wanted) or wanted <= 0:
            raise invalid_request("/context/timeout_ms", "must be a time to come", "more than 0", wanted)
        timeout = min(timeout, wanted / _MS)
    skill, task = callable_skill.skill, callable_skill.task
    inputs = {**callable_skill.inputs.defaults, **request.inputs}
    if task is not None and callable_skill.task_title:
        task = _encoder.encode({**msgspec.json.decode(task), "title": fill_title(callable_skill.task_title, inputs)})
    return Execution(
        execution_id=new_execution_id(accepted, is_task=callable_skill.task is not None),
        skill=skill.name,
        skill_id=callable_skill.skill_id,
        version=skill.version,
        digest=str(skill.artifact.digest),
        executor=callable_skill.action.executor,
        caller=invocation.caller,
        caller_id=request.caller.id,
        caller_type=request.caller.type,
        inputs=_encoder.encode(inputs),
        created=accepted,
        updated=accepted,
        deadline=accepted + timeout,
        timeout=timeout,
        turn=queue_position(priority, accepted),
        priority=priority,
        trace_id=context.trace_id or trace_id,
        max_attempts=callable_skill.max_attempts,
        backoff=callable_skill.backoff,
        is_repeatable=callable_skill.action.idempotent,
        webhook=invocation.webhook,
        queue=settings.queue,
        task=task,
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


def check_key(key: str) -> str:
    """Return an Idempotency-Key, if it is one. Raises ValidationError (``VALIDATION_ERROR``)."""
    if not key or len(key) > limits.IDEMPOTENCY_KEY_LENGTH or not key.isascii() or not key.isprintable():
        message = f"Idempotency-Key has 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable characters"
        raise ValidationError("VALIDATION_ERROR", message, details={"actual": key[:80]})
    return key
