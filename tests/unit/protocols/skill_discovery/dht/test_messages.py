"""The datagrams of the DHT."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery.dht import messages as m
from skillwire.protocols.skill_discovery.dht.messages import SourceRates
from skillwire.wire.node import Peer

HEAD = b"t" * 8, b"s" * 32, 0
CONTACT = (b"i" * 32, b"\x0a\x00\x00\x01", 4000)
MESSAGES: list[m.Request | m.Answer] = [
    m.Hello(*HEAD, b"n" * 16),
    m.Welcome(*HEAD, "agent-a", b"certificate", b"signature"),
    m.Find(*HEAD, b"k" * 32, True, 0),
    m.Found(*HEAD, [CONTACT], 1, 0, b"record"),
    m.Store(*HEAD, b"k" * 32, b"record"),
    m.Stored(*HEAD, "stored", [CONTACT]),
]


@pytest.mark.spec("SDP-dht-datagram")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_a_message_is_read_as_it_was_written_and_later_fields_are_ignored(message):
    data = m.encode(message)
    assert m.decode(data) == message
    assert data[m.TRANSACTION] == HEAD[0]
    assert (data[2:3] in m.ANSWER_TAGS) == (type(message) in m.ANSWERS.values())
    fields = msgspec.msgpack.decode(data[1:])
    assert m.decode(m.VERSION + msgspec.msgpack.encode([*fields, "later", {"a": [1]}])) == message


@pytest.mark.spec("SDP-dht-datagram")
def test_another_version_or_type_is_no_message():
    data = m.encode(MESSAGES[0])
    for other in (
        b"\x02" + data[1:],
        b"",
        b"\x01",
        data[:2] + b"\x07" + data[3:],
        data + b"\x00",
        b"\x01" + b"\x91" * 1100,
    ):
        with pytest.raises(DecodeError):
            m.decode(other)


@pytest.mark.spec("SDP-dht-amplification")
def test_requests_have_at_least_400_bytes_and_every_message_fits_into_one_datagram():
    for message in (MESSAGES[0], MESSAGES[2]):
        assert m.REQUEST_BYTES <= len(m.encode(message)) <= m.HELLO_BYTES
    largest = m.Store(*HEAD, b"k" * 32, bytes(int(limits.DHT_RECORD_BYTES)))
    assert len(m.encode(largest)) <= limits.DATAGRAM_BYTES
    for is_ipv6 in (False, True):
        for record in (0, 300, 800, int(limits.DHT_RECORD_BYTES)):
            fits = m.contacts_within(int(limits.DATAGRAM_BYTES), record, is_ipv6=is_ipv6)
            contacts = [(b"i" * 32, bytes(16 if is_ipv6 else 4), 65535)] * fits
            assert len(m.encode(m.Found(*HEAD, contacts, 1024, 1023, bytes(record)))) <= limits.DATAGRAM_BYTES
            assert fits >= (8 if record <= 300 else 0)


@pytest.mark.spec("SDP-dht-hostile")
@given(st.binary(max_size=1300), st.integers(0, 7))
@example(b"\x91" * 1198, 4)
def test_random_bytes_raise_nothing_else(data, kind):
    head = msgspec.msgpack.encode([kind, b"t" * 8, b"s" * 32, 0])[1:]
    for one in (data, m.VERSION + data, m.VERSION + b"\x9a" + head + data):
        try:
            message = m.decode(one)
        except DecodeError:
            continue
        assert m.decode(m.encode(message)) == message


@pytest.mark.spec("SDP-dht-contacts")
@pytest.mark.parametrize(
    ("source", "host", "expected"),
    [
        ("93.184.216.34", "8.8.8.8", True),
        ("93.184.216.34", "192.168.1.1", False),
        ("93.184.216.34", "127.0.0.1", False),
        ("192.168.1.1", "8.8.8.8", True),
        ("192.168.1.1", "10.0.0.1", True),
        ("192.168.1.1", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "192.168.1.1", True),
        ("192.168.1.1", "224.0.0.1", False),
        ("192.168.1.1", "255.255.255.255", False),
        ("192.168.1.1", "0.0.0.0", False),  # noqa: S104 - no socket is bound
        ("192.168.1.1", "169.254.169.254", False),
        ("192.168.1.1", "2606:2800:220:1::1", False),
        ("fd00::1", "2606:2800:220:1::1", True),
        ("fd00::1", "fe80::1", False),
        ("fd00::1", "::1", False),
        ("fe80::1%eth0", "fd00::1", True),
        ("fd00::1", "ff02::1", False),
        ("fd00::1", "::ffff:10.0.0.1", True),
    ],
)
def test_nodes_are_named_where_their_addresses_mean_something(source, host, expected):
    assert m.may_name(Peer(source, 1), host) is expected


def test_addresses_are_written_as_they_are_read():
    for host in ("10.0.0.1", "fd00::1"):
        assert m.read_host(m.write_host(host)) == host
    assert m.write_host("fe80::1%eth0") == m.write_host("fe80::1")
    assert m.read_host(b"12345") == ""


@pytest.mark.spec("SDP-dht-rate")
@pytest.mark.parametrize(
    ("first", "second", "share"),
    [
        (Peer("10.0.0.1", 1), Peer("10.0.0.1", 2), True),
        (Peer("10.0.0.1", 1), Peer("10.0.0.2", 1), False),
        (Peer("127.0.0.1", 1), Peer("127.0.0.1", 2), False),
        (Peer("2606:2800:220:1::1", 1), Peer("2606:2800:220:1::2", 1), True),
        (Peer("fd00::1", 1), Peer("fd00::2", 1), False),
    ],
)
def test_who_shares_a_rate(first, second, share):
    rates = SourceRates()
    assert all(rates.allows(first, 1, 0.0) for _ in range(int(limits.DHT_BURST)))
    assert not rates.allows(first, 1, 0.0)
    assert rates.allows(second, 1, 0.0) is not share
    assert rates.allows(first, limits.DHT_RATE, 1.0)
    assert not rates.allows(first, 1, 1.0)
