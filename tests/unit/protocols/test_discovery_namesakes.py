"""Two agents with one name and two keys: each is told, and none is told of itself."""

from __future__ import annotations

import pytest
from tests.support.certificates import NOW, center, root
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery.certified import ChainAuthority
from skillwire.protocols.skill_discovery.events import NameTaken
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed

AUTHORITY = ChainAuthority(Chain([root().certificate], [center().certificate]))
A, B = "192.168.1.100", "192.168.1.101"


def own(agent_id):
    return self_signed(agent_id, new_key(), NOW)


def network(name_of_b, of_a, of_b):
    lan = Lan()
    for host, name, identity in ((A, "agent-x", of_a), (B, name_of_b, of_b)):
        lan.node(host, REGISTRY, OFFERS, ASKS, agent_id=name, identity=identity, authority=AUTHORITY)
        lan.offer(host, f"skill-at-{host.rpartition('.')[2]}")
        lan.run(3)
    return lan


@pytest.mark.parametrize("is_certified", [False, True])
def test_who_has_our_name_with_another_key_is_told(is_certified):
    of_a = center().issue(agents=["agent-x"]) if is_certified else own("agent-x")

    lan = network("agent-x", of_a, own("agent-x"))

    told = {(host, event.by.host) for _, host, event in lan.told if isinstance(event, NameTaken)}
    assert (B, A) in told
    assert {event.agent_id for event in lan.events(NameTaken)} == {"agent-x"}
    assert not {(A, A), (B, B)} & told
    if not is_certified:
        assert (A, B) in told


def test_nobody_is_told_of_another_name_or_of_the_same_key():
    assert not network("agent-y", own("agent-x"), own("agent-y")).events(NameTaken)
    key = own("agent-x")
    assert not network("agent-x", key, key).events(NameTaken)
