"""A silent skill is asked whether it is there, before it is taken for dead: lost datagrams are no death."""

import pytest
from tests.support.datagrams import registration
from tests.support.lan import OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode, encode
from skillwire.protocols.skill_discovery.doubts import SILENT_SKILL
from skillwire.protocols.skill_discovery.listing import Change, What
from skillwire.protocols.skill_discovery.messages import Endpoint, Outcome
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.testing.virtual_clock import EPOCH
from skillwire.wire.node import Peer

R, A = "10.0.0.1", "10.0.0.2"
KEY = f"agent-{A}", "skill-a"


class Watched(Lan):
    """A network that loses what ``loses`` says of sender and message, and keeps what was sent and when."""

    def __init__(self, **options):
        self.loses = lambda host, message: False  # noqa: ARG005 - a stand-in
        self.traffic: list[tuple[float, str, m.Message]] = []
        super().__init__(**options)
        self.node(R, REGISTRY)
        self.node(A, OFFERS)
        self.offer(A, "skill-a")
        self.run(8)
        self.traffic.clear()

    def _send(self, sender, datagram):
        message = decode(datagram.data)
        self.traffic.append((round(self.clock.steady, 3), sender.peer.host, message))
        if not self.loses(sender.peer.host, message):
            super()._send(sender, datagram)

    def _probe(self, host, listed):
        """Endpoints do not answer here: what is seen is what datagrams do."""

    def asked(self):
        return [at for at, host, message in self.traffic if host == R and SILENT_SKILL in str(message)]


@pytest.mark.spec("SDP-health-asked")
def test_a_skill_whose_beats_are_lost_is_asked_and_beats_at_once():
    lan = Watched()
    heard = lan.heard(R, KEY)
    lan.loses = lambda _, message: isinstance(message, m.Heartbeat) and lan.clock.steady < heard + 11
    lan.run(heard + 11.9 - lan.clock.steady)
    listed = lan.nodes[R].registry.get(KEY)
    assert listed is not None
    assert listed.health.heard > heard
    assert not listed.health.is_suspect
    assert What.STATUS not in [change.what for change in lan.events(Change)]
    answers = [at for at, host, message in lan.traffic if host == A and isinstance(message, m.Heartbeat)]
    assert min(abs(beat - ask) for beat in answers for ask in lan.asked()) < 0.01


@pytest.mark.spec("SDP-health-asked")
def test_a_dead_skill_is_asked_so_often_and_then_unhealthy():
    lan = Watched()
    heard = lan.heard(R, KEY)
    lan.crash(A)
    lan.run(heard + 29 - lan.clock.steady)
    assert [round(at - heard, 1) for at in lan.asked()] == pytest.approx([10.0, 11.2, 12.5], abs=0.2)
    assert lan.listed(R) == {KEY: "UNHEALTHY"}


@pytest.mark.spec("SDP-health-asked")
def test_nobody_is_asked_when_the_file_says_so_or_when_it_is_the_network():
    lan = Watched()
    lan.nodes[R].mcp_agent._doubts._settings = DiscoverySettings(retry_count=0)
    lan.crash(A)
    lan.run(20)
    assert lan.asked() == []
    lan = Watched()
    for number in range(10):
        lan.offer(A, f"skill-{number}")
    lan.run(3)
    lan.crash(A)
    lan.run(200)
    assert lan.nodes[R].registry.network_is_suspected(lan.clock.steady)
    assert len(lan.asked()) <= 3 * 11, "each once in a silence"


@pytest.mark.spec("SDP-health-asked")
def test_who_asks_by_the_thousand_makes_nobody_beat_by_the_thousand():
    lan = Watched()
    for _ in range(200):
        ack = m.RegisterAck(KEY[0], Outcome.DUPLICATE, f"skill-a {SILENT_SKILL}", int(lan.moment(A).wall * 1000))
        for _ in range(20):
            lan.inject(encode(ack), Peer("10.0.0.66", 9), A)
        lan.run(0.05)
    beats = [at for at, host, message in lan.traffic if host == A and isinstance(message, m.Heartbeat)]
    assert len(beats) <= 10 * DiscoverySettings().rate


def test_so_many_are_asked_in_a_second_and_no_more(monkeypatch):
    monkeypatch.setattr(limits, "LAN_DOUBTS", 5)
    lan = Watched()
    node = lan.nodes[R]
    node._outbox.allowances.prove(Peer("10.0.0.9", 9), lan.clock.steady)
    for number in range(20):
        message = registration(f"a-{number}", at=int(EPOCH * 1000), endpoint=Endpoint("10.0.0.9", 1))
        node.registry.register(message, lan.clock.steady, is_verified=False, host="10.0.0.9")
        node.mcp_agent._doubts.heard(f"a-{number}", Peer("10.0.0.9", 9))
    start = lan.clock.steady
    lan.run(11)
    seconds = [int(at) for at in lan.asked() if at < start + 10.9]
    assert 5 <= len(seconds) <= 10
    assert max(seconds.count(second) for second in seconds) <= 5
