"""Tasks for people: executions that a person claims, completes, declines or gives back, and their forms.

A task is claimed under a person's name until the person hands it in, gives it back, or its deadline comes. An output
is validated against the requested schema before anything is stored, and counts only while the claim holds: a caller's
cancellation or the deadline may have been first.

A form is a flat list of fields. An object becomes its properties, nested ones with names such as ``address.street``; a
value without a kind of field of its own is typed as JSON. The page and the command of a task show the same fields and
read answers with the same function. An answer is text; a blank answer is none, and a form without any answer takes the
default. The fields do not cover every rule of the schema, so the value is validated against it afterwards.

Trust: the schema belongs to a published skill and is bounded and checked with its descriptor; the answers are a
person's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from skillwire import limits
from skillwire.errors import ConflictError, DecodeError, NotFoundError, UsageError, ValidationError
from skillwire.executions.callable_skill import OutputRules
from skillwire.model.execution import Claim, Execution, ExecutionQuery, ExecutionStatus, Failure, Moment
from skillwire.protocols.skill_sharing.validation import Violation, engine, pointer, shown
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from skillwire.ports import ExecutionLedger


_WORDS: Final = {
    "true": True,
    "yes": True,
    "y": True,
    "on": True,
    "false": False,
    "no": False,
    "n": False,
    "off": False,
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


class WrongAnswerError(Exception):
    """An answer that is not what its field takes."""

    def __init__(self, message: str, expected: object, actual: object) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected
        self.actual = shown(actual)


def read_answer(answer: str, field: Field) -> Any:
    """Return the value of a non-blank ``answer``. Raises WrongAnswerError."""
    try:
        answer.encode()
    except UnicodeEncodeError:  # an argument of a command line may hold stray bytes, as half surrogate pairs
        shown_answer = answer.encode("ascii", "replace").decode()
        raise WrongAnswerError("must be Unicode text", "text", shown_answer) from None
    return _READERS[field.kind](answer, field)


def _read_integer(answer: str, _: Field) -> int:
    text = answer.strip()
    if not _INTEGER.fullmatch(text):
        raise WrongAnswerError("must be a whole number", "integer", text)
    return int(text)


def _read_number(answer: str, _: Field) -> float:
    text = answer.strip()
    if not _NUMBER.fullmatch(text):
        raise WrongAnswerError("must be a number such as 12.5", "number", text)
    value = int(text) if _INTEGER.fullmatch(text) else float(text)
    if abs(value) == float("inf"):
        raise WrongAnswerError("must be a number that is not so large", "number", text)
    return value


def _read_boolean(answer: str, _: Field) -> bool:
    value = _WORDS.get(answer.strip().lower())
    if value is None:
        raise WrongAnswerError("must be true or false", "boolean", answer)
    return value


def _read_choice(answer: str, field: Field) -> Any:
    values = dict(zip(field.choices, field.values, strict=True))
    for text in (answer, answer.strip()):
        if text in values:
            return values[text]
    raise WrongAnswerError("must be equal to one of the allowed values", list(field.values), answer)


def _read_lines(answer: str, field: Field) -> list[str]:
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    for line in lines:
        if field.choices and line not in field.choices:
            raise WrongAnswerError("must hold nothing but the allowed values", list(field.choices), line)
    return lines


def _read_json(answer: str, _: Field) -> Any:
    try:
        return load_json(answer.encode(), max_bytes=limits.EXECUTION_OUTPUT_BYTES)
    except DecodeError as error:
        raise WrongAnswerError(f"must be JSON: {error.message}", "JSON", answer) from None


def _read_text(answer: str, _: Field) -> str:
    return answer.replace("\r\n", "\n")  # as browsers send line breaks


def _read_formatted(answer: str, field: Field) -> str:
    text = answer.strip()
    name, example = _FORMATS[field.kind]
    if not engine().Draft202012Validator({"format": name}, validate_formats=True).is_valid(text):
        raise WrongAnswerError(f"must be {example}", example, text)
    return text


#: Kind of field → the format of JSON Schema that its answers have, and what they look like.
_FORMATS: Final[dict[FieldKind, tuple[str, str]]] = {
    "date": ("date", "a date such as 2025-07-01"),
    "datetime": ("date-time", "a datetime such as 2025-07-01T12:00:00Z"),
    "time": ("time", "a time such as 12:00:00Z"),
    "email": ("email", "an address such as ann@example.com"),
    "url": ("uri", "a URL"),
}
_READERS: Final[dict[FieldKind, Callable[[str, Field], Any]]] = {
    "text": _read_text, "number": _read_number, "integer": _read_integer, "boolean": _read_boolean,
    "choice": _read_choice, "lines": _read_lines, "json": _read_json, **dict.fromkeys(_FORMATS, _read_formatted),
}  # fmt: skip


#: What is typed: ``text`` (also of more than one line), a ``number`` or whole ``integer``, ``boolean`` as true or
#: false, one ``choice``, a ``date`` as 2025-07-01, a ``datetime`` as 2025-07-01T12:00:00Z, a ``time``, an ``email``
#: address, a ``url``, ``lines`` (a list of texts, one a line), or any value as ``json``.
FieldKind = Literal[
    "text", "number", "integer", "boolean", "choice", "date", "datetime", "time", "email", "url", "lines", "json"
]

#: The name of the only field, where the output is no object; and where the paths of errors begin.
WHOLE: Final = "output"
_PLAIN: Final[dict[str, FieldKind]] = {"number": "number", "integer": "integer", "boolean": "boolean"}
#: With one of these an object has more, or other, properties than it names.
_COMPOSED: Final = frozenset(
    {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"}
)

#: How many errors one message reports.
_DESCRIBED: Final = 5


class Field(NamedTuple):
    """One field of a form; ``path`` are the keys of its value, none for the whole output.

    ``demanded`` tells for each key whether it is required in its object. ``choices`` are texts, ``values`` their
    values. ``is_nullable``: a blank required field means null. The bounds are of a number, a length, or the lines.
    """

    path: tuple[str, ...]
    kind: FieldKind
    label: str
    description: str = ""
    demanded: tuple[bool, ...] = ()
    choices: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    default: str | None = None
    is_nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None

    @property
    def name(self) -> str:
        """The name under which an answer is given: the keys with dots between; a dot in a key is escaped."""
        return ".".join(part.replace("\\", "\\\\").replace(".", "\\.") for part in self.path) if self.path else WHOLE

    @property
    def pointer(self) -> str:
        """Where the value stands, as a JSON Pointer that begins with ``/output``: the ``path`` of an error."""
        return pointer([WHOLE, *self.path])

    @property
    def is_required(self) -> bool:
        """Whether nothing can be handed in without an answer."""
        may_be_blank = self.is_nullable or (self.kind == "lines" and not self.minimum)
        return all(self.demanded) and not may_be_blank and self.default is None


class _Location(NamedTuple):
    """A place in the output, and the schema of what stands there."""

    path: tuple[str, ...]
    demanded: tuple[bool, ...]
    schema: Mapping[str, Any]


def form_of(schema: Mapping[str, Any] | None) -> tuple[Field, ...]:
    """Return the fields of a form for values of ``schema``, in its order; one field of JSON where it says nothing."""
    root = _Location((), (), schema or {})
    fields: list[Field] = []
    for field in _fields(root):
        if len(fields) == limits.FORM_FIELDS:
            return (_json_field(root),)
        fields.append(field)
    return tuple(fields)


def read_form(fields: Sequence[Field], answers: Mapping[str, str]) -> Any:
    """Return the value of ``answers``, by the names of ``fields``. Raises ValidationError, all errors in details."""
    typed = {name: answer for name, answer in answers.items() if answer.strip()}
    there = {field.path[:end] for field in fields if field.name in typed for end in range(len(field.path) + 1)}
    names = {field.name for field in fields}
    flaws = [
        Violation(pointer([WHOLE, name]), "is no field of this task", sorted(names), None)
        for name in answers
        if name not in names
    ]
    output: dict[str, Any] = {}
    for field in fields:
        holder = _holder(output, field, there)
        if holder is None:
            continue
        answer = typed.get(field.name) if field.name in answers else field.default
        try:
            if answer is not None:
                value = read_answer(answer, field)
            elif not all(field.demanded[-1:]):
                continue
            elif field.is_nullable or (field.kind == "lines" and not field.minimum):
                value = None if field.is_nullable else []
            else:
                flaws.append(Violation(field.pointer, "is required", "a value", shown(None)))
                continue
        except WrongAnswerError as wrong:
            flaws.append(Violation(field.pointer, wrong.message, wrong.expected, wrong.actual))
            continue
        if not field.path:
            return value
        holder[field.path[-1]] = value
    if flaws:
        raise field_mismatch(flaws)
    return output


def text_of(value: object) -> str:
    """Return what a person types for ``value``: a text as it is, every other value as JSON."""
    return value if isinstance(value, str) and value.strip() else json.dumps(value, ensure_ascii=False)


def field_mismatch(flaws: Sequence[Violation]) -> ValidationError:
    """Return the error for an output that cannot be handed in."""
    more = [f"and {len(flaws) - _DESCRIBED} more"] if len(flaws) > _DESCRIBED else []
    described = "; ".join([*(f"{flaw.path} {flaw.message}" for flaw in flaws[:_DESCRIBED]), *more])
    return ValidationError(
        "VALIDATION_ERROR",
        f"the output is not what was asked for: {described}",
        fix="Give each field a value of its kind; skillwire inbox show ID lists them.",
        details={"errors": [flaw._asdict() for flaw in flaws]},
    )


def _holder(output: dict[str, Any], field: Field, there: set[tuple[str, ...]]) -> dict[str, Any] | None:
    """Return the object that holds the field's value; None when it is optional and empty."""
    holder = output
    for end, key in enumerate(field.path[:-1]):
        if not field.demanded[end] and field.path[: end + 1] not in there:
            return None
        holder = holder.setdefault(key, {})
    return holder


