"""An agent that is certified later, or has another key by now, and one that was certified and is not any more."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.authorities import World
from tests.support.certificates import NOW, serial
from tests.support.lan import OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery.certified import UNVERIFIED_SECONDS
from skillwire.protocols.skill_discovery.listing import Change, What
from skillwire.testing.virtual_clock import EPOCH
from skillwire.trust.certificate_requests import Names
from skillwire.trust.ecdsa import EcdsaIdentity, new_key, self_signed

R, A = "192.168.1.1", "192.168.1.7"


def own(key=None, at=NOW):
    return self_signed("agent-001", key or new_key(), at)


@pytest.fixture
def world():
    return World(EPOCH)


@pytest.fixture
def lan(world):
    lan = Lan()
    lan.node(R, REGISTRY, agent_id="registry", identity=world.identity("registry"), authority=world.authority())
    return lan


def join(lan, world, identity):
    """Start agent-001 with one skill, and let it be heard."""
    lan.node(A, OFFERS, agent_id="agent-001", identity=identity, authority=world.authority())
    lan.offer(A, "skill-a")
    lan.run(3)


def verified(lan):
    return {listed.registration.skill_id: listed.is_verified for listed in lan.nodes[R].registry}


def test_who_is_certified_while_it_runs_is_verified_soon(lan, world):
    identity = own()
    join(lan, world, identity)
    assert verified(lan) == {"skill-a": False}
    identity.certificate = world.center.issue(Names(("agent-001",)), identity.key.public_key(), EPOCH)
    lan.run(UNVERIFIED_SECONDS + 120)
    assert verified(lan) == {"skill-a": True}
    assert not [event for event in lan.events(Change, R) if event.what in {What.EVICTED, What.LEFT}]


def test_who_comes_back_with_another_key_is_believed_when_it_may_be(lan, world):
    """It lost its key, and has another one, which nobody certified: as long as nothing of it is listed."""
    join(lan, world, own())
    lan.crash(A)
    lan.run(40)
    assert verified(lan) == {}
    join(lan, world, own(at=NOW + timedelta(seconds=43)))
    assert verified(lan) == {"skill-a": False}


def test_who_is_certified_takes_the_place_of_who_is_not_at_once(lan, world):
    join(lan, world, own())
    lan.crash(A)
    join(lan, world, world.identity("agent-001"))
    assert verified(lan) == {"skill-a": True}


@pytest.mark.spec("SDP-key-stays")
def test_nobody_takes_the_place_of_who_is_certified(lan, world):
    join(lan, world, world.identity("agent-001"))
    lan.crash(A)
    stopped = lan.nodes[R].gate.stopped
    for other in (
        own(),
        world.identity("agent-001"),
        EcdsaIdentity(new_key(), world.identity("agent-001").certificate),
    ):
        lan.node("192.168.1.66", OFFERS, agent_id="agent-001", identity=other, authority=world.authority())
        lan.offer("192.168.1.66", "skill-x")
        lan.run(2)
        lan.crash("192.168.1.66")
        assert verified(lan) == {"skill-a": True}
    assert stopped["forged"] > 0


@pytest.mark.spec("SDP-revocation")
@pytest.mark.spec("SDP-certificate-chain")
def test_who_is_revoked_is_forgotten_when_it_is_known_and_refused_when_it_comes(lan, world):
    identity = world.identity("agent-001")
    join(lan, world, identity)
    assert verified(lan) == {"skill-a": True}
    world.revocations.take(world.revoke(serial(identity)), EPOCH)
    lan.do(R, lambda node, now: node.review(now))
    assert verified(lan) == {}
    assert [event.what for event in lan.events(Change, R)][-1] is What.EVICTED
    lan.run(180)
    assert verified(lan) == {}
    assert lan.nodes[R].gate.stopped["certificate"] > 0
