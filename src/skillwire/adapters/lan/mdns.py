"""mDNS: an agent publishes its offers by DNS-SD, and lists the skills that others publish as hints.

All of it runs in the background, because importing the library and probing for a name take time. The library
``zeroconf`` is an extra, imported in a thread (:mod:`~skillwire.adapters.lan.mdns_zeroconf`). Without it, or without
its port, mDNS is off and :attr:`Hints.note` explains why. A hint leads only to an address in a network of this machine:
a lie in a TXT record must not direct the probes of a whole network elsewhere. Only probes show liveness.

**Details.** A list that was cut in a TXT record is fetched over HTTP when no agent registers the skill: one request to
the very endpoint of the hint, without redirects, and never to this machine. A hint is not signed, so any peer can name
a printer under many agents; requests are limited for each endpoint, host, and in all (:class:`EndpointThrottle`). Our
own path is counted apart from those that hints make up. Spec: SDP §1.2; specs §3 "mDNS".
"""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.clock import moment
from skillwire.adapters.lan.link import Links
from skillwire.adapters.lan.probes import Prober, send_to_known_address
from skillwire.adapters.lan.sockets import present, widen
from skillwire.errors import DecodeError, SkillwireError
from skillwire.model.lan import host_and_port
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery import dnssd
from skillwire.protocols.skill_discovery.dnssd import PATH, AgentDetails, completed, key_id_of, read_details
from skillwire.protocols.skill_discovery.health import Key
from skillwire.protocols.skill_discovery.identity import Identity
from skillwire.protocols.skill_discovery.messages import HealthStatus, Register
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.trust.ecdsa import public_key_of
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.node import Peer

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncZeroconf

    from skillwire.adapters.lan.mdns_zeroconf import DnsBrowser, DnsResponder, Resolved

MISSING: Final = "mDNS is off: it needs the extra lan"
#: Installed by the extra.
_LIBRARIES: Final = frozenset({"zeroconf", "ifaddr"})
_NOTHING: Final[Mapping[str, HealthStatus]] = {}


