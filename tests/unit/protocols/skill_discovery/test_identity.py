"""How many keys are remembered, and whose makes room for whose."""

from datetime import timedelta
from functools import partial
from random import Random, SystemRandom

import pytest
from tests.support.authorities import World
from tests.support.certificates import NOW, center, root, serial
from tests.support.datagrams import registration
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode, encode, encode_signed
from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.identity import (
    UNVERIFIED_SECONDS,
    ChainAuthority,
    GroupKey,
    Judgement,
    KeyRing,
    Standing,
)
from skillwire.protocols.skill_discovery.ingress import Challenges, challenge_text
from skillwire.protocols.skill_discovery.limits import Freshness, RateLimits, ReplayGuard
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Profile
from skillwire.protocols.skill_discovery.route_agent import Acknowledged
from skillwire.protocols.skill_discovery.scheduling import Outbox
from skillwire.protocols.skill_discovery.search import Discovered
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import Chain, RequestedNames
from skillwire.trust.ecdsa import EcdsaIdentity, new_key, self_signed
from skillwire.wire.node import Peer

A, B, EVIL, R = "192.168.1.10", "192.168.1.11", "192.168.1.66", "192.168.1.1"
FIRST, SECOND, SEVENTH = "192.168.1.100", "192.168.1.101", "192.168.1.7"
AUTHORITY = ChainAuthority(Chain([root().certificate], [center().certificate]))


@pytest.mark.spec("SDP-trusted-key")
@pytest.mark.parametrize("roots", [[], [root().certificate]], ids=["no roots", "with roots"])
def test_a_key_that_the_user_trusts_is_certified_for_its_agent_alone(roots):
    identity = self_signed("agent-a", new_key(), NOW)
    untrusted = AUTHORITY.judge("agent-a", identity.certificate, NOW.timestamp())
    assert untrusted is not None
    digest = untrusted.key.digest
    trusted = ChainAuthority(Chain(roots), {"agent-a": digest, "agent-b": digest}.get)
    judgement = trusted.judge("agent-a", identity.certificate, NOW.timestamp())
    assert judgement is not None
    assert (judgement.standing, judgement.agents) == (Standing.CERTIFIED, frozenset({"agent-a"}))
    assert judgement.standing_of("agent-b") is None
    assert trusted.judge("agent-b", identity.certificate, NOW.timestamp()) is None, "its certificate names another"
    other = ChainAuthority(Chain(roots), {"agent-a": bytes(32)}.get)
    judgement = other.judge("agent-a", identity.certificate, NOW.timestamp())
    assert judgement is not None
    assert judgement.standing is Standing.UNVERIFIED


@pytest.mark.spec("SDP-trusted-key")
def test_a_key_counts_from_the_next_message_after_the_user_trusts_it_and_until_the_user_does_no_more():
    trusted: dict[str, bytes] = {}
    lan = Lan()
    lan.node(FIRST, REGISTRY, identity=own("agent-r"), authority=ChainAuthority(Chain([]), trusted.get))
    lan.node(SECOND, OFFERS, agent_id="agent-a", identity=own("agent-a"), authority=ChainAuthority(Chain([])))
    lan.offer(SECOND, "skill-a")

    def trust_after(seconds):
        lan.run(seconds)
        (listed,) = lan.nodes[FIRST].registry
        return listed.health.status, listed.is_verified

    assert trust_after(2) == ("HEALTHY", False)
    trusted["agent-a"] = lan.nodes[FIRST].ring.digest_of("agent-a")[0]
    assert trust_after(10) == ("HEALTHY", True)
    trusted.clear()
    assert trust_after(10) == ("HEALTHY", False)


KEY = GroupKey(b"a key of whoever it is at all")


@pytest.fixture
def ring(monkeypatch):
    """Give a ring with room for six agents, three strangers of a host; ``listed`` are those that have registered."""
    monkeypatch.setattr(limits, "LAN_AGENTS", 6)
    monkeypatch.setattr(limits, "LAN_STRANGERS_PER_HOST", 3)
    listed: set[str] = set()
    made = KeyRing(AUTHORITY, 600.0, listed.__contains__)
    return made, listed


def learn(ring, name, host, standing=Standing.UNVERIFIED):
    made, listed = ring
    refused = made.learn(name, Judgement(KEY, standing, agents=frozenset({name})), Peer(host, ord(name)), 0.0)
    if not refused:
        listed.add(name)
    return refused


def known(ring):
    return set(ring[0]._agents)


