"""However the bytes of requests are cut into chunks, they are answered as when each comes alone."""

import asyncio
import re

import pytest
from tests.support.connections import Connections
from tests.support.eventually import eventually_async
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.server import create_app

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
    begun = INDEX + b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Note: "
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
