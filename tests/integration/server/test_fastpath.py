"""However the bytes of requests are cut into chunks, they are answered as when each comes alone."""

import asyncio
import json
import re
import resource
from unittest.mock import Mock

import pytest
import structlog
from tests.support.connections import Connections
from tests.support.eventually import eventually_async
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.server import create_app
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.quotas import RateLimit
from skillwire.server.run import fit_connections, is_local

INDEX = b"GET /.well-known/agent-skills/index.json HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"
HEAD = INDEX.replace(b"GET", b"HEAD")
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Note: a\r\n\r\n"


@pytest.fixture
async def application(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs", access_log=False)
    await application.startup()
    await application.catalog.first(20)
    yield application
    await application.shutdown()


@pytest.fixture
def connect(application):
    connections = Connections(application)
    yield connections
    connections.close()


async def answers(connect, chunks, expected):
    """Return what is written when ``chunks`` come one by one, each after the answers to what came before."""
    connection, transport = connect()
    for chunk in chunks:
        connection.data_received(chunk)
        for _ in range(50):
            await asyncio.sleep(0)
    await eventually_async(
        lambda: not (len(re.findall(b"HTTP/1.1 ", transport.written)) < expected or not connection._is_free())
    )
    return transport.written


def kinds(written):
    """Return the statuses in order, with the kind of body; whoever guesses so often is soon told to wait."""
    parts = re.split(rb"HTTP/1\.1 ", written.replace(b"HTTP/1.1 429", b"HTTP/1.1 401"))[1:]
    return [(part[:3], b"json" if b'{"status":"alive"}' in part else b"") for part in parts]


async def test_remembered_bytes_inside_of_another_request_are_part_of_it(connect):
    """A chunk that is a whole known request, but lies in a field of another one, is no request."""
    await answers(connect, [INDEX, INDEX], 2)
    begun = INDEX + b"GET /healthz HTTP/1.1\r\nX-Note: "
    written = await answers(connect, [begun, INDEX], 2)
    assert kinds(written) == [(b"200", b""), (b"200", b"json")]
    written = await answers(connect, [begun, INDEX, HEALTH], 3)
    assert kinds(written) == [(b"200", b""), (b"200", b"json"), (b"200", b"json")]


@pytest.mark.parametrize("before", [b"", INDEX, INDEX + HEALTH])
async def test_head_of_many_small_chunks_is_bounded_whatever_came_before_it(connect, before):
    connection, transport = connect()
    piece = b"X-Filler: " + b"a" * 1_000 + b"\r\n"
    connection.data_received(before + b"GET /nothing HTTP/1.1\r\nHost: x\r\n")
    sent = 0
    while not transport.closed and sent < 4 * limits.SERVER_HEAD_BYTES:
        connection.data_received(piece)
        sent += len(piece)
        await asyncio.sleep(0)
    assert transport.closed
    assert sent <= limits.SERVER_HEAD_BYTES + 2 * len(piece)


async def test_known_requests_make_room_for_newer_ones(connect, monkeypatch):
    monkeypatch.setattr(limits, "SERVER_REMEMBERED_HEADS", 3)
    for number in range(6):
        request = INDEX.replace(b"Host: x", b"Host: x%d" % number)
        assert kinds(await answers(connect, [request, request], 2)) == [(b"200", b""), (b"200", b"")]
    assert kinds(await answers(connect, [INDEX, INDEX], 2)) == [(b"200", b""), (b"200", b"")]


async def test_a_large_body_has_time_to_arrive_and_one_that_trickles_has_not(connect):
    head = b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n"
    for came, is_waited_for in ((b" " * 2_000_000, True), (b" ", False)):
        connection, transport = connect()
        connection.data_received(head)
        connection.data_received(came)
        connection._began -= limits.SERVER_REQUEST_SECONDS + 10
        connection._look()
        assert transport.is_closing() != is_waited_for


LOCKED = INDEX.replace(b"Host: x", b"Host: x\r\nX-API-Key: wrong")
POSTED = b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(INDEX), INDEX)
PAIRS = {
    "two indexes": (INDEX, INDEX, [(b"200", b""), (b"200", b"")]),
    "index, then something else": (INDEX, HEALTH, [(b"200", b""), (b"200", b"json")]),
    "something else, then index": (HEALTH, INDEX, [(b"200", b"json"), (b"200", b"")]),
    "index, then one of someone": (INDEX, LOCKED, [(b"200", b""), (b"401", b"")]),
    "one with a body that looks like the index": (POSTED, HEAD, [(b"405", b""), (b"200", b"")]),
}


