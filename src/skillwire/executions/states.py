"""The states of an execution, as one table; every change of a status is a transition in it.

::

    accepted ──claim──▶ running ──complete──▶ completed
        │                  │ ├──fail, abandon──▶ failed
        │                  │ ├──claim, retry, release, lose──▶ running
        ├──cancel──▶ failed┘ │
        └──expire──▶ timeout ┘

A status never goes back, so a client that polls sees it rise: an execution whose attempt failed but may be repeated,
that was given back, or that lost its worker stays *running* without a worker until the next claim. The attempt number
counts the claims. A released or lost attempt shows nothing about the skill, so ``max_attempts`` rises with it; but
since a skill may be what kills its workers, it is not begun again after a few losses.

A worker's report counts only while its claim holds: same worker, same attempt, not ended. Of a late completion, a
cancellation and a deadline, the first that is stored decides.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from skillwire import limits
from skillwire.model.execution import Claim, ExecutionStatus, Failure
from skillwire.wire.pacing import backoff

#: ``claim``: a worker takes it. ``retry``: an attempt failed, and another follows. ``release``: its worker gives it
#: back. ``lose``: its worker was silent, and it may be run again. ``abandon``: it may not.
Transition = Literal["claim", "complete", "fail", "retry", "release", "lose", "abandon", "cancel", "expire"]

_ACCEPTED, _RUNNING = ExecutionStatus.ACCEPTED, ExecutionStatus.RUNNING

#: Status and event → status. What is not here cannot happen.
STATES: Final[dict[tuple[ExecutionStatus, Transition], ExecutionStatus]] = {
    (_ACCEPTED, "claim"): _RUNNING,
    (_ACCEPTED, "cancel"): ExecutionStatus.FAILED,
    (_ACCEPTED, "expire"): ExecutionStatus.TIMEOUT,
    (_RUNNING, "claim"): _RUNNING,
    (_RUNNING, "complete"): ExecutionStatus.COMPLETED,
    (_RUNNING, "fail"): ExecutionStatus.FAILED,
    (_RUNNING, "retry"): _RUNNING,
    (_RUNNING, "release"): _RUNNING,
    (_RUNNING, "lose"): _RUNNING,
    (_RUNNING, "abandon"): ExecutionStatus.FAILED,
    (_RUNNING, "cancel"): ExecutionStatus.FAILED,
    (_RUNNING, "expire"): ExecutionStatus.TIMEOUT,
}


#: Events by which an attempt ends that was none.
_UNCOUNTED: Final[frozenset[Transition]] = frozenset({"release", "lose"})


#: Events whose entry in the timeline has the failure's message.
EXPLAINED: Final[frozenset[Transition]] = frozenset({"fail", "retry", "abandon", "lose"})


class State(NamedTuple):
    """What decides about an execution; ``losses`` is how often its worker was lost."""

    status: ExecutionStatus
    attempt: int
    worker: str | None
    not_before: float
    deadline: float
    max_attempts: int = 1
    backoff: float = 0.0
    is_repeatable: bool = False
    losses: int = 0

    def is_waiting(self, now: float) -> bool:
        """Whether a worker may claim it at ``now``."""
        return not self.status.is_final and self.worker is None and self.not_before <= now < self.deadline

    def holds(self, claim: Claim) -> bool:
        """Whether what the holder of ``claim`` reports counts."""
        return self.status is _RUNNING and (self.worker, self.attempt) == (claim.worker, claim.attempt)

    def step(self, what: Transition, *, worker: str | None = None, not_before: float | None = None) -> State | None:
        """Return the state after an event, held by ``worker``; None when the event cannot happen."""
        status = STATES.get((self.status, what))
        if status is None:
            return None
        return self._replace(
            status=status,
            worker=worker,
            attempt=self.attempt + (what == "claim"),
            max_attempts=self.max_attempts + (what in _UNCOUNTED),
            not_before=self.not_before if not_before is None else not_before,
            losses=self.losses + (what == "lose"),
        )


def attempt_seconds(timeout: float, deadline: float, now: float) -> float:
    """Return how long an attempt that begins at ``now`` may take: the whole ``timeout`` if it did not wait."""
    return max(min(timeout, deadline + limits.EXECUTION_START_SECONDS - now), 0.0)


def after_failure(state: State, failure: Failure, now: float, chance: float) -> Transition:
    """Return ``retry``, ``fail`` or ``expire`` for a failed attempt; ``chance`` as of :func:`next_attempt`.

    The worker measured the attempt, so a reached deadline counts whatever the wall clock shows.
    """
    if failure.reason == "deadline":
        return "expire"
    may_pass = failure.is_passing and state.attempt < state.max_attempts
    return "retry" if may_pass and next_attempt(state, failure, now, chance) < state.deadline else "fail"


def next_attempt(state: State, failure: Failure, now: float, chance: float) -> float:
    """Return when the next attempt may begin: backoff with full jitter by ``chance`` (0 to 1), or ``retry_after``."""
    pause = failure.details.get("retry_after")
    if isinstance(pause, int | float) and pause >= 0:
        return now + float(min(pause, _LONGEST_PAUSE))
    longest = state.backoff * 2.0**_DOUBLINGS
    return now + backoff(max(state.attempt - 1, 0), chance, base=state.backoff, cap=longest)


_DOUBLINGS: Final = 16
#: Seconds; beyond every deadline. An API may name a number that no float holds.
_LONGEST_PAUSE: Final = 1e9


def loss_of(state: State) -> Failure:
    """Return the failure of an execution that lost its worker, or the note for its timeline."""
    if not state.is_repeatable:
        return WORKER_LOST
    return LOST_AGAIN if after_loss(state) == "abandon" else LOST


def after_loss(state: State) -> Transition:
    """Return ``lose`` or ``abandon``: whether an execution whose worker is gone may be run again."""
    return "lose" if state.is_repeatable and state.losses + 1 < limits.EXECUTION_LOSSES else "abandon"


#: Failures that no worker reports.
CANCELLED: Final = Failure("cancelled", "The execution was cancelled")
WORKER_LOST: Final = Failure(
    "worker_lost", "What ran the skill was lost, and the skill is not marked as one that may be run twice"
)
LOST: Final = Failure("worker_lost", "What ran the skill was lost; the skill may be run twice")
LOST_AGAIN: Final = Failure(
    "worker_lost", f"What ran the skill was lost {limits.EXECUTION_LOSSES} times, so it is not run again"
)


def timed_out(execution_id: str, timeout: float) -> Failure:
    """Return what an execution failed of that took longer than ``timeout`` seconds. Spec: SSP §8.3.5."""
    timeout_ms = round(timeout * 1000)
    details = {"timeout_ms": timeout_ms, "execution_id": execution_id}
    return Failure("deadline", f"Skill execution timed out after {timeout_ms}ms", "INVOCATION_TIMEOUT", details)
