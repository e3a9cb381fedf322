"""Agents on a network in memory, with virtual time: what they list."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.loopback_lan import given
from tests.support.virtual_lan import VirtualLan
from tests.support.virtual_time import VirtualTimeLoop, virtual_loop

from skillwire.adapters.lan.agent import ASKING, EventRouter, LanAgent
from skillwire.adapters.lan.probes import Prober
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.ingress import PeerMismatch
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, SkillType
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.wire.node import Peer

KEY = GroupKey(b"a secret that all of us share")


class Agents:
    """Agents that hear each other, each on a host of its own."""

    def __init__(self):
        self.lan = VirtualLan()
        self._running: list[LanAgent] = []

    async def start(self, number, *skills, roles=frozenset(Role)):
        agent = LanAgent(
            LanSettings(agent_id=f"agent-{number}", mdns=False),
            own=given(f"agent-{number}", KEY),
            keeps_state=False,
            roles=roles,
            network=self.lan.host(f"192.168.1.{number}"),
            clock=virtual_loop().moment,
        )
        agent.announce(
            [Offer(name, "1.0.0", SkillType.TOOL, Endpoint("", 8080), ("user-auth",), ("auth",)) for name in skills]
        )
        await agent.start()
        self._running.append(agent)
        return agent

    def is_reached(self, host):
        links = [link for agent in self._running for link in agent._links or ()]
        return any(link.is_open and link.address and link.address.host == host for link in links)

    async def stop(self):
        for agent in self._running:
            await agent.stop()


@pytest.fixture
def agents():
    return Agents()


@pytest.fixture
def play(monkeypatch, agents):
    """Give what plays a scenario with agents in virtual time; the endpoints of agents with a link answer a probe."""

    async def connect(_, host, __):
        return agents.is_reached(host) or None

    async def played(scenario):
        try:
            await scenario(agents.start)
        finally:
            await agents.stop()

    def run(scenario):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(played(scenario))

    monkeypatch.setattr(Prober, "_connect", connect)
    return run


def listed(agent):
    return {skill.skill_id: skill.status for skill in agent.snapshot().skills}


@pytest.mark.parametrize(
    ("host", "interfaces", "codes"),
    [("127.0.0.1", (), ["DISC_005"]), ("127.0.0.1", ("127.0.0.1",), []), ("192.168.1.9", (), [])],
)
def test_a_machine_without_an_interface_has_no_network(play, host, interfaces, codes):
    async def scenario(_):
        settings = LanSettings(agent_id="agent-9", mdns=False, interfaces=interfaces)
        network = VirtualLan().host(host)
        clock = virtual_loop().moment
        async with LanAgent(
            settings, own=given("agent-9", KEY), keeps_state=False, network=network, clock=clock
        ) as agent:
            assert [one.code for one in agent.warnings] == codes
            assert [one.message for one in agent.warnings] == list(agent.notes)

    play(scenario)


def joins_of(lan, host):
    """Return a list that the scenes are appended to which agents of ``host`` join, each with its time."""
    joins, carry = [], lan.carry

    def carry_and_note(data, source, to):
        if source.host == host and data.startswith(b"JOIN_SCENE:"):
            joins.append((virtual_loop().time(), data.split(b";")[1].decode()))
        carry(data, source, to)

    lan.carry = carry_and_note
    return joins


@pytest.mark.spec("SDP-register-flow")
def test_a_scene_is_joined_after_another_agent_has_acknowledged_the_skill(play, agents):
    async def scenario(start):
        joins = joins_of(agents.lan, "192.168.1.1")
        agents.lan.latencies["192.168.1.2", "192.168.1.1"] = 0.5
        await start(2)
        await start(1, "skill-a")
        began = virtual_loop().time()
        await asyncio.sleep(0.5)
        assert joins == []
        await asyncio.sleep(2)
        assert {scene for _, scene in joins} == {"auth"}
        assert joins[0][0] > began + 0.5

    play(scenario)


def test_an_agent_alone_joins_the_scenes_of_its_skills_when_another_one_comes(play, agents):
    async def scenario(start):
        joins = joins_of(agents.lan, "192.168.1.1")
        await start(1, "skill-a")
        await asyncio.sleep(5)
        assert joins == []
        await start(2)
        await asyncio.sleep(10)
        assert {scene for _, scene in joins} == {"auth"}

    play(scenario)


@pytest.mark.spec("SDP-scene-failover")
def test_a_scene_is_requested_and_its_backup_takes_over(play):
    async def scenario(start):
        first, _, asks = await start(1, "skill-a"), await start(2, "skill-b"), await start(3)
        await asyncio.sleep(1)
        result = await asks.request_scene("auth", ["user-auth"])
        assert (result.group_id, result.connection_info["endpoint"]) == ("group-auth-001", "192.168.1.1:8080")
        first._links.end()
        await asyncio.sleep(20)
        assert (await asks.request_scene("auth")).connection_info["endpoint"] == "192.168.1.2:8080"

    play(scenario)


@pytest.mark.parametrize("status", [HealthStatus.HEALTHY, HealthStatus.DEGRADED])
def test_the_primary_of_a_scene_is_waited_for_though_a_backup_registered_before_it(play, agents, status):
    async def scenario(start):
        first = await start(1, "skill-a")
        await asyncio.sleep(1)
        await start(2, "skill-b")
        await asyncio.sleep(3)
        first.report("skill-a", status, "")
        agents.lan.latencies["192.168.1.1", "192.168.1.3"] = 60
        asks = await start(3, roles=frozenset({Role.OBSERVER, Role.END_AGENT}))
        await asyncio.sleep(6)
        assert listed(asks) == {"skill-b": "HEALTHY"}
        agents.lan.latencies["192.168.1.1", "192.168.1.3"] = 0.05
        result = await asks.request_scene("auth")
        assert [(member.skill_id, member.role) for member in result.members] == [
            ("skill-a", "PRIMARY"),
            ("skill-b", "BACKUP"),
        ]
        assert result.connection_info["endpoint"] == "192.168.1.1:8080"

    play(scenario)


def test_an_agent_that_has_just_started_has_the_primary_of_those_that_knew_who_came_first(play):
    async def scenario(start):
        await start(2, "skill-b")
        await asyncio.sleep(8)
        await start(1, "skill-a")
        await asyncio.sleep(8)
        asks = await start(3, roles=ASKING)
        await asks.discover()
        assert primary(asks) == "skill-a", "by name"
        await asks.adopt_group_orders()
        assert primary(asks) == "skill-b"
        assert list((await asks.group_orders(["auth"]))["auth"]) == [("agent-2", "skill-b"), ("agent-1", "skill-a")]

    play(scenario)


def primary(agent):
    return agent.snapshot().scenes[0].members[0].skill_id


def test_a_host_that_is_ignored_at_both_of_its_addresses_is_one_warning():
    told: list[str] = []
    view: Any = SimpleNamespace(has_more=False)
    nothing: Any = None
    router = EventRouter(view, None, nothing, nothing, on_trouble=lambda error: told.append(error.message))
    differences = "speaks the profile open, and we signed", "signs with a group key, and we have none"
    for host, difference in (("fd00::1", 0), ("192.168.1.1", 0), ("fd00::2", 1), ("192.168.1.1", 0)):
        router.take(nothing, [PeerMismatch(Peer(host, len(told)), differences[difference])])
    assert [one.message.partition(" ")[0] for one in router.warnings] == ["192.168.1.1", "fd00::2"]
    assert len(told) == 3, "the log has every address"
