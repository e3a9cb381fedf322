"""Who is believed on a network: keys, challenges, time, and what is done with those who lie."""

from datetime import timedelta
from random import Random, SystemRandom

import pytest
from tests.support.certificates import NOW, center, root
from tests.support.datagrams import registration
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.certified import ChainAuthority
from skillwire.protocols.skill_discovery.challenge import Challenger, challenge_text
from skillwire.protocols.skill_discovery.codec import decode, encode_signed
from skillwire.protocols.skill_discovery.events import Acknowledged, Discovered
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Outcome, Profile
from skillwire.protocols.skill_discovery.rates import Rates
from skillwire.protocols.skill_discovery.replay import Freshness, ReplayGuard
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.testing.virtual_clock import EPOCH
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

R, A, B, EVIL = "192.168.1.1", "192.168.1.100", "192.168.1.101", "192.168.1.66"
AT = int(EPOCH * 1000)
AUTHORITY = ChainAuthority(Chain([root().certificate], [center().certificate]))
STREAM = "Register", "agent-001", "skill-org-feishu"


def own(agent_id):
    return self_signed(agent_id, new_key(), NOW)


def network(profile=Profile.OPEN, **options):
    lan = Lan(**options)
    identity = center().issue(agents=["registry"])
    lan.node(R, REGISTRY, agent_id="registry", identity=identity, authority=AUTHORITY, profile=profile)
    return lan


def join(lan, host, identity, agent_id, profile=Profile.OPEN):
    """Let an agent offer the skill of the text at a host; return what became of it."""
    lan.node(host, OFFERS, ASKS, agent_id=agent_id, identity=identity, authority=AUTHORITY, profile=profile)
    lan.offer(host, "skill-org-feishu")
    lan.run(3)
    return {str(ack.status) for ack in lan.events(Acknowledged, host)}


def forge(lan, data, host=EVIL):
    """Let a datagram arrive at the registry; return why it was stopped."""
    before = lan.nodes[R].gate.stopped.copy()
    lan.inject(data, Peer(host, 40_000), R)
    return set(lan.nodes[R].gate.stopped - before)


@pytest.mark.spec("SDP-authentication-flow")
def test_a_skill_is_challenged_proves_itself_and_is_listed():
    lan = network()
    assert join(lan, A, center().issue(agents=["agent-001"]), "agent-001") == {"SUCCESS"}
    (listed,) = lan.nodes[R].registry
    assert listed.is_verified


@pytest.mark.spec("SDP-unverified")
def test_whom_nobody_certified_is_listed_as_unverified():
    lan = network()
    assert join(lan, A, own("agent-001"), "agent-001") == {"SUCCESS"}
    (listed,) = lan.nodes[R].registry
    assert not listed.is_verified


@pytest.mark.spec("SDP-authentication-flow")
def test_with_loss_it_takes_longer_and_comes_to_the_same():
    lan = network(seed=3, loss=0.3)
    for number in range(20):
        lan.node(
            f"10.0.0.{number + 1}", OFFERS, agent_id=f"a-{number}", identity=own(f"a-{number}"), authority=AUTHORITY
        )
        for skill in range(5):
            lan.offer(f"10.0.0.{number + 1}", f"skill-{skill}")
    lan.run(12)
    assert len(lan.nodes[R].registry) == 100


@pytest.mark.spec("SDP-certificate-name")
def test_a_certificate_is_good_for_whom_it_names_and_nobody_else():
    lan = network()
    assert join(lan, A, center().issue(skills=["skill-org-dingding"]), "agent-001") == {"UNAUTHORIZED"}
    assert join(lan, B, center().issue(agents=["agent-009"]), "agent-002") == {"UNAUTHORIZED"}
    assert lan.nodes[R].gate.stopped["certificate"] > 0
    assert join(lan, EVIL, own("agent-009"), "agent-003") == {"UNAUTHORIZED"}
    assert len(lan.nodes[R].registry) == 0
    assert join(lan, "192.168.1.5", center().issue(skills=["skill-org-feishu"]), "agent-005") == {"SUCCESS"}


