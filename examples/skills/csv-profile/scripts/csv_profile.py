#!/usr/bin/env python3
"""Profiles a CSV file: types, missing values, ranges, outliers and structural problems.

One pass over the rows. Quantiles, outliers and repeated rows need the numbers of a column with their lines
(16 bytes a cell) and a hash of each row; ``--max-rows`` bounds that.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import re
import statistics
import sys
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DELIMITERS = ",;\t|"
MISSING = {"", "na", "n/a", "null", "none", "nan", "-"}
DISTINCT_LIMIT = 10_000
EXAMPLES = 5  # lines named with a problem
TYPE_SHARE = 0.95  # of the filled cells, for a column to have a type
MIXED_SHARE = 0.5  # of the filled cells, for the others to be called odd
OUTLIER_RANGES = 3.0  # interquartile ranges outside the middle half
MISSING_SHARE = 0.5  # from here on a column is called mostly missing
OUTLIER_MIN_NUMBERS = 12  # fewer have no meaningful quartiles

# Lengths are bounded so that every number here fits a double, and whole numbers 64 bits.
PATTERNS = [
    (kind, re.compile(pattern, re.ASCII | re.IGNORECASE))
    for kind, pattern in (
        ("identifier", r"[+-]?0\d+|\d{19,}"),  # leading zeros, or too long to count with: never a number
        ("integer", r"[+-]?\d{1,18}"),
        ("decimal", r"[+-]?(\d{1,40}\.\d*|\.\d+|\d{1,40})(e[+-]?\d{1,2})?"),
        ("decimal-comma", r"[+-]?\d{1,40},\d+"),
        ("boolean", r"true|false|yes|no"),
        ("datetime", r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?\s?(Z|[+-]\d{2}:?\d{2})?"),
        ("date", r"\d{4}-\d{2}-\d{2}|\d{1,2}\.\d{1,2}\.\d{4}"),
        ("slash-date", r"\d{1,2}/\d{1,2}/\d{4}"),
    )
]


class Unreadable(Exception):
    """The file cannot be profiled; the message says where and what to try."""


def kind_of(text: str) -> str:
    """Name the narrowest kind of a filled cell."""
    for kind, pattern in PATTERNS:
        if pattern.fullmatch(text):
            return kind
    return "text"


@dataclass
class Column:
    """What is known about one column so far."""

    name: str
    filled: int = 0
    missing: int = 0
    padded: int = 0
    longest: int = 0
    kinds: Counter = field(default_factory=Counter)
    examples: dict = field(default_factory=dict)  # kind -> the first lines that have it
    values: set = field(default_factory=set)
    smallest: float | None = None
    largest: float | None = None
    day_first: int = 0
    month_first: int = 0
    numbers: array = field(default_factory=lambda: array("d"))
    number_lines: array = field(default_factory=lambda: array("Q"))

    def add(self, cell: str, line: int) -> None:
        """Take one cell into account."""
        text = cell.strip()
        self.longest = max(self.longest, len(cell))
        if text.lower() in MISSING:
            self.missing += 1
            return
        self.filled += 1
        self.padded += text != cell
        if len(self.values) <= DISTINCT_LIMIT:
            self.values.add(text)
        kind = kind_of(text)
        self.kinds[kind] += 1
        lines = self.examples.setdefault(kind, [])
        if len(lines) < EXAMPLES:
            lines.append(line)
        if kind in ("integer", "decimal", "decimal-comma"):
            # A whole number stays one: a double would change identifiers of more than 15 digits.
            number = int(text) if kind == "integer" else float(text.replace(",", "."))
            self.smallest = number if self.smallest is None else min(self.smallest, number)
            self.largest = number if self.largest is None else max(self.largest, number)
            self.numbers.append(number)
            self.number_lines.append(line)
        elif kind == "slash-date":
            first, second = text.split("/")[:2]
            self.day_first += int(first) > 12
            self.month_first += int(second) > 12

    def grouped_kinds(self) -> Counter:
        """Count kinds, with those that one type can hold taken together."""
        merged = Counter(self.kinds)
        if merged["decimal"] or merged["decimal-comma"]:
            merged["decimal"] += merged.pop("integer", 0) + merged.pop("decimal-comma", 0)
        merged["date"] += merged.pop("slash-date", 0)
        # One identifier with a leading zero makes the plain whole numbers beside it identifiers too.
        if merged["identifier"]:
            merged["text"] += merged.pop("identifier") + merged.pop("integer", 0)
        return +merged

    def type_and_odd_kinds(self) -> tuple[str, list[str]]:
        """Return the column's type and the kinds of the cells that do not fit it."""
        kinds = self.grouped_kinds()
        if not kinds:
            return "empty", []
        best, count = kinds.most_common(1)[0]
        if best == "text" or count < MIXED_SHARE * self.filled:
            return "text", []
        odd = sorted(kind for kind in kinds if kind != best)
        return best if count >= TYPE_SHARE * self.filled else "text", odd

    def outliers(self) -> list[int]:
        """Return the lines of numbers far outside the middle half."""
        if len(self.numbers) < OUTLIER_MIN_NUMBERS:
            return []
        low, _, high = statistics.quantiles(self.numbers, n=4)
        reach = OUTLIER_RANGES * (high - low)
        if reach == 0:
            return []
        return [
            line
            for number, line in zip(self.numbers, self.number_lines, strict=True)
            if not low - reach <= number <= high + reach
        ]

    def problems(self, odd: list[str], outliers: list[int]) -> Iterator[dict]:
        """Yield what is wrong with the column."""
        total = self.filled + self.missing
        if odd:
            lines = sorted(line for kind in odd for line in self.examples.get(kind, []))
            most = self.grouped_kinds().most_common(1)[0][0]
            yield self._problem("mixed-types", f"mostly {most}, but some {', '.join(odd)}", lines)
        if self.kinds["identifier"]:
            why = "digits that are no number (leading zeros, or very long): keep as text"
            yield self._problem("leading-zeros", why, self.examples["identifier"])
        if self.kinds["decimal-comma"]:
            yield self._problem("decimal-comma", "decimal comma", self.examples["decimal-comma"])
        if self.kinds["slash-date"] and bool(self.day_first) == bool(self.month_first):
            why = "both orders occur" if self.day_first else "no value decides between day and month first"
            yield self._problem("ambiguous-dates", why, self.examples["slash-date"])
        if self.padded:
            yield self._problem("padded-cells", f"cells that begin or end with white space: {self.padded}", [])
        if self.filled and self.missing >= MISSING_SHARE * total:
            yield self._problem("mostly-missing", f"{self.missing} of {total} are missing", [])
        if total > 1 and self.missing == 0 and len(self.values) == 1:
            yield self._problem("constant", "one value in every row", [])
        if outliers:
            yield self._problem("outliers", f"numbers far from the others: {len(outliers)}", outliers[:EXAMPLES])

    def _problem(self, code: str, message: str, lines: list[int]) -> dict:
        return {"code": code, "column": self.name, "message": message, "lines": lines[:EXAMPLES]}

    def report(self) -> tuple[dict, list[dict]]:
        """Return the column's figures and its problems."""
        column_type, odd = self.type_and_odd_kinds()
        outliers = self.outliers() if column_type in ("integer", "decimal") else []
        figures: dict = {
            "name": self.name,
            "type": column_type,
            "filled": self.filled,
            "missing": self.missing,
            "distinct": len(self.values) if len(self.values) <= DISTINCT_LIMIT else f"{DISTINCT_LIMIT}+",
            "longest": self.longest,
        }
        if column_type in ("integer", "decimal"):
            figures |= {
                "min": self.smallest,
                "max": self.largest,
                "mean": statistics.fmean(self.numbers),
                "median": statistics.median(self.numbers),
                "outliers": len(outliers),
            }
        elif column_type in ("date", "datetime") and self._sorts_as_text():
            figures |= {"min": min(self.values), "max": max(self.values)}
        return figures, list(self.problems(odd, outliers))

    def _sorts_as_text(self) -> bool:
        # ISO dates do, and only a complete set of values has a true minimum.
        return len(self.values) <= DISTINCT_LIMIT and all(value[4:5] == "-" for value in self.values)


