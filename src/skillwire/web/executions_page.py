"""The pages of executions: their list and the page of one, and of those for people, the inbox and the page of a task.

The list is for operators: ``?status=failed&skill=csv-profile&after=CURSOR``. A page shows the status of an execution,
its timeline, its inputs and its output. The lists and the page of an execution each have a part that is live.

The form of a task comes from the schema of the output (:mod:`skillwire.web.forms`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, cast, get_args
from urllib.parse import urlencode

from skillwire import limits
from skillwire.executions.tasks import form_of, given_inputs, holder_of, person_name, read_task
from skillwire.model.execution import Execution, ExecutionQuery, ExecutionStatus, FoundExecutions, Priority, TaskOwner
from skillwire.model.skill import ExecutorKind
from skillwire.web.address import single_fields
from skillwire.web.environment import STATUSES, Frame, Instant, duration_text, past, render
from skillwire.web.forms import form_input, general_errors

_STATUSES: Final = {status.value: status for status in ExecutionStatus}
_EXECUTORS: Final = frozenset(get_args(ExecutorKind))
_FIELDS: Final = 64
_LENGTH: Final = 256


class Filters(NamedTuple):
    """What a person filters by, as typed; empty for everything."""

    status: ExecutionStatus | None = None
    skill: str = ""
    caller: str = ""
    executor: str = ""
    trace: str = ""
    after: str = ""

    @property
    def are_set(self) -> bool:
        """Whether anything but the status is chosen."""
        return bool(self.skill or self.caller or self.executor or self.trace)

    def url(self, **changes: object) -> str:
        """Return the query of the list with these changes, with its question mark; the first page of it."""
        wanted = self._replace(after="")._replace(**changes)  # type: ignore[arg-type]  # names of fields
        pairs = [(name, str(value)) for name, value in wanted._asdict().items() if value]
        return f"?{urlencode(pairs)}" if pairs else "?"

    def query(self, caller: str) -> ExecutionQuery:
        """Return the search that this stands for; ``caller`` is the one that was typed."""
        return ExecutionQuery(
            statuses=None if self.status is None else frozenset({self.status}),
            skill=self.skill or None,
            caller=caller or None,
            executor=cast("ExecutorKind", self.executor) if self.executor else None,
            trace_id=self.trace or None,
            limit=limits.CONSOLE_EXECUTIONS,
            after=self.after or None,
        )


def read_filters(query_string: bytes) -> Filters:
    """Return what the query of a URL asks for; what is not known or too long is passed over. Trust: untrusted."""
    found = single_fields(query_string, _FIELDS, _LENGTH)
    executor = found.get("executor", "")
    return Filters(
        _STATUSES.get(found.get("status", "")),
        found.get("skill", ""),
        found.get("caller", ""),
        executor if executor in _EXECUTORS else "",
        found.get("trace", ""),
        found.get("after", ""),
    )


class ListedExecutions(NamedTuple):
    """A page of executions, their number by status, and the callers' names; ``problem`` when listing failed."""

    page: FoundExecutions
    counts: Mapping[ExecutionStatus, int]
    names: Mapping[str, str]
    now: float
    problem: str = ""


def executions_page(listed: ListedExecutions, filters: Filters, frame: Frame, *, part: bool = False) -> str:
    """Return the list as HTML; with ``part`` only what changes while the page is open."""
    values: dict[str, Any] = {
        "filters": filters,
        "choices": [(None, "All", sum(listed.counts.values()))]
        + [(status, label, listed.counts.get(status, 0)) for status, label in STATUSES.items()],
        "listed": listed,
        "titles": {one.execution_id: read_task(one).title for one in listed.page.executions if one.task},
        "next": filters.url(after=listed.page.after) if listed.page.after else None,
        "first": filters.url(),
        "all": filters.url(status=None),
        "live": filters.url(after=filters.after),
    }
    return render("runs.html" if part else "executions.html", frame, values)