@pytest.mark.spec("SDP-key-stays")
def test_another_key_for_the_same_agent_is_taken_only_when_it_is_certified():
    lan = network()
    join(lan, A, own("agent-001"), "agent-001")
    assert join(lan, EVIL, own("agent-001"), "agent-001") == {"UNAUTHORIZED"}
    assert lan.nodes[R].gate.stopped["forged"] > 0
    (listed,) = lan.nodes[R].registry
    assert listed.host == A


@pytest.mark.spec("SDP-signature")
def test_what_is_signed_by_another_key_or_is_another_message_is_dropped():
    lan = network()
    identity = center().issue(agents=["agent-001"])
    join(lan, A, identity, "agent-001")
    later = registration(at=AT + 4000)
    other = encode_signed(registration(at=AT + 4001), identity.sign).rpartition(b";")[2].decode()
    assert forge(lan, encode_signed(later, own("agent-001").sign)) == {"forged"}
    assert forge(lan, encode_signed(later, lambda _: other)) == {"forged"}
    assert forge(lan, encode_signed(later, GroupKey(b"x" * 16).sign)) == {"forged"}, "policy says which algorithm"
    beat = m.Unregister("agent-001", "skill-org-feishu", m.Reason.SHUTDOWN, AT + 4000)
    assert forge(lan, encode_signed(beat, own("agent-001").sign)) == {"forged"}
    assert len(lan.nodes[R].registry) == 1


@pytest.mark.spec("SDP-replay")
def test_what_is_replayed_changes_nothing_and_is_no_sign_of_life():
    lan = network()
    identity = center().issue(agents=["agent-001"])
    taken = []
    deliver = lan._deliver

    def listen(receiver, data, source):
        if receiver.peer.host == R:
            taken.append(data)
        deliver(receiver, data, source)

    lan._deliver = listen
    join(lan, A, identity, "agent-001")
    lan.crash(A)
    lan._deliver = deliver
    kept = [data for data in taken if b"CHALLENGE" not in data]
    assert {data.partition(b":")[0] for data in kept} == {b"SKILL_REGISTER", b"SKILL_HEARTBEAT"}
    heard = lan.heard(R, next(iter(lan.nodes[R].registry)).key)
    for _ in range(4):
        lan.run(5)
        for data in kept:
            lan.inject(data, Peer(A, 40_000), R)
    (listed,) = lan.nodes[R].registry
    assert (listed.health.heard, listed.health.status) == (heard, HealthStatus.UNHEALTHY)
    lan.run(15)
    assert len(lan.nodes[R].registry) == 0
    for data in kept:
        assert forge(lan, data, A) == {"outside the window"}


@pytest.mark.spec("SDP-replay")
def test_a_challenge_is_answered_once_by_who_was_asked():
    lan = network()
    assert forge(lan, encode_signed(registration(), own("agent-001").sign), A) == {"held"}
    (pending,) = lan.nodes[R].gate._challenger._pending.values()
    identity = own("agent-001")

    def response(nonce):
        text = challenge_text("registry", "agent-001", nonce, pending.digest)
        proof = m.ChallengeResponse("agent-001", nonce, identity.certificate, AT)
        return encode_signed(proof, lambda _: identity.sign(text))

    assert forge(lan, response(bytes(32)), A) == {"not asked for"}
    assert forge(lan, response(pending.nonce), EVIL) == {"not asked for"}
    assert forge(lan, response(pending.nonce), A) == {"forged"}, "the key is proven; the registration is by another"
    assert forge(lan, response(pending.nonce), A) == {"not asked for"}


