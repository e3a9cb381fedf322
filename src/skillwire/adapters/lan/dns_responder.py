"""What we publish by mDNS: one instance for the agent and one for each skill, under each service type.

Only the agent's own instance is probed for, which takes 1.2 seconds: what it asks for are all instances of its type,
so after that the library's cache tells whether a skill's name is taken, and two hundred skills take no longer than
one. A name that is taken gets a number at its end. Announcements are spread, so that many skills do not fill a slow
network at once, and whatever is still to be repeated is dropped before the service is changed or withdrawn, lest it
come after the goodbye. Spec: SDP §1.2; specs §3; RFC 6762 §8.

This module imports ``zeroconf``, and is itself imported when mDNS is used.
"""

from __future__ import annotations

import asyncio
import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from zeroconf import Error
from zeroconf.asyncio import AsyncServiceInfo

from skillwire.protocols.skill_discovery.dnssd import SERVICE_TYPES, agent_name, host_name, skill_name

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Sequence

    from zeroconf.asyncio import AsyncZeroconf

    from skillwire.protocols.skill_discovery.dnssd import Instance

#: Services that are announced at once, and the pause in seconds until the next are.
_AT_ONCE: Final = 16
_PAUSE: Final = 0.02

#: ``(service type, skill)``; the skill is empty for the agent's own instance.
Slot = tuple[str, str]


class DnsResponder:
    """The services of one agent.

    Args:
        zeroconf: the library's sockets.
        agent_id: whose services they are.
        hosts: addresses that stand for an offer whose host is any.
        counters: counts what cannot be published.
    """

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
            await self._withdraw(slot)
        if wanted:
            await asyncio.gather(*(self._try_to_publish(service_type, wanted) for service_type in SERVICE_TYPES))

    async def move(self, hosts: Sequence[str]) -> None:
        """Use other addresses from now on; the library has its sockets there already."""
        self._hosts = tuple(hosts)
        for slot, info in tuple(self._published.items()):
            addresses = self._addresses(self._instances[slot])
            if addresses and addresses != info.parsed_addresses():
                await self._change(slot, self._instances[slot], info.name)

    def hush(self) -> None:
        """Stop repeating announcements, before the goodbye."""
        for repeating in self._announcing.values():
            repeating.cancel()
        self._announcing.clear()

    async def _try_to_publish(self, service_type: str, wanted: dict[str, Instance]) -> None:
        try:
            await self._publish(service_type, wanted)
        except (Error, OSError):  # no name was free, or the library has lost its sockets
            self._counters["mdns not announced"] += 1

    async def _publish(self, service_type: str, wanted: dict[str, Instance]) -> None:
        own = (service_type, "")
        if own not in self._published:
            info = self._info(own, wanted[""], f"{agent_name(self._agent_id)}.{service_type}")
            await self._begin(own, wanted[""], info, is_probed=True)
        agent = self._published[own].name.removesuffix(f".{service_type}")
        for skill_id, entry in wanted.items():
            slot = service_type, skill_id
            if slot not in self._published:
                name = self._free_name(service_type, skill_name(skill_id, agent))
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

    async def _withdraw(self, slot: Slot) -> None:
        self._hush(slot)
        info = self._published.pop(slot)
        del self._instances[slot]
        await self._announce(slot, await self._zeroconf.async_unregister_service(info))

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

    def _free_name(self, service_type: str, label: str) -> str:
        """Return a name that nobody else uses. What we hear of ourselves stands in the cache too."""
        cache = self._zeroconf.zeroconf.cache
        name, number = f"{label}.{service_type}", 2
        while cache.current_entry_with_name_and_alias(service_type, name):
            name, number = f"{label}-{number}.{service_type}", number + 1
        return name

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
