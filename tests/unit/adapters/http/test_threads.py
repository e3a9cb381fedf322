from __future__ import annotations

import threading

import pytest

from skillwire.adapters.http.threads import call_within, outcomes


def test_quick_calls_need_one_thread():
    calls = [threading.get_ident] * 50
    results = dict(outcomes(calls, 6))
    assert sorted(results) == list(range(50))
    assert len(set(results.values())) < 6


def test_calls_that_wait_get_company():
    together = threading.Barrier(4)
    assert len(dict(outcomes([lambda: together.wait(10)] * 8, 4))) == 8


def test_an_exception_is_an_outcome():
    def broken():
        raise KeyError

    assert isinstance(dict(outcomes([broken], 2))[0], KeyError)


def test_a_caller_that_stops_begins_no_further_call():
    begun = []
    gate = threading.Event()

    def call():
        begun.append(1)
        if len(begun) > 1:
            gate.wait(10)

    for _ in outcomes([call] * 100, 1):
        break
    gate.set()
    assert len(begun) <= 2


@pytest.mark.parametrize("count", [0, 1])
def test_few_calls(count):
    assert list(outcomes([lambda: "x"] * count, 6)) == [(index, "x") for index in range(count)]


def test_a_call_within_its_time():
    assert call_within(lambda: "x", 10) == "x"
    with pytest.raises(KeyError):
        call_within(lambda: {"a": 1}["b"], 10)


def test_a_call_that_takes_too_long_is_left_behind():
    over = threading.Event()
    assert call_within(lambda: over.wait(20), 0.05) is None
    over.set()
