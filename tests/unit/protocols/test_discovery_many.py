"""Agents with very many skills: whoever starts later learns all of them soon, and a goodbye of all acts soon."""

import pytest
from tests.support.certificates import NOW
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan
from tests.unit.protocols.test_discovery_trust import AUTHORITY

from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.messages import Outcome, Reason
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.pacing import Line
from skillwire.testing.virtual_clock import EPOCH
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

PUBLISHER, LATER = "10.0.0.1", "10.0.0.2"
#: What `serve --lan` is, and what `skillwire lan` is.
SERVES, LOOKS = (REGISTRY, OFFERS, ASKS), (ASKS, Role.OBSERVER)


def start(lan, host, *roles):
    """Start an agent with a key of its own, which nobody certified."""
    name = f"agent-{host}"
    lan.node(host, *roles, agent_id=name, identity=self_signed(name, new_key(), NOW), authority=AUTHORITY)


def published(skills, seconds, **options):
    """Return a network with an agent that has offered very many skills for a while."""
    lan = Lan(seed=3, **options)
    start(lan, PUBLISHER, *SERVES)
    for number in range(skills):
        lan.offer(PUBLISHER, f"thing-{number}", capabilities=(f"capability-{number}",), scenes=())
    lan.run(seconds)
    return lan


def healthy(lan, host):
    return list(lan.listed(host).values()).count("HEALTHY")


@pytest.mark.spec("SDP-heartbeat-unknown")
@pytest.mark.parametrize("roles", [LOOKS, SERVES], ids=["looks", "serves"])
@pytest.mark.parametrize(("skills", "seconds", "loss"), [(300, 3, 0.0), (1000, 8, 0.0), (300, 15, 0.3)])
def test_who_starts_later_lists_every_skill_of_an_agent_with_very_many(skills, seconds, loss, roles):
    lan = published(skills, 30)
    lan.loss = loss
    start(lan, LATER, *roles)
    lan.run(seconds)
    lan.loss = 0.0
    lan.run(6 if loss else 0)  # beats that were lost are no matter of this
    assert healthy(lan, LATER) == skills


@pytest.mark.spec("SDP-register-flow")
def test_who_is_there_when_a_thousand_skills_are_offered_lists_all_of_them():
    lan = Lan(seed=3)
    start(lan, LATER, *SERVES)
    start(lan, PUBLISHER, *SERVES)
    for number in range(1000):
        lan.offer(PUBLISHER, f"thing-{number}", capabilities=(), scenes=())
    lan.run(20)
    assert healthy(lan, LATER) == 1000


@pytest.mark.spec("SDP-unregister-at-once")
@pytest.mark.parametrize(("skills", "seconds"), [(300, 1.0), (1000, 2.5)])
def test_a_goodbye_of_very_many_skills_acts_soon(skills, seconds):
    lan = published(skills, 20)
    start(lan, LATER, *LOOKS)
    lan.run(10)
    assert healthy(lan, LATER) == skills
    node = lan.nodes[PUBLISHER]
    lan.do(PUBLISHER, lambda node, now: node.route_agent.close(Reason.SHUTDOWN, now))
    assert node.route_agent.is_leaving
    lan.run(seconds)
    assert lan.listed(LATER) == {}
    lan.run(5)
    assert not node.route_agent.is_leaving, "each was said three times by now"


@pytest.mark.spec("SDP-rate-bound")
def test_who_has_shown_no_key_is_read_20_times_a_second_whatever_it_calls_its_datagrams():
    lan = published(300, 20)
    start(lan, LATER, *SERVES)
    gate = lan.nodes[LATER].gate
    stranger = Peer("10.0.0.66", 9)
    at = int(EPOCH * 1000)
    words = [
        m.Heartbeat("nobody", "skill", m.HealthStatus.HEALTHY, at, "AAAA"),
        m.Register("nobody", "skill", "1.0.0", m.SkillType.TOOL, m.Endpoint(stranger.host, 1), (), (), at, "AAAA"),
        m.ChallengeResponse("nobody", bytes(32), b"x", at, "AAAA"),
        m.RegisterAck("agent-10.0.0.2", Outcome.SUCCESS, "skill registered", at),
        m.UnregisterAck("agent-10.0.0.2", "skill", Outcome.SUCCESS, at),
    ]
    before = gate.stopped["rate"]
    for _ in range(10):
        for word in words:
            for _ in range(100):
                lan.inject(encode(word), stranger, LATER)
        lan.run(1)
    passed = 10 * 500 - (gate.stopped["rate"] - before)
    assert passed <= 2 * (60 + 10 * 20), "proofs of its own challenge have as much again"


def test_an_answer_lets_two_more_go_and_silence_leaves_the_pace_of_strangers():
    line = Line(pace=16, most=200, burst=30)
    went, now = 0, 100.0
    while line.free(now) <= now:
        line.take(now)
        went += 1
    assert went in {30, 31}
    assert 0 < line.free(now) - now <= 1 / 16
    line.answered()
    now += 0.01
    assert line.free(now) <= now
    for _ in range(1000):
        line.answered()
    went = 0
    while line.free(now) <= now:
        line.take(now)
        went += 1
    assert went <= 32, "no more than the bound allows, however many are answered"
