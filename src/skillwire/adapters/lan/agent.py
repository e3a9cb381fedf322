"""LanAgent: one agent on the local network, whole: nodes on all links, mDNS, probes, and what is kept over a restart.

Everything here lives on one event loop, and nothing blocks it. What goes out of here are values of
:mod:`skillwire.model.lan`; the messages of the protocol stay inside. Spec: SDP §2 to §5, §8 to §10.

Nodes: what an agent has of the core: one for each link, filled with what was kept, and forgotten with the link.

News: what happens on the links of an agent, told to those of its parts whom it concerns.

Listeners: whoever wants to be told what changes, each at a pace of its own.

A listener that does not keep up loses what waits for it, and is told so once: who is told ``missed`` looks at
everything again. So nobody who sleeps makes the agent's memory grow.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import suppress
from random import SystemRandom
from typing import TYPE_CHECKING, Final, Self
from weakref import WeakSet

from skillwire.adapters.clock import moment
from skillwire.adapters.lan import sockets
from skillwire.adapters.lan.certificates import CertificateTasks
from skillwire.adapters.lan.connection_secrets import SecretsClient
from skillwire.adapters.lan.link import Link, Links
from skillwire.adapters.lan.mdns import Hints
from skillwire.adapters.lan.principal import load_agent_identity
from skillwire.adapters.lan.probes import SuspectProbes
from skillwire.adapters.lan.queries import Queries, UnconfirmedNotices
from skillwire.adapters.lan.state import LanState, StateWriter
from skillwire.adapters.lan.view import View
from skillwire.errors import FetchError, SourceLocation, TrustError
from skillwire.model.lan import LanChange, LanSkill, LanSnapshot, SceneResult
from skillwire.protocols.skill_discovery.events import Acknowledged, GroupChanged, NameTaken, PeerMismatch
from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.messages import HealthStatus, Outcome, Reason
from skillwire.protocols.skill_discovery.node import DiscoveryNode, Role
from skillwire.protocols.skill_discovery.search import every_provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from skillwire.adapters.lan.principal import AgentIdentity
    from skillwire.adapters.lan.sockets import LinkAddress
    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.identity import Authority, Identity
    from skillwire.protocols.skill_discovery.route_agent import Offer
    from skillwire.protocols.skill_discovery.search import StopCondition
    from skillwire.protocols.skill_discovery.settings import LanSettings


class Nodes:
    """The nodes of one agent.

    Args:
        principal: who they are.
        settings: how they take part.
        roles: what they do.
        health: says how a skill of ours is; what was reported last, when there is none.
        view: sees their registries.
        keeping: what they knew before; None when nothing is kept.
        on_events: is told what has happened on a link.
        counters: what was dropped or went wrong, by its reason.

    ``received`` counts the datagrams of links that are forgotten.
    """

    def __init__(
        self,
        principal: AgentIdentity,
        settings: LanSettings,
        roles: frozenset[Role],
        *,
        health: Callable[[str], HealthStatus] | None,
        view: View,
        keeping: StateWriter | None,
        on_events: Callable[[Link, Sequence[NodeEvent]], object],
        counters: Counter[str],
    ) -> None:
        self.received = 0
        self._principal = principal
        self._settings = settings
        self._roles = roles
        self._health = health
        self._view = view
        self._keeping = keeping
        self._on_events = on_events
        self._counters = counters

    def make(self, address: LinkAddress) -> Link:
        """Return the link of an address, with its node."""
        node = DiscoveryNode(
            self._principal.agent_id,
            identity=self._principal.identity,
            authority=self._principal.authority,
            random=SystemRandom(),
            roles=self._roles,
            profile=self._settings.profile,
            settings=self._settings.figures,
            health=self._health,
            replay=self._keeping.guard() if self._keeping is not None else None,
        )
        self._view.add(address.name, node.registry, address.interface)
        if self._keeping is not None:
            self._keeping.restore(address.name, node)
        return Link(address.name, node, asyncio.get_running_loop(), self._on_events, self._counters)

    def forget(self, link: Link) -> None:
        """See no more of a link."""
        self._view.remove(link.name)
        self._counters.update(link.node.ingress.stopped)  # what is counted does not become less
        self.received += link.driver.received


#: Seconds in which changes of a scene are collected, so that a hundred members that start together are one change.
_REST_PAUSE: Final = 0.05
_NOTES: Final = 8


class EventRouter:
    """The news of one agent.

    Args:
        view: is told what has changed in a registry.
        keeping: the same; None when nothing is kept.
        suspects: is told who has fallen silent.
        questions: is told what was answered.
        hearsay: is told what others tell of our groups.
        on_trouble: is told who does not register us, ``DISC_003``, who has our name, ``LAN_NAME``, and who speaks
            otherwise than we do, ``LAN_UNHEARD``.

    ``notes`` are those of it that hold for as long as the agent is there: who else has our name, and who is not heard.
    """

    def __init__(
        self,
        view: View,
        keeping: StateWriter | None,
        suspects: SuspectProbes,
        questions: Queries,
        *,
        hearsay: UnconfirmedNotices,
        on_trouble: Callable[[TrustError], object],
    ) -> None:
        self.notes: tuple[str, ...] = ()
        self._view = view
        self._keeping = keeping
        self._suspects = suspects
        self._questions = questions
        self._hearsay = hearsay
        self._on_trouble = on_trouble
        self._rest_timer: asyncio.TimerHandle | None = None

    def take(self, link: Link, events: Sequence[NodeEvent]) -> None:
        """Take what has happened on a link."""
        for event in events:
            if isinstance(event, Change):
                self._changed(link, event)
            elif isinstance(event, Acknowledged):
                if event.status in {Outcome.INVALID, Outcome.UNAUTHORIZED}:
                    self._on_trouble(_refusal(event))
            elif isinstance(event, GroupChanged):
                self._hearsay.take(event)
            elif isinstance(event, NameTaken):
                self._note("LAN_NAME", _taken(event))
            elif isinstance(event, PeerMismatch):
                self._note("LAN_UNHEARD", f"{event.by.host} {event.said}: nothing of that is heard")
            else:
                self._questions.take(link, event)
        if self._view.has_more and self._rest_timer is None:
            self._rest_timer = asyncio.get_running_loop().call_later(_REST_PAUSE, self._tell_rest)

    def end(self) -> None:
        """Tell no more."""
        self._hearsay.end()
        if self._rest_timer is not None:
            self._rest_timer.cancel()

    def _changed(self, link: Link, change: Change) -> None:
        self._view.changed(change)
        if change.after is None:
            self._hearsay.gone(change.listed.key)
        if self._keeping is not None:
            self._keeping.changed(link.name, change)
        if change.kind is ChangeKind.SUSPECTED:
            self._suspects.probe(link, change)

    def _note(self, code: str, text: str) -> None:
        """Keep what holds as long as we are there, once, and tell of it."""
        if text not in self.notes:
            self.notes = (*self.notes, text)[-_NOTES:]
            self._on_trouble(TrustError(code, text))

    def _tell_rest(self) -> None:
        self._rest_timer = None
        self._view.tell_rest()


def _taken(event: NameTaken) -> str:
    """Return who else has our name."""
    return f"{event.by.host} takes part as {event.agent_id}, too, with another key: who knows one refuses the other"


def _refusal(event: Acknowledged) -> TrustError:
    """Return why an agent does not list a skill of ours. Spec: SDP §2.3, §12.1."""
    said = ascii(event.message)[1:-1][:200]
    return TrustError("DISC_003", f"{event.by.host} does not register {event.skill_id}: {event.status} {said}".rstrip())


#: Changes that wait for one listener.
_WAITING: Final = 4096


class Listener:
    """What waits for one listener: an asynchronous iterator, which ends with the agent."""

    def __init__(self) -> None:
        self._waiting: deque[LanChange] = deque()
        self._is_there = asyncio.Event()
        self._has_ended = False

    def __aiter__(self) -> AsyncIterator[LanChange]:
        return self

    async def __anext__(self) -> LanChange:
        """Return the next change."""
        while not self._waiting:
            if self._has_ended:
                raise StopAsyncIteration
            self._is_there.clear()
            await self._is_there.wait()
        return self._waiting.popleft()

    def put(self, change: LanChange) -> None:
        """Have one more wait."""
        if len(self._waiting) >= _WAITING:
            self._waiting.clear()
            change = LanChange("missed", change.at)
        self._waiting.append(change)
        self._is_there.set()

    def end(self) -> None:
        """Give what waits, and then no more."""
        self._has_ended = True
        self._is_there.set()


class Listeners:
    """All that listen; whoever is forgotten elsewhere is forgotten here."""

    def __init__(self) -> None:
        self._all: WeakSet[Listener] = WeakSet()

    def new(self) -> Listener:
        """Return one more."""
        listener = Listener()
        self._all.add(listener)
        return listener

    def tell(self, change: LanChange) -> None:
        """Tell all."""
        for listener in self._all:
            listener.put(change)

    def end(self) -> None:
        """Tell all that nothing more will come."""
        for listener in self._all:
            listener.end()


#: Seconds that goodbyes may take: three of each of 500 skills, one of each of a thousand.
_GOODBYES_TAKE: Final = 2.5
_GOODBYE_LOOK: Final = 0.05


class LanAgent:
    """One agent on the local network.

    Args:
        settings: how it takes part.
        identity: what it signs with; the kept one when absent.
        authority: judges others; made of the configured certificates when absent.
        roles: what it does.
        keeps_state: whether it remembers over a restart what it knew.
        health: says how a skill of ours is, whenever it beats; what was reported last, when there is none.
        on_trouble: is told when an agent does not take a registration of ours, ``DISC_003``, or has our name with
            another key, ``LAN_NAME``.

    Raises:
        ConflictError: ``LAN_NAME`` when another process offers under the configured name.
        StorageError: ``LAN_KEYS``, ``STORAGE`` when our own key cannot be had.
        ValidationError: ``LAN_TRUST`` for a file of certificates.
    """

    def __init__(
        self,
        settings: LanSettings,
        *,
        identity: Identity | None = None,
        authority: Authority | None = None,
        roles: frozenset[Role] = frozenset(Role),
        keeps_state: bool = True,
        health: Callable[[str], HealthStatus] | None = None,
        on_trouble: Callable[[TrustError], object] = lambda _: None,
    ) -> None:
        self.settings = settings
        who = self._who = load_agent_identity(settings, roles, identity, authority)
        self.agent_id, self.trust = who.agent_id, who.trust
        self._upkeep = (
            None if who.trust is None or not who.is_kept else CertificateTasks(who.trust, settings, self._review)
        )
        self._counters: Counter[str] = Counter()
        self._keeping: StateWriter | None = None
        if keeps_state:
            state = LanState(who.folder, settings.profile)
            self._keeping = StateWriter(state, self.agent_id, settings.profile, settings.figures.window, self._counters)
        self._listeners = Listeners()
        self._view = View(self._listeners.tell, moment)
        self._questions = Queries(settings, self._view)
        # Of a provider whom nobody vouches for, a key is asked only where `request_scene` lets it be used.
        self._questions.secrets = SecretsClient(self.agent_id, who.identity, who.authority, use_unverified=True)
        self._suspects = SuspectProbes()
        hearsay = UnconfirmedNotices(self._view, self._listeners.tell, moment, settings.figures.heartbeat_interval)
        self._news = EventRouter(
            self._view, self._keeping, self._suspects, self._questions, hearsay=hearsay, on_trouble=on_trouble
        )
        self._nodes = Nodes(
            who,
            settings,
            roles,
            health=health,
            view=self._view,
            keeping=self._keeping,
            on_events=self._news.take,
            counters=self._counters,
        )
        self._links: Links | None = None
        self._hints: Hints | None = None
        self._offers: dict[str, Offer] = {}

    async def start(self) -> None:
        """Begin to hear and to speak.

        Raises:
            FetchError: ``LAN_UNAVAILABLE`` when there is no interface to speak on.
            ConflictError: ``LAN_NAME`` when our name was let go, and another process has it by now.
        """
        loop = asyncio.get_running_loop()
        if self._who.name is not None:
            self._who.name.hold()
        links = Links(self.settings, self._nodes.make, self._nodes.forget, loop, self._counters)
        try:
            if self._keeping is not None:
                await self._keeping.load()
            self._begin(links)
        except BaseException:
            links.end()
            self._links = self._questions.links = None
            self._let_name_go()
            raise

    def _begin(self, links: Links) -> None:
        self._links = self._questions.links = links
        links.look()
        if not links.open_links():
            wanted = self.settings.interfaces
            why = ", ".join(sorted(links.troubles)) or sockets.why_none(sockets.present(), wanted)
            fix = "Connect the machine, or name an interface that is up: --interface, or [discovery.udp] interfaces."
            raise FetchError(
                "LAN_UNAVAILABLE", why, place=SourceLocation(", ".join(wanted)) if wanted else None, fix=fix
            )
        links.offer(self._offers.values())
        if self.settings.mdns:
            self._hints = Hints(self.agent_id, self._who.identity, links)
            links.on_change = self._hints.follow_links
            self._hints.announce(self._offers.values())
            self._hints.start()
        if self._keeping is not None:
            self._keeping.start(lambda: self._links or ())
        if self._upkeep is not None:
            self._upkeep.start()

    async def stop(self, reason: Reason = Reason.SHUTDOWN) -> None:
        """Say goodbye for every skill, and end. What listens ends too."""
        if self._links is None:
            return
        has_left = any([link.leave(reason) for link in self._links])  # noqa: C419 - each has to be told
        if self._upkeep is not None:
            await self._upkeep.stop()
        if self._hints is not None:
            await self._hints.stop()
        if has_left:
            await self._let_leave(self._links)
        if self._keeping is not None:
            await self._keeping.stop()
        self._links.end()
        self._links = None
        self._questions.end()
        self._news.end()
        await self._suspects.stop()
        await self._questions.stop()
        self._listeners.end()
        self._let_name_go()

    def _let_name_go(self) -> None:
        if self._who.name is not None:
            self._who.name.let_go()

    async def _let_leave(self, links: Links) -> None:
        """Wait until goodbyes were said as often as they are said; so many that this takes long are said once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYES_TAKE):
                while any(link.is_open and link.node.route_agent.is_leaving for link in links):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(_GOODBYE_LOOK)
                await asyncio.sleep(_GOODBYE_LOOK)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(Reason.SHUTDOWN if error is None else Reason.ERROR)

    def announce(self, offers: Iterable[Offer]) -> None:
        """Offer exactly these skills from now on: new ones are announced, those that are gone say goodbye.

        An endpoint without a host, or with the address that means any, is announced on each link with its address.
        """
        self._offers = {offer.skill_id: offer for offer in offers}
        if self._links is not None:
            self._links.offer(self._offers.values())
        if self._hints is not None:
            self._hints.announce(self._offers.values())

    def report(self, skill_id: str, status: HealthStatus, detail: str = "") -> None:
        """Say at once that a skill of ours is otherwise than before. Spec: SDP §5.2."""
        if skill_id in self._offers and self._links is not None:
            for link in self._links:
                link.report(skill_id, status, detail)
            if self._hints is not None:
                self._hints.report(skill_id, status)

    async def discover(
        self,
        *,
        capabilities: Sequence[str] = (),
        scenes: Sequence[str] = (),
        types: Sequence[str] = (),
        patience: float | None = None,
        enough: StopCondition | None = None,
    ) -> tuple[LanSkill, ...]:
        """Ask the network for skills, and return what was found there or known before.

        Args:
            capabilities: all of which a skill has.
            scenes: one of which it is in.
            types: one of which it is.
            patience: seconds that answers are collected at most; those of the settings unless given.
            enough: what ends it before; all that there is, unless given.
        """
        if enough is None:
            enough = every_provider(self.settings.figures)
        if self._hints is not None and not enough.is_one:
            enough = enough._replace(least=max(enough.least, self._hints.due()))
        return await self._questions.discover(tuple(capabilities), tuple(scenes), tuple(types), patience, enough)

    async def request_scene(
        self,
        scene: str,
        capabilities: Sequence[str] = (),
        *,
        is_join: bool = False,
        use_unverified: bool | None = None,
    ) -> SceneResult:
        """Ask for a scene, or join one that is known to be there, and stay in its group. Spec: SDP §4.

        Args:
            scene: such as ``auth``.
            capabilities: that its provider has to have.
            is_join: only join it, rather than ask for it.
            use_unverified: let the provider be one whom nobody vouches for; as the settings say unless given.

        Raises:
            TrustError: ``DISC_004`` when nobody vouches for the provider, and unverified ones are not used.
        """
        return await self._questions.request_scene(
            scene,
            tuple(capabilities),
            is_join=is_join,
            use_unverified=self.settings.use_unverified if use_unverified is None else use_unverified,
        )

    def leave_scene(self, scene: str) -> None:
        """Leave the group of a scene."""
        self._questions.leave_scene(scene)

    def snapshot(self) -> LanSnapshot:
        """Return the network as it is known now."""
        view = self._view
        return LanSnapshot(self.agent_id, moment().wall, view.skills(), view.scenes(), view.is_suspected())

    def listen(self) -> AsyncIterator[LanChange]:
        """Return what changes from now on. Who does not keep up is told ``missed`` and has to look at everything."""
        return self._listeners.new()

    @property
    def counters(self) -> Mapping[str, int]:
        """What was dropped or went wrong, by its reason."""
        found = Counter(self._counters)
        for link in self._links or ():
            found.update(link.node.ingress.stopped)
        if self._hints is not None:
            found.update(self._hints.counters)
        return found

    @property
    def received(self) -> int:
        """How many datagrams came."""
        return self._nodes.received + sum(link.driver.received for link in self._links or ())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user is told: settings that nothing uses, what our name or certificate lacks, why mDNS is off."""
        of_trust = self._upkeep.notes if self._upkeep is not None else ()
        of_mdns = [self._hints.note] if self._hints is not None and self._hints.note else []
        return (*self.settings.notes, *self._who.notes, *self._news.notes, *of_trust, *of_mdns)

    def _review(self) -> None:
        """Forget whose certificate was taken back, and what it has registered."""
        for link in self._links or ():
            link.node.review(moment())
            link.act()
