"""Who answers proves that the answer is its own: what is found says who offers it, and whether that is certified."""

import base64
import hashlib
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.certificates import NOW, TakenBackNumbers, center, root, serial
from tests.support.datagrams import registration
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.challenges import Responder, ResponderProofs
from skillwire.protocols.skill_discovery.codec import decode, encode, encode_signed
from skillwire.protocols.skill_discovery.events import Discovered, SceneJoined
from skillwire.protocols.skill_discovery.identity import ChainAuthority, Judgement, Standing
from skillwire.protocols.skill_discovery.messages import Endpoint, Profile, SkillRecord, SkillType
from skillwire.protocols.skill_discovery.search import _believe
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

AGENT, OTHER, EVIL, C = "192.168.1.10", "192.168.1.11", "192.168.1.66", "192.168.1.20"
AT = int(EPOCH * 1000)
AUTHORITY = ChainAuthority(Chain([root().certificate], [center().certificate]))


def own(agent_id):
    return self_signed(agent_id, new_key(), NOW)


def certified(agent_id, **names):
    return center().issue(agents=[agent_id], **names)


def start(lan, host, identity, *skills, name=None, roles=(REGISTRY, OFFERS), **options):
    """Start an agent that offers skills and keeps a registry, as a server does."""
    name = name or f"agent-{host}"
    lan.node(host, *roles, agent_id=name, identity=identity, authority=AUTHORITY, **options)
    for skill in skills:
        lan.offer(host, skill)


def asker(lan, **options):
    lan.node(C, ASKS, agent_id="asker", identity=own("asker"), authority=AUTHORITY, **options)


def discover(lan, **filters):
    lan.do(C, lambda node, now: node.searches.discover(now, **filters))
    lan.run(3)
    return {one.record.skill_id: one for one in lan.events(Discovered, C)[-1].skills}


@pytest.mark.spec("SDP-answer-proof")
def test_what_a_certified_agent_says_of_its_own_skill_is_verified():
    lan = Lan()
    start(lan, AGENT, certified(f"agent-{AGENT}"), "skill-a")
    asker(lan)
    lan.run(2)
    found = discover(lan, skill_types=(SkillType.TOOL,))["skill-a"]
    assert (found.agent_id, found.is_verified, found.skill_type) == (f"agent-{AGENT}", True, "tool-skill")
    assert discover(lan)["skill-a"].skill_type == "", "answers name no type"


@pytest.mark.spec("SDP-answer-proof")
def test_whom_nobody_certified_is_known_and_not_verified():
    lan = Lan()
    start(lan, AGENT, own(f"agent-{AGENT}"), "skill-a")
    asker(lan)
    lan.run(2)
    found = discover(lan)["skill-a"]
    assert (found.agent_id, found.is_verified) == (f"agent-{AGENT}", False)


@pytest.mark.spec("SDP-answer-proof")
def test_what_a_certified_agent_says_of_others_is_hearsay():
    lan = Lan()
    start(lan, OTHER, certified(f"agent-{OTHER}"))
    start(lan, AGENT, certified(f"agent-{AGENT}"), "skill-a", roles=(OFFERS,))
    asker(lan)
    lan.run(2)
    found = discover(lan)["skill-a"]
    assert (found.agent_id, found.is_verified, found.source.host) == ("", False, OTHER)


@pytest.mark.spec("SDP-answer-proof")
def test_a_certificate_of_a_skill_vouches_for_that_skill():
    lan = Lan()
    start(lan, AGENT, center().issue(skills=["skill-a"]), "skill-a")
    asker(lan)
    lan.run(2)
    assert discover(lan)["skill-a"].is_verified
    lan.offer(AGENT, "skill-b")  # which no registry takes, its own neither
    record = SkillRecord("skill-b", "1.0.0", Endpoint(AGENT, 8080), (), ())
    judgement = AUTHORITY.judge("x", center().issue(skills=["skill-a"]).certificate, EPOCH)
    assert judgement is not None
    author = Responder(Peer(AGENT, 5), "x", judgement)
    assert not author.vouches(record.skill_id, AGENT)
    assert author.vouches("skill-a", "192.168.9.9"), "it names the skill, wherever that is"


