"""The inbox: tasks that wait for a person, those that a person has, and those that ended.

One task: what is asked of a person, and the form that hands it in.

The form comes from the schema of the output (:mod:`skillwire.executions.task_form`). What was typed is kept when
it does not fit, and each error stands at its field; one that belongs to no field stands above the form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from skillwire.executions.task_form import Field, form_of
from skillwire.executions.tasks import holder_of, read_task
from skillwire.web.environment import render
from skillwire.web.labels import REASONS, Instant, ahead, json_text, past, status_label, status_look

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.executions.tasks import Task
    from skillwire.model.execution import Execution, TaskOwner
    from skillwire.web.environment import Frame


#: ``open`` for anyone to claim, ``mine``, ``others``: claimed by another person, ``ended``.
Tray = Literal["open", "mine", "others", "ended"]
TRAYS: Final[Mapping[Tray, str]] = {"open": "Open", "mine": "Mine", "others": "With others", "ended": "Ended"}
_EMPTY: Final[Mapping[Tray, tuple[str, str]]] = {
    "open": ("No task waits for a person.", "One appears here as soon as a skill that asks people is called."),
    "mine": ("You have no task.", "Claim one of those that are open: it is yours then, until you hand it in."),
    "others": ("Nobody else has a task.", "What others have claimed appears here."),
    "ended": ("No task has ended yet.", "What was handed in, declined or not done in time appears here."),
}
_TEXT: Final = 200


class TaskList(NamedTuple):
    """The tasks of one tray, the number in each open tray, the callers' names; ``after`` is the next page's cursor."""

    tray: Tray
    tasks: Sequence[Execution]
    counts: Mapping[TaskOwner, int]
    names: Mapping[str, str]
    now: float
    after: str | None = None
    is_first: bool = True
    told: str = ""


class TaskRow(NamedTuple):
    """A line of the inbox."""

    execution: Execution
    mark: str
    title: str
    description: str
    caller: str
    holder: str | None
    asked: Instant
    deadline: Instant
    is_urgent: bool
    status: str
    look: str


def inbox_page(tasks: TaskList, frame: Frame, *, part: bool = False) -> str:
    """Return the page as HTML; with ``part`` only what changes while the page is open."""
    values: dict[str, Any] = {
        "tasks": tasks,
        "trays": [(tray, label, None if tray == "ended" else tasks.counts[tray]) for tray, label in TRAYS.items()],
        "rows": [_row(execution, tasks) for execution in tasks.tasks],
        "empty": _EMPTY[tasks.tray],
        "now": tasks.now,
    }
    return render("tasks.html" if part else "inbox.html", frame, values)


def is_urgent(execution: Execution, now: float) -> bool:
    """Whether less than a tenth of its time is left."""
    return not execution.status.is_final and execution.deadline - now < execution.timeout / 10


def _row(execution: Execution, tasks: TaskList) -> TaskRow:
    text = read_task(execution)
    about = " ".join(text.description.split())
    return TaskRow(
        execution,
        f"{execution.status} {execution.attempt} {execution.worker}",
        text.title,
        about if len(about) <= _TEXT else about[:_TEXT].rsplit(" ", 1)[0] + " …",
        tasks.names.get(execution.caller, execution.caller),
        holder_of(execution),
        past(execution.completed or execution.created, tasks.now),
        ahead(execution.deadline, tasks.now),
        is_urgent(execution, tasks.now),
        status_label(execution),
        status_look(execution),
    )


#: Before the names of fields, so that none is taken for one of ours.
PREFIX: Final = "field:"
#: More choices than these are a list to open.
_CHOICES: Final = 6
#: A text that may be longer has several lines.
_LINE: Final = 120
_WIDGETS: Final[Mapping[str, str]] = {
    "boolean": "choices",
    "date": "line",
    "datetime": "line",
    "email": "line",
    "integer": "line",
    "json": "code",
    "number": "line",
    "time": "line",
    "url": "line",
}
_HINTS: Final[Mapping[str, str]] = {
    "date": "Such as 2025-07-01.",
    "datetime": "In UTC, such as 2025-07-01T12:00:00Z.",
    "time": "In UTC, such as 12:00:00Z.",
    "json": "As JSON.",
    "lines": "One on each line.",
}
_MODES: Final[Mapping[str, str]] = {"integer": "numeric", "number": "decimal", "email": "email", "url": "url"}
_YES_OR_NO: Final = (("true", "Yes"), ("false", "No"))


class ShownTask(NamedTuple):
    """A task, what its person typed by field, ``errors`` with ``path`` and ``message``; ``told`` is a notice's key."""

    execution: Execution
    output: bytes | None
    caller: str
    worker: str
    now: float
    typed: Mapping[str, str] | None = None
    errors: Sequence[Mapping[str, Any]] = ()
    reason: str = ""
    reject_problem: str = ""
    told: str = ""