#: A bar that is shorter, in hundredths of the whole, would not be seen.
_SHORTEST: Final = 0.6
_WHOLE: Final = 100.0
#: Facts of a failure that the page shows elsewhere.
_SHOWN: Final = frozenset({"reason", "execution_id"})
#: Events of the state table, and the first one, which is no event of it: what each is called, and whether it begins a
#: time in which the execution runs or waits. The others end it.
EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    "accept": ("Accepted", "wait"),
    "claim": ("Taken up", "run"),
    "complete": ("Completed", ""),
    "fail": ("Failed", ""),
    "retry": ("Attempt failed", "wait"),
    "release": ("Given back", "wait"),
    "lose": ("Worker lost", "wait"),
    "abandon": ("Worker lost", ""),
    "cancel": ("Cancelled", ""),
    "expire": ("Timed out", ""),
}


class ShownExecution(NamedTuple):
    """An execution, its output as JSON, its caller's name, and the time; ``notice`` confirms an action."""

    execution: Execution
    output: bytes | None
    caller: str
    now: float
    may_cancel: bool = False
    has_skill: bool = False
    notice: str = ""


class Step(NamedTuple):
    """A line of the timeline and its bar: ``kind`` ``run``, ``wait`` or none; ``start``, ``width`` in percent."""

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


