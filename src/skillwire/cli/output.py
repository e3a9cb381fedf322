"""Output of commands: results on standard output; everything else, and the progress of work, on standard error.

Text from outside is neutralised: each part of a line passes :func:`one_line` before a style is applied, so a
description cannot move the cursor, hide words or imitate our own lines. On a terminal long lines are wrapped between
words; in a pipe each stays one line. With ``--json`` standard output is exactly one JSON document in ASCII, with its
schema name and all findings, also when the command fails.

A timer draws the progress line of work that takes more than a second, so that it also appears while a server is silent.
It is erased before other output and at the end.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TextIO, TypeVar

import click

from skillwire.codes import CODES
from skillwire.trust.hidden_text import display_width, neutralise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skillwire.cli.documents_run import Document, Event
    from skillwire.errors import Diagnostics
    from skillwire.model.skill import Finding

T = TypeVar("T")
R = TypeVar("R")

SHOWN: Final = 20  # further warnings and notes are only counted; every error is printed
_LEAST_OF_CLICK: Final = 52  # columns
_BREAKS: Final = re.compile(r"\r\n|[\n\r\t]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_NOT_PLAIN: Final = re.compile(r"[^\n -~]")
_WORD: Final = re.compile(" *[^ ]+")
_KEPT: Final = "\0"  # stands for a space at which no line is broken; what is printed holds none
_ROOM: Final = 20  # columns that a broken line needs beside its indent
_ROOM_OF_CELL: Final = 24  # columns that the last cell of a table needs to say anything
_STEP: Final = 2  # columns
_PROGRESS_DELAY: Final = 1.0  # seconds before the line appears
_PROGRESS_INTERVAL: Final = 0.2  # seconds between two drawings of it
_PROGRESS_WIDTH: Final = 20  # characters
_CLEAR: Final = "\r\x1b[K"
_KILO: Final = 1000


class Styled(NamedTuple):
    """A part of a line with a terminal style; a ``is_nowrap`` part is never wrapped."""

    text: str
    style: dict[str, Any]
    is_nowrap: bool = False


def _style(*, is_nowrap: bool = False, **style: Any) -> Callable[[object], Styled]:
    return lambda text: Styled(str(text), style, is_nowrap)


bold = _style(bold=True)
dim = _style(dim=True)
success = _style(fg="green")
failure = _style(fg="red", bold=True)
warning = _style(fg="yellow")
#: Not wrapped if it fits a line; for commands to copy.
nowrap = _style(is_nowrap=True)

Part = str | Styled


class Output:
    """The output of one command: lines, or one JSON document; with ``quiet`` only results and errors."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.progress = Progress(shown=not (quiet or as_json))
        self._findings: dict[Finding, None] = {}  # in order
        self._counted: list[Finding] = []  # not printed one by one
        self._advice = 0
        self._has_document = False

    def line(self, *parts: Part, indent: int | None = None) -> None:
        """Print a line of the result; wrapped lines are indented, by two more than the first one by default."""
        if not self.as_json:
            _print(parts, err=False, indent=indent)

    def text(self, text: str) -> None:
        """Print a text of many lines, such as the body of a SKILL.md, unwrapped."""
        for line in text.removesuffix("\n").split("\n"):
            self.verbatim(line.removesuffix("\r").expandtabs())

    def verbatim(self, *parts: Part) -> None:
        """Print a line of the result that is never wrapped."""
        if not self.as_json:
            _echo(_styled(_pieces(parts)), err=False)

    def note(self, *parts: Part) -> None:
        """Print a line on standard error, without ``--quiet`` and ``--json``."""
        if not self.quiet and not self.as_json:
            _print(parts, err=True)

    def hint(self, why: str, command: str) -> None:
        """Print a useful next command, never wrapped."""
        self.note(dim(f"{why} "), dim(command)._replace(is_nowrap=True))

    def table(self, rows: Iterable[Sequence[Part]], *, err: bool = False) -> None:
        """Print rows as aligned columns, or as lines on a narrow terminal; with ``err`` as notes."""
        cells = [_pieces(row) for row in rows]
        if not cells or self.as_json or (err and self.quiet):
            return
        widths = [max(map(_width, column)) + _STEP for column in zip(*cells, strict=True)]
        indent, longest = sum(widths[:-1]), widths[-1] - _STEP
        columns = terminal_columns(sys.stderr if err else sys.stdout)
        if columns is not None and indent + min(longest, _ROOM_OF_CELL) > columns:
            for row in cells:
                seen = [cell._replace(is_nowrap=True) for cell in row if cell.text.strip(" ")]
                _print([part for cell in seen for part in (cell, "  ")], err=err)
            return
        for *row, last in cells:
            padded = zip(row, widths[:-1], strict=True)
            parts = [part for cell, width in padded for part in (cell, " " * (width - _width(cell)))]
            _print([*parts, last], err=err, indent=indent)

    def document(self, document: Document) -> None:
        """Print a document, with ``--json``. Findings are added to it."""
        if self.as_json:
            fields, value = document if isinstance(document, tuple) else (document, None)
            more = value._asdict() if value is not None else {}
            text = encode_document({**fields, **more, "findings": list(self._findings)})
            click.echo(readable_json(json.loads(text)) if is_readable(sys.stdout) else text)
            self._has_document = True

    def finding(self, finding: Finding) -> None:
        """Print a finding with place and fix; beyond ``SHOWN``, warnings and notes are only counted."""
        if self.quiet and not self.as_json and finding.level != "error":
            return
        if finding in self._findings:  # what was printed before a question is not printed after it
            return
        self._findings[finding] = None
        if self.as_json:
            return
        if finding.level != "error":
            self._advice += 1
            if self._advice > SHOWN:
                self._counted.append(finding)
                return
        mark = {"error": failure, "warning": warning, "note": dim}[finding.level]
        _print([mark(f"{finding.level}[{finding.code}]"), f": {finding.message}"], err=True)
        _print_rows([("-->", str(finding.place)), ("fix:", finding.fix)])

    def count_findings(self) -> None:
        """Print the number of uncounted findings by code, and the command that explains them."""
        if self._counted:
            _print([warning(f"and {len(self._counted):,} more"), f": {counted(self._counted)}"], err=True)
        if self._findings:
            self.hint("read more:", f"skillwire explain {' '.join(codes_of(self._findings))}")

    def error(self, error: Diagnostics, *, is_last: bool = True) -> None:
        """Print an error with code, place, cause and fix; below the last of several, the command that explains it."""
        if self.as_json and not self._has_document:
            self.document({"schema": "skillwire/error/1", "error": error})
            return
        _print([failure(f"error[{error.code}]"), f": {error.message}"], err=True)
        # The cause is that of the code. Where this case has a fix of its own, it says nothing beyond it.
        cause = error.cause if error.fix == CODES[error.code].fix else ""
        # The pages of the docs are not installed; what they say of a code is.
        docs = f"skillwire explain {error.code}" if is_last else ""
        _print_rows([("-->", str(error.place or "")), ("cause:", cause), ("fix:", error.fix), ("docs:", docs)])


