"""Who answers a discovery proves itself, and registers with who asked: a response names no agent, and is not signed."""

from __future__ import annotations

from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery.events import Discovered
from skillwire.wire.node import Peer


def test_who_asks_lists_what_the_answering_agent_offers():
    lan = Lan()
    lan.node("192.168.1.10", REGISTRY, OFFERS, ASKS)
    lan.offer("192.168.1.10", "skill-a")
    lan.offer("192.168.1.10", "skill-b")
    lan.run(20)
    lan.node("192.168.1.20", REGISTRY, ASKS)

    lan.do("192.168.1.20", lambda node, now: node.end_agent.discover(now, patience=0.6))
    lan.run(0.5)

    agent = "agent-192.168.1.10"
    assert lan.listed("192.168.1.20") == {(agent, "skill-a"): "HEALTHY", (agent, "skill-b"): "HEALTHY"}
    lan.run(0.2)
    [found] = lan.events(Discovered, "192.168.1.20")
    assert {one.record.skill_id for one in found.skills} == {"skill-a", "skill-b"}


def test_an_agent_without_a_registry_learns_who_answered_and_lists_nobody():
    lan = Lan()
    lan.node("192.168.1.10", REGISTRY, OFFERS)
    lan.offer("192.168.1.10", "skill-a")
    lan.run(20)
    asking = lan.node("192.168.1.20", ASKS)

    lan.do("192.168.1.20", lambda node, now: node.end_agent.discover(now))
    lan.run(3)

    assert not asking.gate.stopped
    assert not lan.listed("192.168.1.20")
    [discovered] = lan.events(Discovered, "192.168.1.20")
    [found] = discovered.skills
    assert (found.agent_id, found.is_verified) == ("agent-192.168.1.10", True)


def test_a_response_that_nobody_asked_for_is_challenged_by_nobody():
    lan = Lan()
    lan.node("192.168.1.10", REGISTRY, ASKS)
    before = lan.sent

    data = b"SKILL_DISCOVER_RESPONSE:somebody.1;skill-a|1.0.0|192.168.1.66:80||;1707868800000"
    lan.inject(data, Peer("192.168.1.66", 40_000), "192.168.1.10")
    lan.run(1)

    assert lan.sent == before
    assert lan.nodes["192.168.1.10"].gate.stopped["not for us"] == 1
