"""Nodes: what an agent has of the core: one for each link, filled with what was kept, and forgotten with the link."""

from __future__ import annotations

import asyncio
from random import SystemRandom
from typing import TYPE_CHECKING

from skillwire.adapters.lan.link import Link
from skillwire.protocols.skill_discovery.node import DiscoveryNode

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from skillwire.adapters.lan.interfaces import LinkAddress
    from skillwire.adapters.lan.keeping import Keeping
    from skillwire.adapters.lan.principal import Principal
    from skillwire.adapters.lan.view import View
    from skillwire.protocols.skill_discovery.configuration import LanSettings
    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.node import Role


class Nodes:
    """The nodes of one agent.

    Args:
        principal: who they are.
        settings: how they take part.
        roles: what they do.
        health: says how a skill of ours is; what was reported last, when there is none.
        view: sees their registries.
        keeping: what they knew before; None when nothing is kept.
        on_events: is told what has happened on a link.
        counters: what was dropped or went wrong, by its reason.

    ``received`` counts the datagrams of links that are forgotten.
    """

    def __init__(
        self,
        principal: Principal,
        settings: LanSettings,
        roles: frozenset[Role],
        *,
        health: Callable[[str], HealthStatus] | None,
        view: View,
        keeping: Keeping | None,
        on_events: Callable[[Link, Sequence[NodeEvent]], object],
        counters: Counter[str],
    ) -> None:
        self.received = 0
        self._principal = principal
        self._settings = settings
        self._roles = roles
        self._health = health
        self._view = view
        self._keeping = keeping
        self._on_events = on_events
        self._counters = counters

    def make(self, address: LinkAddress) -> Link:
        """Return the link of an address, with its node."""
        node = DiscoveryNode(
            self._principal.agent_id,
            identity=self._principal.identity,
            authority=self._principal.authority,
            random=SystemRandom(),
            roles=self._roles,
            profile=self._settings.profile,
            settings=self._settings.figures,
            health=self._health,
            replay=self._keeping.guard() if self._keeping is not None else None,
        )
        self._view.add(address.name, node.registry, address.interface)
        if self._keeping is not None:
            self._keeping.restore(address.name, node)
        return Link(address.name, node, asyncio.get_running_loop(), self._on_events, self._counters)

    def forget(self, link: Link) -> None:
        """See no more of a link."""
        self._view.remove(link.name)
        self._counters.update(link.node.gate.stopped)  # what is counted does not become less
        self.received += link.driver.received
