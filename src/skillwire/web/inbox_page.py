"""The inbox: tasks that wait for a person, those that somebody has, and those that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from skillwire.invocation.inbox import holder_of, read_task
from skillwire.web.environment import render
from skillwire.web.labels import status_label, status_look
from skillwire.web.moments import Instant, ahead, past

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.model.execution import Execution
    from skillwire.model.ledger import Whose
    from skillwire.web.environment import Frame

#: ``open`` for anybody to claim, ``mine``, ``others``: claimed by somebody else, ``ended``.
Tray = Literal["open", "mine", "others", "ended"]
TRAYS: Final[Mapping[Tray, str]] = {"open": "Open", "mine": "Mine", "others": "With others", "ended": "Ended"}
_EMPTY: Final[Mapping[Tray, tuple[str, str]]] = {
    "open": ("No task waits for a person.", "One appears here as soon as a skill that asks people is called."),
    "mine": ("You have no task.", "Claim one of those that are open: it is yours then, until you hand it in."),
    "others": ("Nobody else has a task.", "What others have claimed appears here."),
    "ended": ("No task has ended yet.", "What was handed in, declined or not done in time appears here."),
}
_TEXT: Final = 200


class Tasks(NamedTuple):
    """What the inbox shows: the tasks of one tray, and how many there are in those that have not ended.

    ``after`` is the cursor of the next page, ``names`` holds a name for each ``caller``.
    """

    tray: Tray
    tasks: Sequence[Execution]
    counts: Mapping[Whose, int]
    names: Mapping[str, str]
    now: float
    after: str | None = None
    is_first: bool = True
    told: str = ""


class Row(NamedTuple):
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


def inbox_page(tasks: Tasks, frame: Frame, *, part: bool = False) -> str:
    """Return the page as HTML; with ``part`` only what changes while somebody looks."""
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


def _row(execution: Execution, tasks: Tasks) -> Row:
    text = read_task(execution)
    about = " ".join(text.description.split())
    return Row(
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
