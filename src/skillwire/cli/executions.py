"""``skillwire executions``: list, show and cancel executions of skills, and print results.

Outputs are untrusted. On a terminal they are neutralised line by line; in a pipe and in a file they are unchanged; in
JSON invisible characters and terminal commands are escaped.
"""

from __future__ import annotations

import base64
import re
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.adapters.files.atomic import state_directory, write_atomically
from skillwire.adapters.files.calls import FileCalls
from skillwire.cli.options import (
    GroupWithDefaultList,
    count_others,
    open_client,
    timeout_option,
    utc_time,
)
from skillwire.cli.output import bold, dim, failure, output_options, print_end, readable_json, success, warning
from skillwire.errors import PendingError, SkillwireError, SourceLocation, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.cli.documents_run import Document, ExecutionObject, ExecutionsResultDocument, RecentExecution
    from skillwire.cli.output import Output, Part
    from skillwire.model.remote_execution import RemoteExecution


_EXIT_INTERRUPTED: Final = 130
_BLOBS: Final = 8  # files that a run left and that are named
_LOG_LINES: Final = 20  # of what it printed before it failed
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,127}", re.ASCII)
_TEXT: Final = re.compile(r"text/.*|.*[/+](?:json|xml|yaml)", re.ASCII)


class Watch:
    """Shows the status of an execution on a terminal, and prints how to resume after an interruption."""

    def __init__(self, output: Output, *, is_at_endpoint: bool = False) -> None:
        self._output = output
        self._is_at_endpoint = is_at_endpoint
        self._last: RemoteExecution | None = None

    def on_change(self, execution: RemoteExecution) -> None:
        """Show a new status."""
        self._last = execution
        self._output.progress.relabel(f"{execution.status} at the provider" if not execution.is_final else "reading")

    @contextmanager
    def waiting(self, label: str, name: str | None = None) -> Iterator[None]:
        """Wait for an execution; ``name`` is the name that the user typed, if any."""
        try:
            with self._output.progress.waiting(label):
                yield
        except KeyboardInterrupt:
            name = _name_of(self._last) if self._last is not None else name
            if self._is_at_endpoint:
                print_end("interrupted; a started run continues at the endpoint, and has no status to query")
            elif name is None:
                print_end("interrupted; the call may or may not have arrived")
                repeat = "Repeat the same call within 15 minutes to resume it: it is executed at most once."
                self._output.note(dim(repeat))
            else:
                print_end("interrupted; the execution continues at the provider")
                _hint_running(self._output, name)
            raise click.exceptions.Exit(_EXIT_INTERRUPTED) from None


def _hint_running(output: Output, name: str) -> None:
    output.hint("wait:", f"skillwire executions result {name}")
    output.hint("cancel:", f"skillwire executions cancel {name}")


def _name_of(execution: RemoteExecution) -> str | None:
    """Return the name of an execution for commands: its ID, or its URL if the ID is ambiguous."""
    if execution.execution_id is not None and _PLAIN_ID.fullmatch(execution.execution_id):
        return execution.execution_id
    return shlex.quote(execution.status_url) if execution.status_url is not None else None


def execution_object(execution: RemoteExecution) -> ExecutionObject:
    """Return an execution for ``--json``."""
    output = execution.output
    return {
        "execution_id": execution.execution_id,
        "skill_id": execution.skill_id,
        "reference": execution.reference,
        "status": execution.status,
        "cancelled": execution.is_cancelled,
        "output": base64.b64encode(output).decode() if isinstance(output, bytes) else output,
        "encoding": "base64" if isinstance(output, bytes) else "json",
        "content_type": execution.content_type,
        "error": execution.error,
        "created_at": execution.created_at or None,
        "updated_at": execution.updated_at or None,
        "completed_at": execution.completed_at or None,
        "status_url": execution.status_url,
        "result_url": execution.result_url,
        "summary": execution.summary,
        "log": execution.log,
        "blobs": execution.blobs,
    }


def conclude(output: Output, document: Document, execution: RemoteExecution, target: str | None) -> None:
    """Print the document and the output of an execution, or write it to the file ``target``.

    Raises its error if it has not completed.
    """
    if execution.log and not execution.is_completed:
        output.note(dim("end of its log:"))
        for line in execution.log.splitlines()[-_LOG_LINES:]:
            output.note(dim(f"  {line}"))
    name, value = _name_of(execution), execution.output
    try:
        execution.check()
    except PendingError as error:
        fix = f"Wait with skillwire executions result {name}, or cancel with skillwire executions cancel {name}."
        error.fix = fix if name else None
        raise
    if target is not None:
        try:
            write_atomically(Path(target), value.encode() if isinstance(value, str) else _bytes_of(value))
        except SkillwireError as error:
            error.place = SourceLocation(target)
            error.fix = f"skillwire executions result {name} -o FILE writes it elsewhere." if name else None
            raise
        output.note(success("written "), target)
    output.document(document)
    if target is None and not output.as_json:
        _print_output(output, execution)
    if execution.blobs:
        _hint_blobs(output, execution)


def _hint_blobs(output: Output, execution: RemoteExecution) -> None:
    sys.stdout.flush()  # if both streams go to one place, the output of the skill comes first
    for blob in execution.blobs[:_BLOBS]:
        name = blob.name.rpartition("/")[2]
        target = name if _PLAIN_ID.fullmatch(name) else "FILE"  # never a hidden file
        output.hint("output file:", f"skillwire cat {execution.reference} {shlex.quote(blob.blob_id)} > {target}")
    if len(execution.blobs) > _BLOBS:
        output.note(dim(f"and {len(execution.blobs) - _BLOBS} more files; --json has them all"))


