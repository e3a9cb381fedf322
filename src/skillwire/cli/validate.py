"""``skillwire validate``: everything that is wrong with documents of Skill Sharing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

from skillwire.cli.options import network_options, open_client, plural, shortened
from skillwire.cli.output import bold, dim, failure, output_options, success
from skillwire.errors import SourceLocation, StorageError
from skillwire.limits import INDEX_BYTES

if TYPE_CHECKING:
    from skillwire.cli.documents_run import ValidatedDocument
    from skillwire.cli.output import Output
    from skillwire.protocols.skill_sharing.judge import DocumentFault, DocumentReport

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
def command(
    *, output: Output, sources: tuple[str, ...], kind: str | None, token: str | None, offline: bool | None
) -> None:
    """Report every error in Skill Sharing documents: descriptors, indexes, invocation requests and responses.

    Each error has a JSON Pointer, and a line if the text is available. A document of a newer major version of the
    protocol is not validated further. Exits with 1 when a document is invalid.
    """
    from skillwire.protocols.skill_sharing.judge import validate_document  # noqa: PLC0415  # --help does without

    judgements = [
        (source, validate_document(_read(source, output, token=token, offline=offline), source, kind))
        for source in sources
    ]
    output.document({"schema": "skillwire/validate/1", "documents": [_document(*row) for row in judgements]})
    for source, judgement in judgements:
        _print(output, source, judgement)
    if any(judgement.faults for _, judgement in judgements):
        first = next(judgement.faults[0].code for _, judgement in judgements if judgement.faults)
        output.note(dim(f"read more: skillwire explain {first}"))
        click.get_current_context().exit(1)


def _read(source: str, output: Output, *, token: str | None, offline: bool | None) -> bytes:
    """Return the bytes of a document, at most one more than the limit."""
    if source == _STANDARD_INPUT:
        return sys.stdin.buffer.read(INDEX_BYTES + 1)
    if "://" in source:
        with open_client(output, references=[source], token=token, offline=offline) as client:
            return client.sharing_document(source)
    try:
        with Path(source).open("rb") as file:
            return file.read(INDEX_BYTES + 1)
    except OSError as error:
        raise StorageError("STORAGE", f"cannot be read: {error.strerror}", place=SourceLocation(source)) from error


def _print(output: Output, source: str, judgement: DocumentReport) -> None:
    what = f"{judgement.kind or 'document'}"
    if not judgement.faults:
        output.line(bold(source), "  ", success(f"valid {what}"))
        return
    number = plural(len(judgement.faults), "error")
    output.line(bold(source), "  ", failure(f"{what} with {number}"))
    for fault in judgement.faults:
        _print_fault(output, fault)


def _print_fault(output: Output, fault: DocumentFault) -> None:
    wrong = fault.violation
    output.line()
    output.line(failure(f"error[{fault.code}]"), f": {wrong.path or '/'} {wrong.message}")
    output.line(dim("  --> "), str(fault.place))
    if wrong.expected is not None:
        output.line(dim("  expected: "), _value(wrong.expected))
        output.line(dim("  actual:   "), "nothing" if wrong.actual is None else _value(wrong.actual))


def _value(value: object) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value), _SHOWN)


def _document(source: str, judgement: DocumentReport) -> ValidatedDocument:
    fields = {
        "source": source,
        "type": judgement.kind,
        "valid": not judgement.faults,
        "errors": [
            {"code": fault.code, **fault.violation._asdict(), "place": fault.place._asdict()}
            for fault in judgement.faults
        ],
    }
    return cast("ValidatedDocument", fields)
