"""Where a server is reached: nothing is announced on a link on which nobody can reach it."""

from __future__ import annotations

import pytest

from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.server.lan.reach import reach_of

USUAL = LanSettings()
EVERY = "0.0.0.0"  # noqa: S104  # nothing is bound


@pytest.mark.parametrize(
    ("addresses", "host", "interfaces", "has_ipv6"),
    [
        ([(EVERY, 8000), ("::", 8000)], "", (), True),
        ([("::", 8000)], "", (), True),
        ([(EVERY, 8000)], "", (), False),
        ([("192.0.2.7", 8000)], "192.0.2.7", ("192.0.2.7",), True),
        ([("127.0.0.1", 8000)], "127.0.0.1", ("127.0.0.1",), True),
        ([("fd00::1", 8000)], "fd00::1", ("fd00::1",), True),
    ],
)
def test_the_links_follow_from_where_it_listens(addresses, host, interfaces, has_ipv6):
    reach = reach_of(USUAL, addresses)
    assert (reach.host, reach.port) == (host, 8000)
    assert reach.settings.interfaces == interfaces
    assert bool(reach.settings.group6) == has_ipv6


def test_what_the_operator_names_is_used():
    reach = reach_of(LanSettings(interfaces=("eth7",)), [("192.0.2.7", 8000)])
    assert reach.settings.interfaces == ("eth7",)