@pytest.mark.spec("SDP-places")
def test_of_strangers_a_host_has_so_many_and_no_more(ring):
    assert [learn(ring, name, A) for name in "abcd"] == ["", "", "", "no room"]
    assert learn(ring, "d", A, Standing.CERTIFIED) == ""
    assert learn(ring, "a", A) == "", "who is known stays so"
    assert known(ring) == set("abcd")


@pytest.mark.spec("SDP-places")
def test_who_has_nothing_registered_makes_room_for_the_next_of_its_host(ring):
    for name in "abc":
        learn(ring, name, A)
    ring[1].discard("b")
    assert learn(ring, "d", A) == ""
    assert known(ring) == set("acd")


@pytest.mark.spec("SDP-places")
def test_who_is_certified_takes_the_place_of_a_stranger_of_the_host_that_has_most(ring):
    learn(ring, "a", A)
    for name in "xyz":
        learn(ring, name, EVIL)
    for name in "bc":
        learn(ring, name, B)
    assert learn(ring, "d", "192.168.1.20", Standing.CERTIFIED) == ""
    assert known(ring) == set("abcdyz")
    assert learn(ring, "e", "192.168.1.21") == "", "and so does a host that has fewer"
    assert learn(ring, "f", "192.168.1.21") == "no room"


@pytest.mark.spec("SDP-places")
def test_when_all_are_certified_there_is_no_room(ring):
    for name in "abcdef":
        learn(ring, name, A, Standing.CERTIFIED)
    assert learn(ring, "g", B, Standing.CERTIFIED) == "no room"
    ring[1].discard("c")
    assert learn(ring, "g", B, Standing.CERTIFIED) == ""
    assert known(ring) == set("abdefg")


def own(name="agent-001", at=NOW):
    return self_signed(name, new_key(), at)


def network():
    lan = Lan()
    lan.node(R, REGISTRY, agent_id="registry", identity=own("registry"), authority=AUTHORITY)
    return lan


@pytest.mark.spec("SDP-hostile")
def test_however_many_names_a_stranger_makes_up_who_is_certified_is_listed(monkeypatch):
    monkeypatch.setattr(limits, "LAN_AGENTS", 8)
    monkeypatch.setattr(limits, "LAN_STRANGERS_PER_HOST", 8)
    lan = network()
    for number in range(9):
        host = f"192.168.1.{100 + number}"
        lan.node(host, OFFERS, agent_id=f"e-{number}", identity=own(f"e-{number}"), authority=AUTHORITY)
        lan.offer(host, "s")
        lan.run(1)
    assert len(lan.listed(R)) == 8
    lan.node(A, OFFERS, agent_id="agent-a", identity=center().issue(agents=["agent-a"]), authority=AUTHORITY)
    lan.offer(A, "skill-a")
    lan.run(1)
    assert ("agent-a", "skill-a") in lan.listed(R)


@pytest.mark.spec("SDP-hostile")
def test_who_is_refused_is_challenged_as_often_as_it_asks_and_not_again_for_its_proof(monkeypatch):
    monkeypatch.setattr(limits, "LAN_AGENTS", 1)
    lan = network()
    for host, name in ((A, "agent-a"), (B, "agent-b")):
        identity = center().issue(agents=[name])
        lan.node(host, OFFERS, agent_id=name, identity=identity, authority=AUTHORITY)
        lan.offer(host, "skill")
        lan.run(1)
    before = lan.sent
    lan.run(10)
    assert lan.nodes[R].ingress.stopped["no room"] > 0
    assert lan.sent - before < 50, "and they do not ask each other without end"


@pytest.mark.spec("SDP-scene-proof")
def test_nobody_takes_a_members_place_by_saying_again_what_it_said():
    lan = network()
    for host, name, role in ((A, "agent-a", OFFERS), (B, "agent-b", ASKS), (EVIL, "agent-e", OFFERS)):
        lan.node(host, role, agent_id=name, identity=own(name), authority=AUTHORITY)
    lan.offer(A, "skill-a", scenes=("auth",))
    lan.offer(EVIL, "skill-e", scenes=("other",))  # it has proven where it is
    heard: list[bytes] = []
    send = lan._send

    def keep(sender, datagram):
        send(sender, datagram)
        if datagram.data.startswith(b"REQUEST_SCENE:"):
            heard.append(datagram.data)

    lan._send = keep
    lan.run(2)
    lan.do(B, lambda node, now: node.memberships.request("auth", (), now, is_join=False))
    lan.run(3)
    members = lan.nodes[R].mcp_agent._groups._groups["auth"].members
    assert members["agent-b"][0] == lan._hosts[B].peer
    before = lan.sent
    lan.inject(heard[-1], lan._hosts[EVIL].peer, R)
    lan.run(1)
    assert members["agent-b"][0] == lan._hosts[B].peer
    assert lan.sent - before < 20


