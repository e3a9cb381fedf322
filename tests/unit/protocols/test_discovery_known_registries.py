"""Who keeps a registry, as far as one that offers skills can tell from what nobody signs."""

import pytest
from tests.support.lan import OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.model.ledger import Moment
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.known_registries import KnownRegistries
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Peer

R, A = "192.168.1.1", "192.168.1.10"
NOW = Moment(0.0, 100.0)


def ack(number, status=m.Outcome.SUCCESS, text="registered"):
    return encode(m.RegisterAck(f"agent-{A}", status, f"skill-a {text}", 1_707_868_800_000 + number))


def strangers(count, per_host=10):
    return [Peer(f"10.0.{n // per_host // 250}.{n // per_host % 250 + 1}", 1024 + n % per_host) for n in range(count)]


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
    told = kept._told["register", "skill-a"]
    assert len(told.acknowledged) <= limits.LAN_REGISTRIES
    lan.run(400)
    told = kept._told["register", "skill-a"]
    assert {peer.host for peer in told.acknowledged} == {R}


@pytest.mark.spec("SDP-rate-bound")
def test_who_has_proven_to_be_there_takes_the_place_of_who_has_not():
    real = Peer(R, 40_000)
    known = KnownRegistries(DiscoverySettings(), lambda peer, _: peer == real)
    for source in strangers(2_000):
        known.hear(source, NOW)
    assert known.hear(real, NOW)
    assert real in known
    assert known.hosts >= {R}
    crowded = KnownRegistries(DiscoverySettings(), lambda peer, _: peer == real)
    for port in range(1, 100):
        crowded.hear(Peer(R, port), NOW)
    assert crowded.hear(real, NOW)


@pytest.mark.spec("SDP-rate-bound")
def test_one_host_is_remembered_a_few_times():
    known = KnownRegistries(DiscoverySettings(), lambda *_: False)
    assert sum(known.hear(Peer(R, port), NOW) for port in range(1, 100)) == 8
    assert known.hear(Peer(A, 1), NOW), "and leaves others their places"


@pytest.mark.spec("SDP-rate-bound")
def test_who_is_not_remembered_is_given_no_more_than_what_it_asks_for():
    known = KnownRegistries(DiscoverySettings(), lambda *_: False)
    for source in strangers(2_000):
        known.hear(source, NOW)
    asks = Peer("172.16.0.1", 9)
    assert not known.hear_anew(asks, NOW, had_it=False)
    assert not known.is_starting(asks, NOW)


@pytest.mark.spec("SDP-rate-bound")
def test_proven_registries_are_as_many_as_there_are_places_and_the_oldest_makes_room():
    known = KnownRegistries(DiscoverySettings(), lambda *_: True)
    hosts = [Peer(f"10.1.{n // 250}.{n % 250 + 1}", 9) for n in range(int(limits.LAN_REGISTRIES) + 5)]
    for number, source in enumerate(hosts):
        assert known.hear(source, Moment(0.0, 100.0 + number))
    kept = [source for source in hosts if source in known]
    assert kept == hosts[5:]
    assert known.hosts == {source.host for source in kept}


@pytest.mark.spec("SDP-heartbeat-unknown")
def test_who_lacks_what_it_had_has_started_anew_and_who_is_new_is_given_everything_once():
    known, later = KnownRegistries(DiscoverySettings(), lambda *_: False), Moment(0.0, 105.0)
    assert known.hear_anew(Peer(R, 1), NOW, had_it=False), "it is new"
    assert not known.hear_anew(Peer(R, 1), later, had_it=True), "it is just being given everything"
    assert known.hear_anew(Peer(R, 1), Moment(0.0, 111.0), had_it=True), "it has started anew"
    known.hear(Peer(A, 1), NOW)
    assert not known.hear_anew(Peer(A, 1), later, had_it=False), "it is known, and lacks this alone"
    assert known.hear_anew(Peer(A, 1), later, had_it=True)


@pytest.mark.spec("SDP-rate-bound")
def test_only_who_is_silent_is_forgotten_and_nothing_of_it_is_left():
    known = KnownRegistries(DiscoverySettings(registry_seen=100.0), lambda *_: False)
    known.hear_anew(Peer(R, 1), Moment(0.0, 100.0), had_it=False)
    known.hear(Peer(A, 1), Moment(0.0, 199.0))
    known.forget_silent(Moment(0.0, 200.0))
    assert Peer(R, 1) not in known
    assert not known.is_starting(Peer(R, 1), Moment(0.0, 105.0))
    assert Peer(A, 1) in known
    assert known.hosts == {A}
