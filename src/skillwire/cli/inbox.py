"""``skillwire inbox``: tasks for people, on the machine that serves the skills.

The commands use the ledger in the state directory, with or without a running server, and claim tasks under a person's
name. On a terminal ``complete`` asks for each field; scripts pass arguments or JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from skillwire.adapters.clock import moment
from skillwire.cli.options import GroupWithDefaultList, can_ask, login_name, run_async
from skillwire.cli.output import bold, output_options, success
from skillwire.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.cli.documents_run import Did
    from skillwire.cli.output import Output
    from skillwire.executions.tasks import Inbox
    from skillwire.model.execution import Execution


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
@output_options
def list_(*, output: Output, skill: str | None, person: str | None) -> None:
    """List the open tasks, the most urgent first."""
    from skillwire.cli.inbox_tasks import print_tasks  # noqa: PLC0415  # brings msgspec

    inbox, has_tasks = _open(person)
    tasks = sorted(run_async(inbox.tasks(skill)), key=lambda task: task.deadline) if has_tasks else []
    print_tasks(output, inbox, tasks)


@command.command()
@_task
@_name_option
@output_options
def show(*, output: Output, task_id: str, person: str | None) -> None:
    """Show a task: its request, caller, deadline, inputs and output fields."""
    from skillwire.cli.inbox_tasks import print_task, task_document  # noqa: PLC0415  # brings msgspec

    inbox, task = _find(task_id, person)
    output.document(task_document(inbox, task, "shown", dry_run=False))
    print_task(output.line, inbox, task)


@command.command()
@_task
@_name_option
@output_options
def claim(*, output: Output, task_id: str, person: str | None) -> None:
    """Claim a task, so that no other person works on it."""
    inbox, task = _find(task_id, person)
    _print_done(output, inbox, "claimed", run_async(inbox.take(task)))


@command.command()
@_task
@_name_option
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
@output_options
def complete(
    *, output: Output, task_id: str, answers: tuple[str, ...], source: Any, person: str | None, dry_run: bool
) -> None:
    """Submit the output of a task and complete it. An unclaimed task is claimed first.

    Without FIELD=VALUE, the terminal asks for each field. For a list, repeat its field.
    """
    from skillwire.cli.inbox_tasks import ask, read_arguments, read_json  # noqa: PLC0415  # brings msgspec
    from skillwire.executions.tasks import check_task_output  # noqa: PLC0415  # same

    if answers and source is not None:
        raise UsageError("USAGE", "FIELD=VALUE and --output conflict", fix="Give one of the two.")
    inbox, task = _find(task_id, person)
    if source is not None or answers:
        value = read_json(source) if source is not None else read_arguments(task, answers)
        check_task_output(task, value)
        if not dry_run:
            task = run_async(inbox.take(task))
    elif not can_ask(output):
        raise UsageError("USAGE", "there is no output to submit", fix="Give FIELD=VALUE, or JSON with --output FILE.")
    else:
        value = _ask_while_claimed(inbox, task, lambda claimed: ask(output, inbox, claimed), keep=not dry_run)
        task = run_async(inbox.look_up(task.execution_id))
    if not dry_run:
        task = run_async(inbox.complete(task, value))
    _print_done(output, inbox, "completed", task, dry_run=dry_run)


@command.command()
@_task
@click.option("--reason", metavar="TEXT", required=True, help="Reason for the caller.")
@_name_option
@_dry_run_option
@output_options
def reject(*, output: Output, task_id: str, reason: str, person: str | None, dry_run: bool) -> None:
    """Reject a task, which then fails. An unclaimed task is claimed first."""
    from skillwire.executions.tasks import rejection  # noqa: PLC0415  # brings msgspec

    rejection(reason)
    inbox, task = _find(task_id, person)
    task = task if dry_run else run_async(inbox.reject(run_async(inbox.take(task)), reason))
    _print_done(output, inbox, "rejected", task, dry_run=dry_run)


def _ask_while_claimed(inbox: Inbox, task: Execution, ask: Callable[[Execution], Any], *, keep: bool) -> Any:
    """Claim a task while the user types; release it again if nothing is submitted."""
    was_claimed = inbox.has(task)
    claimed = run_async(inbox.take(task))
    is_done = False
    try:
        value = ask(claimed)
        is_done = keep
    finally:
        if not (is_done or was_claimed):
            run_async(inbox.release(claimed))
    return value


def _open(person: str | None) -> tuple[Inbox, bool]:
    """Return the inbox of a person, and whether there is a database, which is not created."""
    from skillwire.adapters.sqlite.open import has_database, open_ledger  # noqa: PLC0415  # brings msgspec
    from skillwire.executions.tasks import Inbox  # noqa: PLC0415  # same

    return Inbox(open_ledger(), login_name() if person is None else person, moment), has_database()


def _find(task_id: str, person: str | None) -> tuple[Inbox, Execution]:
    inbox, has_tasks = _open(person)
    if not has_tasks:
        raise NotFoundError("TASK_NOT_FOUND", f"there is no task {ascii(task_id)[:80]}")
    return inbox, run_async(inbox.look_up(task_id))


def _print_done(output: Output, inbox: Inbox, did: Did, task: Execution, *, dry_run: bool = False) -> None:
    from skillwire.cli.inbox_tasks import short_id, task_document  # noqa: PLC0415  # brings msgspec
    from skillwire.executions.tasks import read_task  # noqa: PLC0415  # same

    output.document(task_document(inbox, task, did, dry_run=dry_run))
    verb = f"would be {did} " if dry_run else f"{did} "
    output.line(success(verb), bold(short_id(task)), f"  {read_task(task).title}")