@pytest.mark.spec("SDP-endpoint-source")
def test_a_certified_endpoint_may_be_elsewhere():
    lan = network()
    lan.node(
        A, OFFERS, agent_id="agent-001", identity=center().issue(agents=["agent-001"], hosts=[B]), authority=AUTHORITY
    )
    lan.offer(A, "skill-here")
    lan.offer(A, "skill-there", endpoint=Endpoint(B, 8080))
    lan.offer(A, "skill-stolen", endpoint=Endpoint(EVIL, 8080))
    lan.run(3)
    assert {skill for _, skill in lan.listed(R)} == {"skill-here", "skill-there"}


@pytest.mark.spec("SDP-profile-signed")
def test_in_the_profile_signed_consumers_believe_agents_that_prove_themselves():
    lan = network(Profile.SIGNED)
    assert join(lan, A, center().issue(agents=["agent-001"]), "agent-001", Profile.SIGNED) == {"SUCCESS"}
    lan.do(A, lambda node, now: node.end_agent.discover(now))
    lan.run(3)
    (found,) = lan.events(Discovered, A)
    assert [one.record.skill_id for one in found.skills] == ["skill-org-feishu"]
    evil = m.DiscoverResponse("agent-001.2", (), AT + 6000)
    lan.do(A, lambda node, now: node.end_agent.discover(now))
    before = lan.nodes[A].gate.stopped["forged"]
    lan.inject(encode_signed(evil, own("registry").sign, Profile.SIGNED), Peer(R, 40_000), A)
    assert lan.nodes[A].gate.stopped["forged"] == before + 1


@pytest.mark.spec("SDP-clock")
@pytest.mark.parametrize(("skew", "count"), [(-25.0, 1), (25.0, 1), (-40.0, 0), (40.0, 0)])
def test_clocks_may_differ_by_the_window(skew, count):
    lan = Lan()
    lan.node(R, REGISTRY)
    lan.node(A, OFFERS, skew=skew)
    lan.offer(A, "skill-org-feishu")
    lan.run(3)
    assert len(lan.nodes[R].registry) == count
    assert (lan.nodes[R].gate.stopped["outside the window"] > 0) is (count == 0)


def test_the_newest_timestamps_outlive_a_restart():
    guard = ReplayGuard(30)
    assert guard.judge(STREAM, AT, b"x", EPOCH) is Freshness.FRESH
    guard.keep(STREAM, AT, b"x", EPOCH)
    assert guard.judge(STREAM, AT, b"x", EPOCH) is Freshness.REPEATED
    assert guard.judge(STREAM, AT, b"y", EPOCH) is Freshness.OLD
    again = ReplayGuard(30, guard.changed())
    assert again.judge(STREAM, AT, b"x", EPOCH) is Freshness.OLD
    assert again.judge(STREAM, AT + 1, b"x", EPOCH) is Freshness.FRESH


def test_what_is_to_be_kept_is_what_has_changed_since():
    guard = ReplayGuard(30, [(STREAM, AT)])
    assert guard.changed() == []
    other = "Heartbeat", "agent-001", "skill-org-feishu"
    guard.keep(other, AT + 1, b"x", EPOCH)
    guard.keep(other, AT + 2, b"y", EPOCH)
    assert guard.changed() == [(other, AT + 2)]
    assert guard.changed() == []
    assert (guard.newest_of(STREAM), guard.newest_of(other)) == (AT, AT + 2)


def test_what_is_remembered_has_a_bound(monkeypatch):
    monkeypatch.setattr(limits, "LAN_STREAMS", 10)
    guard = ReplayGuard(30)
    for number in range(30):
        guard.keep(("Register", "a", str(number)), AT + number, b"x", EPOCH)
    assert len(guard._newest) <= 10
    assert len(guard.changed()) <= 10
    assert guard.judge(("Register", "a", "29"), AT + 29, b"x", EPOCH) is Freshness.REPEATED
    guard.keep(("Register", "a", "late"), AT + 120_000, b"x", EPOCH + 120)
    monkeypatch.setattr(limits, "LAN_SOURCES", 10)
    rates = Rates(DiscoverySettings(), lambda _: 0)
    assert all(rates.allows(f"10.0.0.{number}", b"", 0.0) for number in range(30))
    assert len(rates._buckets) <= 10


