"""An agent's mDNS beside its multicast, on loopback: what is told by one is a hint at another, until it registers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from secrets import token_hex
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.dnssd import MISSING
from skillwire.adapters.lan.hints import Hints
from skillwire.adapters.lan.interfaces import LinkAddress
from skillwire.model.lan import FoundVia
from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.protocols.skill_discovery.details import details_of
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skillwire.adapters.lan.links import Links
    from skillwire.model.lan import LanChange

KEY = GroupKey(b"a secret that all of us share")
MDNS_ONLY = LanSettings(interfaces=("127.0.0.1",), multicast=False)
SECONDS = 20


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
        agent = Agent(settings, identity=KEY, authority=KEY, keeps_state=False)
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
    async with asyncio.timeout(SECONDS):
        async for change in agent.changes:
            if is_so(change):
                return change
    pytest.fail("the agent ended")


def of(agent, *kinds):
    return lambda change: change.skill and change.skill.agent_id == agent.agent_id and change.kind in kinds


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
    monkeypatch.setattr("skillwire.adapters.lan.hints.present", lambda: ours)
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
    async with asyncio.timeout(SECONDS):
        await asyncio.wait([agent._hints._running])
    assert agent.notes == (MISSING,)


async def test_a_fault_ends_mdns_alone_and_is_said(agents, monkeypatch):
    async def fail(*_):
        raise RuntimeError("broken")

    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what["exception"]))
    monkeypatch.setattr("skillwire.adapters.lan.dnssd.DnsSd.publish", fail)
    agent = await agents()
    async with asyncio.timeout(SECONDS):
        await asyncio.wait([agent._hints._running])
    assert agent.notes == ("mDNS is off, since it failed: RuntimeError('broken')",)
    assert [str(fault) for fault in faults] == ["broken"]
    assert agent.snapshot().agent_id == agent.agent_id
