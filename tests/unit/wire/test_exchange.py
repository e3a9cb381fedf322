import math

import pytest

from skillwire.errors import FetchError
from skillwire.wire.exchange import TIME_LEFT, All, HttpRequest, HttpResponse, drive, follow, within

OK = HttpResponse("https://a.example/", 200, {}, b"one")


def two_questions():
    first = yield HttpRequest("https://a.example/1")
    second = yield HttpRequest("https://a.example/2")
    return first.body + second.body


def no_question():
    yield from ()
    return "nothing to ask"


def forgiving():
    try:
        yield HttpRequest("https://a.example/1")
    except FetchError as error:
        return error.code


def test_follow_returns_what_the_exchange_returns():
    assert follow(two_questions(), [OK, OK]) == b"oneone"
    assert follow(no_question(), []) == "nothing to ask"


def test_follow_says_when_answers_run_out():
    with pytest.raises(LookupError, match=r"no answer left for GET https://a\.example/2$"):
        follow(two_questions(), [OK])


def test_follow_throws_in_an_exception_as_a_driver_does():
    assert follow(forgiving(), [FetchError("TIMEOUT", "too slow")]) == "TIMEOUT"


def test_a_header_is_found_in_any_case():
    request = HttpRequest("https://a.example/", headers={"If-None-Match": '"x"'})
    assert request.header("if-none-match") == '"x"'
    assert request.header("accept") is None


def test_the_requests_of_a_flow_end_within_its_time():
    now, timeouts = 100.0, []

    def parallel():
        (inner,) = yield All([two_questions()])
        return inner + (yield from two_questions())

    def do(step):
        nonlocal now
        if isinstance(step, All):
            return [drive(one, do) for one in step.flows]
        timeouts.append(step.timeout)
        now += 4
        return OK

    with pytest.raises(FetchError) as over:
        drive(within(parallel(), 10, lambda: now), do)
    assert timeouts == [10, 6, 2], "a request after the end is not made"
    assert (over.value.code, over.value.message) == ("TIMEOUT", "the time limit of 10 s is over")
    now, timeouts = 100.0, []
    assert drive(within(parallel(), 20, lambda: now), do) == b"oneoneoneone"


def test_a_flow_can_ask_how_much_time_it_has_left():
    def asking():
        alone = yield TIME_LEFT
        (within_all,) = yield All([asking_once()])
        return alone, within_all

    def asking_once():
        return (yield TIME_LEFT)

    def do(step):
        return [drive(one, do) for one in step.flows] if isinstance(step, All) else step.call()

    assert drive(asking(), do) == (math.inf, math.inf)
    assert drive(within(within(asking(), 7, lambda: 0.0), 3, lambda: 0.0), do) == (3, 3)
    assert drive(within(within(asking(), 2, lambda: 0.0), 3, lambda: 0.0), do) == (2, 2)


def test_a_flow_with_a_time_gets_errors_and_is_closed_as_any_other():
    assert follow(within(forgiving(), 100, lambda: 0.0), [FetchError("TIMEOUT", "too slow")]) == "TIMEOUT"
    closed = []

    def cleaning():
        try:
            yield HttpRequest("https://a.example/1")
        finally:
            closed.append(True)

    flow = within(cleaning(), 100, lambda: 0.0)
    request = next(flow)
    assert isinstance(request, HttpRequest)
    assert request.timeout == 60
    flow.close()
    assert closed == [True]
