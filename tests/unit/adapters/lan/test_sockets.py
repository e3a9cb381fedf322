"""Which addresses of a machine take part, and how addresses are told."""

import pytest

from skillwire.adapters.lan import sockets
from skillwire.adapters.lan.sockets import LinkAddress, links, plain_host

UP, DOWN, UNPLUGGED, LOOPBACK, SILENT = 0x1041, 0x1000, 0x1001, 0x0049, 0x0041
LO = [LinkAddress("lo", 1, "127.0.0.1", LOOPBACK), LinkAddress("lo", 1, "::1", LOOPBACK)]
ETH = [
    LinkAddress("eth0", 2, "192.168.1.10", UP),
    LinkAddress("eth0", 2, "192.168.1.11", UP),
    LinkAddress("eth0", 2, "fe80::1", UP),
    LinkAddress("eth0", 2, "fd00::10", UP),
]
WIFI = LinkAddress("wlan0", 3, "10.0.0.5", UP)
CONTAINER = LinkAddress("veth7", 9, "fe80::7", UP)


def hosts(found):
    return [one.host for one in found]


def test_each_interface_and_family_is_one_link():
    assert hosts(links([*LO, *ETH, WIFI])) == ["192.168.1.10", "10.0.0.5", "fd00::10"]


def test_why_there_is_no_link_names_what_was_wanted_and_is_not_there():
    assert sockets.explain_no_links(ETH, ["nosuch", "eth0", "192.168.9.9"]).endswith("nosuch or 192.168.9.9")
    down = [one._replace(flags=DOWN) for one in ETH]
    assert sockets.explain_no_links(down, ["eth0"]) == "eth0: no interface is up that takes multicast"
    assert sockets.explain_no_links([], []) == "no interface is up that takes multicast"


def test_links_keep_their_names_when_addresses_change():
    assert [one.name for one in links([*ETH, WIFI])] == ["eth0/4", "wlan0/4", "eth0/6"]


def test_what_others_cannot_reach_by_its_address_is_for_machines_that_have_nothing_else():
    assert hosts(links([*LO, ETH[0], CONTAINER])) == ["192.168.1.10"]
    assert hosts(links([*LO, CONTAINER])) == ["fe80::7"]
    assert hosts(links(LO)) == ["127.0.0.1"]
    assert links([]) == []


@pytest.mark.parametrize("flags", [DOWN, UNPLUGGED])
def test_interfaces_that_are_down_or_without_a_cable_or_take_no_multicast_are_passed_over(flags):
    down, silent = ETH[0]._replace(flags=flags), WIFI._replace(flags=SILENT)
    assert hosts(links([*LO, down, silent])) == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["eth0"], ["192.168.1.10", "fd00::10"]),
        (["192.168.1.11"], ["192.168.1.11"]),
        (["192.168.1.11", "eth0"], ["192.168.1.11", "fd00::10"]),
        (["fe80::1"], ["fe80::1"]),
        (["lo"], ["127.0.0.1"]),
        (["::1"], ["::1"]),
        (["eth7"], []),
    ],
)
def test_what_is_named_is_used_and_nothing_else(wanted, expected):
    assert hosts(links([*LO, *ETH, WIFI], wanted)) == expected


def test_the_networks_of_a_link_are_its_own_and_for_ipv6_the_link_local_one():
    assert [str(one) for one in ETH[0]._replace(prefix=24).networks] == ["192.168.1.0/24"]
    assert [str(one) for one in ETH[0].networks] == ["192.168.1.10/32"]
    assert [str(one) for one in ETH[3]._replace(prefix=64).networks] == ["fd00::/64", "fe80::/64"]


def test_without_an_ipv6_group_there_is_no_ipv6():
    assert hosts(links([*LO, *ETH], has_ipv6=False)) == ["192.168.1.10"]


def test_a_machine_with_hundreds_of_interfaces_has_a_few_links():
    many = [LinkAddress(f"veth{number}", number, f"10.1.{number}.1", UP) for number in range(200)]
    assert 1 < len(links(many)) < 20


@pytest.mark.parametrize(
    ("told", "number", "host"),
    [
        ("192.168.1.1", 0, "192.168.1.1"),
        ("::ffff:192.168.1.1", 2, "192.168.1.1"),
        ("fd00::1", 2, "fd00::1"),
        ("fe80::1", 2, "fe80::1%2"),
        ("fe80::1%eth0", 2, "fe80::1%eth0"),
        ("fe80::1", 0, "fe80::1"),
    ],
)
def test_an_address_is_told_in_one_way(told, number, host):
    assert plain_host(told, number) == host
