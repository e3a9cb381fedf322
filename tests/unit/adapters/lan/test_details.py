"""Where mDNS cuts a list and nobody registers, the whole is fetched from the hint's own address, and is a hint."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, ClassVar

import pytest

from skillwire.adapters.lan import details as details_module
from skillwire.adapters.lan.detail_turns import BACK_OFF, GOOD, Door, Turns
from skillwire.adapters.lan.details import Details
from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery.details import AgentDetails, Lists, completed, details_of, read_details
from skillwire.protocols.skill_discovery.dnssd import PATH
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


def nowhere(_):
    return False


@pytest.fixture
async def server(monkeypatch):
    """Give a server that answers ``body`` with ``head``; ``asked`` are the requests."""
    monkeypatch.setattr(details_module, "_WAITS", 0.01)

    class Server:
        body = document()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        asked: ClassVar[list[bytes]]
        port = 0

    Server.asked = []

    async def answer(reader, writer):
        try:
            asked = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):  # a probe, which says nothing
            writer.close()
            return
        Server.asked.append(asked.partition(b"\r\n")[0])
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
    made = Details(lambda _: True, lambda found, ours: whole.append((found, ours)), counters, is_here=nowhere)

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


@pytest.mark.parametrize(
    "body", [document("agent-y"), document(capabilities=MANY[1:]), document(skills=[]), document(skills=3)]
)
async def test_what_goes_on_otherwise_is_not_taken(server, fetch, body):
    server.body = body
    assert not (await fetch())[1]


async def test_no_redirect_is_followed(server, fetch):
    server.head = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/secret\r\n" % server.port
    assert not (await fetch())[1]
    assert server.asked == [b"GET /more HTTP/1.1"]


async def test_nobody_is_asked_when_a_registration_came_or_the_hint_has_gone(server, monkeypatch):
    registered = Details(lambda _: False, lambda *_: pytest.fail("told"), Counter(), is_here=nowhere)
    registered.found(hint(server.port), "127.0.0.1", "/more")
    gone = Details(lambda _: True, lambda *_: pytest.fail("told"), Counter(), is_here=nowhere)
    gone.found(hint(server.port), "127.0.0.1", "/more")
    gone.gone(("agent-x", "skill-x"))
    await asyncio.gather(*registered._asking.values(), *gone._asking.values())
    monkeypatch.setattr(details_module, "_WAITS", 60.0)
    waiting = Details(lambda _: True, lambda *_: pytest.fail("told"), Counter(), is_here=nowhere)
    waiting.found(hint(server.port), "127.0.0.1", "/more")
    async with asyncio.timeout(PATIENCE):
        await waiting.stop()
    assert not server.asked


@pytest.mark.spec("SDP-mdns-details")
async def test_however_many_agents_are_made_up_an_endpoint_is_asked_once_in_a_while(server, fetch):
    server.head = b"HTTP/1.1 404 Not Found\r\n"
    for number in range(100):
        await fetch(hint(server.port, f"agent-{number}"), f"/cgi-bin/reboot/{number}")
    assert len(server.asked) == 1
    assert (await fetch(path=PATH))[2] == Counter({"mdns no details": 2}), (
        "by the path that is ours it is asked all the same"
    )
    assert len(server.asked) == 2


@pytest.mark.spec("SDP-mdns-details")
async def test_an_endpoint_tells_of_its_own_agent_whoever_is_made_up_there(server, fetch):
    for number in range(3):
        now, whole, _ = await fetch(hint(server.port, f"agent-{number}"), PATH)
        assert (now.capabilities, whole) == (MANY[:5], [])
    now, _, _ = await fetch(path=PATH)
    assert now.capabilities == MANY
    assert len(server.asked) == 1


@pytest.mark.spec("SDP-mdns-details")
async def test_nobody_is_led_to_this_machine_itself(server):
    counters: Counter[str] = Counter()
    made = Details(lambda _: True, lambda *_: pytest.fail("told"), counters, is_here=lambda host: host == "127.0.0.1")
    made.found(hint(server.port), "192.168.1.7", PATH)
    await asyncio.gather(*made._asking.values())
    assert (server.asked, counters) == ([], Counter({"mdns leads here": 1}))


@pytest.mark.spec("SDP-mdns-details")
async def test_what_takes_no_connection_is_not_asked_and_looked_at_again_soon(server, fetch, monkeypatch):
    async def answers(*_):
        return False

    monkeypatch.setattr("skillwire.adapters.lan.probe.Prober.answers", answers)
    _, whole, counters = await fetch(path=PATH)
    assert (whole, counters, server.asked) == ([], Counter({"mdns no details": 1}), [])


@pytest.mark.spec("SDP-mdns-details")
def test_endpoints_have_few_turns_for_each_host_and_in_all():
    turns = Turns()
    assert [turns.take(Door("10.0.0.1", port, True), 0.0) for port in range(6)] == [True] * 4 + [False] * 2
    assert sum(turns.take(Door(f"10.0.1.{host}", 80, True), 1.0) for host in range(99)) == 32 - 4
    first = Door("10.0.0.1", 0, True)
    assert not turns.may_ask(first, GOOD + 1), "it has not said that it is one"
    assert turns.may_ask(first._replace(port=9), GOOD + 1)
    assert turns.may_ask(first, BACK_OFF)
    turns.again_soon(first, 2.0)
    assert turns.may_ask(first, GOOD + 2)


async def test_so_many_endpoints_wait_to_be_asked_and_no_more():
    made = Details(lambda _: True, lambda *_: None, Counter(), is_here=nowhere)
    for number in range(300):
        made.found(hint(1000 + number, f"agent-{number}"), "127.0.0.1", "/more")
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
    assert read_details(body, "it") == AgentDetails("agent-x", {"skill-x": Lists(MANY, ("auth",))})
    assert completed(hint(80), AgentDetails("agent-x", {})) is None


@pytest.mark.parametrize("agent", [None, "a b", ""])
def test_what_is_nobodys_is_refused(agent):
    with pytest.raises(DecodeError):
        read_details(document(agent), "it")