def _fields(spot: _Location) -> Iterator[Field]:
    """Yield an object's properties if all that it demands are there and depend on nothing else; else one field."""
    schema, named = spot.schema, spot.schema.get("properties")
    required = _listed(schema, "required")
    if (
        isinstance(named, dict)
        and named
        and schema.get("type", "object") == "object"
        and schema.keys().isdisjoint(_COMPOSED)
        and "default" not in schema
        and all(key in named for key in required)
        and len(spot.path) < limits.FORM_DEPTH
    ):
        for key, inner in named.items():
            own = inner if isinstance(inner, dict) else {}
            yield from _fields(_Location((*spot.path, key), (*spot.demanded, key in required), own))
    else:
        yield _field(spot)


def _field(spot: _Location) -> Field:
    schema = spot.schema
    types = _listed(schema, "type") or [schema.get("type")]
    known = [kind for kind in types if isinstance(kind, str) and kind != "null"]
    is_nullable = "null" in types
    field = _json_field(spot)._replace(is_nullable=is_nullable)
    if allowed := [schema["const"]] if "const" in schema else _listed(schema, "enum"):
        wanted = [value for value in allowed if value is not None or not is_nullable]
        return _with_default(field._replace(kind="choice", choices=_choices(wanted), values=tuple(wanted)), schema)
    if len(known) == 1 and schema.keys().isdisjoint(_COMPOSED):
        field = _of_type(field, known[0], schema)
    return _with_default(field, schema)


