"""LanAgent: one agent on the local network: a node on each link, mDNS, probes, and the state kept over a restart.

Everything runs on one event loop, and nothing blocks it. The agent hands out values of :mod:`skillwire.model.lan`; the
messages of the protocol stay inside. Each link has a node of its own, whose events go to the parts that they concern
(:class:`EventRouter`).

**Identity.** Two processes that offer skills under one name and key would unregister each other's. So an agent that
offers skills holds a lock on its name, which the system releases with the process. A name from the state directory may
change: the next process is ``NAME-2``, with a key, a certificate and a state of its own in the folder
``agents/NAME-2``. A configured name that is in use is refused. An agent that only searches registers nothing, and
shares the first one's name and certificate **[ours]**. Spec: SDP §2 to §5, §8 to §10; specs §3.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Final, NamedTuple, Self
from weakref import WeakSet, finalize

from skillwire import limits
from skillwire.adapters.clock import moment
from skillwire.adapters.files.atomic import release_lock, state_directory, take_lock
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_trust import LanTrust, load_trust
from skillwire.adapters.lan.certificates import CertificateTasks
from skillwire.adapters.lan.connection_secrets import SecretsClient
from skillwire.adapters.lan.link import Link, Links
from skillwire.adapters.lan.mdns import Hints
from skillwire.adapters.lan.probes import SuspectProbes
from skillwire.adapters.lan.queries import Queries
from skillwire.adapters.lan.sockets import LinkAddress, SystemNetwork, explain_no_links
from skillwire.adapters.lan.state import LanState, StateWriter
from skillwire.adapters.lan.view import View
from skillwire.errors import (
    ConflictError,
    FetchError,
    SkillwireError,
    SourceLocation,
    StorageError,
    TrustError,
    ValidationError,
)
from skillwire.model.execution import Moment
from skillwire.model.lan import REVOKED, REVOKED_FIX, REVOKED_HERE_FIX, LanChange, LanSkill, LanSnapshot, SceneResult
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.health import Change, ChangeKind, Key
from skillwire.protocols.skill_discovery.identity import Authority, Identity
from skillwire.protocols.skill_discovery.ingress import PeerMismatch
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.protocols.skill_discovery.messages import ACCEPTED, HealthStatus, Outcome, Reason
from skillwire.protocols.skill_discovery.node import DiscoveryNode, NodeEvent, ProbeRequested, Refused, Role
from skillwire.protocols.skill_discovery.route_agent import Acknowledged, Offer
from skillwire.protocols.skill_discovery.search import StopCondition, every_provider
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.protocols.skill_discovery.settings import agent as read_agent_id
from skillwire.wire.node import Peer

#: Seconds that goodbyes may take: three of each of 500 skills, one of each of a thousand.
_GOODBYES_TAKE: Final = 2.5
_GOODBYE_LOOK: Final = 0.05
#: Seconds in which changes of a scene are collected, so that a hundred members that start together are one change.
_REST_PAUSE: Final = 0.05
#: Notes for the user.
_NOTES: Final = 8
#: Scenes whose order a registry is asked for at once.
_ORDERED: Final = 16
#: Changes that wait for one listener.
_WAITING: Final = 4096


#: Processes of one state directory that take part at once.
_MOST_NAMES: Final = 64


class AgentNameLock:
    """A name of this machine, locked until released or garbage; ``first`` is the usual one, when it is in use."""

    def __init__(self, agent_id: str, folder: Path, lock: Path, *, first: str = "") -> None:
        self.agent_id = agent_id
        self.folder = folder
        self.first = first
        self._lock = lock
        self._held: finalize[..., AgentNameLock] | None = None

    def hold(self) -> None:
        """Lock the name. Raises: ConflictError: ``LAN_NAME`` when another process holds it; StorageError."""
        if self._held is not None and self._held.alive:
            return
        try:
            handle = take_lock(self._lock, wait=False)
        except ConflictError as error:
            message = f"another process of this machine takes part as {self.agent_id}"
            raise ConflictError("LAN_NAME", message, place=SourceLocation(str(self._lock))) from error
        self._held = finalize(self, release_lock, handle, self._lock)

    def let_go(self) -> None:
        """Release the name."""
        if self._held is not None:
            self._held()


def default_agent_name(settings: LanSettings) -> AgentNameLock:
    """Hold a name, and return it. Raises: ConflictError: ``LAN_NAME``, the configured one is in use; StorageError."""
    folder = state_directory() / "lan"
    first = settings.agent_id or LanKeys(folder).agent_id()
    names = folder / "names"
    name = AgentNameLock(first, folder, names / f"{first}.lock")
    for number in range(2, _MOST_NAMES + 2):
        try:
            name.hold()
        except ConflictError:
            if settings.agent_id or number > _MOST_NAMES:
                raise
        else:
            break
        numbered = f"{first}-{number}"
        name = AgentNameLock(numbered, folder / "agents" / numbered, names / f"{numbered}.lock", first=first)
    if name.first and LanKeys(name.folder).known_id() != name.agent_id:
        LanKeys(name.folder).keep_id(name.agent_id)
    return name


#: Roles of an agent that only asks and listens.
ASKING: Final = frozenset({Role.END_AGENT, Role.OBSERVER})
#: Roles in which an agent holds its name.
_OFFERING: Final = frozenset(Role) - ASKING


class AgentIdentity(NamedTuple):
    """The name, key and folder of an agent, and the authority that judges others."""

    agent_id: str
    identity: Identity
    authority: Authority
    folder: Path
    trust: LanTrust | None = None  # the files of all of that; None when it was given
    name: AgentNameLock | None = None  # None for an agent that offers nothing, or whose identity was given
    unkept: StorageError | None = None  # why its key lasts no longer than this process

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for the user about the name."""
        if self.name is None or not self.name.first:
            return ()
        others = f"another process takes part as {self.name.first}"
        return (f"{others}: this one is {self.name.agent_id}, with a key of its own",)


