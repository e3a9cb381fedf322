"""Whose turn it is: priorities move it, and nobody is passed by without end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillwire.invocation.queue import SHIFTS, turn_of
from skillwire.model.execution import Priority

TIMES = st.floats(0, 4e9)
LONGEST = max(SHIFTS.values()) - min(SHIFTS.values())


def test_high_goes_before_normal_and_normal_before_low_of_the_same_moment():
    high, normal, low = (turn_of(priority, 1e9) for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW))
    assert high < normal < low


def test_every_priority_has_its_shift():
    assert set(SHIFTS) == set(Priority)


@given(st.sampled_from(Priority), TIMES, TIMES)
def test_within_a_priority_the_order_is_that_of_arrival(priority, one, other):
    first, last = sorted((one, other))
    assert turn_of(priority, first) <= turn_of(priority, last)


@given(st.sampled_from(Priority), st.sampled_from(Priority), TIMES, st.floats(LONGEST + 0.001, 1e6))
def test_nobody_is_passed_by_whoever_comes_two_minutes_later(mine, other, accepted, later):
    assert turn_of(mine, accepted) < turn_of(other, accepted + later)
