"""Which addresses of a machine take part, and how addresses are told."""

import json
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.loopback_lan import own_lan

from skillwire.adapters.lan import sockets
from skillwire.adapters.lan.sockets import LinkAddress, LinkSockets
from skillwire.protocols.skill_discovery.settings import LanSettings

# Linux has these; Python does not name them.
IP_MULTICAST_ALL = 49
IPV6_MULTICAST_ALL = 29


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a socket hear the groups of others")
@pytest.mark.parametrize(
    ("host", "level", "option"),
    [("127.0.0.1", socket.IPPROTO_IP, IP_MULTICAST_ALL), ("::1", socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL)],
)
def test_what_others_of_the_machine_have_joined_is_not_heard(host, level, option):
    lan = own_lan()
    try:
        sockets = LinkSockets(LinkAddress("lo", 1, host), LanSettings(group=lan.group, port=lan.port), Counter())
    except OSError as error:
        pytest.skip(f"loopback takes no group of this family here: {error}")
    try:
        assert sockets.sockets[1].getsockopt(level, option) == 0
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


def test_this_machine_has_a_loopback_interface_that_is_up():
    [found] = [one for one in sockets.present() if one.host == "127.0.0.1"]
    assert found.is_loopback
    assert found.family == 4
    assert found.flags & 1
