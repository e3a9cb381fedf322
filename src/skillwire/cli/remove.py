"""``skillwire remove``: take installed skills away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import confirm, locked_object, open_client, scope_option
from skillwire.cli.output import bold, dim, doubtful, good, output_options
from skillwire.errors import ConflictError

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--overwrite", is_flag=True, help="Remove a skill even when its files were changed.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, change nothing.")
@scope_option
@output_options
def command(*, output: Output, names: tuple[str, ...], overwrite: bool, dry_run: bool, for_user: bool) -> None:
    """Remove installed skills, and their rows of skills.lock.

    A skill whose files were changed since it was installed is kept unless you agree.
    """
    with open_client(output, for_user=for_user) as client:
        skills, deviations = client.verify(*names)
        changed = sorted({row.name for row in deviations if row.problem != "missing"})
        if not dry_run:
            if changed and not (overwrite or confirm(f"{', '.join(changed)}: files were changed. Remove anyway?")):
                fix = "Keep a copy, or give --overwrite."
                raise ConflictError("SKILL_CONFLICT", f"{', '.join(changed)}: files were changed here", fix=fix)
            skills = client.remove(*names)
    output.document(
        "remove/1",
        {"dry_run": dry_run, "skills": [locked_object(locked) for locked in skills], "changed": changed},
    )
    for locked in skills:
        places = ", ".join([*locked.placement.folders, *locked.placement.links])
        if dry_run and locked.name in changed and not overwrite:
            output.line(doubtful("would ask about "), bold(locked.name), dim("  its files were changed here"))
        else:
            output.line(good("would remove " if dry_run else "removed "), bold(locked.name), dim(f"  {places}"))
