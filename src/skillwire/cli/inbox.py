"""``skillwire inbox``: tasks for people, on the machine that serves the skills.

The commands use the ledger in the state directory, with or without a running server, and claim tasks under a person's
name. On a terminal ``complete`` asks for each field; scripts pass arguments or JSON. Text from callers and skills is
untrusted, and printed like any other text from outside.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from skillwire import limits
from skillwire.cli.options import (
    GroupWithDefaultList,
    LazyModule,
    can_ask,
    chosen_stores,
    confirm,
    in_words,
    login_name,
    run_async,
    shortened,
    store_option,
    utc_time,
)
from skillwire.cli.output import Output, Part, bold, dim, failure, folded, output_options, success, warning
from skillwire.errors import NotFoundError, UsageError, ValidationError
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.cli.documents_run import Did, TaskDocument, TaskObject
    from skillwire.executions import tasks
    from skillwire.executions.tasks import Field, Inbox
    from skillwire.model.execution import Execution
else:  # load msgspec
    tasks = LazyModule("executions.tasks")

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

_name_option = click.option(
    "--as", "person", metavar="NAME", help="Your name in the inbox; your login name by default."
)
_dry_run_option = click.option("--dry-run", is_flag=True, help="Check everything, and change nothing.")
_task = click.argument("task_id", metavar="ID")


@click.group(cls=GroupWithDefaultList)
def command() -> None:
    """List and complete the tasks that wait for a person. Without a command it lists.

    Tasks are stored in the state directory, so run this as the user who runs the server. An ID may be abbreviated as in
    the list.
    """


@command.command(name="list")
@click.option("--skill", metavar="NAME", help="Only tasks of this skill.")
@_name_option
@store_option
@output_options
def list_(*, output: Output, skill: str | None, person: str | None) -> None:
    """List the open tasks, by priority and due time."""
    inbox, has_tasks = _open(person)
    order = ["high", "normal", "low"]
    found = run_async(inbox.tasks(skill)) if has_tasks else []
    found.sort(key=lambda task: (order.index(task.priority.value), task.deadline))
    output.document({"schema": "skillwire/inbox/1", "tasks": [_task_object(inbox, task) for task in found]})
    now, rows = time.time(), []
    is_ranked = any(task.priority != "normal" for task in found)
    for task in found:
        priority = task.priority.value
        rank = [warning(priority) if priority == "high" else dim(priority)] if is_ranked else []
        title = shortened(tasks.read_task(task).title, _TITLE)
        rows.append([bold(_short_id(task)), _state(inbox, task), _due(task, now), *rank, title])
    output.table(rows)
    if not found:
        output.note("there are no open tasks")


@command.command()
@_task
@_name_option
@store_option
@output_options
def show(*, output: Output, task_id: str, person: str | None) -> None:
    """Show a task: its request, caller, deadline, inputs and output fields."""
    inbox, task = _find(task_id, person)
    output.document(_task_document(inbox, task, "shown", dry_run=False))
    _print_task(output.line, inbox, task)


@command.command()
@_task
@_name_option
@store_option
@output_options
def claim(*, output: Output, task_id: str, person: str | None) -> None:
    """Claim a task, so that no other person works on it."""
    inbox, task = _find(task_id, person)
    _print_done(output, inbox, "claimed", run_async(inbox.take(task)))


@command.command()
@_task
@_name_option
@store_option
@output_options
def release(*, output: Output, task_id: str, person: str | None) -> None:
    """Release a claimed task for other people."""
    inbox, task = _find(task_id, person)
    _print_done(output, inbox, "released", run_async(inbox.release(task)))


@command.command()
@_task
@click.argument("answers", metavar="FIELD=VALUE...", nargs=-1)
@click.option(
    "--output", "source", metavar="FILE", type=click.File("rb"), help="The whole output as JSON; - is standard input."
)
@_name_option
@_dry_run_option
@store_option
@output_options
def complete(
    *, output: Output, task_id: str, answers: tuple[str, ...], source: Any, person: str | None, dry_run: bool
) -> None:
    """Submit the output of a task and complete it. An unclaimed task is claimed first.

    Without FIELD=VALUE, the terminal asks for each field. For a list, repeat its field.
    """
    if answers and source is not None:
        raise UsageError("USAGE", "FIELD=VALUE and --output conflict", fix="Give one of the two.")
    inbox, task = _find(task_id, person)
    if source is not None or answers:
        value = _read_json(source) if source is not None else _read_arguments(task, answers)
        tasks.check_task_output(task, value)
        if not dry_run:
            task = run_async(inbox.take(task))
    elif not can_ask(output):
        raise UsageError("USAGE", "there is no output to submit", fix="Give FIELD=VALUE, or JSON with --output FILE.")
    else:
        value = _ask_while_claimed(output, inbox, task, keep=not dry_run)
        task = run_async(inbox.look_up(task.execution_id))
    if not dry_run:
        task = run_async(inbox.complete(task, value))
    _print_done(output, inbox, "completed", task, dry_run=dry_run)


@command.command()
@_task
@click.option("--reason", metavar="TEXT", required=True, help="Reason for the caller.")
@_name_option
@_dry_run_option
@store_option
@output_options
def reject(*, output: Output, task_id: str, reason: str, person: str | None, dry_run: bool) -> None:
    """Reject a task, which then fails. An unclaimed task is claimed first."""
    tasks.rejection(reason)
    inbox, task = _find(task_id, person)
    task = task if dry_run else run_async(inbox.reject(run_async(inbox.take(task)), reason))
    _print_done(output, inbox, "rejected", task, dry_run=dry_run)


def _ask_while_claimed(output: Output, inbox: Inbox, task: Execution, *, keep: bool) -> Any:
    """Claim a task while the user types; release it again if nothing is submitted."""
    was_claimed = inbox.has(task)
    claimed = run_async(inbox.take(task))
    is_done = False
    try:
        value = _ask(output, inbox, claimed)
        is_done = keep
    finally:
        if not (is_done or was_claimed):
            run_async(inbox.release(claimed))
    return value


def _open(person: str | None) -> tuple[Inbox, bool]:
    """Return the inbox of a person, and whether there is a database, which is not created."""
    stores = chosen_stores()
    inbox = tasks.Inbox(stores.ledger, login_name() if person is None else person, stores.clock)
    return inbox, stores.exists


def _find(task_id: str, person: str | None) -> tuple[Inbox, Execution]:
    inbox, has_tasks = _open(person)
    if not has_tasks:
        raise NotFoundError("TASK_NOT_FOUND", f"there is no task {ascii(task_id)[:80]}")
    return inbox, run_async(inbox.look_up(task_id))


def _print_done(output: Output, inbox: Inbox, did: Did, task: Execution, *, dry_run: bool = False) -> None:
    output.document(_task_document(inbox, task, did, dry_run=dry_run))
    verb = f"would be {did} " if dry_run else f"{did} "
    output.line(success(verb), bold(_short_id(task)), f"  {tasks.read_task(task).title}")


def _short_id(task: Execution) -> str:
    """Return the abbreviated ID of a task; commands accept it."""
    return task.execution_id[:_SHORT]


def _print_task(say: Callable[..., None], inbox: Inbox, task: Execution) -> None:
    details, now = tasks.read_task(task), time.time()
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
    inputs = tasks.given_inputs(task, details)
    if inputs:
        say("given:")
    for name, value, about in inputs:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        say(f"  {name}: ", bold(text), dim(f"  {about}") if about else "")
    if not task.status.is_final:
        say("output to submit:", dim(f" {details.about_output}") if details.about_output else "")
        for field in tasks.form_of(details.output):
            about = field.description or (field.label if field.label != field.name else "")
            required = ", required" if field.is_required else ""
            say(f"  {field.name}", dim(f" ({_describe(field)}{required})"), f"  {about}" if about else "")


def _describe(field: Field) -> str:
    return ", ".join(filter(None, [_KINDS.get(field.kind, field.kind), " | ".join(field.choices), _range(field)]))


def _task_document(inbox: Inbox, task: Execution, did: Did, *, dry_run: bool) -> TaskDocument:
    details = tasks.read_task(task)
    return {
        "schema": "skillwire/task/1",
        "dry_run": dry_run,
        "did": did,
        "task": _task_object(inbox, task),
        "inputs": json.loads(task.inputs),
        "output_schema": details.output,
        "fields": [
            {
                "name": field.name,
                "kind": field.kind,
                "label": field.label,
                "description": field.description,
                "required": field.is_required,
                "choices": list(field.choices),
                "default": field.default,
            }
            for field in tasks.form_of(details.output)
        ],
    }


def _task_object(inbox: Inbox, task: Execution) -> TaskObject:
    details = tasks.read_task(task)
    return {
        "id": task.execution_id,
        "skill": task.skill,
        "version": task.version,
        "title": details.title,
        "description": details.description,
        "status": task.status,
        "held_by": tasks.holder_of(task),
        "mine": inbox.has(task),
        "priority": task.priority,
        "caller": task.caller_id,
        "created_at": utc_time(task.created),
        "due_at": utc_time(task.deadline),
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
    holder = tasks.holder_of(task)
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


def _read_arguments(task: Execution, arguments: Sequence[str]) -> Any:
    """Return the output given as ``FIELD=VALUE``; a repeated field has several lines."""
    answers: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals:
            raise UsageError("USAGE", f"{ascii(argument)[:60]} is not FIELD=VALUE", fix="Write it as FIELD=VALUE.")
        answers[name] = f"{answers[name]}\n{value}" if name in answers else value
    return tasks.read_form(tasks.form_of(tasks.read_task(task).output), answers)


def _read_json(source: BinaryIO) -> Any:
    data = source.read(limits.EXECUTION_OUTPUT_BYTES + 1)
    return load_json(data, max_bytes=limits.EXECUTION_OUTPUT_BYTES, source=str(getattr(source, "name", "JSON")))


def _ask(output: Output, inbox: Inbox, task: Execution) -> Any:
    """Print a task, ask for each field until all are valid, and for confirmation; return the output."""
    _print_task(output.note, inbox, task)
    output.note(dim("Press Enter to accept the value in brackets or to skip a field; Ctrl-C stops."))
    fields = tasks.form_of(tasks.read_task(task).output)
    answers: dict[str, str] = {}
    open_fields: Sequence[Field] = fields
    while True:
        for field in open_fields:
            answers[field.name] = _ask_field(output, field)
        try:
            value = tasks.read_form(fields, answers)
            tasks.check_task_output(task, value)
        except ValidationError as error:
            open_fields = _invalid_fields(output, fields, error)
            continue
        break
    for name, answer in (value if isinstance(value, dict) else {"output": value}).items():
        output.note(f"  {name}: ", bold(tasks.text_of(answer)))
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
            tasks.read_answer(answer, field)
        except tasks.WrongAnswerError as wrong:
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
