"""Findings as text for people, JSON for scripts, and SARIF for code-scanning tools.

The text follows compilers: the problem, its place, the line with the place marked, the cause and the fix. Each line is
a sequence of parts with roles, so the command line can colour it. File content is neutralised first
(:func:`~skillwire.trust.hidden_text.neutralise`), and the marks fit the text as shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict, get_args
from urllib.parse import quote

from skillwire.codes import CODES
from skillwire.errors import SourceLocation
from skillwire.folder.rules import RULES
from skillwire.model.skill import Finding, Level
from skillwire.trust.hidden_text import display_width, neutralise
from skillwire.version import VERSION

TextRole = Literal["error", "warning", "note", "strong", "faint", ""]
SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_GUTTER: Final = 4  # columns left of a line of a file, beside its number
_ORDER: Final = {"error": 0, "warning": 1, "note": 2}


class StyledText(NamedTuple):
    """A piece of a line of text, and its role."""

    text: str
    role: TextRole = ""


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
        start = (place.column or 1) - 1
        end = place.end_column - 1 if place.end_column else start + 1
        pieces = (place.excerpt[:start], place.excerpt[start:end], place.excerpt[end:])
        before, marked, after = (neutralise(piece.replace("\t", "    ")) for piece in pieces)
        if columns is not None and display_width(before + marked + after) > columns - len(margin) - _GUTTER:
            room = columns - len(margin) - _GUTTER  # the mark stays visible
            before = _clipped(before[::-1], room // 2)[::-1]
            room -= display_width(before)
            marked = _clipped(marked, room)
            after = _clipped(after, room - display_width(marked))
        yield [StyledText(f"{margin}  |", "faint")]
        yield [StyledText(f" {number} | ", "faint"), StyledText(before + marked + after)]
        marks = " " * display_width(before) + "^" * max(1, display_width(marked))
        yield [StyledText(f"{margin}  | ", "faint"), StyledText(marks, finding.level)]
    yield [StyledText(f"{margin}  = cause: ", "faint"), StyledText(cause(finding.code))]
    yield [StyledText(f"{margin}  = fix: ", "faint"), StyledText(neutralise(finding.fix))]
    yield []


def summary(findings: Sequence[Finding], checked: str) -> str:
    """Return one line such as ``checked 3 skills: 1 error, 2 warnings``."""
    found = [finding.level for finding in findings]
    counted = [(found.count(level), level) for level in get_args(Level)]
    levels = [f"{number} {word}{'' if number == 1 else 's'}" for number, word in counted if number]
    return f"checked {checked}: {', '.join(levels) or 'no findings'}"


class CheckFinding(NamedTuple):
    """A finding with its cause."""

    code: Annotated[str, "Code; skillwire explain CODE explains it"]
    level: Annotated[Level, "Severity"]
    message: Annotated[str, "The problem"]
    cause: Annotated[str, "Why it matters"]
    fix: Annotated[str, "What to do"]
    place: Annotated[SourceLocation, "Location"]


class CheckReport(TypedDict):
    """The report of ``check``, for ``--json``."""

    checked: Annotated[list[str], "Checked folders and files"]
    errors: Annotated[int, "Number of errors"]
    warnings: Annotated[int, "Number of warnings"]
    notes: Annotated[int, "Number of notes"]
    findings: Annotated[list[CheckFinding], "The findings"]


def json_document(findings: Sequence[Finding], checked: Sequence[str]) -> CheckReport:
    """Return the report for scripts."""
    levels = [finding.level for finding in findings]
    rows: list[CheckFinding] = []
    for code, level, message, place, fix in findings:
        shown = place._replace(source=neutralise(place.source), excerpt=place.excerpt and neutralise(place.excerpt))
        rows.append(CheckFinding(code, level, neutralise(message), cause(code), neutralise(fix), shown))
    return {
        "checked": list(checked),
        "errors": levels.count("error"),
        "warnings": levels.count("warning"),
        "notes": levels.count("note"),
        "findings": rows,
    }


def sarif_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the report as a SARIF 2.1.0 log with one run."""
    codes = sorted({finding.code for finding in findings})
    driver = {"name": "skillwire", "semanticVersion": VERSION, "rules": [_sarif_rule(code) for code in codes]}
    results = [
        {
            "ruleId": finding.code,
            "ruleIndex": codes.index(finding.code),
            "level": finding.level,
            "message": {"text": f"{neutralise(finding.message)}. Fix: {neutralise(finding.fix)}"},
            "locations": [{"physicalLocation": _sarif_location(finding.place)}],
        }
        for finding in findings
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _clipped(text: str, room: int) -> str:
    """Return as much of ``text`` as fits ``room`` columns, with ``…`` for the rest."""
    if display_width(text) <= room:
        return text
    while text and display_width(text) >= room:
        text = text[:-1]
    return f"{text}…" if room > 0 else ""


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


def _sarif_location(place: SourceLocation) -> dict[str, Any]:
    path = PurePath(place.source)
    # A relative path stays relative, so that a tool finds the file in a checkout.
    uri = ("file://" if path.is_absolute() else "") + quote(path.as_posix(), errors="surrogateescape")
    location: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if place.line:
        region = {"startLine": place.line, "startColumn": place.column, "endColumn": place.end_column}
        location["region"] = {key: value for key, value in region.items() if value}
    return location