@pytest.mark.spec("SDP-hostile")
def test_made_up_challenges_leave_proofs_for_who_is_there():
    lan = Lan()
    lan.node(A, OFFERS, agent_id="agent-a", identity=own("agent-a"), authority=AUTHORITY)
    lan.offer(A, "skill-a")
    lan.run(3)
    question = m.Challenge("x", bytes(32), int(lan.moment(A).wall * 1000))
    for number in range(24_000):
        source = Peer(f"10.0.0.{number % 200 + 1}", 5)
        lan.at(number / 2000, partial(lan.inject, encode(question), source, A))
    lan.run(1)
    lan.node(R, REGISTRY, agent_id="registry", identity=own("registry"), authority=AUTHORITY)
    lan.run(8)
    assert ("agent-a", "skill-a") in lan.listed(R)


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
    lan.node(SEVENTH, OFFERS, agent_id="agent-001", identity=identity, authority=world.authority())
    lan.offer(SEVENTH, "skill-a")
    lan.run(3)


def verified(lan):
    return {listed.registration.skill_id: listed.is_verified for listed in lan.nodes[R].registry}


def test_who_is_certified_while_it_runs_is_verified_soon(lan, world):
    identity = own()
    join(lan, world, identity)
    assert verified(lan) == {"skill-a": False}
    identity.certificate = world.center.issue(RequestedNames(("agent-001",)), identity.key.public_key(), EPOCH)
    lan.run(UNVERIFIED_SECONDS + 120)
    assert verified(lan) == {"skill-a": True}
    assert not [event for event in lan.events(Change, R) if event.kind in {ChangeKind.EVICTED, ChangeKind.LEFT}]


def test_who_comes_back_with_another_key_is_believed_when_it_may_be(lan, world):
    """It lost its key, and has another one, which nobody certified: as long as nothing of it is listed."""
    join(lan, world, own())
    lan.crash(SEVENTH)
    lan.run(40)
    assert verified(lan) == {}
    join(lan, world, own(at=NOW + timedelta(seconds=43)))
    assert verified(lan) == {"skill-a": False}


def test_who_is_certified_takes_the_place_of_who_is_not_at_once(lan, world):
    join(lan, world, own())
    lan.crash(SEVENTH)
    join(lan, world, world.identity("agent-001"))
    assert verified(lan) == {"skill-a": True}


@pytest.mark.spec("SDP-key-stays")
def test_nobody_takes_the_place_of_who_is_certified(lan, world):
    join(lan, world, world.identity("agent-001"))
    lan.crash(SEVENTH)
    stopped = lan.nodes[R].ingress.stopped
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
    assert [event.kind for event in lan.events(Change, R)][-1] is ChangeKind.EVICTED
    lan.run(180)
    assert verified(lan) == {}
    assert lan.nodes[R].ingress.stopped["certificate"] > 0


AT = int(EPOCH * 1000)
STREAM = "Register", "agent-001", "skill-org-feishu"


def trusting_network(profile=Profile.OPEN, **options):
    lan = Lan(**options)
    identity = center().issue(agents=["registry"])
    lan.node(R, REGISTRY, agent_id="registry", identity=identity, authority=AUTHORITY, profile=profile)
    return lan


def join_network(lan, host, identity, agent_id, profile=Profile.OPEN):
    """Let an agent offer the skill of the text at a host; return what became of it."""
    lan.node(host, OFFERS, ASKS, agent_id=agent_id, identity=identity, authority=AUTHORITY, profile=profile)
    lan.offer(host, "skill-org-feishu")
    lan.run(3)
    return {str(ack.status) for ack in lan.events(Acknowledged, host)}


def forge(lan, data, host=EVIL):
    """Let a datagram arrive at the registry; return why it was stopped."""
    before = lan.nodes[R].ingress.stopped.copy()
    lan.inject(data, Peer(host, 40_000), R)
    return set(lan.nodes[R].ingress.stopped - before)


