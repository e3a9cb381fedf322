"""Callable skills: what a skill promises to its callers, compiled, and the execution that a request becomes.

A callable skill is made once for each version of a skill, because compiling schemas costs a thousand times what a check
does. One validator per input accepts what fits, as nearly everything does; only what does not fit is validated again to
report every error. Of a large value only the first error is reported, because a validator collects all of them first,
which takes seconds for a megabyte. Clients check inputs and outputs by the same rules.

Code that a caller brings (SKP ``run_code``) is a callable skill that is not published. Its code is stored in the row of
its execution alone, and it gets no network and no secrets. The operator allows all such code or none. Its name and its
digest are ones that no published skill can have.

Every check of a request comes before anything is stored. Credentials in it authenticate its caller and are dropped:
they are in no row and no log. The place of an execution in the queue is the time when it was accepted, shifted by its
priority: *high* goes before what was accepted up to a minute earlier, *low* behind what is accepted up to a minute
later. Beyond that the order is that of arrival, so no execution waits for ever.

Spec: SSP §3.5, §5.3, §7.4, §8.3.1. Trust: descriptors and values come from untrusted peers. A dangerous schema is
refused; nothing is fetched for one, and patterns match in linear time.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import secrets
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec
from msgspec import UnsetType

from skillwire import limits
from skillwire.errors import ValidationError, first_of
from skillwire.folder.executors import fill_title
from skillwire.model.digest import Digest
from skillwire.model.execution import Attachments, Event, Execution, ExecutionSettings, Priority
from skillwire.model.skill import Action, Artifact, Skill
from skillwire.protocols.skill_sharing.messages import (
    AuthType,
    InvocationContext,
    InvocationRequest,
    ParameterDefinition,
    SkillDescriptor,
)
from skillwire.protocols.skill_sharing.validation import (
    Violation,
    compiled,
    engine,
    expected_by,
    find_unsafe_keywords,
    input_schema,
    pointer,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jsonschema_rs import ValidationError as SchemaError


_MOST_ERRORS: Final = 100
_MOST_SHOWN: Final = 3  # the others are in the details
_MESSAGE_LENGTH: Final = 300
_VALUES_SHOWN: Final = 20
_NO_JSON: Final = "is no JSON value"
#: So many unknown names are held against the known ones, unless they are longer than this.
_MOST_GUESSED: Final = 3
_GUESSED_LENGTH: Final = 64
#: What weighs more, by its texts and so many bytes for each value in it, is large: only its first error is reported.
_LARGE: Final = 16 * 1024
_VALUE_WEIGHT: Final = 16
#: Keywords that collect all faults of all their branches even where one fault is asked for.
_BRANCHING: Final = (b'"anyOf":', b'"oneOf":')


class InputRules:
    """A skill's compiled inputs; ``defaults`` must not be changed. Raises ValidationError (``DESCRIPTOR``)."""

    def __init__(self, parameters: Sequence[ParameterDefinition]) -> None:
        dangers = [
            danger
            for position, parameter in enumerate(parameters)
            for danger in find_unsafe_keywords(parameter.schema or {}, f"/inputs/{position}/schema")
        ]
        if dangers:
            raise _input_error("DESCRIPTOR", "the descriptor must not be used", dangers)
        self._schemas = {parameter.name: _Schema(input_schema(parameter)) for parameter in parameters}
        self._fits: dict[str, Callable[[Any], bool]] = {name: one.fits for name, one in self._schemas.items()}
        self.defaults = {one.name: one.default for one in parameters if one.has_default}
        self._holds_containers = any(isinstance(value, dict | list) for value in self.defaults.values())
        self._required = frozenset(one.name for one in parameters if one.required) - self.defaults.keys()

    def apply(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``inputs`` with missing defaults. Raises ValidationError with all errors in its details."""
        self.check(inputs)
        # A skill may change its inputs, which must not change the default of the next call.
        defaults = deepcopy(self.defaults) if self._holds_containers else self.defaults
        return {**defaults, **inputs}

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Refuse inputs that the skill does not take; errors as of :meth:`apply`."""
        fits = self._fits
        with suppress(KeyError, ValueError):  # no input of the skill, or no value of JSON
            if self._required <= inputs.keys() and all(fits[name](value) for name, value in inputs.items()):
                return
        violations = list(islice(self._violations(inputs), _MOST_ERRORS))
        violations = violations or [Violation("/inputs", _NO_JSON, "JSON", None)]
        raise _input_error("VALIDATION_ERROR", "the inputs are not what the skill takes", violations)

    def _violations(self, inputs: Mapping[str, Any]) -> Iterator[Violation]:
        unknown = 0
        large = _is_large(inputs)
        for name, value in inputs.items():
            if (schema := self._schemas.get(name)) is None:
                unknown += 1
                yield self._unknown(str(name), value, guess=unknown <= _MOST_GUESSED)
            else:
                yield from schema.flaws(value, ("inputs", name), large=large)
        for name in sorted(self._required - inputs.keys()):
            yield Violation(pointer(["inputs", name]), "is required", "a value", None)

    def _unknown(self, name: str, value: object, *, guess: bool) -> Violation:
        is_guessed = guess and len(name) <= _GUESSED_LENGTH
        close = difflib.get_close_matches(name, self._schemas, n=1) if is_guessed else ()
        hint = f"; did you mean {close[0]}?" if close else ""
        names = list(islice(self._schemas, _MOST_ERRORS))
        path = pointer(["inputs", name[:_MESSAGE_LENGTH]])
        return Violation(path, f"is no input of this skill{hint}", names, shown(value))


class OutputRules:
    """A skill's compiled output schema; none accepts everything. Raises ValidationError (``DESCRIPTOR``)."""

    def __init__(self, schema: Mapping[str, Any] | UnsetType | None) -> None:
        if dangers := list(find_unsafe_keywords(schema or {}, "/output/schema")):
            raise _input_error("DESCRIPTOR", "the descriptor must not be used", dangers)
        self._schema = _Schema(schema) if schema else None

    def find_flaws(self, value: object) -> list[Violation]:
        """Return what is wrong with an output, as :meth:`find_flaw` does; of one that is large the first fault."""
        if self._schema is None:
            return []
        return list(islice(self._schema.flaws(value, ("output",), large=_is_large(value)), _MOST_ERRORS))

    def find_flaw(self, value: object) -> Violation | None:
        """Return the first thing that is wrong with an output, its path below ``/output``; None when it fits."""
        if self._schema is None:
            return None
        return next(self._schema.flaws(value, ("output",), large=True), None)


class _Schema:
    """A schema, compiled, and asked no more than a value's size allows."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._validator = compiled(schema)
        self.fits: Callable[[Any], bool] = self._validator.is_valid
        encoded = msgspec.json.encode(schema)
        self._is_branching = any(keyword in encoded for keyword in _BRANCHING)

    def flaws(self, value: object, before: tuple[str, ...], *, large: bool) -> Iterator[Violation]:
        """Yield what is wrong with a value that stands at ``before``; if it counts as ``large``, one flaw at most."""
        try:
            if self.fits(value):
                return
            if not large:
                for error in islice(self._validator.iter_errors(value), _MOST_ERRORS):
                    yield _violation(error, before)
            elif self._is_branching and _is_large(value):
                yield Violation(pointer(before), "does not fit its schema", None, shown(value))
            elif (first := self._first(value)) is not None:
                yield _violation(first, before)
        except (ValueError, TypeError):  # not from JSON: an object of Python's, or nested deeper than anything is read
            yield Violation(pointer(before), _NO_JSON, "JSON", None)

    def _first(self, value: object) -> SchemaError | None:
        try:
            self._validator.validate(value)
        except engine().ValidationError as error:
            return cast("SchemaError", error)
        return None


def _violation(error: SchemaError, before: tuple[str, ...]) -> Violation:
    path, kind = [*before, *error.instance_path], error.kind
    message, expected = error.message[:_MESSAGE_LENGTH], expected_by(error)
    if kind.name == "required":
        missing = str(getattr(kind, "property", ""))
        return Violation(pointer([*path, missing]), "is required", "a value", None)
    if kind.name == "type":
        message = f"must be of type {expected}"
    elif kind.name == "enum":
        message = f"must be one of {first_of([json.dumps(shown(one)) for one in expected], _VALUES_SHOWN)}"
    return Violation(pointer(path), message, shown(expected), shown(error.instance))


def _is_large(value: object) -> bool:
    """Return whether a value is too large to report every error."""
    weight, left = 0, [value]
    while left:
        one = left.pop()
        weight += _VALUE_WEIGHT + (len(one) if isinstance(one, str | list | dict) else 0)
        if weight > _LARGE:
            return True
        if isinstance(one, dict):
            left.extend(one)
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return False


def _input_error(code: str, why: str, violations: Iterable[Violation]) -> ValidationError:
    errors = list(islice(violations, _MOST_ERRORS))
    described = "; ".join(f"{violation.path} {violation.message}" for violation in errors[:_MOST_SHOWN])
    more = f" (and {len(errors) - _MOST_SHOWN} more)" if len(errors) > _MOST_SHOWN else ""
    details = {"errors": [violation._asdict() for violation in errors]}
    return ValidationError(code, f"{why}: {described}{more}", details=details)


_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class CallableSkill:
    """A skill that can be called here; durations in seconds.

    ``max_attempts`` and ``backoff`` are its ``endpoint.retry``, ``text_inputs`` its inputs that are texts;
    ``task_title`` has placeholders for inputs.
    ``needs_authentication`` if callers of a public skill must authenticate. Spec: SSP §7.3.
    """

    skill: Skill
    action: Action
    skill_id: str
    inputs: InputRules
    output: OutputRules
    timeout: float | None = None
    max_attempts: int = 1
    backoff: float = 0.0
    task: bytes | None = None
    task_title: str = ""
    text_inputs: frozenset[str] = frozenset()
    needs_authentication: bool = False


def make_callable_skill(skill: Skill, descriptor: SkillDescriptor) -> CallableSkill | None:
    """Return the offer of a skill with this descriptor; None for one that is not executed."""
    action, endpoint = skill.action, descriptor.endpoint
    if action is None:
        return None
    retry = endpoint.retry or None
    return CallableSkill(
        skill=skill,
        action=action,
        skill_id=descriptor.id,
        inputs=InputRules(descriptor.inputs),
        output=OutputRules(descriptor.output.schema or None),
        timeout=endpoint.timeout_ms / _MS if endpoint.timeout_ms else None,
        max_attempts=max(1, int(retry.max_attempts)) if retry else 1,
        backoff=retry.backoff_ms / _MS if retry else 0.0,
        task=_task(descriptor) if action.executor == "human" else None,
        task_title=str(action.settings.get("title", "")) if action.executor == "human" else "",
        text_inputs=frozenset(one.name for one in descriptor.inputs if one.type == "string"),
        needs_authentication=descriptor.auth.type is not AuthType.NONE,
    )


def _task(descriptor: SkillDescriptor) -> bytes:
    shown = {
        "title": descriptor.name,
        "description": descriptor.description,
        "output": descriptor.output.schema or None,
        "output_description": descriptor.output.description or None,
        "inputs": {one.name: one.description for one in descriptor.inputs},
    }
    return msgspec.json.encode(shown)


#: What it is called in the ledger; a published skill has no underscore in its name.
RUN_CODE_NAME: Final = "run_code"
#: Name of its file in the sandbox.
RUN_CODE_FILE: Final = "main.py"
_RUN_CODE_VERSION: Final = "0.0.0"
_RUN_CODE_CONTEXT: Final = b"skillwire run_code 1\0"
_EXPORT_LENGTH: Final = 100
_MEDIA_TYPE: Final = "text/x-python"


def code_skill(code: bytes, function: str) -> Skill:
    """Return the skill for ``code``, whose ``function`` is called. Raises ValidationError for an invalid name."""
    if not function.isidentifier() or len(function) > _EXPORT_LENGTH:
        message = f"entrypoint must name a function of the code, such as main, not {function[:_EXPORT_LENGTH]!a}"
        raise ValidationError("VALIDATION_ERROR", message)
    digest = hashlib.sha256(_RUN_CODE_CONTEXT + function.encode() + b"\0" + code)
    return Skill(
        publisher="",
        name=RUN_CODE_NAME,
        version=_RUN_CODE_VERSION,
        description="Code that a caller brought.",
        files=(),
        artifact=Artifact("skill-md", _MEDIA_TYPE, ".py", len(code), Digest(f"sha256:{digest.hexdigest()}")),
        kind="action",
        action=Action("python", RUN_CODE_FILE, function),
    )


def is_code(skill: Skill) -> bool:
    """Whether a skill of the ledger is code that a caller brought."""
    return skill.name == RUN_CODE_NAME


def callable_code(skill: Skill) -> CallableSkill:
    """Return what such code promises: nothing. It takes whatever object it is given."""
    action = skill.action
    if action is None or not is_code(skill):
        raise ValueError("this is a published skill")
    return CallableSkill(
        skill=skill, action=action, skill_id=RUN_CODE_NAME, inputs=_AnyInputs(), output=OutputRules(None)
    )


class _AnyInputs(InputRules):
    """Accepts every object: code has no descriptor."""

    def __init__(self) -> None:
        super().__init__(())

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Refuse nothing."""


#: Priority → seconds by which the turn moves.
PRIORITY_SHIFTS: Final[dict[Priority, float]] = {Priority.HIGH: -60.0, Priority.NORMAL: 0.0, Priority.LOW: 60.0}


def queue_position(priority: Priority, accepted: float) -> float:
    """Return the turn of an execution that was accepted at this time."""
    return accepted + PRIORITY_SHIFTS[priority]


_EXECUTION_PREFIX: Final = "exec-"
_ID_BYTES: Final = 16
_TEXT_LENGTH: Final = 256
_TIME_MASK: Final = (1 << 48) - 1
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
    when = "" if is_task else f"{int(accepted * _MS) & _TIME_MASK:012x}"
    return _EXECUTION_PREFIX + when + secrets.token_hex(_ID_BYTES)


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


def check_idempotency_key(key: str) -> str:
    """Return an Idempotency-Key, if it is one. Raises ValidationError (``VALIDATION_ERROR``)."""
    if not key or len(key) > limits.IDEMPOTENCY_KEY_LENGTH or not key.isascii() or not key.isprintable():
        message = f"Idempotency-Key has 1 to {limits.IDEMPOTENCY_KEY_LENGTH} printable characters"
        raise ValidationError("VALIDATION_ERROR", message, details={"actual": key[:80]})
    return key
