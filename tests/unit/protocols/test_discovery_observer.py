"""An observer lists what it hears, and says of nothing that it is not there."""

from __future__ import annotations

from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery.events import Discovered, SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.node import Role

OBSERVER = Role.OBSERVER


def want(lan, host, scene):
    lan.do(host, lambda node, now: node.end_agent.want_scene(scene, (), now, is_request=True))


def test_it_lists_what_it_hears():
    lan = Lan()
    lan.node("192.0.2.1", OFFERS, REGISTRY)
    lan.node("192.0.2.2", OBSERVER, ASKS)
    lan.offer("192.0.2.1", "skill-a")
    lan.run(2.0)
    assert lan.listed("192.0.2.2") == {("agent-192.0.2.1", "skill-a"): "HEALTHY"}


def test_it_does_not_tell_itself_or_others_that_a_scene_is_missing():
    lan = Lan()
    for host in ("192.0.2.1", "192.0.2.2"):
        lan.node(host, OBSERVER, ASKS)
    want(lan, "192.0.2.1", "auth")
    lan.run(5.0)
    assert [event.is_certain for event in lan.events(SceneMissing)] == [False]
    lan.node("192.0.2.3", REGISTRY)
    want(lan, "192.0.2.1", "auth")
    lan.run(5.0)
    assert [event.is_certain for event in lan.events(SceneMissing)] == [False, True]


def test_it_answers_nothing_of_what_it_lists():
    lan = Lan()
    lan.node("192.0.2.1", OBSERVER)
    lan.node("192.0.2.2", OFFERS)
    lan.node("192.0.2.3", ASKS)
    lan.offer("192.0.2.2", "skill-a")
    lan.run(2.0)
    assert lan.listed("192.0.2.1")
    lan.do("192.0.2.3", lambda node, now: node.end_agent.discover(now))
    want(lan, "192.0.2.3", "auth")
    lan.run(5.0)
    assert [event.skills for event in lan.events(Discovered)] == [()]
    assert not lan.events(SceneJoined)