def find_delimiter(sample: list[str]) -> str:
    """Return the delimiter that splits the sample's records most evenly into more than one field."""
    best, best_score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        try:
            widths = Counter(len(row) for row in csv.reader(sample, delimiter=delimiter) if row)
        except csv.Error:
            continue  # this delimiter cannot be the one; another may be
        if not widths:
            continue
        width, count = widths.most_common(1)[0]
        if width > 1 and (score := (count / widths.total(), width)) > best_score:
            best, best_score = delimiter, score
    return best


def column_names(first: list[str], *, header: bool) -> tuple[list[str], list[dict]]:
    """Return a name for each column, and what is wrong with the header."""
    if not header:
        return [f"column{number}" for number in range(1, len(first) + 1)], []
    names = [cell.strip() or f"column{number}" for number, cell in enumerate(first, 1)]
    problems = []
    if empty := [number for number, cell in enumerate(first, 1) if not cell.strip()]:
        message = f"no name in column {', '.join(map(str, empty))}"
        problems.append({"code": "empty-names", "column": None, "message": message, "lines": [1]})
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        message = f"used twice: {', '.join(twice)}"
        problems.append({"code": "duplicate-names", "column": None, "message": message, "lines": [1]})
    return names, problems


@dataclass
class Structure:
    """What is known about the rows so far; lists hold lines."""

    width: int
    rows: int = 0
    ragged: list[int] = field(default_factory=list)
    blank: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def add(self, row: list[str], line: int) -> None:
        """Take one row into account."""
        if not row:
            self.blank.append(line)
            return
        self.rows += 1
        if len(row) != self.width:
            self.ragged.append(line)
        key = hash(tuple(row))
        if key in self.seen:
            self.repeated.append(line)
        self.seen.add(key)

    def problems(self) -> Iterator[dict]:
        """Yield what is wrong with the rows."""
        for code, lines, what in (
            ("ragged-rows", self.ragged, f"rows that do not have {self.width} fields"),
            ("blank-lines", self.blank, "lines that are blank"),
            ("duplicate-rows", self.repeated, "rows that repeat an earlier one"),
        ):
            if lines:
                yield {"code": code, "column": None, "message": f"{what}: {len(lines)}", "lines": lines[:EXAMPLES]}


