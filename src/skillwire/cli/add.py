"""``skillwire add`` and ``diff``: install skills, verified and locked, and show what they may do and what changes."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final, Unpack

import click

from skillwire.cli.options import (
    NetworkOptions,
    confirm,
    dry_run_option,
    has_terminal,
    locked_object,
    network_options,
    open_client,
    plural,
    refresh_option,
    scope_option,
)
from skillwire.cli.output import Output, Part, bold, dim, failure, output_options, success, warning
from skillwire.errors import NotFoundError, UsageError, did_you_mean, first_of
from skillwire.folder.review import KINDS, Review, SkillReview
from skillwire.resolver.references import exact_reference_to, parse_reference, reference_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from skillwire.cli.documents import FileChangeObject, PlanSkill, PlanSources, ReportFields, ReviewObject
    from skillwire.client.sync import Client
    from skillwire.errors import SkillwireError
    from skillwire.folder.differences import FileChange
    from skillwire.model.ref import SkillRef
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.plan import InstallPlan


_LISTED: Final = 5  # more unchanged skills than this are counted, not named
_ORIGIN_QUESTION: Final = (
    "{} is not a trusted origin yet. A skill contains instructions that your agent follows. Trust it?"
)
_ASKED_ABOUT: Final = 24  # as many names help to decide whether all are meant


@click.command()
@click.argument("references", metavar="[REF]...", nargs=-1)
@click.option("-a", "--agent", "agents", metavar="NAME", multiple=True, help="Install for this agent; '*' for all.")
@click.option("--copy/--link", "copy", default=None, help="Copy or link (the default) the files for several agents.")
@click.option("--all", "take_all", is_flag=True, help="Install every skill of a REF without asking.")
@click.option("--skill", "names", metavar="NAME", multiple=True, help="Of the skills of a REF install this one.")
@click.option("--frozen", is_flag=True, help="Install exactly the content of skills.lock: these names, or all.")
@click.option("--overwrite", is_flag=True, help="Overwrite existing files.")
@dry_run_option
@click.option("-y", "--yes", is_flag=True, help="Trust unknown origins, and accept every skill of an origin.")
@scope_option
@network_options
@refresh_option
@output_options
def command(
    *,
    output: Output,
    references: tuple[str, ...],
    agents: tuple[str, ...],
    copy: bool | None,
    take_all: bool,
    names: tuple[str, ...],
    frozen: bool,
    overwrite: bool,
    dry_run: bool,
    yes: bool,
    for_user: bool,
    **network: Unpack[NetworkOptions],
) -> None:
    """Install the skills that each REF names.

    REF is example.com/name, owner/repo, a URL, a folder (./name), or a bare name when sources are configured; without
    one, the skills of skillwire.toml are installed. Artifacts are verified against their digests; nothing in them is
    run. Either all skills are installed, or none.
    """
    if frozen and (agents or copy is not None or take_all or names):
        fix = "Leave them out: the lock contains them."
        raise UsageError("USAGE", "--frozen excludes --agent, --copy, --link, --skill and --all", fix=fix)
    for text in references:
        is_address = "/" in text and not text.startswith((".", "/")) and parse_reference(text).path is None
        if is_address and os.path.isdir(text):  # noqa: PTH112  # text
            output.hint(f"{text} is read as an address; the folder here is", f"./{text}")
    origins = () if frozen else references
    with open_client(output, references=origins, for_user=for_user, **network) as client:
        with output.progress.during("reading"):
            choose = output.progress.beside(
                partial(_choose, names, root=client.root, agreed=take_all or yes or dry_run)
            )
            plan = (
                client.plan_locked(*references)
                if frozen
                else client.plan(*references, agents=agents, copy=copy, choose=choose)
            )
        _check_chosen(names, plan)
        rungs = client.rungs
        plan = inspect(client, output, plan, consent=yes)
        if dry_run:
            print_plan(output, plan, consent=yes, overwrite=overwrite, more={"rungs": rungs})
            return
        if not frozen and any(review.is_reused for review in reviews_of(plan)):
            exact = [f"{row.skill.name}@{row.wanted}" for row in plan.pending if row.wanted.startswith("sha256:")]
            _, held = client.hold_back(plan, [*exact, *(row.skill.name for row in plan.pending)])
            for error in held.values():
                raise error
        report, fields = carry_out(client, output, plan, consent=yes, overwrite=overwrite)
        output.document({"schema": "skillwire/add/1", "rungs": rungs, **fields})
        if code := print_report(output, report):
            raise click.exceptions.Exit(code)
        for text in references:
            path = parse_reference(text).path
            if path is not None and os.path.exists(f"{os.path.expanduser(path)}/.git"):  # noqa: PTH110, PTH111 # text
                output.hint("added as the folder is now; to lock a commit:", f"skillwire add {text.rstrip('/')}/.git")


def inspect(client: Client, output: Output, plan: InstallPlan, *, consent: bool) -> InstallPlan:
    """Return the plan with a review of each skill, and print what it may do.

    Nothing is fetched of an unknown origin without consent, unless there is a terminal to ask on.
    """
    if plan.unknown_origins and not (consent or has_terminal()):
        return plan
    with output.progress.during("fetching", len(plan.pending)):
        plan = client.inspect(plan, consent=consent, on_done=output.progress.advance)
    skills = {row.skill.name: row.skill for row in plan.pending}
    for review in reviews_of(plan):
        print_review(output, review)
        if findings := [*review.more.get("dangers", ()), *review.more.get("hidden", ())]:
            import shlex  # noqa: PLC0415  # few skills have findings

            path = shlex.quote(findings[0].partition(": ")[0])
            output.hint("read it first:", f"skillwire cat {exact_reference_to(skills[review.name])} {path}")
    return plan


def carry_out(
    client: Client,
    output: Output,
    plan: InstallPlan,
    *,
    consent: bool,
    overwrite: bool,
    held: Mapping[str, SkillwireError] | None = None,
) -> tuple[InstallReport, ReportFields]:
    """Ask the necessary questions and apply the plan; return the report, also for ``--json``.

    ``held`` are the errors of updates that the plan does not contain.
    """
    for row in plan.pending:
        if row.required_by:
            output.note(
                dim("required: "), bold(row.skill.name), f" {row.skill.version or ''}", dim(f"  {row.required_by}")
            )
    for row in plan.pending:
        if row.wanted.startswith("sha256:") and plan.unknown_origins:
            from skillwire.trust.words import words_of  # noqa: PLC0415  # few references name a digest

            words = " ".join(words_of(bytes.fromhex(row.wanted.removeprefix("sha256:"))))
            output.note(dim("six words: "), bold(words), dim("  skillwire share shows the same"))
    consent = consent or all(confirm(_ORIGIN_QUESTION.format(base)) for base in plan.unknown_origins)
    overwrite = overwrite or (
        bool(plan.conflicts) and all(confirm(f"{row.skill.name}: {row.reason}. Replace it?") for row in plan.conflicts)
    )
    with output.progress.during("adding", len(plan.pending)):
        report = client.apply(plan, consent=consent, overwrite=overwrite, on_done=output.progress.advance)
    report = report._replace(failed={**report.failed, **(held or {})})
    reviews = [review_object(review) for review in reviews_of(plan)]
    return report, {
        "reviews": reviews,
        "root": str(client.root),
        "installed": [locked_object(locked) for locked in report.installed],
        "updated": list(report.updated),
        "unchanged": list(report.unchanged),
        "failed": {name: error.diagnostics() for name, error in report.failed.items()},
    }


def _choose(names: Sequence[str], found: Sequence[SkillRef], *, root: Path, agreed: bool) -> Sequence[SkillRef]:
    """Return those of the skills that a reference means which the user wants."""
    if names:
        chosen = [skill for skill in found if skill.name in names]
        if not chosen:
            fix = did_you_mean(names[0], [skill.name for skill in found])
            raise NotFoundError("SKILL_NOT_FOUND", f"no skill is named {', '.join(names)}", fix=fix)
        return chosen
    if agreed or len(found) <= 1:
        return found
    number = f"The reference means {len(found)} skills."
    if has_terminal() and os.environ.get("TERM") != "dumb":
        from skillwire.cli.picker import pick  # noqa: PLC0415  # few references mean several

        rows = [(skill.name, skill.description) for skill in found]
        chosen = [found[row] for row in pick(f"{number} Which ones?", rows)]
    else:
        about = first_of([skill.name for skill in found], _ASKED_ABOUT)
        chosen = [*found] if confirm(f"{number} Add them all?", about=about) else []
    if not chosen:
        fix = f"Name one, such as {_reference_from_here(found[0], root)}, or give --all or --skill {found[0].name}."
        raise UsageError("REFERENCE", f"the reference means {len(found)} skills, and none was chosen", fix=fix)
    return chosen


def _check_chosen(names: Sequence[str], plan: InstallPlan) -> None:
    """Check that the references together mean each of the named skills. Raises NotFoundError."""
    if missing := set(names) - {row.skill.name for row in plan.skills}:
        raise NotFoundError("SKILL_NOT_FOUND", f"no skill is named {', '.join(sorted(missing))}")


def _reference_from_here(skill: SkillRef, root: Path) -> str:
    """Return a reference that works in the current folder: that of a local skill is relative to ``root``."""
    if not skill.is_local:
        return reference_to(skill)
    if skill.git is not None:
        repository = os.path.abspath(root / skill.url)  # noqa: PTH100  # without the .. in the middle
        return f"file://{repository.removesuffix('/.git')}//{skill.git.path}".rstrip("/")
    folder = os.path.relpath(root / skill.url)
    return folder if folder.startswith(".") else f"./{folder}"


def print_plan(output: Output, plan: InstallPlan, *, consent: bool, overwrite: bool, more: PlanSources) -> None:
    """Print the actions of a plan, given the user's answers."""
    rows: list[PlanSkill] = [
        {
            "name": row.skill.name,
            "state": row.state,
            "reason": row.reason,
            "origin": row.skill.origin,
            "version": row.skill.version,
            "required_by": row.required_by or None,
            "folders": list(row.location.folders),
            "links": list(row.location.links),
        }
        for row in plan.skills
    ]
    output.document({
        "schema": "skillwire/plan/1", **more, "skills": rows, "unknown_origins": list(plan.unknown_origins),
        "consent": consent, "overwrite": overwrite, "reviews": [review_object(review) for review in reviews_of(plan)],
    })  # fmt: skip
    conflict = "would replace" if overwrite else "would ask about"
    verbs = {"new": "would add", "update": "would update", "unchanged": "unchanged", "conflict": conflict}
    for base in plan.unknown_origins:
        output.line(f"would {'take --yes as' if consent else 'ask for'} consent to {base}")
    for row in rows:
        places = ", ".join([*row["folders"], *row["links"]])
        output.line(
            f"{verbs[row['state']]} ", bold(row["name"]), dim(f"  {row['reason'] or row['required_by'] or places}")
        )


