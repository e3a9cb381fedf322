"""The routing table: who gets a place, and who loses it."""

import pytest

from skillwire.protocols.skill_discovery.dht.peers import Contact, Entry, Table
from skillwire.wire.node import Peer

OWN = bytes(32)


def entry(number, host=None, now=0.0, *, prefix=0x80):
    """Return a node whose id shares no bit with ours, unless ``prefix`` says otherwise."""
    node_id = bytes((prefix,)) + number.to_bytes(31, "big")
    return Entry.of(Contact(node_id, Peer(host or f"10.0.{number // 250}.{number % 250}", 4000)), now)


@pytest.fixture
def table():
    return Table(OWN, 8)


@pytest.mark.spec("SDP-dht-table")
def test_a_bucket_prefers_those_that_came_first_and_takes_a_spare_for_one_that_left(table):
    for number in range(20):
        table.add(entry(number, prefix=1))  # 7 bits shared: a bucket of k
    assert len(table) == 8
    assert table.wants(entry(50, prefix=1).contact.id) is False
    first = entry(0, prefix=1).contact
    assert table.failed(first) is False
    assert first.id not in {one.contact.id for one in table.closest(0, 20)}, "it is not named to others"
    table.heard(first.id, 1.0)
    assert first.id in {one.contact.id for one in table.closest(0, 20)}
    assert [table.failed(first) for _ in range(2)] == [False, True]
    assert len(table) == 8
    assert table.get(first.id) is None
    assert table.get(entry(19, prefix=1).contact.id) is not None, "the newest spare"


@pytest.mark.spec("SDP-dht-table")
def test_the_farthest_buckets_have_more_nodes(table):
    for prefix, most in ((0x80, 128), (0x40, 64), (0x20, 32), (0x10, 16), (0x08, 8), (0x04, 8)):
        before = len(table)
        for number in range(200):
            table.add(entry(number, prefix=prefix))
        assert len(table) - before == most
    assert table.depth == 5


@pytest.mark.spec("SDP-dht-table")
@pytest.mark.parametrize(
    ("hosts", "most"),
    [
        ([f"93.184.216.{number}" for number in range(1, 9)], 2),
        ([f"2606:2800:220:1::{number}" for number in range(1, 9)], 2),
        ([f"93.184.{number}.1" for number in range(1, 9)], 8),
        ([f"10.0.0.{number}" for number in range(1, 9)], 8),
        (["127.0.0.1"] * 8, 8),
    ],
)
def test_a_bucket_has_two_nodes_of_one_public_network(table, hosts, most):
    for number, host in enumerate(hosts):
        table.add(entry(number, host))
    assert len(table) == most


def test_a_node_keeps_its_address_while_it_answers_there(table):
    table.add(entry(1, "10.0.0.1"))
    table.add(entry(1, "10.0.0.2"))
    known = table.get(entry(1).contact.id)
    assert known is not None
    assert known.contact.peer.host == "10.0.0.1"
    table.failed(known.contact)
    table.add(entry(1, "10.0.0.2"))
    known = table.get(entry(1).contact.id)
    assert known is not None
    assert known.contact.peer.host == "10.0.0.2"
    assert len(table) == 1


def test_the_node_that_was_heard_longest_ago_is_next(table):
    for number in range(3):
        table.add(entry(number, now=float(number)))
    oldest = table.oldest()
    assert oldest is not None
    table.heard(oldest.contact.id, 5.0)
    oldest = table.oldest()
    assert oldest is not None
    assert oldest.contact == entry(1).contact


def test_our_own_id_has_no_place(table):
    own = Entry.of(Contact(OWN, Peer("10.0.0.1", 1)), 0.0)
    table.add(own)
    assert len(table) == 0
    assert not table.wants(OWN)


def test_the_closest_are_in_order(table):
    for number in range(30):
        table.add(entry(number * 7 % 31))
    target = int.from_bytes(entry(12).contact.id, "big")
    distances = [one.number ^ target for one in table.closest(target, 10)]
    assert distances == sorted(distances)
    assert distances[0] == 0
