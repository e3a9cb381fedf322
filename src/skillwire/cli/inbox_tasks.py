"""How tasks for people are printed, and how their output is read: from the terminal, from arguments or from a file.

Text from callers and skills is untrusted, and printed like any other text from outside.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from skillwire import limits
from skillwire.cli.options import confirm, in_words, shortened, utc_time
from skillwire.cli.output import bold, dim, failure, folded, success, warning
from skillwire.errors import UsageError, ValidationError
from skillwire.executions.task_form import WrongAnswerError, form_of, read_answer, read_form, text_of
from skillwire.executions.tasks import check_task_output, holder_of, read_task
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.cli.documents_run import Did, TaskDocument, TaskField, TaskObject
    from skillwire.cli.output import Output, Part
    from skillwire.executions.task_form import Field
    from skillwire.executions.tasks import Inbox
    from skillwire.model.execution import Execution

_SHORT: Final = len("exec-") + 8  # distinguishes a few thousand tasks
_TITLE: Final = 60  # columns
_URGENT: Final = 0.1  # part of its time; with less left a task is urgent
_EXIT_DECLINED: Final = 1
_KINDS: Final = {
    "boolean": "true or false",
    "integer": "whole number",
    "date": "date such as 2025-07-01",
    "datetime": "time such as 2025-07-01T12:00:00Z",
    "time": "time such as 12:00:00Z",
    "email": "email address",
    "url": "URL",
    "lines": "texts",
    "json": "JSON",
    "choice": "",
}


def short_id(task: Execution) -> str:
    """Return the abbreviated ID of a task; commands accept it."""
    return task.execution_id[:_SHORT]


def print_tasks(output: Output, inbox: Inbox, tasks: Sequence[Execution]) -> None:
    """Print a line for each task, or the JSON document."""
    output.document({"schema": "skillwire/inbox/1", "tasks": [_task_object(inbox, task) for task in tasks]})
    now = time.time()
    output.table(
        [bold(short_id(task)), _state(inbox, task), _due(task, now), shortened(read_task(task).title, _TITLE)]
        for task in tasks
    )
    if not tasks:
        output.note("there are no open tasks")


def print_task(say: Callable[..., None], inbox: Inbox, task: Execution) -> None:
    """Print a task in full."""
    details, now = read_task(task), time.time()
    say(bold(details.title))
    for line in details.description.splitlines():
        say(line)
    rows: list[tuple[str, list[Part]]] = [
        ("id", [task.execution_id]),
        ("skill", [f"{task.skill} {task.version}"]),
        ("asked", [f"{utc_time(task.created)}, by {task.caller_id}(unverified name)"]),
        ("state", [_state(inbox, task)]),
        ("due", [utc_time(task.deadline), ", ", _due(task, now)]),
    ]
    if task.priority != "normal":
        rows.append(("priority", [warning(task.priority.value)]))
    for label, parts in rows:
        say(dim(f"  {label:<9}"), *parts)
    inputs = json.loads(task.inputs)
    if inputs:
        say("given:")
    for name, value in inputs.items():
        about = details.about_inputs.get(name)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        say(f"  {name}: ", bold(text), dim(f"  {about}") if about else "")
    if not task.status.is_final:
        say("output to submit:", dim(f" {details.about_output}") if details.about_output else "")
        for field in form_of(details.output):
            about = field.description or (field.label if field.label != field.name else "")
            required = ", required" if field.is_required else ""
            say(f"  {field.name}", dim(f" ({_describe(field)}{required})"), f"  {about}" if about else "")


def _describe(field: Field) -> str:
    """Return a description of a field's valid values."""
    return ", ".join(filter(None, [_KINDS.get(field.kind, field.kind), " | ".join(field.choices), _range(field)]))


def task_document(inbox: Inbox, task: Execution, did: Did, *, dry_run: bool) -> TaskDocument:
    """Return the document of a task."""
    details = read_task(task)
    return {
        "schema": "skillwire/task/1",
        "dry_run": dry_run,
        "did": did,
        "task": _task_object(inbox, task),
        "inputs": json.loads(task.inputs),
        "output_schema": details.output,
        "fields": [_field_object(field) for field in form_of(details.output)],
    }


def _task_object(inbox: Inbox, task: Execution) -> TaskObject:
    details = read_task(task)
    return {
        "id": task.execution_id,
        "skill": task.skill,
        "version": task.version,
        "title": details.title,
        "description": details.description,
        "status": task.status.value,
        "held_by": holder_of(task),
        "mine": inbox.has(task),
        "priority": task.priority.value,
        "caller": task.caller_id,
        "created_at": utc_time(task.created),
        "due_at": utc_time(task.deadline),
    }


