"""Words of the console: statuses, executors, events and reasons, times and durations, and JSON values.

A time is shown twice: relative for a glance, and absolute, in UTC as logs hold it. The script of the console updates
relative times with the same words.

Trust: JSON values are untrusted. A value that is too large, too deep or unreadable is shown as it came, up to the
bound.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.model.execution import ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.execution import Execution

#: Statuses in the order of a life.
STATUSES: Final[Mapping[ExecutionStatus, str]] = {
    ExecutionStatus.ACCEPTED: "Waiting",
    ExecutionStatus.RUNNING: "Running",
    ExecutionStatus.COMPLETED: "Completed",
    ExecutionStatus.FAILED: "Failed",
    ExecutionStatus.TIMEOUT: "Timed out",
}
EXECUTORS: Final[Mapping[str, str]] = {"python": "Python", "http": "HTTP", "function": "Function", "human": "Person"}
#: Events of the state table, and the first one, which is no event of it.
EVENTS: Final[Mapping[str, str]] = {
    "accept": "Accepted",
    "claim": "Taken up",
    "complete": "Completed",
    "fail": "Failed",
    "retry": "Attempt failed",
    "release": "Given back",
    "lose": "Worker lost",
    "abandon": "Worker lost",
    "cancel": "Cancelled",
    "expire": "Timed out",
}
REASONS: Final[Mapping[str, str]] = {
    "cancelled": "Cancelled",
    "worker_lost": "Worker lost",
    "deadline": "Past its deadline",
    "exception": "Exception",
    "exit": "Ended without a result",
    "limit": "Limit of the sandbox",
    "output": "Unexpected output",
    "upstream": "Upstream failed",
    "rejected": "Declined",
    "not_granted": "Not granted",
    "unavailable": "Not available",
}


def status_label(execution: Execution) -> str:
    """Return the status of an execution, or how it failed where that has a name."""
    if execution.status is ExecutionStatus.RUNNING and execution.worker is None:
        return "Waiting again"
    if execution.failure is not None and execution.failure.reason in {"cancelled", "rejected"}:
        return REASONS[execution.failure.reason]
    return STATUSES[execution.status]


def status_look(execution: Execution) -> str:
    """Return the class of an execution's badge."""
    if execution.status is ExecutionStatus.RUNNING and execution.worker is None:
        return "accepted"
    if execution.failure is not None and execution.failure.reason == "cancelled":
        return "cancelled"
    return execution.status.value


def event_label(what: str) -> str:
    """Return the name of an event; an unknown one keeps its own."""
    return EVENTS.get(what, what.replace("_", " ").capitalize())


_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))
_SECOND: Final = 1.0
_FEW_SECONDS: Final = 10.0


class Instant(NamedTuple):
    """A time: for machines, in full, and relative to the moment at which the page was made."""

    iso: str
    clock: str
    relative: str


def past(at: float, now: float) -> Instant:
    """Return a past time, as of ``now``; both in seconds since the epoch."""
    return _instant(at, f"{_rough(now - at)} ago" if now - at >= _SECOND else "now")


def ahead(at: float, now: float) -> Instant:
    """Return the time at which something ends: how much is left."""
    left = at - now
    return _instant(at, f"{_rough(left)} left" if left >= _SECOND else "over" if left <= 0 else "1 s left")


def _instant(at: float, relative: str) -> Instant:
    moment = datetime.fromtimestamp(at, UTC)
    iso = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Instant(iso, f"{moment:%Y-%m-%d %H:%M:%S} UTC", relative)


def duration_text(seconds: float) -> str:
    """Return how long something took: ``84 ms``, ``3.2 s``, ``2 min 5 s``, ``3 h 12 min``."""
    seconds = max(0.0, seconds)
    if round(seconds, 3) < _SECOND:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _FEW_SECONDS:
        return f"{seconds:.1f} s"
    parts: list[str] = []  # of which the two largest units are shown
    left = round(seconds)
    for unit, size in (*_UNITS, ("s", 1)):
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
    return " ".join(part for part in parts[:2] if part)


def _rough(seconds: float) -> str:
    """Return the largest unit of a duration, rounded down."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(0.0, seconds))} s"


#: What is longer is shown folded.
_LINES: Final = 24
_LENGTH: Final = 4_000


class JsonText(NamedTuple):
    """What is shown of a value: its text, the size of the whole in bytes, and whether that is more than is shown."""

    text: str
    size: int
    lines: int
    is_cut: bool

    @property
    def is_long(self) -> bool:
        """Whether it is shown folded."""
        return self.lines > _LINES or len(self.text) > _LENGTH


def json_text(data: bytes) -> JsonText:
    """Return what is shown of the JSON document ``data``."""
    if len(data) > limits.CONSOLE_JSON_BYTES:
        shown = data[: limits.CONSOLE_JSON_BYTES].decode("utf-8", "replace")
        return JsonText(shown, len(data), shown.count("\n") + 1, is_cut=True)
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        text = data.decode("utf-8", "replace")
    return JsonText(text, len(data), text.count("\n") + 1, is_cut=False)