@pytest.mark.spec("SDP-answer-proof")
def test_who_is_certified_by_nobody_takes_no_skill_from_who_is():
    lan = Lan()
    asker(lan)
    request = lan.do(C, lambda node, now: node.searches.discover(now))
    search = lan.nodes[C].searches._searches[request]
    record = SkillRecord("skill-a", "1.0.0", Endpoint(AGENT, 8080), (), ())
    for number, identity in enumerate((certified("good"), own("evil"))):  # of one host
        name = ("good", "evil")[number]
        judgement = AUTHORITY.judge(name, identity.certificate, EPOCH)
        assert judgement is not None
        source = Peer(AGENT, 5 + number)
        taken = search.responders.take(source, lan.clock.steady)
        assert taken is not None
        _believe(search, taken[0], Responder(source, name, judgement), [record])
    assert [(one.agent_id, one.is_verified) for one in search.heard.skills] == [("good", True)]


@pytest.mark.spec("SDP-answer-proof")
def test_a_certified_agent_vouches_for_hosts_that_it_is_certified_for():
    judgement = AUTHORITY.judge("a", certified("a", hosts=[OTHER]).certificate, EPOCH)
    assert judgement is not None
    author = Responder(Peer(AGENT, 5), "a", judgement)
    assert [author.vouches("skill", host) for host in (AGENT, OTHER, EVIL)] == [True, True, False]
    assert not author._replace(agent_id="b").vouches("skill", AGENT)
    assert not author._replace(judgement=judgement._replace(is_revoked=lambda: True)).vouches("skill", AGENT)
    stranger = Responder(
        Peer("fe80::1%eth0", 5), "b", Judgement(judgement.key, Standing.UNVERIFIED, hosts=frozenset({C}))
    )
    assert (stranger.is_own("fe80::1"), stranger.is_own(C)) == (True, False)


@pytest.mark.spec("SDP-answer-proof")
def test_whose_certificate_was_revoked_or_names_another_is_nobody():
    identity = certified(f"agent-{AGENT}")
    authority = ChainAuthority(
        Chain([root().certificate], [center().certificate], revocations=TakenBackNumbers({serial(identity)}))
    )
    lan = Lan()
    start(lan, AGENT, identity, "skill-a")
    start(lan, OTHER, certified("agent-009"))
    lan.node(C, ASKS, agent_id="asker", identity=own("asker"), authority=authority)
    lan.run(2)
    found = discover(lan)["skill-a"]
    assert (found.agent_id, found.is_verified) == ("", False)
    assert lan.nodes[C].ingress.stopped["certificate"] > 0


@pytest.mark.spec("SDP-answer-proof")
def test_who_lies_first_is_put_right_by_who_can_prove_it():
    lan = Lan()
    start(lan, AGENT, certified(f"agent-{AGENT}"), "skill-a")
    asker(lan)
    lan.run(2)
    request = lan.do(C, lambda node, now: node.searches.discover(now))
    lie = SkillRecord("skill-a", "6.6.6", Endpoint(AGENT, 8080), ("evil",), ())
    answer = encode(m.DiscoverResponse(request, (lie,), AT))
    lan.inject(answer, Peer(EVIL, 6), C)
    lan.inject(answer + b"0", Peer(AGENT, 40_000), C)  # as if it came from where the agent is
    lan.run(3)
    (found,) = lan.events(Discovered, C)[-1].skills
    assert (found.record.version, found.record.capabilities) == ("0.7.0", ("user-auth",))
    assert (found.is_verified, found.source.host) == (True, AGENT)


@pytest.mark.spec("SDP-answer-proof")
def test_an_answer_under_anothers_address_is_proven_by_nobody():
    lan = Lan()
    start(lan, AGENT, certified(f"agent-{AGENT}"), "skill-a")
    asker(lan)
    lan.run(2)
    request = lan.do(C, lambda node, now: node.searches.discover(now))
    source = lan._hosts[AGENT].peer
    lie = SkillRecord("skill-evil", "6.6.6", Endpoint(AGENT, 8080), (), ())
    lan.run(1)
    lan.inject(encode(m.DiscoverResponse(request, (lie,), AT)), source, C)
    lan.run(2)
    found = {one.record.skill_id: one for one in lan.events(Discovered, C)[-1].skills}
    assert found["skill-a"].is_verified
    assert (found["skill-evil"].is_verified, found["skill-evil"].agent_id) == (False, "")
    assert lan.nodes[C].ingress.stopped["forged"] > 0, "the agent signs what it has sent, and that is something else"


