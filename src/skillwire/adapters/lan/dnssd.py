"""mDNS and DNS-SD: what an agent offers is published, and what others publish becomes hints for its registry.

The library ``zeroconf`` is an extra, imported when mDNS starts and in a thread, since that takes a while. Where it is
missing, or its port cannot be had, mDNS is off and :attr:`DnsSd.note` says why; multicast goes on alone.

A hint leads to an address in a network that we are in ourselves, and never elsewhere: whoever lies in a TXT record
could otherwise send the probes of a whole network to anybody. Where a list was cut, the hint has the cut list, and
whoever is told of it also where the whole is (:mod:`skillwire.adapters.lan.details`).

mDNS finds, and does not tell who is alive: a publisher that crashed stays known for minutes. Probes decide.
Spec: SDP §1.2; specs §3.
"""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final

from skillwire.adapters.lan.multicast import widen
from skillwire.errors import DecodeError
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery import dnssd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from zeroconf.asyncio import AsyncZeroconf

    from skillwire.adapters.lan.dns_browser import DnsBrowser, Resolved
    from skillwire.adapters.lan.dns_responder import DnsResponder
    from skillwire.protocols.skill_discovery.listing import Key
    from skillwire.protocols.skill_discovery.messages import HealthStatus, Register
    from skillwire.protocols.skill_discovery.route_agent import Offer

MISSING: Final = 'mDNS is off: pip install "skillwire[lan]"'
#: What the extra installs.
_LIBRARIES: Final = frozenset({"zeroconf", "ifaddr"})
_NOTHING: Final[Mapping[str, HealthStatus]] = {}


