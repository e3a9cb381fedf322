"""What the console's pages are made of: times, bars, filters, JSON, and the words for what an execution is."""

import json
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.executions import make_execution

from skillwire import limits
from skillwire.executions.states import Transition
from skillwire.model.execution import Event, ExecutionStatus, Failure, Reason
from skillwire.model.skill import ExecutorKind
from skillwire.web.environment import (
    EXECUTORS,
    REASONS,
    STATUSES,
    ahead,
    duration_text,
    json_text,
    past,
    status_label,
    status_look,
)
from skillwire.web.executions_page import EVENTS, Filters, read_filters, steps

NOW = 1_750_000_000.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0841, "84 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (1, "1.0 s"),
        (3.25, "3.2 s"),
        (9.99, "10.0 s"),
        (10.4, "10 s"),
        (59.6, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (3605, "1 h"),
        (11_520, "3 h 12 min"),
        (187_200, "2 d 4 h"),
        (-1, "0 ms"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("ago", "text"),
    [(-5, "now"), (0.5, "now"), (1, "1 s ago"), (59.9, "59 s ago"), (60, "1 min ago"), (90_000, "1 d ago")],
)
def test_a_time_that_has_been_is_rounded_down(ago, text):
    assert past(NOW - ago, NOW).relative == text


@pytest.mark.parametrize(
    ("left", "text"), [(-1, "over"), (0, "over"), (0.5, "1 s left"), (61, "1 min left"), (7200, "2 h left")]
)
def test_a_time_to_come_says_what_is_left(left, text):
    assert ahead(NOW + left, NOW).relative == text


def test_a_time_is_shown_in_full_as_logs_have_it():
    assert past(NOW + 0.25, NOW)[:2] == ("2025-06-15T15:06:40.250Z", "2025-06-15 15:06:40 UTC")


def test_everything_that_can_be_has_a_name():
    assert set(STATUSES) == set(ExecutionStatus)
    assert set(EXECUTORS) == set(get_args(ExecutorKind))
    assert set(EVENTS) == {"accept", *get_args(Transition)}
    assert set(REASONS) == set(get_args(Reason))
    assert [step.label for step in steps(make_execution(NOW, timeline=(Event(0, "some_thing"),)), NOW)] == [
        "Some thing"
    ]


@pytest.mark.parametrize(
    ("changes", "label", "look"),
    [
        ({}, "Waiting", "accepted"),
        ({"status": ExecutionStatus.RUNNING, "worker": "w"}, "Running", "running"),
        ({"status": ExecutionStatus.RUNNING}, "Waiting again", "accepted"),
        ({"status": ExecutionStatus.FAILED, "failure": Failure("exit", "no")}, "Failed", "failed"),
        ({"status": ExecutionStatus.FAILED, "failure": Failure("cancelled", "no")}, "Cancelled", "cancelled"),
        ({"status": ExecutionStatus.FAILED, "failure": Failure("rejected", "no")}, "Declined", "failed"),
        ({"status": ExecutionStatus.TIMEOUT, "failure": Failure("deadline", "no")}, "Timed out", "timeout"),
    ],
)
def test_how_far_an_execution_is_has_a_word_and_a_look(changes, label, look):
    execution = replace(make_execution(NOW), **changes)
    assert (status_label(execution), status_look(execution)) == (label, look)


def test_the_timeline_has_a_bar_for_each_time_it_ran_or_waited():
    events = (
        Event(0, "accept", "anna"),
        Event(10, "claim", "w1"),
        Event(40, "retry", "w1", "busy"),
        Event(50, "claim", "w2"),
    )
    waiting = make_execution(0.0, timeline=events)
    found = steps(waiting, 100.0)
    assert [(step.kind, step.start, step.width, step.lasts) for step in found] == [
        ("wait", "0.00%", "10.00%", "10 s"),
        ("run", "10.00%", "30.00%", "30 s"),
        ("wait", "40.00%", "10.00%", "10 s"),
        ("run", "50.00%", "50.00%", "50 s"),
    ]
    assert [step.attempt for step in found] == [0, 1, 0, 2]
    assert [step.is_open for step in found] == [False, False, False, True]
    ended = replace(waiting, status=ExecutionStatus.COMPLETED, timeline=(*events, Event(100, "complete", "w2")))
    found = steps(ended, 5000.0)
    assert (found[3].width, found[3].is_open) == ("50.00%", False)
    assert (found[4].kind, found[4].lasts) == ("", "")


def test_an_execution_of_no_time_has_a_timeline_too():
    assert steps(make_execution(NOW, timeline=()), NOW) == []
    [step] = steps(make_execution(NOW), NOW - 5)  # a clock that was set back
    assert (step.start, step.width) == ("0.00%", "0.60%")


@given(
    times=st.lists(st.floats(0, 1e9), min_size=1, max_size=8),
    now=st.floats(0, 2e9),
    what=st.sampled_from(sorted(EVENTS)),
)
def test_no_bar_is_drawn_beside_the_timeline(times, now, what):
    events = tuple(Event(at, what) for at in times)
    for step in steps(make_execution(times[0], timeline=events), now):
        start, width = float(step.start[:-1]), float(step.width[:-1])
        assert start >= 0
        assert width >= 0.6
        assert start + width <= 100.61


def test_the_address_of_a_list_is_what_it_asks_for():
    text = b"status=failed&skill=a%20b&caller=ann&executor=http&trace=t&after=7"
    filters = read_filters(text)
    assert filters == Filters(ExecutionStatus.FAILED, "a b", "ann", "http", "t", "7")
    assert read_filters(filters.url(after="7")[1:].encode()) == filters
    assert filters.url() == "?status=failed&skill=a+b&caller=ann&executor=http&trace=t"
    assert Filters().url() == "?"
    query = filters.query(f"principal {filters.caller}")
    assert (query.statuses, query.caller, query.limit) == (
        {ExecutionStatus.FAILED},
        "principal ann",
        limits.CONSOLE_EXECUTIONS,
    )


@given(st.binary(max_size=200))
def test_whatever_a_stranger_writes_into_the_address_is_an_address_of_a_list(query):
    filters = read_filters(query)
    assert read_filters(filters.url(after=filters.after)[1:].encode()) == filters


def test_too_many_fields_are_as_good_as_none():
    assert read_filters(b"&".join([b"skill=x"] * 100)) == Filters()


def test_json_is_indented_and_what_is_none_is_shown_as_it_is():
    shown = json_text('{"b":[1,"ü"]}'.encode())
    assert shown.text == '{\n  "b": [\n    1,\n    "ü"\n  ]\n}'
    assert (shown.size, shown.lines, shown.is_long, shown.is_cut) == (14, 6, False, False)
    for odd in (b"no json", b"[" * 2000, b"1" * 6000, b"\xff"):
        assert json_text(odd).text == odd.decode("utf-8", "replace")
    assert json_text(json.dumps(list(range(50))).encode()).is_long


def test_json_that_is_too_large_is_cut():
    shown = json_text(b'"' + b"x" * limits.CONSOLE_JSON_BYTES + b'"')
    assert shown.is_cut
    assert shown.is_long
    assert len(shown.text) == limits.CONSOLE_JSON_BYTES
