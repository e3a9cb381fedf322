"""A call whose head is known is answered as the application would answer it, and nothing else is taken for one."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.support.connections import Connections
from tests.support.invoking import write_action

from skillwire import limits
from skillwire.adapters.sqlite.open import open_grants, open_ledger, open_tokens
from skillwire.errors import StorageError
from skillwire.executions.accept import ExecutionSettings
from skillwire.model.execution import ExecutionQuery
from skillwire.server import app
from skillwire.server.application import Application
from skillwire.server.auth.rate_limit import RateLimit
from skillwire.server.configuration import ServerConfiguration

INPUTS = """
[inputs.text]
type = "string"
description = "What is summed up."
required = true
[inputs.words]
type = "array"
description = "What it is about."
default = ["a", "b"]
"""
CALL: dict[str, Any] = {
    "caller": {"id": "ann", "type": "user"},
    "skill_id": "acme/sum-up",
    "inputs": {"text": "skills"},
}
PATH = "/skills/sum-up/executions"
#: All bodies have as many bytes, so that a head stays known whatever the body says.
LENGTH = 400
INDEX = b"GET /.well-known/agent-skills/index.json HTTP/1.1\r\nHost: x\r\n\r\n"
ALL = ExecutionQuery(limit=1_000)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def written(document):
    """Return a body."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return text.ljust(LENGTH)


def call(document=None, *fields, path=PATH, method="POST", version="1.1"):
    """Return a request."""
    body = written(CALL if document is None else document)
    own = [f"{method} {path} HTTP/{version}", "Host: skills.example.com", "Content-Type: application/json"]
    head = "\r\n".join([*own, f"Content-Length: {len(body)}", *fields, "", ""])
    return head.encode() + body


class Site:
    """A server without sockets, and which way its requests took."""

    def __init__(self, folder, monkeypatch, settings, **options):
        executions = ExecutionSettings(concurrency=0, **settings)
        configuration = ServerConfiguration(executions=executions, **options.pop("configuration", {}))
        self.application = app(
            [folder / "skills"],
            blobs=folder / "blobs",
            publisher="acme",
            configuration=configuration,
            access_log=False,
            **options,
        )
        self.ways: Counter[str] = Counter()
        self.known_ways_are_open = True
        begin, answer = Application.call_again, Application._answer

        def call_again(application, *arguments):
            is_begun = self.known_ways_are_open and begin(application, *arguments)
            if is_begun:
                self.ways["known"] += 1
            return is_begun

        async def ordinary(application, *arguments):
            self.ways["ordinary"] += 1
            await answer(application, *arguments)

        monkeypatch.setattr(Application, "call_again", call_again)
        monkeypatch.setattr(Application, "_answer", ordinary)
        self.connect = Connections(self.application)

    @property
    def desk(self):
        return self.application._executions.desk

    async def ask(self, *chunks, number=1, connection=None):
        """Return what is answered to ``chunks`` on a connection, until there are ``number`` answers."""
        connection, transport = connection or self.connect()
        before = len(transport.written)
        for chunk in chunks:
            connection.data_received(chunk)
        await until(lambda: transport.written[before:].count(b"HTTP/1.1 ") >= number and connection._is_free())
        return transport.written[before:]

    async def teach(self, *requests):
        """Let heads be known."""
        for request in requests or (call(),):
            assert (await self.ask(request)).startswith(b"HTTP/1.1 202 ")
        self.ways.clear()


