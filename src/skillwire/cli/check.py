"""``skillwire check`` and ``validate``: report every problem of skills and of Skill Sharing documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from skillwire.adapters.files.atomic import storage_errors, write_atomically
from skillwire.cli.add import print_changes
from skillwire.cli.options import NetworkOptions, can_ask, confirm, network_options, open_client, plural, shortened
from skillwire.cli.output import (
    SHOWN,
    Output,
    Styled,
    bold,
    codes_of,
    counted,
    dim,
    encode_document,
    failure,
    output_options,
    success,
    terminal_columns,
    warning,
)
from skillwire.errors import NotFoundError, SourceLocation, StorageError, UsageError
from skillwire.folder.differences import compare_contents
from skillwire.folder.files import find_bare_folders, find_folders
from skillwire.folder.fix import Fix, plan_fixes
from skillwire.folder.lint.site import examine_index, find_indexes
from skillwire.folder.load import IdentifiedSkill, check_folder, find_collisions, identify
from skillwire.folder.report import by_place, json_document, sarif_document, summary, text_lines
from skillwire.folder.rules import CheckLevel
from skillwire.limits import INDEX_BYTES
from skillwire.model.skill import SKILL_MD, Finding

if TYPE_CHECKING:
    from skillwire.cli.documents_run import CheckDocument
    from skillwire.protocols.skill_sharing.judge import DocumentKind, DocumentReport


_STYLES: Final[dict[str, Callable[[object], Styled | str]]] = {
    "error": failure, "warning": warning, "note": dim, "strong": bold, "faint": dim, "": str,
}  # fmt: skip

_LABELLED: Final = 2  # parts of a line that has a label
#: Identifiers need a publisher; the collisions do not depend on its name.
_PUBLISHER: Final = "publisher"


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--level",
    type=click.Choice(["strict", "lenient"]),
    default="strict",
    show_default=True,
    help="strict for skills to publish, lenient for imported skills.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="Format of the report; --json is short for --format json.",
)
@click.option(
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report to FILE, and only a summary to the terminal.",
)
@click.option("--changed", is_flag=True, help="PATH may be any file: check the skill that contains it.")
@click.option("--fix", is_flag=True, help="Show the repairs of problems with one solution, ask, and write them.")
@click.option("-y", "--yes", is_flag=True, help="With --fix: do not ask.")
@output_options
def command(
    *,
    output: Output,
    paths: tuple[Path, ...],
    level: CheckLevel,
    form: str,
    target: Path | None,
    changed: bool,
    fix: bool,
    yes: bool,
) -> None:
    """Report every problem of skills: its location, its cause and its fix.

    PATH is a skill's folder or its SKILL.md, a folder of skills, a built site, or an index.json; by default it is the
    current folder. Errors come first; the text report prints the first warnings and counts the others by code. Nothing
    is fetched or run. Exits with 1 when a finding is an error.

    --fix repairs the name that is not the folder's, values that need quotes, versions such as 1.0, commas between
    allowed tools, a byte order mark, and a script's line ends and executable bit. It never changes the text below a
    frontmatter.
    """
    if yes and not fix:
        raise UsageError("USAGE", "--yes goes with --fix")
    if changed and not paths:
        advice = "Name the changed files, or leave --changed out to check every skill here."
        raise UsageError("USAGE", "--changed needs at least one PATH", fix=advice)
    paths = paths or (Path(),)
    if changed:  # the outermost, as in a search from above
        around = ([folder for folder in path.parents if (folder / SKILL_MD).is_file()][-1:] for path in paths)
        paths = tuple(dict.fromkeys(folder for folders in around for folder in folders))
    checked, findings = _examine_fixed(output, paths, level, yes=yes) if fix else _examine(paths, level)
    findings = [finding for finding in by_place(findings) if finding.level == "error" or not output.quiet]
    form = "json" if output.as_json else form
    if target is not None:
        write_atomically(target, "".join(f"{line}\n" for line in _formatted(form, findings, checked)).encode())
    elif form == "text":
        _print_findings(findings, output)
    else:
        click.echo("\n".join(_formatted(form, findings, checked)))
    if (target is not None or form == "text") and not output.as_json:
        output.line(summary(findings, _count_checked(checked)))
        if findings:
            output.hint("read more:", f"skillwire explain {' '.join(codes_of(findings))}")
    if any(finding.level == "error" for finding in findings):
        click.get_current_context().exit(1)


def _examine(paths: Iterable[Path], level: CheckLevel) -> tuple[list[str], list[Finding]]:
    from skillwire.protocols.skill_sharing.judge import JUDGES  # noqa: PLC0415  # --help does without

    checked: list[str] = []
    findings: list[Finding] = []
    skills = []
    targets = {given: list(_targets(given)) for given in paths}
    for given, found in targets.items():
        findings += find_bare_folders(given, found, level=level)
    for path in dict.fromkeys(target for found in targets.values() for target in found):
        checked.append(str(path))
        if path.is_file():
            findings += examine_index(path, level=level)
            continue
        examination = check_folder(path, level=level, judges=JUDGES)
        findings += examination.findings
        if examination.folder is not None:
            folder = examination.folder
            skills.append(IdentifiedSkill(str(path), folder.name, identify(folder, _PUBLISHER)))
    return checked, findings + find_collisions(skills)


def _examine_fixed(
    output: Output, paths: Iterable[Path], level: CheckLevel, *, yes: bool
) -> tuple[list[str], list[Finding]]:
    """Return the checked paths and the findings that are left after the repairs."""
    checked, findings = _examine(paths, level)
    if not _fix(output, checked, findings, yes=yes):
        return checked, findings
    hid_others = any(finding.code == "YAML_SYNTAX" for finding in findings)
    checked, findings = _examine(paths, level)
    is_fixed = hid_others and _fix(output, checked, findings, yes=yes, is_first=False)
    return _examine(paths, level) if is_fixed else (checked, findings)


def _fix(
    output: Output, checked: Iterable[str], findings: Iterable[Finding], *, yes: bool, is_first: bool = True
) -> bool:
    """Show the repairs and, with consent, make them; return whether files were changed."""
    fixes: list[Fix] = []
    for folder in [Path(path) for path in checked if Path(path).is_dir()]:
        with storage_errors(folder):
            fixes += plan_fixes(folder, findings)
    changes = compare_contents([fix.before for fix in fixes], [fix.after for fix in fixes])
    print_changes(output, changes, err=True)
    if not fixes:
        if is_first:
            output.note(dim("nothing to repair"))
        return False
    if not yes and not can_ask(output):
        raise UsageError("USAGE", "--fix asks before it writes, and there is no terminal", fix="Add --yes.")
    if not yes and not confirm(f"Change {plural(len(fixes), 'file')}?"):
        return False
    for fix in fixes:
        with storage_errors(fix.path):
            mode = fix.path.stat().st_mode & 0o777
            mode |= (mode & 0o444) >> 2 if fix.after.executable else 0  # each reader may run it
            if fix.after.content != fix.before.content:
                write_atomically(fix.path, bytes(fix.after.content), mode=mode)
            fix.path.chmod(mode)
    return True


def _targets(path: Path) -> Iterator[Path]:
    """Yield the skill folders and index files at ``path``."""
    if path.is_file() and path.name.lower() == "skill.md":
        yield path.parent
    elif found := find_indexes(path) or find_folders(path):
        yield from found
    elif path.is_file():
        raise UsageError("USAGE", f"{path} is neither a SKILL.md nor an index.json")
    else:
        message = "there is no SKILL.md in this folder or below"
        fix = "Name a folder with skills, or create a skill with skillwire init."
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(str(path)), fix=fix)


def _formatted(form: str, findings: Sequence[Finding], checked: Sequence[str]) -> Iterator[str]:
    if form == "text":
        yield from ("".join(part.text for part in line) for finding in findings for line in text_lines(finding))
        return
    document: CheckDocument = {"schema": "skillwire/check/1", **json_document(findings, checked)}
    yield encode_document(sarif_document(findings) if form == "sarif" else document)


def _print_findings(findings: Sequence[Finding], output: Output) -> None:
    columns = terminal_columns(sys.stdout)
    advice = [finding for finding in findings if finding.level != "error"]
    errors = [finding for finding in findings if finding.level == "error"]
    for finding in [*errors, *advice[:SHOWN]]:
        for line in text_lines(finding, columns):
            is_label = len(line) == _LABELLED and line[0].role == "faint"
            parts = (_STYLES[part.role](part.text) for part in line)
            output.line(*parts, indent=len(line[0].text) if is_label else None)
    if rest := advice[SHOWN:]:
        output.line(warning(f"and {len(rest):,} more"), f": {counted(rest)}")


def _count_checked(checked: Sequence[str]) -> str:
    if len(checked) == 1:
        return checked[0]
    indexes = sum(path.endswith(".json") for path in checked)
    numbers = (len(checked) - indexes, "skill", "skills"), (indexes, "index", "indexes")
    return " and ".join(f"{number} {one if number == 1 else many}" for number, one, many in numbers if number)


_STANDARD_INPUT: Final = "-"
_VALUE_COLUMNS: Final = 300  # columns of a value


@click.command()
@click.argument("sources", metavar="FILE|URL|-...", nargs=-1, required=True)
@click.option(
    "--type",
    "kind",
    type=click.Choice(["descriptor", "index", "request", "response"]),
    help="Type of the documents; by default detected from their fields.",
)
@network_options
@output_options
def validate_command(
    *, output: Output, sources: tuple[str, ...], kind: DocumentKind | None, **network: Unpack[NetworkOptions]
) -> None:
    """Report every error in Skill Sharing documents: descriptors, indexes, invocation requests and responses.

    Each error has a JSON Pointer, and a line if the text is available. A document of a newer major version of the
    protocol is not validated further. Exits with 1 when a document is invalid.
    """
    from skillwire.protocols.skill_sharing.judge import validate_document  # noqa: PLC0415  # --help does without

    reports = [validate_document(_read_document(source, output, **network), source, kind) for source in sources]
    output.document({"schema": "skillwire/validate/1", "documents": reports})
    for report in reports:
        _print_document_report(output, report)
    if faults := [fault for report in reports for fault in report.errors]:
        output.note(dim(f"read more: skillwire explain {faults[0].code}"))
        click.get_current_context().exit(1)


def _read_document(source: str, output: Output, **network: Unpack[NetworkOptions]) -> bytes:
    """Return the bytes of a document, at most one more than the limit."""
    if source == _STANDARD_INPUT:
        return sys.stdin.buffer.read(INDEX_BYTES + 1)
    if "://" in source:
        with open_client(output, references=[source], **network) as client:
            return client.sharing_document(source)
    try:
        with Path(source).open("rb") as file:
            return file.read(INDEX_BYTES + 1)
    except OSError as error:
        raise StorageError("STORAGE", f"cannot be read: {error.strerror}", place=SourceLocation(source)) from error


def _print_document_report(output: Output, report: DocumentReport) -> None:
    what, number = report.type or "document", plural(len(report.errors), "error")
    verdict = success(f"valid {what}") if report.valid else failure(f"{what} with {number}")
    output.line(bold(report.source), "  ", verdict)
    for fault in report.errors:
        output.line()
        output.line(failure(f"error[{fault.code}]"), f": {fault.path} {fault.message}".replace(":  ", ": "))
        output.line(dim("  --> "), str(fault.place))
        if fault.code == "JSON_SYNTAX" and report.source.endswith((".md", ".toml")):
            output.line(dim("  fix: "), "Give a JSON document of Skill Sharing; skillwire check FOLDER checks a skill.")
        if fault.expected is not None:
            output.line(dim("  expected: "), _value_text(fault.expected))
            output.line(dim("  actual:   "), "nothing" if fault.actual is None else _value_text(fault.actual))


def _value_text(value: object) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value), _VALUE_COLUMNS)
