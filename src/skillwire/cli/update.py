"""``skillwire update`` and ``skillwire outdated``: compare installed skills with their origins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.add import carry_out, print_plan
from skillwire.cli.options import dry_run_option, network_options, open_client, open_progress, scope_option
from skillwire.cli.output import bold, dim, failure, output_options, success, warning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.documents import ComparisonObject
    from skillwire.cli.output import Output, Part
    from skillwire.resolver.plan import UpdateComparison


_LISTED: Final = 5  # more skills than this that cannot be compared for one reason are counted, not named


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@scope_option
@network_options
@output_options
def outdated_command(
    *,
    output: Output,
    names: tuple[str, ...],
    for_user: bool,
    token: str | None,
    offline: bool | None,
) -> None:
    """List installed skills, these or all, that have changed at their origin.

    Exits with 0 when all are up to date, with 1 when one has changed or is gone, and with the error's exit code (5 for
    the network) when an origin cannot be read.
    """
    progress = open_progress(output)
    with (
        open_client(output, token=token, for_user=for_user, offline=offline, progress=progress) as client,
        progress.during("reading"),
    ):
        comparisons = client.compare(*names)
    output.document(
        {"schema": "skillwire/outdated/1", "skills": [comparison_object(comparison) for comparison in comparisons]}
    )
    print_comparisons(output, [row for row in comparisons if row.state != "current"])
    if all(row.state == "current" for row in comparisons):
        output.note(success("all skills are up to date") if comparisons else "no skills are installed")
    elif code := max(exit_code(row) for row in comparisons):
        raise click.exceptions.Exit(code)


def exit_code(comparison: UpdateComparison) -> int:
    """Return the exit code for comparisons."""
    if comparison.state == "unreachable" and comparison.error is not None:
        return comparison.error.exit_code
    return 1 if comparison.state in {"changed", "gone"} else 0


def comparison_object(comparison: UpdateComparison) -> ComparisonObject:
    """Return a comparison for ``--json``."""
    latest = comparison.latest
    return {
        "name": comparison.locked.name,
        "state": comparison.state,
        "installed": {"version": comparison.locked.version, "digest": comparison.locked.digest},
        "latest": {"version": latest.version, "digest": latest.digest} if latest else None,
        "error": comparison.error.code if comparison.error else None,
    }


def print_comparisons(output: Output, comparisons: Sequence[UpdateComparison]) -> None:
    """Print a line for each; one for all that cannot be read for the same reason."""
    unreadable: dict[str, list[UpdateComparison]] = {}
    for row in comparisons:
        if row.state == "unreachable":
            unreadable.setdefault(str(row.error), []).append(row)
    for error, rows in unreadable.items():
        names = [row.locked.name for row in rows]
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        output.line(failure("unreachable"), "  ", bold(", ".join(names[:_LISTED]) + more), "  ", dim(error))
        if rows[0].error is not None:
            told = rows[0].error.diagnostics()
            output.line(dim("  cause: "), told.cause, indent=9)
            output.line(dim("  fix: "), told.fix, indent=7)
    for row in comparisons:
        if row.state == "unreachable":
            continue
        marks: dict[str, Part] = {
            "changed": warning("changed"),
            "unverifiable": warning("no digests"),
            "gone": failure("gone"),
        }
        output.line(bold(row.locked.name), "  ", marks[row.state], "  ", dim(_detail(row)))


def _detail(row: UpdateComparison) -> str:
    if row.error is not None:
        return str(row.error)
    if row.latest is None:
        return f"{row.locked.origin} no longer lists it"
    if row.state == "unverifiable":
        return f"{row.locked.origin} publishes no digests; update downloads the skill to compare"
    versions = (row.locked.version, row.latest.version)
    return f"{versions[0]} -> {versions[1]}" if versions[0] != versions[1] else f"{versions[0] or ''} with a new digest"


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--overwrite", is_flag=True, help="Overwrite locally changed files.")
@dry_run_option
@click.option("-y", "--yes", is_flag=True, help="Trust unknown origins without asking.")
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
    """Update installed skills, these or all, from their origins.

    Indexes are revalidated, and only changed skills are fetched. Locally changed files are overwritten only after
    confirmation. A skill that is gone or unreadable stays installed; the exit code is then 1, or that of the error (5
    for the network).
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
                client, output, progress, plan, consent=yes, overwrite=overwrite, document=("skillwire/update/1", more)
            )
    if not plan.skills and not lost:
        output.note(success("all skills are up to date") if comparisons else "no skills are installed")
    print_comparisons(output, lost)
    if code := max([code, *map(exit_code, lost)]):
        raise click.exceptions.Exit(code)