def _of_type(field: Field, kind: str, schema: Mapping[str, Any]) -> Field:
    if kind in _PLAIN:
        return _bounded(field._replace(kind=_PLAIN[kind]), schema, "minimum", "maximum")
    if kind == "string":
        form = schema.get("format")
        kind_of_text: FieldKind = next((one for one, (name, _) in _FORMATS.items() if name == form), "text")
        return _bounded(field._replace(kind=kind_of_text), schema, "minLength", "maxLength")
    items = schema.get("items")
    if kind == "array" and isinstance(items, dict) and items.get("type") == "string" and "prefixItems" not in schema:
        allowed = tuple(_listed(items, "enum"))
        if all(isinstance(text, str) and text.strip() and len(text.splitlines()) == 1 for text in allowed):
            lines = field._replace(kind="lines", choices=allowed, values=allowed)
            return _bounded(lines, schema, "minItems", "maxItems")
    return field


def _bounded(field: Field, schema: Mapping[str, Any], low: str, high: str) -> Field:
    least, most = (value if isinstance(value := schema.get(key), int | float) else None for key in (low, high))
    return field._replace(minimum=least, maximum=most)


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []


def _json_field(spot: _Location) -> Field:
    title, description = spot.schema.get("title"), spot.schema.get("description")
    label = title if isinstance(title, str) and title.strip() else " ".join(spot.path) or WHOLE
    about = description if isinstance(description, str) else ""
    return Field(spot.path, "json", label, about, spot.demanded)


