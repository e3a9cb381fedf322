"""Installed skills: ``skillwire list``, ``outdated``, ``update``, ``remove`` and ``verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

import click

from skillwire.cli.add import carry_out, inspect, print_changes, print_plan, print_report, reviews_of
from skillwire.cli.options import (
    NetworkOptions,
    can_ask,
    confirm,
    dry_run_option,
    locked_object,
    network_options,
    open_client,
    plural,
    refresh_option,
    scope_option,
)
from skillwire.cli.output import Output, bold, dim, failure, output_options, success, warning
from skillwire.errors import ConflictError, TrustError, UsageError, first_of, one_line
from skillwire.folder.review import KINDS, Review
from skillwire.model.ref import Lock, LockedSkill
from skillwire.resolver.lockfile import requiring

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.cli.documents import ComparisonObject
    from skillwire.resolver.plan import InstallPlan, UpdateComparison


@click.command()
@scope_option
@output_options
def list_command(*, output: Output, for_user: bool) -> None:
    """List installed skills."""
    with open_client(output, for_user=for_user) as client:
        installed = client.installed()
    skills = [locked_object(locked) for locked in installed]
    output.document({"schema": "skillwire/list/1", "root": str(client.root), "skills": skills})
    output.table(
        [bold(locked.name), locked.version or "-", locked.origin, dim(_places(locked))] for locked in installed
    )
    if not installed:
        output.note("no skills are installed")


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--overwrite", is_flag=True, help="Remove a skill even if its files were changed, or it is required.")
@dry_run_option
@scope_option
@output_options
def remove_command(*, output: Output, names: tuple[str, ...], overwrite: bool, dry_run: bool, for_user: bool) -> None:
    """Remove installed skills, and their entries in skills.lock.

    A skill with changed files, or one that another skill requires, is kept unless you confirm.
    """
    with open_client(output, for_user=for_user) as client:
        skills, deviations = client.verify(*names)
        changed = sorted({row.name for row in deviations if row.problem != "missing"})
        needed = requiring(Lock({one.name: one for one in client.installed()}), names)
        if not dry_run:
            for requirer, requirement in {} if overwrite else needed.items():
                message = f"{requirer} requires {requirement}"
                if not confirm(f"{message}. Remove it anyway?"):
                    raise ConflictError("DEPENDENCY_NEEDED", message)
            message = f"{', '.join(changed)}: its files were changed"
            if changed and not (overwrite or confirm(f"{message}. Remove it anyway?")):
                raise ConflictError("SKILL_CONFLICT", message, fix="Keep a copy, or pass --overwrite.")
            skills = client.remove(*names, overwrite=True)
    removed = [locked_object(locked) for locked in skills]
    output.document({
        "schema": "skillwire/remove/1", "dry_run": dry_run, "skills": removed, "changed": changed,
        "required_by": needed,
    })  # fmt: skip
    for requirer, requirement in needed.items():
        output.note(warning(f"{requirer} requires "), requirement)
    verb = success("would remove " if dry_run else "removed ")
    for locked in skills:
        if dry_run and locked.name in changed and not overwrite:
            output.line(warning("would ask about "), bold(locked.name), dim("  its files were changed"))
        else:
            output.line(verb, bold(locked.name), dim(f"  {_places(locked)}"))


def _places(locked: LockedSkill) -> str:
    return ", ".join([*locked.placement.folders, *locked.placement.links])


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@scope_option
@output_options
def verify_command(*, output: Output, names: tuple[str, ...], for_user: bool) -> None:
    """Compare installed skills, these or all, with skills.lock, byte for byte.

    Works offline. Exits with 4 when a file is missing, changed or added.
    """
    with open_client(output, for_user=for_user) as client, output.progress.during("verifying"):
        skills, deviations = client.verify(*names)
    if output.as_json and not deviations:
        intact = [locked.name for locked in skills]
        output.document({"schema": "skillwire/verify/1", "skills": intact, "deviations": []})
    broken = {row.name for row in deviations}
    for locked in skills:
        if locked.name not in broken:
            output.line(success("ok "), bold(locked.name), dim(f"  {plural(len(locked.files), 'file')}"))
    for row in deviations:
        output.line(failure(f"{row.problem} "), bold(row.name), f"  {row.path}")
    if deviations:
        details = {"deviations": list(deviations)}
        number, verb = len(deviations), "does" if len(deviations) == 1 else "do"
        message = f"{plural(number, 'file')} of {plural(len(broken), 'skill')} {verb} not match the lock"
        raise TrustError("VERIFY_FAILED", message, details=details)
    if not skills:
        lock = client.lock_path
        output.note("no skills are installed", "" if lock.exists() else f": there is no {lock.absolute()}")


_WITHDRAWN: Final = frozenset({"YANKED", "QUARANTINED"})
_LINES: Final = 40  # changed lines of a skill that are shown before a question
_LISTED: Final = 5  # more skills than this that cannot be compared for one reason are counted, not named


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@scope_option
@network_options
@refresh_option
@output_options
def outdated_command(
    *, output: Output, names: tuple[str, ...], for_user: bool, **network: Unpack[NetworkOptions]
) -> None:
    """List installed skills, these or all, that have changed at their origin, and which updates ask for more.

    Exits with 0 when all are up to date, with 1 when one has changed or is gone, and with the error's exit code (5 for
    the network) when an origin cannot be read.
    """
    with open_client(output, for_user=for_user, **network) as client, output.progress.during("reading"):
        comparisons = client.compare(*names)
        plan = client.inspect(client.plan_update(comparisons))
    more = {review.name: review.more for review in reviews_of(plan)}
    compared: list[ComparisonObject] = [
        {**_comparison_object(row), "more": more.get(row.locked.name)} for row in comparisons
    ]
    output.document({"schema": "skillwire/outdated/1", "skills": compared})
    _print_comparisons(output, [row for row in comparisons if row.state != "current"], more)
    if all(row.state == "current" for row in comparisons):
        output.note(success("all skills are up to date") if comparisons else "no skills are installed")
    elif code := max(_exit_code(row) for row in comparisons):
        raise click.exceptions.Exit(code)


def _exit_code(comparison: UpdateComparison) -> int:
    if comparison.state == "unreachable" and comparison.error is not None:
        return comparison.error.exit_code
    return 1 if comparison.state in {"changed", "gone"} else 0


def _comparison_object(comparison: UpdateComparison) -> ComparisonObject:
    latest = comparison.latest
    return {
        "name": comparison.locked.name,
        "state": comparison.state,
        "installed": {"version": comparison.locked.version, "digest": comparison.locked.digest},
        "latest": {"version": latest.version, "digest": latest.digest} if latest else None,
        "error": comparison.error.code if comparison.error else None,
        "required_by": list(comparison.required_by),
    }


def _print_comparisons(
    output: Output, comparisons: Sequence[UpdateComparison], more: Mapping[str, Review] | None = None
) -> None:
    """Print a line for each; one for all that cannot be read for the same reason."""
    unreadable: dict[str, list[UpdateComparison]] = {}
    for row in comparisons:
        if row.state == "unreachable":
            unreadable.setdefault(one_line(row.error) if row.error else "", []).append(row)
    for error, rows in unreadable.items():
        names = first_of([row.locked.name for row in rows], _LISTED)
        output.line(failure("unreachable"), "  ", bold(names), "  ", dim(error))
        if rows[0].error is not None:
            diagnostics = rows[0].error.diagnostics()
            output.line(dim("  cause: "), diagnostics.cause, indent=9)
            output.line(dim("  fix: "), diagnostics.fix, indent=7)
    marks = {
        "changed": warning("changed"),
        "unverifiable": warning("no digests"),
        "gone": failure("gone"),
        "young": dim("too young"),
    }
    for row in comparisons:
        if row.state != "unreachable":
            asks = ", ".join(KINDS[kind] for kind in (more or {}).get(row.locked.name, {}))
            asks = f"; asks for more: {asks}" if asks else ""
            code = row.error.code if row.error else ""
            mark = failure(code.lower()) if code in _WITHDRAWN else marks[row.state]
            output.line(bold(row.locked.name), "  ", mark, "  ", dim(_detail(row)), warning(asks))


def _detail(row: UpdateComparison) -> str:
    if row.error is not None and row.error.code == "RENAMED":
        return f"{row.error.message}. {row.error.diagnostics().fix}"
    if row.error is not None:
        instead = f"; there is {row.latest.version}" if row.latest else ""
        return row.error.message + instead if row.error.code in _WITHDRAWN else str(row.error)
    if row.latest is None:
        return f"{row.locked.origin} no longer lists it"
    if row.state == "unverifiable":
        return f"{row.locked.origin} publishes no digests; update downloads the skill to compare"
    if row.latest.digest == row.locked.digest and row.latest.origin != row.locked.origin:
        return f"its origin is {row.latest.origin} now"
    versions = (row.locked.version, row.latest.version)
    change = (
        f"{versions[0]} -> {versions[1]}" if versions[0] != versions[1] else f"{versions[0] or ''} with other bytes"
    )
    return f"{change}; another version is required by {', '.join(row.required_by)}" if row.required_by else change


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--to", metavar="VERSION", default="", help="Install this version, also a lower one, or stay in a range.")
@click.option("--overwrite", is_flag=True, help="Overwrite locally changed files.")
@click.option(
    "--accept",
    "accepted",
    metavar="NAME[@DIGEST]",
    multiple=True,
    help="Take an update that asks for more; repeatable.",
)
@dry_run_option
@click.option("-y", "--yes", is_flag=True, help="Trust unknown origins, and take updates that ask for nothing more.")
@scope_option
@network_options
@refresh_option
@output_options
def update_command(
    *,
    output: Output,
    names: tuple[str, ...],
    to: str,
    overwrite: bool,
    accepted: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    for_user: bool,
    **network: Unpack[NetworkOptions],
) -> None:
    """Update installed skills, these or all, from their origins.

    Only changed skills are fetched. Each change is shown first, with what the skill may do, and on a terminal you are
    asked. Otherwise an update is taken only if it asks for nothing more or is accepted; the exit code is 4 for others.
    Other bytes under the installed version need --accept NAME@DIGEST, except from a folder or Git branch. Locally
    changed files are overwritten only after confirmation. A skill that is gone or unreadable stays installed; the exit
    code is then 1, or that of the error (5 for the network). With --to, later updates stay in this version or range.
    """
    if to and not names:
        raise UsageError("USAGE", "--to needs the name of a skill", fix="Run skillwire update NAME --to VERSION.")
    code = 0
    with open_client(output, for_user=for_user, **network) as client:
        with output.progress.during("reading"):
            comparisons = client.compare(*names, to=to)
            plan = client.plan_update(comparisons)
        is_current = not plan.skills
        lost = [row for row in comparisons if row.state in {"gone", "unreachable"}]
        compared = [_comparison_object(row) for row in comparisons]
        if plan.skills or output.as_json:
            plan = inspect(client, output, plan, consent=yes)
        if dry_run:
            print_plan(output, plan, consent=yes, overwrite=overwrite, more={"compared": compared})
        elif plan.skills or output.as_json:
            kept, agreed = _ask(output, plan, accepted, yes=yes) if can_ask(output) else ((), ())
            plan, held = client.hold_back(plan, (*accepted, *agreed), kept)
            for name in kept:
                del held[name]
                output.note("kept ", bold(name))
            report, fields = carry_out(client, output, plan, consent=yes, overwrite=overwrite, held=held)
            output.document({"schema": "skillwire/update/1", "compared": compared, **fields})
            code = print_report(output, report)
        changed = is_current and not lost and client.verify(*names)[1]
    if is_current and not lost:
        output.note(success("all skills are up to date") if comparisons else "no skills are installed")
        if changed:
            output.hint("installed files differ from skills.lock:", "skillwire verify")
    _print_comparisons(output, lost)
    if code := max([code, *map(_exit_code, lost)]):
        raise click.exceptions.Exit(code)


def _ask(
    output: Output, plan: InstallPlan, accepted: Sequence[str], *, yes: bool
) -> tuple[Sequence[str], Sequence[str]]:
    """Show the changed lines and ask about each update; return the names of the declined, and what was accepted."""
    kept, agreed = [], []
    for review in reviews_of(plan):
        exact = f"{review.name}@{review.digest}"
        is_settled = review.is_reused or (yes and not review.more)
        if is_settled or {review.name, exact} & {*accepted}:
            continue
        question = "It is required. Install it?" if review.before is None else "Update it?"
        if review.before is not None:
            print_changes(output, review.changes(), most=_LINES, err=True)
            question = f"It asks for more. {question}" if review.more else question
        if confirm(f"{review.name}: {question}"):
            agreed.append(exact)
        else:
            kept.append(review.name)
    return kept, agreed
