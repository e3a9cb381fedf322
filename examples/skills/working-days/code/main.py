#!/usr/bin/env python3
"""Counts working days, or goes a number of them forward or back.

Every day of a span is looked at once. The span is bounded, so the slowest call takes a fraction of a second.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS_LIMIT = 20_000  # working days, about 80 years
SPAN_LIMIT = 366 * 150  # calendar days; holds the limit above for weeks of three working days and more
HOLIDAYS_LIMIT = 10_000
INPUTS = {"start", "days", "end", "holidays", "weekend"}
DAY = timedelta(days=1)
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

USAGE = """usage: main.py JSON
Counts working days. JSON is an object with start and either days or end, and
optionally holidays and weekend; - reads it from standard input.
example: main.py '{"start": "2026-04-02", "days": 5, "holidays": ["2026-04-03"]}'
"""


def main(args: dict) -> dict:
    """Return start, end, working_days, calendar_days and holidays_skipped.

    Args:
        args: ``start`` and either ``days`` or ``end``; ``holidays`` and ``weekend`` when they apply.

    Raises:
        ValueError: An argument is missing, unknown, malformed or out of bounds.
    """
    check_names(args)
    start = parsed_date("start", args["start"])
    holidays = {parsed_date("holidays", day) for day in listed("holidays", args.get("holidays"), default=[])}
    weekend = parsed_weekend(args.get("weekend"))

    def is_worked(day: date) -> bool:
        return day.weekday() not in weekend and day not in holidays

    if args.get("days") is not None:
        end, count = go(start, parsed_days(args["days"]), is_worked)
    else:
        end = parsed_date("end", args["end"])
        count = count_between(start, end, is_worked)
    first, last = min(start, end), max(start, end)
    return {
        "start": start.isoformat(),
        "end": end.isoformat(),
        "working_days": count,
        "calendar_days": (end - start).days,
        "holidays_skipped": [
            day.isoformat() for day in sorted(holidays) if first <= day <= last and day.weekday() not in weekend
        ],
    }


def go(start: date, days: int, is_worked: Callable[[date], bool]) -> tuple[date, int]:
    """Return the date ``days`` working days away, and ``days``; 0 finds the next worked day from ``start`` on."""
    if days == 0 and is_worked(start):
        return start, 0
    step = DAY if days >= 0 else -DAY
    day, left = start, abs(days) or 1
    for _ in range(SPAN_LIMIT):
        try:
            day += step
        except OverflowError:
            break  # the calendar ends; said below
        left -= is_worked(day)
        if left == 0:
            return day, days
    raise ValueError(f"days: {days} working days from {start} lead out of bounds")


def count_between(start: date, end: date, is_worked: Callable[[date], bool]) -> int:
    """Return the working days after ``start`` up to and with ``end``; negative when ``end`` lies before."""
    if abs((end - start).days) > SPAN_LIMIT:
        raise ValueError(f"end: {end} is more than {SPAN_LIMIT} days from {start}")
    step = DAY if end >= start else -DAY
    count, day = 0, start
    while day != end:
        day += step
        count += is_worked(day)
    return count if end >= start else -count


def check_names(args: object) -> None:
    """Refuse anything but an object with known arguments and exactly one of ``days`` and ``end``."""
    if not isinstance(args, dict):
        raise ValueError("the arguments must be an object")
    if unknown := sorted(map(str, set(args) - INPUTS)):
        raise ValueError(f"unknown argument: {', '.join(unknown)}; known are {', '.join(sorted(INPUTS))}")
    if args.get("start") is None:
        raise ValueError("start: an ISO date is required, such as 2026-04-02")
    if (args.get("days") is None) == (args.get("end") is None):
        raise ValueError("give either days or end")


def parsed_date(name: str, value: object) -> date:
    """Read an ISO date."""
    try:
        if isinstance(value, str) and ISO_DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass  # said below, like every other wrong value
    raise ValueError(f"{name}: {value!r:.40} is not an ISO date such as 2026-04-02")


def parsed_days(value: object) -> int:
    """Read the number of days."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > DAYS_LIMIT:
        raise ValueError(f"days: {value!r:.40} is not a whole number from -{DAYS_LIMIT} to {DAYS_LIMIT}")
    return value


def parsed_weekend(value: object) -> set[int]:
    """Read the names of the weekdays that are not worked."""
    names = listed("weekend", value, default=["saturday", "sunday"])
    if unknown := [name for name in names if str(name).lower() not in WEEKDAYS]:
        raise ValueError(f"weekend: {unknown[0]!r:.40} is not one of {', '.join(WEEKDAYS)}")
    weekend = {WEEKDAYS.index(name.lower()) for name in names}
    if len(weekend) == len(WEEKDAYS):
        raise ValueError("weekend: at least one weekday must be worked")
    return weekend


def listed(name: str, value: object, *, default: list) -> list:
    """Read a list of bounded length."""
    if value is None:
        return default
    if not isinstance(value, list) or len(value) > HOLIDAYS_LIMIT:
        raise ValueError(f"{name}: expected a list of at most {HOLIDAYS_LIMIT} texts")
    return value


def command_line(arguments: list[str]) -> int:
    """Run ``main`` with JSON from the command line; return the exit code."""
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if len(arguments) != 1:
        print(USAGE, end="", file=sys.stderr)
        return 2
    try:
        result = main(json.loads(sys.stdin.read() if arguments[0] == "-" else arguments[0]))
    except ValueError as error:  # a JSON error is one too
        print(f"main.py: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(command_line(sys.argv[1:]))
