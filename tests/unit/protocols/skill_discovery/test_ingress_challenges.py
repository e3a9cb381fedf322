"""A responder is asked for its name, and to register: that alone says what it offers, and whether it is certified."""

import base64
import hashlib
from contextlib import nullcontext
from typing import Any

import pytest
from tests.support.certificates import NOW, TakenBackNumbers, center, root, serial
from tests.support.datagrams import registration
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode, encode, encode_signed
from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.protocols.skill_discovery.messages import Endpoint, Profile, SkillRecord
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.scenes import SceneJoined
from skillwire.protocols.skill_discovery.search import Discovered
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
    options = {"identity": own("asker"), "authority": AUTHORITY} | options
    lan.node(C, ASKS, Role.OBSERVER, agent_id="asker", **options)


def discover(lan, **filters):
    """Return the agents of the found skills, and which of the listed ones are verified."""
    lan.do(C, lambda node, now: node.searches.discover(now, **filters))
    lan.run(3)
    found = {one.record.skill_id: one.agent_id for one in lan.events(Discovered, C)[-1].skills}
    return found, {one.key[1]: one.is_verified for one in lan.nodes[C].registry}


IDENTITY = certified(f"agent-{AGENT}")
REVOKED = ChainAuthority(
    Chain([root().certificate], [center().certificate], revocations=TakenBackNumbers({serial(IDENTITY)}))
)


@pytest.mark.spec("SDP-answer-proof")
@pytest.mark.parametrize(
    ("identity", "options", "agent", "listed"),
    [
        pytest.param(IDENTITY, {}, f"agent-{AGENT}", {"skill-a": True}, id="certified"),
        pytest.param(IDENTITY, {"profile": Profile.SIGNED}, f"agent-{AGENT}", {"skill-a": True}, id="signed"),
        pytest.param(own(f"agent-{AGENT}"), {}, f"agent-{AGENT}", {"skill-a": False}, id="uncertified"),
        pytest.param(IDENTITY, {"authority": REVOKED}, "", {}, id="revoked"),
    ],
)
def test_a_responder_proves_its_name_and_registers_and_its_certificate_decides(identity, options, agent, listed):
    lan = Lan()
    start(lan, AGENT, identity, "skill-a", profile=options.get("profile", Profile.OPEN))
    asker(lan, **options)
    lan.run(2)
    assert discover(lan) == ({"skill-a": agent}, listed)
    assert bool(lan.nodes[C].ingress.stopped["certificate"]) is not bool(listed)


@pytest.mark.spec("SDP-answer-proof")
def test_what_an_agent_says_of_others_is_hearsay():
    lan = Lan()
    start(lan, OTHER, certified(f"agent-{OTHER}"))
    start(lan, AGENT, IDENTITY, "skill-a", roles=(OFFERS,))
    lan.run(2)
    lan.crash(AGENT)
    asker(lan)
    assert discover(lan) == ({"skill-a": ""}, {})


@pytest.mark.spec("SDP-answer-proof")
@pytest.mark.parametrize("source", [Peer(EVIL, 6), Peer(AGENT, 40_000)])
def test_a_lie_about_a_skill_or_from_its_address_changes_nothing_of_what_is_registered(source):
    lan = Lan()
    start(lan, AGENT, IDENTITY, "skill-a")
    asker(lan)
    lan.run(2)
    request = lan.do(C, lambda node, now: node.searches.discover(now))
    lies = [SkillRecord(name, "6.6.6", Endpoint(AGENT, 8080), ("evil",), ()) for name in ("skill-a", "skill-evil")]
    lan.inject(encode(m.DiscoverResponse(request, tuple(lies), AT)), source, C)
    lan.run(3)
    [listed] = lan.nodes[C].registry
    assert (listed.registration.version, listed.registration.capabilities) == ("0.7.0", ("user-auth",))
    assert listed.is_verified


@pytest.mark.spec("SDP-answer-proof")
def test_a_hundred_skills_are_verified_by_lossy_ways_too():
    lan = Lan(seed=5)
    start(lan, AGENT, IDENTITY, *(f"skill-{number}" for number in range(100)))
    start(lan, OTHER, own(f"agent-{OTHER}"), "skill-other")
    asker(lan)
    lan.run(10)
    lan.loss = 0.1
    lan.run(0.1)
    found, listed = discover(lan)
    assert len(found) == 101
    assert sum(listed.values()) == 100
    assert {found[name] for name, is_verified in listed.items() if is_verified} == {f"agent-{AGENT}"}


@pytest.mark.spec("SDP-scene-request")
def test_of_several_answers_about_a_scene_the_first_counts_and_no_responder_is_challenged():
    lan: Any = Lan()
    start(lan, AGENT, IDENTITY, "skill-a")
    asker(lan)
    lan.run(2)
    sent = lan.sent_from(C)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=False))
    info = m.ConnectionInfo("http", EVIL, 80, endpoint=f"{EVIL}:80")
    for number in range(40):
        told = m.SceneAnswer("auth-001", "group-auth-001", info, m.SkillInfo("skill-a", f"6.6.{number}"))
        lan.inject(encode(m.SceneJoinResponse("asker", told, AT)), Peer(EVIL, 1000 + number), C)
    lan.run(200)
    [joined] = lan.events(SceneJoined, C)
    assert joined.by.host == EVIL, "which proves nothing: a registration decides"
    assert not [data for to, data in sent if to is not None and to.host == EVIL]


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
    assert lan.sent - before <= 2 * 8 + 5, "eight sources, each twice, as nobody proves anything"
    lan.run(1)
    assert len(lan.events(Discovered, C)[0].skills) == 400


@pytest.mark.spec("SDP-amplification")
def test_notices_from_forged_addresses_cost_one_challenge_for_each_within_three_times_what_came():
    lan = Lan()
    lan.node(C, REGISTRY, identity=own("c"), authority=AUTHORITY)
    joined, sent, came = (
        m.GroupEvent.MEMBER_JOINED,
        lan.sent_from(C),
        {Peer(EVIL, 1000 + number): 0 for number in range(5)},
    )
    for number in range(20):
        notice = m.SceneEvent("auth-001", joined, f"victim-{number}", "skill-a", m.HealthStatus.HEALTHY, AT + number)
        for source in came:
            came[source] += len(data := encode(notice))
            lan.inject(data, source, C)
        lan.run(0.1)
    pending = lan.nodes[C].ingress._challenges._pending
    assert pending.keys() == came.keys()
    assert lan.listed(C) == {}
    for source, size in came.items():
        told = [data for to, data in sent if to == source]
        assert len(told) == 2, "the challenge, and once more in case it was lost"
        nonces = {one.nonce if isinstance(one := decode(data), m.Challenge) else b"" for data in told}
        assert nonces == {pending[source].nonce}, "one, however often it is sent"
        assert sum(map(len, told)) <= 3 * size
        assert len(pending[source].held) <= limits.LAN_HELD_DATAGRAMS
