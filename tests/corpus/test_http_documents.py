"""Hostile URLs, redirects and servers: each comes out as its expectation says, over both drivers."""

import gzip
import json
import socket
import ssl
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from tests.support.raw_server import Peer, RawServer, answer, serving

from skillwire.errors import FetchError, SkillwireError, TrustError, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import fetch_artifact, fetch_index
from skillwire.protocols.agent_skills.messages import IndexEntry
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpRequest, HttpResponse, follow
from skillwire.wire.fetch import fetch

DOCUMENTS = Path(__file__).parent / "documents"
ADDRESS = {"ADDRESS_REFUSED", "PLAIN_HTTP_REFUSED", "PORT_REFUSED"}


def cases(kind):
    return pytest.mark.parametrize(
        "case", json.loads((DOCUMENTS / f"{kind}.json").read_text()), ids=lambda case: ascii(case["id"])[1:40]
    )


def code(call, *arguments):
    with pytest.raises(SkillwireError) as caught:
        call(*arguments)
    assert isinstance(caught.value, (FetchError, TrustError, ValidationError))
    return caught.value.code


# --- URLs ------------------------------------------------------------------------------------------------


@pytest.fixture
def outside(monkeypatch):
    """Record each name that is looked up and each address that is connected to, and let nothing through."""
    reached: list[object] = []

    def refuse(*arguments, **_):
        reached.append(arguments)
        raise OSError("the test lets nothing out")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return reached


@cases("fetch-url")
def test_a_hostile_url_reaches_nobody(case, drive, outside):
    assert case["expect"] == "reject"
    assert code(drive.run, fetch(HttpRequest(case["data"]))) in ADDRESS | {"URL"}
    assert outside == []


@cases("fetch-url")
def test_a_hostile_url_reaches_nobody_through_a_redirect(case, outside):
    """The flow hands the target to the driver, whose first act is to ask the policy."""
    policy = AddressPolicy().naming(parse_url("https://a.example/"))
    exchange: Any = fetch(HttpRequest("https://a.example/"))
    next(exchange)

    def redirected():
        request = exchange.send(HttpResponse("https://a.example/", 302, {"location": case["data"]}, b""))
        policy.check_url(parse_url(request.url))

    assert code(redirected) in ADDRESS | {"REDIRECT_REFUSED"}
    assert outside == []


def test_the_recorder_would_have_noticed(drive, outside):
    assert code(drive.run, fetch(HttpRequest("https://example.com/"))) == "HOST_NOT_FOUND"
    drive.naming("http://127.0.0.1/")
    assert code(drive.run, fetch(HttpRequest("http://127.0.0.1/"))) == "CONNECT_FAILED"
    assert len(outside) == 2


# --- redirects -------------------------------------------------------------------------------------------


@cases("redirect")
def test_a_hostile_redirect_is_not_followed_or_gets_no_credential(case):
    first, *targets = case["data"]
    policy = AddressPolicy().naming(parse_url(first))
    secret = {"Authorization": "Bearer secret", "Cookie": "secret"} if "credentials" in case["id"] else {}
    asked: list[HttpRequest] = []

    def checked(exchange):
        """Do what a driver does before it looks up a name."""
        request = next(exchange)
        while True:
            policy.check_url(parse_url(request.url))
            asked.append(request)
            response = yield request
            try:
                request = exchange.send(response)
            except StopIteration:
                return

    answers = [HttpResponse(first, 302, {"location": target}, b"") for target in targets]
    refused = ADDRESS | {"REDIRECT_REFUSED", "REDIRECT_LIMIT"}
    flow = checked(fetch(HttpRequest(first, headers=secret)))
    if case["expect"] == "accept":
        follow(flow, [*answers, HttpResponse(targets[-1], 200, {}, b"")])
        assert [(request.url, dict(request.headers)) for request in asked] == [(first, secret), (targets[-1], {})]
        return
    assert code(follow, flow, answers) in refused
    assert all(parse_url(request.url).origin == "https://a.example" for request in asked)
    assert len(asked) <= 6


# --- servers ---------------------------------------------------------------------------------------------

OK = b"HTTP/1.1 200 OK\r\n"
SOON = 0.4  # seconds; what a slow server gets in these tests
ZIP = b"PK\x05\x06" + bytes(18)
BOMB = gzip.compress(bytes(64 * 1024 * 1024))


