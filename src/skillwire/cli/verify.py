"""``skillwire verify``: compare installed skills with the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.options import open_client, open_progress, scope_option
from skillwire.cli.output import bad, bold, dim, good, output_options
from skillwire.errors import TrustError

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@scope_option
@output_options
def command(*, output: Output, names: tuple[str, ...], for_user: bool) -> None:
    """Compare installed skills, these or all, with skills.lock, byte for byte.

    Works without a network. Exits with 4 when a file is missing, was changed or was added.
    """
    with open_client(output, for_user=for_user) as client, open_progress(output).during("verifying"):
        skills, deviations = client.verify(*names)
    if output.as_json and not deviations:
        output.document("verify/1", {"skills": [locked.name for locked in skills], "deviations": []})
    broken = {row.name for row in deviations}
    for locked in skills:
        if locked.name not in broken:
            output.line(
                good("ok "),
                bold(locked.name),
                dim("  1 file" if len(locked.files) == 1 else f"  {len(locked.files)} files"),
            )
    for row in deviations:
        output.line(bad(f"{row.problem} "), bold(row.name), f"  {row.path}")
    if deviations:
        details = {"deviations": [row._asdict() for row in deviations]}
        files = "1 file" if len(deviations) == 1 else f"{len(deviations)} files"
        skills_of = "1 skill" if len(broken) == 1 else f"{len(broken)} skills"
        message = f"{files} of {skills_of}: not what the lock says"
        raise TrustError("VERIFY_FAILED", message, details=details)
    if not skills:
        output.note("no skills are installed here")
