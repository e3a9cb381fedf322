"""What drives a node on an event loop: datagrams in and out, its timer, its events.

The sockets are read as soon as something is there, a bounded number at once, so that a flood leaves the loop time for
everything else; what the node wants to send is sent after each batch. An error of a node, or of who is told what has
happened, goes to the loop's handler, and neither reading nor the timer stops for it. A node outlives its sockets: when
an interface is gone its timer goes on, skills there fall silent, and it takes new sockets when the interface is back.

Who wants to see what goes over the network sets the logger ``skillwire.lan.datagrams`` to DEBUG: each record has the
arguments ``sent`` or ``heard``, the peer (None for the group), and the datagram.

Link: one node of the core on one interface and family, with the skills that are offered there.

An endpoint counts only when it is on the address that its registration came from, and a registration is signed; so an
agent with several addresses is one node for each, and says on each the address that is right there. The nodes share the
agent's name and key, and know nothing of each other; :mod:`skillwire.adapters.lan.view` makes one of what they list.
An offer without a host (or with the address that means any) is made on every link with the link's own address; one that
names an address of a link is made on that one; any other host has to be certified, and is told everywhere.

Who offers a skill joins its scenes a moment later, when registries have answered, and is told of changes there as every
member is. Spec: SDP §2.2.

The links of an agent: one for each interface and family that is there now, and for a while after it is gone.

The interfaces are looked at every two seconds, and at once when a socket reports that something is wrong. A link whose
interface is gone keeps its node, so that what is listed there falls silent by the rules of health, and comes back with
the interface; it is forgotten when that takes too long.
"""

from __future__ import annotations

import errno
import logging
import math
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from skillwire.adapters.clock import moment
from skillwire.adapters.lan import sockets
from skillwire.adapters.lan.sockets import BATCH, LinkSockets
from skillwire.errors import ValidationError
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.messages import Endpoint, Reason

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from skillwire.adapters.lan.sockets import LinkAddress
    from skillwire.model.execution import Moment
    from skillwire.model.lan import LanSkill
    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.identity import Key
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.node import DiscoveryNode
    from skillwire.protocols.skill_discovery.route_agent import Offer
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.wire.node import Datagram


#: Seconds in which what comes is one wake of the loop: a thousand skills have hundreds of beats and timers a second.
#: Whatever comes after a quiet moment is taken at once, and so is every answer. What is due is done with what comes.
_GRAIN: Final = 0.05
#: The same as long as nothing happens: beats, and most registrations, say what is known. A skill is to be listed 0.15 s
#: after it is there.
_LULL: Final = 0.1
_DATAGRAMS: Final = logging.getLogger("skillwire.lan.datagrams")


class Driver:
    """Drives one node.

    Args:
        node: that is driven.
        loop: that it is driven on.
        on_events: is told what has happened.
    """

    def __init__(
        self,
        node: DiscoveryNode,
        loop: asyncio.AbstractEventLoop,
        on_events: Callable[[Sequence[NodeEvent]], object],
    ) -> None:
        self.node = node
        self.received = 0
        self.sockets: LinkSockets | None = None
        self._loop = loop
        self._on_events = on_events
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf  # for the node
        self._wakes = 0.0  # which is when the timer fires
        self._fired = 0.0
        self._pause: asyncio.TimerHandle | None = None
        self._is_lull = False
        self._has_ended = False

    def open(self, sockets: LinkSockets) -> None:
        """Take sockets, in place of those that there are."""
        self.close()
        self.sockets = sockets
        for sock in sockets.sockets:
            self._loop.add_reader(sock, self._hear if sock is sockets.group else self._read, sock)
        self.tend()

    def close(self) -> None:
        """Give the sockets up; the node goes on without."""
        if self.sockets is not None:
            for sock in self.sockets.sockets:
                self._loop.remove_reader(sock)
            self.sockets.close()
            self.sockets = None
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
            self._arm(moment())

    def end(self) -> None:
        """Stop for good, whatever the node is told yet."""
        self._has_ended = True
        self.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def tend(self, now: Moment | None = None) -> None:
        """Take up what the node wants, after something was done with it."""
        now = now or moment()
        self._is_lull = False
        try:
            self._send(self.node.datagrams_to_send(now))
            events = self.node.events(now)
            if events:
                self._on_events(events)
            self._is_lull = not events
        finally:
            self._arm(now)

    def _send(self, sends: Sequence[Datagram]) -> None:
        if self.sockets is None:
            return
        is_told = bool(sends) and _DATAGRAMS.isEnabledFor(logging.DEBUG)
        for datagram in sends:
            if is_told:
                _DATAGRAMS.debug("%s %s %s", "sent", datagram.to, datagram.data)
            self.sockets.send(datagram.data, datagram.to)

    def _hear(self, sock: socket.socket) -> None:
        """Read what the group says, and then not before a pause is over, unless there is more than is read at once."""
        if self._read(sock) < BATCH:
            self._loop.remove_reader(sock)
            self._pause = self._loop.call_later(_GRAIN, self._hear_more, sock)

    def _hear_more(self, sock: socket.socket) -> None:
        """Read what came in the pause; another one follows while anything comes."""
        count = 0
        try:
            count = self._read(sock)
        finally:  # an error is reported by the loop, and the next datagram is read all the same
            self._pause = None
            if self.sockets is not None and sock is self.sockets.group:
                if 0 < count < BATCH:
                    pause = _LULL if self._is_lull else _GRAIN
                    self._pause = self._loop.call_later(pause, self._hear_more, sock)
                else:
                    self._loop.add_reader(sock, self._hear, sock)
                    self._arm(moment())

    def _read(self, sock: socket.socket) -> int:
        """Have the node take what is there; return how many datagrams that were."""
        if self.sockets is None:
            return 0
        now = moment()
        receive = self.node.receive
        is_told = _DATAGRAMS.isEnabledFor(logging.DEBUG)
        count = 0
        try:
            for data, source in self.sockets.read(sock):
                count += 1
                if is_told:
                    _DATAGRAMS.debug("%s %s %s", "heard", source, data)
                receive(data, source, now)
        finally:
            self.received += count
            if count:
                self._take_up(now)
        return count

    def _take_up(self, now: Moment) -> None:
        """Do what is due after something came."""
        try:
            if self._due <= now.steady:
                self.node.on_timer(now)
        finally:
            self.tend(now)

    def _arm(self, now: Moment) -> None:
        """Have the node told the time: when the pause is over that there is, else by a timer.

        A timer that fires too early looks when it is time.
        """
        due = self.node.timer()
        self._due = math.inf if due is None else due
        if due is None or self._has_ended or self._pause is not None:
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
        now = moment()
        self._fired = now.steady
        try:
            self.node.on_timer(now)
        finally:
            self.tend(now)


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


