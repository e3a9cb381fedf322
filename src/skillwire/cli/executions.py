"""How executions are told: what a skill gave, how far a call is, and how somebody who stopped waiting goes on.

Outputs are strangers' data. On a terminal they are made harmless line by line; in a pipe, and in a file, they come as
they are; in JSON, hidden characters and those that command a terminal are escaped.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.cli.output import bad, bold, dim, doubtful, good, print_end, readable_json
from skillwire.errors import PendingError, SkillwireError, SourceLocation, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.cli.output import Output, Part, Styled
    from skillwire.cli.progress import Progress
    from skillwire.model.execution import RemoteExecution

_EXIT_INTERRUPTED: Final = 130
_BLOBS: Final = 8  # files that a run left and that are named
_LOG_LINES: Final = 20  # of what it printed before it failed
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,127}", re.ASCII)
_TEXT: Final = re.compile(r"text/.*|.*[/+](?:json|xml|yaml)", re.ASCII)


class Watch:
    """Shows on a terminal how far an execution is, and says how to go on when somebody stops waiting for it."""

    def __init__(self, output: Output, progress: Progress, *, is_at_endpoint: bool = False) -> None:
        self._output = output
        self._is_at_endpoint = is_at_endpoint
        self._progress = progress
        self._last: RemoteExecution | None = None

    def told(self, execution: RemoteExecution) -> None:
        """Show a new status."""
        self._last = execution
        self._progress.relabel(f"{execution.status} at the provider" if not execution.is_final else "reading")

    @contextmanager
    def waiting(self, label: str, name: str | None = None) -> Iterator[None]:
        """Wait for an execution; ``name`` is how it was asked for, where it was."""
        try:
            with self._progress.waiting(label):
                yield
        except KeyboardInterrupt:
            self._say_how_to_go_on(name)
            raise click.exceptions.Exit(_EXIT_INTERRUPTED) from None

    def _say_how_to_go_on(self, name: str | None) -> None:
        name = name_of(self._last) if self._last is not None else name
        if self._is_at_endpoint:
            print_end("interrupted; a run that has begun goes on at the endpoint, and cannot be asked for")
            return
        if name is None:
            print_end("interrupted; nobody knows whether the call has arrived")
            self._output.note(
                dim("Make the same call within a quarter of an hour to take it up: it is executed once at the most.")
            )
            return
        print_end("interrupted; the execution goes on at the provider")
        self._output.hint("wait for it:", f"skillwire result {name}")
        self._output.hint("end it:     ", f"skillwire cancel {name}")


def name_of(execution: RemoteExecution) -> str | None:
    """Return what to type to mean an execution: its id, or its URL where that could be read otherwise."""
    if execution.execution_id is not None and _PLAIN_ID.fullmatch(execution.execution_id):
        return execution.execution_id
    return shlex.quote(execution.status_url) if execution.status_url is not None else None


def execution_object(execution: RemoteExecution) -> dict[str, Any]:
    """Return an execution for ``--json``."""
    error = execution.error
    encoding, output = "json", execution.output
    if isinstance(output, bytes):
        import base64  # noqa: PLC0415  # few outputs are bytes

        encoding, output = "base64", base64.b64encode(output).decode()
    return {
        "execution_id": execution.execution_id,
        "skill_id": execution.skill_id,
        "reference": execution.reference,
        "status": str(execution.status),
        "cancelled": execution.is_cancelled,
        "output": output,
        "encoding": encoding,
        "content_type": execution.content_type,
        "error": None if error is None else error._asdict(),
        "created_at": execution.created_at or None,
        "updated_at": execution.updated_at or None,
        "completed_at": execution.completed_at or None,
        "status_url": execution.status_url,
        "result_url": execution.result_url,
        "summary": execution.summary,
        "log": execution.log,
        "blobs": [blob._asdict() for blob in execution.blobs],
    }


def conclude(
    output: Output,
    schema: str,
    execution: RemoteExecution,
    target: str | None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print what the skill gave, or write it to the file ``target``. ``more`` is added to the JSON document.

    Raises:
        ExecutionError, PendingError: it has not completed.
        StorageError: the file cannot be written.
    """
    if execution.log and not execution.is_completed:
        _print_log(output, execution.log)
    try:
        execution.check()
    except PendingError as error:
        name = name_of(execution)
        error.fix = f"skillwire result {name} goes on waiting, skillwire cancel {name} ends it." if name else None
        raise
    if target is not None:
        _write(target, execution)
        output.note(good("written "), target)
    output.document(schema, {**execution_object(execution), **(more or {})})
    if target is None and not output.as_json:
        _print_output(output, execution)
    if execution.blobs:
        _hint_blobs(output, execution)


