"""How many datagrams are read from one source, whether they come at once or over time."""

from random import Random

import pytest
from tests.support.certificates import NOW, center, root
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode, encode, encode_signed
from skillwire.protocols.skill_discovery.identity import ChainAuthority, Identity
from skillwire.protocols.skill_discovery.ingress import challenge_text
from skillwire.protocols.skill_discovery.limits import AmplificationLimit, BoundedDict, RateLimits, ReportLimit
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillRecord
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.scheduling import TimerQueue
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

HOST = "192.168.1.66"
SETTINGS = DiscoverySettings()
BEAT = b"SKILL_HEARTBEAT:agent-1;skill-1;HEALTHY;1;QUJD"


def read(rates, now, count=10_000, data=BEAT):
    """Return how many of so many datagrams are read that come at once."""
    return sum(rates.allows(HOST, data, now) for _ in range(count))


@pytest.mark.spec("SDP-rate-bound")
def test_a_burst_is_read_and_then_twenty_a_second():
    rates = RateLimits(SETTINGS, lambda _: 0)
    assert read(rates, 0.0) == 60
    assert read(rates, 0.0) == 0
    assert read(rates, 1.0) == 20
    assert sum(read(rates, 2 + number / 100, 10) for number in range(500)) == pytest.approx(20 * 6, abs=2)


@pytest.mark.spec("SDP-rate-bound")
def test_what_a_host_owes_is_read_beside_that():
    owed = 0
    rates = RateLimits(SETTINGS, lambda _: owed)
    assert read(rates, 0.0) == 60
    owed = 100
    assert read(rates, 1.0) == 20 + 100 * 2 / 5


@pytest.mark.spec("SDP-rate-bound")
def test_who_shows_a_key_is_read_more_at_that_very_time_once():
    rates = RateLimits(SETTINGS, lambda _: 0)
    assert read(rates, 10.0) == 60
    rates.extend(HOST, 10.0)
    rates.extend(HOST, 10.0)
    assert read(rates, 10.0) == 0, "nothing has come in no time"
    assert read(rates, 10.5) == (20 + limits.LAN_SKILLS_PER_AGENT * 2 / 5) / 2
    assert read(rates, 10.5 + SETTINGS.proof) == 60, "it is forgotten"


@pytest.mark.spec("SDP-rate-bound")
@pytest.mark.parametrize("kind", ["SKILL_DISCOVER", "JOIN_SCENE", "SCENE_REQUEST", "CHALLENGE", "SKILL_HEARTBEATS"])
def test_who_owes_thousands_of_beats_asks_no_more_than_others(kind):
    rates = RateLimits(SETTINGS, lambda _: 5_000)
    rates.extend(HOST, 0.0)
    question = f"{kind}:agent-1;;;;1".encode()
    assert read(rates, 0.0, data=question) == 60
    assert read(rates, 1.0, data=question) == 20
    assert read(rates, 1.0) == (5_000 + limits.LAN_SKILLS_PER_AGENT) * 2 / 5, "questions take nothing from beats"


@pytest.mark.spec("SDP-rate-bound")
def test_beats_take_nothing_from_questions_while_they_are_owed():
    rates = RateLimits(SETTINGS, lambda _: 100)
    for second in range(60):
        assert read(rates, float(second), 40) == 40
    assert read(rates, 60.0, data=b"SKILL_DISCOVER:a;;;;1") == 60
    assert read(rates, 60.0, data=b"SKILL_REGISTER:a") == 40


A, C, VICTIM = "192.168.1.10", "192.168.1.20", Peer("192.168.1.99", 9)
AT = int(EPOCH * 1000)
AUTHORITY = ChainAuthority(Chain([root().certificate], [center().certificate]))
NONCE = bytes(range(32))


def sent_lately(node, kind):
    """Return how challenges name the datagrams that a node has sent."""
    return getattr(node._responder, kind)


def challenge(lan, host, *sources, about=b""):
    """Let agents at ``sources`` challenge an agent; return what they are answered."""
    sent = lan.sent_from(host)
    for number, source in enumerate(sources):
        lan.inject(encode(m.Challenge(f"registry-{number}", NONCE + about, AT)), source, host)
    lan.run(0.5)
    return [(to, decode(data)) for to, data in sent if to in sources]


def offering(identity: Identity | None = None):
    """Return a network on which one agent has just registered a skill."""
    lan = Lan()
    identity = identity or self_signed("agent-a", new_key(), NOW)
    lan.node(A, OFFERS, agent_id="agent-a", identity=identity, authority=AUTHORITY)
    lan.offer(A, "skill-a")
    lan.run(0.2)
    return lan


