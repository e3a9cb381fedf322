"""The registries that a RouteAgent knows, and the heartbeats that they request."""

import pytest
from tests.support.datagrams import registration
from tests.support.lan import OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode, encode
from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.limits import AmplificationLimit
from skillwire.protocols.skill_discovery.messages import Endpoint, Outcome
from skillwire.protocols.skill_discovery.route_agent import KnownRegistries
from skillwire.protocols.skill_discovery.scheduling import SILENT_SKILL
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.testing.fake_network import EPOCH
from skillwire.wire.node import Peer

R, A = "192.168.1.1", "192.168.1.10"
NOW = Moment(0.0, 100.0)


def ack(number, status=m.Outcome.SUCCESS, text="registered"):
    return encode(m.RegisterAck(f"agent-{A}", status, f"skill-a {text}", 1_707_868_800_000 + number))


def strangers(count, per_host=10):
    return [Peer(f"10.0.{n // per_host // 250}.{n // per_host % 250 + 1}", 1024 + n % per_host) for n in range(count)]


def proven(*peers):
    """Return a limit that knows these addresses as proven."""
    limit = AmplificationLimit(3.0, 600.0)
    for peer in peers:
        limit.prove(peer, NOW.steady)
    return limit


def agent():
    """Return a network with an agent that has registered one skill."""
    lan = Lan(seed=1)
    lan.node(R, REGISTRY)
    lan.node(A, OFFERS)
    lan.offer(A, "skill-a")
    lan.run(5)
    assert lan.listed(R)
    return lan


@pytest.mark.spec("SDP-rate-bound")
def test_who_looks_like_many_registries_is_remembered_as_few():
    lan = agent()
    kept = lan.nodes[A].route_agent
    for number, source in enumerate(strangers(5_000)):
        lan.inject(ack(number), source, A)
    told = kept._repeated["register", "skill-a"]
    assert len(told.acknowledged) <= limits.LAN_REGISTRIES
    lan.run(400)
    told = kept._repeated["register", "skill-a"]
    assert {peer.host for peer in told.acknowledged} == {R}


@pytest.mark.spec("SDP-rate-bound")
def test_who_has_proven_to_be_there_takes_the_place_of_who_has_not():
    real = Peer(R, 40_000)
    known = KnownRegistries(DiscoverySettings(), proven(real))
    for source in strangers(2_000):
        known.add(source, NOW)
    assert known.add(real, NOW)
    assert real in known
    assert known.hosts >= {R}
    crowded = KnownRegistries(DiscoverySettings(), proven(real))
    for port in range(1, 100):
        crowded.add(Peer(R, port), NOW)
    assert crowded.add(real, NOW)


@pytest.mark.spec("SDP-rate-bound")
def test_one_host_is_remembered_a_few_times():
    known = KnownRegistries(DiscoverySettings(), proven())
    assert sum(known.add(Peer(R, port), NOW) for port in range(1, 100)) == 8
    assert known.add(Peer(A, 1), NOW), "and leaves others their places"


@pytest.mark.spec("SDP-rate-bound")
def test_who_is_not_remembered_is_given_no_more_than_what_it_asks_for():
    known = KnownRegistries(DiscoverySettings(), proven())
    for source in strangers(2_000):
        known.add(source, NOW)
    asks = Peer("172.16.0.1", 9)
    assert not known.add_starting(asks, NOW, had_it=False)
    assert not known.is_starting(asks, NOW)


@pytest.mark.spec("SDP-rate-bound")
def test_proven_registries_are_as_many_as_there_are_places_and_the_oldest_makes_room():
    hosts = [Peer(f"10.1.{n // 250}.{n % 250 + 1}", 9) for n in range(int(limits.LAN_REGISTRIES) + 5)]
    known = KnownRegistries(DiscoverySettings(), proven(*hosts))
    for number, source in enumerate(hosts):
        assert known.add(source, Moment(0.0, 100.0 + number))
    kept = [source for source in hosts if source in known]
    assert kept == hosts[5:]
    assert known.hosts == {source.host for source in kept}


@pytest.mark.spec("SDP-heartbeat-unknown")
def test_who_lacks_what_it_had_has_started_anew_and_who_is_new_is_given_everything_once():
    known, later = KnownRegistries(DiscoverySettings(), proven()), Moment(0.0, 105.0)
    assert known.add_starting(Peer(R, 1), NOW, had_it=False), "it is new"
    assert not known.add_starting(Peer(R, 1), later, had_it=True), "it is just being given everything"
    assert known.add_starting(Peer(R, 1), Moment(0.0, 111.0), had_it=True), "it has started anew"
    known.add(Peer(A, 1), NOW)
    assert not known.add_starting(Peer(A, 1), later, had_it=False), "it is known, and lacks this alone"
    assert known.add_starting(Peer(A, 1), later, had_it=True)


