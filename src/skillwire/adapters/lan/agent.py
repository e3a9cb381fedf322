"""LanAgent: one agent on the local network, whole: nodes on all links, mDNS, probes, and what is kept over a restart.

Everything here lives on one event loop, and nothing blocks it. What goes out of here are values of
:mod:`skillwire.model.lan`; the messages of the protocol stay inside. Spec: SDP §2 to §5, §8 to §10.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import SystemRandom
from typing import TYPE_CHECKING, Final, Self

from skillwire.adapters.clock import moment
from skillwire.adapters.files.directories import state_directory
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.lan.hints import Hints
from skillwire.adapters.lan.keeping import Keeping
from skillwire.adapters.lan.link import Link
from skillwire.adapters.lan.links import Links
from skillwire.adapters.lan.listening import Listeners
from skillwire.adapters.lan.probe import Prober
from skillwire.adapters.lan.questions import Questions
from skillwire.adapters.lan.secrets_client import SecretsClient
from skillwire.adapters.lan.state import LanState
from skillwire.adapters.lan.upkeep import Upkeep
from skillwire.adapters.lan.view import View
from skillwire.errors import FetchError, TrustError
from skillwire.model.lan import LanChange, LanSkill, LanSnapshot, SceneResult
from skillwire.protocols.skill_discovery.events import Acknowledged
from skillwire.protocols.skill_discovery.listing import Change, What
from skillwire.protocols.skill_discovery.messages import HealthStatus, Outcome, Reason
from skillwire.protocols.skill_discovery.node import DiscoveryNode, Role

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.adapters.lan.interfaces import LinkAddress
    from skillwire.protocols.skill_discovery.configuration import LanSettings
    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.identity import Authority, Identity
    from skillwire.protocols.skill_discovery.route_agent import Offer

#: Seconds in which changes of a scene are collected, so that a hundred members that start together are one change.
_REST_PAUSE: Final = 0.05
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
        on_refused: is told when an agent does not take a registration of ours: ``DISC_003``.

    Raises:
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
        on_refused: Callable[[TrustError], object] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.trust: LanTrust | None = None
        self.agent_id = settings.agent_id
        if identity is None or authority is None or not self.agent_id:
            trust = self.trust = load_trust(settings)
            identity, authority = identity or trust.identity, authority or trust.authority
            self.agent_id = trust.agent_id
        self._identity, self._authority = identity, authority
        self._upkeep: Upkeep | None = None
        if self.trust is not None and (identity, authority) == (self.trust.identity, self.trust.authority):
            self._upkeep = Upkeep(self.trust, settings, self._review)
        self._roles = roles
        self._health = health
        self._on_refused = on_refused
        self._counters: Counter[str] = Counter()
        self._received = 0
        self._keeping: Keeping | None = None
        if keeps_state:
            state = LanState(state_directory() / "lan", settings.profile)
            self._keeping = Keeping(state, self.agent_id, settings.profile, settings.figures.window, self._counters)
        self._listeners = Listeners()
        self._view = View(self._listeners.tell, moment)
        self._probers = Prober(), Prober()  # of suspects, and of what others tell, which must not make those wait
        self._links: Links | None = None
        self._hints: Hints | None = None
        self._questions = Questions(self.agent_id, settings, self._view, self._probers[1])
        # Of a provider whom nobody vouches for, a key is asked only where `request_scene` lets it be used.
        self._questions.secrets = SecretsClient(self.agent_id, identity, authority, use_unverified=True)
        self._offers: dict[str, Offer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._rest_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Begin to hear and to speak.

        Raises:
            FetchError: ``LAN_UNAVAILABLE`` when there is no interface to speak on.
        """
        loop = asyncio.get_running_loop()
        if self._keeping is not None:
            await self._keeping.load()
        links = Links(self.settings, self._make_link, self._forget_link, loop, self._counters)
        try:
            self._begin(links)
        except BaseException:
            links.end()
            self._links = self._questions.links = None
            raise

    def _begin(self, links: Links) -> None:
        self._links = self._questions.links = links
        links.look()
        if not links.open_links():
            why = ", ".join(sorted(links.troubles)) or "no interface is up that takes multicast"
            wanted = ", ".join(self.settings.interfaces)
            fix = "Connect the machine, or name an interface that is up: --interface, or [discovery.udp] interfaces."
            raise FetchError("LAN_UNAVAILABLE", f"{wanted}: {why}" if wanted else why, fix=fix)
        links.offer(self._offers.values())
        if self.settings.mdns:
            self._hints = Hints(self.agent_id, self._identity, links)
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
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        await asyncio.gather(*(prober.stop() for prober in self._probers))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listeners.end()

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
    ) -> tuple[LanSkill, ...]:
        """Ask the network for skills, and return what was found there or known before.

        Args:
            capabilities: all of which a skill has.
            scenes: one of which it is in.
            types: one of which it is.
            patience: seconds that answers are collected.
        """
        return await self._questions.discover(tuple(capabilities), tuple(scenes), tuple(types), patience)

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
            found.update(link.node.gate.stopped)
        if self._hints is not None:
            found.update(self._hints.counters)
        return found

    @property
    def received(self) -> int:
        """How many datagrams came."""
        return self._received + sum(link.driver.received for link in self._links or ())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user is told: settings that nothing uses, what is wrong with our certificate, why mDNS is off."""
        of_trust = self._upkeep.notes if self._upkeep is not None else ()
        of_mdns = [self._hints.note] if self._hints is not None and self._hints.note else []
        return (*self.settings.notes, *of_trust, *of_mdns)

    def _review(self) -> None:
        """Forget whose certificate was taken back, and what it has registered."""
        for link in self._links or ():
            link.node.review(moment())
            link.act()

    def _make_link(self, address: LinkAddress) -> Link:
        node = DiscoveryNode(
            self.agent_id,
            identity=self._identity,
            authority=self._authority,
            random=SystemRandom(),
            roles=self._roles,
            profile=self.settings.profile,
            settings=self.settings.figures,
            health=self._health,
            replay=self._keeping.guard() if self._keeping is not None else None,
        )
        self._view.add(address.name, node.registry, address.interface)
        if self._keeping is not None:
            self._keeping.restore(address.name, node)
        return Link(address.name, node, asyncio.get_running_loop(), self._take, self._counters)

    def _forget_link(self, link: Link) -> None:
        self._view.remove(link.name)
        self._counters.update(link.node.gate.stopped)  # what is counted does not become less
        self._received += link.driver.received

    def _take(self, link: Link, events: Sequence[NodeEvent]) -> None:
        """Take what has happened on a link."""
        for event in events:
            if isinstance(event, Change):
                self._view.changed(event)
                if self._keeping is not None:
                    self._keeping.changed(link.name, event)
                if event.what is What.SUSPECTED:
                    self._spawn(self._probe(link, event))
            elif isinstance(event, Acknowledged):
                if event.status in {Outcome.INVALID, Outcome.UNAUTHORIZED}:
                    self._on_refused(_refusal(event))
            else:
                self._questions.take(link, event)
        if self._view.has_more and self._rest_timer is None:
            self._rest_timer = asyncio.get_running_loop().call_later(_REST_PAUSE, self._tell_rest)

    def _tell_rest(self) -> None:
        self._rest_timer = None
        self._view.tell_rest()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _probe(self, link: Link, change: Change) -> None:
        """Connect to the endpoint of a suspect; an answer is a sign of life."""
        place = change.listed.registration.endpoint
        if await self._probers[0].answers(link.reached(place.host), place.port):
            link.node.answered_probe(change.listed.key, moment())
            link.driver.tend()


def _refusal(event: Acknowledged) -> TrustError:
    """Return why an agent does not list a skill of ours. Spec: SDP §2.3, §12.1."""
    said = ascii(event.message)[1:-1][:200]
    return TrustError("DISC_003", f"{event.by.host} does not register {event.skill_id}: {event.status} {said}".rstrip())
