"""Agents on a network in memory, with virtual time: what they list, and which notices reach the user."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.virtual_lan import VirtualLan
from tests.support.virtual_time import VirtualTimeLoop, virtual_loop

from skillwire.adapters.lan import probes
from skillwire.adapters.lan.agent import EventRouter, LanAgent
from skillwire.model.execution import Moment
from skillwire.model.lan import LanChange, LanNotice, LanSkill
from skillwire.protocols.skill_discovery.events import GroupChanged
from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, GroupEvent, HealthStatus, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import LanSettings

KEY = GroupKey(b"a secret that all of us share")
JOINED, LEFT = GroupEvent.MEMBER_JOINED, GroupEvent.MEMBER_LEFT
STATUS, PRIMARY = GroupEvent.STATUS_CHANGED, GroupEvent.PRIMARY_CHANGED
SKILL = LanSkill("agent-a", "skill-a", "1.0.0", "tool-skill", "192.0.2.1", 80, scenes=("auth",), status="HEALTHY")


class Agents:
    """Agents that hear each other, each on a host of its own."""

    def __init__(self):
        self._lan = VirtualLan()
        self._running: list[LanAgent] = []

    async def start(self, number, *skills):
        agent = LanAgent(
            LanSettings(agent_id=f"agent-{number}", mdns=False),
            identity=KEY,
            authority=KEY,
            keeps_state=False,
            network=self._lan.host(f"192.168.1.{number}"),
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
def play(monkeypatch):
    """Give what plays a scenario with agents in virtual time; the endpoints of agents with a link answer a probe."""

    agents = Agents()

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

    monkeypatch.setattr(probes.Prober, "_connect", connect)
    return run


def listed(agent):
    return {skill.skill_id: skill.status for skill in agent.snapshot().skills}


def test_agents_list_what_the_others_offer_and_see_it_leave(play):
    async def scenario(start):
        registry, provider = await start(1), await start(2, "skill-a", "skill-b")
        await asyncio.sleep(1)
        assert listed(registry) == {"skill-a": "HEALTHY", "skill-b": "HEALTHY"}
        assert {skill.endpoint for skill in registry.snapshot().skills} == {"192.168.1.2:8080"}
        provider.report("skill-b", HealthStatus.MAINTENANCE, "new disks")
        await asyncio.sleep(1)
        assert listed(registry) == {"skill-a": "HEALTHY", "skill-b": "MAINTENANCE"}
        await provider.stop()
        assert listed(registry) == {}

    play(scenario)


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
            settings, identity=KEY, authority=KEY, keeps_state=False, network=network, clock=clock
        ) as agent:
            assert [one.code for one in agent.warnings] == codes
            assert [one.message for one in agent.warnings] == list(agent.notes)

    play(scenario)


@pytest.mark.spec("SDP-unregister-reason")
def test_a_goodbye_is_heard_long_before_the_silence_would_be_noticed(play):
    async def scenario(start):
        registry, provider = await start(1), await start(2, "skill-a")
        await asyncio.sleep(1)
        changes, began = registry.listen(), virtual_loop().moment().wall
        await provider.stop()
        change = await anext(changes)
        assert (change.kind, change.reason) == ("left", "shutdown")
        assert 0 <= change.at - began < 0.5

    play(scenario)


@pytest.mark.spec("SDP-health-silence")
def test_a_skill_without_heartbeats_is_unhealthy_after_three_and_removed_after_thirty_seconds(play):
    async def scenario(start):
        registry, provider = await start(1), await start(2, "skill-a")
        await asyncio.sleep(60)
        assert listed(registry) == {"skill-a": "HEALTHY"}
        provider._links.end()
        await asyncio.sleep(9)
        assert listed(registry) == {"skill-a": "HEALTHY"}
        await asyncio.sleep(8)
        assert listed(registry) == {"skill-a": "UNHEALTHY"}
        await asyncio.sleep(15)
        assert listed(registry) == {}

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


class Here:
    """An agent's router with one listed skill, and the changes that its user gets."""

    def __init__(self):
        self.skills = [SKILL]
        self.reported: list[LanChange] = []
        view: Any = SimpleNamespace(skill=self._skill, changed=lambda _: None, has_more=False)
        listeners: Any = SimpleNamespace(put=self.reported.append)
        nothing: Any = None
        self._router = EventRouter(view, None, nothing, nothing, listeners=listeners, on_trouble=lambda _: None)
        self._link: Any = SimpleNamespace(name="eth0/4", clock=lambda: Moment(1.0, 1.0))

    def _skill(self, key):
        return next((one for one in self.skills if (one.agent_id, one.skill_id) == key), None)

    def take(self, event, status="HEALTHY", agent="agent-a", scene="auth"):
        self._router.take(self._link, [GroupChanged(scene, "group", event, agent, "skill-a", HealthStatus(status))])

    def remove(self):
        """Have the skill leave."""
        self.skills = []
        listed: Any = SimpleNamespace(key=("agent-a", "skill-a"))
        self._router.take(self._link, [Change(ChangeKind.LEFT, listed, None)])


@pytest.fixture
def here():
    return Here()


@pytest.mark.spec("SDP-notice-hint")
@pytest.mark.parametrize("event", [JOINED, STATUS, PRIMARY, LEFT])
def test_a_notice_about_a_skill_that_is_heard_here_counts_for_nothing(here, event):
    here.take(event)
    assert here.reported == []


@pytest.mark.spec("SDP-notice-hint")
@pytest.mark.parametrize("event", [JOINED, STATUS, PRIMARY, LEFT])
def test_a_notice_about_a_skill_that_is_not_heard_here_is_a_hint(here, event):
    here.take(event, agent="agent-b")
    [change] = here.reported
    notice = LanNotice("auth", "group", str(event), "agent-b", "skill-a", "HEALTHY")
    assert (change.kind, change.notice, change.skill, change.scene) == ("notice", notice, None, None)


@pytest.mark.spec("SDP-notice-hint")
def test_that_a_skill_left_is_reported_once_by_its_own_goodbye(here):
    here.remove()
    here.take(LEFT)
    assert here.reported == []


@pytest.mark.spec("SDP-notice-hint")
def test_that_one_left_that_came_again_elsewhere_only_is_a_hint(here):
    here.remove()
    here.take(JOINED)
    here.take(LEFT)
    assert [change.notice.event for change in here.reported if change.notice] == [JOINED, LEFT]


@pytest.mark.spec("SDP-notice-hint")
def test_a_skill_that_is_here_and_in_another_scene_is_no_member(here):
    here.skills = [SKILL._replace(scenes=("paper",))]
    here.take(JOINED)
    assert [change.notice.event for change in here.reported if change.notice] == [JOINED]
