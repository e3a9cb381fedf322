"""Where mDNS cuts a list and nobody registers, the whole is fetched from the hint's own address, and is a hint."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, ClassVar

import pytest

from skillwire.adapters.lan import details as details_module
from skillwire.adapters.lan.details import Details
from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery.details import Lists, completed, details_of, read_details
from skillwire.protocols.skill_discovery.messages import Endpoint, Register, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer

MANY = tuple(f"capability-{number:03}" for number in range(100))
PATIENCE = 20.0


def hint(port, agent="agent-x", capabilities=MANY[:5], scenes=()):
    place = Endpoint("127.0.0.1", port)
    return Register(agent, "skill-x", "1.0.0", SkillType.TOOL, place, capabilities, scenes, timestamp=0)


def document(agent="agent-x", capabilities=MANY, scenes=("auth",), **more):
    skill = {"skillId": "skill-x", "capabilities": capabilities, "scenes": scenes}
    return json.dumps({"agentId": agent, "skills": [skill]} | more).encode()


@pytest.fixture
async def server(monkeypatch):
    """Give a server that answers ``body`` with ``head``; ``asked`` are the requests."""
    monkeypatch.setattr(details_module, "_WAITS", 0.01)

    class Server:
        body = document()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        asked: ClassVar[list[bytes]] = []
        port = 0

    async def answer(reader, writer):
        Server.asked.append((await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0])
        writer.write(Server.head + b"Content-Length: %d\r\n\r\n" % len(Server.body) + Server.body)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    Server.port = listening.sockets[0].getsockname()[1]
    yield Server
    listening.close()


@pytest.fixture
async def fetch(server):
    """Give what tells of a cut hint, and returns what is made of it."""
    counters: Counter[str] = Counter()
    whole: list[Any] = []
    made = Details(lambda _: True, lambda found, ours: whole.append((found, ours)), counters)

    async def fetched(found=None, path="/more"):
        now = made.found(found or hint(server.port), "127.0.0.1", path)
        await asyncio.gather(*made._asking.values())
        return now, whole, counters

    yield fetched
    await made.stop()


@pytest.mark.spec("SDP-mdns-record")
async def test_the_whole_is_fetched_once_and_known_from_then_on(server, fetch):
    now, whole, _ = await fetch()
    assert now == hint(server.port)
    assert whole == [(hint(server.port, capabilities=MANY, scenes=("auth",)), "127.0.0.1")]
    now, whole, counters = await fetch()
    assert now.capabilities == MANY
    assert (len(whole), len(server.asked), counters) == (1, 1, Counter())
    assert server.asked == [b"GET /more HTTP/1.1"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        document("agent-y"),
        document(capabilities=["a b"]),
        document(capabilities=7),
        document(capabilities=["x"] * 1001),
        document(skills=[{"skillId": None}]),
        b" " * (2 << 20),
    ],
)
async def test_what_is_none_of_it_is_counted_and_changes_nothing(server, fetch, body):
    server.body = body
    now, whole, counters = await fetch()
    assert (now, whole, counters) == (hint(server.port), [], Counter({"mdns no details": 1}))


@pytest.mark.parametrize("body", [document(capabilities=MANY[1:]), document(skills=[]), document(skills=3)])
async def test_what_goes_on_otherwise_is_not_taken(server, fetch, body):
    server.body = body
    assert not (await fetch())[1]


async def test_no_redirect_is_followed(server, fetch):
    server.head = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/secret\r\n" % server.port
    assert not (await fetch())[1]
    assert server.asked == [b"GET /more HTTP/1.1"]


async def test_nobody_is_asked_when_a_registration_came_or_the_hint_has_gone(server, monkeypatch):
    registered = Details(lambda _: False, lambda *_: pytest.fail("told"), Counter())
    registered.found(hint(server.port), "127.0.0.1", "/more")
    gone = Details(lambda _: True, lambda *_: pytest.fail("told"), Counter())
    gone.found(hint(server.port), "127.0.0.1", "/more")
    gone.gone(("agent-x", "skill-x"))
    await asyncio.gather(*registered._asking.values(), *gone._asking.values())
    monkeypatch.setattr(details_module, "_WAITS", 60.0)
    waiting = Details(lambda _: True, lambda *_: pytest.fail("told"), Counter())
    waiting.found(hint(server.port), "127.0.0.1", "/more")
    async with asyncio.timeout(PATIENCE):
        await waiting.stop()
    assert not server.asked


async def test_made_up_agents_are_asked_by_a_bounded_number(server, fetch):
    await fetch()
    made = Details(lambda _: True, lambda *_: None, Counter())
    for number in range(300):
        made.found(hint(server.port, f"agent-{number}"), "127.0.0.1", "/more")
    assert len(made._asking) == len(made._cut) == 64
    await made.stop()


def test_an_agent_tells_what_has_no_room_and_that_is_read_as_it_was():
    offers = [
        Offer("skill-x", "1.0.0", SkillType.TOOL, Endpoint("", 80), MANY, ("auth",)),
        Offer("skill-y", "1.0.0", SkillType.TOOL, Endpoint("", 80), ("one",), ()),
        Offer("s" * 128, "1.0.0", SkillType.TOOL, Endpoint("", 80), MANY, ()),
    ]
    told = details_of("a" * 128, offers)
    assert [one["skillId"] for one in told] == ["skill-x"]
    body = json.dumps({"agentId": "agent-x", "skills": told}).encode()
    assert read_details(body, "agent-x", "it") == {"skill-x": Lists(MANY, ("auth",))}
    assert completed(hint(80), {}) is None


def test_what_is_another_agents_says_so():
    with pytest.raises(DecodeError, match="another agent"):
        read_details(document("agent-y"), "agent-x", "it")
