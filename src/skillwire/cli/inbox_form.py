"""What a person hands in: asked for on the terminal, field by field; or read from arguments, or from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from skillwire import limits
from skillwire.cli.client_options import confirm
from skillwire.cli.inbox_tell import describe, tell_task
from skillwire.cli.output import bad, faint, folded, strong
from skillwire.errors import UsageError, ValidationError
from skillwire.invocation.answers import WrongAnswerError, read_answer
from skillwire.invocation.forms import form_of, read_form, text_of
from skillwire.invocation.inbox import handed_in, read_task
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.cli.output import Output
    from skillwire.invocation.forms import Field
    from skillwire.invocation.inbox import Inbox
    from skillwire.model.execution import Execution

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
    tell_task(output.note, inbox, task)
    output.note(faint("Enter alone takes what stands in brackets, or leaves a field out; Ctrl-C ends."))
    fields = form_of(read_task(task).output)
    answers: dict[str, str] = {}
    wanted: Sequence[Field] = fields
    while True:
        for field in wanted:
            answers[field.name] = _ask_field(output, field)
        try:
            value = read_form(fields, answers)
            handed_in(task, value)
        except ValidationError as error:
            wanted = _to_ask_again(output, fields, error)
            continue
        break
    for name, answer in _lines(value):
        output.note(f"  {name}: ", strong(answer))
    if not confirm("Hand this in?"):
        output.note("nothing was handed in")
        raise click.exceptions.Exit(_EXIT_DECLINED)
    return value


def _ask_field(output: Output, field: Field) -> str:
    """Ask until the answer fits, or is left blank where it may be."""
    about = field.description
    if about:
        output.note(faint(about))
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
