"""Nodes of the DHT on a virtual network: what is put is found, whatever happens to the nodes and the network."""

import pytest
from tests.support.authorities import World
from tests.support.dht import PORT, Dht, NamedKey, offer_of, signed

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.protocols.skill_discovery.dht.messages import Find, Found, Store, decode, encode
from skillwire.protocols.skill_discovery.dht.records import capability_key, figure_key, name_key, skill_key
from skillwire.protocols.skill_discovery.identity import GroupKey, Standing
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.settings import DhtSettings
from skillwire.testing.fake_network import EPOCH
from skillwire.wire.node import Peer

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def skills(finished):
    return sorted(record.skill_id for record in finished.records)


def host(number):
    return f"10.0.0.{number + 1}"


def put_all(dht, count, nodes=40):
    for number in range(count):
        done = dht.put(host(number % nodes), offer_of(number, f"do-{number}"))
        assert done.stored >= 3


def missing(dht, count, nodes):
    """Return the numbers of the skills that a lookup from some node does not find."""
    found = [dht.get(host(number * 7 % nodes), number, f"do-{number}") for number in range(count)]
    return [number for number, event in enumerate(found) if skills(event) != [f"skill-{number}"]], found


@pytest.mark.spec("SDP-dht-find")
def test_what_40_nodes_put_is_found_and_12_dead_nodes_take_nothing_away():
    dht = Dht().start(40)
    put_all(dht, 200)
    assert missing(dht, 200, 40)[0] == []
    for number in range(28, 40):
        dht.crash(host(number))
    lost, found = missing(dht, 200, 28)
    assert lost == []
    seconds = sorted(event.seconds for event in found)
    assert seconds[190] <= 0.6


@pytest.mark.spec("SDP-dht-key")
def test_a_skill_is_found_by_its_keys_and_another_agents_form_of_the_key_is_read():
    dht = Dht().start(6)
    offer = offer_of(1, "scan", "print")
    assert dht.put(A, offer).stored >= 3
    for key in (name_key("skill-1"), capability_key("print"), skill_key("skill-1", "scan")):
        (record,) = dht.find(B, key).records
        assert record.agent_id == f"certified-{A}"
        assert (record.version, record.endpoint, record.capabilities) == ("1.0.0", offer.endpoint, ("scan", "print"))
        assert record.kid == dht.nodes[A].id
    assert dht.find(B, figure_key("skill-1", "scan")).records == ()
    data = signed("certified-x", offer, at=dht.clock.steady)
    dht.inject(encode(Store(bytes(8), bytes(32), 1, figure_key("skill-1", "scan"), data)), Peer("10.0.0.99", 1), C)
    assert skills(dht.find(B, figure_key("skill-1", "scan"))) == ["skill-1"]


@pytest.mark.spec("SDP-dht-find")
def test_several_keys_are_looked_up_at_once_and_each_that_no_node_answered_for_is_named():
    dht = Dht().start(8)
    dht.put(A, offer_of(1, "one"))
    dht.put(B, offer_of(2, "two"))
    found = dht.find(C, capability_key("one"), capability_key("two"), capability_key("three"))
    assert skills(found) == ["skill-1", "skill-2"]
    assert found.keys_without_answer == ()
    assert found.asked >= 6
    for number in range(8):
        if host(number) != C:
            dht.crash(host(number))
    found = dht.find(C, capability_key("one"), capability_key("none"))
    assert set(found.keys_without_answer) == {capability_key("one"), capability_key("none")}
    assert len(found.unanswered) == 7


@pytest.mark.spec("SDP-dht-paths")
def test_a_lookup_has_three_requests_in_flight_and_asks_no_node_on_two_paths(monkeypatch):
    dht = Dht().start(40, seconds=60)
    asked, under_way, most, send = [], set(), [], dht._send

    def watch(sender, datagram):
        message = decode(datagram.data)
        if isinstance(message, Find) and message.wants_records:
            asked.append(datagram.to)
            under_way.add(message.transaction)
            most.append(len(under_way))
        elif isinstance(message, Found):
            under_way.discard(message.transaction)
        send(sender, datagram)

    monkeypatch.setattr(dht, "_send", watch)
    assert dht.find(A, b"x" * 32).asked == len(asked) == len(set(asked))
    assert max(most) == 3


def test_a_node_alone_answers_at_once_and_one_that_reaches_nobody_within_its_time():
    dht = Dht()
    dht.node(A, bootstrap=None)
    dht.do(A, lambda node, now: node.bootstrap((), now))
    assert dht.put(A, offer_of(1)).stored == 0
    found = dht.get(A, 1)
    assert skills(found) == ["skill-1"], "it keeps its own"
    assert (found.asked, found.seconds) == (0, 0)
    dht.node(B, bootstrap="10.0.0.77")
    found = dht.get(B, 1)
    assert 0 < found.seconds <= 5
    assert found.records == ()
    assert found.keys_without_answer == (skill_key("skill-1", "do"),)
    assert found.unanswered == (Peer("10.0.0.77", PORT),)