@pytest.mark.spec("SDP-amplification")
@pytest.mark.parametrize("length", [1, 60])
def test_who_is_said_to_have_answered_is_asked_within_three_times_the_answer(length):
    lan = Lan()
    lan.node(C, ASKS, agent_id="asker")
    sent = lan.sent_from(C)
    request = lan.do(C, lambda node, now: node.searches.discover(now))
    record = SkillRecord("s" * length, "1.0.0", Endpoint(VICTIM.host, 80), (), ())
    forged = encode(m.DiscoverResponse(request, (record,), AT))
    lan.run(0.1)
    lan.inject(forged, VICTIM, C)
    lan.run(30)
    asked = [data for to, data in sent if to == VICTIM]
    assert asked
    assert sum(map(len, asked)) <= 3 * len(forged)


@pytest.mark.spec("SDP-amplification")
@pytest.mark.parametrize("is_named", [True, False])
def test_a_challenge_from_an_address_that_is_not_proven_is_answered_by_a_challenge(is_named):
    lan = offering()
    name = next(reversed(lan.nodes[A]._responder._sent))
    question = m.Challenge("registry-0", NONCE + (name if is_named else b""), AT)
    told = [one for _, one in challenge(lan, A, VICTIM, about=question.nonce[32:])]
    assert [type(one) for one in told] == [m.Challenge] * 2, "the second since the first may be lost"
    assert sum(len(encode(one)) for one in told) <= 3 * len(encode(question))


@pytest.mark.spec("SDP-amplification")
def test_whatever_is_made_up_to_come_from_somebody_is_answered_with_three_times_as_much_at_most():
    random = Random(7)  # noqa: S311 - a simulation has to be repeatable
    lan = offering()
    identity = self_signed("agent-c", new_key(), NOW)
    lan.node(C, REGISTRY, OFFERS, ASKS, agent_id="agent-c", identity=identity, authority=AUTHORITY)
    for number in range(20):
        lan.offer(C, f"skill-{number}", scenes=("auth",))
    sent = {host: lan.sent_from(host) for host in (A, C)}
    came = dict.fromkeys(sent, 0)
    lan.run(3)
    stranger = self_signed("stranger", new_key(), NOW)
    for _ in range(1000):
        host = random.choice([A, C])
        names = [*sent_lately(lan.nodes[host], "_sent"), *sent_lately(lan.nodes[host], "_sent_challenges")]
        at = int(lan.moment(host).wall * 1000)
        facts = "1.0.0", m.SkillType.TOOL, Endpoint(VICTIM.host, 80), (), ("auth",), at
        message = random.choice(
            [
                m.Discover("x", (), (), (), at),
                m.Challenge("agent-x", NONCE + random.choice([*names, bytes(8)]), at),
                m.Challenge("agent-x", random.randbytes(random.choice([32, 64])), at),
                m.Register("stranger", f"skill-{random.randrange(9)}", *facts),
                m.JoinScene("stranger", "auth", (), at),
                m.RequestScene("agent-a", "auth", (), at),
                m.Unregister("agent-a", "skill-a", m.Reason.SHUTDOWN, at),
                m.Heartbeat("nobody", "skill-a", m.HealthStatus.HEALTHY, at),
                m.ChallengeResponse(
                    "stranger", random.randbytes(32), stranger.certificate, at, signature=stranger.sign(b"")
                ),
            ]
        )
        data = encode_signed(message, stranger.sign)
        came[host] += len(data)
        lan.inject(data, VICTIM, host)
        lan.run(random.choice([0, 0.01, 0.2]))
        for host, told in sent.items():
            assert sum(len(data) for to, data in told if to == VICTIM) <= 3 * came[host]
    assert all(any(to == VICTIM for to, _ in told) for told in sent.values())


@pytest.mark.spec("SDP-authentication-flow")
@pytest.mark.parametrize("name", ["a", "a" * 128])
def test_two_agents_prove_themselves_to_each_other_however_short_their_datagrams_are(name):
    lan = Lan()
    for host, agent, role in ((A, name, OFFERS), (C, "c", REGISTRY)):
        lan.node(host, role, agent_id=agent, identity=self_signed(agent, new_key(), NOW), authority=AUTHORITY)
    lan.do(A, lambda node, now: node.route_agent.offer(Offer("s", "1.0.0", m.SkillType.TOOL, Endpoint(A, 1)), now))
    lan.run(1)
    assert list(lan.listed(C)) == [(name, "s")]
    for one, other in ((A, C), (C, A)):
        assert lan.nodes[one]._outbox.limit.is_proven(lan._hosts[other].peer, lan.clock.steady)