async def until(is_so, seconds=10.0):
    """Return when something is so."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.001)


def answer_of(text):
    """Return status, fields in order of their names, and document, without what is another each time."""
    head, _, body = text.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    same = sorted(re.sub(r"exec-[0-9a-f]{44}|(?<=etag: )\S+", "...", line) for line in lines)
    document = re.sub(rb'"exec-[0-9a-f]{44}"|"20\d\d-[^"]*Z"', b'"..."', body)
    same = [re.sub(r"(?<=content-length: )\d+", str(len(document)), line) for line in same]
    return status, same, json.loads(document)


def id_of(text):
    """Return the ID of the execution that an answer tells of."""
    return json.loads(text.partition(b"\r\n\r\n")[2])["execution_id"]


def kept(execution_id):
    """Return what the ledger holds of an execution."""
    found = open_ledger().find(execution_id)
    assert found is not None
    return found


def row_of(text):
    """Return what is kept, without what is another each time."""
    found = kept(id_of(text))
    timeline = tuple(event._replace(at=0.0) for event in found.timeline)
    assert (found.updated, found.turn, found.deadline) == (found.created, found.created, found.created + found.timeout)
    return replace(found, execution_id="", timeline=timeline, created=0.0, updated=0.0, deadline=0.0, turn=0.0)


@pytest.fixture
async def serve(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_action(tmp_path / "skills", "sum-up", tables=INPUTS)
    sites = []

    async def make(settings=None, **options):
        site = Site(tmp_path, monkeypatch, {"grant_all": True, **(settings or {})}, **options)
        sites.append(site)
        await site.application.startup()
        await site.application.publication.first(20)
        return site

    yield make
    for site in sites:
        site.connect.close()
        await site.application.shutdown()


async def test_both_ways_keep_and_answer_the_same(serve):
    site = await serve()
    await site.teach()
    known = await site.ask(call())
    assert site.ways == {"known": 1}
    site.known_ways_are_open = False
    ordinary = await site.ask(call())
    assert site.ways == {"known": 1, "ordinary": 1}
    assert answer_of(known) == answer_of(ordinary)
    assert row_of(known) == row_of(ordinary)
    assert json.loads(row_of(known).inputs) == {"text": "skills", "words": ["a", "b"]}
    assert f"location: http://skills.example.com/executions/{id_of(known)}".encode() in known


async def test_another_body_below_a_known_head_is_another_call(serve):
    site = await serve()
    await site.teach()
    context = {"priority": "high", "timeout_ms": 5_000, "trace_id": "t-1"}
    texts = [await site.ask(call({**CALL, "inputs": {"text": f"{n}"}, "context": context})) for n in range(3)]
    assert site.ways == {"known": 3}
    found = [kept(id_of(text)) for text in texts]
    assert [json.loads(one.inputs)["text"] for one in found] == ["0", "1", "2"]
    assert {(one.priority, one.timeout, one.trace_id, one.turn - one.created) for one in found} == {
        ("high", 5.0, "t-1", -60.0)
    }


@pytest.mark.parametrize(
    "fields",
    [
        ["Prefer: wait=1"],
        ["Idempotency-Key: a"],
        ["Callback-Url: https://example.com/"],
        ["Expect: 100-continue"],
        ["X-Forwarded-For: 192.0.2.9"],
        ["X-Forwarded-Proto: https"],
        ["X-Long: " + "a" * limits.SERVER_REMEMBERED_HEAD_BYTES],
    ],
)
async def test_what_asks_for_more_than_a_call_is_never_known(serve, fields):
    site = await serve()
    connection = site.connect()
    number = 2 if fields[0].startswith("Expect") else 1  # with "100 Continue"
    for _ in range(3):
        assert b"HTTP/1.1 202 " in await site.ask(call(None, *fields), connection=connection, number=number)
    assert site.ways == {"ordinary": 3}


async def test_a_large_call_is_never_known(serve):
    site = await serve()
    large = limits.SERVER_REMEMBERED_BODY_BYTES
    for length, ways in ((large, {"ordinary": 1, "known": 1}), (large + 1, {"ordinary": 2})):
        site.ways.clear()
        for _ in range(2):
            assert (await site.ask(call(written(CALL).ljust(length)))).startswith(b"HTTP/1.1 202 ")
        assert site.ways == ways


async def test_who_says_who_asks_is_never_known(serve):
    site = await serve()
    secret = open_tokens().issue("ann", skills=["*"]).secret
    for _ in range(2):
        assert (await site.ask(call(None, f"X-API-Key: {secret}"))).startswith(b"HTTP/1.1 202 ")
    assert (await site.ask(call(None, "X-API-Key: wrong"))).startswith(b"HTTP/1.1 401 ")
    assert site.ways == {"ordinary": 3}


async def test_other_versions_and_methods_are_never_known(serve):
    site = await serve()
    for request in (call(version="1.0"), call(None, "Connection: close")):
        for _ in range(2):
            _, transport = connection = site.connect()
            assert (await site.ask(request, connection=connection)).startswith(b"HTTP/1.1 202 ")
            assert transport.closed
    for _ in range(2):
        assert (await site.ask(call(method="PUT"))).startswith(b"HTTP/1.1 405 ")
    assert site.ways == {"ordinary": 6}


async def test_strangers_who_are_counted_are_counted(serve):
    site = await serve(configuration={"anonymous_limit": RateLimit(60, 2)})
    statuses = [(await site.ask(call()))[9:12] for _ in range(3)]
    assert statuses == [b"202", b"202", b"429"]
    assert site.ways == {"ordinary": 3}


async def test_a_call_cut_anywhere_is_one_call(serve):
    site = await serve()
    await site.teach()
    request = call()
    cuts = {*range(1, len(request), 7), request.index(b"\r\n\r\n") + 4}
    for cut in cuts:
        assert (await site.ask(request[:cut], request[cut:])).count(b"HTTP/1.1 202 ") == 1
    assert set(site.ways) == {"ordinary"}
    assert len(open_ledger().search(ALL).executions) == 1 + len(cuts)


async def test_two_calls_in_one_chunk_are_two(serve):
    site = await serve()
    await site.teach()
    text = await site.ask(call() + call({**CALL, "inputs": {"text": "second"}}), number=2)
    assert text.count(b"HTTP/1.1 202 ") == 2
    first, second = (kept(one) for one in re.findall(r"executions/(exec-[0-9a-f]+)", text.decode()))
    assert [json.loads(one.inputs)["text"] for one in (first, second)] == ["skills", "second"]
    assert site.ways == {"ordinary": 2}


async def test_a_body_that_looks_like_a_call_is_a_body(serve):
    """What begins another request's body, or lies within it, is never read as a head."""
    site = await serve()
    await site.teach()
    request = call()
    posted = b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(request)
    text = await site.ask(posted, request, HEALTH, number=2)
    assert [one[9:12] for one in re.findall(rb"HTTP/1.1 \d+", text)] == [b"405", b"200"]
    assert site.ways == {"ordinary": 2}