def _hint_blobs(output: Output, execution: RemoteExecution) -> None:
    """Say how to read the files that a run left."""
    sys.stdout.flush()  # where both streams go to one place, what the skill gave stands first
    for blob in execution.blobs[:_BLOBS]:
        name = blob.name.rpartition("/")[2]
        target = name if _PLAIN_ID.fullmatch(name) else "FILE"  # never a hidden file, whatever a stranger names it
        output.hint("it left:", f"skillwire cat {execution.reference} {shlex.quote(blob.blob_id)} > {target}")
    if len(execution.blobs) > _BLOBS:
        output.note(dim(f"and {len(execution.blobs) - _BLOBS} more files; --json has them all"))


def _print_log(output: Output, log: str) -> None:
    """Say what a run printed before it failed."""
    output.note(dim("it printed, at the end:"))
    for line in log.splitlines()[-_LOG_LINES:]:
        output.note(dim(f"  {line}"))


def check_target(content_type: str, target: str | None, *, as_json: bool) -> None:
    """Refuse to have something executed whose output could not be shown.

    Raises:
        UsageError: ``USAGE``, it is said to be no text, and would go to a terminal.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if target is None and not as_json and sys.stdout.isatty() and not _TEXT.fullmatch(media_type):
        message = f"the output is {ascii(media_type)[1:-1][:80]}, which is not shown on a terminal"
        raise UsageError("USAGE", message, fix="Name a file for it with -o FILE.")


def print_status(output: Output, execution: RemoteExecution) -> None:
    """Print how far an execution is."""
    rows: list[tuple[str, Part]] = [
        ("status", _styled(execution)),
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
    """Say what can be done with an execution."""
    name = name_of(execution)
    if name is None:
        return
    if not execution.is_final:
        output.hint("wait for it:", f"skillwire result {name}")
        output.hint("end it:     ", f"skillwire cancel {name}")
    elif execution.is_completed:
        output.hint("what it gave:", f"skillwire result {name}")


def _styled(execution: RemoteExecution) -> Styled:
    if execution.is_cancelled:
        return doubtful("cancelled")
    style = good if execution.is_completed else bad if execution.is_final else bold
    return style(execution.status)


def _print_output(output: Output, execution: RemoteExecution) -> None:
    value = execution.output
    if value is None:
        output.note(dim("completed, without an output"))
    elif isinstance(value, bytes):
        if sys.stdout.isatty():
            what = f"{len(value):,} bytes of {execution.content_type or 'an unnamed type'}"
            output.note(doubtful("not shown: "), f"{what}; -o FILE writes them to a file")
        else:
            sys.stdout.buffer.write(value)
    elif not sys.stdout.isatty():
        sys.stdout.buffer.write(_bytes_of(value))
    else:
        output.text(value if isinstance(value, str) else readable_json(value))


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else readable_json(value)
    return (text if text.endswith("\n") else f"{text}\n").encode("utf-8", "backslashreplace")


def _write(target: str, execution: RemoteExecution) -> None:
    from pathlib import Path  # noqa: PLC0415  # only -o needs it

    from skillwire.adapters.files.atomic import write_atomically  # noqa: PLC0415  # same

    value = execution.output
    try:
        write_atomically(Path(target), value.encode() if isinstance(value, str) else _bytes_of(value))
    except SkillwireError as error:
        name = name_of(execution)
        error.place = SourceLocation(target)
        error.fix = f"skillwire result {name} -o FILE writes it elsewhere." if name else None
        raise
