"""Link: one node of the core on one interface and family, with the skills that are offered there.

An endpoint counts only when it is on the address that its registration came from, and a registration is signed; so an
agent with several addresses is one node for each, and says on each the address that is right there. The nodes share the
agent's name and key, and know nothing of each other; :mod:`skillwire.adapters.lan.view` makes one of what they list.
An offer without a host (or with the address that means any) is made on every link with the link's own address; one that
names an address of a link is made on that one; any other host has to be certified, and is told everywhere.

Who offers a skill joins its scenes a moment later, when registries have answered, and is told of changes there as every
member is. Spec: SDP §2.2.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.driver import Driver
from skillwire.errors import ValidationError
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.messages import Endpoint, Reason

if TYPE_CHECKING:
    import asyncio
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Sequence

    from skillwire.adapters.lan.interfaces import LinkAddress
    from skillwire.adapters.lan.multicast import LinkSockets
    from skillwire.model.lan import LanSkill
    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.identity import Key
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.node import DiscoveryNode
    from skillwire.protocols.skill_discovery.route_agent import Offer

#: Hosts that mean: where this is sent from.
_ANY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - nothing is bound
#: Seconds from an offer to joining its scenes: registries answer within 0.12.
_JOIN_AFTER: Final = 0.4
#: Scenes that are joined in one second: twice as many questions are read of one host.
_JOINED_AT_ONCE: Final = 10


class Link:
    """One node, its sockets while its interface is there, and what it offers.

    Args:
        name: interface and family.
        node: of the core.
        loop: that it lives on.
        on_events: is told what has happened.
        counters: what went wrong, by its reason.
    """

    def __init__(
        self,
        name: str,
        node: DiscoveryNode,
        loop: asyncio.AbstractEventLoop,
        on_events: Callable[[Link, Sequence[NodeEvent]], object],
        counters: Counter[str],
    ) -> None:
        self.name = name
        self.node = node
        self.address: LinkAddress | None = None
        self.gone_since = moment().steady
        self.driver = Driver(node, loop, lambda events: on_events(self, events))
        self._counters = counters
        self._loop = loop
        self._offered: dict[str, Offer] = {}
        self._refused: set[str] = set()  # of these, what no datagram can say
        self._joined: set[str] = set()
        self._join_timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether there are sockets."""
        return self.driver.sockets is not None

    @property
    def is_broken(self) -> bool:
        """Whether the sockets reported that something is wrong with the interface."""
        return self.driver.sockets is not None and self.driver.sockets.is_broken

    def open(self, address: LinkAddress, sockets: LinkSockets) -> None:
        """Take an address, and the sockets there."""
        self.address = address
        self.driver.open(sockets)

    def close(self) -> None:
        """Give the sockets up until the interface is back."""
        self.driver.close()
        self.gone_since = moment().steady

    def end(self) -> None:
        """Stop, without a goodbye."""
        if self._join_timer is not None:
            self._join_timer.cancel()
        self.driver.end()

    def offer(self, offers: Iterable[Offer], elsewhere: Collection[str]) -> None:
        """Offer exactly these.

        Args:
            offers: as the agent was given them.
            elsewhere: addresses of the other links, whose offers are made there.
        """
        if self.address is None:
            return
        wanted = {}
        for offer in offers:
            if (here := _offered_at(offer, self.address.host, elsewhere)) is not None:
                wanted[offer.skill_id] = here
        now = moment()
        for skill_id in self._offered.keys() - wanted.keys():
            self.node.route_agent.withdraw(skill_id, Reason.SHUTDOWN, now)
        for skill_id, offer in wanted.items():
            if self._offered.get(skill_id) != offer:
                self._refused.discard(skill_id)
                try:
                    self.node.route_agent.offer(offer, now)
                except ValidationError as error:
                    self._refused.add(skill_id)
                    self.node.route_agent.withdraw(skill_id, Reason.SHUTDOWN, now)  # as it was before
                    self._counters[f"not announced: {error.code}"] += 1
        self._offered = wanted
        if self._join_timer is None:
            self._join_timer = self._loop.call_later(_JOIN_AFTER, self._join)
        self.act()

    def report(self, skill_id: str, status: HealthStatus, detail: str) -> None:
        """Say at once how a skill is that is offered here."""
        if skill_id in self._offered:
            self.node.route_agent.report(skill_id, status, detail, moment())
            self.act()

    def reached(self, host: str) -> str:
        """Return an address as this machine reaches it: with the interface where it means nothing without."""
        return f"{host}%{self.address.interface}" if self.address and host.lower().startswith("fe80:") else host

    def key_of(self, skill: LanSkill) -> Key | None:
        """Return the key with which a skill was registered here, at its address; None when there is none."""
        listed = self.node.registry.get((skill.agent_id, skill.skill_id))
        if listed is None or listed.is_hint or self.reached(listed.registration.endpoint.host) != skill.host:
            return None
        judgement = self.node.ring.judgement_of(skill.agent_id, moment().wall)
        return None if judgement is None else judgement.key

    def act(self) -> None:
        """Do at once what is due, after the node was told something."""
        now = moment()
        self.node.on_timer(now)
        self.driver.tend(now)

    def leave(self, reason: Reason) -> bool:
        """Say goodbye for all that is offered; return whether there was anything."""
        had = bool(self._offered)
        self._offered = {}
        if self._join_timer is not None:
            self._join_timer.cancel()
        self.node.route_agent.close(reason, moment())
        self.act()
        return had and self.is_open

    def _join(self) -> None:
        """Join the scenes of what is offered, and leave those of what is offered no more."""
        self._join_timer = None
        announced = self._offered.keys() - self._refused
        scenes = {scene for skill_id in announced for scene in self._offered[skill_id].scenes}
        for scene in self._joined - scenes:
            self.node.end_agent.leave_scene(scene)
        self._joined &= scenes
        for scene in sorted(scenes - self._joined)[:_JOINED_AT_ONCE]:
            self.node.end_agent.want_scene(scene, (), moment(), is_request=False)
            self._joined.add(scene)
        if scenes - self._joined:
            self._join_timer = self._loop.call_later(1.0, self._join)
        self.act()


def _offered_at(offer: Offer, host: str, elsewhere: Collection[str]) -> Offer | None:
    """Return an offer as it is made at an address; None when it is made elsewhere."""
    named = without_zone(offer.endpoint.host)
    if named in _ANY:
        return offer._replace(endpoint=Endpoint(host, offer.endpoint.port))
    if named in elsewhere or (named != host and _is_loopback(named)):
        return None
    return offer


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