@pytest.mark.parametrize("before", [b"\r\n", b"\r\n\r\n"])
async def test_line_ends_before_a_request_teach_nothing(serve, before):
    """A chunk that begins with an empty line is no head to be known, whatever length its request names."""
    site = await serve()
    request = call()
    assert (await site.ask(before + request)).startswith(b"HTTP/1.1 202 ")
    posted = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    size = next(n for n in range(LENGTH, 2_000) if len(posted % (PATH.encode(), n)) - 4 + LENGTH == n)
    odd = before + (posted % (PATH.encode(), size)) + written(CALL)
    connection = site.connect()
    connection[0].data_received(odd)
    connection[0].data_received(b" " * (size - LENGTH))
    await site.ask(connection=connection)
    assert all(head.startswith(b"POST ") for head in site.application._executions.known._heads._meanings)


class Gate:
    """Holds back what is handed to the writer, until it is opened or broken."""

    def __init__(self, site):
        self._writer = site.desk.writer
        self._intake = site.desk._intake
        self._intake._writer = self
        self.held = []

    def hand_in(self, call, told):
        self.held.append((call, told))

    def open(self):
        """Let go of all that is held, and of what comes."""
        self._intake._writer = self._writer
        for held in self.held:
            self._writer.hand_in(*held)
        self.held.clear()

    def fail(self):
        """Say that none of it could be written; what comes may be."""
        self._intake._writer = self._writer
        for _, told in self.held:
            told(None, StorageError("DATABASE", "disk full"))
        self.held.clear()


async def test_nothing_is_answered_before_it_is_on_the_disk_and_all_in_order(serve):
    site = await serve()
    await site.teach()
    gate = Gate(site)
    connection, transport = site.connect()
    connection.data_received(call())
    await until(lambda: gate.held)
    connection.data_received(INDEX + HEALTH)
    connection.data_received(call({**CALL, "inputs": {"text": "later"}}))
    await asyncio.sleep(0.02)
    assert transport.written == b""
    assert transport.is_reading_paused
    gate.open()
    await until(lambda: transport.written.count(b"HTTP/1.1 ") == 4 and connection._is_free())
    assert re.findall(rb"HTTP/1.1 (\d+)|(\$schema|alive)", transport.written) == [
        (b"202", b""),
        (b"200", b""),
        (b"", b"$schema"),
        (b"200", b""),
        (b"", b"alive"),
        (b"202", b""),
    ]
    assert not transport.is_reading_paused


