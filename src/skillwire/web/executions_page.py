"""The list of executions for operators, and the part of it that is live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from skillwire.web.environment import render
from skillwire.web.labels import EXECUTORS, REASONS, STATUSES, status_label, status_look
from skillwire.web.moments import Instant, duration_text, past

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.execution import Execution, ExecutionStatus
    from skillwire.model.ledger import FoundExecutions
    from skillwire.web.environment import Frame
    from skillwire.web.execution_query import Filters


class Listed(NamedTuple):
    """What the list shows: a page of executions, how many there are of each status, and who their callers are.

    ``counts`` is None where they were not counted, ``names`` holds a name for each ``caller``, ``problem`` says why
    nothing could be listed.
    """

    page: FoundExecutions
    counts: Mapping[ExecutionStatus, int]
    names: Mapping[str, str]
    now: float
    problem: str = ""


class Row(NamedTuple):
    """A line of the list."""

    execution: Execution
    mark: str
    status: str
    look: str
    caller: str
    executor: str
    accepted: Instant
    took: str
    began: Instant | None
    problem: str


class Choice(NamedTuple):
    """A status to filter by: its name, its class, how many there are, where choosing it leads."""

    label: str
    look: str
    executions: int
    url: str
    is_chosen: bool


def executions_page(listed: Listed, filters: Filters, frame: Frame, *, part: bool = False) -> str:
    """Return the list as HTML; with ``part`` only what changes while somebody looks."""
    values: dict[str, Any] = {
        "filters": filters,
        "choices": _choices(listed, filters),
        "executors": EXECUTORS,
        "rows": [_row(execution, listed) for execution in listed.page.executions],
        "next": filters.url(after=listed.page.after) if listed.page.after else None,
        "first": filters.url(),
        "all": filters.url(status=None),
        "live": filters.url(after=filters.after),
        "problem": listed.problem,
        "now": listed.now,
    }
    return render("runs.html" if part else "executions.html", frame, values)


def took(execution: Execution, now: float) -> str:
    """Return how long an execution has taken since it was accepted, or took in all."""
    return duration_text((execution.completed or now) - execution.created)


def _choices(listed: Listed, filters: Filters) -> list[Choice]:
    every = Choice("All", "", sum(listed.counts.values()), filters.url(status=None), filters.status is None)
    return [
        every,
        *(
            Choice(
                label, status.value, listed.counts.get(status, 0), filters.url(status=status), status is filters.status
            )
            for status, label in STATUSES.items()
        ),
    ]


def _row(execution: Execution, listed: Listed) -> Row:
    failure = execution.failure
    return Row(
        execution,
        f"{execution.status} {execution.attempt} {execution.worker} {execution.updated}",
        status_label(execution),
        status_look(execution),
        listed.names.get(execution.caller, execution.caller),
        EXECUTORS[execution.executor],
        past(execution.created, listed.now),
        took(execution, listed.now),
        None if execution.status.is_final else past(execution.created, listed.now),
        "" if failure is None else " ".join(failure.message.split())[:200] or REASONS[failure.reason],
    )