@pytest.mark.spec("SDP-answer-proof")
def test_a_hundred_skills_are_verified_by_lossy_ways_too():
    lan = Lan(seed=5)
    start(lan, AGENT, certified(f"agent-{AGENT}"), *(f"skill-{number}" for number in range(100)))
    start(lan, OTHER, own(f"agent-{OTHER}"), "skill-other")
    asker(lan)
    lan.run(10)
    lan.loss = 0.1
    lan.run(0.1)
    found = discover(lan)
    verified = [one for one in found.values() if one.is_verified]
    assert len(found) == 101
    assert len(verified) >= 90
    assert {one.agent_id for one in verified} == {f"agent-{AGENT}"}


@pytest.mark.spec("SDP-answer-proof")
def test_in_the_profile_signed_the_signature_of_the_answer_is_the_proof():
    lan = Lan()
    start(lan, AGENT, certified(f"agent-{AGENT}"), "skill-a", profile=Profile.SIGNED)
    asker(lan, profile=Profile.SIGNED)
    lan.run(2)
    found = discover(lan)["skill-a"]
    assert (found.agent_id, found.is_verified) == (f"agent-{AGENT}", True)
    assert not lan.nodes[C]._proofs._asked


def request_scene(lan, seconds=3.0):
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=False))
    lan.run(seconds)
    return lan.events(SceneJoined, C)


@pytest.mark.spec("SDP-answer-proof")
def test_who_lets_us_into_a_scene_is_known():
    lan = Lan()
    start(lan, AGENT, certified(f"agent-{AGENT}"), "skill-a")
    asker(lan)
    lan.run(2)
    (joined,) = request_scene(lan)
    assert (joined.by.host, joined.agent_id) == (AGENT, f"agent-{AGENT}")
    assert (joined.standing, joined.is_verified) == (Standing.CERTIFIED, True)


def impostor(lan, source, scene="auth"):
    """Let somebody answer each request for a scene at once, with itself as the provider."""
    send = lan._send

    def answer(sender, datagram):
        send(sender, datagram)
        if sender.peer.host == C and isinstance(decode(datagram.data), m.RequestScene):
            info = m.ConnectionInfo("http", EVIL, 80, endpoint=f"{EVIL}:80")
            told = m.SceneAnswer(f"{scene}-001", f"group-{scene}-001", info, m.SkillInfo("skill-a", "6.6.6"))
            response = m.SceneJoinResponse("asker", told, int(lan.moment(C).wall * 1000))
            if source is None:  # it sends the answer itself, and can prove that
                data, member = encode(response), lan._hosts[C].peer
                lan.nodes[EVIL]._outbox.limit.prove(member, lan.clock.steady)
                lan.do(EVIL, lambda node, now: node._outbox.send(data, now, member))
            else:
                lan.inject(encode(response), source, C)

    lan._send = answer


@pytest.mark.spec("SDP-answer-proof")
@pytest.mark.parametrize("proves", [True, False])
def test_who_is_certified_counts_before_who_is_faster(proves):
    lan = Lan()
    start(lan, AGENT, certified(f"agent-{AGENT}"), "skill-a")
    start(lan, EVIL, own("evil"), name="evil", roles=(OFFERS,))
    asker(lan)
    lan.run(2)
    impostor(lan, None if proves else Peer(EVIL, 9))
    joined = request_scene(lan)
    assert [(one.answer.connection_info.host, one.is_verified) for one in joined] == [(AGENT, True)]
    assert (lan.nodes[C].ring.agent_at(lan._hosts[EVIL].peer, lan.clock.steady) == "evil") is proves


@pytest.mark.spec("SDP-answer-proof")
def test_when_nobody_is_certified_the_first_who_proves_itself_counts_after_a_moment():
    lan = Lan()
    start(lan, AGENT, own(f"agent-{AGENT}"), "skill-a")
    asker(lan)
    lan.run(2)
    since = lan.clock.steady
    (joined,) = request_scene(lan)
    told = next(at for at, _, event in lan.told if event is joined)
    assert (joined.standing, joined.is_verified, joined.agent_id) == (Standing.UNVERIFIED, False, f"agent-{AGENT}")
    assert told - since <= 0.6


@pytest.mark.spec("SDP-answer-proof")
def test_who_never_proves_itself_is_waited_for_a_moment_and_named_as_nobody():
    lan = Lan()
    asker(lan)
    impostor(lan, Peer(EVIL, 9))
    (joined,) = request_scene(lan)
    assert (joined.standing, joined.agent_id, joined.is_verified) == (Standing.NONE, "", False)
    lan.run(200)
    assert len(lan.events(SceneJoined, C)) == 1


