"""``skillwire result``: wait for a call, and print what it gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import Duration, open_client, open_progress
from skillwire.cli.output import output_options

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("execution", metavar="ID")
@click.option("--wait/--no-wait", default=True, help="Wait for the end; or fail when it is not there yet.")
@click.option("--timeout", type=Duration(), metavar="TIME", help="How long to wait, such as 30s.")
@click.option("-o", "--output", "target", metavar="FILE", help="Write what the skill gave to FILE.")
@output_options
def command(*, output: Output, execution: str, wait: bool, timeout: float | None, target: str | None) -> None:
    """Wait until the execution ID has ended, and print what it gave.

    ID is what skillwire call has printed, for calls that were made here, or as much of its beginning as no other call
    has; or the URL of a status. Ctrl-C stops waiting
    and cancels nothing.
    """
    from skillwire.cli.executions import Watch, conclude  # noqa: PLC0415  # --help does without

    progress = open_progress(output)
    with open_client(output, progress=progress) as client:
        watch = Watch(output, progress)
        with watch.waiting("asking", execution):
            found = (
                client.result(execution, timeout=timeout, on_change=watch.told) if wait else client.execution(execution)
            )
    conclude(output, "result/1", found, target)