def counted(findings: Iterable[Finding]) -> str:
    """Return the number of findings of each code."""
    rows = Counter(finding.code for finding in findings).most_common()
    return f"{', '.join(f'{number:,} {code}' for code, number in rows)}; --json lists them all"


def codes_of(findings: Iterable[Finding]) -> list[str]:
    """Return the distinct codes of findings, those of errors first."""
    return list(dict.fromkeys(row.code for row in sorted(findings, key=lambda row: row.level != "error")))


def encode_document(document: Mapping[str, Any], *, indent: int | None = 2) -> str:
    r"""Return a JSON document in ASCII, so that nothing in it commands a terminal; one line with ``indent`` None.

    Named tuples and structs are objects of their fields. A file's name need not be UTF-8. Python keeps a stray byte as
    half of a surrogate pair, which strict readers of JSON refuse; it is written out as the text ``\udcff``.
    """
    return json.dumps(_plain(document), indent=indent).replace("\x7f", "\\u007f")


def print_event(event: Event) -> None:
    """Print a line of a stream."""
    click.echo(encode_document(event, indent=None))


def readable_json(value: Any) -> str:
    """Return JSON with readable characters; invisible ones and terminal commands are escaped."""

    def escape(found: re.Match[str]) -> str:
        text = found[0]
        if text.isprintable() and neutralise(text) == text:
            return text
        return json.dumps(text)[1:-1].replace("\x7f", "\\u007f")

    return _NOT_PLAIN.sub(escape, json.dumps(value, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    value = value._asdict() if hasattr(value, "_asdict") else value
    if hasattr(value, "__struct_fields__"):
        from msgspec import to_builtins  # noqa: PLC0415  # loaded, where there is a struct

        return _plain(to_builtins(value))
    if isinstance(value, str):
        return _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def one_line(text: str) -> str:
    """Return ``text`` as one line without invisible characters; line breaks and tabs become spaces."""
    return neutralise(_BREAKS.sub(" ", text))


def print_end(message: str) -> None:
    """Print a final line on standard error; on a terminal it replaces the ``^C``."""
    in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    click.echo(f"\r\x1b[K{message}" if in_place else message, err=True, color=True)


def help_width() -> int | None:
    """Return the width of help on a terminal narrower than click's minimum; None elsewhere."""
    columns = terminal_columns(sys.stdout)
    return columns - 2 if columns is not None and columns < _LEAST_OF_CLICK else None


def folded(text: str) -> str:
    """Return ``text``, neutralised and wrapped for standard error."""
    return "\n".join("".join(piece.text for piece in line) for line in _lines(_pieces([text]), sys.stderr))


def drawn(parts: Iterable[Part]) -> str:
    """Return a styled line for drawing on a screen."""
    pieces = _pieces(parts)
    return _styled(pieces) if _wants_color(sys.stdout) else "".join(piece.text for piece in pieces)


def _pieces(parts: Iterable[Part]) -> list[Styled]:
    styled = (part if isinstance(part, Styled) else Styled(part, {}) for part in parts)
    return [part._replace(text=one_line(part.text)) for part in styled]


def _print(parts: Iterable[Part], *, err: bool, indent: int | None = None) -> None:
    lines = _lines(_pieces(parts), sys.stderr if err else sys.stdout, indent)
    _echo("\n".join(map(_styled, lines)), err=err)  # at once: a log may write to the same terminal


def _print_rows(rows: Iterable[tuple[str, str]]) -> None:
    for label, text in rows:
        if text:
            _print([dim(f"  {label} "), text], err=True, indent=len(label) + 3)


def _lines(pieces: list[Styled], stream: TextIO, indent: int | None = None) -> Iterable[list[Styled]]:
    """Return ``pieces`` as lines: several on a narrow terminal, else one."""
    while pieces and not pieces[-1].text.strip(" "):
        pieces.pop()
    if pieces:
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text.rstrip(" "))
    columns = terminal_columns(stream)
    return [pieces] if columns is None or not pieces else wrap(pieces, columns, indent)


def _styled(pieces: Iterable[Styled]) -> str:
    return "".join(click.style(piece.text, **piece.style) if piece.style else piece.text for piece in pieces)


def _echo(text: str, *, err: bool) -> None:
    click.echo(text, err=err, color=_wants_color(sys.stderr if err else sys.stdout))


def terminal_columns(stream: TextIO) -> int | None:
    """Return the width of the terminal behind ``stream``; None without one, or if unknown."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:  # a terminal that does not say its width breaks lines itself
        return None


def is_readable(stream: TextIO) -> bool:
    """Whether the stream is a UTF-8 terminal."""
    return stream.isatty() and (stream.encoding or "").lower().replace("-", "") == "utf8"


def _wants_color(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` and ``--quiet``, and pass ``output: Output``, which the context stores for printing errors."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only results and errors.")
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


def _width(text: str | Styled) -> int:
    return display_width(text if isinstance(text, str) else text.text)


def wrap(pieces: Sequence[Styled], columns: int, indent: int | None = None) -> Iterator[list[Styled]]:
    """Yield the lines that ``pieces`` fill; ``indent`` None is two columns more than that of the first line."""
    text = "".join(piece.text for piece in pieces)
    if indent is None or columns - indent < _ROOM:
        indent = len(text) - len(text.lstrip(" ")) + _STEP
    text = "".join(
        piece.text.replace(" ", _KEPT) if piece.is_nowrap and _width(piece) <= columns - indent else piece.text
        for piece in pieces
    )
    for number, (start, end) in enumerate(_spans(text, columns, indent)):
        margin = [pieces[0]._replace(text=" " * indent, style={})] if number else []
        yield [*margin, *_between(pieces, start, end)]


def _spans(text: str, columns: int, indent: int) -> Iterator[tuple[int, int]]:
    """Yield where each line begins and ends in ``text``."""
    start = end = used = 0
    for found in _WORD.finditer(text):
        word = found[0].lstrip(" ")
        filled = used + _width(found[0])
        if used and filled > columns and indent + _width(word) <= columns:
            yield start, end
            start = found.end() - len(word)
            filled = indent + _width(word)
        end, used = found.end(), (filled - 1) % columns + 1
    yield start, end


def _between(pieces: Sequence[Styled], start: int, end: int) -> Iterator[Styled]:
    position = 0
    for piece in pieces:
        text = piece.text[max(start - position, 0) : max(end - position, 0)]
        position += len(piece.text)
        if text:
            yield piece._replace(text=text)


class Progress:
    """A line with a bar and the remaining time for known steps, and the bytes and rate of traffic.

    A context manager, which :meth:`during` and :meth:`waiting` prepare for each work.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._timer: threading.Thread | None = None
        self._ended = threading.Event()
        self._drawn = False
        self._begin("", 0)

    def _begin(self, label: str, total: int, *, counts_bytes: bool = True) -> None:
        self._label, self._total, self._counts_bytes = label, total, counts_bytes
        self._done, self._bytes, self._host = 0, 0, ""
        self._started = time.monotonic()

    def during(self, label: str, total: int = 0) -> Self:
        """Return this progress, to be entered for ``total`` steps of work, 0 if unknown."""
        self._begin(label, total)
        return self

    def waiting(self, label: str) -> Self:
        """Return this progress, to be entered for a wait without traffic; see :meth:`relabel`."""
        self._begin(label, 0, counts_bytes=False)
        return self

    def relabel(self, label: str) -> None:
        """Change the label, and keep the elapsed time."""
        with self._lock:
            self._label = label

    def __enter__(self) -> Self:
        if self._shown:
            self._ended = threading.Event()
            self._timer = threading.Thread(target=self._draw_until, args=(self._ended,), daemon=True)
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._ended.set()
            self._timer.join()
            self._timer = None
            self._clear()

    def advance(self, steps: int = 1) -> None:
        """Count ``steps`` as done."""
        with self._lock:
            self._done += steps

    def traffic(self, host: str, size: int) -> None:
        """Count ``size`` bytes from ``host``, 0 for a request; thread-safe."""
        with self._lock:
            if self._counts_bytes:
                self._host = host
                self._bytes += size

    @property
    def has_traffic(self) -> bool:
        """Whether there was a request since this work began."""
        return bool(self._host)

    def beside(self, print_value: Callable[[T], R]) -> Callable[[T], R]:
        """Return ``print_value``, which prints, wrapped so that it erases the progress line first."""

        def print_beside(value: T) -> R:
            with self._lock:
                self._clear()
                return print_value(value)

        return print_beside

    def _draw_until(self, ended: threading.Event) -> None:
        wait = _PROGRESS_DELAY
        while not ended.wait(wait):
            wait = _PROGRESS_INTERVAL
            with self._lock:
                line = self._line(time.monotonic() - self._started, columns() - 1)
                sys.stderr.write(_CLEAR + line)
                sys.stderr.flush()
                self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._drawn = False

    def _line(self, seconds: float, width: int) -> str:
        """Return the progress after ``seconds`` in at most ``width`` characters."""
        what = one_line(f"{self._label} {self._host}" if self._host and not self._total else self._label)
        parts = [f"{what} … {seconds:.0f} s"]
        if self._total:
            filled = _PROGRESS_WIDTH * min(self._done, self._total) // self._total
            parts = [f"{what} [{'#' * filled}{'-' * (_PROGRESS_WIDTH - filled)}] {self._done}/{self._total}"]
        if self._bytes:
            parts += [_size(self._bytes), f"{_size(self._bytes / seconds)}/s"]
        if self._total and 0 < self._done < self._total:
            parts.append(f"{seconds / self._done * (self._total - self._done):.0f} s left")
        elif self._total:
            parts.append(f"{seconds:.0f} s")
        return "  ".join(parts)[:width]


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < _KILO:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _KILO
    return f"{count:.1f} GB"


def columns(default: int = 80) -> int:
    """Return the width of the terminal."""
    import shutil  # noqa: PLC0415  # only for what takes long, and for lines that are cut

    return shutil.get_terminal_size((default, 24)).columns
