"""What the console calls things: statuses, executors, events, reasons. One word for each, on every page.

Times and durations as an operator reads them: how long ago, how long it took, how much is left.

A time is shown twice, relative for a glance and absolute for a comparison with logs. Absolute times are UTC, which is
what logs hold. The script of the console writes the relative ones anew while they grow, in the same words.

A JSON value as a person reads it: indented, within a bound, its hidden characters shown where it is printed.

Trust: the value is untrusted. One that is too large, too deep or has a number too long to be read is shown as it
came, cut where the bound is.
"""

from __future__ import annotations

import json
import time
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
EXECUTORS: Final[Mapping[str, str]] = {
    "python": "Python",
    "http": "HTTP",
    "function": "Function",
    "human": "Person",
}
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
    """Return how far an execution is, and where it failed in a way that has a name, that."""
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
    """Return what an event is called; one that is not known says its own name."""
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
    """Return a time that has been, as of ``now``; both in seconds since the epoch."""
    return Instant(_iso(at), _clock(at), f"{_rough(now - at)} ago" if now - at >= _SECOND else "now")


def ahead(at: float, now: float) -> Instant:
    """Return a time that something ends at: how much is left, or since when it is over."""
    left = at - now
    relative = f"{_rough(left)} left" if left >= _SECOND else "over" if left <= 0 else "1 s left"
    return Instant(_iso(at), _clock(at), relative)


def duration_text(seconds: float) -> str:
    """Return how long something took: ``84 ms``, ``3.2 s``, ``2 min 5 s``, ``3 h 12 min``."""
    seconds = max(0.0, seconds)
    if round(seconds, 3) < _SECOND:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _FEW_SECONDS:
        return f"{seconds:.1f} s"
    return _exact(round(seconds))


def _exact(seconds: int) -> str:
    """Return the two largest units of a duration."""
    parts: list[str] = []
    for unit, size in (*_UNITS, ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
    return " ".join(part for part in parts[:2] if part) or "0 s"


def _rough(seconds: float) -> str:
    """Return the largest unit of a duration, rounded down: nothing is said to be further away than it is."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(0.0, seconds))} s"


def _iso(at: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03}Z"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


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
