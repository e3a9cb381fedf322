"""Hints: an agent's mDNS beside its multicast.

What is offered is published there too, and what others publish is listed, as a hint, by the registry of the link that
leads to it. All of it is done in the background, since importing the library and probing for a name take their time;
what is superseded meanwhile is passed over. Spec: SDP §1.2; specs §3.

mDNS and DNS-SD: what an agent offers is published, and what others publish becomes hints for its registry.

The library ``zeroconf`` is an extra, imported when mDNS starts and in a thread, since that takes a while. Where it is
missing, or its port cannot be had, mDNS is off and :attr:`DnsSd.note` says why; multicast goes on alone.

A hint leads to an address in a network that we are in ourselves, and never elsewhere: whoever lies in a TXT record
could otherwise send the probes of a whole network to anybody. Where a list was cut, the hint has the cut list, and
whoever is told of it also where the whole is (:mod:`skillwire.adapters.lan.mdns`).

mDNS finds, and does not tell who is alive: a publisher that crashed stays known for minutes. Probes decide.
Spec: SDP §1.2; specs §3.

Details of hints: where mDNS has cut the lists of a skill and nobody registers it, the whole is fetched over HTTP.

One request goes to the very address and port that the hint leads to, which is in a network of ours, and nowhere else:
no redirect is followed, and nothing goes to this machine itself. Nobody has signed where a hint leads, so an endpoint
is asked only when it takes a connection, a few at a time, and has few turns
(:mod:`~skillwire.adapters.lan.mdns`); and not before a registration had its time, so that this costs nothing
where multicast is heard. What comes is a hint as well. Spec: specs §3 "mDNS".

Turns to ask endpoints that hints lead to: few of one host, few in all, and not those that are something else.

Anybody can tell by mDNS that there is more at the printer or at the router, under as many names as he likes, and every
agent of the network would go and ask. So it is the endpoint that counts and not the agent: each is asked once in a
while, and once in ten minutes after it had something else to say. The path that is ours counts apart from those that
a hint makes up, so that a made-up one keeps nobody from being asked. Spec: specs §3 "mDNS".
"""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.clock import moment
from skillwire.adapters.lan.probes import Prober, ask
from skillwire.adapters.lan.sockets import present, widen
from skillwire.errors import DecodeError, SkillwireError
from skillwire.model.lan import host_and_port
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery import dnssd
from skillwire.protocols.skill_discovery.dnssd import PATH, AgentDetails, completed, key_id_of, read_details
from skillwire.trust.ecdsa import public_key_of
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from zeroconf.asyncio import AsyncZeroconf

    from skillwire.adapters.lan.link import Links
    from skillwire.adapters.lan.mdns_zeroconf import DnsBrowser, DnsResponder, Resolved
    from skillwire.protocols.skill_discovery.health import Key
    from skillwire.protocols.skill_discovery.identity import Identity
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
                responder.silence()
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
    browser, responder = ("skillwire.adapters.lan.mdns_zeroconf", "skillwire.adapters.lan.mdns_zeroconf")
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


#: Seconds for which what was told is good, and in which turns are counted.
GOOD: Final = 60.0
#: Seconds for which an endpoint is let alone that answers with something else.
BACK_OFF: Final = 600.0


class EndpointState(NamedTuple):
    """Where something is asked: address, port, and whether by the path that is ours."""

    host: str
    port: int
    is_ours: bool


class EndpointThrottle:
    """Which endpoints were asked lately; times are seconds of the steady clock."""

    def __init__(self) -> None:
        self._closed: dict[EndpointState, float] = {}
        self._taken: list[tuple[float, str]] = []

    def may_ask(self, door: EndpointState, now: float) -> bool:
        """Whether an endpoint may be asked now."""
        if self._closed.get(door, now) > now:
            return False
        self._taken = [(at, host) for at, host in self._taken if at > now - GOOD]
        of_host = Counter(host for _, host in self._taken)[door.host]
        return of_host < limits.LAN_DETAILS_PER_HOST and len(self._taken) < limits.LAN_DETAILS_PER_MINUTE

    def take(self, door: EndpointState, now: float) -> bool:
        """Take the turn of an endpoint, which is closed until somebody says otherwise; False when it has none."""
        if not self.may_ask(door, now):
            return False
        self._taken.append((now, door.host))
        self._closed = {one: until for one, until in self._closed.items() if until > now}
        self._closed[door] = now + BACK_OFF
        return True

    def again_soon(self, door: EndpointState, now: float) -> None:
        """Take note that an endpoint is what a hint says that it is, or that there is nothing yet."""
        self._closed[door] = now + GOOD


