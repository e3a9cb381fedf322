"""``skillwire publish``, ``yank`` and ``deprecate``: versions of packages in a registry."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.options import combine, dry_run_option, open_client
from skillwire.cli.output import Output, bold, dim, output_options, success, warning
from skillwire.errors import UNREACHED, NotFoundError, SkillwireError, SourceLocation, first_of
from skillwire.folder.files import find_folders
from skillwire.folder.manifest import dependency_levels
from skillwire.model.package import read_reference
from skillwire.model.skill import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.cli.documents_run import NotPublishedObject
    from skillwire.client.registry import PublishedPackage

registry_option = click.option(
    "--registry", metavar="URL", default="", help="Registry; by default the setting registry, or SKILLWIRE_REGISTRY."
)
state_options = combine(
    registry_option,
    click.option("--reason", metavar="TEXT", default="", help="Why, in one line; it is shown with the version."),
    click.option("--undo", is_flag=True, help="Make it active again."),
)
_AT_ONCE: Final = 64  # folders whose results are printed together
_NAMED: Final = 8  # packages in a line
_WORDS: Final = {"created": "published ", "repeated": "already there ", "checked": "would publish "}


@click.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@registry_option
@click.option(
    "--namespace",
    metavar="NAME",
    default="",
    help="Namespace; by default that of skill.toml, of the token or the account.",
)
@click.option("--version", "number", metavar="VERSION", default="", help="Version, instead of the one of the folder.")
@click.option("--allow-secrets", is_flag=True, help="Publish although something looks like a secret.")
@dry_run_option
@output_options
def command(
    *,
    output: Output,
    folders: tuple[Path, ...],
    registry: str,
    namespace: str,
    number: str,
    allow_secrets: bool,
    dry_run: bool,
) -> None:
    """Publish the skills in each FOLDER to a registry.

    FOLDER is a skill or a folder of skills. A published version never changes; the same bytes again are left alone, so
    an interrupted batch can be started again. Every skill is tried while the registry is reached; the exit code is that
    of the first failure. With --dry-run the registry checks each, and stores nothing. Your first skill makes
    your account's namespace; the first public package of a name keeps it at the root.
    """
    found = [path for folder in folders for path in _skills_in(folder)]
    paths = [path for level in dependency_levels(found) for path in level]
    published: list[PublishedPackage] = []  # as they end
    results: list[PublishedPackage | SkillwireError] = []
    with open_client(output) as client, output.progress.during("publishing", len(paths)):
        place = client.registry(registry)
        if len(paths) > 1:
            place.request("GET", "/whoami")  # one refusal of a bad token, not one for each skill
        try:
            while len(results) < len(paths) and not _gone(results):
                some = paths[len(results) : len(results) + _AT_ONCE]
                new = place.publish_all(
                    some,
                    output.progress.advance,
                    published,
                    namespace=namespace,
                    version=number,
                    dry_run=dry_run,
                    allow_secrets=allow_secrets,
                )
                for row in zip(some, new, strict=True):
                    if len(paths) > 1 or not isinstance(row[1], SkillwireError):
                        output.progress.beside(partial(_print_result, output, results, details=dry_run))(row)
                    results.append(row[1])
        except BaseException as stop:
            if len(paths) > 1 and not isinstance(stop, Exception):
                what = "checked" if dry_run else "published"
                ended = f"{len(published)} of {len(paths)} skills are {what}; the same command publishes the rest"
                output.progress.beside(output.note)(ended)
            raise
    results += _gone(results) * (len(paths) - len(results))
    _end(output, paths, results, dry_run=dry_run)


def _gone(results: Sequence[PublishedPackage | SkillwireError]) -> list[SkillwireError]:
    """Return the first error of a registry that is not reached any more, if there is one."""
    return [one for one in results if isinstance(one, SkillwireError) and one.code in UNREACHED][:1]


def _end(
    output: Output, paths: Sequence[Path], results: Sequence[PublishedPackage | SkillwireError], *, dry_run: bool
) -> None:
    """Print the document, or how a batch with failures ended, and exit with the code of its first failure."""
    published = [one for one in results if not isinstance(one, SkillwireError)]
    failed = [(path, one) for path, one in zip(paths, results, strict=True) if isinstance(one, SkillwireError)]
    errors: list[NotPublishedObject] = [{"folder": str(path), "error": error.diagnostics()} for path, error in failed]
    if len(errors) != 1 or published:  # a single failure is the error document of the command
        output.document({"schema": "skillwire/publish/1", "dry_run": dry_run, "published": published, "failed": errors})
    if failed:
        if len(paths) == 1:
            _print_findings(output, failed[0][1])
            raise failed[0][1]
        counted = Counter(_WORDS[one.status].rstrip() for one in published)
        counts = [f"{number} {word}" for word, number in counted.items()]
        tried = len({id(error) for _, error in failed})
        untried = [f"{len(failed) - tried} not tried, run the command again"] if tried < len(failed) else []
        output.line(", ".join([*counts, f"{tried} not published", *untried]))
        output.hint("read more:", f"skillwire explain {' '.join(dict.fromkeys(error.code for _, error in failed))}")
        click.get_current_context().exit(failed[0][1].exit_code)


def _skills_in(folder: Path) -> Sequence[Path]:
    found = find_folders(folder)
    if not found:
        message = "there is no SKILL.md in this folder or below"
        fix = "Name a folder with skills, or create a skill with skillwire init."
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(str(folder)), fix=fix)
    return found


def _print_result(
    output: Output,
    earlier: Sequence[PublishedPackage | SkillwireError],
    row: tuple[Path, PublishedPackage | SkillwireError],
    *,
    details: bool,
) -> None:
    folder, result = row
    if not isinstance(result, SkillwireError):
        _print(output, result, details=details)
    elif result not in _gone(earlier):  # which the rest has too
        output.line(warning("not published "), bold(str(folder)))
        _print_findings(output, result)
        if not output.as_json:
            output.error(result.diagnostics(), is_last=False)


def _print_findings(output: Output, error: SkillwireError) -> None:
    """Print the findings of a refused folder; a single one is the error itself."""
    findings = error.details.get("findings")
    for one in findings if isinstance(findings, list) and (output.as_json or len(findings) > 1) else ():
        if isinstance(one, Finding):
            output.finding(one)


def _print(output: Output, one: PublishedPackage, *, details: bool) -> None:
    how = (success if one.status == "created" else dim)(_WORDS.get(one.status, f"{one.status} "))
    output.line(how, bold(f"{one.package}@{one.version}"), dim(f"  {one.access}, {one.size:,} bytes, {one.digest}"))
    for file in one.files if details else ():
        output.line(dim(f"  {'755' if file.executable else '644'} {file.size:>11,}  "), file.path)


@click.command()
@click.argument("reference", metavar="NAMESPACE/NAME@VERSION")
@state_options
@output_options
def yank_command(*, output: Output, reference: str, registry: str, reason: str, undo: bool) -> None:
    """Yank a version: it is not resolved any more, and stays for those who locked it.

    The number is never free again. --reason is required, unless --undo makes the version active again.
    """
    read_reference(reference, needs_version=True)
    _set_state(output, reference, registry, "active" if undo else "yanked", reason=reason)


@click.command()
@click.argument("reference", metavar="NAMESPACE/NAME[@VERSION]")
@click.option("--successor", metavar="NAMESPACE/NAME", default="", help="Package to use instead.")
@state_options
@output_options
def deprecate_command(
    *, output: Output, reference: str, registry: str, reason: str, successor: str, undo: bool
) -> None:
    """Deprecate a package or a version: it stays usable, and says what to use instead."""
    _set_state(output, reference, registry, "active" if undo else "deprecated", reason=reason, successor=successor)


def _set_state(output: Output, reference: str, registry: str, status: str, *, reason: str, successor: str = "") -> None:
    with open_client(output) as client:
        client.registry(registry).set_state(reference, status, reason=reason, successor=successor)
    print_state(output, reference, status, reason, successor)


def print_state(
    output: Output,
    reference: str,
    status: str,
    reason: str,
    successor: str = "",
    *,
    copies: Iterable[object] = (),
    more: bool = False,
) -> None:
    """Print the new state of a package or a version, and what has its bytes; with ``more`` there may be others."""
    names = [str(one) for one in copies]
    output.document({
        "schema": "skillwire/package-state/1", "reference": reference, "status": status, "reason": reason or None,
        "successor": successor or None, "copies": names, "more_copies": more,
    })  # fmt: skip
    output.line(success(f"{status} "), bold(reference), dim(f"  {reason}" if reason else ""))
    if packages := [one for one in names if "@" not in one]:
        output.note(warning("other packages have the same bytes: "), first_of(packages, _NAMED))
    if versions := [one for one in names if "@" in one]:
        output.note(warning("other versions have the same bytes: "), first_of(versions, _NAMED))
    if more:
        output.note("not all packages were compared: others may have the same bytes")