def profile(lines: Iterable[str], *, delimiter: str | None, header: bool, max_rows: int) -> dict:
    """Profile the lines of a CSV file; see the skill for the meaning of each field."""
    source = iter(lines)
    if delimiter is None:
        sample = list(itertools.islice(source, 50))
        delimiter = find_delimiter(sample)
        source = itertools.chain(sample, source)
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    first = next(reader, None)
    if first is None:
        raise Unreadable("the file is empty")
    names, problems = column_names(first, header=header)
    columns = [Column(name) for name in names]
    structure, truncated = Structure(len(columns)), False
    for row in reader if header else itertools.chain([first], reader):
        if structure.rows >= max_rows:
            truncated = True
            break
        structure.add(row, reader.line_num)
        for column, cell in zip(columns, row, strict=False):
            column.add(cell, reader.line_num)
    problems += structure.problems()
    reports = [column.report() for column in columns]
    return {
        "rows": structure.rows,
        "truncated": truncated,
        "delimiter": delimiter,
        "columns": [figures for figures, _ in reports],
        "problems": problems + [problem for _, found in reports for problem in found],
    }


def show(result: dict) -> str:
    """Return the profile as text for a person."""
    name = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "pipe"}.get(result["delimiter"], result["delimiter"])
    cut = " (cut at --max-rows)" if result["truncated"] else ""
    lines = [f"{result['rows']} rows{cut}, {len(result['columns'])} columns, delimiter {name}", "", "problems:"]
    for problem in result["problems"]:
        column = f" [{problem['column']}]" if problem["column"] else ""
        where = f" (line {', '.join(map(str, problem['lines']))})" if problem["lines"] else ""
        lines.append(f"  {problem['code']}{column}: {problem['message']}{where}")
    if not result["problems"]:
        lines.append("  none")
    lines += ["", "columns:"]
    for column in result["columns"]:
        figures = ", ".join(f"{key} {shown(value)}" for key, value in column.items() if key not in ("name", "type"))
        lines.append(f"  {column['name']}: {column['type']}, {figures}")
    return "\n".join(lines)


def shown(value: object) -> str:
    """Write a figure without digits that mean nothing."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def run(stream: IO[bytes], options: argparse.Namespace) -> dict:
    """Decode the stream and profile it."""
    encoding = "utf-8-sig" if options.encoding.lower() in ("utf-8", "utf8") else options.encoding
    line = 0

    def decoded() -> Iterator[str]:
        nonlocal line
        for raw in stream:
            line += 1
            yield raw.decode(encoding if line == 1 else encoding.removesuffix("-sig"))

    try:
        if encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
            lines: Iterable[str] = io.StringIO(stream.read().decode(encoding), newline="")
        else:
            lines = decoded()
        return profile(lines, delimiter=options.delimiter, header=options.header, max_rows=options.max_rows)
    except UnicodeDecodeError as error:
        where = f"line {line}, byte {error.start + 1}" if line else f"byte {error.start + 1}"
        raise Unreadable(f"{where} is not {options.encoding}; try --encoding cp1252 or utf-16") from error
    except LookupError as error:
        raise Unreadable(f"unknown encoding {options.encoding!r}") from error
    except csv.Error as error:
        raise Unreadable(f"line {line}: {error} (is a quote open that is never closed?)") from error


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="csv_profile.py", description="Profile a CSV file before computing with it.")
    parser.add_argument("file", help="the CSV file, or - for standard input")
    parser.add_argument("--delimiter", help="one character; found by itself when left out ('tab' for a tab)")
    parser.add_argument("--encoding", default="utf-8", help="default: utf-8, with or without a byte order mark")
    parser.add_argument("--no-header", dest="header", action="store_false", help="the first line is data")
    parser.add_argument("--max-rows", type=int, default=1_000_000, metavar="N", help="stop there (default 1000000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main() -> int:
    """Run the command line; return the exit code."""
    parser = arguments()
    options = parser.parse_args()
    if options.delimiter == "tab":
        options.delimiter = "\t"
    if options.delimiter is not None and (len(options.delimiter) != 1 or options.delimiter in '"\r\n'):
        parser.error("--delimiter needs exactly one character, not a quote or a line break")
    if options.max_rows < 1:
        parser.error("--max-rows needs a number from 1")
    try:
        if options.file == "-":
            result = run(sys.stdin.buffer, options)
        else:
            with open(options.file, "rb") as stream:
                result = run(stream, options)
    except OSError as error:
        print(f"csv_profile.py: {options.file}: {error.strerror}", file=sys.stderr)
        return 2
    except Unreadable as error:
        print(f"csv_profile.py: {options.file}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result, indent=2, ensure_ascii=False) if options.json else show(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
