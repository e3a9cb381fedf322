"""Skills that are an API: against a real HTTPS server on loopback, and against hostile ones."""

import asyncio
import contextlib
import gzip
import ssl
import threading

import pytest
import trustme
from tests.support.attempts import attempt_of
from tests.support.eventually import PATIENCE
from tests.support.loopback_server import Handler, LoopbackServer
from tests.support.raw_server import RawServer

from skillwire import limits
from skillwire.adapters.executors.http import HttpExecutor
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy

KEY = "k-123456789"


class Orders(Handler):
    """An API that wants a key, and gives back what it was asked."""

    def do_GET(self, body=b""):
        known = self.headers["Authorization"] == f"Bearer {KEY}"
        told = {"path": self.path, "body": body.decode(), "host": self.headers["Host"]}
        refusal = {"error": f"who is {self.headers['Authorization']}?"}
        self.send(200 if known else 401, {"data": told} if known else refusal)

    def do_POST(self):
        self.do_GET(self.body())


@pytest.fixture
def tls(tmp_path, monkeypatch):
    """Give the context of a server at localhost whose authority the machine knows."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def orders(tls):
    with LoopbackServer(Orders, tls) as server:
        yield f"https://localhost:{server.port}"


async def call(url, *, opened=True, seconds=20.0, **settings):
    origin = parse_url(url.partition("{")[0])
    policy = AddressPolicy().naming(origin) if opened else AddressPolicy()
    async with AsyncDriver(policy) as driver:
        executor = HttpExecutor(driver, {"API_KEY": KEY}.get)
        settings = {"url": url, **settings}
        return await executor.execute(attempt_of("http", settings, inputs={"id": "a/b", "n": 2}, seconds=seconds))


async def test_an_api_is_called_with_the_operators_secret(orders):
    headers = {"Authorization": "Bearer ${API_KEY}"}
    done = await call(orders + "/v1/{id}/x?lang={n}", headers=headers, result="/data")
    assert done.failure is None
    host = orders.removeprefix("https://")
    assert done.output == {"path": "/v1/a%2Fb/x?lang=2", "body": "{}", "host": host}
    done = await call(orders + "/v1", method="GET", headers=headers, result="/data/path")
    assert done.output == "/v1?id=a%2Fb&n=2"


async def test_who_is_not_recognised_is_told_so_without_the_secret(orders):
    failure = (await call(orders + "/", headers={"Authorization": "Token ${API_KEY}"})).failure
    assert failure.details == {"status": 401, "excerpt": '{"error": "who is Token [secret]?"}'}


async def test_the_policy_has_the_last_word(orders):
    failure = (await call(orders + "/", opened=False)).failure
    assert (failure.code, failure.is_passing) == ("ENDPOINT_UNREACHABLE", False)
    assert "localhost" not in failure.message
    assert "127.0.0.1" not in repr(failure)


async def test_an_authority_that_is_not_known_is_not_believed(orders, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    failure = (await call(orders + "/")).failure
    assert (failure.code, failure.is_passing) == ("ENDPOINT_UNREACHABLE", True)


@contextlib.contextmanager
def hostile(tls, talk):
    with RawServer(talk, tls=tls) as server:
        yield server, f"https://localhost:{server.port}/"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def endless(peer):
    peer.request()
    peer.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            peer.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def too_short(peer):
    peer.request()
    peer.send(HEAD + b"Content-Length: 100\r\n\r\nshort")


def two_lengths(peer):
    peer.request()
    peer.send(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab")


def slow(peer):
    peer.request()
    peer.drip(HEAD * 10, 0.2)


def redirecting(peer):
    peer.request()
    peer.send(b"HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/latest/meta-data/\r\nContent-Length: 0\r\n\r\n")


def bomb(peer):
    peer.request()
    body = gzip.compress(b"0" * 64 * 1024 * 1024)
    peer.send(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize(
    ("talk", "code", "passing"),
    [
        (endless, "EXECUTION_FAILED", False),
        (too_short, "ENDPOINT_UNREACHABLE", True),
        (two_lengths, "EXECUTION_FAILED", False),
        (slow, "INVOCATION_TIMEOUT", True),
        (redirecting, "EXECUTION_FAILED", False),
        (bomb, "EXECUTION_FAILED", False),
    ],
)
async def test_a_hostile_api_costs_little_and_is_told_apart(tls, talk, code, passing):
    with hostile(tls, talk) as (server, url):
        failure = (await call(url, seconds=2.0 if talk is slow else 40.0)).failure
        assert server.connections == 1
    assert (failure.code, failure.is_passing) == (code, passing)


async def test_a_call_that_is_cancelled_lets_go_of_its_connection(tls):
    asked, ended = threading.Event(), threading.Event()

    def wait_for_end(peer):
        peer.request()
        asked.set()
        with contextlib.suppress(OSError):
            peer.request()
        ended.set()

    with hostile(tls, wait_for_end) as (_, url):
        task = asyncio.create_task(call(url))
        assert await asyncio.to_thread(asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, PATIENCE)


def test_what_an_answer_may_hold_is_bounded():
    assert limits.UPSTREAM_BYTES <= 16 * limits.MIB
