"""An agent whose certificate was taken back, and who comes back with one by its own key; a CA that was taken back."""

import pytest
from tests.support.authorities import World
from tests.support.certificates import NOW, serial
from tests.support.datagrams import registration
from tests.support.lan import OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.identity import Judgement, Standing
from skillwire.protocols.skill_discovery.messages import Endpoint, Outcome
from skillwire.protocols.skill_discovery.node import Refused
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import RequestedNames, certificate_pem
from skillwire.trust.ecdsa import EcdsaKey, new_key, self_signed
from skillwire.wire.node import Peer

R, A, B = "192.168.1.1", "192.168.1.7", "192.168.1.8"


def own(name="agent-001", key=None):
    return self_signed(name, key or new_key(), NOW)


@pytest.fixture
def world():
    return World(EPOCH)


@pytest.fixture
def lan(world):
    lan = Lan()
    lan.node(R, REGISTRY, agent_id="registry", identity=world.identity("registry"), authority=world.authority())
    return lan


def join(lan, world, identity, agent="agent-001", host=A):
    """Start an agent with one skill, and let it be heard; return who is listed there: skill → verified."""
    lan.node(host, OFFERS, agent_id=agent, identity=identity, authority=world.authority())
    lan.offer(host, f"skill-{host[-1]}")
    lan.run(3)
    return verified(lan)


def verified(lan):
    return {listed.registration.skill_id: listed.is_verified for listed in lan.nodes[R].registry}


def learn(lan, world, data):
    """Let the registry learn a list, as its driver does."""
    assert world.revocations.take(data, EPOCH)
    lan.do(R, lambda node, now: node.review(now))


@pytest.mark.spec("SDP-revoked-key")
@pytest.mark.parametrize("is_told", [True, False], ids=["a list that says it", "a list of numbers alone"])
@pytest.mark.parametrize("name", ["agent-001", "agent-009"])
def test_who_was_revoked_does_not_come_back_by_the_same_key(lan, world, is_told, name):
    identity = world.identity("agent-001")
    assert join(lan, world, identity) == {"skill-7": True}
    learn(lan, world, world.revoke(identity if is_told else serial(identity)))
    assert verified(lan) == {}
    lan.crash(A)
    assert join(lan, world, own(name, identity.key), name) == {}
    assert lan.nodes[R].ingress.stopped["certificate"] > 0


@pytest.mark.spec("SDP-revoked-key")
def test_who_was_revoked_before_anybody_saw_it_is_refused_by_its_key(lan, world):
    identity = world.identity("agent-001")
    learn(lan, world, world.revoke(identity))
    assert join(lan, world, own("agent-009", identity.key), "agent-009") == {}


@pytest.mark.spec("SDP-revoked-name")
def test_nobody_has_a_name_that_was_taken_back_by_his_own_word(lan, world):
    identity = world.identity("agent-001")
    join(lan, world, identity)
    learn(lan, world, world.revoke(identity))
    lan.crash(A)
    assert join(lan, world, own()) == {}
    lan.crash(A)
    assert join(lan, world, own("agent-002"), "agent-002", B) == {"skill-8": False}
    assert join(lan, world, world.identity("agent-001")) == {"skill-7": True, "skill-8": False}


def test_who_was_revoked_is_named_at_its_address_until_it_has_another_certificate(lan, world):
    identity = world.identity("agent-001")
    learn(lan, world, world.revoke(identity))
    assert join(lan, world, identity) == {}
    revoked = lan.nodes[R].ingress.revoked
    assert [(at.host, agent) for at, agent in revoked.items()] == [(A, "agent-001")]
    (refused,) = lan.events(Refused)
    assert refused.reason == "the certificate is refused: its key was revoked"
    lan.crash(A)
    assert join(lan, world, world.identity("agent-001")) == {"skill-7": True}
    assert revoked == {}


@pytest.mark.spec("SDP-revoked-name")
@pytest.mark.parametrize("is_same_key", [True, False])
def test_who_is_listed_unverified_is_forgotten_when_the_list_comes(lan, world, is_same_key):
    identity = world.identity("agent-001")
    assert join(lan, world, own("agent-001", identity.key if is_same_key else None)) == {"skill-7": False}
    learn(lan, world, world.revoke(identity))
    assert verified(lan) == {}
    lan.run(60)
    assert verified(lan) == {}


