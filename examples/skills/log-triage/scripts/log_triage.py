#!/usr/bin/env python3
"""Groups log lines into distinct problems, with counts, times and one example each.

A record is a line with the lines that continue it. Its fingerprint is its first line (and, for a stack
trace, the exception's line) without timestamp and with everything that varies replaced. Only one example a
group is kept, so memory grows with the number of groups, not of lines.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINE_LIMIT = 4_000  # characters of a line that are looked at
EXAMPLE_LINES = 40  # lines of an example that are kept
FINGERPRINT_LIMIT = 300  # characters

TIME = re.compile(
    r"""\[?(
        \d{4}[-/]\d{2}[-/]\d{2}[T\ ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:\s?(?:Z|UTC|[+-]\d{2}:?\d{2}))?  # ISO 8601 and kin
      | \d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2}(?:\ [+-]\d{4})?                                # access logs
      | [A-Z][a-z]{2}\ [\ \d]\d\ \d{2}:\d{2}:\d{2}                                                 # syslog
      )\]?""",
    re.VERBOSE | re.ASCII,
)
TIME_REACH = 80  # characters from the start of a line in which its timestamp must begin
MINUTE = re.compile(r".*\d{2}:\d{2}(?=:\d{2})", re.ASCII)

LEVELS = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "NOTICE": 2, "WARN": 3, "ERROR": 4, "FATAL": 5}
ALIASES = {
    "WARNING": "WARN", "ERR": "ERROR", "SEVERE": "ERROR", "CRIT": "FATAL", "CRITICAL": "FATAL",
    "EMERG": "FATAL", "ALERT": "FATAL", "PANIC": "FATAL",
}  # fmt: skip
LEVEL = re.compile(
    r"\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERR|ERROR|SEVERE|FATAL|CRIT|CRITICAL|EMERG|ALERT|PANIC)\b"
    r"|(?:\blevel=\"?|\[)(trace|debug|info|notice|warn|warning|err|error|severe|fatal|crit|critical|emerg|alert|panic)\b"
)
LOGFMT_MESSAGE = re.compile(r"\bmsg=\"((?:[^\"\\]|\\.)+)\"")
LEVEL_REACH = 160  # characters from the start of a message
PROBLEM = re.compile(
    r"(?i:\b(errors?|exception|fail(ed|ure|s)?|fatal|panic|traceback|refused|timed out|timeout|denied|killed"
    r"|out of memory|no space left|segfault|segmentation fault)\b)"
    r"|(Error|Exception)\b"
    r"|\" 5\d\d "  # the status in an access log
)
CONTINUES = re.compile(
    r"\s+\S|at \S|Caused by:|\.\.\. \d+ more|During handling of the above exception|The above exception was the direct"
)
EXCEPTION = re.compile(r"(?:Caused by: )?[\w.]+(?:Error|Exception|Exit|Interrupt|Warning)\b.*|Caused by: .*")
TRACEBACK = "Traceback (most recent call last):"

VARIABLE = [
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<ip>"),
    (re.compile(r"\"[^\"]{0,500}\"|(?<!\w)'[^']{0,500}'"), "<str>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"(?<![A-Za-z<])\d+(?:[.,:]\d+)*"), "<n>"),
]


class Record(NamedTuple):
    """One log record: where it begins, when, how bad, and its lines."""

    place: str
    time: str
    level: str
    message: str
    lines: list[str]


@dataclass
class Group:
    """Records that look alike."""

    fingerprint: str
    level: str
    example: Record
    count: int = 0
    first: str = ""
    last: str = ""
    minutes: Counter = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        """Take one more record into account."""
        self.count += 1
        if record.time:
            self.first = self.first or record.time
            self.last = record.time
            if minute := MINUTE.match(record.time):
                self.minutes[minute.group()] += 1

    def as_json(self) -> dict:
        """Return the group as JSON values."""
        busiest = self.minutes.most_common(1)
        return {
            "fingerprint": self.fingerprint,
            "level": self.level,
            "count": self.count,
            "first": self.first or None,
            "last": self.last or None,
            "busiest": {"minute": busiest[0][0], "count": busiest[0][1]} if busiest else None,
            "place": self.example.place,
            "example": self.example.lines,
        }


def records(name: str, lines: Iterable[str]) -> Iterator[Record]:
    """Join the lines of each record."""
    current: list[str] = []
    begins = 0
    in_traceback = False
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n")[:LINE_LIMIT]
        if not line.strip():
            continue
        continues = bool(current) and (in_traceback or CONTINUES.match(line) is not None or line == TRACEBACK)
        if continues:
            # The first line of a traceback that is not indented is its exception, and ends it.
            in_traceback = line.endswith(TRACEBACK) or (in_traceback and line.startswith((" ", "\t")))
            if len(current) < EXAMPLE_LINES or not line.startswith((" ", "\t")):
                current.append(line)
            continue
        if current:
            yield record_of(f"{name}:{begins}", current)
        current, begins, in_traceback = [line], number, line.endswith(TRACEBACK)
    if current:
        yield record_of(f"{name}:{begins}", current)


def record_of(place: str, lines: list[str]) -> Record:
    """Read time, level and message of a record."""
    if lines[0].lstrip().startswith("{") and (read := json_record(place, lines)):
        return read
    first = lines[0]
    time = TIME.search(first)
    if time and time.start() > TIME_REACH:
        time = None
    message = (first[: time.start()] + first[time.end() :]).strip() if time else first.strip()
    level = level_of(message)
    if (text := LOGFMT_MESSAGE.search(message)) is not None:
        message = text.group(1).replace('\\"', '"')
    if (stated := LEVEL.match(message)) is not None:
        message = message[stated.end() :].lstrip(" :|]-")
    # The last exception of a stack trace is the deepest one, and tells two traces apart.
    if trouble := next((line for line in reversed(lines[1:]) if EXCEPTION.match(line)), None):
        message = f"{message.removesuffix(TRACEBACK).strip()} {trouble}".strip()
        level = max(level, "ERROR", key=lambda name: LEVELS[name])
    return Record(place, time.group(1) if time else "", level, message, lines)


def json_record(place: str, lines: list[str]) -> Record | None:
    """Read a record of JSON lines, or return None when it is not one."""
    try:
        data = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None  # it only looks like JSON, so it is read as text
    if not isinstance(data, dict):
        return None
    message = str(next((data[key] for key in ("msg", "message", "event", "error") if data.get(key)), lines[0]))
    time = str(next((data[key] for key in ("time", "timestamp", "ts", "@timestamp") if data.get(key)), ""))
    level = str(next((data[key] for key in ("level", "severity", "lvl") if data.get(key)), "")).upper()
    level = ALIASES.get(level, level)
    return Record(place, time, level if level in LEVELS else level_of(message), message, lines)


def level_of(message: str) -> str:
    """Name the level that a message states, else guess from its words."""
    if match := LEVEL.search(message[:LEVEL_REACH]):
        word = (match.group(1) or match.group(2)).upper()
        return ALIASES.get(word, word)
    return "ERROR" if PROBLEM.search(message) else "INFO"


def fingerprint_of(record: Record) -> str:
    """Return the message with everything that varies replaced."""
    text = record.message
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return " ".join(text.split())[:FINGERPRINT_LIMIT]


def group(sources: Iterable[tuple[str, Iterable[str]]], least: int) -> tuple[dict[str, Group], int]:
    """Group the records of at least the level ``least``; return the groups and the number of all records."""
    groups: dict[str, Group] = {}
    total = 0
    for name, lines in sources:
        for record in records(name, lines):
            total += 1
            if LEVELS[record.level] < least:
                continue
            fingerprint = fingerprint_of(record)
            if fingerprint not in groups:
                groups[fingerprint] = Group(fingerprint, record.level, record)
            groups[fingerprint].add(record)
    return groups, total


def opened(names: list[str]) -> Iterator[tuple[str, IO[str]]]:
    """Yield each file by name, open for reading text; bytes that are not UTF-8 are shown as escapes."""
    for name in names:
        if name == "-":
            sys.stdin.reconfigure(encoding="utf-8", errors="backslashreplace")
            yield "stdin", sys.stdin
        else:
            opener = gzip.open if name.endswith(".gz") else open
            with opener(name, "rt", encoding="utf-8", errors="backslashreplace") as stream:
                yield Path(name).name, stream


def show(groups: list[Group], summary: dict, *, lines: bool) -> str:
    """Return the groups as text for a person."""
    known = f", {summary['known']} groups also in the baseline left out" if summary["known"] else ""
    out = [f"{summary['records']} records, {summary['groups']} groups of problems{known}"]
    for item in groups:
        data = item.as_json()
        when = f"{data['first']} to {data['last']}" if data["first"] else "no times"
        busiest = f", busiest {data['busiest']['minute']} ({data['busiest']['count']})" if data["busiest"] else ""
        out += ["", f"{item.count} x {item.level}  {item.fingerprint}"]
        out += [f"    {when}{busiest}; first at {data['place']}"]
        if lines:
            out += [f"    | {line}" for line in data["example"]]
    if summary["groups"] > len(groups):
        out += ["", f"{summary['groups'] - len(groups)} more groups: --top shows them"]
    return "\n".join(out)


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="log_triage.py", description="Group log lines into distinct problems.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="logs, oldest first; .gz is read; - is standard input")
    parser.add_argument(
        "--baseline", action="append", default=[], metavar="FILE", help="log of a good time: what it has is left out"
    )
    parser.add_argument("--all", action="store_true", help="every level, not only warnings and worse")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="groups to show (default 20)")
    parser.add_argument("--lines", action="store_true", help="show one whole example of each group")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main() -> int:
    """Run the command line; return the exit code."""
    parser = arguments()
    options = parser.parse_args()
    if options.top < 1:
        parser.error("--top needs a number from 1")
    least = 0 if options.all else LEVELS["WARN"]
    try:
        known = group(opened(options.baseline), least)[0]
        groups, total = group(opened(options.files), least)
    except (OSError, EOFError, zlib.error) as error:
        print(f"log_triage.py: {getattr(error, 'filename', None) or 'input'}: {error}", file=sys.stderr)
        return 2
    fresh = [item for fingerprint, item in groups.items() if fingerprint not in known]
    fresh.sort(key=lambda item: (-LEVELS[item.level], -item.count))
    summary = {"records": total, "groups": len(fresh), "known": len(groups) - len(fresh)}
    shown = fresh[: options.top]
    if options.json:
        print(json.dumps({**summary, "problems": [item.as_json() for item in shown]}, indent=2, ensure_ascii=False))
    else:
        print(show(shown, summary, lines=options.lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