def test_an_operation_waits_for_the_bootstrap_nodes():
    dht = Dht()
    dht.node(A)
    dht.node(B, bootstrap=None)
    number = dht.do(B, lambda node, now: node.find([name_key("skill-0")], now, 5.0))
    dht.run(1)
    assert (B, number) not in dht.finished
    dht.put(A, offer_of())
    dht.do(B, lambda node, now: node.bootstrap([Peer(A, PORT)], now))
    assert skills(dht.wait(B, number)) == ["skill-0"]


def test_a_cancelled_operation_has_no_end():
    dht = Dht().start(3)
    number = dht.do(A, lambda node, now: node.find([name_key("skill-0")], now, 5.0))
    dht.do(A, lambda node, _: node.cancel(number))
    dht.run(6)
    assert (A, number) not in dht.finished


@pytest.mark.spec("SDP-dht-newest")
def test_a_removed_skill_is_found_no_more_and_its_tombstone_outlives_the_record():
    dht = Dht().start(12)
    old = signed(f"certified-{A}", offer_of(1), at=dht.clock.steady)
    dht.put(A, offer_of(1))
    dht.run(1)
    removed = dht.do(A, lambda node, now: node.remove("skill-1", ("do",), now, 5.0))
    assert dht.wait(A, removed).stored >= 3
    assert skills(dht.get(B, 1)) == []
    dht.run(550)
    for number in range(12):  # the old record is not expired yet, and comes again
        store = Store(bytes(8), bytes(32), 1, skill_key("skill-1", "do"), old)
        dht.inject(encode(store), Peer("10.0.0.99", 1), host(number))
    assert skills(dht.get(B, 1)) == []


@pytest.mark.spec("SDP-dht-lifetime")
def test_a_record_ends_after_its_lifetime_and_offers_are_put_again():
    dht = Dht().start(6)
    dht.put(A, offer_of(1))
    dht.do(B, lambda node, now: node.offer([offer_of(2)], now))
    dht.run(590)
    assert skills(dht.get(C, 1)) == ["skill-1"]
    dht.run(20)
    assert skills(dht.get(C, 1)) == []
    (record,) = dht.get(C, 2).records
    assert record.timestamp / 1000 >= EPOCH + dht.clock.steady - 125
    (own,) = dht.nodes[B].status().own
    assert (own.skill_id, own.version, own.stored) == ("skill-2", "1.0.0", 5)
    assert 0 <= EPOCH + dht.clock.steady - own.last_put <= 125


@pytest.mark.spec("SDP-dht-offer")
def test_an_offer_that_ends_or_loses_a_capability_gets_a_tombstone_there():
    dht = Dht().start(6)
    dht.do(A, lambda node, now: node.offer([offer_of(1, "one", "two"), offer_of(2)], now))
    dht.run(2)
    assert skills(dht.find(C, capability_key("two"), capability_key("do"))) == ["skill-1", "skill-2"]
    dht.do(A, lambda node, now: node.offer([offer_of(1, "one")], now))
    dht.run(2)
    assert skills(dht.find(C, capability_key("two"), capability_key("do"))) == []
    (record,) = dht.find(C, capability_key("one"), capability_key("two")).records
    assert record.capabilities == ("one",)


@pytest.mark.spec("SDP-dht-storage")
def test_a_name_that_all_nodes_have_no_room_for_is_reported_and_the_other_keys_count(monkeypatch):
    monkeypatch.setattr(limits, "DHT_SIGNERS_PER_KEY", 2)
    dht = Dht().start(6)
    for number in range(2):
        dht.put(host(number), offer_of(number, "popular"))
    done = dht.put(host(3), offer_of(3, "popular"))
    assert (done.stored >= 3, done.full) == (True, (capability_key("popular"),))
    assert skills(dht.find(B, name_key("skill-3"))) == ["skill-3"]
    number = dht.do(host(4), lambda node, now: node.remove("skill-0", ("popular",), now, 5.0))
    assert dht.wait(host(4), number).full == (capability_key("popular"),)


@pytest.mark.spec("SDP-dht-storage")
def test_an_offer_that_no_node_has_room_for_is_put_again_no_sooner_than_others(monkeypatch):
    monkeypatch.setattr(limits, "DHT_SIGNERS_PER_KEY", 0)
    dht = Dht().start(4)
    dht.do(A, lambda node, now: node.offer([offer_of(1)], now))
    dht.run(55)
    assert dht.nodes[A].status().counters["put"] == 1