@pytest.mark.spec("SDP-authority-revocation")
def test_of_a_revoked_authority_nobody_is_left_and_all_come_back_under_the_new_one(lan, world):
    identities = {"agent-001": (A, world.identity("agent-001")), "agent-002": (B, world.identity("agent-002"))}
    for name, (host, identity) in identities.items():
        join(lan, world, identity, name, host)
    assert verified(lan) == {"skill-7": True, "skill-8": True}
    first = world.center.certificate
    learn(lan, world, world.renew() + world.revoke())
    assert verified(lan) == {"skill-7": True, "skill-8": True}

    learn(lan, world, world.revoke_center(first))
    assert verified(lan) == {}
    lan.run(20)
    assert verified(lan) == {}

    for name, (_, identity) in identities.items():
        identity.certificate = world.center.issue(RequestedNames((name,)), identity.key.public_key(), EPOCH)
    lan.run(20)
    assert verified(lan) == {"skill-7": True, "skill-8": True}
    assert certificate_pem(world.center.certificate) in world.revocations.pem()


@pytest.mark.spec("SDP-revoked-name")
def test_a_hint_in_a_name_that_was_taken_back_counts_for_nothing(lan, world):
    """Who signs nothing at all has no more than who signs by his own word."""

    def hint(agent):
        message = registration(agent, endpoint=Endpoint(A, 8080))
        return lan.do(R, lambda node, now: node.hint(message, A, now))

    assert hint("agent-001")
    assert hint("agent-002")
    learn(lan, world, world.revoke(world.identity("agent-001")))
    assert {listed.key[0] for listed in lan.nodes[R].registry} == {"agent-002"}
    assert not hint("agent-001")
    assert join(lan, world, world.identity("agent-001"))["skill-7"]


class Name(str):
    """The name of an agent, which counts how often any of them is looked up or compared."""

    __slots__ = ()
    looks = 0

    def __hash__(self):
        Name.looks += 1
        return super().__hash__()

    def __eq__(self, other):
        Name.looks += 1
        return super().__eq__(other)


@pytest.mark.spec("SDP-authority-revocation")
def test_thousands_of_agents_that_are_revoked_at_once_are_forgotten_in_one_pass(lan):
    """The loop has nothing else to do meanwhile, so the work must not grow with their square."""
    node, now = lan.nodes[R], lan.moment(R)
    is_revoked, key = False, EcdsaKey(new_key().public_key())

    def join(number, *, of_revoked):
        agent = Name(f"agent-{number}")
        judgement = Judgement(
            key,
            Standing.CERTIFIED,
            frozenset({agent}),
            is_revoked=(lambda: is_revoked) if of_revoked else (lambda: False),
        )
        peer = Peer(f"10.1.{number >> 8}.{number & 255}", 40_000)
        assert not node.ring.learn(agent, judgement, peer, now.steady)
        message = registration(agent, f"skill-{number}")
        status, _ = node.registry.register(message, now.steady, is_verified=True, host=peer.host)
        assert status is Outcome.SUCCESS
        return agent, peer

    revoked = [join(number, of_revoked=True) for number in range(4000)]
    others = [join(number, of_revoked=False) for number in range(4000, 4050)]
    node.registry.changes()
    is_revoked, Name.looks = True, 0
    node.review(now)

    assert Name.looks < 100 * len(revoked)
    assert sorted(listed.key[0] for listed in node.registry) == sorted(agent for agent, _ in others)
    told = [one for one in node.events(now) if isinstance(one, Change)]
    assert len(told) == len(revoked)
    assert {(one.kind, one.reason) for one in told} == {(ChangeKind.EVICTED, "revoked")}
    for agent, peer in revoked:
        assert node.ring.judgement_of(agent, now.wall) is None
        assert node.ring.agent_at(peer, now.steady) is None
        assert not node.registry.count_of_agent(agent)
    for agent, peer in others:
        assert node.ring.judgement_of(agent, now.wall) is not None
        assert node.ring.agent_at(peer, now.steady) == agent
    assert [one.key[0] for one in node.registry.providers("auth", 2)] == [others[0][0], others[1][0]]
    lan.run(1)