@pytest.mark.parametrize(
    ("identity", "is_verified"),
    [
        pytest.param(
            lambda: center().issue(agents=["agent-001"]), True, marks=pytest.mark.spec("SDP-authentication-flow")
        ),
        pytest.param(own, False, marks=pytest.mark.spec("SDP-unverified")),
    ],
)
def test_a_skill_is_challenged_proves_itself_and_is_listed(identity, is_verified):
    lan = trusting_network()
    assert join_network(lan, FIRST, identity(), "agent-001") == {"SUCCESS"}
    (listed,) = lan.nodes[R].registry
    assert listed.is_verified is is_verified


@pytest.mark.spec("SDP-authentication-flow")
def test_with_loss_it_takes_longer_and_comes_to_the_same():
    lan = trusting_network(seed=3, loss=0.3)
    for number in range(20):
        host, name = f"10.0.0.{number + 1}", f"a-{number}"
        lan.node(host, OFFERS, agent_id=name, identity=own(name), authority=AUTHORITY)
        for skill in range(5):
            lan.offer(host, f"skill-{skill}")
    lan.run(12)
    assert len(lan.nodes[R].registry) == 100


@pytest.mark.spec("SDP-certificate-name")
def test_a_certificate_is_good_for_whom_it_names_and_nobody_else():
    lan = trusting_network()
    assert join_network(lan, FIRST, center().issue(skills=["skill-org-dingding"]), "agent-001") == {"UNAUTHORIZED"}
    assert join_network(lan, SECOND, center().issue(agents=["agent-009"]), "agent-002") == {"UNAUTHORIZED"}
    assert lan.nodes[R].ingress.stopped["certificate"] > 0
    assert join_network(lan, EVIL, own("agent-009"), "agent-003") == {"UNAUTHORIZED"}
    assert len(lan.nodes[R].registry) == 0
    assert join_network(lan, "192.168.1.5", center().issue(skills=["skill-org-feishu"]), "agent-005") == {"SUCCESS"}


@pytest.mark.spec("SDP-key-stays")
def test_another_key_for_the_same_agent_is_taken_only_when_it_is_certified():
    lan = trusting_network()
    join_network(lan, FIRST, own("agent-001"), "agent-001")
    assert join_network(lan, EVIL, own("agent-001"), "agent-001") == {"UNAUTHORIZED"}
    assert lan.nodes[R].ingress.stopped["forged"] > 0
    (listed,) = lan.nodes[R].registry
    assert listed.host == FIRST


@pytest.mark.spec("SDP-replay")
def test_what_is_replayed_changes_nothing_and_is_no_sign_of_life():
    lan = trusting_network()
    identity = center().issue(agents=["agent-001"])
    taken = []
    deliver = lan._deliver

    def listen(receiver, data, source):
        if receiver.peer.host == R:
            taken.append(data)
        deliver(receiver, data, source)

    lan._deliver = listen
    join_network(lan, FIRST, identity, "agent-001")
    lan.crash(FIRST)
    lan._deliver = deliver
    kept = [data for data in taken if b"CHALLENGE" not in data]
    assert {data.partition(b":")[0] for data in kept} == {b"SKILL_REGISTER", b"SKILL_HEARTBEAT"}
    heard = lan.heard(R, next(iter(lan.nodes[R].registry)).key)
    for _ in range(4):
        lan.run(5)
        for data in kept:
            lan.inject(data, Peer(FIRST, 40_000), R)
    (listed,) = lan.nodes[R].registry
    assert (listed.health.heard, listed.health.status) == (heard, HealthStatus.UNHEALTHY)
    lan.run(15)
    assert len(lan.nodes[R].registry) == 0
    for data in kept:
        assert forge(lan, data, FIRST) == {"outside the window"}


@pytest.mark.spec("SDP-replay")
def test_a_challenge_is_answered_once_by_who_was_asked():
    lan = trusting_network()
    assert forge(lan, encode_signed(registration(), own("agent-001").sign), FIRST) == {"held"}
    (pending,) = lan.nodes[R]._challenges._pending.values()
    identity = own("agent-001")

    def response(nonce):
        text = challenge_text("registry", "agent-001", nonce, pending.digest)
        proof = m.ChallengeResponse("agent-001", nonce, identity.certificate, AT)
        return encode_signed(proof, lambda _: identity.sign(text))

    assert forge(lan, response(bytes(32)), FIRST) == {"not asked for"}
    assert forge(lan, response(pending.nonce), EVIL) == {"not asked for"}
    assert forge(lan, response(pending.nonce), FIRST) == {"forged"}, "the key is proven; the registration is by another"
    assert forge(lan, response(pending.nonce), FIRST) == {"not asked for"}


