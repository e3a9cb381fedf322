"""DNS-SD on top of the library ``zeroconf``: a browser and a responder. This module is imported when mDNS starts.

**Browser.** A publisher sends all records of an instance in one packet, so most instances are resolved from the
library's cache at once; the others are asked for, a few at a time and each for a few seconds. When too many names are
followed, the oldest useless ones are dropped. The library reports an instance once, so a publisher that crashed and
came back is noticed by its announcement. **Responder.** Only the agent's own instance is probed for, in 1.2 seconds:
the probe asks for all instances of the type, so the cache then shows whether the name of a skill is in use, and gets a
number. Announcements are spread, and pending repetitions are dropped before a service changes or ends. Spec: SDP §1.2;
specs §3; RFC 6762 §8. Trust: all records of others are untrusted.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Final, NamedTuple

from zeroconf import Error, IPVersion, RecordUpdate, RecordUpdateListener, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from skillwire import limits
from skillwire.protocols.skill_discovery.dnssd import SERVICE_TYPES, Instance, agent_name, host_name, skill_name

_SRV: Final = 33  # the type of such a record in DNS
#: Seconds in which repeated announcements of an instance are reported once.
_AGAIN: Final = 5.0


class Resolved(NamedTuple):
    """A resolved instance; ``addresses`` are IP addresses without zones, IPv4 first."""

    name: str
    text: bytes
    server: str
    port: int
    addresses: tuple[str, ...]


class DnsBrowser(RecordUpdateListener):
    """Follows the instances on the network.

    ``on_resolved`` gets an instance with each announcement, and returns whether it is useful; ``on_removed`` its name.
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
        self._reported: dict[str, float] = {}  # when each instance was reported; its keys are the followed names
        self._types: dict[str, str] = {}
        self._useless: dict[str, None] = {}  # the useless ones of them, the oldest first
        self._waiting: dict[str, None] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._zeroconf.async_add_listener(self, None)
        self._browser = self._browse()

    async def ask(self) -> None:
        """Ask the network anew, such as over an interface that has come up."""
        await self._browser.async_cancel()
        self._browser = self._browse()

    async def close(self) -> None:
        """Stop."""
        await self._browser.async_cancel()
        self._zeroconf.async_remove_listener(self)
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
            if len(self._types) >= limits.LAN_MDNS_INSTANCES:
                self._counters["mdns no room"] += 1
                if not self._useless:
                    return
                self._forget(next(iter(self._useless)))
            self._types[name] = service_type
            self._useless[name] = None
        self._look(name)

    def async_update_records(self, zc: Zeroconf, now: float, records: list[RecordUpdate]) -> None:  # noqa: ARG002  # the library gives them
        """Resolve again what is announced again: the library calls this before its cache has the records."""
        for update in records:
            name = update.new.name
            is_again = update.old is not None and update.new.type == _SRV and not update.new.is_expired(now)
            if is_again and self._reported.get(name, self._loop.time()) + _AGAIN < self._loop.time():
                self._loop.call_soon(self._look, name)

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
            self._report(info)
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
            is_resolved = await info.async_request(self._zeroconf, 1000 * limits.LAN_MDNS_SECONDS)
        except Error:  # the library was closed meanwhile, or cannot write such a name
            is_resolved = False
        if not is_resolved:
            self._counters["mdns unresolved"] += 1
        elif name in self._types:
            self._report(info)

    def _asked(self, name: str, _: object) -> None:
        del self._asking[name]
        self._ask_next()

    def _report(self, info: AsyncServiceInfo) -> None:
        self._waiting.pop(info.name, None)
        self._reported[info.name] = self._loop.time()
        addresses = tuple(info.parsed_addresses(IPVersion.All))
        found = Resolved(info.name, info.text, info.server or "", info.port or 0, addresses)
        if self._on_resolved(found):
            self._useless.pop(info.name, None)
        elif info.name in self._types:
            self._useless.setdefault(info.name)

    def _forget(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._reported.pop(name, None)
        self._useless.pop(name, None)
        if self._types.pop(name, None) is not None:
            self._on_removed(name)


#: Services that are announced at once, and the pause in seconds until the next are.
_AT_ONCE: Final = 16
_PAUSE: Final = 0.02

#: ``(service type, skill)``; the skill is empty for the agent's own instance.
Slot = tuple[str, str]


class DnsResponder:
    """The services of one agent."""

    def __init__(self, zeroconf: AsyncZeroconf, agent_id: str, hosts: Sequence[str], counters: Counter[str]) -> None:
        self._zeroconf = zeroconf
        self._agent_id = agent_id
        self._hosts = tuple(hosts)
        self._counters = counters
        self._published: dict[Slot, AsyncServiceInfo] = {}
        self._instances: dict[Slot, Instance] = {}
        self._announcing: dict[Slot, asyncio.Future[object]] = {}
        self._begun = 0
        self._process = secrets.token_hex(8)

    async def publish(self, instances: Iterable[Instance]) -> None:
        """Publish exactly these; return when the last was announced for the first time."""
        wanted = {entry.skill_id: entry for entry in instances if self._is_reachable(entry)}
        if "" not in wanted:
            wanted.clear()
        for slot in [slot for slot in self._published if slot[1] not in wanted]:
            self._hush(slot)
            info = self._published.pop(slot)
            del self._instances[slot]
            await self._announce(slot, await self._zeroconf.async_unregister_service(info))
        if wanted:
            works = (self._publish(service_type, wanted) for service_type in SERVICE_TYPES)
            for failure in await asyncio.gather(*works, return_exceptions=True):
                if isinstance(failure, Error | OSError):  # no name was free, or the library has lost its sockets
                    self._counters["mdns not announced"] += 1
                elif failure is not None:
                    raise failure

    async def move(self, hosts: Sequence[str]) -> None:
        """Use other addresses from now on; the library has its sockets there already."""
        self._hosts = tuple(hosts)
        for slot, info in tuple(self._published.items()):
            addresses = self._addresses(self._instances[slot])
            if addresses and addresses != info.parsed_addresses():
                await self._change(slot, self._instances[slot], info.name)

    def silence(self) -> None:
        """Stop repeating announcements, before the goodbye."""
        for repeating in self._announcing.values():
            repeating.cancel()
        self._announcing.clear()

    async def _publish(self, service_type: str, wanted: dict[str, Instance]) -> None:
        own = (service_type, "")
        if own not in self._published:
            info = self._info(own, wanted[""], f"{agent_name(self._agent_id)}.{service_type}")
            await self._begin(own, wanted[""], info, is_probed=True)
        agent = self._published[own].name.removesuffix(f".{service_type}")
        for skill_id, entry in wanted.items():
            slot = service_type, skill_id
            if slot not in self._published:
                label = skill_name(skill_id, agent)
                cache = self._zeroconf.zeroconf.cache  # has our own records, too
                name, number = f"{label}.{service_type}", 2
                while cache.current_entry_with_name_and_alias(service_type, name):
                    name, number = f"{label}-{number}.{service_type}", number + 1
                await self._begin(slot, entry, self._info(slot, entry, name), is_probed=False)
            elif entry != self._instances[slot]:
                await self._change(slot, entry, self._published[slot].name)

    async def _begin(self, slot: Slot, entry: Instance, info: AsyncServiceInfo, *, is_probed: bool) -> None:
        repeating = await self._zeroconf.async_register_service(
            info, allow_name_change=True, cooperating_responders=not is_probed
        )
        self._published[slot], self._instances[slot] = info, entry
        await self._announce(slot, repeating)

    async def _change(self, slot: Slot, entry: Instance, name: str) -> None:
        self._hush(slot)
        info = self._info(slot, entry, name)
        self._published[slot], self._instances[slot] = info, entry
        await self._announce(slot, await self._zeroconf.async_update_service(info))

    async def _announce(self, slot: Slot, repeating: object) -> None:
        """Hold what the library repeats, and give the network a pause now and then."""
        assert isinstance(repeating, asyncio.Future)  # noqa: S101 - for the type checker; the library says Awaitable
        self._announcing[slot] = repeating
        repeating.add_done_callback(lambda done: self._announced(slot, done))
        self._begun += 1
        if self._begun % _AT_ONCE == 0:
            await asyncio.sleep(_PAUSE)

    def _announced(self, slot: Slot, done: asyncio.Future[object]) -> None:
        if self._announcing.get(slot) is done:
            del self._announcing[slot]
        if not done.cancelled() and done.exception() is not None:
            self._counters["mdns not announced"] += 1

    def _hush(self, slot: Slot) -> None:
        repeating = self._announcing.pop(slot, None)
        if repeating is not None:
            repeating.cancel()

    def _info(self, slot: Slot, entry: Instance, name: str) -> AsyncServiceInfo:
        return AsyncServiceInfo(
            slot[0],
            name,
            port=entry.port,
            properties=entry.text,
            server=host_name(self._agent_id, entry.host, self._process),
            parsed_addresses=self._addresses(entry),
        )

    def _is_reachable(self, entry: Instance) -> bool:
        if self._addresses(entry):
            return True
        self._counters["mdns no address"] += 1
        return False

    def _addresses(self, entry: Instance) -> list[str]:
        """Return the addresses of an instance; none where others could not reach it, or its host is a name."""
        try:
            address = ip_address(entry.host or "0.0.0.0")  # noqa: S104 - what an offer says that is on any
        except ValueError:
            return []
        if address.is_unspecified:
            return list(self._hosts)
        is_elsewhere = address.is_loopback and str(address) not in self._hosts
        return [] if is_elsewhere else [str(address)]
