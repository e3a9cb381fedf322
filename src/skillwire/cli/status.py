"""``skillwire status``: say how far a call is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import open_client, open_progress
from skillwire.cli.output import output_options

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("execution", metavar="ID")
@output_options
def command(*, output: Output, execution: str) -> None:
    """Say how far the execution ID is.

    ID is what skillwire call has printed, for calls that were made here, or as much of its beginning as no other call
    has; or the URL of a status. How it ended is no
    error of this command; skillwire result tells that by its exit code.
    """
    from skillwire.cli.executions import execution_object, hint_next, print_status  # noqa: PLC0415  # --help does without

    progress = open_progress(output)
    with open_client(output, progress=progress) as client, progress.during("asking"):
        found = client.execution(execution)
    output.document("status/1", execution_object(found))
    print_status(output, found)
    hint_next(output, found)