@pytest.mark.spec("SDP-amplification")
def test_an_address_stays_proven_for_as_long_as_its_agent_speaks_from_there():
    lan = offering()
    lan.node(C, REGISTRY, agent_id="c", identity=self_signed("c", new_key(), NOW), authority=AUTHORITY)
    lan.run(2 * DiscoverySettings().proof + 100)
    peer = lan._hosts[A].peer
    assert lan.nodes[C]._outbox.limit.is_proven(peer, lan.clock.steady)
    lan.crash(A)
    lan.run(DiscoverySettings().proof + 100)
    assert not lan.nodes[C]._outbox.limit.is_proven(peer, lan.clock.steady)


@pytest.mark.spec("SDP-amplification")
def test_who_is_nobody_here_is_told_who_we_are_once_it_has_shown_where_it_is():
    lan = Lan()
    only_certified = ChainAuthority(Chain([root().certificate], [center().certificate], accepts_self_signed=False))
    lan.node(A, OFFERS, agent_id="agent-a", identity=center().issue(agents=["agent-a"]), authority=only_certified)
    lan.node(C, REGISTRY, agent_id="c", identity=self_signed("c", new_key(), NOW), authority=AUTHORITY)
    lan.offer(A, "skill-a")
    lan.run(1)
    assert [(listed.key, listed.is_verified) for listed in lan.nodes[C].registry] == [(("agent-a", "skill-a"), True)]
    assert lan.nodes[A].ring.agent_at(lan._hosts[C].peer, lan.clock.steady) is None


@pytest.mark.spec("SDP-authentication-flow")
@pytest.mark.parametrize("about", [b"", bytes(8), bytes(32)])
def test_a_registry_by_another_rule_is_answered_when_it_has_asked_often_enough_to_be_given_so_much(about):
    identity = center().issue(agents=["agent-a"])
    lan = offering(identity)
    (digest, _) = next(reversed(lan.nodes[A]._responder._sent.values()))
    told = [one for _ in range(8) for _, one in challenge(lan, A, VICTIM, about=about)]
    proof, *_ = [one for one in told if isinstance(one, m.ChallengeResponse)]
    assert proof.nonce == NONCE + about
    text = challenge_text("registry-0", "agent-a", proof.nonce, digest)
    judgement = AUTHORITY.judge("agent-a", proof.certificate, EPOCH)
    assert judgement is not None
    assert judgement.key.verifies(text, proof.signature)


@pytest.mark.spec("SDP-amplification")
def test_proofs_have_a_bound_whoever_asks_for_them():
    lan = offering()
    crowd = [Peer(f"10.0.{number}.1", 5) for number in range(800)]
    for peer in crowd:
        lan.nodes[A]._outbox.limit.prove(peer, lan.clock.steady)
    assert 128 <= len(challenge(lan, A, *crowd)) <= 128 + 0.5 * 100


@pytest.mark.spec("SDP-hostile")
def test_what_is_remembered_of_addresses_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "LAN_SOURCES", 8)
    monkeypatch.setattr(limits, "LAN_AGENTS", 4)
    limit = AmplificationLimit(3.0, 600.0)
    for number in range(100):
        limit.came(Peer("10.0.0.1", number), 1200)
        limit.prove(Peer("10.0.0.2", number), 0.0)
    assert (len(limit._allowed), len(limit._proven)) == (8, 4)
    assert limit.allowance(Peer("10.0.0.1", 0), 0.0) == 0
    limit.came(Peer("10.0.0.1", 99), 1200)
    assert limit.allowance(Peer("10.0.0.1", 99), 0.0) == 3 * limits.DATAGRAM_BYTES, "and does not grow without end"


@pytest.mark.spec("SDP-amplification")
@pytest.mark.parametrize("length", [1, 40, 128])
def test_however_long_our_name_is_a_question_is_answered_and_challenged_within_three_times_its_size(length):
    lan = Lan()
    lan.node(A, REGISTRY, OFFERS, agent_id="a" * length)
    for number in range(30):
        lan.offer(A, f"skill-{number}")
    lan.run(5)
    sent = lan.sent_from(A)
    question = encode(m.Discover("x", (), (), (), AT))
    lan.inject(question, VICTIM, A)
    lan.run(2)
    told = [data for to, data in sent if to == VICTIM]
    assert any(isinstance(decode(data), m.DiscoverResponse) for data in told), "what fits, for who knows no challenge"
    assert sum(map(len, told)) <= 3 * len(question)


