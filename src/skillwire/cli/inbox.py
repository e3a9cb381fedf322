"""``skillwire inbox``: tasks that skills ask of people, worked on at the machine that serves them.

It works on the ledger in the state directory, beside a server that runs or without one, and claims under a name that
people know each other by. On a terminal ``complete`` asks for what a task wants, field by field; scripts say it in
arguments, or hand in JSON.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from skillwire.cli.output import good, output_options, strong
from skillwire.cli.parts import PartsOrList
from skillwire.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.cli.output import Output
    from skillwire.invocation.inbox import Inbox
    from skillwire.model.execution import Execution


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
    from skillwire.cli.inbox_tell import tell_tasks  # noqa: PLC0415  # --help does without

    inbox = _open(person)
    tasks = sorted(inbox.tasks(skill), key=lambda task: task.deadline) if _is_there() else []
    tell_tasks(output, inbox, tasks)


@command.command()
@click.argument("task_id", metavar="ID")
@_name_option
@output_options
def show(*, output: Output, task_id: str, person: str | None) -> None:
    """Show a task: what is asked, by whom and until when, what is given, and what is to be handed in."""
    from skillwire.cli.inbox_tell import tell_task  # noqa: PLC0415  # --help does without

    inbox, task = _find(task_id, person)
    _document(output, inbox, "shown", task)
    tell_task(output.line, inbox, task)


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
    from skillwire.cli.inbox_form import ask, read_arguments, read_json  # noqa: PLC0415  # --help does without

    if answers and source is not None:
        raise UsageError("USAGE", "FIELD=VALUE and --output exclude each other", fix="Give one of the two.")
    inbox, task = _find(task_id, person)
    if source is not None or answers:
        value = read_json(source) if source is not None else read_arguments(task, answers)
        from skillwire.invocation.inbox import handed_in  # noqa: PLC0415  # same

        handed_in(task, value)
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
    from skillwire.invocation.inbox import declined  # noqa: PLC0415  # same

    declined(reason)
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
    from skillwire.cli.person import login_name  # noqa: PLC0415  # same
    from skillwire.invocation.inbox import Inbox  # noqa: PLC0415  # same

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
        from skillwire.cli.inbox_tell import task_document  # noqa: PLC0415  # as above

        output.document("task/1", {"dry_run": dry_run, "did": did, **task_document(inbox, task)})


def _told(output: Output, inbox: Inbox, did: str, task: Execution, *, dry_run: bool = False) -> None:
    from skillwire.cli.inbox_tell import short_id  # noqa: PLC0415  # as above
    from skillwire.invocation.inbox import read_task  # noqa: PLC0415  # same

    _document(output, inbox, did, task, dry_run=dry_run)
    verb = f"would be {did} " if dry_run else f"{did} "
    output.line(good(verb), strong(short_id(task)), f"  {read_task(task).title}")
