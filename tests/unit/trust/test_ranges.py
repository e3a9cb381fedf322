# ruff: noqa: RUF001 - characters that look like others are the subject
from __future__ import annotations

import pytest

from skillwire.errors import ValidationError
from skillwire.trust.ranges import Address, Network, Reach, classify, read_address, read_network


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("1.0.0.0", Reach.PUBLIC),
        ("223.255.255.255", Reach.PUBLIC),
        ("172.15.255.255", Reach.PUBLIC),
        ("172.16.0.0", Reach.PRIVATE),
        ("172.31.255.255", Reach.PRIVATE),
        ("172.32.0.0", Reach.PUBLIC),
        ("100.63.255.255", Reach.PUBLIC),
        ("100.127.255.255", Reach.PRIVATE),
        ("0.255.255.255", Reach.SPECIAL),
        ("224.0.0.1", Reach.NOWHERE),
        ("0.0.0.0", Reach.NOWHERE),  # noqa: S104 - an address to classify
        ("240.0.0.1", Reach.SPECIAL),
        ("255.255.255.255", Reach.NOWHERE),
        ("169.254.169.254", Reach.METADATA),
        ("169.254.169.253", Reach.LINK_LOCAL),
        ("::1", Reach.LOOPBACK),
        ("::", Reach.NOWHERE),
        ("::ffff:8.8.8.8", Reach.SPECIAL),
        ("64:ff9b::808:808", Reach.SPECIAL),
        ("2002:808:808::", Reach.SPECIAL),
        ("2001:1ff::", Reach.SPECIAL),
        ("2001:200::", Reach.PUBLIC),
        ("3fff:fff::", Reach.SPECIAL),
        ("3ffe::", Reach.PUBLIC),
        ("4000::", Reach.SPECIAL),
        ("fe80::1%eth0", Reach.LINK_LOCAL),
        ("fec0::1", Reach.SPECIAL),
        ("fdff::1", Reach.PRIVATE),
        ("ff02::1", Reach.NOWHERE),
    ],
)
def test_where_packets_end(text, reach):
    assert classify(read_address(text)) is reach


@pytest.mark.parametrize("text", ["", "1.2.3", "01.2.3.4", "1.2.3.4.5", "localhost", "1.2.3.4/32", ":::", "１.2.3.4"])
def test_what_is_no_address(text):
    with pytest.raises(ValidationError):
        read_address(text)


def test_a_network_covers_its_ends_and_its_own_family():
    network = read_network("10.0.0.0/8")
    assert network == Network(4, 0x0A000000, 0x0AFFFFFF)
    assert network.covers(Address(4, 0x0AFFFFFF))
    assert not network.covers(Address(4, 0x0B000000))
    assert not network.covers(Address(6, 0x0A000000))
    assert read_network("::1") == Network(6, 1, 1)


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.1/8", "::1/64", "::/129", "10/8"])
def test_what_is_no_network(text):
    with pytest.raises(ValidationError):
        read_network(text)