def test_a_certificate_that_grows_takes_offers_away_and_fails_nothing():
    dht = Dht().start(3)
    offer = offer_of(1, *(f"{'c' * 50}-{number}" for number in range(16)))
    dht.do(A, lambda node, now: node.offer([offer, offer_of(2)], now))
    dht.run(2)
    assert [own.stored for own in dht.nodes[A].status().own] == [2, 2]
    dht.nodes[A]._identity.certificate = bytes(300)
    dht.run(300)
    status = dht.nodes[A].status()
    assert status.own[0].stored == 0
    assert status.counters["put: too large"] >= 2
    dht.do(A, lambda node, now: node.offer((), now))


def test_many_offers_are_spread_over_time():
    dht = Dht().start(4)
    dht.do(A, lambda node, now: node.offer([offer_of(number, f"do-{number}") for number in range(100)], now))
    dht.run(0.5)
    assert 20 <= sum(own.stored > 0 for own in dht.nodes[A].status().own) <= 30
    dht.run(2)
    assert all(own.stored == 3 for own in dht.nodes[A].status().own)


@pytest.mark.spec("SDP-dht-client")
def test_a_client_finds_and_puts_and_is_in_no_table_and_stores_nothing():
    dht = Dht().start(6)
    client = dht.node("10.0.0.50", is_client=True)
    assert dht.put("10.0.0.50", offer_of(1)).stored >= 3
    assert skills(dht.get("10.0.0.50", 1)) == ["skill-1"]
    dht.run(30)
    assert client.status().held == 0
    assert len(client.contacts()) == 6
    for number in range(6):
        assert client.id not in {contact.id for contact in dht.nodes[host(number)].contacts()}


@pytest.mark.spec("SDP-dht-restart")
def test_a_node_restarts_with_its_contacts_and_without_bootstrap_nodes():
    dht = Dht().start(8)
    dht.put(C, offer_of(3))
    kept = dht.nodes[B].contacts()
    dht.crash(B)
    dht.node(B, bootstrap=None, contacts=kept)
    dht.do(B, lambda node, now: node.bootstrap((), now))
    assert skills(dht.get(B, 3)) == ["skill-3"]


@pytest.mark.spec("SDP-dht-heal")
def test_a_record_that_was_put_beyond_a_cut_is_found_within_5_seconds_after_it():
    dht = Dht().start(40)
    left, right = [host(number) for number in range(20)], [host(number) for number in range(20, 40)]
    dht.do(left[3], lambda node, now: node.offer([offer_of(1)], now))
    dht.do(right[3], lambda node, now: node.offer([offer_of(2)], now))
    dht.run(5)
    dht.partition(left, right)
    dht.run(60)
    dht.do(left[4], lambda node, now: node.offer([offer_of(4)], now))
    dht.do(right[5], lambda node, now: node.offer([offer_of(5)], now))
    dht.run(40)
    assert skills(dht.get(left[7], 5)) == skills(dht.get(right[7], 4)) == []
    dht.heal()
    dht.run(4.5)
    for number in (1, 2, 4, 5):
        for asker in (left[7], right[7], left[12], right[18]):
            assert skills(dht.get(asker, number, seconds=0.5)) == [f"skill-{number}"]


@pytest.mark.spec("SDP-dht-heal")
def test_bootstrap_nodes_that_come_back_are_noticed_and_own_skills_are_put_again():
    dht = Dht()
    dht.node(B)
    dht.do(B, lambda node, now: node.offer([offer_of(2)], now))
    dht.run(30)
    assert dht.nodes[B].reached() == {Peer(A, PORT): False}
    dht.node(A)
    dht.run(4)
    assert dht.nodes[B].reached() == {Peer(A, PORT): True}
    assert dht.nodes[B].status().bootstrap == ((f"{A}:{PORT}", True),)
    assert skills(dht.get(A, 2)) == ["skill-2"]


@pytest.mark.spec("SDP-dht-find")
def test_lost_datagrams_are_sent_again():
    dht = Dht(seed=3, loss=0.1).start(40)
    put_all(dht, 60)
    assert missing(dht, 60, 40)[0] == []


@pytest.mark.spec("SDP-dht-find")
def test_nodes_whose_answers_take_more_than_a_second_are_found():
    dht = Dht(latency=(0.5, 0.55)).start(5, seconds=30)
    assert dht.put(A, offer_of(1)).stored >= 3
    dht.node("10.0.0.50", is_client=True)
    assert skills(dht.get("10.0.0.50", 1)) == ["skill-1"]


@pytest.mark.spec("SDP-dht-pages")
def test_a_key_with_many_records_is_read_page_by_page():
    dht = Dht().start(10)
    for number in range(40):
        assert dht.put(host(number % 10), offer_of(number, "shared")).stored >= 3
    assert len(dht.find(C, capability_key("shared")).records) == 40


