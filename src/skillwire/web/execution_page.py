"""One execution: how far it is, its timeline, what was asked, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.invocation.inbox import shown_worker
from skillwire.model.execution import ExecutionStatus
from skillwire.web.environment import render
from skillwire.web.executions_page import took
from skillwire.web.json_text import json_text
from skillwire.web.labels import EXECUTORS, REASONS, event_label, status_label, status_look
from skillwire.web.moments import Instant, ahead, duration_text, past

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.model.execution import Event, Execution
    from skillwire.web.environment import Frame

#: A bar that is shorter, in hundredths of the whole, would not be seen.
_SHORTEST: Final = 0.6
_WHOLE: Final = 100.0
#: What an event begins: a time in which it runs, or in which it waits. The others end it.
_SPANS: Final[Mapping[str, str]] = {
    "accept": "wait",
    "claim": "run",
    "retry": "wait",
    "release": "wait",
    "lose": "wait",
}


class Shown(NamedTuple):
    """What the page shows: the execution, its output as JSON if there is one, the caller's name, and what time it is.

    ``told`` is a word for what was just done, ``has_skill`` whether the skill has a page.
    """

    execution: Execution
    output: bytes | None
    caller: str
    now: float
    may_cancel: bool = False
    has_skill: bool = False
    told: str = ""


class Step(NamedTuple):
    """A line of the timeline: what happened when, and the bar of the time that began with it.

    ``since`` is the time from acceptance, ``kind`` that of the bar (``run``, ``wait``, nothing), its ``start`` and
    ``width`` are hundredths of the whole, and ``lasts`` says how long it is; ``is_open`` while it goes on.
    """

    at: Instant
    since: str
    label: str
    by: str
    note: str
    kind: str
    start: str
    width: str
    lasts: str
    is_open: bool
    attempt: int


def execution_page(shown: Shown, frame: Frame, *, part: bool = False) -> str:
    """Return the page as HTML; with ``part`` only what changes while somebody looks."""
    execution = shown.execution
    output = None if shown.output is None else json_text(shown.output)
    values: dict[str, Any] = {
        "execution": execution,
        "shown": shown,
        "status": status_label(execution),
        "look": status_look(execution),
        "is_final": execution.status.is_final,
        "worker": shown_worker(execution.worker or ""),
        "executor": EXECUTORS[execution.executor],
        "accepted": past(execution.created, shown.now),
        "deadline": ahead(execution.deadline, shown.now),
        "next_attempt": ahead(execution.not_before, shown.now) if execution.not_before > shown.now else None,
        "took": took(execution, shown.now),
        "allowed": duration_text(execution.timeout),
        "steps": steps(execution, shown.now),
        "inputs": json_text(execution.inputs),
        "output": output,
        "is_completed": execution.status is ExecutionStatus.COMPLETED,
        "reason": "" if execution.failure is None else REASONS[execution.failure.reason],
        "details": _details(execution),
        "now": shown.now,
    }
    return render("run.html" if part else "execution.html", frame, values)


def steps(execution: Execution, now: float) -> list[Step]:
    """Return the timeline, with a bar for each time in which the execution ran or waited."""
    events = execution.timeline
    if not events:
        return []
    begin = events[0].at
    end = max(events[-1].at if execution.status.is_final else now, begin)
    attempt, found = 0, []
    for index, event in enumerate(events):
        attempt += event.what == "claim"
        until = events[index + 1].at if index + 1 < len(events) else end
        is_open = index + 1 == len(events) and not execution.status.is_final
        found.append(_step(event, _Scale(begin, end), until, now, attempt, is_open=is_open))
    return found


class _Scale(NamedTuple):
    """The whole time of an execution, on which bars are drawn."""

    begin: float
    end: float

    def place(self, at: float) -> float:
        """Return where a time is, in hundredths."""
        whole = self.end - self.begin
        return 0.0 if whole <= 0 else min(max((at - self.begin) / whole, 0.0), 1.0) * _WHOLE


def _step(event: Event, scale: _Scale, until: float, now: float, attempt: int, *, is_open: bool) -> Step:
    kind = _SPANS.get(event.what, "")
    start = min(scale.place(event.at), _WHOLE - _SHORTEST)
    width = max(scale.place(until) - start, _SHORTEST)
    return Step(
        past(event.at, now),
        f"+{duration_text(event.at - scale.begin)}",
        event_label(event.what),
        shown_worker(event.by),
        event.note,
        kind,
        f"{start:.2f}%",
        f"{width:.2f}%",
        duration_text(until - event.at) if kind else "",
        is_open,
        attempt if event.what == "claim" else 0,
    )


def _details(execution: Execution) -> Sequence[tuple[str, str]]:
    """Return the facts of a failure, those that the page does not show anyway left out."""
    if execution.failure is None:
        return ()
    known = {"reason", "execution_id"}
    return [(str(name), str(value)) for name, value in execution.failure.details.items() if name not in known]
