"""Who beats no more is asked for by its endpoint: one that answers is given more time, one that is closed is not."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import pkgutil
import socket

import pytest
from tests.support.loopback_lan import own_lan

import skillwire.adapters.lan
from skillwire.adapters.clock import moment
from skillwire.adapters.lan.agent import LanAgent
from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer

PATIENCE = 20.0
KEY = GroupKey(b"a secret that all of us share")


class Later:
    """The clock of every agent, put forward by hand."""

    def __init__(self, monkeypatch):
        self._seconds = 0.0
        for module in pkgutil.iter_modules(skillwire.adapters.lan.__path__, "skillwire.adapters.lan."):
            found = importlib.import_module(module.name)
            if hasattr(found, "moment"):
                monkeypatch.setattr(found, "moment", self)

    def __call__(self):
        now = moment()
        return now._replace(wall=now.wall + self._seconds, steady=now.steady + self._seconds)

    def pass_by(self, seconds, agent):
        """Let so much time pass, and an agent do what is due then."""
        self._seconds += seconds
        for link in agent._links:
            link.act()


@pytest.fixture
def later(monkeypatch):
    return Later(monkeypatch)


def agent(name, lan):
    settings = LanSettings(agent_id=name, interfaces=("127.0.0.1",), group=lan.group, port=lan.port, mdns=False)
    return LanAgent(settings, identity=KEY, authority=KEY, keeps_state=False)


def offer(skill_id, port):
    return Offer(skill_id, "1.0.0", SkillType.TOOL, Endpoint("", port), ("user-auth",), ("auth",))


def listed(registry):
    return {skill.skill_id: skill.status for skill in registry.snapshot().skills}


def excused(registry):
    """Return whose probe was answered."""
    [link] = registry._links
    return [listed.key[1] for listed in link.node.registry if listed.health.is_excused]


async def until(condition):
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - a probe that is answered tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.spec("SDP-health-probe")
async def test_who_beats_no_more_is_kept_for_longer_where_its_endpoint_takes_connections(later):
    lan = own_lan()
    async with agent("agent-registry", lan) as registry:
        with socket.create_server(("127.0.0.1", 0)) as there, closing_port() as closed:
            provider = agent("agent-provider", lan)
            await provider.start()
            provider.announce([offer("there", there.getsockname()[1]), offer("closed", closed)])
            await until(lambda: len(listed(registry)) == 2)
            provider._links.end()  # no goodbye: it hangs, and what it offers goes on or does not
            await provider.stop()

            later.pass_by(10.5, registry)  # two beats and a little: both are suspected, and probed
            await until(lambda: excused(registry) == ["there"])
            later.pass_by(5, registry)
            assert listed(registry) == {"there": "HEALTHY", "closed": "UNHEALTHY"}
            later.pass_by(12, registry)
            await until(lambda: excused(registry) == ["there"])
            assert listed(registry) == {"there": "UNHEALTHY", "closed": "UNHEALTHY"}
            later.pass_by(4, registry)
            assert listed(registry) == {"there": "UNHEALTHY"}
            later.pass_by(30, registry)
            assert listed(registry) == {}


@contextlib.contextmanager
def closing_port():
    """Give a port at which nobody listens, and which nobody else is given."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
