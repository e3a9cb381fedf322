"""What is left of an agent that could not start, and what is counted of a link that is forgotten."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from skillwire.adapters.lan import agent as agent_module
from skillwire.adapters.lan import interfaces
from skillwire.adapters.lan.agent import LanAgent
from skillwire.errors import FetchError
from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

KEY = GroupKey(b"a secret that all of us share")
GROUP = "239.255.83.71"
OFFER = Offer("skill-a", "1.0.0", SkillType.TOOL, Endpoint("", 8080), ("user-auth",), ("auth",))


def agent_at(**settings):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    place = {"group": GROUP, "port": port, "interfaces": ("127.0.0.1",), "agent_id": "agent-a"}
    return LanAgent(LanSettings(**{"mdns": False} | place | settings), identity=KEY, authority=KEY, keeps_state=False)


def timers():
    """Return what the loop is about to call of ours."""
    loop = asyncio.get_running_loop()
    handles = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]  # of asyncio's own loops
    return [handle for handle in handles if "skillwire" in repr(handle)]


async def test_an_agent_that_cannot_look_at_interfaces_leaves_no_timer(monkeypatch):
    def fail():
        raise FetchError("LAN_UNAVAILABLE", "a library is missing")

    monkeypatch.setattr(interfaces, "present", fail)
    with pytest.raises(FetchError):
        await agent_at().start()
    assert timers() == []


async def test_an_agent_that_fails_after_its_links_are_open_closes_them(monkeypatch):
    opened = []

    def fail(_, __, links):
        opened.extend(links.open_links())
        raise RuntimeError

    monkeypatch.setattr(agent_module, "Hints", fail)
    agent = agent_at(mdns=True)
    agent.announce([OFFER])
    with pytest.raises(RuntimeError):
        await agent.start()
    [link] = opened
    assert not link.is_open
    assert timers() == []
    await agent.stop()  # as one that has never begun


async def test_why_a_link_cannot_be_opened_is_told_with_its_name_and_counted_without(monkeypatch):
    def fail(*_):
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr("skillwire.adapters.lan.links.LinkSockets", fail)
    agent = agent_at()
    with pytest.raises(FetchError) as caught:
        await agent.start()
    assert "open lo/4: EADDRINUSE" in caught.value.message
    assert agent.counters == {"open: EADDRINUSE": 1}


async def test_what_is_counted_does_not_become_less_when_a_link_is_forgotten(monkeypatch):
    agent = agent_at(figures=DiscoverySettings(stale=-1.0))
    await agent.start()
    try:
        assert agent._links is not None
        [link] = agent._links
        link.driver.received = 7
        link.node.gate.stopped["forged"] = 2
        monkeypatch.setattr(interfaces, "present", list)
        agent._links.look()  # which closes it
        agent._links.look()  # and forgets it
        assert list(agent._links) == []
        assert agent.received == 7
        assert agent.counters["forged"] == 2
    finally:
        await agent.stop()


async def test_an_interface_that_goes_and_comes_is_told_once_each(monkeypatch, caplog):
    caplog.set_level("INFO", "skillwire.lan")
    agent = agent_at()
    await agent.start()
    try:
        assert agent._links is not None
        assert "interface" not in caplog.text
        with monkeypatch.context() as unplugged:
            unplugged.setattr(interfaces, "present", list)
            agent._links.look()
            agent._links.look()
        agent._links.look()
        agent._links.look()
        told = [message for message in caplog.messages if "interface" in message]
        assert told == ["lo/4: the interface is gone", "lo/4: the interface is there again"]
    finally:
        await agent.stop()


async def test_a_link_that_is_used_no_more_is_told_in_the_right_words(monkeypatch, caplog):
    caplog.set_level("INFO", "skillwire.lan")
    agent = agent_at()
    await agent.start()
    try:
        assert agent._links is not None
        [link] = agent._links
        loopback = link.address
        for address in (loopback, loopback._replace(host="192.0.2.1")):
            with monkeypatch.context() as elsewhere:
                link.address = address
                elsewhere.setattr(interfaces, "links", lambda *_, **__: [])
                agent._links.look()
            agent._links.look()
        told = [message for message in caplog.messages if "again" not in message]
        assert told == [
            "lo/4: not needed any more, there is a network",
            "lo/4: its address of IPv4 is gone, or not used any more",
        ]
        caplog.clear()
        monkeypatch.setattr(interfaces, "links", lambda *_, **__: [loopback, loopback._replace(interface="lo2")])
        agent._links.look()
        assert "lo2/4: takes part from now on, at 127.0.0.1" in caplog.messages
    finally:
        await agent.stop()