class DnsSd:
    """Publishes and browses the instances of one agent.

    ``on_found`` gets each announced hint, our address in its network, and the path of its details, ``on_gone`` its key.
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
        self.dht_port = 0  # of our node, which is published
        self.dht_nodes: dict[str, Peer] = {}  # of others, by the name of the agent's instance
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
        """Start; on failure set :attr:`note`."""
        try:
            library = await asyncio.to_thread(importlib.import_module, "zeroconf.asyncio")
            ours = await asyncio.to_thread(importlib.import_module, "skillwire.adapters.lan.mdns_zeroconf")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _LIBRARIES:
                raise
            self.note = MISSING
            return
        try:
            self._zeroconf = zeroconf = library.AsyncZeroconf(interfaces=self._hosts)
            await zeroconf.zeroconf.async_wait_for_start()
        except (OSError, ours.Error) as error:
            self.note = f"mDNS is off: {getattr(error, 'strerror', None) or error or type(error).__name__}"
            return
        self._widen()
        self._networks = _networks(self._hosts)
        self._responder = ours.DnsResponder(zeroconf, self._agent_id, self._hosts, self.counters)
        self._browser = ours.DnsBrowser(zeroconf.zeroconf, self._resolved, self._removed, self.counters)

    async def publish(self, offers: Iterable[Offer], statuses: Mapping[str, HealthStatus] = _NOTHING) -> None:
        """Publish exactly these offers, with statuses that are not HEALTHY; the first time takes 1.2 seconds."""
        instances, left_out = dnssd.instances_of(self._agent_id, offers, statuses, self._key_id(), self.dht_port)
        if left_out:
            self.counters["mdns left out"] = len(left_out)
        async with self._lock:
            if self._responder is not None:
                await self._responder.publish(instances)

    async def use(self, hosts: Sequence[str]) -> None:
        """Use the addresses of other links."""
        async with self._lock:
            if self._zeroconf is None or self._responder is None or sorted(hosts) == sorted(self._hosts):
                return
            self._hosts = list(hosts)
            self._networks = _networks(self._hosts)
            try:
                versions = importlib.import_module("zeroconf").autodetect_ip_version(self._hosts)
                await self._zeroconf.async_update_interfaces(self._hosts, versions)
            except OSError:  # an interface is gone; another change follows
                self.counters["mdns no interface"] += 1
            self._widen()
            await self._responder.move(self._hosts)
            if self._browser is not None:
                await self._browser.ask()

    async def stop(self) -> None:
        """Withdraw the instances, and close."""
        async with self._lock:
            zeroconf, responder, browser = self._zeroconf, self._responder, self._browser
            self._zeroconf = self._responder = self._browser = None
            if browser is not None:
                await browser.close()
            if responder is not None:
                responder.silence()
            if zeroconf is not None:
                await zeroconf.async_close()

    def _widen(self) -> None:
        """Enlarge the library's buffers: five hundred skills answer with 200 kB in some milliseconds."""
        if self._zeroconf is not None:
            for reader in self._zeroconf.zeroconf.engine.readers:
                widen(reader.sock)

    def _resolved(self, found: Resolved) -> bool:
        """Report the hint of an instance, or keep its node of the DHT; return whether it has one."""
        # The first address in a network of ours, and our own address there.
        addresses = map(ip_address, map(without_zone, found.addresses))
        near = ((str(one), ours) for one in addresses for network, ours in self._networks if one in network)
        reached = next(near, None)
        hint, facts = None, dnssd.Advertised("")
        if reached is None:
            self.counters["mdns off link"] += 1
        else:
            try:
                facts = dnssd.decode_txt(found.text)
                hint = dnssd.hint_of(found.text, found.server, reached[0], found.port)
            except DecodeError:
                self.counters["mdns unreadable"] += 1
        if reached is None or hint is None or hint.agent_id == self._agent_id:
            self._removed(found.name)
            if reached is None or not facts.dht_port or facts.agent_id == self._agent_id:
                return False
            self.dht_nodes[found.name] = Peer(reached[0], facts.dht_port)
            return True
        key = hint.agent_id, hint.skill_id
        if self._keys.get(found.name, key) != key:
            self._removed(found.name)
        self._keys[found.name] = key
        self._names.setdefault(key, set()).add(found.name)
        self._on_found(hint, reached[1], dnssd.path_of_more(found.text))
        return True

    def _removed(self, name: str) -> None:
        self.dht_nodes.pop(name, None)
        key = self._keys.pop(name, None)
        if key is None:
            return
        names = self._names[key]
        names.discard(name)
        if not names:
            del self._names[key]
            self._on_gone(key)


def _networks(hosts: Sequence[str]) -> list[tuple[IPv4Network | IPv6Network, str]]:
    """Return the networks of our addresses, each with the address."""
    return [(one.networks[0], one.host) for one in present() if one.host in hosts]


#: Seconds for which details are valid, and in which requests are counted.
GOOD: Final = 60.0
#: Seconds without requests to an endpoint after a wrong answer.
BACK_OFF: Final = 600.0


class EndpointState(NamedTuple):
    """An endpoint for requests: address, port, and whether the path is our own."""

    host: str
    port: int
    is_ours: bool


class EndpointThrottle:
    """Limits the requests to endpoints."""

    def __init__(self) -> None:
        self._closed: dict[EndpointState, float] = {}
        self._requests: list[tuple[float, str]] = []

    def may_ask(self, endpoint: EndpointState, now: float) -> bool:
        """Return whether an endpoint may get a request now."""
        self._requests = [(at, host) for at, host in self._requests if at > now - GOOD]
        of_host = sum(host == endpoint.host for _, host in self._requests)
        is_busy = of_host >= limits.LAN_DETAILS_PER_HOST or len(self._requests) >= limits.LAN_DETAILS_PER_MINUTE
        return self._closed.get(endpoint, now) <= now and not is_busy

    def take(self, endpoint: EndpointState, now: float) -> bool:
        """Count a request to an endpoint, and close it for a while; False when it may get none."""
        if not self.may_ask(endpoint, now):
            return False
        self._requests.append((now, endpoint.host))
        self._closed = {one: until for one, until in self._closed.items() if until > now}
        self._closed[endpoint] = now + BACK_OFF
        return True

    def open_soon(self, endpoint: EndpointState, now: float) -> None:
        """Open an endpoint sooner: it answered as expected, or nothing listens there yet."""
        self._closed[endpoint] = now + GOOD


