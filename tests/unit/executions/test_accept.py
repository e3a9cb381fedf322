"""From a request to an execution: what it is called."""

import re

from hypothesis import given
from hypothesis import strategies as st

from skillwire.executions.accept import PRIORITY_SHIFTS, new_execution_id, queue_position
from skillwire.model.execution import Priority


def test_an_id_begins_with_the_time_and_ends_with_chance():
    ids = [new_execution_id(now) for now in (0.0, 1_750_000_000.125, 1_750_000_000.25, 4e9)]
    assert all(re.fullmatch("exec-[0-9a-f]{44}", one) for one in [*ids, new_execution_id(1e15)])
    assert sorted(ids) == ids
    assert int(ids[1][5:17], 16) == 1_750_000_000_125
    assert len({new_execution_id(1.0)[-32:] for _ in range(100)}) == 100


def test_the_id_of_a_task_is_told_from_others_by_its_beginning():
    ids = {new_execution_id(1.0, is_task=True) for _ in range(100)}
    assert all(re.fullmatch("exec-[0-9a-f]{32}", one) for one in ids)
    assert len({one[:13] for one in ids}) == 100


TIMES = st.floats(0, 4e9)
LONGEST = max(PRIORITY_SHIFTS.values()) - min(PRIORITY_SHIFTS.values())


def test_high_goes_before_normal_and_normal_before_low_of_the_same_moment():
    high, normal, low = (queue_position(priority, 1e9) for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW))
    assert high < normal < low


def test_every_priority_has_its_shift():
    assert set(PRIORITY_SHIFTS) == set(Priority)


@given(st.sampled_from(Priority), TIMES, TIMES)
def test_within_a_priority_the_order_is_that_of_arrival(priority, one, other):
    first, last = sorted((one, other))
    assert queue_position(priority, first) <= queue_position(priority, last)


@given(st.sampled_from(Priority), st.sampled_from(Priority), TIMES, st.floats(LONGEST + 0.001, 1e6))
def test_nobody_is_passed_by_whoever_comes_two_minutes_later(mine, other, accepted, later):
    assert queue_position(mine, accepted) < queue_position(other, accepted + later)