def _choices(values: Sequence[Any]) -> tuple[str, ...]:
    texts = tuple(text_of(value) for value in values)
    return texts if len(set(texts)) == len(texts) else tuple(json.dumps(value) for value in values)


def _with_default(field: Field, schema: Mapping[str, Any]) -> Field:
    value = schema.get("default", schema.get("const"))
    if value is None:
        return field
    if field.kind == "choice":
        for text, allowed in zip(field.choices, field.values, strict=True):
            if allowed == value and isinstance(allowed, bool) == isinstance(value, bool):
                return field._replace(default=text)
        return field
    if field.kind == "json":
        return field._replace(default=json.dumps(value, ensure_ascii=False))
    if field.kind == "lines":
        is_lines = isinstance(value, list) and value and all(isinstance(line, str) for line in value)
        return field._replace(default="\n".join(value)) if is_lines else field
    return field._replace(default=text_of(value))


#: Before a person's name where the ledger has the name of a worker.
PERSON: Final = "human:"
_OPEN: Final = (ExecutionStatus.ACCEPTED, ExecutionStatus.RUNNING)
_PAGE: Final = 200
_BEGINNING: Final = re.compile(r"exec-[0-9a-f]{4,44}")
_NAME_LENGTH: Final = 64
_IDENTITY: Final = re.compile(r"#[a-z2-7]{16}\Z")


class Task(NamedTuple):
    """A person's task; ``output`` is the schema of its result, ``about_output`` and ``about_inputs`` explain."""

    title: str
    description: str = ""
    output: Mapping[str, Any] | None = None
    about_output: str = ""
    about_inputs: Mapping[str, str] = {}


def read_task(execution: Execution) -> Task:
    """Return what is asked in a task."""
    task = json.loads(execution.task or b"{}")
    output, about_inputs = task.get("output"), task.get("inputs")
    return Task(
        task.get("title") or execution.skill,
        task.get("description") or "",
        output if isinstance(output, dict) else None,
        task.get("output_description") or "",
        about_inputs if isinstance(about_inputs, dict) else {},
    )


def given_inputs(execution: Execution, task: Task) -> list[tuple[str, Any, str]]:
    """Return name, value and description of each given input, in the order in which the skill declares them."""
    given = json.loads(execution.inputs)
    names = sorted(given, key=[*task.about_inputs, *given].index)
    return [(name, given[name], str(task.about_inputs.get(name) or "")) for name in names]


def person_worker(name: str, identity: str = "") -> str:
    """Return the worker name of a person; identities distinguish two people of one name."""
    return f"{PERSON}{name}#{identity}" if identity else f"{PERSON}{name}"


def person_name(worker: str) -> str:
    """Return a worker as it is shown: a person by the name alone."""
    return _IDENTITY.sub("", worker.removeprefix(PERSON)) if worker.startswith(PERSON) else worker


def holder_of(execution: Execution) -> str | None:
    """Return the name of the person that holds a task."""
    return None if execution.worker is None else person_name(execution.worker)


def check_task_output(task: Execution, output: Any) -> bytes:
    """Return a person's output as JSON. Raises ValidationError with all its errors."""
    flaws = OutputRules(read_task(task).output).find_flaws(output)
    if flaws:
        raise field_mismatch(flaws)
    return json.dumps(output, ensure_ascii=False, separators=(",", ":")).encode()


def rejection(reason: str) -> Failure:
    """Return the failure of a declined task. Raises UsageError (``USAGE``) for a missing or too long reason."""
    reason = reason.strip().replace("\r\n", "\n")
    if not reason or len(reason) > limits.TASK_REASON_LENGTH:
        message = f"a reason has 1 to {limits.TASK_REASON_LENGTH:,} characters"
        raise UsageError("USAGE", message, fix="Say why in a sentence.")
    return Failure("rejected", reason)