def execution_page(shown: ShownExecution, frame: Frame, *, part: bool = False) -> str:
    """Return the page as HTML; with ``part`` only what changes while the page is open."""
    execution = shown.execution
    failure = execution.failure.details.items() if execution.failure else ()
    values: dict[str, Any] = {
        "execution": execution,
        "shown": shown,
        "now": shown.now,
        "steps": steps(execution, shown.now),
        "details": [(str(name), str(value)) for name, value in failure if name not in _SHOWN],
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
        is_last = index + 1 == len(events)
        until = end if is_last else events[index + 1].at
        label, kind = EVENTS.get(event.what, (event.what.replace("_", " ").capitalize(), ""))
        start = min(_percent(event.at, begin, end), _WHOLE - _SHORTEST)
        width = max(_percent(until, begin, end) - start, _SHORTEST)
        found.append(
            Step(
                past(event.at, now),
                f"+{duration_text(event.at - begin)}",
                label,
                person_name(event.by),
                event.note,
                kind,
                f"{start:.2f}%",
                f"{width:.2f}%",
                duration_text(until - event.at) if kind else "",
                is_last and not execution.status.is_final,
                attempt if event.what == "claim" else 0,
            )
        )
    return found


def _percent(at: float, begin: float, end: float) -> float:
    return 0.0 if end <= begin else min(max((at - begin) / (end - begin), 0.0), 1.0) * _WHOLE


#: ``open`` for anyone to claim, ``mine``, ``others``: claimed by another person, ``ended``.
Tray = Literal["open", "mine", "others", "ended"]
TRAYS: Final[Mapping[Tray, str]] = {"open": "Open", "mine": "Mine", "others": "With others", "ended": "Ended"}
_EMPTY: Final[Mapping[Tray, tuple[str, str]]] = {
    "open": ("No task waits for a person.", "One appears here as soon as a skill that asks people is called."),
    "mine": ("You have no task.", "Claim one of those that are open: it is yours then, until you hand it in."),
    "others": ("No other person has a task.", "What others have claimed appears here."),
    "ended": ("No task has ended yet.", "What was handed in, declined or not done in time appears here."),
}


_NARROWED: Final = ("No task matches.", "Use fewer words, or clear the filter.")


class TaskFilters(NamedTuple):
    """What the inbox is narrowed to: words of title, skill and caller, and a priority; empty for all."""

    words: str = ""
    priority: str = ""

    def pass_on(self, tasks: Sequence[Execution]) -> tuple[Execution, ...]:
        """Return the tasks that have the priority, and all of the words; for a thread."""
        wanted = self.words.lower().split()

        def has_words(task: Execution) -> bool:
            text = f"{read_task(task).title} {task.skill} {task.caller_id}".lower()
            return all(word in text for word in wanted)

        chosen = (one for one in tasks if self.priority in {"", one.priority.value})
        return tuple(one for one in chosen if not wanted or has_words(one))


def read_task_filters(query_string: bytes) -> TaskFilters:
    """Return what the query of a URL narrows the inbox to. Trust: untrusted."""
    found = single_fields(query_string, _FIELDS, _LENGTH)
    priority = found.get("priority", "")
    return TaskFilters(found.get("words", ""), priority if priority in set(Priority) else "")


class TaskList(NamedTuple):
    """The tasks of one tray, the number in each open tray, the callers' names; ``after`` is the next page's cursor."""

    tray: Tray
    tasks: Sequence[Execution]
    counts: Mapping[TaskOwner, int]
    names: Mapping[str, str]
    now: float
    after: str | None = None
    is_first: bool = True
    notice: str = ""
    filters: TaskFilters = TaskFilters()

    @property
    def query(self) -> str:
        """The query of this list's URL, without its question mark."""
        return urlencode(
            {"tray": self.tray, **{name: value for name, value in self.filters._asdict().items() if value}}
        )


def inbox_page(tasks: TaskList, frame: Frame, *, part: bool = False) -> str:
    """Return the page as HTML; with ``part`` only what changes while the page is open."""
    values: dict[str, Any] = {
        "tasks": tasks,
        "trays": [(tray, label, None if tray == "ended" else tasks.counts[tray]) for tray, label in TRAYS.items()],
        "rows": [(one, read_task(one), holder_of(one), is_urgent(one, tasks.now)) for one in tasks.tasks],
        "empty": _NARROWED if any(tasks.filters) else _EMPTY[tasks.tray],
        "priorities": [(one.value, one.value.capitalize()) for one in (Priority.HIGH, Priority.NORMAL, Priority.LOW)],
        "now": tasks.now,
    }
    return render("tasks.html" if part else "inbox.html", frame, values)


#: Longer values of inputs take lines of their own.
_SHORT_VALUE: Final = 48


class ShownValue(NamedTuple):
    """The value of an input: its text, and whether it is short, or JSON."""

    text: str
    is_short: bool
    is_json: bool


def _value(value: Any) -> ShownValue:
    """Return a value as people read it; other values than texts, numbers and booleans as JSON, cut to a bound."""
    if isinstance(value, bool):
        text = "Yes" if value else "No"
    elif isinstance(value, list) and value and all(isinstance(one, str | int | float) for one in value):
        text = "\n".join(map(str, value))
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    cut = f"{text[: limits.CONSOLE_JSON_BYTES]}…" if len(text) > limits.CONSOLE_JSON_BYTES else text
    is_short = len(cut) <= _SHORT_VALUE and "\n" not in cut
    return ShownValue(cut, is_short, isinstance(value, dict) or (isinstance(value, list) and cut.startswith("[")))


def label_of(name: str) -> str:
    """Return the name of an input as a label: ``order_id`` as ``Order id``."""
    words = name.replace("_", " ").replace("-", " ").strip() or name
    return words[:1].upper() + words[1:]


def is_urgent(execution: Execution, now: float) -> bool:
    """Whether less than a tenth of its time is left."""
    return not execution.status.is_final and execution.deadline - now < execution.timeout / 10


class ShownTask(NamedTuple):
    """A task, what its person typed by field, ``errors`` with path and message; ``notice`` confirms an action."""

    execution: Execution
    output: bytes | None
    caller: str
    worker: str
    now: float
    typed: Mapping[str, str] | None = None
    errors: Sequence[Mapping[str, Any]] = ()
    reason: str = ""
    reject_problem: str = ""
    notice: str = ""


def task_page(shown: ShownTask, frame: Frame) -> str:
    """Return the page as HTML."""
    execution = shown.execution
    text = read_task(execution)
    fields = form_of(text.output)
    inputs = [form_input(index, field, shown.typed, shown.errors) for index, field in enumerate(fields)]
    if execution.status.is_final:
        state = "ended"
    elif execution.worker is None:
        state = "open"
    else:
        state = "mine" if execution.worker == shown.worker else "taken"
    claims = [event.at for event in execution.timeline if event.what == "claim"]
    values: dict[str, Any] = {
        "shown": shown,
        "execution": execution,
        "task": text,
        "given": [(label_of(name), _value(value), about) for name, value, about in given_inputs(execution, text)],
        "holder": holder_of(execution),
        "state": state,
        "claimed": max(claims, default=execution.updated),
        "is_urgent": is_urgent(execution, shown.now),
        "form": inputs if state == "mine" else (),
        "general": general_errors(fields, shown.errors),
        "wrong": [one for one in inputs if one["error"]],
        "now": shown.now,
    }
    return render("task.html", frame, values)
