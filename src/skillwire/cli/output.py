"""What a command says, and where: results to standard output, everything else to standard error.

Text that came from outside is made harmless on its way: each part of a line passes
:func:`~skillwire.trust.hidden_text.neutralise` before a style is put around it, so a description cannot
move the cursor, hide words or fake our own lines. With ``--json`` standard output holds exactly one JSON
document that names its schema, also when the command fails.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skillwire.errors import Diagnostics
    from skillwire.model.finding import Finding


class Styled(NamedTuple):
    """A part of a line with a style for terminals."""

    text: str
    style: dict[str, Any]


def strong(text: object) -> Styled:
    """Return ``text`` in bold."""
    return Styled(str(text), {"bold": True})


def faint(text: object) -> Styled:
    """Return ``text`` dimmed."""
    return Styled(str(text), {"dim": True})


def good(text: object) -> Styled:
    """Return ``text`` in green."""
    return Styled(str(text), {"fg": "green"})


def bad(text: object) -> Styled:
    """Return ``text`` in red and bold."""
    return Styled(str(text), {"fg": "red", "bold": True})


def doubtful(text: object) -> Styled:
    """Return ``text`` in yellow."""
    return Styled(str(text), {"fg": "yellow"})


Part = str | Styled


class Output:
    """One command's voice.

    Args:
        as_json: print one JSON document instead of lines.
        quiet: say nothing but results and errors.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet

    def line(self, *parts: Part) -> None:
        """Print a line of the result, unless the result is a JSON document."""
        if not self.as_json:
            _print(parts, err=False)

    def note(self, *parts: Part) -> None:
        """Print a line beside the result: what happens, a hint. Silent with ``--quiet``."""
        if not self.quiet and not self.as_json:
            _print(parts, err=True)

    def table(self, rows: Iterable[Sequence[Part]]) -> None:
        """Print rows as aligned columns; the last column is as long as it is."""
        cells = [list(row) for row in rows]
        if not cells:
            return
        widths = [max(len(_plain(row[column])) for row in cells) for column in range(len(cells[0]) - 1)]
        for row in cells:
            padding = [" " * (width - len(_plain(cell)) + 2) for cell, width in zip(row, widths, strict=False)]
            self.line(*(part for cell, space in zip(row, [*padding, ""], strict=True) for part in (cell, space)))

    def document(self, schema: str, content: dict[str, Any]) -> None:
        """Print the JSON document, with ``--json``; ``schema`` is such as ``find/1``."""
        if self.as_json:
            click.echo(json.dumps({"schema": f"skillwire/{schema}", **content}, indent=2, ensure_ascii=False))

    def finding(self, finding: Finding) -> None:
        """Say what was skipped or is doubtful, with the place and the fix."""
        if self.as_json or (self.quiet and finding.level != "error"):
            return
        mark = {"error": bad, "warning": doubtful, "note": faint}[finding.level]
        _print([mark(f"{finding.level}[{finding.code}]"), f": {finding.message}"], err=True)
        _print([faint("  --> "), str(finding.place)], err=True)
        if finding.fix:
            _print([faint("  fix: "), finding.fix], err=True)

    def error(self, error: Diagnostics) -> None:
        """Say what went wrong: code, cause, place, fix and where to read more."""
        if self.as_json:
            place = error.place._asdict() if error.place else None
            self.document("error/1", {"error": {**error._asdict(), "place": place, "details": dict(error.details)}})
            return
        _print([bad(f"error[{error.code}]"), f": {error.message}"], err=True)
        rows = [("-->", str(error.place or "")), ("cause:", error.cause), ("fix:", error.fix)]
        for label, text in [*rows, ("docs:", error.documentation)]:
            if text:
                _print([faint(f"  {label} "), text], err=True)


def _plain(part: Part) -> str:
    return neutralise(part.text if isinstance(part, Styled) else part)


def _print(parts: Iterable[Part], *, err: bool) -> None:
    text = "".join(
        click.style(_plain(part), **part.style) if isinstance(part, Styled) else _plain(part) for part in parts
    )
    click.echo(text, err=err, color=_wants_color(err=err))


def _wants_color(*, err: bool) -> bool:
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` and ``--quiet`` to a command and hand it one ``output: Output``.

    The :class:`Output` also goes into the context, so that an error is told in the form that was asked for.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    @click.option("-q", "--quiet", is_flag=True, help="Say nothing but results and errors.")
    @click.pass_context
    def with_output(context: click.Context, /, *, as_json: bool, quiet: bool, **options: Any) -> Any:
        output = Output(as_json=as_json, quiet=quiet)
        context.find_root().obj = output
        return command(output=output, **options)

    with_output.__doc__ = command.__doc__
    with_output.__name__ = command.__name__
    # Options added below this decorator are kept by click on the function; hand them on.
    with_output.__click_params__ += getattr(command, "__click_params__", [])  # type: ignore[attr-defined]  # click's own
    return with_output
