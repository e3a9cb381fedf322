"""The state table: total, one way only; and what becomes of attempts that fail and workers that are lost."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire import limits
from skillwire.executions.states import (
    LOST,
    LOST_AGAIN,
    STATES,
    State,
    Transition,
    after_failure,
    after_loss,
    attempt_seconds,
    loss_of,
    next_attempt,
    timed_out,
)
from skillwire.model.execution import FINAL, Claim, ExecutionStatus, Failure

ORDER = {ExecutionStatus.ACCEPTED: 0, ExecutionStatus.RUNNING: 1, **dict.fromkeys(FINAL, 2)}
EVENTS = get_args(Transition)
PASSING = Failure("upstream", "busy", is_passing=True)


def state(status=ExecutionStatus.RUNNING, **fields):
    return State(**{"status": status, "attempt": 1, "worker": "w", "not_before": 0.0, "deadline": 1_000.0, **fields})


@pytest.mark.parametrize(("status", "what"), list(product(ExecutionStatus, EVENTS)))
def test_every_event_of_every_status_is_in_the_table_or_cannot_happen(status, what):
    before = state(status, attempt=3, not_before=7.0)
    after = before.step(what, worker="v", not_before=9.0)
    if (status, what) not in STATES:
        assert after is None
        return
    assert after.status is STATES[status, what]
    assert ORDER[after.status] >= ORDER[status]
    assert after.attempt == 3 + (what == "claim")
    assert after.max_attempts == 1 + (what in {"release", "lose"})
    assert (after.worker, after.not_before) == ("v", 9.0)
    assert after.losses == (what == "lose")
    assert after._replace(max_attempts=1, losses=0)[4:] == before[4:]


def test_nothing_follows_an_end_and_every_other_status_can_end():
    assert {status for status, _ in STATES} == set(ExecutionStatus) - FINAL
    assert {what for _, what in STATES} == set(EVENTS)
    for status in set(ExecutionStatus) - FINAL:
        assert {STATES[status, what] for what in ("cancel", "expire")} <= FINAL


def test_event_lets_go_of_the_worker_and_keeps_the_time_unless_told_otherwise():
    after = state(not_before=7.0).step("release")
    assert (after.worker, after.not_before) == (None, 7.0)


@pytest.mark.parametrize("worker", ["w", "v", None])
@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.parametrize("status", list(ExecutionStatus))
def test_claim_holds_with_the_same_worker_and_attempt_while_it_runs(status, attempt, worker):
    expected = (status, attempt, worker) == (ExecutionStatus.RUNNING, 1, "w")
    assert state(status, attempt=attempt, worker=worker).holds(Claim("exec-1", "w", 1)) is expected


@pytest.mark.parametrize(
    ("fields", "now", "expected"),
    [
        ({}, 5.0, True),
        ({"status": ExecutionStatus.ACCEPTED}, 5.0, True),
        ({"status": ExecutionStatus.FAILED}, 5.0, False),
        ({"worker": "w"}, 5.0, False),
        ({"not_before": 5.0}, 5.0, True),
        ({"not_before": 5.1}, 5.0, False),
        ({"deadline": 5.1}, 5.0, True),
        ({"deadline": 5.0}, 5.0, False),
    ],
)
def test_it_waits_from_its_next_attempt_to_its_deadline_while_nobody_has_it(fields, now, expected):
    assert state(**{"worker": None, **fields}).is_waiting(now) is expected


@pytest.mark.parametrize(
    ("attempt", "failure", "expected"),
    [
        (1, PASSING, "retry"),
        (2, PASSING, "retry"),
        (3, PASSING, "fail"),
        (1, Failure("exception", "no"), "fail"),
        (1, PASSING._replace(details={"retry_after": 989}), "retry"),
        (1, PASSING._replace(details={"retry_after": 990}), "fail"),
    ],
)
def test_failure_that_may_pass_is_retried_while_attempts_and_time_are_left(attempt, failure, expected):
    assert after_failure(state(attempt=attempt, max_attempts=3, backoff=1.0), failure, 10.0, 1.0) == expected


@pytest.mark.parametrize(("attempt", "pause"), [(1, 2.0), (2, 4.0), (3, 8.0), (17, 2.0 * 2**16), (99, 2.0 * 2**16)])
def test_pause_doubles_with_each_attempt_and_chance_takes_of_it(attempt, pause):
    before = state(attempt=attempt, backoff=2.0)
    assert next_attempt(before, PASSING, 10.0, 1.0) == 10.0 + pause
    assert next_attempt(before, PASSING, 10.0, 0.25) == 10.0 + pause / 4
    assert next_attempt(before, PASSING, 10.0, 0.0) == 10.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=3,
)


@given(JSON, st.floats(0, 1), st.integers(1, 10**9))
def test_whatever_a_failure_says_of_the_next_attempt_is_now_or_later(told, chance, attempt):
    failure = PASSING._replace(details={"retry_after": told})
    before = state(attempt=attempt, backoff=1.0, max_attempts=10**9 + 1)
    begins = next_attempt(before, failure, 10.0, chance)
    assert begins >= 10.0
    is_told = isinstance(told, int | float) and not isinstance(told, bool) and told >= 0
    if is_told and told < 10**9:
        assert begins == 10.0 + told
    assert after_failure(before, failure, 10.0, chance) == ("retry" if begins < 1_000.0 else "fail")


def test_only_what_may_be_run_twice_is_run_again_after_a_loss():
    assert after_loss(state(is_repeatable=True)) == "lose"
    assert after_loss(state(is_repeatable=False)) == "abandon"


def test_what_loses_one_worker_after_another_is_not_begun_for_ever():
    after = state(is_repeatable=True, worker="w1")
    told = []
    for _ in range(limits.EXECUTION_LOSSES):
        told.append((after_loss(after), loss_of(after)))
        released = after.step("release").step("claim", worker="w2")  # giving it back is no loss
        after = released.step("lose").step("claim", worker="w3")
    assert told == [("lose", LOST)] * (limits.EXECUTION_LOSSES - 1) + [("abandon", LOST_AGAIN)]


def test_timeout_reads_as_the_protocol_has_it():
    failure = timed_out("exec-7", 5.0)
    assert failure.code == "INVOCATION_TIMEOUT"
    assert failure.message == "Skill execution timed out after 5000ms"
    assert failure.details == {"timeout_ms": 5000, "execution_id": "exec-7"}


@pytest.mark.parametrize(
    ("timeout", "now", "seconds"),
    [(5.0, 100.0, 5.0), (5.0, 100.4, 5.0), (5.0, 101.0, 5.0), (5.0, 103.0, 3.0), (0.2, 100.3, 0.2), (5.0, 107.0, 0.0)],
)
def test_an_attempt_has_the_whole_time_but_what_it_waited_for(timeout, now, seconds):
    assert attempt_seconds(timeout, 100.0 + timeout, now) == pytest.approx(seconds)
