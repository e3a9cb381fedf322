"""How many keys are remembered, and whose makes room for whose."""

from __future__ import annotations

from functools import partial

import pytest
from tests.support.certificates import NOW, center, root
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.certified import ChainAuthority
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.identity import GroupKey, Judgement, Standing
from skillwire.protocols.skill_discovery.keyring import KeyRing
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

A, B, EVIL, R = "192.168.1.10", "192.168.1.11", "192.168.1.66", "192.168.1.1"
AUTHORITY = ChainAuthority(Chain([root().certificate], [center().certificate]))
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


def network():
    """Return a network with a registry that has a key of its own."""
    lan = Lan()
    lan.node(R, REGISTRY, agent_id="registry", identity=own("registry"), authority=AUTHORITY)
    return lan


def own(name):
    return self_signed(name, new_key(), NOW)


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
    assert lan.nodes[R].gate.stopped["no room"] > 0
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
    lan.do(B, lambda node, now: node.end_agent.want_scene("auth", (), now, is_request=True))
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
