"""A list whose head is known is answered as the application would answer it, and nothing else is taken for one."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from tests.support.connections import Connections
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.adapters.sqlite.open import open_tokens
from skillwire.protocols.skills_rpc.server import encode_cursor
from skillwire.server import app
from skillwire.server.application import Application
from skillwire.server.auth.rate_limit import RateLimit
from skillwire.server.configuration import ServerConfiguration

#: All bodies have as many bytes, so that a head stays known whatever the body says.
LENGTH = 300
LIST = {"jsonrpc": "2.0", "id": 1, "method": "list_skills"}


def ask(document, *fields, path="/rpc", version="1.1", length=LENGTH):
    """Return a request."""
    body = (document if isinstance(document, bytes) else json.dumps(document).encode()).ljust(length)
    own = [f"POST {path} HTTP/{version}", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*own, *fields, "", ""]).encode() + body


def parts(written):
    """Return the answers in what was written, each as its first line, its fields in no order, and its body."""
    told = []
    while written:
        head, _, rest = written.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in lines)
        length = int(fields.get(b"content-length", 0))
        told.append((first, fields, rest[:length]))
        written = rest[length:]
    return told


async def answered(connection, transport, number):
    """Wait until so many answers are written."""
    async with asyncio.timeout(20):
        while transport.written.count(b"HTTP/1.1 ") < number or not connection._is_free():  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.001)


class Site:
    """A server without sockets, and which way its requests took."""

    def __init__(self, folder, monkeypatch, **options):
        self.application = app(
            [folder / "skills"], blobs=folder / "blobs", publisher="acme", access_log=False, **options
        )
        self.ways: Counter[str] = Counter()
        again, answer = Application.answer_again, Application._answer

        def answer_again(application, *arguments):
            ready = again(application, *arguments)
            self.ways["known"] += ready is not None
            return ready

        async def ordinary(application, *arguments):
            self.ways["ordinary"] += 1
            await answer(application, *arguments)

        monkeypatch.setattr(Application, "answer_again", answer_again)
        monkeypatch.setattr(Application, "_answer", ordinary)

    async def send(self, *requests):
        """Return what is written for requests that come one after the other on one connection."""
        connection, transport = self._connect()
        for number, request in enumerate(requests, 1):
            connection.data_received(request)
            await answered(connection, transport, number)
        return transport.written

    async def start(self):
        self._connect = Connections(self.application)
        await self.application.startup()
        await self.application.publication.first(20)

    async def stop(self):
        self._connect.close()
        await self.application.shutdown()


@pytest.fixture
async def serve(tmp_path, monkeypatch):
    """Return what starts a site with these options."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    for name in ("notes", "plans", "tasks"):
        write_skill(tmp_path / "skills", name)
    write_skill(tmp_path / "skills", "hidden", {"skill.toml": 'access = "private"\n'})
    sites = []

    async def start(**options):
        site = Site(tmp_path, monkeypatch, **options)
        sites.append(site)
        await site.start()
        return site

    yield start
    for site in sites:
        await site.stop()


@pytest.fixture
async def site(serve):
    return await serve()


WANTED: list[dict[str, Any]] = [
    {},
    {"params": {}},
    {"params": {"detail": "summary"}, "id": "ü"},
    {"params": {"limit": 1}, "id": None},
    {"params": {"limit": 2, "cursor": encode_cursor(None, "acme.notes")}, "id": 1.5},
    {"params": {"namespace": "acme"}},
    {"params": {"namespace": "none"}},
]


async def test_known_heads_are_answered_at_once_and_as_ever(site):
    requests = [ask({**LIST, **wanted}) for wanted in WANTED]
    ordinary = await site.send(*(ask({**LIST, **wanted}, f"X-Note: {n}") for n, wanted in enumerate(WANTED)))
    assert site.ways == {"ordinary": len(WANTED), "known": 0}
    await site.send(ask(LIST))  # learned by now
    site.ways.clear()
    assert parts(await site.send(*requests)) == parts(ordinary)
    assert site.ways == {"known": len(WANTED)}
    assert ordinary.count(b'"result"') == len(WANTED)
    assert b"acme.hidden" not in ordinary


