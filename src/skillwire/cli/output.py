"""What a command says, and where: results to standard output, everything else to standard error.

Text that came from outside is made harmless on its way: each part of a line passes :func:`one_line`
before a style is put around it, so a description cannot move the cursor, hide words or fake our own lines.
With ``--json`` standard output holds exactly one JSON document in ASCII that names its schema and holds every
finding, also when the command fails.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skillwire.errors import Diagnostics, Place
    from skillwire.model.finding import Finding


_SHOWN: Final = 20  # more findings than this are counted, not told one by one
_BREAKS: Final = re.compile(r"\r\n|[\n\r\t]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


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
        self._findings: list[Finding] = []
        self._told = False

    def line(self, *parts: Part) -> None:
        """Print a line of the result, unless the result is a JSON document."""
        if not self.as_json:
            _print(parts, err=False)

    def text(self, text: str) -> None:
        """Print a text of many lines, such as the body of a SKILL.md, line by line."""
        for line in text.removesuffix("\n").split("\n"):
            self.line(line.removesuffix("\r").expandtabs())

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
        """Print the JSON document, with ``--json``; ``schema`` is such as ``find/1``. Findings are added to it."""
        if self.as_json:
            findings = [finding_object(finding) for finding in self._findings]
            click.echo(encode_document({"schema": f"skillwire/{schema}", **content, "findings": findings}))
            self._told = True

    def finding(self, finding: Finding) -> None:
        """Say what was skipped or is doubtful, with the place and the fix; many are counted in the end."""
        if self.quiet and not self.as_json and finding.level != "error":
            return
        self._findings.append(finding)
        if self.as_json or len(self._findings) > _SHOWN:
            return
        mark = {"error": bad, "warning": doubtful, "note": faint}[finding.level]
        _print([mark(f"{finding.level}[{finding.code}]"), f": {finding.message}"], err=True)
        _print([faint("  --> "), str(finding.place)], err=True)
        if finding.fix:
            _print([faint("  fix: "), finding.fix], err=True)

    def count_findings(self) -> None:
        """Say how many findings, by code, were too many to be told one by one."""
        more = self._findings[_SHOWN:]
        if more and not self.as_json:
            counted = Counter(finding.code for finding in more).most_common()
            codes = ", ".join(f"{number} {code}" for code, number in counted)
            _print([doubtful(f"and {len(more)} more findings"), f": {codes}; --json lists them all"], err=True)

    def error(self, error: Diagnostics) -> None:
        """Say what went wrong: code, cause, place, fix and where to read more."""
        if self.as_json and not self._told:
            self.document("error/1", {"error": error_object(error)})
            return
        _print([bad(f"error[{error.code}]"), f": {error.message}"], err=True)
        rows = [("-->", str(error.place or "")), ("cause:", error.cause), ("fix:", error.fix)]
        # The pages of the docs are not installed; what they say of a code is.
        for label, text in [*rows, ("docs:", f"skillwire explain {error.code}")]:
            if text:
                _print([faint(f"  {label} "), text], err=True)


def error_object(error: Diagnostics) -> dict[str, Any]:
    """Return an error for ``--json``."""
    return {**error._asdict(), "place": _place_object(error.place), "details": dict(error.details)}


def finding_object(finding: Finding) -> dict[str, Any]:
    """Return a finding for ``--json``."""
    return {**finding._asdict(), "place": _place_object(finding.place)}


def _place_object(place: Place | None) -> dict[str, Any] | None:
    return place._asdict() if place is not None else None


def encode_document(document: dict[str, Any], *, indent: int | None = 2) -> str:
    r"""Return a JSON document in ASCII: nothing in it commands a terminal, whatever it was made of.

    With ``indent`` None it is one line.

    A file's name need not be UTF-8. Python keeps a stray byte as half of a surrogate pair, which strict readers of
    JSON refuse; it is written out as the text ``\udcff``.
    """
    return json.dumps(_without_surrogates(document), indent=indent).replace("\x7f", "\\u007f")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return [_without_surrogates(item) for item in value] if isinstance(value, list | tuple) else value


def one_line(text: str) -> str:
    """Return ``text`` without hidden characters and as one line: a line break or tab becomes a space."""
    return neutralise(_BREAKS.sub(" ", text))


def _plain(part: Part) -> str:
    return one_line(part.text if isinstance(part, Styled) else part)


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
        try:
            return command(output=output, **options)
        finally:
            output.count_findings()

    with_output.__doc__ = command.__doc__
    with_output.__name__ = command.__name__
    # Options added below this decorator are kept by click on the function; hand them on.
    with_output.__click_params__ += getattr(command, "__click_params__", [])  # type: ignore[attr-defined]  # click's own
    return with_output
