"""Answers at once on the wire: the same as the application's, and at home in the life of a connection."""

import asyncio
import contextlib
import json
import re
import socket
import threading
from collections import Counter

import pytest
import uvicorn
from tests.support.eventually import PATIENCE
from tests.support.publishing import ServeProcess, write_skill

from skillwire.server import create_app
from skillwire.server.fastpath import Connection
from skillwire.server.run import listen

INDEX = "/.well-known/agent-skills/index.json"
AT_ONCE = f"GET {INDEX} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
LAST = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def skills(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skills")
    for number in range(12):
        write_skill(folder, f"notes-{number}", description="Writes notes. " * 20)
    return folder


@pytest.fixture(scope="module")
def server(skills, tmp_path_factory):
    with ServeProcess(skills, home=tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def connection(server):
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        yield connection


def _rest(connection):
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def _exchange(port, *fields, method="GET", url=INDEX, version="1.1"):
    """Ask once; return the status line, the header lines in order, and the body."""
    request = "\r\n".join([f"{method} {url} HTTP/{version}", "Host: localhost", *fields, "", ""]).encode()
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(request + LAST)  # the end of the connection is asked for behind it
        answer = _rest(connection)
    answer = answer[: answer.rindex(b"HTTP/1.1 404 ")] if b'"NOT_FOUND"' in answer else answer
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = re.sub(rb"date: [^\r]+ GMT", b"date: now", head).split(b"\r\n")
    return status, sorted(lines), body


#: The application's own way of answering; without it only what is answered at once is answered well.
WITHOUT_THE_APPLICATION = """
from skillwire.server.responses import CachedResponse
async def respond(*_): raise RuntimeError("went through the application")
CachedResponse.__call__ = respond
"""


@pytest.fixture(scope="module")
def at_once(skills, tmp_path_factory):
    """Give the port of a server whose application cannot answer with what is prepared."""
    with ServeProcess(skills, home=tmp_path_factory.mktemp("bare"), patch=WITHOUT_THE_APPLICATION) as server:
        yield server.port


USUAL = [
    ("GET", []),
    ("GET", ["Accept-Encoding: gzip"]),
    ("GET", ["Accept-Encoding: gzip, deflate, br"]),
    ("GET", ["If-None-Match: *"]),
    ("GET", ['If-None-Match: "another"', "Accept-Encoding: br"]),
    ("HEAD", []),
    ("HEAD", ["Accept-Encoding: br"]),
    ("HEAD", ["If-None-Match: *"]),
]


def test_the_usual_request_is_answered_at_once_and_as_the_application_answers(server, at_once):
    tag = server.get(INDEX, {"Accept-Encoding": "gzip"}).fields["etag"]
    # Content-Length: 0 changes nothing about a request but the way that it takes.
    for method, fields in [*USUAL, ("GET", [f"If-None-Match: {tag}"])]:
        answer = _exchange(at_once, *fields, method=method)
        assert answer == _exchange(server.port, *fields, "Content-Length: 0", method=method), (method, fields)
        assert answer[0] in {b"HTTP/1.1 200 OK", b"HTTP/1.1 304 Not Modified"}
        assert b"date: now" in answer[1]
        assert bool(answer[2]) == (method == "GET" and answer[0].endswith(b"OK"))


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        (["Content-Length: 0"], "1.1"),
        (["Connection: close"], "1.1"),
        (["X-Forwarded-For: 192.0.2.9"], "1.1"),
        (["Expect: 100-continue"], "1.1"),
        (["Authorization: Bearer x"], "1.1"),
        (["X-API-Key: x"], "1.1"),
        (["X-Signature: x"], "1.1"),
        ([], "1.0"),
        (["Connection: keep-alive"], "1.0"),
    ],
)
def test_what_is_unusual_goes_to_the_application(at_once, fields, version):
    status, *_ = _exchange(at_once, *fields, version=version)
    assert status in {b"HTTP/1.1 500 Internal Server Error", b"HTTP/1.1 401 Unauthorized", b""}


