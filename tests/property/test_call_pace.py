"""The breaker and the backoff of calls: what holds for any row of events, and for any chance."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from skillwire import limits
from skillwire.wire.pacing import Circuits, backoff, pause, retry_after

CHANCE = st.floats(0, 1)
SECONDS = st.floats(0, 1000)
MOST, REST = limits.CIRCUIT_FAILURES, float(limits.CIRCUIT_SECONDS)
#: How far ``(now + REST) - now`` may be from ``REST``: both are rounded, each by at most half the distance of two
#: floats at the latest time that a story reaches.
ROUNDING = math.ulp(60 * 40 + REST)

#: What happens to an origin: time goes by, somebody asks, a request that was made ends.
STORY = st.lists(st.tuples(st.sampled_from(["ask", "passed", "failed", "wait"]), st.floats(0, 40)), max_size=60)


@given(STORY)
@example([("wait", 2.2), *[("failed", 0)] * 5, ("ask", 0), ("wait", 30.1), ("ask", 0)])
def test_whatever_happens_the_rules_of_the_breaker_hold(story):
    now, in_a_row, until = [0.0], 0, 0.0
    circuits = Circuits(lambda: now[0])
    for what, seconds in story:
        if what == "wait":
            now[0] += seconds
        elif what == "passed":
            circuits.passed("a")
            in_a_row = 0
        elif what == "failed":
            circuits.failed("a")
            in_a_row += 1
            until = now[0] + REST if in_a_row == MOST else until
        else:
            wait = circuits.ask("a")
            assert 0 <= wait <= REST
            assert (wait == 0) == (in_a_row < MOST or now[0] >= until)
            if wait == 0 and in_a_row >= MOST:
                until = now[0] + REST
                assert REST - ROUNDING <= circuits.ask("a") <= REST  # one looks, the others wait


@given(st.lists(st.booleans(), max_size=40))
def test_an_origin_is_left_alone_after_so_many_failures_in_a_row_and_no_other(outcomes):
    now = [0.0]
    circuits = Circuits(lambda: now[0])
    row = 0
    for good in outcomes:
        circuits.passed("a") if good else circuits.failed("a")
        row = 0 if good else row + 1
        assert (circuits.ask("a") > 0) == (row >= 5)
        assert circuits.ask("b") == 0


def test_it_rests_then_one_looks_and_decides():
    now = [0.0]
    circuits = Circuits(lambda: now[0])
    for _ in range(5):
        circuits.failed("a")
    assert circuits.ask("a") == 30
    now[0] = 30.0
    assert [circuits.ask("a"), circuits.ask("a")] == [0, 30]
    circuits.failed("a")
    assert circuits.ask("a") == 30
    now[0] = 61.0
    assert circuits.ask("a") == 0
    circuits.passed("a")
    assert [circuits.ask("a"), circuits.ask("a")] == [0, 0]


@given(st.integers(0, 10_000), CHANCE, st.floats(0.01, 10), st.floats(10, 100))
def test_backoff_lies_between_nothing_and_the_doubled_base(attempt, chance, base, cap):
    seconds = backoff(attempt, chance, base=base, cap=cap)
    assert 0 <= seconds <= cap
    assert seconds <= base * 2 ** min(attempt, 60)


@given(st.integers(0, 60), st.floats(0.01, 10), st.floats(10, 100))
def test_backoff_draws_from_the_whole_interval(attempt, base, cap):
    top = backoff(attempt, 1, base=base, cap=cap)
    assert backoff(attempt, 0, base=base, cap=cap) == 0
    assert top == min(cap, base * 2**attempt)
    assert backoff(attempt + 1, 1, base=base, cap=cap) >= top


@given(SECONDS, st.integers(0, 100), CHANCE)
def test_what_the_server_says_wins(hint, attempt, chance):
    seconds = pause(hint, attempt, chance, base=0.5, cap=30)
    assert hint <= seconds <= hint * 1.1 + 1e-9
    assert pause(None, attempt, chance, base=0.5, cap=30) == backoff(attempt, chance, base=0.5, cap=30)


@given(st.text(max_size=40) | st.integers(0, 10**30).map(str), st.text(max_size=40))
def test_retry_after_is_a_number_of_seconds_or_nothing(text, date):
    seconds = retry_after({"retry-after": text, "date": date})
    assert seconds is None or 0 <= seconds < 10**12


def test_retry_after_as_servers_write_it():
    date = "Fri, 31 Dec 1999 23:59:59 GMT"
    assert retry_after({"retry-after": " 120 "}) == 120
    assert retry_after({"retry-after": "Sat, 01 Jan 2000 00:00:59 GMT", "date": date}) == 60
    assert retry_after({"retry-after": date, "date": "Sat, 01 Jan 2000 00:00:59 GMT"}) == 0
    for nothing in ({}, {"retry-after": "soon"}, {"retry-after": "-1"}, {"retry-after": date}, {"retry-after": "1.5"}):
        assert retry_after(nothing) is None
