"""``skillwire doctor``: check this machine and explain how to fix each problem."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

from skillwire.adapters.files.atomic import home_directory
from skillwire.cli.options import scope_option
from skillwire.cli.output import Output, Styled, bold, dim, failure, output_options, success, warning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.adapters.checks.diagnosis import Diagnosis, Section
    from skillwire.cli.documents import DoctorCheck

_MARKS: Final[dict[str, Callable[[object], Styled]]] = {"ok": success, "warning": warning, "problem": failure}
_MARK_WIDTH: Final = max(map(len, _MARKS))


@click.command()
@click.option("--offline", is_flag=True, help="Check without using the network.")
@scope_option
@click.option(
    "--store",
    metavar="URL",
    default="",
    help="Shared database to ask, such as postgresql://HOST/NAME; by default that of SKILLWIRE_STORE.",
)
@output_options
def command(*, output: Output, offline: bool, for_user: bool, store: str) -> None:
    """Check network, sources, clock, folders, shared database, settings, cache and installed skills.

    Nothing is changed. Each finding explains the problem, its effect and its fix. Exits with 1 when there is a problem;
    warnings do not count.
    """
    from skillwire.adapters.doctor import count, examine, read_environment  # noqa: PLC0415  # --help does without

    root = home_directory() if for_user else Path.cwd()
    options = {"for_user": for_user, "offline": offline}
    sections = examine(read_environment(root, os.environ, time.time(), **options, store=store))
    counted = count(sections)
    output.document(
        {
            "schema": "skillwire/doctor/1",
            "checks": [
                cast("DoctorCheck", {"section": section.title, **diagnosis._asdict()})
                for section in sections
                for diagnosis in section.diagnoses
            ],
            "counts": {severity: counted[severity] for severity in counted},
        }
    )
    _print(output, sections)
    output.line(_summary(counted["problem"], counted["warning"]))
    if counted["problem"]:
        raise click.exceptions.Exit(1)


def _print(output: Output, sections: Sequence[Section]) -> None:
    for section in sections:
        shown = [row for row in section.diagnoses if row.severity != "ok" or not output.quiet]
        if shown:
            output.line(bold(section.title))
            for row in shown:
                _print_diagnosis(output, row)
            output.line()


def _print_diagnosis(output: Output, row: Diagnosis) -> None:
    mark = _MARKS[row.severity](row.severity)
    indent = _MARK_WIDTH + 4
    output.line("  ", mark, " " * (_MARK_WIDTH - len(row.severity) + 2), row.what, indent=indent)
    for label, text in (("why", row.why), ("fix", row.fix)):
        if text:
            output.line(" " * indent, dim(f"{label}  "), text, indent=indent + len(label) + 2)


def _summary(problems: int, warnings: int) -> Styled:
    counted = [
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in ((problems, "problem"), (warnings, "warning"))
        if number
    ]
    if not counted:
        return success("no problems found")
    return (failure if problems else warning)(" and ".join(counted))