@pytest.mark.spec("SDP-dht-clock")
@pytest.mark.parametrize("skew", [25.0, -25.0])
def test_a_publisher_whose_clock_differs_by_25_seconds_is_found_and_one_by_a_minute_ahead_is_not(skew):
    dht = Dht().start(5)
    dht.node("10.0.0.60", skew=skew)
    dht.node("10.0.0.61", skew=60.0)
    dht.run(2)
    assert dht.put("10.0.0.60", offer_of(1)).stored >= 3
    assert skills(dht.get(A, 1)) == ["skill-1"]
    assert dht.put("10.0.0.61", offer_of(2)).stored == 0
    assert skills(dht.get(A, 2)) == []


@pytest.mark.parametrize("family", ["10.0.0.", "2001:db8::"])
def test_both_families_of_addresses_work(family):
    dht = Dht()
    for number in range(1, 9):
        dht.node(f"{family}{number}", bootstrap=f"{family}1")
        dht.run(0.2)
    dht.run(5)
    assert dht.put(f"{family}2", offer_of(1)).stored >= 3
    assert skills(dht.get(f"{family}7", 1)) == ["skill-1"]


def test_a_node_that_moves_is_found_at_its_new_address():
    dht = Dht().start(6)
    node_id = dht.nodes[C].id
    dht.crash(C)
    dht.node("10.0.0.70", agent_id=f"certified-{C}")
    assert dht.nodes["10.0.0.70"].id == node_id
    dht.run(20)
    assert Peer("10.0.0.70", PORT) in {contact.peer for contact in dht.nodes[B].contacts() if contact.id == node_id}


@pytest.mark.spec("SDP-dht-proof")
def test_a_ping_names_the_node_and_its_standing():
    dht = Dht().start(2)
    dht.node("10.0.0.9", agent_id="stranger")
    for target, agent_id, standing in (
        (B, f"certified-{B}", Standing.CERTIFIED),
        ("10.0.0.9", "stranger", Standing.UNVERIFIED),
    ):
        number = dht.do(A, lambda node, now, target=target: node.ping(Peer(target, PORT), now, 3.0))
        pong = dht.wait(A, number).pong
        assert (pong.id, pong.agent_id, pong.standing) == (dht.nodes[target].id, agent_id, standing)
    number = dht.do(A, lambda node, now: node.ping(Peer("10.0.0.88", PORT), now, 3.0))
    finished = dht.wait(A, number)
    assert (finished.pong, finished.unanswered) == (None, (Peer("10.0.0.88", PORT),))


def test_peers_with_a_group_key_form_a_dht():
    key = GroupKey(b"a secret that all of us share")
    dht = Dht(authority=key).start(5, identity=key)
    assert dht.put(A, offer_of(1)).stored >= 3
    (record,) = dht.get(C, 1).records
    assert record.standing is Standing.CERTIFIED


@pytest.mark.spec("SDP-dht-signed")
def test_real_certificates_in_the_profile_signed():
    world = World(EPOCH)
    dht = Dht(profile=Profile.SIGNED, authority=world.authority())
    for number in range(5):
        dht.node(host(number), agent_id=f"agent-{number}", identity=world.identity(f"agent-{number}"))
    dht.run(5)
    assert dht.put(B, offer_of(1), 5.0).stored >= 3
    (record,) = dht.get(C, 1).records
    assert (record.agent_id, record.standing) == ("agent-1", Standing.CERTIFIED)


@pytest.mark.spec("SDP-dht-signed")
def test_in_the_profile_signed_bootstrap_nodes_store_too():
    dht = Dht(profile=Profile.SIGNED, settings=DhtSettings(k=3)).start(20)
    for number in range(12):
        assert dht.put(host(number + 3), offer_of(number, f"do-{number}")).stored >= 3
    dht.run(2)
    first = dht.nodes[A]
    assert first.status().held == 12 * 3


def test_offers_that_fit_into_no_record_change_nothing():
    dht = Dht().start(3)
    dht.do(A, lambda node, now: node.offer([offer_of(1)], now))
    long = offer_of(2, *(f"capability-{number}" * 4 for number in range(40)))
    with pytest.raises(ValidationError, match="the record of skill-2 has"):
        dht.do(A, lambda node, now: node.offer([long], now))
    dht.run(2)
    assert [own.skill_id for own in dht.nodes[A].status().own] == ["skill-1"]


def test_a_key_that_was_never_used_costs_few_requests():
    dht = Dht().start(40)
    dht.run(60)
    before = dht.sent
    found = dht.find(A, b"x" * 32)
    assert found.records == ()
    assert found.asked >= 8
    assert dht.sent - before <= 60


def test_the_keys_of_tests_are_as_cheap_as_they_look():
    assert NamedKey("a").verifies(b"x", NamedKey("a").sign(b"x"))
    assert not NamedKey("b").verifies(b"x", NamedKey("a").sign(b"x"))
