"""An agent's mDNS beside its multicast, on loopback: what is told by one is a hint at another, until it registers."""

import asyncio
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from secrets import token_hex
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.loopback_lan import given

from skillwire.adapters.lan import mdns as details_module
from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.link import Links
from skillwire.adapters.lan.mdns import BACK_OFF, GOOD, MISSING, Details, EndpointState, EndpointThrottle, Hints
from skillwire.adapters.lan.sockets import LinkAddress
from skillwire.errors import DecodeError
from skillwire.model.lan import FoundVia, LanChange
from skillwire.protocols.skill_discovery.dnssd import (
    PATH,
    AgentDetails,
    SkillDetails,
    completed,
    details_of,
    read_details,
)
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Register, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.wire.node import Peer

KEY = GroupKey(b"a secret that all of us share")
MDNS_ONLY = LanSettings(interfaces=("127.0.0.1",), multicast=False)
MDNS_OFF = dataclasses.replace(MDNS_ONLY, multicast=True, mdns=False)


class Agent(LanAgent):
    """An agent that is listened to from its start."""

    changes: AsyncIterator[LanChange]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Probe for a name in 0.2 seconds in place of 1.2."""
    monkeypatch.setattr("zeroconf._core._CHECK_TIME", 80)
    monkeypatch.setattr("zeroconf._core._PROBE_RANDOM_DELAY_INTERVAL", (10, 20))


@pytest.fixture
async def agents():
    started = []

    async def start(settings=MDNS_ONLY, **changes):
        settings = dataclasses.replace(settings, **{"agent_id": f"agent-{token_hex(6)}"} | changes)
        agent = Agent(settings, own=given(settings.agent_id, KEY), keeps_state=False)
        agent.changes = agent.listen()
        await agent.start()
        started.append(agent)
        return agent

    yield start
    for agent in started:
        await agent.stop()


def offer(skill_id="skill-x"):
    return Offer(skill_id, "1.2.3", SkillType.TOOL, Endpoint("", 8123), ("user-auth",), ("auth",))


async def until(agent, is_so):
    """Return the first change of which something is so; others come from whoever else is on loopback."""
    async with asyncio.timeout(PATIENCE):
        async for change in agent.changes:
            if is_so(change):
                return change
    pytest.fail("the agent ended")


def of(agent, *kinds):
    return lambda change: change.skill and change.skill.agent_id == agent.agent_id and change.kind in kinds


@pytest.mark.spec("SDP-dht-mdns")
async def test_the_node_of_the_dht_of_one_agent_is_known_to_the_other_until_it_leaves(agents):
    looks, offers = await agents(), await agents()
    node = Peer("127.0.0.1", 54_300)
    offers.announce([offer()])
    offers.exchange_dht(node.port)
    await eventually_async(lambda: node in looks.exchange_dht(0))
    assert node not in offers.exchange_dht(node.port), "its own"
    await offers.stop()
    await eventually_async(lambda: node not in looks.exchange_dht(0))
    assert not (await agents(MDNS_OFF)).exchange_dht(1)


@pytest.mark.spec("SDP-mdns-hint")
async def test_what_one_agent_offers_is_a_hint_at_another_until_it_leaves(agents):
    looks, offers = await agents(), await agents()
    offers.announce([offer()])
    found = (await until(looks, of(offers, "registered"))).skill
    assert (found.skill_id, found.endpoint, found.scenes) == ("skill-x", "127.0.0.1:8123", ("auth",))
    assert (found.found_via, found.status, found.is_verified) == (FoundVia.MDNS, "UNKNOWN", False)
    await offers.stop()
    await until(looks, of(offers, "left"))
    assert not [skill for skill in looks.snapshot().skills if skill.agent_id == offers.agent_id]


@pytest.mark.spec("SDP-mdns-hint")
async def test_lists_that_were_cut_are_fetched_where_nobody_registers(agents):
    long = tuple(f"capability-{number:03}" for number in range(60))
    looks, offers = await agents(), await agents()

    async def answer(reader, writer):
        try:
            await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):  # a probe, which says nothing
            writer.close()
            return
        told = {"agentId": offers.agent_id, "skills": details_of(offers.agent_id, [whole])}
        body = json.dumps(told).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    whole = offer()._replace(endpoint=Endpoint("", port), capabilities=long)
    offers.announce([whole])
    cut = (await until(looks, of(offers, "registered"))).skill
    assert 0 < len(cut.capabilities) < len(long)
    found = (await until(looks, of(offers, "updated"))).skill
    assert (found.capabilities, found.found_via, found.is_verified) == (long, FoundVia.MDNS, False)
    server.close()


@pytest.mark.spec("SDP-mdns-details")
@pytest.mark.parametrize(
    ("links", "host", "is_here"),
    [
        (["127.0.0.1"], "127.0.0.1", False),
        (["192.168.1.7"], "127.0.0.1", True),
        (["192.168.1.7"], "0.0.0.0", True),  # noqa: S104 - nobody binds to it
        (["127.0.0.1", "192.168.1.7"], "127.0.0.1", True),
        (["192.168.1.7"], "192.168.1.9", True),
        (["192.168.1.7"], "fe80::9%eth0", True),
        (["192.168.1.7"], "192.168.1.1", False),
        ([], "192.168.1.9", True),
    ],
)
def test_a_hint_leads_to_this_machine_only_where_nobody_else_is(monkeypatch, links, host, is_here):
    ours = [LinkAddress("lo", 1, "127.0.0.1"), LinkAddress("eth1", 2, "192.168.1.9"), LinkAddress("eth0", 3, "fe80::9")]
    monkeypatch.setattr("skillwire.adapters.lan.mdns.present", lambda: ours)
    made = SimpleNamespace(open_links=lambda: [SimpleNamespace(address=LinkAddress("x", 9, one)) for one in links])
    assert Hints("agent-001", KEY, cast("Links", made))._is_here(host) is is_here


async def test_what_is_offered_before_the_start_and_taken_back_later_is_followed(agents):
    looks, offers = await agents(), await agents()
    offers.announce([offer("skill-x"), offer("skill-y")])
    for _ in range(2):
        await until(looks, of(offers, "registered"))
    offers.report("skill-y", HealthStatus.DEGRADED)
    offers.announce([offer("skill-y")])
    assert (await until(looks, of(offers, "left"))).skill.skill_id == "skill-x"


@pytest.mark.spec("SDP-mdns-hint")
async def test_a_registration_takes_the_place_of_a_hint_and_outlives_its_end(agents, unused_udp_port):
    both = dataclasses.replace(MDNS_ONLY, multicast=True, port=unused_udp_port)
    looks, hints = await agents(both), await agents()
    hints.announce([offer()])
    found = (await until(looks, of(hints, "registered"))).skill
    assert (found.found_via, found.is_verified) == (FoundVia.MDNS, False)
    registers = await agents(both, mdns=False, agent_id=hints.agent_id)
    registers.announce([offer()])
    found = (await until(looks, of(hints, "updated", "status"))).skill
    assert (found.found_via, found.is_verified) == (FoundVia.MULTICAST, True)
    await hints.stop()
    later = await agents()
    later.announce([offer()])
    await until(looks, of(later, "registered"))
    assert [skill.agent_id for skill in looks.snapshot().skills].count(hints.agent_id) == 1


async def test_without_mdns_nothing_is_published_and_nothing_noted(agents):
    looks, silent, loud = await agents(), await agents(mdns=False), await agents()
    silent.announce([offer()])
    loud.announce([offer()])
    await until(looks, of(loud, "registered"))
    assert not [skill for skill in looks.snapshot().skills if skill.agent_id == silent.agent_id]
    assert silent.notes == ()


async def test_without_the_extra_the_agent_notes_what_to_install(agents, monkeypatch):
    monkeypatch.setitem(sys.modules, "zeroconf.asyncio", None)
    agent = await agents()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([agent._mdns._running])
    assert agent.notes == (MISSING,)


async def test_a_fault_ends_mdns_alone_and_is_said(agents, monkeypatch):
    async def fail(*_):
        raise RuntimeError("broken")

    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what["exception"]))
    monkeypatch.setattr("skillwire.adapters.lan.mdns.DnsSd.publish", fail)
    agent = await agents()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([agent._mdns._running])
    assert agent.notes == ("mDNS is off, because it failed: RuntimeError('broken')",)
    assert [str(fault) for fault in faults] == ["broken"]
    assert agent.snapshot().agent_id == agent.agent_id


MANY = tuple(f"capability-{number:03}" for number in range(100))


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

    monkeypatch.setattr("skillwire.adapters.lan.probes.Prober.answers", answers)
    _, whole, counters = await fetch(path=PATH)
    assert (whole, counters, server.asked) == ([], Counter({"mdns no details": 1}), [])


@pytest.mark.spec("SDP-mdns-details")
def test_endpoints_have_few_turns_for_each_host_and_in_all():
    turns = EndpointThrottle()
    assert [turns.take(EndpointState("10.0.0.1", port, True), 0.0) for port in range(6)] == [True] * 4 + [False] * 2
    assert sum(turns.take(EndpointState(f"10.0.1.{host}", 80, True), 1.0) for host in range(99)) == 32 - 4
    first = EndpointState("10.0.0.1", 0, True)
    assert not turns.may_ask(first, GOOD + 1), "it has not said that it is one"
    assert turns.may_ask(first._replace(port=9), GOOD + 1)
    assert turns.may_ask(first, BACK_OFF)
    turns.open_soon(first, 2.0)
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
    assert read_details(body, "it") == AgentDetails("agent-x", (SkillDetails("skill-x", MANY, ("auth",)),))
    assert completed(hint(80), AgentDetails("agent-x")) is None


@pytest.mark.parametrize("agent", [None, "a b", ""])
def test_what_is_nobodys_is_refused(agent):
    with pytest.raises(DecodeError):
        read_details(document(agent), "it")
