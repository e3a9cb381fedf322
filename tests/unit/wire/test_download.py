import hashlib

import pytest

from skillwire import limits
from skillwire.errors import FetchError
from skillwire.wire.exchange import HttpRequest, HttpResponse, Sleep, drive, follow
from skillwire.wire.fetch import download

URL = "https://a.example/x.zip"


class Memory:
    def __init__(self, content: bytes = b"") -> None:
        self.content = content

    @property
    def size(self) -> int:
        return len(self.content)

    def begin(self, position: int) -> bool:
        self.content = self.content[:position]
        return True

    def append(self, data: bytes | bytearray) -> None:
        self.content += data

    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    def discard(self) -> None:
        self.content = b""


class Server:
    """Answers from a list of callables or answers, and remembers what was asked."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.asked: list[HttpRequest] = []
        self.pauses: list[float] = []

    def run(self, flow):
        def do(step):
            if isinstance(step, Sleep):
                self.pauses.append(step.seconds)
                return None
            self.asked.append(step)
            self.pauses += [0.0] * (len(self.asked) - len(self.pauses))
            answer = self.answers.pop(0)
            answer = answer(step) if callable(answer) else answer
            if isinstance(answer, Exception):
                raise answer
            return answer

        return drive(flow, do)


def status(number, **headers):
    return HttpResponse(URL, number, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


def lost(bytes_before=b""):
    def answer(request):
        if bytes_before:
            request.sink.append(bytes_before)
        return FetchError("CONNECTION_LOST", "cut")

    return answer


def run(server, sink=None, now=lambda: 0.0, end=900.0):
    return server.run(download(HttpRequest(URL), sink, end=end, clock=now))


def test_a_break_is_continued_after_the_bytes_that_came():
    sink = Memory()
    server = Server(lost(b"abc"), lost(b"de"), HttpResponse(URL, 206, {}, b"", in_sink=True))
    assert run(server, sink).status == 206
    assert [request.header("range") for request in server.asked] == [None, "bytes=3-", "bytes=5-"]
    assert [pause > 0 for pause in server.pauses] == [False, True, True]


def test_tries_that_bring_nothing_end_soon_and_wait_longer_each_time():
    server = Server(*[lost()] * 10)
    with pytest.raises(FetchError, match="CONNECTION_LOST"):
        run(server)
    assert len(server.asked) == limits.DOWNLOAD_TRIES
    for number, pause in enumerate(server.pauses[1:], 1):
        assert 0.125 * 2**number <= pause <= 0.375 * 2**number


def test_requests_in_all_are_bounded_however_much_each_brings():
    server = Server(*[lost(b"x")] * 100)
    with pytest.raises(FetchError, match="CONNECTION_LOST"):
        run(server, Memory())
    assert len(server.asked) == limits.DOWNLOAD_REQUESTS


def test_a_server_that_never_answers_is_not_waited_for_twice():
    for code in ("TIMEOUT", "CONNECT_FAILED", "HOST_NOT_FOUND", "TLS_FAILED"):
        server = Server(FetchError(code, "no"))
        with pytest.raises(FetchError, match=code):
            run(server)


@pytest.mark.parametrize(("value", "wait"), [("7", 7.0), ("0", 0.0), ("30", 30.0)])
@pytest.mark.parametrize("number", [429, 503])
def test_retry_after_is_kept(number, value, wait):
    server = Server(status(number, retry_after=value), status(200))
    assert run(server).status == 200
    assert server.pauses[1] == wait


@pytest.mark.parametrize("value", ["31", "999999999999999999999"])
def test_a_server_that_wants_to_be_left_alone_for_long_is(value):
    server = Server(status(503, retry_after=value))
    assert run(server).status == 503


def test_a_date_and_nonsense_count_as_no_wish():
    server = Server(
        *[status(503, retry_after=value) for value in ("Fri, 31 Dec 1999 23:59:59 GMT", "\u0663")], status(404)
    )
    assert run(server).status == 404
    assert all(0 < pause < 2 for pause in server.pauses[1:])


@pytest.mark.parametrize(
    "useless",
    [status(416), HttpResponse(URL, 206, {}, b"packed"), FetchError("HTTP_SYNTAX", "its part is another one")],
)
def test_what_cannot_be_continued_begins_anew(useless):
    sink = Memory(b"old")
    server = Server(useless, status(200))
    assert run(server, sink).status == 200
    assert [request.header("range") for request in server.asked] == ["bytes=3-", None]
    assert not sink.content


def test_a_malformed_answer_to_a_whole_request_is_not_asked_for_again():
    with pytest.raises(FetchError, match="HTTP_SYNTAX"):
        run(Server(FetchError("HTTP_SYNTAX", "no")), Memory())


def test_time_in_all_is_bounded():
    server = Server(lost(b"x"), lost(b"x"))
    ticks = iter([0.0, 0.0, 899.0, 899.95, 899.99])
    with pytest.raises(FetchError):
        run(server, Memory(), now=lambda: next(ticks))
    assert all(request.timeout <= 60 for request in server.asked)


def test_other_answers_are_the_callers():
    assert follow(download(HttpRequest(URL), None, end=1, clock=lambda: 0), [status(404)]).status == 404
