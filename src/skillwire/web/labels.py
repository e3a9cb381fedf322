"""What the console calls things: statuses, executors, events, reasons. One word for each, on every page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