def test_other_methods_and_urls_go_to_the_application(server):
    for method, url, status in (
        ("POST", INDEX, 405),
        ("OPTIONS", INDEX, 204),
        ("GET", INDEX + "?a=b", 200),
        ("GET", f"http://x{INDEX}", 200),
        ("GET", INDEX.replace("index", "%69ndex"), 200),
        ("DELETE", INDEX, 405),
    ):
        assert _exchange(server.port, method=method, url=url)[0].split()[1] == str(status).encode(), (method, url)


def test_head_and_body_of_an_index_come_in_one_write(connection):
    for _ in range(3):
        connection.sendall(AT_ONCE)
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
        assert f"content-length: {len(body)}\r\n".encode() in head.lower() + b"\r\n"
        assert body


def test_pipelined_requests_of_both_ways_are_answered_in_order(connection):
    ordinary = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connection.sendall(AT_ONCE + ordinary + AT_ONCE + AT_ONCE + ordinary + AT_ONCE + LAST)
    order = re.findall(rb"\$schema|alive|NOT_FOUND", _rest(connection))
    assert order == [b"$schema", b"alive", b"$schema", b"$schema", b"alive", b"$schema", b"NOT_FOUND"]


def test_a_client_that_asks_on_without_reading_gets_all_answers_in_order(skills, tmp_path):
    number = 3_000
    with (
        ServeProcess(skills, "--no-access-log", home=tmp_path / "home") as server,
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection,
    ):
        sender = threading.Thread(target=lambda: connection.sendall(AT_ONCE * number + LAST))
        sender.start()
        received = _rest(connection)
        sender.join()
    assert received.count(b"HTTP/1.1 200 OK") == number
    assert received.endswith(b"}")
    assert received.rindex(b"HTTP/1.1 404") > received.rindex(b"HTTP/1.1 200")


def test_a_request_in_pieces_is_answered_once_it_is_whole(connection):
    connection.sendall(AT_ONCE[:-1])
    connection.settimeout(0.05)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(PATIENCE)
    connection.sendall(AT_ONCE[-1:])
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_connection_that_is_idle_after_an_answer_at_once_is_closed(skills, tmp_path):
    patch = "import skillwire.limits as limits; limits.SERVER_IDLE_SECONDS = 2; limits.SERVER_REQUEST_SECONDS = 4"
    with (
        ServeProcess(skills, home=tmp_path / "home", patch=patch) as server,
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection,
    ):
        for _ in range(3):
            connection.sendall(AT_ONCE)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        assert _rest(connection) == b""  # an end, and no complaint before it


def test_a_full_server_refuses_what_it_could_answer_at_once(skills, tmp_path):
    patch = "from skillwire import limits; limits.SERVER_CONNECTIONS = 40"
    patch += "; from skillwire.server import fastpath; fastpath._REFUSED_SECONDS = 60"
    with ServeProcess(skills, home=tmp_path / "home", patch=patch) as server, contextlib.ExitStack() as stack:
        for _ in range(10):  # the share of one address
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
        assert _exchange(server.port)[0] == b"HTTP/1.1 503 Service Unavailable"


def test_told_to_end_it_waits_for_no_idle_connection(skills, tmp_path):
    long = "; ".join(f"limits.SERVER_{what}_SECONDS = 600" for what in ("IDLE", "REQUEST", "SHUTDOWN"))
    with (
        ServeProcess(skills, home=tmp_path / "home", patch=f"import skillwire.limits as limits; {long}") as server,
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection,
    ):
        connection.sendall(AT_ONCE)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        assert server.end()[0] == 0
        assert connection.recv(1) == b""


