"""``skillwire cancel``: take a call back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import open_client, open_progress
from skillwire.cli.output import bold, good, output_options

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("execution", metavar="ID")
@output_options
def command(*, output: Output, execution: str) -> None:
    """Take the execution ID back.

    ID is what skillwire call has printed, for calls that were made here, or as much of its beginning as no other call
    has; or the URL of a status. One that has ended
    stays as it ended, and that is said.
    """
    from skillwire.cli.executions import execution_object, hint_next, print_status  # noqa: PLC0415  # --help does without

    progress = open_progress(output)
    with open_client(output, progress=progress) as client, progress.during("asking"):
        found = client.cancel(execution)
    output.document("cancel/1", execution_object(found))
    if found.is_cancelled:
        output.line(good("cancelled "), bold(found.execution_id))
        return
    output.note(f"it was not cancelled: it {'goes on' if not found.is_final else 'has ended before'}")
    print_status(output, found)
    hint_next(output, found)