_PAUSE: Final = 2.0
#: Before the interfaces are looked at because of an error; a flood of errors is one look.
_SOON: Final = 0.1
_LOG: Final = logging.getLogger("skillwire.lan")


class Links:
    """What an agent has of nodes and sockets.

    Args:
        settings: which interfaces, and how.
        make: makes the link of a name.
        on_gone: is told of a link that is forgotten.
        loop: that they live on.
        counters: what went wrong, by its reason.
    """

    def __init__(
        self,
        settings: LanSettings,
        make: Callable[[LinkAddress], Link],
        on_gone: Callable[[Link], object],
        loop: asyncio.AbstractEventLoop,
        counters: Counter[str],
    ) -> None:
        self._settings = settings
        self._make = make
        self._on_gone = on_gone
        self._loop = loop
        self._counters = counters
        self._links: dict[str, Link] = {}
        self._offers: tuple[Offer, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._has_looked = False  # what is there at the start is no news
        #: Why links could not be opened, for people.
        self.troubles: set[str] = set()
        #: Called when a link has come or gone.
        self.on_change: Callable[[], object] = lambda: None

    def __iter__(self) -> Iterator[Link]:
        return iter(tuple(self._links.values()))

    def open_links(self) -> list[Link]:
        """Return those whose interface is there."""
        return [link for link in self._links.values() if link.is_open]

    def look(self) -> None:
        """Look which interfaces there are, take up those that came, and let go those that went."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(_PAUSE, self.look)
        try:
            present = sockets.present()
        except OSError as error:
            self._trouble("interfaces", error)
            return
        settings = self._settings
        found = {one.name: one for one in sockets.links(present, settings.interfaces, has_ipv6=bool(settings.group6))}
        names = {one.interface for one in present if one.is_up}
        has_changed = [self._let_go(link, names) for link in self if link.name not in found]
        has_changed += [self._take(address) for address in found.values()]
        self._has_looked = True
        if any(has_changed):
            self.offer(self._offers)
            self.on_change()

    def look_soon(self) -> None:
        """Look in a moment, since something is wrong."""
        if self._timer is not None and self._timer.when() > self._loop.time() + _SOON:
            self._timer.cancel()
            self._timer = self._loop.call_later(_SOON, self.look)

    def offer(self, offers: Iterable[Offer]) -> None:
        """Offer exactly these, on each link with its own address."""
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

    def _let_go(self, link: Link, up: Collection[str]) -> bool:
        """Close a link that is used no more; forget it after long. Return whether anything changed.

        Args:
            link: as it was.
            up: the interfaces that are there, by name.
        """
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
        if moment().steady - link.gone_since > self._settings.figures.stale:
            link.end()
            del self._links[link.name]
            self._on_gone(link)
        return False

    def _take(self, address: LinkAddress) -> bool:
        link = self._links.get(address.name)
        if link is not None and link.is_open and link.address == address and not link.is_broken:
            return False
        try:
            sockets = LinkSockets(address, self._settings, self._counters, self.look_soon)
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
        """Count what went wrong by its kind, and tell where it did."""
        reason = errno.errorcode.get(error.errno or 0, "error")
        self._counters[f"{what}: {reason}"] += 1
        self.troubles.add(f"{what} {where}: {reason}" if where else f"{what}: {reason}")