def test_challenges_have_a_bound_and_an_end(monkeypatch):
    monkeypatch.setattr(limits, "LAN_CHALLENGES", 2)
    challenger = Challenger(SystemRandom(), 10)
    peers = [Peer(f"10.0.0.{number}", 1) for number in range(4)]
    nonces = [challenger.ask(peer, b"question", 0.0) for peer in peers]
    assert len({*nonces}) == 4
    assert challenger.ask(peers[3], b"another question", 1.0) == nonces[3], "the same is asked again"
    assert challenger.take(peers[0], nonces[0], 1.0) is None, "the oldest was given up"
    taken = challenger.take(peers[3], nonces[3], 1.0)
    assert taken is not None
    assert taken.held == (b"question", b"another question")
    assert challenger.take(peers[3], nonces[3], 1.0) is None, "a nonce counts once"
    assert challenger.take(peers[2], nonces[2], 10.0) is None, "too late"
    assert challenger.ask(peers[2], b"question", 10.0) != nonces[2]


@pytest.mark.spec("SDP-hostile")
def test_while_thousands_of_made_up_agents_register_a_real_one_is_listed_within_a_second():
    lan, random = network(), Random(1)  # noqa: S311 - a simulation has to be repeatable
    registry = lan.nodes[R]

    def flood():
        for _ in range(20):  # each millisecond
            peer = Peer(f"10.{random.randrange(250)}.{random.randrange(250)}.1", 5)
            data = encode_signed(
                registration(f"agent-{random.random()}", endpoint=Endpoint(peer.host, 1)), lambda _: "SIG"
            )
            registry.receive(data, peer, lan.moment(R))
        lan.tend(R)
        lan.at(0.001, flood)

    def start():
        lan.node(A, OFFERS, agent_id="agent-001", identity=own("agent-001"), authority=AUTHORITY)
        lan.offer(A, "skill-org-feishu")

    flood()
    lan.at(0.3, start)
    lan.run(0.8)
    assert lan.listed(R) == {("agent-001", "skill-org-feishu"): "HEALTHY"}
    assert registry.gate.stopped["held"] > 10_000


def test_nobody_is_challenged_out_of_nothing():
    lan = Lan()
    lan.node(A, ASKS)
    lan.inject(b"CHALLENGE:registry;" + b"A" * 43 + b"=;1707868800000", Peer(R, 1), A)
    assert lan.nodes[A].datagrams_to_send(lan.moment(A)) == []


@pytest.mark.spec("SDP-certificate-size")
def test_the_answer_to_a_challenge_fits_into_a_datagram():
    identity = center().issue(agents=["agent-001"], skills=["skill-org-feishu"], hosts=["192.168.1.100"])
    data = encode_signed(m.ChallengeResponse("agent-001", bytes(32), identity.certificate, AT), identity.sign)
    assert len(data) <= limits.DATAGRAM_BYTES
    assert isinstance(decode(data), m.ChallengeResponse)


def test_an_expired_certificate_is_judged_again():
    lan = network()
    identity = center().issue(agents=["agent-001"], start=-7, days=7.0001)
    assert join(lan, A, identity, "agent-001") == {"SUCCESS"}
    lan.run(float(timedelta(days=0.0002).total_seconds()))
    beat = m.Heartbeat("agent-001", "skill-org-feishu", HealthStatus.HEALTHY, int(lan.moment(R).wall * 1000) + 1)
    before = next(iter(lan.nodes[R].registry)).health.heard
    assert forge(lan, encode_signed(beat, identity.sign), A) == set()
    assert next(iter(lan.nodes[R].registry)).health.heard == before
    assert Outcome.INVALID in {message.status for message in _asks(lan)}


def _asks(lan):
    lan.clock.move_to(lan.clock.steady + 1)
    return [decode(datagram.data) for datagram in lan.nodes[R].datagrams_to_send(lan.moment(R))]
