"""``skillwire update``: bring installed skills up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.add import carry_out
from skillwire.cli.client_options import network_options, open_client, scope_option
from skillwire.cli.outdated import comparison_object, tell_comparisons
from skillwire.cli.output import good, output_options

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--overwrite", is_flag=True, help="Replace files that were changed here.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Agree to origins that nobody has agreed to yet.")
@scope_option
@network_options
@output_options
def command(
    *,
    output: Output,
    names: tuple[str, ...],
    overwrite: bool,
    dry_run: bool,
    yes: bool,
    for_user: bool,
    token: str | None,
    offline: bool | None,
) -> None:
    """Bring installed skills, these or all, up to date with their origins.

    Each index is asked for with its validators, and only what changed is fetched. Files that were changed here are
    never overwritten without leave.
    """
    with open_client(output, token=token, for_user=for_user, offline=offline) as client:
        comparisons = client.run(client.compare(names))
        lost = [row for row in comparisons if row.state in {"gone", "unreachable"}]
        plan = client.run(client.plan_update(comparisons))
        if plan.skills or output.as_json:
            document = ("update/1", {"compared": [comparison_object(row) for row in comparisons]})
            carry_out(client, output, plan, consent=yes, overwrite=overwrite, dry_run=dry_run, document=document)
        elif not lost:
            output.note(good("all are current") if comparisons else "no skills are installed here")
    if not output.as_json:
        tell_comparisons(output, lost)
    if lost:
        raise click.exceptions.Exit(1)
