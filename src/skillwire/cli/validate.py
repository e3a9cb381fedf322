"""``skillwire validate``: everything that is wrong with documents of Skill Sharing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, cast

import click

from skillwire.cli.options import NetworkOptions, network_options, open_client, plural, shortened
from skillwire.cli.output import Output, bold, dim, failure, output_options, success
from skillwire.errors import SourceLocation, StorageError
from skillwire.limits import INDEX_BYTES

if TYPE_CHECKING:
    from skillwire.cli.documents_run import ValidatedDocument
    from skillwire.protocols.skill_sharing.judge import DocumentReport

_STANDARD_INPUT: Final = "-"
_SHOWN: Final = 300  # columns of a value


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
def command(*, output: Output, sources: tuple[str, ...], kind: str | None, **network: Unpack[NetworkOptions]) -> None:
    """Report every error in Skill Sharing documents: descriptors, indexes, invocation requests and responses.

    Each error has a JSON Pointer, and a line if the text is available. A document of a newer major version of the
    protocol is not validated further. Exits with 1 when a document is invalid.
    """
    from skillwire.protocols.skill_sharing.judge import validate_document  # noqa: PLC0415  # --help does without

    reports = [(source, validate_document(_read(source, output, **network), source, kind)) for source in sources]
    output.document({"schema": "skillwire/validate/1", "documents": [_document(*row) for row in reports]})
    for source, report in reports:
        _print(output, source, report)
    if faults := [fault for _, report in reports for fault in report.faults]:
        output.note(dim(f"read more: skillwire explain {faults[0].code}"))
        click.get_current_context().exit(1)


def _read(source: str, output: Output, **network: Unpack[NetworkOptions]) -> bytes:
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


def _print(output: Output, source: str, report: DocumentReport) -> None:
    what, number = report.kind or "document", plural(len(report.faults), "error")
    output.line(bold(source), "  ", failure(f"{what} with {number}") if report.faults else success(f"valid {what}"))
    for fault in report.faults:
        wrong = fault.violation
        output.line()
        output.line(failure(f"error[{fault.code}]"), f": {wrong.path} {wrong.message}".replace(":  ", ": "))
        output.line(dim("  --> "), str(fault.place))
        if fault.code == "JSON_SYNTAX" and source.endswith((".md", ".toml")):
            output.line(dim("  fix: "), "Give a JSON document of Skill Sharing; skillwire check FOLDER checks a skill.")
        if wrong.expected is not None:
            output.line(dim("  expected: "), _value(wrong.expected))
            output.line(dim("  actual:   "), "nothing" if wrong.actual is None else _value(wrong.actual))


def _value(value: object) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value), _SHOWN)


def _document(source: str, report: DocumentReport) -> ValidatedDocument:
    errors = [{"code": fault.code, **fault.violation._asdict(), "place": fault.place} for fault in report.faults]
    fields = {"source": source, "type": report.kind, "valid": not report.faults, "errors": errors}
    return cast("ValidatedDocument", fields)
