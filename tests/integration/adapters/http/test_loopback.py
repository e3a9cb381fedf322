"""The listener that waits for the browser: one address, one path, one request that counts."""

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.eventually import PATIENCE

from skillwire import limits
from skillwire.adapters.http import loopback
from skillwire.adapters.http.loopback import RedirectListener
from skillwire.errors import FetchError

pytestmark = pytest.mark.spec("OAU-loopback")


def send(listener, request):
    host, _, port = listener.url.removeprefix("http://").partition("/")[0].partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        received = b""
        while data := sock.recv(4096):
            received += data
    return received


def authority(listener):
    return listener.url.removeprefix("http://").partition("/")[0]


def wait_for(listener, requests):
    answers: list[bytes] = []

    def talk():
        answers.extend(send(listener, request.replace(b"HOST", authority(listener).encode())) for request in requests)

    thread = threading.Thread(target=talk)
    thread.start()
    target = listener.wait("s", 20)
    thread.join()
    return target, answers


GOOD = b"GET /callback?code=c&state=s HTTP/1.1\r\nHost: HOST\r\n\r\n"


def test_it_takes_the_one_request_that_counts():
    with RedirectListener() as listener:
        assert listener.url.startswith("http://127.0.0.1:")
        target, (page,) = wait_for(listener, [GOOD])
    assert target == "/callback?code=c&state=s"
    assert page.startswith(b"HTTP/1.1 200 ")
    assert b"Cache-Control: no-store" in page
    assert b"code=c" not in page
    with pytest.raises(OSError, match="refused"):
        send(listener, GOOD)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /favicon.ico HTTP/1.1\r\nHost: HOST\r\n\r\n", b"404"),
        (b"GET /callback?code=evil HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"400"),
        (b"GET /callback?code=evil HTTP/1.1\r\nHost: HOST.evil.example\r\n\r\n", b"400"),
        (b"GET /callback?code=evil HTTP/1.1\r\n\r\n", b"400"),
        (b"POST /callback?code=evil HTTP/1.1\r\nHost: HOST\r\n\r\n", b"400"),
        (b"GET /callback?code=\xff HTTP/1.1\r\nHost: HOST\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 20_000, b"400"),
        (b"\x16\x03\x01", b"400"),
        (b"GET /callback HTTP/1.1\r\nHost: HOST\r\n\r\n", b"400"),
        (b"GET /callback?code=evil&state=t HTTP/1.1\r\nHost: HOST\r\n\r\n", b"400"),
        (b"GET /callback?error=evil&state= HTTP/1.1\r\nHost: HOST\r\n\r\n", b"400"),
        (b"GET /callback?state=s" + b"&a=b" * 40 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n", b"400"),
    ],
)
def test_everything_else_is_answered_and_the_waiting_goes_on(request_, status):
    with RedirectListener() as listener:
        target, answers = wait_for(listener, [request_, GOOD])
    assert target == "/callback?code=c&state=s"
    assert answers[0].startswith(b"HTTP/1.1 " + status)


def test_a_connection_that_says_nothing_does_not_hold_it_up():
    with RedirectListener() as listener:
        host, _, port = authority(listener).partition(":")
        silent = socket.create_connection((host, int(port)))
        silent.close()
        target, _ = wait_for(listener, [GOOD])
    assert target == "/callback?code=c&state=s"


@pytest.mark.parametrize("count", [3, limits.LOGIN_CONNECTIONS + 3])
def test_connections_that_are_opened_ahead_do_not_hold_it_up(count):
    with RedirectListener() as listener, contextlib.ExitStack() as stack:
        host, _, port = authority(listener).partition(":")
        for _ in range(count):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE))
        target, (page,) = wait_for(listener, [GOOD])
    assert target == "/callback?code=c&state=s"
    assert page.startswith(b"HTTP/1.1 200 ")


def test_a_request_may_come_in_pieces_on_a_connection_that_was_opened_ahead():
    with RedirectListener() as listener:
        host, _, port = authority(listener).partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as early, ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(listener.wait, "s", 20)
            assert send(listener, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
            request = GOOD.replace(b"HOST", authority(listener).encode())
            early.sendall(request[:30])
            assert send(listener, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400 ")
            early.sendall(request[30:])
            assert waiting.result(20) == "/callback?code=c&state=s"


def test_whoever_does_not_read_the_answer_counts_no_more_than_others(monkeypatch):
    def broken(*_):
        raise ConnectionResetError

    monkeypatch.setattr(loopback, "_answer", broken)
    with RedirectListener() as listener:
        target, _ = wait_for(listener, [GOOD.replace(b"state=s", b"state=t"), GOOD])
    assert target == "/callback?code=c&state=s"


def test_it_does_not_wait_for_ever():
    with RedirectListener() as listener, pytest.raises(FetchError) as caught:
        listener.wait("s", 0.05)
    assert caught.value.code == "LOGIN_TIMEOUT"