def check_target(content_type: str, target: str | None, *, as_json: bool) -> None:
    """Reject a call whose output would go to a terminal and is not text, or to a folder that does not exist."""
    if target is not None and not (folder := Path(target).parent).is_dir():
        raise UsageError("USAGE", f"there is no folder {folder}", place=SourceLocation(target), fix="Create it first.")
    media_type = content_type.partition(";")[0].strip().lower()
    if target is None and not as_json and sys.stdout.isatty() and not _TEXT.fullmatch(media_type):
        message = f"the output is {ascii(media_type)[1:-1][:80]}, which a terminal cannot display"
        raise UsageError("USAGE", message, fix="Write it to a file with -o FILE.")


def _print_status(output: Output, execution: RemoteExecution) -> None:
    style = success if execution.is_completed else failure if execution.is_final else bold
    rows: list[tuple[str, Part]] = [
        ("status", warning("cancelled") if execution.is_cancelled else style(execution.status)),
        ("id", execution.execution_id or "none"),
        ("skill", execution.skill_id),
        ("created", execution.created_at),
        ("updated", execution.updated_at),
        ("completed", execution.completed_at),
        ("asked at", execution.status_url or ""),
    ]
    if execution.error is not None:
        rows[1:1] = [("code", execution.error.code), ("why", execution.error.message)]
    output.table([dim(label), value] for label, value in rows if value)


def hint_next(output: Output, execution: RemoteExecution) -> None:
    """Print the commands that apply to an execution."""
    name = _name_of(execution)
    if name is not None and not execution.is_final:
        _hint_running(output, name)
    elif name is not None and execution.is_completed:
        output.hint("output:", f"skillwire executions result {name}")


def _print_output(output: Output, execution: RemoteExecution) -> None:
    value = execution.output
    if value is None:
        output.note(dim("completed without an output"))
    elif not sys.stdout.isatty():
        sys.stdout.buffer.write(_bytes_of(value))
    elif isinstance(value, bytes):
        what = f"{len(value):,} bytes of {execution.content_type or 'an unnamed type'}"
        output.note(warning("not shown: "), f"{what}; -o FILE writes them to a file")
    else:
        output.text(value if isinstance(value, str) else readable_json(value))


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else readable_json(value)
    return (text if text.endswith("\n") else f"{text}\n").encode("utf-8", "backslashreplace")


@click.group(cls=GroupWithDefaultList)
def command() -> None:
    """List, show and cancel executions, and print results. Without a command it lists.

    ID is the execution ID that skillwire call printed on this machine, or an unambiguous beginning of it; or the URL
    of a status.
    """


@command.command(name="list")
@click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Maximum number of executions."
)
@output_options
def list_(*, output: Output, limit: int) -> None:
    """List recent calls from this machine, newest first, without asking the providers."""
    calls = FileCalls(state_directory() / "calls.json").recent()
    rows: list[RecentExecution] = [
        {
            "execution_id": call.execution_id or "",
            "skill_id": call.skill_id,
            "reference": call.reference,
            "created_at": utc_time(call.created),
            "status_url": call.status_url,
        }
        for call in calls[:limit]
    ]
    output.document({"schema": "skillwire/executions-list/1", "total": len(calls), "executions": rows})
    output.table([bold(row["execution_id"]), row["skill_id"], dim(row["created_at"])] for row in rows)
    count_others(output, len(calls), limit)
    if rows:
        output.hint("show one:", "skillwire executions show ID")
    else:
        output.note("there are no recent executions")


@command.command()
@click.argument("execution", metavar="ID")
@output_options
def show(*, output: Output, execution: str) -> None:
    """Show an execution's status.

    Exits with 0 even if the execution failed; skillwire executions result reports failures by its exit code.
    """
    with open_client(output) as client, output.progress.during("asking"):
        found = client.execution(execution)
    output.document({"schema": "skillwire/executions-show/1", **execution_object(found)})
    _print_status(output, found)
    hint_next(output, found)


@command.command()
@click.argument("execution", metavar="ID")
@click.option("--wait/--no-wait", default=True, help="Wait until the execution ends, or fail if it has not ended.")
@timeout_option("Maximum time to wait, such as 30s.")
@click.option("-o", "--output", "target", metavar="FILE", help="Write the output to FILE.")
@output_options
def result(*, output: Output, execution: str, wait: bool, timeout: float | None, target: str | None) -> None:
    """Wait until an execution ends, and print its output.

    Ctrl-C stops waiting, and cancels nothing. Exits with 8 when the execution failed, and with 9 when it has not ended
    in time.
    """
    with open_client(output) as client:
        watch = Watch(output)
        with watch.waiting("asking", execution):
            if wait:
                found = client.result(execution, timeout=timeout, on_change=watch.on_change)
            else:
                found = client.execution(execution)
    document: ExecutionsResultDocument = {"schema": "skillwire/executions-result/1", **execution_object(found)}
    conclude(output, document, found, target)


@command.command()
@click.argument("execution", metavar="ID")
@output_options
def cancel(*, output: Output, execution: str) -> None:
    """Cancel an execution; one that has already ended keeps its status."""
    with open_client(output) as client, output.progress.during("asking"):
        found = client.cancel(execution)
    output.document({"schema": "skillwire/executions-cancel/1", **execution_object(found)})
    if found.is_cancelled:
        output.line(success("cancelled "), bold(found.execution_id))
        return
    output.note(f"not cancelled: the execution {'is still running' if not found.is_final else 'had already ended'}")
    _print_status(output, found)
    hint_next(output, found)
