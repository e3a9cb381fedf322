"""The tables of a search: who was quick, and who makes up names, keeps nobody else from being found."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.certificates import NOW, center, root
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery.answers import PROOF_TAKES, Answerers, Told
from skillwire.protocols.skill_discovery.certified import ChainAuthority
from skillwire.protocols.skill_discovery.codec import decode, encode_responses
from skillwire.protocols.skill_discovery.events import Discovered, Found
from skillwire.protocols.skill_discovery.messages import Discover, Endpoint, SkillRecord
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

A, B, EVIL = "192.168.1.100", "192.168.1.101", "192.168.1.66"
AUTHORITY = ChainAuthority(Chain([root().certificate], [center().certificate]))


@pytest.fixture
def _few(monkeypatch):
    """Leave room for six of each, four of them of one host."""
    for name in ("LAN_ANSWERERS", "LAN_FOUND"):
        monkeypatch.setattr(limits, name, 6)
        monkeypatch.setattr(limits, f"{name}_PER_HOST", 4)


def told(name, host=EVIL, agent="", place=None, *, is_verified=False):
    record = SkillRecord(name, "1.0.0", Endpoint(place or host, 80), (), ())
    return Found(record, Peer(host, 1000), agent, is_verified)


def names(table):
    return {found.record.skill_id for found in table.skills}


def answers(mode, request, at):
    """Return what hostile hosts answer at once, each datagram with its source."""
    if mode == "ports":
        parts = [(number, [record(f"x{number}", number)]) for number in range(256)]
        return [
            (data, Peer(f"192.168.1.{60 + number % 6}", 1000 + number))
            for number, one in parts
            for data in encode_responses(request, one, at)
        ]
    datagrams = encode_responses(request, [record(f"{number:x}", 0) for number in range(10_050)], at)
    return [(data, Peer(f"192.168.1.{60 + number % 6}", 1000)) for number, data in enumerate(datagrams)]


def record(name, number):
    return SkillRecord(name, "1.0.0", Endpoint(f"192.168.1.{60 + number % 6}", 80), (), ())


@pytest.mark.spec("SDP-answer-places")
@pytest.mark.parametrize("mode", ["ports", "records"])
def test_whoever_answers_first_and_most_who_is_certified_is_found_and_verified(mode):
    lan = Lan()
    identity = center().issue(agents=["agent-a"])
    lan.node(A, OFFERS, REGISTRY, agent_id="agent-a", identity=identity, authority=AUTHORITY)
    lan.offer(A, "skill-a", capabilities=("cap",))
    lan.run(3)
    own = self_signed("agent-b", new_key(), NOW)
    lan.node(B, ASKS, agent_id="agent-b", identity=own, authority=AUTHORITY)
    send, asked = lan._send, list[str]()

    def answer_at_once(sender, datagram):
        send(sender, datagram)
        if datagram.data.startswith(b"SKILL_DISCOVER:") and not asked:
            question = decode(datagram.data)
            assert isinstance(question, Discover)
            asked.append(question.requester_id)
            for data, source in answers(mode, asked[0], int(lan.moment(B).wall * 1000)):
                lan.inject(data, source, B)

    lan._send = answer_at_once  # type: ignore[method-assign]  # what a host on the network hears
    lan.do(B, lambda node, now: node.end_agent.discover(now, capabilities=("cap",)))
    lan.run(3)
    [found] = lan.events(Discovered, B)
    [ours] = [one for one in found.skills if one.record.skill_id == "skill-a"]
    assert (ours.agent_id, ours.is_verified) == ("agent-a", True)
    of_host = Counter(one.source.host for one in found.skills)
    assert max(of_host.values()) <= limits.LAN_FOUND_PER_HOST


@pytest.mark.spec("SDP-answer-places")
@pytest.mark.usefixtures("_few")
def test_a_host_has_places_for_some_sources_and_others_have_theirs():
    table = Answerers()
    assert [table.take(Peer(EVIL, port), 0.0) is not None for port in range(6)] == [True] * 4 + [False] * 2
    for port in range(2):
        assert table.take(Peer(B, port), 0.0) is not None
    taken = table.take(Peer(A, 1), 0.0)
    assert taken is not None, "a new host takes a place of who has most"
    assert table.get(Peer(EVIL, 0)) is None
    assert table.take(Peer(EVIL, 1), 0.0) is not None, "who has a place keeps it"


@pytest.mark.spec("SDP-answer-places")
@pytest.mark.usefixtures("_few")
def test_who_has_proven_itself_makes_room_for_nobody_and_who_has_not_does_after_a_while():
    table = Answerers()
    for host in range(6):
        table.take(Peer(f"192.168.1.{host}", 1), 0.0)
    table.know(Peer("192.168.1.0", 1), "somebody")  # type: ignore[arg-type]  # whoever
    assert table.take(Peer(A, 1), PROOF_TAKES / 2) is None, "they have had no time yet"
    taken = table.take(Peer(A, 1), PROOF_TAKES)
    assert taken is not None
    assert taken.gone == "192.168.1.1"
    for host in range(2, 6):
        table.know(Peer(f"192.168.1.{host}", 1), "somebody")  # type: ignore[arg-type]  # whoever
    table.know(Peer(A, 1), "somebody")  # type: ignore[arg-type]  # whoever
    assert table.take(Peer(B, 1), 10.0) is None


@pytest.mark.spec("SDP-answer-places")
@pytest.mark.usefixtures("_few")
def test_a_source_of_a_host_whose_places_are_taken_comes_in_when_another_has_proven_nothing():
    table = Answerers()
    for port in range(4):
        table.take(Peer(EVIL, port), 0.0)
    assert table.take(Peer(EVIL, 9), PROOF_TAKES) is not None
    assert table.get(Peer(EVIL, 0)) is None


@pytest.mark.spec("SDP-answer-places")
@pytest.mark.usefixtures("_few")
def test_of_hearsay_a_host_has_so_much_and_gives_way_to_a_host_that_has_less():
    table = Told()
    assert [table.hear(told(f"e{number}")) for number in range(5)] == [True] * 4 + [False]
    assert [table.hear(told(f"b{number}", B)) for number in range(3)] == [True, True, True]
    assert names(table) == {"e0", "e1", "e2", "b0", "b1", "b2"}
    assert not table.hear(told("b3", B)), "it has as many"


@pytest.mark.spec("SDP-answer-places")
@pytest.mark.usefixtures("_few")
def test_what_is_proven_and_what_is_certified_take_the_places_of_less():
    table = Told()
    for number in range(4):
        table.hear(told(f"e{number}"))
    assert table.believe(told("mine", agent="agent-e")), "of the same host"
    assert names(table) == {"e0", "e1", "e2", "mine"}
    for number in range(2):
        table.hear(told(f"b{number}", B))
    for number in range(6):
        assert table.believe(told(f"v{number}", A, "agent-a", is_verified=True))
    assert names(table) == {f"v{number}" for number in range(6)}
    assert not table.believe(told("v6", A, "agent-a", is_verified=True)), "certified all"


@pytest.mark.usefixtures("_few")
def test_what_finds_no_room_as_proven_stays_as_it_was():
    table = Told()
    for number in range(4):
        table.believe(told(f"e{number}", agent="agent-e"))
    table.hear(told("x", B, place=EVIL))
    assert not table.believe(told("x", agent="agent-e"))
    assert table.get(("x", Endpoint(EVIL, 80))) == told("x", B, place=EVIL)


@pytest.mark.spec("SDP-answer-places")
def test_who_says_it_first_of_another_does_not_have_it_forgotten_with_what_else_it_said():
    table = Told()
    table.hear(told("skill-a", place=A))
    table.hear(told("skill-b", place=B))
    table.hear(told("skill-a", A))
    table.forget(EVIL)
    assert names(table) == {"skill-a"}
