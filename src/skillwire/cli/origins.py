"""``skillwire origins``: whom you agreed to install from, and how to take that back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import open_client
from skillwire.cli.output import bold, dim, good, output_options

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.option("--forget", metavar="ORIGIN", multiple=True, help="Take back the consent to this one.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, change nothing.")
@output_options
def command(*, output: Output, forget: tuple[str, ...], dry_run: bool) -> None:
    """List the origins that you agreed to install from.

    After --forget the next add or update from there asks again. What is installed stays, and so does the memory that an
    origin gives digests. Origins that the setting trusted_origins names are not listed: they need no consent.
    """
    with open_client(output) as client:
        accepted = client.origins()
        forgotten = [base for text in forget for base in client.forget_origin(text, dry_run=dry_run)]
    rows = [
        {"origin": base, "first_seen": record.first_seen, "forgotten": base in forgotten}
        for base, record in accepted.items()
        if not forget or base in forgotten
    ]
    output.document("origins/1", {"dry_run": dry_run, "origins": rows})
    for base in forgotten:
        output.line(good("would forget " if dry_run else "forgot "), bold(base))
    if not forget:
        output.table([bold(base), dim(f"known since {row.first_seen}")] for base, row in accepted.items())
        if not accepted:
            output.note("you have agreed to no origin yet")