def questions(lan, source, seconds=0.2):
    """Let somebody who knows only the text ask once; return how many skills it is told, and the bytes."""
    sent = lan.sent_from(A)
    lan.inject(encode(m.Discover("agent-002", (), (), (), AT)), source, A)
    lan.run(seconds)
    told = [data for to, data in sent if to == source]
    answers = [one for one in map(decode, told) if isinstance(one, m.DiscoverResponse)]
    return sum(len(one.skills) for one in answers), sum(map(len, told))


def crowd(count, **options):
    lan = Lan()
    lan.node(A, REGISTRY, OFFERS, **options)
    for number in range(count):
        lan.offer(A, f"skill-{number:03}")
    lan.run(5)
    return lan


@pytest.mark.spec("SDP-amplification")
@pytest.mark.parametrize(
    ("network", "source", "profile", "told"),
    [
        ("192.168.1.0/24", "192.168.1.99", m.Profile.OPEN, 40),
        ("192.168.1.0/24", "192.168.2.99", m.Profile.OPEN, 1),
        ("192.168.1.10/32", "192.168.1.99", m.Profile.OPEN, 1),
        ("fd00::/64", "192.168.1.99", m.Profile.OPEN, 1),
        ("fe80::/64", "fe80::7%2", m.Profile.OPEN, 40),
    ],
)
def test_a_peer_that_knows_only_the_text_gets_at_once_what_fits_and_on_our_own_link_all(network, source, profile, told):
    lan = crowd(40, profile=profile).on_link(network)
    assert questions(lan, Peer(source, 9))[0] == told


@pytest.mark.spec("SDP-amplification")
def test_in_the_profile_signed_no_question_is_answered_before_the_proof():
    lan = crowd(3, profile=m.Profile.SIGNED).on_link()
    assert questions(lan, VICTIM)[0] == 0


@pytest.mark.spec("SDP-amplification")
def test_answers_to_unproven_hosts_of_our_own_link_have_a_budget_for_each_and_for_all(monkeypatch):
    monkeypatch.setattr(limits, "LAN_ANSWERS_PER_HOST_BYTES", 6000)
    monkeypatch.setattr(limits, "LAN_ANSWERS_BYTES", 10_000)
    lan = crowd(40).on_link()
    told = [questions(lan, Peer(VICTIM.host, port), 0.0 if port else 0.2)[0] for port in range(5)]
    assert told[0] == 40
    lan.run(0.2)
    spent = [questions(lan, Peer(f"192.168.1.{100 + number}", 9)) for number in range(5)]
    assert [skills for skills, _ in spent][-1] == 1, "all together have had enough"
    lan.run(10)
    assert questions(lan, VICTIM)[0] == 40, "the budget is whole again"


@pytest.mark.spec("SDP-amplification")
def test_three_times_what_came_may_go_and_not_a_byte_more():
    limit = AmplificationLimit(3.0, 600.0)
    limit.came(VICTIM, 100)
    assert limit.take(VICTIM, 300, 100.0)
    assert not limit.take(VICTIM, 1, 100.0)
    limit.came(VICTIM, 100)
    assert not limit.take(VICTIM, 301, 100.0)


@pytest.mark.spec("SDP-hostile")
def test_the_first_makes_room_and_what_is_put_again_stands_last():
    recent: BoundedDict[str, int] = BoundedDict(3)
    assert [recent.put(name, number) for number, name in enumerate("abcad")] == [None, None, None, None, "b"]
    assert recent == {"c": 2, "a": 3, "d": 4}
    assert list(recent) == ["c", "a", "d"]


@pytest.mark.spec("SDP-hostile")
def test_what_is_moved_again_and_again_takes_no_more_room():
    agenda: TimerQueue[str] = TimerQueue()
    agenda.set("other", 5.0)
    for number in range(100_000):
        agenda.set("moved", 1000.0 - number / 1000)
    assert len(agenda._timers) < 200
    assert [agenda.pop(2000.0), agenda.pop(2000.0), agenda.pop(2000.0)] == ["other", "moved", None]
    assert agenda.timer() is None


@pytest.mark.spec("SDP-register-status")
def test_reports_of_a_host_are_few_in_an_hour_and_begin_again_with_the_next():
    limit = ReportLimit(subjects=2, texts=2)
    reports = [(host, text) for host in (HOST, "192.168.1.12", "192.168.1.13") for text in ("a", "a", "b", "c")]
    for hour in range(2):
        reported = [one for one in reports if limit.allows(*one, hour * 3600.0)]
        assert reported == [(HOST, "a"), (HOST, "b"), ("192.168.1.12", "a"), ("192.168.1.12", "b")]
        assert not limit.allows(HOST, "d", hour * 3600.0 + 3599)
