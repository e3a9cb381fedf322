"""Links: the nodes of an agent, one for each interface and address family, and what drives each of them.

**Driver.** Sockets are read as soon as data arrives, a bounded number of datagrams at once, so that a flood leaves the
loop time for other work; then the node's datagrams are sent. A node that raises, or a listener that does, is reported
to the loop's exception handler, and stops neither reading nor the timer. The logger ``skillwire.lan.datagrams`` shows
the traffic at DEBUG: ``sent`` or ``heard``, the peer (None for the group), and the datagram.

**Link.** An endpoint counts only on the address that its registration came from. So an agent with several addresses is
one node for each, with the same name and key, and :mod:`skillwire.adapters.lan.view` makes one network of their
registries. An offer without a host is made on every link with the link's own address, one with the address of a link on
that link, and one with another host on all links: it has to be certified. The interfaces are checked every two seconds,
and at once when a socket reports an error. A node outlives its sockets: its skills fall silent, and it gets new ones
when the interface is back. Spec: SDP §2.2.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import Final, Generic, TypeVar

from skillwire.adapters.lan.sockets import LinkAddress, LinkSockets, SystemNetwork, UdpSockets, links
from skillwire.errors import ValidationError
from skillwire.model.execution import Moment
from skillwire.model.lan import LanSkill
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.identity import Key
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Reason
from skillwire.protocols.skill_discovery.node import DiscoveryNode, NodeEvent
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.wire.node import Node, Peer

E = TypeVar("E")

#: Seconds between two timers of a node: a thousand skills have hundreds of heartbeats and timers a second.
_GRAIN: Final = 0.05
_DATAGRAMS: Final = logging.getLogger("skillwire.lan.datagrams")


class Driver(Generic[E]):
    """Drives one node on an event loop."""

    def __init__(self, node: Node[E], on_events: Callable[[Sequence[E]], object], clock: Callable[[], Moment]) -> None:
        self.node = node
        self.received = 0
        self.sockets: UdpSockets | None = None
        self._loop = asyncio.get_running_loop()
        self._on_events = on_events
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf  # for the node
        self._wakes = 0.0  # which is when the timer fires
        self._fired = 0.0
        self._has_ended = False

    def open(self, sockets: UdpSockets) -> None:
        """Use these sockets, in place of others."""
        self.close()
        self.sockets = sockets
        sockets.attach(self._loop, self._read)
        self.tend()

    def close(self) -> None:
        """Close the sockets; the node goes on without."""
        if self.sockets is not None:
            self.sockets.detach(self._loop)
            self.sockets.close()
            self.sockets = None

    def end(self) -> None:
        """Stop for good."""
        self._has_ended = True
        self.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def tend(self, now: Moment | None = None) -> None:
        """Send what the node has to send, hand on its events, and set its timer."""
        now = now or self._clock()
        try:
            for datagram in self.node.datagrams_to_send(now):
                if self.sockets is not None:
                    _DATAGRAMS.debug("%s %s %s", "sent", datagram.to, datagram.data)
                    self.sockets.send(datagram.data, datagram.to)
            if events := self.node.events(now):
                self._on_events(events)
        finally:
            self._arm(now)

    def _read(self, sock: socket.socket) -> None:
        """Give the node the datagrams of a socket."""
        if self.sockets is None:
            return
        now = self._clock()
        receive = self.node.receive
        is_logged = _DATAGRAMS.isEnabledFor(logging.DEBUG)
        count = 0
        try:
            for data, source in self.sockets.read(sock):
                count += 1
                if is_logged:
                    _DATAGRAMS.debug("%s %s %s", "heard", source, data)
                receive(data, source, now)
        finally:
            self.received += count
            if count:
                self._act(now, is_due=self._due <= now.steady)

    def _arm(self, now: Moment) -> None:
        """Set the node's timer. One that fires early is harmless."""
        due = self.node.timer()
        self._due = math.inf if due is None else due
        if due is None or self._has_ended:
            return
        wakes = max(due, self._fired + _GRAIN)
        if self._timer is not None:
            if self._wakes <= wakes:
                return
            self._timer.cancel()
        self._wakes = wakes
        self._timer = self._loop.call_later(wakes - now.steady, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock()
        self._fired = now.steady
        self._act(now)

    def _act(self, now: Moment, *, is_due: bool = True) -> None:
        try:
            if is_due:
                self.node.on_timer(now)
        finally:
            self.tend(now)


#: Hosts that mean: where this is sent from.
_ANY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - nothing is bound
#: Seconds from the first acknowledgment of a skill to joining its scenes: the other registries answer within 0.12.
_JOIN_AFTER: Final = 0.4
#: Scenes that are joined in one second: twice as many questions are read of one host.
_JOINED_AT_ONCE: Final = 10


class Link:
    """One node, its sockets while its interface is there, and its offers."""

    def __init__(
        self,
        name: str,
        node: DiscoveryNode,
        on_events: Callable[[Link, Sequence[NodeEvent]], object],
        counters: Counter[str],
        clock: Callable[[], Moment],
    ) -> None:
        self.name = name
        self.node = node
        self.address: LinkAddress | None = None
        self.clock = clock
        self.gone_since = clock().steady
        self.driver: Driver[NodeEvent] = Driver(node, lambda events: on_events(self, events), clock)
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        self._offered: dict[str, Offer] = {}
        self._acknowledged: set[str] = set()  # offers that another agent lists
        self._joined: set[str] = set()
        self._own: Peer | None = None  # where our datagrams come from
        self._join_timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether the link has sockets."""
        return self.driver.sockets is not None

    @property
    def is_broken(self) -> bool:
        """Whether the sockets failed with the interface."""
        return self.driver.sockets is not None and self.driver.sockets.is_broken

    def open(self, address: LinkAddress, sockets: LinkSockets) -> None:
        """Use an address and its sockets."""
        self.address = address
        self._own = sockets.own
        self.node.use_networks(address.networks)
        self.node.registry.set_own_host(address.host)
        self.driver.open(sockets)

    def close(self) -> None:
        """Close the sockets until the interface is back."""
        self.driver.close()
        self.gone_since = self.clock().steady

    def end(self) -> None:
        """Stop without goodbyes."""
        if self._join_timer is not None:
            self._join_timer.cancel()
        self.driver.end()

    def offer(self, offers: Iterable[Offer], elsewhere: Collection[str]) -> None:
        """Offer exactly these skills; ``elsewhere`` are the addresses of the other links."""
        if self.address is None:
            return
        here = (_offered_at(offer, self.address.host, elsewhere) for offer in offers)
        offered = {offer.skill_id: offer for offer in here if offer is not None}
        now = self.clock()
        for skill_id in self._offered.keys() - offered.keys():
            self.node.route_agent.withdraw(skill_id, Reason.SHUTDOWN, now)
        for skill_id, offer in offered.items():
            if self._offered.get(skill_id) != offer:
                self._acknowledged.discard(skill_id)
                try:
                    self.node.route_agent.offer(offer, now)
                except ValidationError as error:
                    self.node.route_agent.withdraw(skill_id, Reason.SHUTDOWN, now)  # its former offer
                    self._counters[f"not announced: {error.code}"] += 1
        self._offered = offered
        self._acknowledged &= offered.keys()
        self._joined &= {scene for offer in offered.values() for scene in offer.scenes}
        self.act()

    def acknowledged(self, skill_id: str, by: Peer) -> None:
        """Join the scenes of a skill soon, if the agent that lists it is not this one. Spec: SDP §2.2."""
        if skill_id in self._offered and by != self._own:
            self._acknowledged.add(skill_id)
            if self._join_timer is None:
                self._join_timer = self._loop.call_later(_JOIN_AFTER, self._join)

    def report(self, skill_id: str, status: HealthStatus, detail: str) -> None:
        """Send the new status of a skill that is offered here."""
        if skill_id in self._offered:
            self.node.route_agent.report(skill_id, status, detail, self.clock())
            self.act()

    def reached(self, host: str) -> str:
        """Return an address as this machine reaches it: with the interface when it is link-local."""
        return f"{host}%{self.address.interface}" if self.address and host.lower().startswith("fe80:") else host

    def key_of(self, skill: LanSkill) -> Key | None:
        """Return the key that registered a skill here with its address; None for none."""
        listed = self.node.registry.get((skill.agent_id, skill.skill_id))
        if listed is None or listed.is_hint or self.reached(listed.registration.endpoint.host) != skill.host:
            return None
        judgement = self.node.ring.judgement_of(skill.agent_id, self.clock().wall)
        return None if judgement is None else judgement.key

    def act(self) -> None:
        """Do what is due now, after a call of the node."""
        now = self.clock()
        self.node.on_timer(now)
        self.driver.tend(now)

    def unregister(self, reason: Reason) -> bool:
        """Unregister all offers; return whether there were any."""
        had = bool(self._offered)
        self._offered = {}
        self._acknowledged.clear()
        if self._join_timer is not None:
            self._join_timer.cancel()
        self.node.route_agent.close(reason, self.clock())
        self.act()
        return had and self.is_open

    def _join(self) -> None:
        """Join the scenes of the acknowledged offers, each once."""
        self._join_timer = None
        scenes = {scene for skill_id in self._acknowledged for scene in self._offered[skill_id].scenes} - self._joined
        for scene in sorted(scenes)[:_JOINED_AT_ONCE]:
            self.node.memberships.request(scene, (), self.clock(), is_join=True)
            self._joined.add(scene)
        if len(scenes) > _JOINED_AT_ONCE:
            self._join_timer = self._loop.call_later(1.0, self._join)
        self.act()


def _offered_at(offer: Offer, host: str, elsewhere: Collection[str]) -> Offer | None:
    """Return an offer as it is made at an address; None when it belongs to another one."""
    named = without_zone(offer.endpoint.host)
    if named in _ANY:
        return offer._replace(endpoint=Endpoint(host, offer.endpoint.port))
    try:
        is_loopback = ip_address(named).is_loopback
    except ValueError:
        is_loopback = named == "localhost"
    return None if named in elsewhere or (named != host and is_loopback) else offer


_PAUSE: Final = 2.0
#: Before the interfaces are looked at because of an error; a flood of errors is one look.
_SOON: Final = 0.1
_LOG: Final = logging.getLogger("skillwire.lan")


class Links:
    """The links of an agent: one for each interface and family that is there now, or was a while ago."""

    def __init__(
        self,
        settings: LanSettings,
        network: SystemNetwork,
        counters: Counter[str],
        clock: Callable[[], Moment],
        *,
        make: Callable[[LinkAddress], Link],
        remove: Callable[[Link], object],
    ) -> None:
        self._settings = settings
        self._make = make
        self._remove = remove
        self._network = network
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._counters = counters
        self._links: dict[str, Link] = {}
        self._offers: tuple[Offer, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._has_looked = False  # links at the start are not logged
        #: Why links could not be opened.
        self.failures: set[str] = set()
        #: Called when a link came or went.
        self.on_change: Callable[[], object] = lambda: None

    def __iter__(self) -> Iterator[Link]:
        return iter(tuple(self._links.values()))

    def open_links(self) -> list[Link]:
        """Return the links whose interface is there."""
        return [link for link in self._links.values() if link.is_open]

    def look(self) -> None:
        """Check the interfaces: open the links of new ones, close those of missing ones."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(_PAUSE, self.look)
        try:
            present = self._network.addresses()
        except OSError as error:
            self._trouble("interfaces", error)
            return
        settings = self._settings
        found = {one.name: one for one in links(present, settings.interfaces, has_ipv6=bool(settings.group6))}
        names = {one.interface for one in present if one.is_up}
        has_changed = [self._release(link, names) for link in self if link.name not in found]
        has_changed += [self._open(address) for address in found.values()]
        self._has_looked = True
        if any(has_changed):
            self.offer(self._offers)
            self.on_change()

    def look_soon(self) -> None:
        """Check the interfaces in a moment, because a socket failed."""
        if self._timer is not None and self._timer.when() > self._loop.time() + _SOON:
            self._timer.cancel()
            self._timer = self._loop.call_later(_SOON, self.look)

    def offer(self, offers: Iterable[Offer]) -> None:
        """Offer exactly these skills, on each link with its own address."""
        self._offers = tuple(offers)
        here = self.open_links()
        for link in here:
            elsewhere = {other.address.host for other in here if other.address is not None and other is not link}
            link.offer(self._offers, elsewhere)

    def end(self) -> None:
        """Close all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for link in self:
            link.end()

    def _release(self, link: Link, up: Collection[str]) -> bool:
        """Close a link without a usable address, or remove it after a while; return whether it was open."""
        if link.is_open:
            address, family = link.address, link.name.rpartition("/")[2]
            link.close()
            if address is None or address.interface not in up:
                why = "the interface is gone"
            elif address.is_loopback:
                why = "not needed any more, there is a network"
            else:
                why = f"its address of IPv{family} is gone, or not used any more"
            _LOG.info("%s: %s", link.name, why)
            return True
        if self._clock().steady - link.gone_since > self._settings.discovery.stale_timeout:
            link.end()
            del self._links[link.name]
            self._remove(link)
        return False

    def _open(self, address: LinkAddress) -> bool:
        link = self._links.get(address.name)
        if link is not None and link.is_open and link.address == address and not link.is_broken:
            return False
        try:
            sockets = self._network.open(address, self._settings, self._counters, self.look_soon)
        except OSError as error:
            self._trouble("open", error, address.name)
            if link is not None:
                link.close()
            return False
        if link is None:
            link = self._links[address.name] = self._make(address)
            if self._has_looked:
                _LOG.info("%s: takes part from now on, at %s", link.name, address.host)
        elif not link.is_open:
            _LOG.info("%s: the interface is there again", link.name)
        link.open(address, sockets)
        return True

    def _trouble(self, what: str, error: OSError, where: str = "") -> None:
        reason = errno.errorcode.get(error.errno or 0, "error")
        self._counters[f"{what}: {reason}"] += 1
        self.failures.add(f"{what} {where}: {reason}" if where else f"{what}: {reason}")