class DnsSd:
    """One agent's mDNS, on one event loop.

    Args:
        hosts: addresses of the links to use, IPv6 without a zone.
        agent_id: who publishes; what is heard of this agent is no news.
        on_found: is told a registration without a signature, which of our addresses is in the network that it leads
            to, and the path where more is told of it, if its lists were cut; again whenever the skill is announced
            again.
        on_gone: is told the agent and the skill of a hint whose last instance is gone.
        key_id: says which key the agent signs with, as
            :func:`~skillwire.protocols.skill_discovery.dnssd.key_id_of` writes it.

    Attributes:
        note: why mDNS is off; empty when it is not.
        counters: what was passed over, and why.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        agent_id: str,
        on_found: Callable[[Register, str, str], object],
        on_gone: Callable[[Key], object],
        *,
        key_id: Callable[[], str] = str,
    ) -> None:
        self.note = ""
        self.counters: Counter[str] = Counter()
        self._hosts = list(hosts)
        self._agent_id = agent_id
        self._on_found = on_found
        self._on_gone = on_gone
        self._key_id = key_id
        self._networks: list[tuple[IPv4Network | IPv6Network, str]] = []
        self._keys: dict[str, Key] = {}  # of each instance that hints at a skill
        self._names: dict[Key, set[str]] = {}
        self._zeroconf: AsyncZeroconf | None = None
        self._responder: DnsResponder | None = None
        self._browser: DnsBrowser | None = None
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Begin to listen and to look; where that cannot be, say why in :attr:`note`."""
        try:
            library, failure, browser, responder = await asyncio.to_thread(_import)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _LIBRARIES:
                raise
            self.note = MISSING
            return
        try:
            self._zeroconf = zeroconf = library.AsyncZeroconf(interfaces=self._hosts)
            await zeroconf.zeroconf.async_wait_for_start()
        except (OSError, failure) as error:
            self.note = f"mDNS is off: {getattr(error, 'strerror', None) or error or type(error).__name__}"
            return
        self._widen()
        self._networks = _networks(self._hosts)
        self._responder = responder.DnsResponder(zeroconf, self._agent_id, self._hosts, self.counters)
        self._browser = browser.DnsBrowser(zeroconf.zeroconf, self._resolved, self._removed, self.counters)

    async def publish(self, offers: Iterable[Offer], statuses: Mapping[str, HealthStatus] = _NOTHING) -> None:
        """Publish exactly these offers; ``statuses`` are of skills that are not HEALTHY.

        The first offer takes 1.2 seconds, in which the agent's name is probed for.
        """
        instances, left_out = dnssd.instances_of(self._agent_id, offers, statuses, self._key_id())
        if left_out:
            self.counters["mdns left out"] = len(left_out)
        async with self._lock:
            if self._responder is not None:
                await self._responder.publish(instances)

    async def use(self, hosts: Sequence[str]) -> None:
        """Use other links from now on: their addresses, as for the constructor."""
        async with self._lock:
            if self._zeroconf is None or self._responder is None or sorted(hosts) == sorted(self._hosts):
                return
            self._hosts = list(hosts)
            self._networks = _networks(self._hosts)
            try:
                await self._zeroconf.async_update_interfaces(self._hosts, _versions(self._hosts))
            except OSError:  # of an interface that has gone meanwhile; the next change is told as well
                self.counters["mdns no interface"] += 1
            self._widen()
            await self._responder.move(self._hosts)
            if self._browser is not None:
                await self._browser.ask()

    async def stop(self) -> None:
        """Say goodbye for everything that was published, and close."""
        async with self._lock:
            zeroconf, responder, browser = self._zeroconf, self._responder, self._browser
            self._zeroconf = self._responder = self._browser = None
            if browser is not None:
                await browser.close()
            if responder is not None:
                responder.hush()
            if zeroconf is not None:
                await zeroconf.async_close()

    def _widen(self) -> None:
        """Give the library's sockets room for what five hundred skills answer at once, 200 kB in some milliseconds."""
        if self._zeroconf is not None:
            for reader in self._zeroconf.zeroconf.engine.readers:
                widen(reader.sock)

    def _resolved(self, found: Resolved) -> bool:
        """Tell what an instance hints at; return whether it hints at anything."""
        reached = self._on_link(found.addresses)
        hint = None
        if reached is None:
            self.counters["mdns off link"] += 1
        else:
            try:
                hint = dnssd.hint_of(found.text, found.server, reached[0], found.port)
            except DecodeError:
                self.counters["mdns unreadable"] += 1
        if reached is None or hint is None or hint.agent_id == self._agent_id:
            self._removed(found.name)
            return False
        key = hint.agent_id, hint.skill_id
        if self._keys.get(found.name, key) != key:
            self._removed(found.name)
        self._keys[found.name] = key
        self._names.setdefault(key, set()).add(found.name)
        self._on_found(hint, reached[1], dnssd.path_of_more(found.text))
        return True

    def _removed(self, name: str) -> None:
        key = self._keys.pop(name, None)
        if key is None:
            return
        names = self._names[key]
        names.discard(name)
        if not names:
            del self._names[key]
            self._on_gone(key)

    def _on_link(self, addresses: Sequence[str]) -> tuple[str, str] | None:
        """Return the first address that is in one of our networks, and our own address there."""
        for text in addresses:
            address = ip_address(without_zone(text))
            for network, ours in self._networks:
                if address in network:
                    return str(address), ours
        return None


def _import() -> tuple[Any, ...]:
    """Return the library, what it raises, and what of ours is made of it."""
    library, errors = importlib.import_module("zeroconf.asyncio"), importlib.import_module("zeroconf")
    browser, responder = ("skillwire.adapters.lan.dns_browser", "skillwire.adapters.lan.dns_responder")
    return library, errors.Error, importlib.import_module(browser), importlib.import_module(responder)


def _versions(hosts: Sequence[str]) -> Any:
    return importlib.import_module("zeroconf").autodetect_ip_version(list(hosts))


def _networks(hosts: Sequence[str]) -> list[tuple[IPv4Network | IPv6Network, str]]:
    """Return the networks that these addresses of ours are in, each with the address."""
    found = []
    for adapter in importlib.import_module("ifaddr").get_adapters():
        for ip in adapter.ips:
            host = without_zone(ip.ip if isinstance(ip.ip, str) else ip.ip[0])
            if host in hosts:
                found.append((ip_network(f"{host}/{ip.network_prefix}", strict=False), host))
    return found