_OK: Final = 200
#: Seconds in which an agent that is heard by multicast registers.
_WAITS: Final = 1.5
_FETCH_SECONDS: Final = 5.0
_NO_DETAILS: Final = AgentDetails("")


class _Cut(NamedTuple):
    hint: Register  # with cut lists
    ours: str  # our address in its network
    endpoint: EndpointState  # of its details


class Details:
    """Fetches the details of hints, while a skill is still a hint and its address is not of this machine."""

    def __init__(
        self,
        is_wanted: Callable[[Key], bool],
        on_whole: Callable[[Register, str], object],
        counters: Counter[str],
        *,
        is_here: Callable[[str], bool],
    ) -> None:
        self._is_wanted = is_wanted
        self._on_whole = on_whole
        self._counters = counters
        self._is_here = is_here
        self._known: dict[EndpointState, tuple[float, AgentDetails]] = {}
        self._cut: dict[Key, _Cut] = {}
        self._asking: dict[EndpointState, asyncio.Task[None]] = {}
        self._at_once = asyncio.Semaphore(limits.LAN_DETAILS_AT_ONCE)
        self._throttle = EndpointThrottle()
        self._prober = Prober()  # of these alone, since suspects must not wait for them

    def found(self, hint: Register, ours: str, path: str) -> Register:
        """Return a hint with its complete lists when they are known; otherwise fetch them in the background."""
        endpoint, now = EndpointState(hint.endpoint.host, hint.endpoint.port, path == PATH), moment().steady
        until, details = self._known.get(endpoint, (0.0, _NO_DETAILS))
        if until > now:
            return completed(hint, details) or hint
        fits = len(self._asking) < limits.LAN_DETAILS_SOURCES
        if endpoint in self._asking or (fits and self._throttle.may_ask(endpoint, now)):
            self._cut[hint.agent_id, hint.skill_id] = _Cut(hint, ours, endpoint)
            if endpoint not in self._asking:
                task = self._asking[endpoint] = asyncio.get_running_loop().create_task(self._fetch(endpoint, path))
                task.add_done_callback(lambda _: self._ended(endpoint))
        return hint

    def gone(self, key: Key) -> None:
        """Forget a hint."""
        self._cut.pop(key, None)

    async def stop(self) -> None:
        """Cancel all requests."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._prober.stop()

    async def _fetch(self, endpoint: EndpointState, path: str) -> None:
        await asyncio.sleep(_WAITS)
        if not any(self._is_wanted(key) for key, cut in self._cut.items() if cut.endpoint == endpoint):
            return
        if self._is_here(endpoint.host):
            self._counters["mdns leads here"] += 1
            return
        if not self._throttle.take(endpoint, moment().steady):
            return
        details = await self._ask(endpoint, path)
        if details is None:
            self._counters["mdns no details"] += 1
            return
        now = moment().steady
        self._throttle.open_soon(endpoint, now)
        self._known = {one: kept for one, kept in self._known.items() if kept[0] > now}
        self._known[endpoint] = now + GOOD, details
        for key, cut in list(self._cut.items()):
            found = completed(cut.hint, details)
            if cut.endpoint == endpoint and found is not None and self._is_wanted(key):
                self._on_whole(found, cut.ours)

    async def _ask(self, endpoint: EndpointState, path: str) -> AgentDetails | None:
        """Return the details at an endpoint; None for no or a wrong answer."""
        url = f"http://{host_and_port(endpoint.host, endpoint.port)}{path}"
        try:
            async with self._at_once, asyncio.timeout(_FETCH_SECONDS):
                if not await self._prober.answers(endpoint.host, endpoint.port):
                    self._throttle.open_soon(endpoint, moment().steady)
                    return None
                answer = await send_to_known_address(HttpRequest(url, max_bytes=limits.LAN_DETAILS_BYTES))
            return read_details(answer.body, url) if answer.status == _OK else None
        except (SkillwireError, TimeoutError):
            return None

    def _ended(self, endpoint: EndpointState) -> None:
        del self._asking[endpoint]
        self._cut = {key: cut for key, cut in self._cut.items() if cut.endpoint != endpoint}


#: Seconds until other agents have answered by mDNS: the library is imported, asks, and is answered after pauses of up
#: to 0.12 s each.
_TAKES: Final = 1.0


class Hints:
    """The mDNS of one agent, whose hints its links list."""

    def __init__(self, agent_id: str, identity: Identity, links: Links) -> None:
        self._links = links
        self._offers: tuple[Offer, ...] = ()
        self._statuses: dict[str, HealthStatus] = {}
        self._identity = identity
        self._dnssd = DnsSd(self._hosts(), agent_id, self._list, self._gone, key_id=self._key_id)
        self._details = Details(self._is_hint, self._list, self._dnssd.counters, is_here=self._is_here)
        self._has_changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._failure = ""
        self._began = 0.0

    def due(self) -> float:
        """Return the seconds until present agents have answered."""
        return 0.0 if self.note else max(0.0, self._began + _TAKES - moment().steady)

    @property
    def note(self) -> str:
        """Why mDNS is off; empty otherwise."""
        return self._dnssd.note or self._failure

    @property
    def counters(self) -> Mapping[str, int]:
        """How much was ignored, by reason."""
        return self._dnssd.counters

    def start(self) -> None:
        """Start in the background."""
        self._began = moment().steady
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(self._ended)

    def announce(self, offers: Iterable[Offer]) -> None:
        """Publish exactly these offers."""
        self._offers = tuple(offers)
        offered = {offer.skill_id for offer in self._offers}
        self._statuses = {name: status for name, status in self._statuses.items() if name in offered}
        self._has_changed.set()

    def report(self, skill_id: str, status: HealthStatus) -> None:
        """Publish the new status of a skill."""
        self._statuses[skill_id] = status
        self._has_changed.set()

    def announce_dht(self, port: int) -> None:
        """Publish the port of our node of the DHT; 0 for none."""
        if port != self._dnssd.dht_port:
            self._dnssd.dht_port = port
            self._has_changed.set()

    @property
    def dht_nodes(self) -> tuple[Peer, ...]:
        """The nodes of the DHT that other agents publish."""
        return tuple(dict.fromkeys(self._dnssd.dht_nodes.values()))

    def follow_links(self) -> None:
        """Use the current links."""
        self._has_changed.set()

    async def stop(self) -> None:
        """Withdraw the instances, and stop."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._details.stop()
        await self._dnssd.stop()

    async def _run(self) -> None:
        await self._dnssd.start()
        while not self._dnssd.note:
            self._has_changed.clear()
            await self._dnssd.use(self._hosts())
            await self._dnssd.publish(self._offers, self._statuses)
            await self._has_changed.wait()

    def _ended(self, running: asyncio.Task[None]) -> None:
        """Report a failure of mDNS; multicast goes on."""
        error = None if running.cancelled() else running.exception()
        if error is not None:
            self._failure = f"mDNS is off, because it failed: {error!r}"
            what = {"message": "mDNS has failed", "exception": error, "task": running}
            running.get_loop().call_exception_handler(what)

    def _key_id(self) -> str:
        return key_id_of(public_key_of(self._identity.certificate))

    def _hosts(self) -> list[str]:
        return [link.address.host for link in self._links.open_links() if link.address is not None]

    def _is_hint(self, key: Key) -> bool:
        known = [listed for link in self._links if (listed := link.node.registry.get(key)) is not None]
        return bool(known) and all(listed.is_hint for listed in known)

    def _is_here(self, host: str) -> bool:
        """Return whether an address is of this machine, whose agents are heard by multicast; not if all is loopback."""
        hosts = self._hosts()
        if hosts and all(ip_address(one).is_loopback for one in hosts):
            return False
        address = ip_address(without_zone(host))
        ours = [ip_address(one.host) for one in present()]
        return address.is_loopback or address.is_unspecified or address in ours

    def _list(self, hint: Register, ours: str, path: str = "") -> None:
        """List a hint on the link of its network, and on no other; complete it when there are details."""
        now = moment()
        if path:
            hint = self._details.found(hint, ours, path)
        for link in self._links:
            if link.is_open and link.address is not None and link.address.host == ours:
                has_changed = link.node.hint(hint, hint.endpoint.host, now)
            else:
                has_changed = link.node.unhint((hint.agent_id, hint.skill_id), now)
            if has_changed:
                link.driver.tend(now)

    def _gone(self, key: Key) -> None:
        self._details.gone(key)
        now = moment()
        for link in self._links:
            if link.node.unhint(key, now):
                link.driver.tend(now)
