"""``skillwire list``: what is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import locked_object, open_client, scope_option
from skillwire.cli.output import bold, dim, output_options

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@scope_option
@output_options
def command(*, output: Output, for_user: bool) -> None:
    """List installed skills."""
    with open_client(output, for_user=for_user) as client:
        installed = client.installed()
    output.document("list/1", {"root": str(client.root), "skills": [locked_object(locked) for locked in installed]})
    output.table(
        [
            bold(locked.name),
            locked.version or "-",
            locked.origin,
            dim(", ".join([*locked.placement.folders, *locked.placement.links])),
        ]
        for locked in installed
    )
    if not installed:
        output.note("no skills are installed here")
