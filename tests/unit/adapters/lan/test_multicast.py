"""The sockets of a link, as the system has them: they hear what comes by their own interface, and nothing else."""

from __future__ import annotations

import socket
import sys
from collections import Counter

import pytest
from tests.support.loopback_lan import own_lan

from skillwire.adapters.lan.interfaces import LinkAddress
from skillwire.adapters.lan.multicast import LinkSockets
from skillwire.protocols.skill_discovery.configuration import LanSettings

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
