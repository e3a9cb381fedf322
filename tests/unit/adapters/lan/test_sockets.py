"""Which addresses of a machine take part, and how addresses are told."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.loopback_lan import own_lan

from skillwire.adapters.lan import sockets
from skillwire.adapters.lan.sockets import LinkAddress, LinkSockets, links, plain_host
from skillwire.protocols.skill_discovery.settings import LanSettings

UP, DOWN, LOOPBACK, SILENT = 0x1001, 0x1000, 0x0049, 0x0001
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
    assert sockets.why_none(ETH, ["nosuch", "eth0", "192.168.9.9"]).endswith("nosuch or 192.168.9.9")
    down = [one._replace(flags=DOWN) for one in ETH]
    assert sockets.why_none(down, ["eth0"]) == "eth0: no interface is up that takes multicast"
    assert sockets.why_none([], []) == "no interface is up that takes multicast"


def test_links_keep_their_names_when_addresses_change():
    assert [one.name for one in links([*ETH, WIFI])] == ["eth0/4", "wlan0/4", "eth0/6"]


def test_what_others_cannot_reach_by_its_address_is_for_machines_that_have_nothing_else():
    assert hosts(links([*LO, ETH[0], CONTAINER])) == ["192.168.1.10"]
    assert hosts(links([*LO, CONTAINER])) == ["fe80::7"]
    assert hosts(links(LO)) == ["127.0.0.1"]
    assert links([]) == []


def test_interfaces_that_are_down_or_take_no_multicast_are_passed_over():
    down, silent = ETH[0]._replace(flags=DOWN), WIFI._replace(flags=SILENT)
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


def test_this_machine_has_a_loopback_interface_that_is_up():
    [found] = [one for one in sockets.present() if one.host == "127.0.0.1"]
    assert found.is_loopback
    assert found.family == 4
    assert found.flags & 1


# Linux has these; Python does not name them.
IP_MULTICAST_ALL = 49
IPV6_MULTICAST_ALL = 29


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a socket hear the groups of others")
@pytest.mark.parametrize(
    ("host", "level", "option"),
    [
        ("127.0.0.1", socket.IPPROTO_IP, IP_MULTICAST_ALL),
        ("::1", socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL),
    ],
)
def test_what_others_of_the_machine_have_joined_is_not_heard(host, level, option):
    lan = own_lan()
    try:
        sockets = LinkSockets(LinkAddress("lo", 1, host), LanSettings(group=lan.group, port=lan.port), Counter())
    except OSError as error:
        pytest.skip(f"loopback takes no group of this family here: {error}")
    try:
        assert sockets.group is not None
        assert sockets.group.getsockopt(level, option) == 0
    finally:
        sockets.close()


ROOT = Path(__file__).parents[4]
ANOTHER = "import json; from tests.support.loopback_lan import own_lan; print(json.dumps(own_lan()))"


def test_no_two_networks_of_one_process_have_a_port():
    assert len({own_lan().port for _ in range(50)}) == 50


def test_the_port_is_held_so_that_nobody_else_is_given_it():
    lan = own_lan()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", lan.port))


def test_another_process_has_another_group():
    lan = own_lan()
    done = subprocess.run([sys.executable, "-c", ANOTHER], cwd=ROOT, capture_output=True, text=True, check=True)
    group, port = json.loads(done.stdout)
    assert group != lan.group
    assert port != lan.port
