import pytest

from skillwire.errors import FetchError
from skillwire.wire.exchange import HttpRequest, HttpResponse, follow

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
