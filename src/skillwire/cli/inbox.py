"""How ``skillwire inbox`` tells of tasks: as a list, one in full, and as JSON.

What a caller typed and what a skill says are strangers' words; they are printed like any other text from outside.

What a person hands in: asked for on the terminal, field by field; or read from arguments, or from a file.

``skillwire inbox``: tasks that skills ask of people, worked on at the machine that serves them.

It works on the ledger in the state directory, beside a server that runs or without one, and claims under a name that
people know each other by. On a terminal ``complete`` asks for what a task wants, field by field; scripts say it in
arguments, or hand in JSON.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from skillwire import limits
from skillwire.cli.options import PartsOrList, confirm, in_words, shortened
from skillwire.cli.output import bad, bold, dim, doubtful, folded, good, output_options
from skillwire.errors import UsageError, ValidationError
from skillwire.executions.task_form import WrongAnswerError, form_of, read_answer, read_form, text_of
from skillwire.executions.tasks import check_task_output, holder_of, read_task
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from skillwire.cli.output import Output, Part
    from skillwire.executions.task_form import Field
    from skillwire.executions.tasks import Inbox
    from skillwire.model.execution import Execution


#: As much of an ID as tells a few thousand tasks apart.
_SHORT: Final = len("exec-") + 8
_TITLE: Final = 60  # columns
#: With less than this part of its time left a task is urgent.
_URGENT: Final = 0.1


def short_id(task: Execution) -> str:
    """Return how a task is called in lists; commands take it for the whole ID."""
    return task.execution_id[:_SHORT]


def print_tasks(output: Output, inbox: Inbox, tasks: Sequence[Execution]) -> None:
    """Print a line for each task, or a document with all of them."""
    output.document("inbox/1", {"tasks": [task_object(inbox, task) for task in tasks]})
    now = time.time()
    output.table(
        [bold(short_id(task)), _state(inbox, task), _due(task, now), shortened(read_task(task).title, _TITLE)]
        for task in tasks
    )
    if not tasks:
        output.note("no task waits for a person")


def print_task(say: Callable[..., None], inbox: Inbox, task: Execution) -> None:
    """Print all that somebody needs to know who works on a task."""
    told, now = read_task(task), time.time()
    say(bold(told.title))
    for line in told.description.splitlines():
        say(line)
    rows: list[tuple[str, list[Part]]] = [
        ("id", [task.execution_id]),
        ("skill", [f"{task.skill} {task.version}"]),
        ("asked", [f"{_moment(task.created)}, by {task.caller_id}, as it calls itself"]),
        ("state", [_state(inbox, task)]),
        ("due", [_moment(task.deadline), ", ", _due(task, now)]),
    ]
    if task.priority != "normal":
        rows.append(("priority", [doubtful(task.priority.value)]))
    for label, parts in rows:
        say(dim(f"  {label:<9}"), *parts)
    inputs = json.loads(task.inputs)
    if inputs:
        say("given:")
    for name, value in inputs.items():
        about = told.about_inputs.get(name)
        say(f"  {name}: ", bold(_as_text(value)), dim(f"  {about}") if about else "")
    if not task.status.is_final:
        say("to be handed in:", dim(f" {told.about_output}") if told.about_output else "")
        for field in form_of(told.output):
            say(*_field_line(field))


def describe(field: Field) -> str:
    """Return what may be typed into a field, in words."""
    words = {
        "text": "text",
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
    kind = words.get(field.kind, field.kind)
    return ", ".join(filter(None, [kind, " | ".join(field.choices), _range(field)]))


def task_document(inbox: Inbox, task: Execution) -> dict[str, Any]:
    """Return a task for ``--json``, with what is given and what is asked for."""
    told = read_task(task)
    return {
        "task": task_object(inbox, task),
        "inputs": json.loads(task.inputs),
        "output_schema": told.output,
        "fields": [_field_object(field) for field in form_of(told.output)],
    }


def task_object(inbox: Inbox, task: Execution) -> dict[str, Any]:
    """Return what lists say of a task for ``--json``."""
    told = read_task(task)
    return {
        "id": task.execution_id,
        "skill": task.skill,
        "version": task.version,
        "title": told.title,
        "description": told.description,
        "status": task.status.value,
        "held_by": holder_of(task),
        "mine": inbox.has(task),
        "priority": task.priority.value,
        "caller": task.caller_id,
        "created_at": _moment(task.created),
        "due_at": _moment(task.deadline),
    }


def _field_object(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "kind": field.kind,
        "label": field.label,
        "description": field.description,
        "required": field.is_required,
        "choices": list(field.choices),
        "default": field.default,
    }


def _field_line(field: Field) -> Iterator[Part]:
    yield f"  {field.name}"
    yield dim(f" ({describe(field)}{', required' if field.is_required else ''})")
    about = field.description or (field.label if field.label != field.name else "")
    yield f"  {about}" if about else ""


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
        return doubtful("yours")
    return good("free") if holder is None else dim(f"{holder} has it")


def _due(task: Execution, now: float) -> Part:
    left = task.deadline - now
    if task.status.is_final:
        return dim("ended")
    if left <= 0:
        return bad("too late")
    words = f"{in_words(left)} left"
    return doubtful(words) if left < task.timeout * _URGENT else words


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_EXIT_DECLINED: Final = 1


def read_arguments(task: Execution, arguments: Sequence[str]) -> Any:
    """Return the output that ``FIELD=VALUE`` spell; a field that is given several times has several lines.

    Raises:
        UsageError: ``USAGE``. ValidationError: ``VALIDATION_ERROR``.
    """
    answers: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals:
            raise UsageError("USAGE", f"{ascii(argument)[:60]} is no FIELD=VALUE", fix="Write it as FIELD=VALUE.")
        answers[name] = f"{answers[name]}\n{value}" if name in answers else value
    return read_form(form_of(read_task(task).output), answers)


def read_json(source: BinaryIO) -> Any:
    """Return the output that a file holds.

    Raises:
        DecodeError: ``LIMIT_SIZE``, or one of the ``JSON_...`` codes.
    """
    data = source.read(limits.EXECUTION_OUTPUT_BYTES + 1)
    return load_json(data, max_bytes=limits.EXECUTION_OUTPUT_BYTES, source=str(getattr(source, "name", "JSON")))


def ask(output: Output, inbox: Inbox, task: Execution) -> Any:
    """Show a task, ask for each field until all of them fit, and whether to hand that in; return the output.

    Raises:
        click.exceptions.Exit: it is not to be handed in.
    """
    print_task(output.note, inbox, task)
    output.note(dim("Enter alone takes what stands in brackets, or leaves a field out; Ctrl-C ends."))
    fields = form_of(read_task(task).output)
    answers: dict[str, str] = {}
    wanted: Sequence[Field] = fields
    while True:
        for field in wanted:
            answers[field.name] = _ask_field(output, field)
        try:
            value = read_form(fields, answers)
            check_task_output(task, value)
        except ValidationError as error:
            wanted = _to_ask_again(output, fields, error)
            continue
        break
    for name, answer in _lines(value):
        output.note(f"  {name}: ", bold(answer))
    if not confirm("Hand this in?"):
        output.note("nothing was handed in")
        raise click.exceptions.Exit(_EXIT_DECLINED)
    return value


def _ask_field(output: Output, field: Field) -> str:
    """Ask until the answer fits, or is left blank where it may be."""
    about = field.description
    if about:
        output.note(dim(about))
    while True:
        answer = _ask_lines(field) if field.kind == "lines" else _prompt(field, field.default or "")
        if not answer.strip():
            if not field.is_required:
                return ""
            output.note(bad("is required"))
            continue
        try:
            read_answer(answer, field)
        except WrongAnswerError as wrong:
            output.note(bad(wrong.message))
            continue
        return answer


def _ask_lines(field: Field) -> str:
    """Ask for one line after the other; a blank one is the last. Blank at once takes the default."""
    lines: list[str] = []
    while line := _prompt(field, "", again=bool(lines)).strip():
        lines.append(line)
    return "\n".join(lines) or field.default or ""


def _prompt(field: Field, default: str, *, again: bool = False) -> str:
    words = "one more" if again else describe(field)
    shown = f" [{default}]" if default else ""
    text = folded(f"{field.label} ({words}){shown}")
    return str(click.prompt(text, default=default, show_default=False, err=True))


def _to_ask_again(output: Output, fields: Sequence[Field], error: ValidationError) -> Sequence[Field]:
    """Say what does not fit, and return the fields that it is about; every one when it is about none."""
    found: Any = error.details["errors"]
    for flaw in found:
        output.note(bad(f"{flaw['path'].removeprefix('/output') or '/'} {flaw['message']}"))
    paths = {flaw["path"] for flaw in found}
    return [field for field in fields if any(_is_about(path, field) for path in paths)] or fields


def _is_about(path: str, field: Field) -> bool:
    return path == field.pointer or path.startswith(f"{field.pointer}/")


def _lines(value: Any) -> Sequence[tuple[str, str]]:
    """Return an output as lines for people: a row for each property."""
    rows: Mapping[str, Any] = value if isinstance(value, dict) else {"output": value}
    return [(name, text_of(inner)) for name, inner in rows.items()]


def _name_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--as", "person", metavar="NAME", help="Who you are; your login name without it.")(command)


def _dry_run_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--dry-run", is_flag=True, help="Check everything, change nothing.")(command)


@click.group(cls=PartsOrList)
def command() -> None:
    """List the tasks that wait for a person, and work on them. Without a command it lists.

    They belong to the state directory, so run it as the user who runs the server. An ID may be cut short, as the list
    shows it.
    """


@command.command(name="list")
@click.option("--skill", metavar="NAME", help="Only tasks of this skill.")
@_name_option
@output_options
def list_(*, output: Output, skill: str | None, person: str | None) -> None:
    """List the tasks that wait or are worked on, the most urgent first."""
    inbox = _open(person)
    tasks = sorted(inbox.tasks(skill), key=lambda task: task.deadline) if _is_there() else []
    print_tasks(output, inbox, tasks)


@command.command()
@click.argument("task_id", metavar="ID")
@_name_option
@output_options
def show(*, output: Output, task_id: str, person: str | None) -> None:
    """Show a task: what is asked, by whom and until when, what is given, and what is to be handed in."""
    inbox, task = _find(task_id, person)
    _document(output, inbox, "shown", task)
    print_task(output.line, inbox, task)


@command.command()
@click.argument("task_id", metavar="ID")
@_name_option
@output_options
def claim(*, output: Output, task_id: str, person: str | None) -> None:
    """Take a task, so that nobody else works on it."""
    inbox, task = _find(task_id, person)
    _told(output, inbox, "claimed", inbox.take(task))


@command.command()
@click.argument("task_id", metavar="ID")
@_name_option
@output_options
def release(*, output: Output, task_id: str, person: str | None) -> None:
    """Give a task back that you have claimed, for somebody else to take."""
    inbox, task = _find(task_id, person)
    _told(output, inbox, "released", inbox.release(task))


@command.command()
@click.argument("task_id", metavar="ID")
@click.argument("answers", metavar="FIELD=VALUE...", nargs=-1)
@click.option(
    "--output", "source", metavar="FILE", type=click.File("rb"), help="The whole output as JSON; - is standard input."
)
@_name_option
@_dry_run_option
@output_options
def complete(
    *, output: Output, task_id: str, answers: tuple[str, ...], source: Any, person: str | None, dry_run: bool
) -> None:
    """Hand in what a task asks for, and end it. What nobody has is claimed first.

    Without a FIELD=VALUE a terminal asks field by field. For a list give its field several times.
    """
    if answers and source is not None:
        raise UsageError("USAGE", "FIELD=VALUE and --output exclude each other", fix="Give one of the two.")
    inbox, task = _find(task_id, person)
    if source is not None or answers:
        value = read_json(source) if source is not None else read_arguments(task, answers)

        check_task_output(task, value)
        if not dry_run:
            task = inbox.take(task)
    elif not _can_ask(output):
        raise UsageError("USAGE", "nothing to hand in", fix="Give FIELD=VALUE, or JSON with --output FILE.")
    else:
        value = _ask_while_held(inbox, task, lambda held: ask(output, inbox, held), keep=not dry_run)
        task = inbox.look_up(task.execution_id)
    _told(output, inbox, "completed", task if dry_run else inbox.complete(task, value), dry_run=dry_run)


@command.command()
@click.argument("task_id", metavar="ID")
@click.option("--reason", metavar="TEXT", required=True, help="Why; the caller is told.")
@_name_option
@_dry_run_option
@output_options
def reject(*, output: Output, task_id: str, reason: str, person: str | None, dry_run: bool) -> None:
    """Decline a task, and end it as failed. What nobody has is claimed first."""
    from skillwire.executions.tasks import rejection  # noqa: PLC0415  # same

    rejection(reason)
    inbox, task = _find(task_id, person)
    task = task if dry_run else inbox.reject(inbox.take(task), reason)
    _told(output, inbox, "rejected", task, dry_run=dry_run)


def _ask_while_held(inbox: Inbox, task: Execution, ask: Callable[[Execution], Any], *, keep: bool) -> Any:
    """Claim a task while somebody types, so that nobody else does the same work; as before when nothing comes of it."""
    was_held = inbox.has(task)
    held = inbox.take(task)
    is_done = False
    try:
        value = ask(held)
        is_done = keep
    finally:
        if not (is_done or was_held):
            inbox.release(held)
    return value


def _can_ask(output: Output) -> bool:
    return not (output.as_json or output.quiet) and sys.stdin.isatty() and sys.stderr.isatty()


def _open(person: str | None) -> Inbox:
    from skillwire.adapters.clock import moment  # noqa: PLC0415  # same
    from skillwire.adapters.sqlite.open import open_ledger  # noqa: PLC0415  # --help does without
    from skillwire.cli.options import login_name  # noqa: PLC0415  # same
    from skillwire.executions.tasks import Inbox  # noqa: PLC0415  # same

    return Inbox(open_ledger(), login_name() if person is None else person, moment)


def _is_there() -> bool:
    from skillwire.adapters.sqlite.open import has_database  # noqa: PLC0415  # as above

    return has_database()


def _find(task_id: str, person: str | None) -> tuple[Inbox, Execution]:
    """Return the inbox and a task in it; without making any where there is none."""
    from skillwire.errors import NotFoundError  # noqa: PLC0415  # as above

    inbox = _open(person)
    if not _is_there():
        raise NotFoundError("TASK_NOT_FOUND", f"there is no task {ascii(task_id)[:80]}")
    return inbox, inbox.look_up(task_id)


def _document(output: Output, inbox: Inbox, did: str, task: Execution, *, dry_run: bool = False) -> None:
    if output.as_json:
        output.document("task/1", {"dry_run": dry_run, "did": did, **task_document(inbox, task)})


def _told(output: Output, inbox: Inbox, did: str, task: Execution, *, dry_run: bool = False) -> None:

    _document(output, inbox, did, task, dry_run=dry_run)
    verb = f"would be {did} " if dry_run else f"{did} "
    output.line(good(verb), bold(short_id(task)), f"  {read_task(task).title}")