def load_agent_identity(settings: LanSettings, roles: frozenset[Role]) -> AgentIdentity:
    """Return the agent that takes part in these roles, from its folder.

    An agent that offers nothing needs no lasting key: where none can be stored, it has one for this process.

    Raises: ConflictError: ``LAN_NAME``; StorageError; ValidationError, TrustError: as ``load_trust``.
    """
    name = default_agent_name(settings) if roles & _OFFERING else None
    folder = state_directory() / "lan" if name is None else name.folder
    unkept = None
    try:
        try:
            trust = load_trust(settings, folder=folder)
        except StorageError as error:
            if name is not None or error.code != "STORAGE":
                raise
            trust, unkept = load_trust(settings, folder=folder, keeps=False), error
        _check_agent_id(trust.agent_id, folder)
    except BaseException:
        if name is not None:
            name.let_go()
        raise
    return AgentIdentity(trust.agent_id, trust.identity, trust.authority, folder, trust, name, unkept)


def _check_agent_id(agent_id: str, folder: Path) -> None:
    """Refuse a name that could not be configured: a certificate or a kept file may have a longer one."""
    try:
        read_agent_id(agent_id)
    except ValueError as error:
        message = f"the name of this agent {error}; it is {ascii(agent_id)[:60]}, of {len(agent_id)}"
        fix = "Set agentId to such a name; where a certificate names the agent, have a new one issued."
        raise ValidationError("LAN_TRUST", message, place=SourceLocation(str(folder)), fix=fix) from None


def no_network() -> FetchError:
    """Return the trouble of a machine on which nothing but loopback is up."""
    message = "no network interface but loopback is up: only agents on this machine are heard"
    fix = "Connect this machine to the network, or name an interface: [discovery.udp] interfaces."
    return FetchError("DISC_005", message, fix=fix)


