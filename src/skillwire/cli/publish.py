"""``skillwire publish``, ``yank`` and ``deprecate``: versions of packages in a registry."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.options import combine, dry_run_option, open_client
from skillwire.cli.output import Output, bold, dim, output_options, success, warning
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, first_of
from skillwire.folder.files import find_folders
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
    "--namespace", metavar="NAME", default="", help="Namespace; by default that of skill.toml, or the account's own."
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

    FOLDER is a skill or a folder of skills. A published version never changes; what the registry has already, with the
    same bytes, is left alone, so an interrupted batch can be started again. Every skill is tried; the exit code is that
    of the first failure. With --dry-run the registry checks each skill, and stores nothing.
    """
    paths = [path for folder in folders for path in _skills_in(folder)]
    published: list[PublishedPackage] = []
    failed: list[tuple[Path, SkillwireError]] = []

    with open_client(output) as client, output.progress.during("publishing", len(paths)):
        place = client.registry(registry)
        if len(paths) > 1:
            place.request("GET", "/whoami")  # one refusal of a bad token, not one for each skill
        for some in (paths[start : start + _AT_ONCE] for start in range(0, len(paths), _AT_ONCE)):
            results = place.publish_all(
                some,
                namespace=namespace,
                version=number,
                dry_run=dry_run,
                allow_secrets=allow_secrets,
                on_done=output.progress.advance,
            )
            for path, one in zip(some, results, strict=True):
                if isinstance(one, SkillwireError):
                    failed.append((path, one))
                    if len(paths) > 1:
                        output.progress.beside(partial(_print_refused, output))(failed[-1])
                else:
                    published.append(one)
                    output.progress.beside(partial(_print, output, details=dry_run))(one)
    errors: list[NotPublishedObject] = [{"folder": str(path), "error": error.diagnostics()} for path, error in failed]
    if len(errors) != 1 or published:  # a single failure is the error document of the command
        output.document({"schema": "skillwire/publish/1", "dry_run": dry_run, "published": published, "failed": errors})
    if failed:
        if len(paths) == 1:
            _print_findings(output, failed[0][1])
            raise failed[0][1]
        counted = Counter(_WORDS[one.status].rstrip() for one in published)
        counts = [f"{number} {word}" for word, number in counted.items()]
        output.line(", ".join([*counts, f"{len(failed)} not published"]))
        output.hint("read more:", f"skillwire explain {' '.join(dict.fromkeys(error.code for _, error in failed))}")
        click.get_current_context().exit(failed[0][1].exit_code)


def _skills_in(folder: Path) -> Sequence[Path]:
    found = find_folders(folder)
    if not found:
        message = "there is no SKILL.md in this folder or below"
        fix = "Name a folder with skills, or create a skill with skillwire init."
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(str(folder)), fix=fix)
    return found


def _print_refused(output: Output, failure: tuple[Path, SkillwireError]) -> None:
    output.line(warning("not published "), bold(str(failure[0])))
    _print_findings(output, failure[1])
    if not output.as_json:
        output.error(failure[1].diagnostics(), is_last=False)


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