class Behaviour(NamedTuple):
    """How a server misbehaves, what is asked of it, and what must come of it.

    ``code`` is None for what must be accepted.
    """

    talk: Callable[[Peer], object] | None
    code: str | None
    ask: Callable[[str], Any] = lambda url: fetch(HttpRequest(url))


def saying(data):
    """Answer one request with ``data`` and end the connection."""

    def talk(peer):
        peer.request()
        peer.send(data)

    return talk


def dripping(peer):
    peer.request()
    peer.send(OK + b"Content-Length: 1000\r\n\r\n")
    peer.drip(b"x" * 1000, 0.05)


def resetting(data):
    def talk(peer):
        peer.request()
        peer.send(data)
        peer.reset()

    return talk


def soon(url):
    return fetch(HttpRequest(url, timeout=SOON))


def artifact(content):
    """Return how to ask for an artifact whose digest the index gave as that of ``content``."""
    return lambda url: fetch_artifact(IndexEntry("a", "A.", "archive", url, Digest.of(content)))


BEHAVIOURS = {
    "body-drip": Behaviour(dripping, "TIMEOUT", soon),
    "content-length-lies-long": Behaviour(saying(OK + b"Content-Length: 100\r\n\r\nbody"), "CONNECTION_LOST"),
    "content-length-lies-short": Behaviour(saying(OK + b"Content-Length: 2\r\n\r\nbody"), "HTTP_SYNTAX"),
    "two-content-lengths": Behaviour(saying(OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody"), "HTTP_SYNTAX"),
    "chunked-and-length": Behaviour(
        saying(OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"), "HTTP_SYNTAX"
    ),
    "gzip-bomb": Behaviour(saying(answer(BOMB, "Content-Encoding: gzip")), "BODY_TOO_LARGE"),
    "gzip-twice": Behaviour(
        saying(answer(gzip.compress(gzip.compress(b"body")), "Content-Encoding: gzip, gzip")), "CONTENT_ENCODING"
    ),
    "header-8m": Behaviour(saying(OK + b"A: " + bytes(8 * 1024 * 1024)), "HTTP_SYNTAX"),
    "5000-headers": Behaviour(saying(OK + b"A: b\r\n" * 5000 + b"\r\n"), "HTTP_SYNTAX"),
    "304-without-validator": Behaviour(saying(answer(status="304 Not Modified")), "ANSWER_UNASKED", fetch_index),
    "206-unasked": Behaviour(saying(answer(b"part", status="206 Partial Content")), "ANSWER_UNASKED", fetch_index),
    "redirect-304-loop": Behaviour(
        serving(answer(b"", "Location: /b", status="302 Found"), answer(b"", "Location: /", status="304 Not Modified")),
        "ANSWER_UNASKED",
        fetch_index,
    ),
    "html-200-for-json": Behaviour(
        saying(answer(b"<!doctype html>", "Content-Type: text/html; charset=utf-8")), "CONTENT_TYPE", fetch_index
    ),
    "json-as-octet-stream": Behaviour(
        saying(answer(b"{}", "Content-Type: application/octet-stream")), None, fetch_index
    ),
    "zip-as-gzip": Behaviour(saying(answer(ZIP, "Content-Type: application/gzip")), "CONTENT_TYPE", artifact(ZIP)),
    "digest-mismatch": Behaviour(saying(answer(b"other")), "DIGEST_MISMATCH", artifact(b"promised")),
    "connection-reset-mid-body": Behaviour(resetting(OK + b"Content-Length: 100\r\n\r\nbody"), "CONNECTION_LOST"),
    "reset-after-headers": Behaviour(resetting(OK + b"Content-Length: 100\r\n\r\n"), "CONNECTION_LOST"),
    "close-without-answer": Behaviour(saying(b""), "CONNECTION_LOST"),
    "slow-accept": Behaviour(None, "TIMEOUT", soon),
    "100-continue-storm": Behaviour(saying(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + answer(b"x")), "HTTP_SYNTAX"),
    "early-hints-storm": Behaviour(
        saying(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 1000 + answer(b"x")), "HTTP_SYNTAX"
    ),
    "http-0-9": Behaviour(saying(b"<html>body</html>"), "HTTP_SYNTAX"),
}

#: What a server asks of us beside answering; that we do not do it is seen on the server's side.
TEMPTATIONS = {
    "set-cookie-kept": answer(b"x", "Set-Cookie: id=1; Path=/"),
    "www-authenticate-basic": answer(b"x", 'WWW-Authenticate: Basic realm="x"', status="401 Unauthorized"),
    "refresh-header": answer(b"x", "Refresh: 0; url=/other"),
    "link-preload": answer(b"x", "Link: </other>; rel=preload"),
}
TLS = {"tls-self-signed", "tls-1-0"}
CHANGES = "digest-changes-between-fetches"
HTTP_CASES = {case["id"]: case for case in json.loads((DOCUMENTS / "http-behaviour.json").read_text())}


def test_every_behaviour_is_tried():
    assert {*BEHAVIOURS, *TEMPTATIONS, *TLS, CHANGES} == set(HTTP_CASES)
    assert {name for name, behaviour in BEHAVIOURS.items() if behaviour.code is None} == {
        name for name, case in HTTP_CASES.items() if case["expect"] == "accept"
    }


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_a_server_that_misbehaves(name, drive):
    behaviour = BEHAVIOURS[name]
    with RawServer(behaviour.talk) as server:
        drive.naming(server.url())
        if behaviour.code is None:
            drive.run(behaviour.ask(server.url()))
        else:
            assert code(drive.run, behaviour.ask(server.url())) == behaviour.code


@pytest.mark.parametrize("name", TEMPTATIONS)
def test_a_server_that_asks_for_more(name, drive):
    with RawServer(serving(TEMPTATIONS[name])) as server:
        for path in ("/one", "/two"):
            drive.get(server.url(path))
        requests = [request.lower() for request in server.requests]
    assert [request.split()[1] for request in requests] == [b"/one", b"/two"]
    assert not any(b"\r\ncookie:" in request or b"\r\nauthorization:" in request for request in requests)


def test_a_digest_that_changes_between_fetches(drive):
    with RawServer(serving(answer(b"promised"), answer(b"other"))) as server:
        drive.naming(server.url())
        assert drive.run(artifact(b"promised")(server.url())) == b"promised"
        assert code(drive.run, artifact(b"promised")(server.url())) == "DIGEST_MISMATCH"


# --- TLS -------------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path, monkeypatch):
    """Trust one certificate authority and no other."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return ca


def server_context(authority, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def old_context(authority):
    context = server_context(authority, "localhost")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that TLS 1.0 is old is the point
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def test_https(drive, authority):
    with RawServer(serving(answer(b"x")), tls=server_context(authority, "localhost", "127.0.0.1")) as server:
        assert drive.get(server.url(host="localhost")).body == b"x"
        assert drive.get(server.url(host="localhost")).body == b"x"
        assert drive.get(server.url(host="127.0.0.1")).body == b"x"
        assert server.connections == 2


TLS_SERVERS = {
    "tls-self-signed": lambda authority: server_context(trustme.CA(), "localhost"),  # noqa: ARG005 - another authority
    "tls-1-0": old_context,
    "another name": lambda authority: server_context(authority, "a.example"),
    "another address": lambda authority: server_context(authority, "127.0.0.2"),
}


@pytest.mark.parametrize("name", TLS_SERVERS)
def test_a_secure_connection_that_is_none(name, drive, authority):
    with RawServer(serving(answer(b"x")), tls=TLS_SERVERS[name](authority)) as server:
        assert code(drive.get, server.url(host="localhost")) == "TLS_FAILED"
        assert server.requests == []


@pytest.mark.parametrize("orderly", [True, False])
def test_a_tls_stream_that_is_cut_is_not_a_whole_answer(orderly, drive, authority):
    def talk(peer):
        peer.request()
        peer.send(OK + b"\r\npart")
        if orderly:
            peer.end_tls()
        else:
            peer.cut()

    with RawServer(talk, tls=server_context(authority, "localhost")) as server:
        if orderly:
            assert drive.get(server.url(host="localhost")).body == b"part"
        else:
            assert code(drive.get, server.url(host="localhost")) == "CONNECTION_LOST"
