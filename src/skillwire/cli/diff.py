"""``skillwire diff``, and how ``add`` and ``update`` print what a skill may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack, cast

import click

from skillwire.cli.options import NetworkOptions, network_options, open_client, open_progress, plural
from skillwire.cli.output import Output, Part, bold, dim, failure, output_options, success, warning
from skillwire.errors import first_of
from skillwire.folder.review import KINDS, Review, SkillReview

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.cli.documents import ReviewObject
    from skillwire.folder.differences import FileChange
    from skillwire.resolver.plan import InstallPlan


_NAMED: Final = 8  # values of a kind in a line
_SEPARATE: Final = ("dangers", "hidden")  # kinds with a line for each value
_LOOKS: Final = {"+": success, "-": failure}


@click.command()
@click.argument("reference", metavar="NAME|REF")
@click.argument("version", required=False, default="")
@click.option("--summary", is_flag=True, help="Print what changes without the lines.")
@click.option("-g", "--global", "for_user", is_flag=True, help="Use your own skills instead of the project's.")
@network_options
@output_options
def command(
    *, output: Output, reference: str, version: str, summary: bool, for_user: bool, **network: Unpack[NetworkOptions]
) -> None:
    """Show what changes between two versions of a skill, and what it may do.

    NAME is an installed skill; it is compared with its origin's present version, or with VERSION. REF is compared with
    VERSION. Exits with 0 if nothing differs, with 1 if something does.
    """
    progress = open_progress(output)
    references = (reference,) if "/" in reference or "." in reference else ()
    with (
        open_client(output, references=references, for_user=for_user, progress=progress, **network) as client,
        progress.during("reading"),
    ):
        review = client.diff(reference, version)
        changes = review.changes()
    files = [{"path": one.path, "change": one.kind, "reason": one.reason, "lines": one.lines} for one in changes]
    document = {"schema": "skillwire/diff/1", **review_object(review), "files": files}
    output.document(document)
    print_difference(output, review)
    print_changes(output, changes, most=0 if summary else None)
    if changes:
        raise click.exceptions.Exit(1)
    output.note(success("no file differs"))


def reviews_of(plan: InstallPlan) -> list[SkillReview]:
    """Return the reviews of the skills of an inspected plan whose files are new or changed."""
    found = [row.inspected for row in plan.pending if isinstance(row.inspected, SkillReview)]
    return [review for review in found if review.is_changed]


def review_object(review: SkillReview) -> ReviewObject:
    """Return a review for ``--json``."""
    before = {"version": review.old_version, "digest": review.old_digest}
    return cast(
        "ReviewObject",
        {
            "name": review.name,
            "version": review.version,
            "digest": review.digest,
            "installed": None if review.before is None else before,
            "reused": review.is_reused,
            "may": review.after,
            "more": review.more,
            "less": review.less,
        },
    )


def print_review(output: Output, review: SkillReview) -> None:
    """Print what a new skill may do, or what changes of an installed one, on standard error."""
    if review.before is not None:
        print_difference(output, review, err=True)
        return
    named = "; ".join(
        f"{KINDS[kind]}: {first_of(values, _NAMED)}" for kind, values in review.after.items() if kind not in _SEPARATE
    )
    may = f"  may use {named}" if named else "  names no hosts, commands, packages, secrets or scripts"
    output.note(bold(review.name), f" {review.version}" if review.version else "", may if named else dim(may))
    _print_kinds(output, {kind: review.after.get(kind, []) for kind in _SEPARATE}, dim("  "), err=True)


def print_difference(output: Output, review: SkillReview, *, err: bool = False) -> None:
    """Print which versions are compared, and what the later one asks for more and no longer."""
    show = output.note if err else output.line
    versions = [one or "without a version" for one in (review.old_version, review.version)]
    change = versions[1] if versions[0] == versions[1] else f"{versions[0]} -> {versions[1]}"
    show(bold(review.name), f" {change}", warning("  other bytes under the same version") if review.is_reused else "")
    if review.more:
        show(warning("  asks for more:"))
        _print_kinds(output, review.more, warning("  + "), err=err)
    else:
        show(dim("  asks for nothing more"))
    if review.less:
        show(dim("  no longer asks for:"))
        _print_kinds(output, review.less, dim("  - "), err=err)


def _print_kinds(output: Output, review: Review, mark: Part, *, err: bool) -> None:
    show = output.note if err else output.line
    for kind, values in review.items():
        if kind not in _SEPARATE:
            show(mark, f"{KINDS[kind]}: ", first_of(values, _NAMED))
            continue
        for value in values[:_NAMED]:
            show(mark, warning(f"{KINDS[kind]}: "), value)
        if len(values) > _NAMED:
            show(mark, f"{KINDS[kind]}: and {len(values) - _NAMED} more")


def print_changes(output: Output, changes: Iterable[FileChange], *, most: int | None = None, err: bool = False) -> None:
    """Print the changed files, with at most ``most`` lines of them all."""
    show = output.note if err else output.line
    left_out = 0
    for change in changes:
        counts = [sum(line.sign == sign for line in change.lines) for sign in "+-"]
        numbers = f"  +{counts[0]} -{counts[1]}" if change.lines else f"  {change.reason}"
        if change.lines and change.old and change.new:
            numbers += "  Only its line ends differ." if change.only_line_ends else ""
            if change.old.executable != change.new.executable:
                numbers += f"  It is {'now' if change.new.executable else 'no longer'} executable."
        show(bold(change.path), f"  {change.kind}", dim(numbers))
        for line in change.lines:
            if most is not None and most <= 0:
                left_out += 1
                continue
            most = None if most is None else most - 1
            text = f"  {plural(int(line.text), 'unchanged line')}" if line.sign == "@" else f"  {line.sign} {line.text}"
            show(_LOOKS.get(line.sign, dim)(text))
    if left_out:
        show(dim(f"  {plural(left_out, 'line')} more"))