def _field_object(field: Field) -> TaskField:
    return {
        "name": field.name,
        "kind": field.kind,
        "label": field.label,
        "description": field.description,
        "required": field.is_required,
        "choices": list(field.choices),
        "default": field.default,
    }


def _range(field: Field) -> str:
    unit = {"text": " characters", "lines": " of them"}.get(field.kind, "")
    low, high = None if unit and not field.minimum else field.minimum, field.maximum
    if low is not None and high is not None:
        return f"{low} to {high}{unit}"
    if high is not None:
        return f"at most {high}{unit}"
    return "" if low is None else f"at least {low}{unit}"


def _state(inbox: Inbox, task: Execution) -> Part:
    holder = holder_of(task)
    if task.status.is_final:
        return dim(task.status.value)
    if inbox.has(task):
        return warning("yours")
    return success("free") if holder is None else dim(f"{holder} has it")


def _due(task: Execution, now: float) -> Part:
    left = task.deadline - now
    if task.status.is_final:
        return dim("ended")
    if left <= 0:
        return failure("too late")
    words = f"{in_words(left)} left"
    return warning(words) if left < task.timeout * _URGENT else words


def read_arguments(task: Execution, arguments: Sequence[str]) -> Any:
    """Return the output given as ``FIELD=VALUE``; a repeated field has several lines."""
    answers: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals:
            raise UsageError("USAGE", f"{ascii(argument)[:60]} is not FIELD=VALUE", fix="Write it as FIELD=VALUE.")
        answers[name] = f"{answers[name]}\n{value}" if name in answers else value
    return read_form(form_of(read_task(task).output), answers)


def read_json(source: BinaryIO) -> Any:
    """Return the output in a JSON file."""
    data = source.read(limits.EXECUTION_OUTPUT_BYTES + 1)
    return load_json(data, max_bytes=limits.EXECUTION_OUTPUT_BYTES, source=str(getattr(source, "name", "JSON")))


def ask(output: Output, inbox: Inbox, task: Execution) -> Any:
    """Print a task, ask for each field until all are valid, and for confirmation; return the output."""
    print_task(output.note, inbox, task)
    output.note(dim("Press Enter to accept the value in brackets or to skip a field; Ctrl-C stops."))
    fields = form_of(read_task(task).output)
    answers: dict[str, str] = {}
    open_fields: Sequence[Field] = fields
    while True:
        for field in open_fields:
            answers[field.name] = _ask_field(output, field)
        try:
            value = read_form(fields, answers)
            check_task_output(task, value)
        except ValidationError as error:
            open_fields = _invalid_fields(output, fields, error)
            continue
        break
    for name, answer in (value if isinstance(value, dict) else {"output": value}).items():
        output.note(f"  {name}: ", bold(text_of(answer)))
    if not confirm("Submit this?"):
        output.note("nothing was submitted")
        raise click.exceptions.Exit(_EXIT_DECLINED)
    return value


def _ask_field(output: Output, field: Field) -> str:
    """Ask until the value is valid, or blank for an optional field."""
    if field.description:
        output.note(dim(field.description))
    while True:
        answer = _ask_lines(field) if field.kind == "lines" else _prompt(field, field.default or "")
        if not answer.strip():
            if not field.is_required:
                return ""
            output.note(failure("is required"))
            continue
        try:
            read_answer(answer, field)
        except WrongAnswerError as wrong:
            output.note(failure(wrong.message))
            continue
        return answer


def _ask_lines(field: Field) -> str:
    """Ask for lines until a blank one; a blank first line takes the default."""
    lines: list[str] = []
    while line := _prompt(field, "", again=bool(lines)).strip():
        lines.append(line)
    return "\n".join(lines) or field.default or ""


def _prompt(field: Field, default: str, *, again: bool = False) -> str:
    words = "one more" if again else _describe(field)
    shown = f" [{default}]" if default else ""
    text = folded(f"{field.label} ({words}){shown}")
    return str(click.prompt(text, default=default, show_default=False, err=True))


def _invalid_fields(output: Output, fields: Sequence[Field], error: ValidationError) -> Sequence[Field]:
    """Print the violations, and return the fields to ask for again."""
    violations: Any = error.details["errors"]
    for violation in violations:
        output.note(failure(f"{violation['path'].removeprefix('/output') or '/'} {violation['message']}"))
    paths = [f"{violation['path']}/" for violation in violations]
    return [field for field in fields if any(path.startswith(f"{field.pointer}/") for path in paths)] or fields