class Inbox:
    """The tasks of a ledger, for one person. Raises UsageError (``USAGE``) for an invalid name."""

    def __init__(self, ledger: ExecutionLedger, person: str, clock: Callable[[], Moment]) -> None:
        if not person.strip() or len(person) > _NAME_LENGTH or not person.isprintable():
            raise UsageError("USAGE", f"{ascii(person)[:80]} is no name", fix="A name is a short text of one line.")
        self._ledger = ledger
        self._worker = person_worker(person)
        self._clock = clock

    async def tasks(self, skill: str | None = None) -> list[Execution]:
        """Return the tasks that are open or held, newest first; those of one ``skill`` only."""
        found: list[Execution] = []
        after: str | None = None
        while True:
            query = ExecutionQuery(statuses=_OPEN, skill=skill, executor="human", limit=_PAGE, after=after)
            page = await self._ledger.search(query)
            found += page.executions
            after = page.after
            if after is None:
                return found

    async def look_up(self, which: str) -> Execution:
        """Return a task by its ID, or the only open one with this beginning. Raises NotFoundError, UsageError."""
        found = await self._ledger.find(which)
        if found is not None and found.executor == "human":
            return found
        which = which if which.startswith("exec-") else f"exec-{which}"
        is_beginning = _BEGINNING.fullmatch(which) is not None
        begun = [task for task in await self.tasks() if is_beginning and task.execution_id.startswith(which)]
        if len(begun) > 1:
            raise UsageError("USAGE", f"{len(begun)} tasks begin with {which}", fix="Write more of the ID.")
        if not begun:
            raise NotFoundError("TASK_NOT_FOUND", f"there is no task {ascii(which)[:80]}")
        return begun[0]

    def has(self, task: Execution) -> bool:
        """Whether the person has the task."""
        return not task.status.is_final and task.worker == self._worker

    async def take(self, task: Execution) -> Execution:
        """Claim a task, unless the person has it already. Raises ConflictError (``TASK_TAKEN``, ``TASK_ENDED``)."""
        if self.has(task):
            return task
        taken = await self._ledger.claim_task(task.execution_id, self._worker, self._clock())
        return taken if taken is not None else await self._missed(task.execution_id)

    async def complete(self, task: Execution, output: Any) -> Execution:
        """Hand in the output of a held task. Raises ValidationError, ConflictError (``TASK_TAKEN``, ``TASK_ENDED``)."""
        encoded = check_task_output(task, output)
        return await self._settled(task, is_done=await self._ledger.complete(self._claim(task), encoded, self._clock()))

    async def reject(self, task: Execution, reason: str) -> Execution:
        """Decline a held task; the caller gets the reason. Raises UsageError, ConflictError as :meth:`complete`."""
        return await self._settled(
            task, is_done=await self._ledger.fail(self._claim(task), rejection(reason), self._clock())
        )

    async def release(self, task: Execution) -> Execution:
        """Give back a held task. Raises ConflictError (``TASK_TAKEN``, ``TASK_ENDED``)."""
        return await self._settled(task, is_done=await self._ledger.release(self._claim(task), self._clock()))

    def _claim(self, task: Execution) -> Claim:
        return Claim(task.execution_id, self._worker, task.attempt)

    async def _settled(self, task: Execution, *, is_done: bool) -> Execution:
        found = await self._ledger.find(task.execution_id) if is_done else None
        return found if found is not None else await self._missed(task.execution_id)

    async def _missed(self, execution_id: str) -> Execution:
        """Raise the reason why a person cannot have a task."""
        task = await self._ledger.find(execution_id)
        if task is None or task.status.is_final or task.deadline <= self._clock().wall:
            status = "forgotten" if task is None else task.status.value if task.status.is_final else "past its deadline"
            raise ConflictError("TASK_ENDED", f"the task is {status}", details={"status": status})
        holder = holder_of(task)
        who = "it is open" if holder is None else f"{ascii(holder)[1:-1]} has it"
        raise ConflictError("TASK_TAKEN", f"the task is not yours: {who}", details={"holder": holder})
