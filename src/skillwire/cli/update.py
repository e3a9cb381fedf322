"""``skillwire update``: bring installed skills up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.add import carry_out, print_plan
from skillwire.cli.options import network_options, open_client, open_progress, scope_option
from skillwire.cli.outdated import comparison_object, exit_code, print_comparisons
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
    never overwritten without leave. What is gone or cannot be read stays as it is; the exit code is then 1, or what
    the error says (5 for the network).
    """
    progress = open_progress(output)
    code = 0
    with open_client(output, token=token, for_user=for_user, offline=offline, progress=progress) as client:
        with progress.during("reading"):
            comparisons = client.compare(*names)
            plan = client.plan_update(comparisons)
        lost = [row for row in comparisons if row.state in {"gone", "unreachable"}]
        compared = [comparison_object(row) for row in comparisons]
        if dry_run:
            print_plan(output, plan, consent=yes, overwrite=overwrite, more={"compared": compared})
        elif plan.skills or output.as_json:
            more = {"compared": compared}
            code = carry_out(
                client, output, progress, plan, consent=yes, overwrite=overwrite, document=("update/1", more)
            )
    if not plan.skills and not lost:
        output.note(good("all are current") if comparisons else "no skills are installed here")
    print_comparisons(output, lost)
    if code := max([code, *map(exit_code, lost)]):
        raise click.exceptions.Exit(code)