class EventRouter:
    """Gives each event of a node to the parts that it concerns; ``warnings`` are for the user."""

    def __init__(
        self,
        view: View,
        state: StateWriter | None,
        probes: SuspectProbes,
        queries: Queries,
        *,
        on_trouble: Callable[[TrustError], object],
        on_recovery: Callable[[str, str, str], object] = lambda *_: None,
    ) -> None:
        self._mismatches: tuple[tuple[PeerMismatch, TrustError], ...] = ()
        self._view = view
        self._state = state
        self._probes = probes
        self._queries = queries
        self._on_trouble = on_trouble
        self._on_recovery = on_recovery
        self._refusals: BoundedDict[tuple[str, str], str] = BoundedDict(limits.LAN_REFUSALS)  # by host and skill
        self._rest_timer: asyncio.TimerHandle | None = None

    def take(self, link: Link, events: Sequence[NodeEvent]) -> None:
        """Take the events of a link."""
        for event in events:
            if isinstance(event, Change):
                self._changed(link, event)
            elif isinstance(event, Acknowledged):
                self._acknowledged(link, event)
            elif isinstance(event, Refused):
                named = f"the registration of {event.skill_id or 'a skill'} by {event.agent_id or 'an agent'}"
                reason = f"{event.status}, {ascii(event.reason)[1:-1]}"
                # What is malformed is quoted in the reason, so the words alone are no verdict.
                is_revoked = event.status is Outcome.UNAUTHORIZED and REVOKED in event.reason
                fix = REVOKED_FIX.format(agent=event.agent_id) if event.agent_id and is_revoked else None
                self._on_trouble(TrustError("LAN_REFUSED", f"{event.by.host}: {named} is refused: {reason}", fix=fix))
            elif isinstance(event, ProbeRequested):
                self._probes.probe(link, event.listed)
            elif isinstance(event, PeerMismatch):
                trouble = TrustError("LAN_UNHEARD", f"{event.by.host} {event.difference}: its messages are ignored")
                if trouble.message not in [one.message for _, one in self._mismatches]:
                    self._mismatches = (*self._mismatches, (event, trouble))[-_NOTES:]
                    self._on_trouble(trouble)
            else:
                self._queries.take(link, event)
        if self._view.has_more and self._rest_timer is None:
            self._rest_timer = asyncio.get_running_loop().call_later(_REST_PAUSE, self._report_rest)

    @property
    def warnings(self) -> tuple[TrustError, ...]:
        """The ignored peers: those of IPv6 only where no peer of IPv4 has the same difference, as hosts have both."""
        by_ipv4 = {peer.difference for peer, _ in self._mismatches if ":" not in peer.by.host}
        return tuple(
            trouble for peer, trouble in self._mismatches if ":" not in peer.by.host or peer.difference not in by_ipv4
        )

    def end(self) -> None:
        """Report no more."""
        if self._rest_timer is not None:
            self._rest_timer.cancel()

    def _acknowledged(self, link: Link, event: Acknowledged) -> None:
        if event.status in ACCEPTED:
            link.acknowledged(event.skill_id, event.by)
            if refusal := self._refusals.pop((event.by.host, event.skill_id), ""):
                self._on_recovery(event.by.host, event.skill_id, refusal)
        else:
            said = ascii(event.message)[1:-1][:200]
            text = f"{event.by.host} does not register {event.skill_id}: {event.status} {said}".rstrip()
            self._refusals.put((event.by.host, event.skill_id), text)
            fix = REVOKED_HERE_FIX if REVOKED in event.message else None
            self._on_trouble(TrustError("DISC_003", text, fix=fix))

    def _changed(self, link: Link, change: Change) -> None:
        self._view.changed(change)
        if self._state is not None:
            self._state.changed(link.name, change)
        if change.kind is ChangeKind.SUSPECTED:
            self._probes.probe(link, change.listed)

    def _report_rest(self) -> None:
        self._rest_timer = None
        self._view.report_rest()