_OK: Final = 200
#: Seconds in which whoever is heard by multicast registers.
_WAITS: Final = 1.5
_FETCH_SECONDS: Final = 5.0
_NO_DETAILS: Final = AgentDetails("", {})


class _Cut(NamedTuple):
    """A hint whose lists were cut, the address of ours that leads there, and where there is more."""

    hint: Register
    ours: str
    door: EndpointState


class Details:
    """The fetching of one agent.

    Args:
        is_wanted: whether a skill is a hint still, and nobody has registered it.
        on_whole: is told a hint whose lists are whole, and the address of ours that leads there.
        counters: what was passed over, and why.
        is_here: whether an address is of this machine, and a hint from elsewhere may lead there.
    """

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
        self._told: dict[EndpointState, tuple[float, AgentDetails]] = {}
        self._cut: dict[Key, _Cut] = {}
        self._asking: dict[EndpointState, asyncio.Task[None]] = {}
        self._at_once = asyncio.Semaphore(limits.LAN_DETAILS_AT_ONCE)
        self._turns = EndpointThrottle()
        self._prober = Prober()  # of these alone, since suspects must not wait for them

    def found(self, hint: Register, ours: str, path: str) -> Register:
        """Take a hint whose lists were cut; return it as whole as it is known.

        Args:
            hint: without a signature.
            ours: which of our addresses is in its network.
            path: where more is told.
        """
        door, now = EndpointState(hint.endpoint.host, hint.endpoint.port, path == PATH), moment().steady
        until, told = self._told.get(door, (0.0, _NO_DETAILS))
        if until > now:
            return completed(hint, told) or hint
        has_room = len(self._asking) < limits.LAN_DETAILS_SOURCES
        if door in self._asking or (has_room and self._turns.may_ask(door, now)):
            self._cut[hint.agent_id, hint.skill_id] = _Cut(hint, ours, door)
            if door not in self._asking:
                task = self._asking[door] = asyncio.get_running_loop().create_task(self._fetch(door, path))
                task.add_done_callback(lambda _: self._ended(door))
        return hint

    def gone(self, key: Key) -> None:
        """Take note that a hint is gone."""
        self._cut.pop(key, None)

    async def stop(self) -> None:
        """Give all up."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._prober.stop()

    async def _fetch(self, door: EndpointState, path: str) -> None:
        await asyncio.sleep(_WAITS)
        if not any(self._is_wanted(key) for key, cut in self._cut.items() if cut.door == door):
            return
        if self._is_here(door.host):
            self._counters["mdns leads here"] += 1
            return
        if not self._turns.take(door, moment().steady):
            return
        told = await self._ask(door, path)
        if told is None:
            self._counters["mdns no details"] += 1
            return
        now = moment().steady
        self._turns.again_soon(door, now)
        self._told = {one: kept for one, kept in self._told.items() if kept[0] > now}
        self._told[door] = now + GOOD, told
        for key, cut in list(self._cut.items()):
            if cut.door == door and self._is_wanted(key) and (whole := completed(cut.hint, told)) is not None:
                self._on_whole(whole, cut.ours)

    async def _ask(self, door: EndpointState, path: str) -> AgentDetails | None:
        """Return what is told at an endpoint; None where there is none, or something else."""
        url = f"http://{host_and_port(door.host, door.port)}{path}"
        try:
            async with self._at_once, asyncio.timeout(_FETCH_SECONDS):
                if not await self._prober.answers(door.host, door.port):
                    self._turns.again_soon(door, moment().steady)
                    return None
                answer = await ask(HttpRequest(url, max_bytes=limits.LAN_DETAILS_BYTES))
            return read_details(answer.body, url) if answer.status == _OK else None
        except (SkillwireError, TimeoutError):
            return None

    def _ended(self, door: EndpointState) -> None:
        del self._asking[door]
        self._cut = {key: cut for key, cut in self._cut.items() if cut.door != door}


#: Seconds in which others have answered by mDNS that we are there: the library is imported, and asks and is answered
#: after pauses of up to 0.12 s each.
_TAKES: Final = 1.0


class Hints:
    """The mDNS of one agent, from :meth:`start` to :meth:`stop`.

    Args:
        agent_id: whose it is.
        identity: what the agent signs with.
        links: of the agent.
    """

    def __init__(self, agent_id: str, identity: Identity, links: Links) -> None:
        self._links = links
        self._offers: tuple[Offer, ...] = ()
        self._statuses: dict[str, HealthStatus] = {}
        self._identity = identity
        self._dnssd = DnsSd(self._hosts(), agent_id, self._found, self._gone, key_id=self._key_id)
        self._details = Details(self._is_hint, self._list, self._dnssd.counters, is_here=self._is_here)
        self._has_news = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._failure = ""
        self._began = 0.0

    def due(self) -> float:
        """Return in how many seconds those who are there have answered."""
        return 0.0 if self.note else max(0.0, self._began + _TAKES - moment().steady)

    @property
    def note(self) -> str:
        """Why mDNS is off; empty when it is not."""
        return self._dnssd.note or self._failure

    @property
    def counters(self) -> Mapping[str, int]:
        """What was passed over, and why."""
        return self._dnssd.counters

    def start(self) -> None:
        """Begin."""
        self._began = moment().steady
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(self._ended)

    def announce(self, offers: Iterable[Offer]) -> None:
        """Publish exactly these."""
        self._offers = tuple(offers)
        offered = {offer.skill_id for offer in self._offers}
        self._statuses = {name: status for name, status in self._statuses.items() if name in offered}
        self._has_news.set()

    def report(self, skill_id: str, status: HealthStatus) -> None:
        """Publish that a skill is otherwise than before."""
        self._statuses[skill_id] = status
        self._has_news.set()

    def follow_links(self) -> None:
        """Use the links that there are now."""
        self._has_news.set()

    async def stop(self) -> None:
        """Say goodbye for what was published, and end."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._details.stop()
        await self._dnssd.stop()

    async def _run(self) -> None:
        await self._dnssd.start()
        while not self._dnssd.note:
            self._has_news.clear()
            await self._dnssd.use(self._hosts())
            await self._dnssd.publish(self._offers, self._statuses)
            await self._has_news.wait()

    def _ended(self, running: asyncio.Task[None]) -> None:
        """Say so when mDNS has ended by a fault of ours or of the library; multicast goes on without."""
        error = None if running.cancelled() else running.exception()
        if error is not None:
            self._failure = f"mDNS is off, since it failed: {error!r}"
            what = {"message": "mDNS has failed", "exception": error, "task": running}
            running.get_loop().call_exception_handler(what)

    def _key_id(self) -> str:
        return key_id_of(public_key_of(self._identity.certificate))

    def _hosts(self) -> list[str]:
        return [link.address.host for link in self._links.open_links() if link.address is not None]

    def _found(self, hint: Register, ours: str, path: str) -> None:
        self._list(self._details.found(hint, ours, path) if path else hint, ours)

    def _is_hint(self, key: Key) -> bool:
        """Whether a skill is known by mDNS alone."""
        known = [listed for link in self._links if (listed := link.node.registry.get(key)) is not None]
        return bool(known) and all(listed.is_hint for listed in known)

    def _is_here(self, host: str) -> bool:
        """Whether an address is of this machine, where others than this machine may have said so.

        Who is on this machine is heard by multicast; and who is on loopback alone hears nobody else.
        """
        hosts = self._hosts()
        if hosts and all(ip_address(one).is_loopback for one in hosts):
            return False
        address = ip_address(without_zone(host))
        return (
            address.is_loopback or address.is_unspecified or any(address == ip_address(one.host) for one in present())
        )

    def _list(self, hint: Register, ours: str) -> None:
        """List a hint on the link that leads to it, and on no other."""
        now = moment()
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