@pytest.mark.spec("SDP-rate-bound")
def test_only_who_is_silent_is_forgotten_and_nothing_of_it_is_left():
    known = KnownRegistries(DiscoverySettings(registry_seen=100.0), proven())
    known.add_starting(Peer(R, 1), Moment(0.0, 100.0), had_it=False)
    known.add(Peer(A, 1), Moment(0.0, 199.0))
    known.forget_silent(Moment(0.0, 200.0))
    assert Peer(R, 1) not in known
    assert not known.is_starting(Peer(R, 1), Moment(0.0, 105.0))
    assert Peer(A, 1) in known
    assert known.hosts == {A}


REGISTRY_HOST, AGENT_HOST = "10.0.0.1", "10.0.0.2"
KEY = f"agent-{AGENT_HOST}", "skill-a"


class Watched(Lan):
    """A network that loses what ``loses`` says of sender and message, and keeps what was sent and when."""

    def __init__(self, **options):
        self.loses = lambda host, message: False  # noqa: ARG005 - a stand-in
        self.traffic: list[tuple[float, str, m.Message]] = []
        super().__init__(**options)
        self.node(REGISTRY_HOST, REGISTRY)
        self.node(AGENT_HOST, OFFERS)
        self.offer(AGENT_HOST, "skill-a")
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
        return [at for at, host, message in self.traffic if host == REGISTRY_HOST and SILENT_SKILL in str(message)]


@pytest.mark.spec("SDP-health-asked")
def test_a_skill_whose_beats_are_lost_is_asked_and_beats_at_once():
    lan = Watched()
    heard = lan.heard(REGISTRY_HOST, KEY)
    lan.loses = lambda _, message: isinstance(message, m.Heartbeat) and lan.clock.steady < heard + 11
    lan.run(heard + 11.9 - lan.clock.steady)
    listed = lan.nodes[REGISTRY_HOST].registry.get(KEY)
    assert listed is not None
    assert listed.health.heard > heard
    assert not listed.health.is_suspect
    assert ChangeKind.STATUS not in [change.kind for change in lan.events(Change)]
    answers = [at for at, host, message in lan.traffic if host == AGENT_HOST and isinstance(message, m.Heartbeat)]
    assert min(abs(beat - ask) for beat in answers for ask in lan.asked()) < 0.01


@pytest.mark.spec("SDP-health-asked")
def test_a_dead_skill_is_asked_so_often_and_then_unhealthy():
    lan = Watched()
    heard = lan.heard(REGISTRY_HOST, KEY)
    lan.crash(AGENT_HOST)
    lan.run(heard + 29 - lan.clock.steady)
    assert [round(at - heard, 1) for at in lan.asked()] == pytest.approx([10.0, 11.2, 12.5], abs=0.2)
    assert lan.listed(REGISTRY_HOST) == {KEY: "UNHEALTHY"}


@pytest.mark.spec("SDP-health-asked")
def test_nobody_is_asked_when_the_file_says_so_or_when_it_is_the_network():
    lan = Watched()
    lan.nodes[REGISTRY_HOST].mcp_agent._pinger._settings = DiscoverySettings(retry_count=0)
    lan.crash(AGENT_HOST)
    lan.run(20)
    assert lan.asked() == []
    lan = Watched()
    for number in range(10):
        lan.offer(AGENT_HOST, f"skill-{number}")
    lan.run(3)
    lan.crash(AGENT_HOST)
    lan.run(200)
    assert lan.nodes[REGISTRY_HOST].registry.network_is_suspected(lan.clock.steady)
    assert len(lan.asked()) <= 3 * 11, "each once in a silence"


@pytest.mark.spec("SDP-health-asked")
def test_who_asks_by_the_thousand_makes_nobody_beat_by_the_thousand():
    lan = Watched()
    for _ in range(200):
        ack = m.RegisterAck(
            KEY[0], Outcome.DUPLICATE, f"skill-a {SILENT_SKILL}", int(lan.moment(AGENT_HOST).wall * 1000)
        )
        for _ in range(20):
            lan.inject(encode(ack), Peer("10.0.0.66", 9), AGENT_HOST)
        lan.run(0.05)
    beats = [at for at, host, message in lan.traffic if host == AGENT_HOST and isinstance(message, m.Heartbeat)]
    assert len(beats) <= 10 * DiscoverySettings().rate


def test_so_many_are_asked_in_a_second_and_no_more(monkeypatch):
    monkeypatch.setattr(limits, "LAN_SUSPECT_PINGS", 5)
    lan = Watched()
    node = lan.nodes[REGISTRY_HOST]
    node._outbox.limit.prove(Peer("10.0.0.9", 9), lan.clock.steady)
    for number in range(20):
        message = registration(f"a-{number}", at=int(EPOCH * 1000), endpoint=Endpoint("10.0.0.9", 1))
        node.registry.register(message, lan.clock.steady, is_verified=False, host="10.0.0.9")
        node.mcp_agent._pinger.note_address(f"a-{number}", Peer("10.0.0.9", 9))
    start = lan.clock.steady
    lan.run(11)
    seconds = [int(at) for at in lan.asked() if at < start + 10.9]
    assert 5 <= len(seconds) <= 10
    assert max(seconds.count(second) for second in seconds) <= 5
