"""Findings as text for people, JSON for scripts, and SARIF for code-scanning tools.

The text follows compilers: the problem, its place, the line with the place marked, the cause and the fix. Each line is
a sequence of parts with roles, so the command line can colour it. File content passes through
:func:`~skillwire.trust.hidden_text.neutralise` first, and the marks fit the text as shown.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from skillwire.codes import CODES
from skillwire.folder.rules import RULES
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.text import display_width
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skillwire.errors import SourceLocation
    from skillwire.model.skill import Finding

TextRole = Literal["error", "warning", "note", "strong", "faint", ""]
SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_GUTTER: Final = 4  # columns left of a line of a file, beside its number
_ORDER: Final = {"error": 0, "warning": 1, "note": 2}


class StyledText(NamedTuple):
    """A piece of a line of text, and the role that it plays."""

    text: str
    role: TextRole = ""


class Counts(NamedTuple):
    """How many findings there are of each level."""

    errors: int
    warnings: int
    notes: int


def count(findings: Iterable[Finding]) -> Counts:
    """Return how many findings there are of each level."""
    levels = [finding.level for finding in findings]
    return Counts(levels.count("error"), levels.count("warning"), levels.count("note"))


def by_place(findings: Iterable[Finding]) -> list[Finding]:
    """Return ``findings`` file by file, in each from the top, the gravest of one line first."""
    return sorted(
        findings,
        key=lambda one: (one.place.source, one.place.line or 0, _ORDER[one.level], one.place.column or 0, one.code),
    )


def cause(code: str) -> str:
    """Return why a finding of this code matters."""
    return RULES[code].cause if code in RULES else CODES[code].cause


def text_lines(finding: Finding, columns: int | None = None) -> Iterator[Sequence[StyledText]]:
    """Yield the lines of one finding, the file's line cut to ``columns``; the last line is empty."""
    place = finding.place
    number = str(place.line or "")
    margin = " " * len(number)
    yield [
        StyledText(f"{finding.level}[{finding.code}]", finding.level),
        StyledText(f": {neutralise(finding.message)}", "strong"),
    ]
    yield [StyledText(f"{margin} --> ", "faint"), StyledText(neutralise(str(place)))]
    if place.excerpt is not None:
        before, marked, after = _fitted(_cut(place), None if columns is None else columns - len(margin) - _GUTTER)
        yield [StyledText(f"{margin}  |", "faint")]
        yield [StyledText(f" {number} | ", "faint"), StyledText(before + marked + after)]
        marks = " " * display_width(before) + "^" * max(1, display_width(marked))
        yield [StyledText(f"{margin}  | ", "faint"), StyledText(marks, finding.level)]
    yield [StyledText(f"{margin}  = cause: ", "faint"), StyledText(cause(finding.code))]
    yield [StyledText(f"{margin}  = fix: ", "faint"), StyledText(neutralise(finding.fix))]
    yield []


def summary(findings: Sequence[Finding], checked: str) -> str:
    """Return one line such as ``checked 3 skills: 1 error, 2 warnings``."""
    counted = count(findings)
    said = [
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in zip(counted, ("error", "warning", "note"), strict=True)
        if number
    ]
    return f"checked {checked}: {', '.join(said) or 'no findings'}"


def json_document(findings: Sequence[Finding], checked: Sequence[str]) -> dict[str, Any]:
    """Return the report for scripts."""
    counted = count(findings)
    return {"checked": list(checked), **counted._asdict(), "findings": [_json_finding(one) for one in findings]}


def sarif_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the report as a SARIF 2.1.0 log with one run."""
    codes = sorted({finding.code for finding in findings})
    driver = {"name": "skillwire", "semanticVersion": VERSION, "rules": [_sarif_rule(code) for code in codes]}
    results = [_sarif_result(finding, codes.index(finding.code)) for finding in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _cut(place: SourceLocation) -> tuple[str, str, str]:
    """Return the line before the marked piece, the piece, and the rest, all made visible."""
    line = place.excerpt or ""
    start = (place.column or 1) - 1
    end = place.end_column - 1 if place.end_column else start + 1
    before, marked, after = (
        neutralise(part.replace("\t", "    ")) for part in (line[:start], line[start:end], line[end:])
    )
    return before, marked, after


def _fitted(pieces: tuple[str, str, str], room: int | None) -> tuple[str, str, str]:
    """Return the pieces of a line cut to ``room`` columns so that the mark stays visible; ``…`` replaces the rest."""
    before, marked, after = pieces
    if room is None or display_width(before + marked + after) <= room:
        return pieces
    before = _clipped(before[::-1], room // 2)[::-1]
    room -= display_width(before)
    marked = _clipped(marked, room)
    return before, marked, _clipped(after, room - display_width(marked))


def _clipped(text: str, room: int) -> str:
    """Return as much of ``text`` as fits ``room`` columns, with ``…`` where something is left out."""
    if display_width(text) <= room:
        return text
    while text and display_width(text) >= room:
        text = text[:-1]
    return f"{text}…" if room > 0 else ""


def _json_finding(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "code": finding.code,
        "level": finding.level,
        "message": neutralise(finding.message),
        "cause": cause(finding.code),
        "fix": neutralise(finding.fix),
        "place": {
            "source": neutralise(place.source),
            "line": place.line,
            "column": place.column,
            "end_column": place.end_column,
            "excerpt": None if place.excerpt is None else neutralise(place.excerpt),
        },
    }


def _sarif_rule(code: str) -> dict[str, Any]:
    row = RULES.get(code) or CODES[code]
    level = RULES[code].level_strict if code in RULES else "error"
    return {
        "id": code,
        "shortDescription": {"text": row.summary},
        "fullDescription": {"text": row.cause},
        "help": {"text": f"{row.cause}\n\nFix: {row.fix}"},
        "defaultConfiguration": {"level": level or "none"},
    }


def _sarif_result(finding: Finding, rule: int) -> dict[str, Any]:
    place = finding.place
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(place.source)}}
    if place.line:
        region = {"startLine": place.line, "startColumn": place.column, "endColumn": place.end_column}
        location["region"] = {key: value for key, value in region.items() if value}
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.level,
        "message": {"text": f"{neutralise(finding.message)}. Fix: {neutralise(finding.fix)}"},
        "locations": [{"physicalLocation": location}],
    }


def _uri(source: str) -> str:
    """Return a file's path as a URI: relative when the path is, so that a tool finds it in a checkout."""
    path = PurePath(source)
    if path.is_absolute():
        return "file://" + quote(path.as_posix(), errors="surrogateescape")
    return quote(path.as_posix(), errors="surrogateescape")