OTHERS = {
    "a cursor of another list": ask({**LIST, "params": {"cursor": encode_cursor("a", "b")}}),
    "an unknown parameter": ask({**LIST, "params": {"Limit": 1}}),
    "another method": ask({**LIST, "method": "load_skills_protocol_guide"}),
    "a method that is not there": ask({**LIST, "method": "list"}),
    "a notification": ask({"jsonrpc": "2.0", "method": "list_skills"}),
    "a batch": ask([LIST, LIST]),
    "no request": ask({"method": "list_skills"}),
    "no JSON": ask(b"{"),
    "another key twice": ask(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"list_skills"}'),
    "somebody's": ask(LIST, "X-API-Key: wrong"),
    "one through a proxy": ask(LIST, "X-Forwarded-For: 192.0.2.9"),
    "another path": ask(LIST, path="/rpc/"),
}


async def test_what_is_not_such_a_list_takes_the_ordinary_way(site):
    fresh = {name: await site.send(request) for name, request in OTHERS.items()}
    await site.send(ask(LIST), ask(LIST))
    site.ways.clear()
    for name, request in OTHERS.items():
        assert await site.send(request) == fresh[name], name
    assert site.ways == {"ordinary": len(OTHERS), "known": 0}


async def test_another_head_is_learned_by_itself(site):
    await site.send(ask(LIST), ask(LIST))
    for other in (ask(LIST, "X-Note: a"), ask(LIST, length=LENGTH + 1)):
        site.ways.clear()
        first, second = parts(await site.send(other, other))
        assert first == second
        assert site.ways == {"ordinary": 1, "known": 1}


async def test_somebody_is_never_learned(site):
    key = open_tokens().issue("ci", skills=["*"]).secret
    request = ask({**LIST, "params": {"detail": "summary"}}, f"X-API-Key: {key}")
    for _ in range(3):
        assert b"acme.hidden" in await site.send(request)
    assert site.ways == {"ordinary": 3, "known": 0}
    assert b"acme.hidden" not in await site.send(ask(LIST))


async def test_where_strangers_are_counted_each_is(serve):
    site = await serve(configuration=ServerConfiguration(anonymous_limit=RateLimit(60, 2)))
    written = await site.send(ask(LIST), ask(LIST), ask(LIST))
    assert written.count(b"HTTP/1.1 200") == 2
    assert written.count(b"HTTP/1.1 429") == 1
    assert not site.ways["known"]


async def test_a_large_body_is_never_learned(site):
    large = ask(LIST, length=limits.SERVER_REMEMBERED_BODY_BYTES + 1)
    await site.send(large, large)
    assert site.ways == {"ordinary": 2, "known": 0}


async def test_what_is_published_later_is_listed_at_once(site, tmp_path):
    assert b"acme.zebra" not in await site.send(ask(LIST), ask(LIST))
    write_skill(tmp_path / "skills", "zebra")
    async with asyncio.timeout(20):
        site.application.publication.look_again()
        while "zebra" not in site.application.publication.current.catalog.skills:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)
    assert b"acme.zebra" in await site.send(ask(LIST))
    site.ways.clear()
    assert b"acme.zebra" in await site.send(ask(LIST))
    assert site.ways == {"known": 1}


async def test_requests_that_come_together_are_answered_in_their_order(site):
    await site.send(ask(LIST))
    requests = [ask({**LIST, "id": number}) for number in range(3)]
    whole = await site.send(*requests)
    connection, transport = site._connect()
    connection.data_received(b"".join(requests))
    await answered(connection, transport, 3)
    assert parts(transport.written) == parts(whole)


async def test_known_lists_are_counted(site):
    await site.send(ask(LIST), ask(LIST), ask(LIST))
    assert site.application._metrics.requests[("rpc", 200)] == 3
