"""Where a server is reached by others, and what of the network is therefore used.

An agent announces, on each link, the address that it sends from there. So a server that listens at every address is
announced on every link; one that listens at one address, on the link of that address, and one that has no socket of
IPv6, on none of IPv6: nothing is announced that nobody can reach.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.protocols.skill_discovery.configuration import LanSettings

_ANY4: Final = "0.0.0.0"  # noqa: S104  # compared with
_ANY6: Final = "::"


class Reach(NamedTuple):
    """Where a server is reached: ``host`` is empty for the address that a datagram is sent from."""

    host: str
    port: int
    settings: LanSettings


def reach_of(settings: LanSettings, addresses: Sequence[tuple[str, int]]) -> Reach:
    """Return where a server is reached that listens at ``addresses``, and the settings that fit.

    Args:
        settings: the operator's; interfaces that they name are used whatever follows from the addresses.
        addresses: hosts and ports of its sockets, at least one.
    """
    hosts = [host for host, _ in addresses]
    port = addresses[0][1]
    if _ANY6 in hosts:
        return Reach("", port, settings)
    if _ANY4 in hosts:
        return Reach("", port, replace(settings, group6=""))
    return Reach(hosts[0], port, settings if settings.interfaces else replace(settings, interfaces=(hosts[0],)))