async def test_what_comes_meanwhile_is_written_together(serve):
    site = await serve()
    await site.teach()
    gate = Gate(site)
    connections = [site.connect() for _ in range(100)]
    for connection, _ in connections[:1]:
        connection.data_received(call())
    await until(lambda: gate.held)
    for connection, _ in connections[1:]:
        connection.data_received(call())
    gate.open()
    await until(lambda: all(transport.written for _, transport in connections))
    assert len({id_of(transport.written) for _, transport in connections}) == 100
    assert site.ways == {"known": 100}
    assert len(open_ledger().search(ALL).executions) == 101


async def test_who_hangs_up_leaves_the_call_behind(serve):
    site = await serve()
    await site.teach()
    gate = Gate(site)
    connection, transport = site.connect()
    connection.data_received(call())
    await until(lambda: gate.held)
    connection.data_received(HEALTH)
    transport.close()
    connection.connection_lost(None)
    gate.open()
    await until(lambda: len(open_ledger().search(ALL).executions) == 2)
    await asyncio.sleep(0.02)
    assert transport.written == b""
    assert site.application._metrics.requests["execution", 202] == 2


async def test_what_could_not_be_written_is_tried_on_the_ordinary_way(serve):
    site = await serve()
    await site.teach()
    gate = Gate(site)
    connection, transport = site.connect()
    connection.data_received(call())
    await until(lambda: gate.held)
    connection.data_received(HEALTH)
    gate.fail()
    await until(lambda: transport.written.count(b"HTTP/1.1 ") == 2 and connection._is_free())
    assert re.findall(rb"HTTP/1.1 (\d+)", transport.written) == [b"202", b"200"]
    assert site.ways == {"known": 1, "ordinary": 2}
    assert len(open_ledger().search(ALL).executions) == 2


async def test_a_ledger_that_fails_is_told_as_the_application_tells_it(serve, monkeypatch):
    site = await serve()
    await site.teach()

    def fail(*_):
        raise StorageError("DATABASE", "disk full")

    monkeypatch.setattr(site.desk.ledger, "accept_all", fail)
    monkeypatch.setattr(site.desk.ledger, "accept", fail)
    texts = [await site.ask(call())]
    assert site.ways == {"known": 1, "ordinary": 1}
    site.known_ways_are_open = False
    texts.append(await site.ask(call()))
    assert answer_of(texts[0]) == answer_of(texts[1])
    assert texts[0].startswith(b"HTTP/1.1 503 ")


async def test_one_that_cannot_be_written_hinders_no_other(serve, monkeypatch):
    site = await serve()
    await site.teach()
    insert = site.desk.ledger.accept_all

    def refuse(executions):
        insert(executions)
        if any(b"poison" in one.inputs for one in executions):
            raise StorageError("DATABASE", "poison")

    monkeypatch.setattr(site.desk.ledger, "accept_all", refuse)
    gate = Gate(site)
    connections = [site.connect() for _ in range(5)]
    for number, (connection, _) in enumerate(connections):
        connection.data_received(call({**CALL, "inputs": {"text": "poison" if number == 2 else "good"}}))
    gate.open()
    await until(lambda: all(transport.written for _, transport in connections))
    assert {transport.written[9:12] for _, transport in connections} == {b"202"}
    assert len(open_ledger().search(ALL).executions) == 6


async def test_too_many_that_wait_are_told_so(serve):
    site = await serve({"waiting": 3})
    await site.teach()
    statuses = [(await site.ask(call()))[9:12] for _ in range(4)]
    assert statuses == [b"202", b"202", b"429", b"429"]
    assert site.ways == {"known": 2, "ordinary": 2}


async def test_a_grant_that_was_taken_back_counts_within_a_second(serve):
    site = await serve({"grant_all": False})
    skill = site.application.publication.current.catalog.skills["sum-up"]
    open_grants().agree(skill, "ops")
    await site.teach()
    assert (await site.ask(call())).startswith(b"HTTP/1.1 202 ")
    open_grants().take_back("sum-up")
    began = time.monotonic()
    while (await site.ask(call())).startswith(b"HTTP/1.1 202 "):
        assert time.monotonic() - began < 3
        await asyncio.sleep(0.05)
    assert (await site.ask(call())).startswith(b"HTTP/1.1 503 ")