def print_report(output: Output, report: InstallReport) -> int:
    """Print what was done; return the highest exit code of the errors."""
    for locked in report.installed:
        version = f" {locked.version}" if locked.version else ""
        places = ", ".join([*locked.placement.folders, *locked.placement.links])
        verb = "updated " if locked.name in report.updated else "added "
        output.line(success(verb), bold(locked.name), version, dim(f"  {places}"))
    if len(report.unchanged) > _LISTED:
        output.line(f"unchanged {len(report.unchanged)} skills")
    else:
        for name in report.unchanged:
            output.line("unchanged ", bold(name))
    last = next(reversed(list(report.failed)), None)
    for name, error in report.failed.items():
        output.note(failure("failed "), bold(name))
        output.error(error.diagnostics(), is_last=name == last)
    return max((error.exit_code for error in report.failed.values()), default=0)


_NAMED: Final = 8  # values of a kind in a line
_SEPARATE: Final = ("dangers", "hidden")  # kinds with a line for each value
_LOOKS: Final = {"+": success, "-": failure}


@click.command()
@click.argument("reference", metavar="NAME|REF")
@click.argument("version", required=False, default="")
@click.option("--summary", is_flag=True, help="Print what changes without the lines.")
@scope_option
@network_options
@output_options
def diff_command(
    *, output: Output, reference: str, version: str, summary: bool, for_user: bool, **network: Unpack[NetworkOptions]
) -> None:
    """Show what changes between two versions of a skill, and what it may do.

    NAME is an installed skill; it is compared with its origin's present version, or with VERSION. REF is compared with
    VERSION. Exits with 0 if nothing differs, with 1 if something does.
    """
    references = (reference,) if "/" in reference or "." in reference else ()
    reading = output.progress.during("reading")
    with open_client(output, references=references, for_user=for_user, **network) as client, reading:
        review = client.diff(reference, version)
        changes = review.changes()
        wanted = "" if version else next((one.wanted for one in client.installed() if one.name == reference), "")
    files: list[FileChangeObject] = [
        {"path": one.path, "change": one.kind, "reason": one.reason, "lines": tuple(one.lines)} for one in changes
    ]
    output.document({"schema": "skillwire/diff/1", **review_object(review), "files": files})
    print_difference(output, review)
    print_changes(output, changes, most=0 if summary else None)
    if not changes:
        output.note(success("no file differs"))
    if wanted:
        why = f"updates stay within {wanted}; to compare with another version:"
        output.hint(why, f"skillwire diff {reference} VERSION")
    if changes:
        raise click.exceptions.Exit(1)


def reviews_of(plan: InstallPlan) -> list[SkillReview]:
    """Return the reviews of the skills of an inspected plan whose files are new or changed."""
    found = [row.inspected for row in plan.pending if isinstance(row.inspected, SkillReview)]
    return [review for review in found if review.is_changed]


def review_object(review: SkillReview) -> ReviewObject:
    """Return a review for ``--json``."""
    return {
        "name": review.name,
        "version": review.version,
        "digest": review.digest,
        "installed": None if review.before is None else {"version": review.old_version, "digest": review.old_digest},
        "reused": review.is_reused,
        "may": dict(review.after),
        "more": dict(review.more),
        "less": dict(review.less),
    }


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
