"""The links of an agent: one for each interface and family that is there now, and for a while after it is gone.

The interfaces are looked at every two seconds, and at once when a socket reports that something is wrong. A link whose
interface is gone keeps its node, so that what is listed there falls silent by the rules of health, and comes back with
the interface; it is forgotten when that takes too long.
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final

from skillwire.adapters.clock import moment
from skillwire.adapters.lan import interfaces
from skillwire.adapters.lan.multicast import LinkSockets

if TYPE_CHECKING:
    import asyncio
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Iterator

    from skillwire.adapters.lan.interfaces import LinkAddress
    from skillwire.adapters.lan.link import Link
    from skillwire.protocols.skill_discovery.configuration import LanSettings
    from skillwire.protocols.skill_discovery.route_agent import Offer

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
            present = interfaces.present()
        except OSError as error:
            self._trouble("interfaces", error)
            return
        settings = self._settings
        found = {
            one.name: one for one in interfaces.links(present, settings.interfaces, has_ipv6=bool(settings.group6))
        }
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