@pytest.mark.spec("SDP-profile-signed")
def test_in_the_profile_signed_consumers_believe_agents_that_prove_themselves():
    lan = trusting_network(Profile.SIGNED)
    assert join_network(lan, FIRST, center().issue(agents=["agent-001"]), "agent-001", Profile.SIGNED) == {"SUCCESS"}
    lan.do(FIRST, lambda node, now: node.searches.discover(now))
    lan.run(3)
    (found,) = lan.events(Discovered, FIRST)
    assert [one.record.skill_id for one in found.skills] == ["skill-org-feishu"]
    evil = m.DiscoverResponse("agent-001.2", (), AT + 6000)
    lan.do(FIRST, lambda node, now: node.searches.discover(now))
    before = lan.nodes[FIRST].ingress.stopped["forged"]
    lan.inject(encode_signed(evil, own("registry").sign, Profile.SIGNED), Peer(R, 40_000), FIRST)
    assert lan.nodes[FIRST].ingress.stopped["forged"] == before + 1


@pytest.mark.spec("SDP-clock")
@pytest.mark.parametrize(("skew", "count"), [(-25.0, 1), (25.0, 1), (-40.0, 0), (40.0, 0)])
def test_clocks_may_differ_by_the_window(skew, count):
    lan = Lan()
    lan.node(R, REGISTRY)
    lan.node(FIRST, OFFERS, skew=skew)
    lan.offer(FIRST, "skill-org-feishu")
    lan.run(3)
    assert len(lan.nodes[R].registry) == count
    assert (lan.nodes[R].ingress.stopped["outside the window"] > 0) is (count == 0)


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
    assert (guard._newest[STREAM][0], guard._newest[other][0]) == (AT, AT + 2)


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
    rates = RateLimits(DiscoverySettings(), lambda _: 0)
    assert all(rates.allows(f"10.0.0.{number}", b"", 0.0) for number in range(30))
    assert len(rates._buckets) <= 10


def test_challenges_have_a_bound_and_an_end(monkeypatch):
    monkeypatch.setattr(limits, "LAN_CHALLENGES", 2)
    outbox = Outbox("agent-001", KEY, Profile.OPEN, DiscoverySettings(), SystemRandom())
    challenger = Challenges(outbox, 10)
    peers = [Peer(f"10.0.0.{number}", 1) for number in range(4)]
    nonces = [challenger._ask(peer, b"question", 0.0) for peer in peers]
    assert len({*nonces}) == 4
    assert challenger._ask(peers[3], b"another question", 1.0) == nonces[3], "the same is asked again"
    assert challenger.take(peers[0], nonces[0], 1.0) is None, "the oldest was given up"
    taken = challenger.take(peers[3], nonces[3], 1.0)
    assert taken is not None
    assert taken.held == (b"question", b"another question")
    assert challenger.take(peers[3], nonces[3], 1.0) is None, "a nonce counts once"
    assert challenger.take(peers[2], nonces[2], 10.0) is None, "too late"
    assert challenger._ask(peers[2], b"question", 10.0) != nonces[2]


@pytest.mark.spec("SDP-hostile")
def test_while_thousands_of_made_up_agents_register_a_real_one_is_listed_within_a_second():
    lan, random = trusting_network(), Random(1)  # noqa: S311 - a simulation has to be repeatable
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
        lan.node(FIRST, OFFERS, agent_id="agent-001", identity=own("agent-001"), authority=AUTHORITY)
        lan.offer(FIRST, "skill-org-feishu")

    flood()
    lan.at(0.3, start)
    lan.run(0.8)
    assert lan.listed(R) == {("agent-001", "skill-org-feishu"): "HEALTHY"}
    assert registry.ingress.stopped["held"] > 10_000


def test_nobody_is_challenged_out_of_nothing():
    lan = Lan()
    lan.node(FIRST, ASKS)
    lan.inject(b"CHALLENGE:registry;" + b"A" * 43 + b"=;1707868800000", Peer(R, 1), FIRST)
    assert lan.nodes[FIRST].datagrams_to_send(lan.moment(FIRST)) == []


@pytest.mark.spec("SDP-certificate-size")
def test_the_answer_to_a_challenge_fits_into_a_datagram():
    identity = center().issue(agents=["agent-001"], skills=["skill-org-feishu"], hosts=["192.168.1.100"])
    data = encode_signed(m.ChallengeResponse("agent-001", bytes(32), identity.certificate, AT), identity.sign)
    assert len(data) <= limits.DATAGRAM_BYTES
    assert isinstance(decode(data), m.ChallengeResponse)