class Input(NamedTuple):
    """A field with its widget, choices and value; its ``error`` is ``told`` there and ``told_above`` the form."""

    field: Field
    key: str
    name: str
    widget: str
    choices: Sequence[tuple[str, str]]
    value: str
    chosen: frozenset[str]
    hint: str
    mode: str
    error: str
    told: str
    told_above: str


def task_page(shown: ShownTask, frame: Frame) -> str:
    """Return the page as HTML."""
    execution = shown.execution
    text = read_task(execution)
    fields = form_of(text.output)
    inputs = [_input(index, field, shown) for index, field in enumerate(fields)]
    is_mine = not execution.status.is_final and execution.worker == shown.worker
    values: dict[str, Any] = {
        "shown": shown,
        "execution": execution,
        "task": text,
        "about_inputs": _about_inputs(text),
        "holder": holder_of(execution),
        "state": _state(execution, shown.worker),
        "status": status_label(execution),
        "look": status_look(execution),
        "asked": past(execution.created, shown.now),
        "claimed": _claimed(shown) if execution.worker else None,
        "deadline": ahead(execution.deadline, shown.now),
        "ended": past(execution.completed, shown.now) if execution.completed else None,
        "is_urgent": is_urgent(execution, shown.now),
        "inputs": json_text(execution.inputs),
        "output": None if shown.output is None else json_text(shown.output),
        "form": inputs if is_mine else (),
        "general": _general(shown, fields),
        "wrong": [one for one in inputs if one.error],
        "failure_reason": "" if execution.failure is None else REASONS[execution.failure.reason],
        "now": shown.now,
    }
    return render("task.html", frame, values)


def read_typed(execution: Execution, pairs: Sequence[tuple[str, str]]) -> tuple[Sequence[Field], dict[str, str]]:
    """Return the fields of a task, and the untrusted form's value of each; several values are several lines."""
    fields = form_of(read_task(execution).output)
    sent: dict[str, list[str]] = {}
    for name, value in pairs:
        sent.setdefault(name, []).append(value)
    return fields, {field.name: "\n".join(sent.get(PREFIX + field.name, ())) for field in fields}


def _about_inputs(task: Task) -> list[tuple[str, str]]:
    """Return what the skill says of each input, where it says something."""
    return [(str(name), str(about)) for name, about in task.about_inputs.items() if about]


def _state(execution: Execution, worker: str) -> str:
    if execution.status.is_final:
        return "ended"
    if execution.worker is None:
        return "open"
    return "mine" if execution.worker == worker else "taken"


def _claimed(shown: ShownTask) -> Any:
    at = max((event.at for event in shown.execution.timeline if event.what == "claim"), default=shown.execution.updated)
    return past(at, shown.now)


def _input(index: int, field: Field, shown: ShownTask) -> Input:
    value = (field.default or "") if shown.typed is None else shown.typed.get(field.name, "")
    choices = _choices(field)
    error = next((str(error["message"]) for error in shown.errors if _is_at(field, str(error["path"]))), "")
    return Input(
        field,
        f"field-{index}",
        PREFIX + field.name,
        _widget(field, choices),
        choices,
        value,
        frozenset(value.splitlines()) if field.kind == "lines" else frozenset({value}),
        "" if choices else _HINTS.get(field.kind, ""),
        _MODES.get(field.kind, "text"),
        error,
        f"This {error}." if _is_predicate(error) else f"{error[:1].upper()}{error[1:]}." if error else "",
        f" {error}." if _is_predicate(error) else f": {error}.",
    )


def _is_predicate(error: str) -> bool:
    """Whether an error goes on where the name of its field ends."""
    return error.startswith(("is ", "must "))


def _is_at(field: Field, path: str) -> bool:
    """Whether an error concerns a field: its value, or something within it."""
    return path == field.pointer or (path.startswith(f"{field.pointer}/") and field.kind in {"json", "lines"})


def _general(shown: ShownTask, fields: Sequence[Field]) -> list[str]:
    """Return the errors that concern no field."""
    others = [error for error in shown.errors if not any(_is_at(field, str(error["path"])) for field in fields)]
    return [f"{error['path'].removeprefix('/output')} {error['message']}.".lstrip() for error in others]


def _choices(field: Field) -> Sequence[tuple[str, str]]:
    if field.kind == "boolean":
        return _YES_OR_NO
    return [(choice, choice) for choice in field.choices]


def _widget(field: Field, choices: Sequence[tuple[str, str]]) -> str:
    if field.kind == "lines":
        return "several" if choices else "lines"
    if choices:
        return "choices" if len(choices) <= _CHOICES else "list"
    if field.kind == "text":
        return "line" if field.maximum is not None and field.maximum <= _LINE else "lines"
    return _WIDGETS[field.kind]
