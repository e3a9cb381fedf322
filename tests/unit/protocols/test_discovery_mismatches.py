"""Who is set up otherwise is named, once; what it says is counted apart, and is heard no more than before."""

from __future__ import annotations

import pytest
from tests.support.certificates import NOW
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery.certified import ChainAuthority
from skillwire.protocols.skill_discovery.events import Unheard
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.mismatches import Mismatches
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

A, B, C = "192.168.1.100", "192.168.1.101", "192.168.1.102"
OURS, OTHER = GroupKey(b"a secret that all of us share"), GroupKey(b"a secret of somebody else's")


def own_key(agent_id):
    return {"identity": self_signed(agent_id, new_key(), NOW), "authority": ChainAuthority(Chain([], []))}


def network(others):
    """Let two agents and one that is set up otherwise speak for a while; return what each was told of whom."""
    lan = Lan()
    for host, options in ((A, {}), (B, {}), (C, others)):
        lan.node(host, REGISTRY, OFFERS, ASKS, **options)
        lan.offer(host, f"skill-at-{host.rpartition('.')[2]}")
    lan.run(30)
    return lan, {(host, event.by.host, event.said) for _, host, event in lan.told if isinstance(event, Unheard)}


@pytest.mark.spec("SDP-mismatch")
def test_another_profile_is_told_on_both_sides():
    lan, told = network({"profile": Profile.SIGNED})
    for host in (A, B):
        assert (host, C, "speaks the profile signed, and we open") in told
        assert (C, host, "speaks the profile open, and we signed") in told
        assert lan.nodes[host].gate.stopped["another profile"]
        assert not lan.nodes[host].gate.stopped["malformed"]
    assert len(told) == len(lan.events(Unheard))


@pytest.mark.spec("SDP-mismatch")
@pytest.mark.parametrize(
    ("others", "seen", "sees"),
    [
        (
            {"identity": OTHER, "authority": OTHER},
            "signs with another group key than we",
            "signs with another group key than we",
        ),
        (
            own_key("agent-192.168.1.102"),
            "signs with a key of its own, and we with a group key",
            "signs with a group key, and we have none",
        ),
    ],
)
def test_another_group_key_is_told_on_both_sides(others, seen, sees):
    lan, told = network(others)
    for host in (A, B):
        assert {(host, C, seen), (C, host, sees)} <= told
        assert lan.nodes[host].gate.stopped["another group key"]
        assert not lan.nodes[host].gate.stopped["forged"]
        assert {key[1] for key in lan.listed(host)} == {"skill-at-100", "skill-at-101"}
    assert len(told) == len(lan.events(Unheard))


@pytest.mark.spec("SDP-mismatch")
def test_made_up_hosts_are_told_of_no_more_than_16_times_and_rubbish_never():
    told: list[Unheard] = []
    mismatches = Mismatches(Profile.OPEN, has_group_key=True, tell=told.append)
    for number in range(1000):
        mismatches.of_forged("a" * 64, Peer(f"10.0.{number // 256}.{number % 256}", 1))
        assert mismatches.of_form(b"\xff" * 100, Peer(f"10.1.0.{number}", 1)) == "malformed"
        assert mismatches.of_form(b"UNKNOWN:1;2", Peer(f"10.1.0.{number}", 1)) == "malformed"
    assert len(told) == 16


def test_agents_that_are_set_up_alike_are_told_nothing():
    assert not network({})[1]