@pytest.mark.parametrize("name", PAIRS)
async def test_two_requests_cut_anywhere(connect, name):
    first, second, expected = PAIRS[name]
    await answers(connect, [INDEX, INDEX, HEAD, HEAD], 4)  # so that these are remembered
    both = first + second
    for cut in range(1, len(both)):
        written = await answers(connect, [both[:cut], both[cut:]], 2)
        assert kinds(written) == expected, cut


async def test_credentials_before_a_remembered_head_still_count(connect):
    await answers(connect, [INDEX, INDEX], 2)
    begun = HEALTH + b"GET /healthz HTTP/1.1\r\nX-API-Key: wrong\r\nX-Note: "
    written = await answers(connect, [begun, INDEX], 2)
    assert [status for status, _ in kinds(written)] == [b"200", b"401"]


REFUSED = {
    "no Host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "two": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
    "two of the index": (INDEX.replace(b"Host: x", b"Host: x\r\nHost: y"), 400),
    "two in an old version": (b"GET /healthz HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "none, with a body": (b"POST /rpc HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400),
    "a newer version": (b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    "no HTTP": (b"\x16\x03\x01\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_http_forbids_is_refused_in_our_form_and_logged_with_its_address(application, name):
    application.log._is_on = True
    request, status = REFUSED[name]
    with structlog.testing.capture_logs() as log:
        connections = Connections(application)
        connection, transport = connections()
        connection.data_received(request + HEALTH)
        connection.data_received(HEALTH)
        for _ in range(5):
            await asyncio.sleep(0)
        connections.close()
    head, _, body = transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(body)["error"]["code"] == "REQUEST_SYNTAX"
    assert transport.closed
    seen = [(line["status"], line["client"]) for line in log if line["event"] == "request"]
    assert seen == [(status, "192.0.2.7")]


async def test_an_old_request_needs_no_host(connect):
    assert kinds(await answers(connect, [b"GET /healthz HTTP/1.0\r\n\r\n"], 1)) == [(b"200", b"json")]


async def test_one_address_leaves_connections_to_others_and_files_to_the_server(application):
    connections = Connections(application, limit_concurrency=17)

    def open_from(address, number):
        opened = [connections(address) for _ in range(number)]
        return [(connection, transport) for connection, transport in opened if connection._counted is not None]

    with structlog.testing.capture_logs() as log:
        accepted = open_from("192.0.2.7", 20)
        assert len(accepted) == 4
        assert len(open_from("2001:db8::1", 3) + open_from("2001:db8::2", 3)) == 4
        assert sum(len(open_from(f"198.51.100.{number}", 1)) for number in range(20)) == 8
    refused_for = [line["client"] for line in log if line["event"] == "connections are refused"]
    assert refused_for[:16] == ["192.0.2.7"] * 16
    connection, transport = accepted[0]
    connection.data_received(HEALTH)
    await eventually_async(lambda: transport.written)
    assert transport.written.startswith(b"HTTP/1.1 200 "), "refused connections take none from the accepted ones"
    connections.close()
    assert (application.state.fast_path._connections, application.state.fast_path.refused) == (0, 0)
    for _ in range(4):
        connections("192.0.2.7")
    refused = [connections("192.0.2.7") for _ in range(5)]
    assert [transport.closed for _, transport in refused] == [False] * 4 + [True]  # no files for many of them
    connection, transport = refused[0]
    connection.data_received(INDEX)
    assert transport.closed
    assert transport.written.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in transport.written
    connections.close()


async def test_proxies_that_name_their_clients_have_no_share(tmp_path):
    configuration = ServerConfiguration(trusted_proxies=("192.0.2.0/24",))
    connections = Connections(create_app([tmp_path], configuration=configuration), limit_concurrency=17)
    assert not any(connections("192.0.2.7")[1].closed for _ in range(16))
    connections.close()


@pytest.mark.parametrize(
    ("address", "statuses"), [("192.0.2.7", [b"200"] * 3 + [b"429"] * 2), ("127.0.0.1", [b"200"] * 5)]
)
async def test_a_registry_limits_an_address_by_default_also_for_known_requests(
    tmp_path, monkeypatch, address, statuses
):
    monkeypatch.setattr("skillwire.server.auth.authentication._REGISTRY", RateLimit(1, 3))
    write_skill(tmp_path / "skills", "notes")
    application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs", access_log=False, registry=True)
    await application.startup()
    await application.catalog.first(20)
    connections = Connections(application)
    try:
        connection, transport = connections(address)
        for _ in statuses:
            connection.data_received(INDEX)
            await eventually_async(connection._is_free)
        parts = transport.written.split(b"HTTP/1.1 ")[1:]
        assert [part[:3] for part in parts] == statuses
        assert [b"ratelimit-remaining: " in part.lower() for part in parts] == [address != "127.0.0.1"] * len(parts)
    finally:
        connections.close()
        await application.shutdown()


LOCAL = INDEX.replace(b"Host: x", b"Host: localhost:8000")
PAGE = b"Host: localhost:8000\r\nOrigin: "
OPENED = {
    "another name": (INDEX, 421, None),
    "another name, again": (INDEX.replace(b"index", b"absent"), 421, None),
    "ours": (LOCAL, 200, None),
    "ours, without the fast path": (LOCAL.replace(b"/1.1", b"/1.0"), 200, None),
    "an address": (LOCAL.replace(b"localhost", b"[::1]"), 200, None),
    "a page of another site": (LOCAL.replace(b"Host: localhost:8000", PAGE + b"http://evil.example"), 200, None),
    "a page of this machine": (
        LOCAL.replace(b"Host: localhost:8000", PAGE + b"http://localhost:3000"),
        200,
        b"http://localhost:3000",
    ),
}


@pytest.mark.parametrize("name", OPENED)
async def test_a_server_for_this_machine_answers_to_its_own_name_and_opens_to_its_own_pages(application, name):
    application.services.is_local = True
    request, status, opened_to = OPENED[name]
    connections = Connections(application)
    for _ in range(2):
        written = await answers(connections, [request, request][: 2 if b"/1.1" in request else 1], 1)
        assert written.startswith(b"HTTP/1.1 %d " % status)
        found = set(re.findall(rb"(?i)access-control-allow-origin: (.*)\r", written))
        assert found == ({opened_to} if opened_to else set())
    connections.close()


@pytest.mark.parametrize(
    ("hosts", "base_url", "proxies", "expected"),
    [
        (["127.0.0.1"], None, (), True),
        (["::1", "127.0.0.1"], "http://localhost:8000", (), True),
        (["0.0.0.0"], None, (), False),  # noqa: S104  # what is asked
        (["192.0.2.1"], None, (), False),
        (["127.0.0.1"], "https://skills.example.com/team", (), False),
        (["127.0.0.1"], None, ("127.0.0.1/32",), False),
    ],
)
def test_a_server_is_local_unless_something_publishes_it(tmp_path, hosts, base_url, proxies, expected):
    application = create_app([tmp_path], base_url=base_url, configuration=ServerConfiguration(trusted_proxies=proxies))
    listeners = [Mock(getsockname=lambda host=host: (host, 8000)) for host in hosts]
    assert is_local(application.services, listeners) is expected


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "connections"),
    [
        (1024, 524_288, 4000, 2000),
        (1024, 1024, None, 512),
        (128, 256, 256, 128),
        (65_536, 65_536, None, 2000),
        (1024, resource.RLIM_INFINITY, 4000, 2000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, 2000),
    ],
)
def test_connections_fit_into_the_files_that_may_be_open(monkeypatch, soft, hard, raised, connections):
    changed = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: changed.append(new))
    assert fit_connections() == connections
    assert changed == ([(raised, hard)] if raised else [])


async def test_a_long_path_is_cut_in_the_log(connect, application):
    application.log._is_on = True
    with structlog.testing.capture_logs() as log:
        await answers(connect, [b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 20_000)], 1)
    assert [(line["status"], line["path"]) for line in log if line["event"] == "request"] == [
        (414, f"/{'a' * 255}... (20001 characters)")
    ]