async def test_a_skill_that_was_published_anew_is_called_as_it_is_now(serve, tmp_path):
    site = await serve()
    await site.teach()
    first = row_of(await site.ask(call()))
    number = site.application.publication.current.number
    write_action(tmp_path / "skills", "sum-up", tables=INPUTS.replace("summed up", "shortened"))
    site.application.publication.look_again()
    await until(lambda: site.application.publication.current.number > number)
    site.ways.clear()
    second = row_of(await site.ask(call()))
    assert site.ways == {"ordinary": 1}
    assert second.digest != first.digest
    assert row_of(await site.ask(call())) == second
    assert site.ways == {"ordinary": 1, "known": 1}


async def test_heads_are_for_the_address_at_which_they_came(serve):
    """Without a name of the site in the request, the answer names the address of the socket."""
    site = await serve()
    nameless = call().replace(b"Host: skills.example.com", b"Host: ")
    for server in (("192.0.2.1", 80), ("192.0.2.2", 8080)):
        for _ in range(2):
            connection, transport = site.connect()
            connection.server = server
            text = await site.ask(nameless, connection=(connection, transport))
            assert f"location: http://{server[0]}".encode() in text.lower(), text
    assert site.ways["ordinary"] >= 2


async def test_a_server_that_ends_answers_what_it_accepted(serve):
    site = await serve()
    await site.teach()
    gate = Gate(site)
    (waiting, transport), (idle, idle_transport) = site.connect(), site.connect()
    waiting.data_received(call())
    await until(lambda: gate.held)
    waiting.shutdown()
    idle.shutdown()
    assert idle_transport.closed
    assert not transport.closed
    gate.open()
    await until(lambda: transport.closed)
    assert transport.written.startswith(b"HTTP/1.1 202 ")


async def test_a_server_that_ends_tries_what_failed_once_more(serve):
    site = await serve()
    await site.teach()
    gate = Gate(site)
    connection, transport = site.connect()
    connection.data_received(call())
    await until(lambda: gate.held)
    connection.shutdown()
    gate.fail()
    await until(lambda: transport.closed)
    assert transport.written.startswith(b"HTTP/1.1 202 ")


async def test_known_heads_make_room_for_newer_ones(serve, monkeypatch):
    monkeypatch.setattr(limits, "SERVER_REMEMBERED_HEADS", 3)
    site = await serve()
    await site.teach(*[call(None, f"X-Number: {number}") for number in range(6)])
    for number in (5, 4, 3, 2):
        await site.ask(call(None, f"X-Number: {number}"))
    assert site.ways == {"known": 3, "ordinary": 1}
    assert len(site.application._executions.known._heads._meanings) == 3


async def test_both_ways_are_counted_and_logged_alike(serve, monkeypatch):
    site = await serve()
    await site.teach()
    lines = []
    site.application._access_log = True
    monkeypatch.setattr(site.application._log, "info", lambda what, **facts: lines.append({**facts, "what": what}))
    before = site.application._metrics.requests["execution", 202], site.application._metrics.bytes["execution"]
    known = await site.ask(call())
    site.known_ways_are_open = False
    await site.ask(call())
    assert site.ways == {"known": 1, "ordinary": 1}
    assert site.application._metrics.requests["execution", 202] == before[0] + 2
    assert site.application._metrics.bytes["execution"] == before[1] + 2 * len(known.partition(b"\r\n\r\n")[2])
    first, second = ({**line, "ms": line["ms"] >= 0} for line in lines)
    assert (
        first
        == second
        == {
            "what": "request",
            "method": "POST",
            "path": PATH,
            "status": 202,
            "bytes": len(known.partition(b"\r\n\r\n")[2]),
            "ms": True,
            "client": "192.0.2.7",
        }
    )


async def test_a_skill_that_was_closed_is_called_by_nobody_in_particular_no_more(serve, tmp_path):
    site = await serve()
    await site.teach()
    number = site.application.publication.current.number
    write_action(tmp_path / "skills", "sum-up", more='access = "restricted"', tables=INPUTS)
    site.application.publication.look_again()
    await until(lambda: site.application.publication.current.number > number)
    assert (await site.ask(call())).startswith(b"HTTP/1.1 401 ")