def test_both_ways_are_counted_and_logged_alike(skills, tmp_path):
    with ServeProcess(skills, "--log-format", "json", home=tmp_path / "home") as server:
        counts = []
        for extra in ([], ["Content-Length: 0"]):
            before = _counts(server)
            _exchange(server.port, *extra)
            _exchange(server.port, *extra, method="HEAD")
            _exchange(server.port, *extra, "If-None-Match: *")
            counts.append(_counts(server) - before)
        _, errors = server.end()
    assert counts[0] == counts[1]
    assert counts[0]['skillwire_requests_total{route="index",status="200"}'] == 2
    assert counts[0]['skillwire_requests_total{route="index",status="304"}'] == 1
    events = [json.loads(line) for line in errors.splitlines()]
    requests = [
        {name: event[name] for name in ("method", "path", "status", "bytes", "client", "level")}
        for event in events
        if event["event"] == "request" and event["path"] == INDEX
    ]
    assert len(requests) == 6
    assert requests[:3] == requests[3:]


def _counts(server):
    lines = server.get("/metrics").body.decode().splitlines()
    wanted = [line.rpartition(" ") for line in lines if 'route="index"' in line and "_seconds_" not in line]
    return Counter({name: int(float(value)) for name, _, value in wanted})


@pytest.mark.parametrize(("proxies", "expected"), [([], "127.0.0.1"), (["127.0.0.0/8"], "192.0.2.9")])
def test_a_client_is_the_one_that_a_trusted_proxy_names(skills, tmp_path, proxies, expected):
    config = tmp_path / "server.toml"
    config.write_text(f"[http]\ntrusted_proxies = {proxies}\n")
    with ServeProcess(skills, "--log-format", "json", "--config", config, home=tmp_path / "home") as server:
        _exchange(server.port, "X-Forwarded-For: 192.0.2.9")
        _, errors = server.end()
    [client] = [event["client"] for event in map(json.loads, errors.splitlines()) if event.get("path") == INDEX]
    assert client == expected


async def test_the_library_counts_what_is_answered_at_once(skills, tmp_path):
    application = create_app([skills], blobs=tmp_path / "blobs", access_log=False)
    await application.startup()
    await application.catalog.first(PATIENCE)
    config = uvicorn.Config(application, http=Connection, lifespan="off", limit_max_requests=2, log_config=None)
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(AT_ONCE * 2)
        async with asyncio.timeout(PATIENCE):
            assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 2
            await serving  # the second one was the last
        writer.close()
    finally:
        server.should_exit = True
        await serving
        await application.shutdown()


def _ask_again(connection, request=AT_ONCE, times=3):
    """Send the same bytes again and again, each when the last answer is whole; return the answers without dates."""
    answers = []
    for _ in range(times):
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            answer += connection.recv(65536)
        answers.append(re.sub(rb"date: [^\r]+ GMT", b"date: now", answer))
    return answers


def test_the_same_request_again_is_answered_alike_and_counted_each_time(server, connection):
    before = _counts(server)
    first, *more = _ask_again(connection)
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"date: now" in first
    assert more == [first, first]
    assert (_counts(server) - before)['skillwire_requests_total{route="index",status="200"}'] == 3


def test_what_was_answered_is_forgotten_with_its_revision(tmp_path):
    folder = write_skill(tmp_path / "skills", "one").parent
    with (
        ServeProcess(folder, home=tmp_path / "home") as server,
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection,
    ):
        assert len(set(_ask_again(connection))) == 1
        write_skill(folder, "another")
        server.wait_for(lambda document: document["skills"] == 2)
        [after] = set(_ask_again(connection))
        assert b'"another"' in after


def test_a_request_that_came_with_more_is_not_remembered_for_what_came(connection):
    both = AT_ONCE + AT_ONCE.replace(b"GET", b"HEAD")
    for _ in range(3):
        connection.sendall(both)
        answer = b""
        while answer.count(b"HTTP/1.1 200 OK") < 2 or not answer.endswith(b"\r\n\r\n"):
            answer += connection.recv(65536)
        assert answer.count(b"HTTP/1.1 200 OK") == 2