@pytest.mark.spec("SDP-authentication-flow")
def test_a_challenge_has_three_fields_and_names_its_datagram_after_32_random_bytes_of_its_nonce():
    lan = Lan()
    lan.node(C, REGISTRY, identity=own("c"), authority=AUTHORITY)
    identity, sent = own("agent-a"), lan.sent_from(C)
    data = [encode_signed(registration(agent="agent-a", at=AT + n), identity.sign) for n in range(2)]
    for number, one in enumerate(data):
        lan.inject(one, Peer(AGENT, number), C)
    lan.run(0.1)
    asked = [message for _, one in sent if isinstance(message := decode(one), m.Challenge)]
    digests = [hashlib.sha256(one).digest() for one in data]
    assert [one.nonce[32:] for one in asked] == [digest[:8] for digest in digests]
    halves = {half for one in asked for half in (one.nonce[:16], one.nonce[16:32])}
    assert len(halves) == 4
    assert not halves & {digest[:16] for digest in digests}
    written = f"CHALLENGE:agent-192.168.1.20;{base64.b64encode(asked[0].nonce).decode()};{asked[0].timestamp}"
    assert encode(asked[0]) == written.encode()
    for length, is_read in ((31, False), (32, True), (40, True), (64, True), (65, False)):
        other = f"CHALLENGE:a;{base64.b64encode(bytes(length)).decode()};1".encode()
        with nullcontext() if is_read else pytest.raises(DecodeError):
            assert decode(other) == m.Challenge("a", bytes(length), 1)


@pytest.mark.spec("SDP-hostile")
def test_thousands_of_answers_make_us_ask_few_and_remember_little(monkeypatch):
    monkeypatch.setattr(limits, "LAN_ANSWERERS", 8)
    monkeypatch.setattr(limits, "LAN_ANSWER_PROOFS", 4)
    lan = Lan()
    asker(lan)
    request = lan.do(C, lambda node, now: node.searches.discover(now))
    lan.run(0.1)
    before = lan.sent
    for number in range(400):
        record = SkillRecord(f"skill-{number}", "1.0.0", Endpoint(EVIL, 8080), (), ())
        data = encode(m.DiscoverResponse(request, (record,), AT + number))
        lan.inject(data, Peer(f"10.0.0.{number % 40}", 6), C)
    lan.run(1.85)
    assert lan.sent - before <= 2 * 8 * 7 + 5, "each source for two answers, each seven times as nobody proves anything"
    assert len(lan.nodes[C]._proofs._asked) == 0
    lan.run(1)
    assert len(lan.events(Discovered, C)[0].skills) == 8 * 10, "of who has no place nothing is taken"


def test_so_many_proofs_are_waited_for_and_no_more(monkeypatch):
    monkeypatch.setattr(limits, "LAN_CHALLENGES", 2)
    lan = Lan()
    lan.node(C, ASKS)
    nonces = iter([b"0", b"1", b"2"])
    outbox: Any = SimpleNamespace(nonce=lambda _: next(nonces), send_challenge=lambda *_: None)
    witnesses = ResponderProofs(outbox)
    peers = [Peer(f"10.0.0.{number}", 1) for number in range(3)]
    for peer in peers:
        assert witnesses.ask(peer, b"answer", lan.moment(C)) == hashlib.sha256(b"answer").digest()
    assert witnesses.take(peers[0], b"0") is None, "the oldest was given up"
    assert witnesses.take(peers[0], b"2") is None, "it is another's"
    assert witnesses.take(peers[2], b"2") is not None
    assert witnesses.take(peers[2], b"2") is None, "a nonce counts once"


@pytest.mark.spec("SDP-answer-places")
def test_a_host_that_answers_a_scene_from_many_ports_keeps_out_nobody():
    lan: Any = Lan()
    start(lan, AGENT, certified(f"agent-{AGENT}"), "skill-a")
    asker(lan)
    lan.run(2)
    send = lan._send

    def answer(sender, datagram):
        send(sender, datagram)
        if sender.peer.host == C and isinstance(decode(datagram.data), m.RequestScene):
            info = m.ConnectionInfo("http", EVIL, 80, endpoint=f"{EVIL}:80")
            for number in range(40):
                told = m.SceneAnswer("auth-001", "group-auth-001", info, m.SkillInfo("skill-a", f"6.6.{number}"))
                response = m.SceneJoinResponse("asker", told, int(lan.moment(C).wall * 1000))
                lan.inject(encode(response), Peer(EVIL, 1000 + number), C)

    lan._send = answer
    (joined,) = request_scene(lan)
    assert (joined.by.host, joined.is_verified) == (AGENT, True)