class Listener:
    """The changes that wait for one listener: an asynchronous iterator, which ends with the agent.

    A listener that is too slow loses what waits, and gets one change ``missed``: it has to read a snapshot again.
    """

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[LanChange | None] = asyncio.Queue()

    def __aiter__(self) -> AsyncIterator[LanChange]:
        return self

    async def __anext__(self) -> LanChange:
        """Return the next change."""
        if (change := await self._waiting.get()) is None:
            self._waiting.put_nowait(None)  # for the next call
            raise StopAsyncIteration
        return change

    def put(self, change: LanChange | None) -> None:
        """Append a change; None ends it after what waits."""
        if change is not None and self._waiting.qsize() >= _WAITING:
            while not self._waiting.empty():
                self._waiting.get_nowait()
            change = LanChange("missed", change.at)
        self._waiting.put_nowait(change)


class LanAgent:
    """One agent on the local network; identity and authority come from its folder by default.

    ``own`` are those of another part of this process, which keeps the name.

    ``on_trouble`` gets refused registrations, ours (``DISC_003``) and those of others (``LAN_REFUSED``), and ignored
    peers (``LAN_UNHEARD``); ``on_recovery`` gets the host that registers a skill of ours after a refusal, the skill,
    and the refusal's message. Raises: ConflictError: ``LAN_NAME``; StorageError; ValidationError: ``LAN_TRUST``.
    """

    def __init__(
        self,
        settings: LanSettings,
        *,
        roles: frozenset[Role] = frozenset(Role),
        keeps_state: bool = True,
        health: Callable[[str], HealthStatus] | None = None,
        on_trouble: Callable[[TrustError], object] = lambda _: None,
        on_recovery: Callable[[str, str, str], object] = lambda *_: None,
        network: SystemNetwork | None = None,
        clock: Callable[[], Moment] = moment,
        own: AgentIdentity | None = None,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._network = network or SystemNetwork()
        self._roles = roles
        self._health = health
        self._received = 0  # on removed links
        self._identity = kept = own or load_agent_identity(settings, roles)
        self._name = None if own is not None else kept.name
        self.agent_id, self.trust = kept.agent_id, kept.trust
        self._certificates = CertificateTasks(self.trust, settings, self._review) if self.trust is not None else None
        self._counters: Counter[str] = Counter()
        self._state: StateWriter | None = None
        if keeps_state:
            state = LanState(kept.folder, settings.profile)
            window = settings.discovery.window
            self._state = StateWriter(
                state, self.agent_id, settings.profile, window, counters=self._counters, clock=clock
            )
        self._listeners: WeakSet[Listener] = WeakSet()  # that are still referred to
        self._view = View(self._put, clock)
        self._queries = Queries(settings, self._view, clock)
        # `request_scene` decides whether an uncertified provider may be used at all.
        self._queries.secrets = SecretsClient(self.agent_id, kept.identity, kept.authority, use_unverified=True)
        self._probes = SuspectProbes()
        parts = self._view, self._state, self._probes, self._queries
        self._router = EventRouter(*parts, on_trouble=on_trouble, on_recovery=on_recovery)
        self._links: Links | None = None
        self._mdns: Hints | None = None
        self._offers: dict[str, Offer] = {}

    async def start(self) -> None:
        """Start to receive and to send. Raises: FetchError: ``LAN_UNAVAILABLE``; ConflictError: ``LAN_NAME``."""
        if self._name is not None:
            self._name.hold()
        links = Links(
            self.settings, self._network, self._counters, self._clock, make=self._make_link, remove=self._remove_link
        )
        try:
            if self._state is not None:
                await self._state.load()
            self._begin(links)
        except BaseException:
            links.end()
            self._links = self._queries.links = None
            if self._name is not None:
                self._name.let_go()
            raise

    def _make_link(self, address: LinkAddress) -> Link:
        node = DiscoveryNode(
            self.agent_id,
            identity=self._identity.identity,
            authority=self._identity.authority,
            random=SystemRandom(),
            roles=self._roles,
            profile=self.settings.profile,
            settings=self.settings.discovery,
            health=self._health,
            replay=self._state.guard() if self._state is not None else None,
        )
        self._view.add(address.name, node.registry, address.interface)
        if self._state is not None:
            self._state.restore(address.name, node)
        return Link(address.name, node, self._router.take, self._counters, self._clock)

    def _remove_link(self, link: Link) -> None:
        self._view.remove(link.name)
        self._counters.update(link.node.ingress.stopped)  # counters only grow
        self._received += link.driver.received

    def _begin(self, links: Links) -> None:
        self._links = self._queries.links = links
        links.look()
        if not links.open_links():
            wanted = self.settings.interfaces
            why = ", ".join(sorted(links.failures)) or explain_no_links(self._network.addresses(), wanted)
            fix = "Connect the machine, or name an interface that is up: --interface, or [discovery.udp] interfaces."
            place = SourceLocation(", ".join(wanted)) if wanted else None
            raise FetchError("LAN_UNAVAILABLE", why, place=place, fix=fix)
        links.offer(self._offers.values())
        if self.settings.mdns:
            self._mdns = Hints(self.agent_id, self._identity.identity, links)
            links.on_change = self._mdns.follow_links
            self._mdns.announce(self._offers.values())
            self._mdns.start()
        if self._state is not None:
            self._state.start(lambda: self._links or ())
        if self._certificates is not None:
            self._certificates.start()

    async def stop(self, reason: Reason = Reason.SHUTDOWN) -> None:
        """Unregister every skill, and stop; the listeners end, too."""
        if self._links is None:
            return
        had_offers = any([link.unregister(reason) for link in self._links])  # noqa: C419 - each link has to unregister
        if self._certificates is not None:
            await self._certificates.stop()
        if self._mdns is not None:
            await self._mdns.stop()
        if had_offers:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYES_TAKE):
                    while any(link.is_open and link.node.route_agent.is_leaving for link in self._links):  # noqa: ASYNC110 - no event
                        await asyncio.sleep(_GOODBYE_LOOK)
                    await asyncio.sleep(_GOODBYE_LOOK)
        if self._state is not None:
            await self._state.stop()
        self._links.end()
        self._links = None
        self._queries.end()
        self._router.end()
        await self._probes.stop()
        self._put(None)
        if self._name is not None:
            self._name.let_go()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(Reason.SHUTDOWN if error is None else Reason.ERROR)

    def announce(self, offers: Iterable[Offer]) -> None:
        """Offer exactly these skills; without a host, or with the unspecified one, with the address of each link."""
        self._offers = {offer.skill_id: offer for offer in offers}
        if self._links is not None:
            self._links.offer(self._offers.values())
        if self._mdns is not None:
            self._mdns.announce(self._offers.values())

    def report(self, skill_id: str, status: HealthStatus, detail: str = "") -> None:
        """Send the new status of an offered skill at once. Spec: SDP §5.2."""
        if skill_id in self._offers and self._links is not None:
            for link in self._links:
                link.report(skill_id, status, detail)
            if self._mdns is not None:
                self._mdns.report(skill_id, status)

    def exchange_dht(self, port: int) -> tuple[Peer, ...]:
        """Publish the port of our node of the DHT by mDNS, 0 for none; return the nodes that others publish."""
        if self._mdns is None:
            return ()
        self._mdns.announce_dht(port)
        return self._mdns.dht_nodes

    async def discover(
        self,
        *,
        capabilities: Sequence[str] = (),
        scenes: Sequence[str] = (),
        types: Sequence[str] = (),
        patience: float | None = None,
        enough: StopCondition | None = None,
    ) -> tuple[LanSkill, ...]:
        """Return the skills found and known with all capabilities, one of the scenes and one of the types.

        ``patience`` limits the seconds of collecting; ``enough`` ends it before: every provider by default.
        """
        if enough is None:
            enough = every_provider(self.settings.discovery)
        if self._mdns is not None and not enough.is_one:
            enough = enough._replace(least=max(enough.least, self._mdns.due()))
        return await self._queries.discover(tuple(capabilities), tuple(scenes), tuple(types), patience, enough)

    async def request_scene(
        self, scene: str, capabilities: Sequence[str] = (), *, is_join: bool = False, use_unverified: bool | None = None
    ) -> SceneResult:
        """Request a scene, or join a known one; the settings decide on uncertified providers.

        Raises: TrustError: ``DISC_004`` when the provider is uncertified, and such ones are not used. Spec: SDP §4.
        """
        return await self._queries.request_scene(
            scene,
            tuple(capabilities),
            is_join=is_join,
            use_unverified=self.settings.use_unverified if use_unverified is None else use_unverified,
        )

    async def group_orders(self, scenes: Iterable[str]) -> dict[str, list[Key]]:
        """Return the first members of the groups of some scenes, agent and skill, in the order of a registry."""
        names = list(scenes)[:_ORDERED]
        return dict(zip(names, await asyncio.gather(*map(self._queries.group_order, names)), strict=True))

    async def adopt_group_orders(self) -> None:
        """Order the known scenes as a registry does: an agent that has just started knows no first registrations."""
        self._view.orders = await self.group_orders(scene.name for scene in self._view.scenes())

    def key_digest_of(self, agent_id: str) -> bytes | None:
        """Return the SHA-256 of the key with which an agent has proven itself here; None for an unknown agent."""
        rings = [link.node.ring for link in self._links or ()]
        found = (ring.judgement_of(agent_id, self._clock().wall) for ring in rings)
        return next((one.key.digest for one in found if one is not None), None)

    def is_revoked(self, agent_id: str) -> bool:
        """Return whether a certificate with an agent's name was revoked."""
        return self._identity.authority.is_withheld(agent_id)

    @property
    def revoked(self) -> Mapping[str, str]:
        """The agents that were heard although their keys were revoked, by address."""
        links = [] if self._links is None else self._links.open_links()
        return {without_zone(at.host): agent for one in links for at, agent in one.node.ingress.revoked.items()}

    def snapshot(self) -> LanSnapshot:
        """Return the network as it is known now."""
        view = self._view
        return LanSnapshot(self.agent_id, self._clock().wall, view.skills(), view.scenes(), view.is_suspected())

    def listen(self) -> AsyncIterator[LanChange]:
        """Return the changes from now on. After a change ``missed`` the listener has to read a snapshot."""
        listener = Listener()
        self._listeners.add(listener)
        return listener

    @property
    def counters(self) -> Mapping[str, int]:
        """How often datagrams were dropped, or something failed, by reason."""
        found = Counter(self._counters)
        for link in self._links or ():
            found.update(link.node.ingress.stopped)
        if self._mdns is not None:
            found.update(self._mdns.counters)
        return found

    @property
    def received(self) -> int:
        """How many datagrams came."""
        return self._received + sum(link.driver.received for link in self._links or ())

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for the user: our name, our certificate, ignored peers, mDNS."""
        of_trust = self._certificates.notes if self._certificates is not None else ()
        of_mdns = [self._mdns.note] if self._mdns is not None and self._mdns.note else []
        of_network = [one.message for one in self.warnings]
        return (*self._identity.notes, *of_network, *of_trust, *of_mdns)

    @property
    def warnings(self) -> tuple[SkillwireError, ...]:
        """Why others are not heard: ``LAN_UNHEARD``, ``LAN_REFUSED`` if revoked, and ``DISC_005`` without a network."""
        links = [] if self._links is None else self._links.open_links()
        places = {agent: host for host, agent in reversed([*self.revoked.items()])}
        refused = [
            TrustError("LAN_REFUSED", f"{agent} at {host} is refused: {REVOKED}", fix=REVOKED_FIX.format(agent=agent))
            for agent, host in [*places.items()][:_NOTES]
        ]
        warnings = *self._router.warnings, *refused
        is_alone = bool(links) and not self.settings.interfaces
        if not is_alone or any(link.address is not None and not link.address.is_loopback for link in links):
            return warnings
        return (*warnings, no_network())

    def _put(self, change: LanChange | None) -> None:
        for listener in self._listeners:
            listener.put(change)

    def _review(self) -> None:
        for link in self._links or ():
            link.node.review(self._clock())
            link.act()
