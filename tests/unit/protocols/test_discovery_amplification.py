"""What goes to an address that nobody has proven to be at: little, whatever was made up to come from there."""

import pytest
from tests.support.certificates import NOW, center, root
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.certified import ChainAuthority
from skillwire.protocols.skill_discovery.challenge import challenge_text
from skillwire.protocols.skill_discovery.codec import decode, encode
from skillwire.protocols.skill_discovery.identity import Identity
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillRecord
from skillwire.testing.virtual_clock import EPOCH
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

A, C, VICTIM = "192.168.1.10", "192.168.1.20", Peer("192.168.1.99", 9)
AT = int(EPOCH * 1000)
AUTHORITY = ChainAuthority(Chain([root().certificate], [center().certificate]))
#: Of a nonce by another's rule, which names no datagram: all of it is random.
OTHER_RULE = bytes(range(32))


def sent_from(lan, host):
    """Return what a host sends from now on, as it does, with where it goes."""
    found: list[tuple[Peer | None, bytes]] = []
    send = lan._send

    def keep(sender, datagram):
        send(sender, datagram)
        if sender.peer.host == host:
            found.append((datagram.to, datagram.data))

    lan._send = keep
    return found


def challenge(lan, host, *sources, nonce=OTHER_RULE):
    """Let agents at ``sources`` challenge an agent; return what they are answered."""
    sent = sent_from(lan, host)
    for number, source in enumerate(sources):
        lan.inject(encode(m.Challenge(f"registry-{number}", nonce, AT)), source, host)
    lan.run(0.5)
    return [(to, decode(data)) for to, data in sent if to in sources]


def offering(identity: Identity | None = None):
    """Return a network on which one agent has just registered a skill."""
    lan = Lan()
    lan.node(A, OFFERS, agent_id="agent-a", identity=identity or self_signed("agent-a", new_key(), NOW))
    lan.offer(A, "skill-a")
    lan.run(0.2)
    return lan


@pytest.mark.spec("SDP-amplification")
@pytest.mark.parametrize("length", [1, 60])
@pytest.mark.parametrize("what", ["discovery", "scene"])
def test_who_is_said_to_have_answered_is_asked_within_three_times_the_answer(what, length):
    lan = Lan()
    lan.node(C, ASKS, agent_id="asker")
    sent = sent_from(lan, C)
    if what == "discovery":
        request = lan.do(C, lambda node, now: node.end_agent.discover(now))
        record = SkillRecord("s" * length, "1.0.0", Endpoint(VICTIM.host, 80), (), ())
        forged = encode(m.DiscoverResponse(request, (record,), AT))
    else:
        lan.do(C, lambda node, now: node.end_agent.want_scene("auth", (), now, is_request=True))
        info = m.ConnectionInfo("http", VICTIM.host, 80, endpoint=f"{VICTIM.host}:80")
        told = m.SceneAnswer("auth-001", "group-auth-001", info, m.SkillInfo("s" * length, "1.0.0"))
        forged = encode(m.SceneJoinResponse("asker", told, AT))
    lan.run(0.1)
    lan.inject(forged, VICTIM, C)
    lan.run(30)
    asked = [data for to, data in sent if to == VICTIM]
    assert asked
    assert sum(map(len, asked)) <= 3 * len(forged)
    assert not lan.nodes[C].gate.witnesses._asked


@pytest.mark.spec("SDP-answer-proof")
def test_where_somebody_has_proven_to_be_is_asked_as_often_as_loss_demands():
    lan = Lan()
    lan.node(A, REGISTRY, OFFERS)
    lan.offer(A, "a")
    lan.node(C, ASKS, agent_id="asker-with-a-name-of-some-length")
    lan.do(C, lambda node, now: node.end_agent.discover(now))
    lan.run(3)
    source = lan._hosts[A].peer
    assert lan.nodes[C].ring.agent_at(source, lan.clock.steady)
    request = lan.do(C, lambda node, now: node.end_agent.discover(now))
    lan.crash(A)
    sent = sent_from(lan, C)
    answer = encode(m.DiscoverResponse(request, (SkillRecord("b", "1.0.0", Endpoint(A, 80), (), ()),), AT))
    lan.inject(answer, source, C)
    lan.run(2)
    assert len([data for to, data in sent if to == source]) == 5


@pytest.mark.spec("SDP-amplification")
def test_a_nonce_that_names_nothing_is_answered_to_one_host_three_times_in_ten_seconds():
    lan = offering()
    ports = [VICTIM._replace(port=port) for port in range(1, 41)]
    assert len(challenge(lan, A, *ports)) == 3
    assert challenge(lan, A, *ports) == []
    lan.offer(A, "skill-b")
    lan.run(4)
    assert len(challenge(lan, A, *ports)) == 1, "one more after a third of the time"


@pytest.mark.spec("SDP-amplification")
def test_nonces_that_name_nothing_use_up_half_of_the_proofs_and_leave_the_rest(monkeypatch):
    monkeypatch.setattr(limits, "LAN_SOURCES", 8)
    lan = offering()
    crowd = [Peer(f"10.0.{number}.1", 5) for number in range(200)]
    assert 32 <= len(challenge(lan, A, *crowd)) <= 34
    assert len(lan.nodes[A]._outbox._guesses) <= 8
    named = bytes(16) + next(reversed(lan.nodes[A]._outbox._sent))[:16]
    assert 32 <= len(challenge(lan, A, *crowd, nonce=named)) <= 44, "and these have a bound, too"


@pytest.mark.spec("SDP-authentication-flow")
def test_a_registry_by_another_rule_is_answered_when_it_first_asks():
    identity = center().issue(agents=["agent-a"])
    lan = offering(identity)
    digest = next(reversed(lan.nodes[A]._outbox._sent))
    ((_, proof),) = challenge(lan, A, VICTIM)
    assert isinstance(proof, m.ChallengeResponse)
    assert proof.nonce == OTHER_RULE
    text = challenge_text("registry-0", "agent-a", OTHER_RULE, digest)
    judgement = AUTHORITY.judge("agent-a", proof.certificate, EPOCH)
    assert judgement is not None
    assert judgement.key.verifies(text, proof.signature)


@pytest.mark.spec("SDP-amplification")
@pytest.mark.parametrize("length", [1, 40, 128])
def test_however_long_our_name_is_a_question_is_answered_and_challenged_within_three_times_its_size(length):
    lan = Lan()
    lan.node(A, REGISTRY, OFFERS, agent_id="a" * length)
    for number in range(30):
        lan.offer(A, f"skill-{number}")
    lan.run(5)
    sent = sent_from(lan, A)
    question = encode(m.Discover("x", (), (), (), AT))
    lan.inject(question, VICTIM, A)
    lan.run(2)
    told = [data for to, data in sent if to == VICTIM]
    assert bool(told) is (length == 1)
    assert sum(map(len, told)) <= 3 * len(question)
