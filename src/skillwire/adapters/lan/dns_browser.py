"""What others publish by mDNS: follows the instances of our service types, and resolves each within bounds.

A publisher tells everything of an instance in the packet that names it, so nearly all are resolved from the library's
cache at once. Where only the name was told, the rest is asked for: of a few at a time, each for a few seconds, so
that a stranger who makes up names takes neither memory nor the turn of those who tell everything. When there are more
names than are followed, those make room that nothing of use was told of, the oldest first.

The library tells of an instance once, however often it is announced. Whoever crashes and comes back with the same
facts is therefore noticed by the announcement itself, and told again.
Spec: SDP §1.2; specs §3.

This module imports ``zeroconf``, and is itself imported when mDNS is used. Trust: all of it is a stranger's.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf import Error, IPVersion, RecordUpdateListener, ServiceStateChange
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo

from skillwire import limits
from skillwire.protocols.skill_discovery.dnssd import SERVICE_TYPES

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from zeroconf import RecordUpdate, Zeroconf

_SRV: Final = 33  # the type of such a record in DNS
#: Seconds in which an instance that is announced again and again is told again once.
_AGAIN: Final = 5.0


class Resolved(NamedTuple):
    """An instance and what was told of it: ``addresses`` are IP addresses without zones, IPv4 first."""

    name: str
    text: bytes
    server: str
    port: int
    addresses: tuple[str, ...]


class DnsBrowser:
    """Follows the instances on the network; on the event loop that runs when it is made.

    Args:
        zeroconf: the library's sockets and cache.
        on_resolved: is told what an instance says, and again when it says something else or is announced again;
            returns whether that is of any use.
        on_removed: is told the name of an instance that has said goodbye, or that nobody has told of for too long.
        counters: counts what cannot be resolved.
    """

    def __init__(
        self,
        zeroconf: Zeroconf,
        on_resolved: Callable[[Resolved], bool],
        on_removed: Callable[[str], object],
        counters: Counter[str],
    ) -> None:
        self._zeroconf = zeroconf
        self._on_resolved = on_resolved
        self._on_removed = on_removed
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        self._told: dict[str, float] = {}  # when each instance was told; the names are all that we follow
        self._types: dict[str, str] = {}
        self._useless: dict[str, None] = {}  # of these, what nothing of use was told of, the oldest first
        self._waiting: dict[str, None] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._again = _AnnouncedAgain(self._announced)
        self._zeroconf.async_add_listener(self._again, None)
        self._browser = self._browse()

    async def ask(self) -> None:
        """Ask the network anew, such as over an interface that has come up."""
        await self._browser.async_cancel()
        self._browser = self._browse()

    async def close(self) -> None:
        """Stop."""
        await self._browser.async_cancel()
        self._zeroconf.async_remove_listener(self._again)
        self._waiting.clear()
        for asking in self._asking.values():
            asking.cancel()

    def _browse(self) -> AsyncServiceBrowser:
        return AsyncServiceBrowser(self._zeroconf, list(SERVICE_TYPES), handlers=[self._changed])

    def _changed(
        self,
        zeroconf: Zeroconf,  # noqa: ARG002 - the library calls by keywords
        service_type: str,
        name: str,
        state_change: ServiceStateChange,
    ) -> None:
        if state_change is ServiceStateChange.Removed:
            self._forget(name)
            return
        if name not in self._types:
            if len(self._types) >= limits.LAN_MDNS_INSTANCES and not self._make_room():
                return
            self._types[name] = service_type
            self._useless[name] = None
        self._look(name)

    def _make_room(self) -> bool:
        """Forget a name that is of no use; False when there is none."""
        self._counters["mdns no room"] += 1
        useless = next(iter(self._useless), None)
        if useless is not None:
            self._forget(useless)
        return useless is not None

    def _announced(self, name: str) -> None:
        """Take note that a known instance was announced again."""
        if self._told.get(name, self._loop.time()) + _AGAIN < self._loop.time():
            self._loop.call_soon(self._look, name)  # the cache has the new record then

    def _look(self, name: str) -> None:
        """Resolve an instance from the cache, or else have it asked for."""
        if name not in self._types or name in self._asking:
            return
        try:
            info = AsyncServiceInfo(self._types[name], name)
        except Error:  # a name that DNS-SD does not allow
            self._counters["mdns unreadable"] += 1
            return
        if info.load_from_cache(self._zeroconf):
            self._tell(info)
        else:
            self._waiting[name] = None
            self._ask_next()

    def _ask_next(self) -> None:
        while self._waiting and len(self._asking) < limits.LAN_MDNS_RESOLVING:
            name = next(iter(self._waiting))
            del self._waiting[name]
            # What is asked for may be forgotten before its task takes its first step.
            asking = self._loop.create_task(self._ask(self._types[name], name))
            self._asking[name] = asking
            asking.add_done_callback(partial(self._asked, name))

    async def _ask(self, service_type: str, name: str) -> None:
        info = AsyncServiceInfo(service_type, name)
        try:
            is_told = await info.async_request(self._zeroconf, 1000 * limits.LAN_MDNS_SECONDS)
        except Error:  # the library was closed meanwhile, or cannot write such a name
            is_told = False
        if not is_told:
            self._counters["mdns unresolved"] += 1
        elif name in self._types:
            self._tell(info)

    def _asked(self, name: str, _: object) -> None:
        """Give a turn to the next, however asking has ended."""
        del self._asking[name]
        self._ask_next()

    def _tell(self, info: AsyncServiceInfo) -> None:
        self._waiting.pop(info.name, None)
        self._told[info.name] = self._loop.time()
        addresses = tuple(info.parsed_addresses(IPVersion.All))
        found = Resolved(info.name, info.text, info.server or "", info.port or 0, addresses)
        if self._on_resolved(found):
            self._useless.pop(info.name, None)
        elif info.name in self._types:
            self._useless.setdefault(info.name)

    def _forget(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._told.pop(name, None)
        self._useless.pop(name, None)
        if self._types.pop(name, None) is not None:
            self._on_removed(name)


class _AnnouncedAgain(RecordUpdateListener):
    """Tells of each instance whose SRV record comes again."""

    def __init__(self, on_announced: Callable[[str], object]) -> None:
        self._on_announced = on_announced

    def async_update_records(
        self,
        zc: Zeroconf,  # noqa: ARG002 - the library's form
        now: float,
        records: list[RecordUpdate],
    ) -> None:
        """Take the records of one packet, before the cache has them."""
        for update in records:
            if update.old is not None and update.new.type == _SRV and not update.new.is_expired(now):
                self._on_announced(update.new.name)
