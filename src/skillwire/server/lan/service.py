"""What the service on the local network is made of, as it sees them: its agent, and what hands out keys.

The life of an agent in a server: it announces what the server publishes, follows its changes, and says goodbye.

It begins when the first revision is served, so that what is announced is there. A network that cannot be used is said
once and tried again; the HTTP server goes on meanwhile. Goodbyes are sent while the server still answers, before its
sockets close. Spec: SDP §2, §8, §9.

Where a server is reached by others, and what of the network is therefore used.

An agent announces, on each link, the address that it sends from there. So a server that listens at every address is
announced on every link; one that listens at one address, on the link of that address, and one that has no socket of
IPv6, on none of IPv6: nothing is announced that nobody can reach.

What the operator is told of other agents: who does not take our registrations, has our name, or is not heard.

Anybody on the network may refuse, or take our name, as often as they like; so each is told once, and not many of a
kind. Who refuses cannot hush who has our name: each kind is counted apart. Spec: SDP §2.3, §12.1.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from skillwire.errors import SkillwireError
from skillwire.protocols.skill_discovery.messages import Endpoint, Reason
from skillwire.server.execution_service import Notifier
from skillwire.server.lan.announcements import Announcer
from skillwire.server.metrics import LanCount

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.model.lan import LanChange, LanSnapshot
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.route_agent import Offer
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.lan.health import SkillHealth


class Agent(Protocol):
    """What a service needs of :class:`skillwire.adapters.lan.agent.LanAgent`."""

    agent_id: str
    trust: LanTrust | None

    @property
    def counters(self) -> Mapping[str, int]:
        """What was dropped or went wrong, by its reason."""

    @property
    def received(self) -> int:
        """How many datagrams came."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as it should be, for people."""

    async def start(self) -> None:
        """Begin.

        Raises:
            FetchError: ``LAN_UNAVAILABLE`` when no interface can be used.
            ConflictError: ``LAN_NAME`` when another process has our name by now.
        """

    async def stop(self, reason: Reason = Reason.SHUTDOWN) -> None:
        """Say goodbye and end."""

    def announce(self, offers: Iterable[Offer]) -> None:
        """Offer exactly these from now on."""

    def report(self, skill_id: str, status: HealthStatus, detail: str = "") -> None:
        """Say that a skill is otherwise than before."""

    def snapshot(self) -> LanSnapshot:
        """Return what is known."""

    def listen(self) -> AsyncIterator[LanChange]:
        """Yield what happens from now on."""


class KeyServer(Protocol):
    """What a service needs of :class:`skillwire.server.lan.certificates.SceneSecrets`."""

    async def start(self, trust: LanTrust | None, host: str) -> int:
        """Begin, and return the port; 0 where there is none."""

    async def stop(self) -> None:
        """End."""


_ANY4: Final = "0.0.0.0"  # noqa: S104  # compared with
_ANY6: Final = "::"


class AdvertisedAddress(NamedTuple):
    """Where a server is reached: ``host`` is empty for the address that a datagram is sent from."""

    host: str
    port: int
    settings: LanSettings


def advertised_address(settings: LanSettings, addresses: Sequence[tuple[str, int]]) -> AdvertisedAddress:
    """Return where a server is reached that listens at ``addresses``, and the settings that fit.

    Args:
        settings: the operator's; interfaces that they name are used whatever follows from the addresses.
        addresses: hosts and ports of its sockets, at least one.
    """
    hosts = [host for host, _ in addresses]
    port = addresses[0][1]
    if _ANY6 in hosts:
        return AdvertisedAddress("", port, settings)
    if _ANY4 in hosts:
        return AdvertisedAddress("", port, replace(settings, group6=""))
    return AdvertisedAddress(
        hosts[0], port, settings if settings.interfaces else replace(settings, interfaces=(hosts[0],))
    )


MakeSecrets = Callable[["LanSettings", Callable[[str, str], "str | None"]], "KeyServer"]
#: Seconds until a network that could not be used is tried again.
_AGAIN: Final = 5.0
#: Seconds that leaving may take: three goodbyes of a skill take a quarter of one, those of very many 2.5.
_GOODBYE: Final = 6.0


class LanService:
    """What a server does on the local network.

    Args:
        settings: the operator's.
        publication: what is announced.
        conditions: how its skills are.
        make_agent: returns an agent that has not begun, by the settings that fit, and what says how a skill of ours
            is. Called in a thread.
        make_secrets: returns what hands out connection secrets, by the settings and what says which skill is
            announced under an identifier in a scene; None where nothing does.

    ``scenes`` are those that every skill takes part in, beside its own; set before :meth:`start`. ``goodbye_reason``
    returns why the server leaves that is told to end, as its operator says at that time: what the settings say unless
    set before. It is called in a thread.
    ``trouble`` says why there is no network, while there is none; ``tls_port`` where connection secrets are handed out,
    0 while they are not.
    """

    def __init__(
        self,
        settings: LanSettings,
        publication: CatalogService,
        conditions: SkillHealth,
        make_agent: Callable[[LanSettings, Callable[[str], HealthStatus]], Agent],
        make_secrets: MakeSecrets | None = None,
    ) -> None:
        self.settings = settings
        self.scenes: tuple[str, ...] = ()
        self.goodbye_reason: Callable[[], Reason] = lambda: self.settings.goodbye_reason
        self.trouble = ""
        self.tls_port = 0
        self._publication = publication
        self._conditions = conditions
        self._make_agent = make_agent
        self._make_secrets = make_secrets
        self._secrets: KeyServer | None = None
        self._endpoint: Endpoint | None = None
        self._agent: Agent | None = None
        self._changes = Notifier()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._has_left = False
        self._announcer = Announcer(publication, conditions)
        conditions.follow(self._wake.set)
        self._log = structlog.get_logger("skillwire.lan")

    @property
    def agent_id(self) -> str:
        """The name of our agent; empty until it is there."""
        return "" if self._agent is None else self._agent.agent_id

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What is announced now."""
        return self._announcer.offers

    @property
    def counters(self) -> Mapping[str, int]:
        """What the agent counts, by name; nothing until it is there."""
        return {} if self._agent is None else self._agent.counters

    def snapshot(self) -> LanSnapshot | None:
        """Return the network as our agent knows it; None until it is there."""
        return None if self._agent is None else self._agent.snapshot()

    def listen(self) -> AsyncIterator[LanChange] | None:
        """Return what happens from now on, one change after the other; None until the agent is there."""
        return None if self._agent is None else self._agent.listen()

    def count(self) -> LanCount | None:
        """Return what is counted by now; None until the agent is there."""
        snapshot = self.snapshot()
        if snapshot is None:
            return None
        received = 0 if self._agent is None else self._agent.received
        return LanCount(Counter(skill.status for skill in snapshot.skills), received, self.counters)

    async def changed(self, since: int, seconds: float) -> int:
        """Return the number of the last change, when it is more than ``since`` or after ``seconds``."""
        return await self._changes.beyond(since, seconds)

    def reached_at(self, *addresses: tuple[str, int]) -> None:
        """Take note at which hosts and ports this server listens; before :meth:`start`."""
        reach = advertised_address(self.settings, addresses)
        self._endpoint, self.settings = Endpoint(reach.host, reach.port), reach.settings

    def start(self) -> None:
        """Begin, unless that has begun; on the event loop."""
        if self._tasks or self._has_left:
            return
        if self._endpoint is None:
            self.trouble = "nobody said where this server is reached"
            self._log.warning("not on the LAN", reason=self.trouble)
            return
        loop = asyncio.get_running_loop()

        def hear(_: object) -> None:
            with suppress(RuntimeError):  # a loop that was closed
                loop.call_soon_threadsafe(self._wake.set)

        self._publication.follows.append(hear)
        self._tasks.append(asyncio.create_task(self._live()))

    def hang_up(self) -> None:
        """Answer whoever waits for a change: the server stops."""
        self._changes.close()

    async def leave(self, *, has_failed: bool = False) -> None:
        """Say goodbye for every skill, and end; it takes a moment, and not long. Further calls do nothing.

        Args:
            has_failed: whether the server ends by an error, and not because it was told to.

        Spec: SDP §9.1.
        """
        if self._has_left:
            return
        self._has_left = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._conditions.close()
        agent, self._agent = self._agent, None
        if agent is not None:
            await self._say_goodbye(agent, Reason.ERROR if has_failed else await self._why())
        self.tls_port = 0
        if self._secrets is not None:
            await self._secrets.stop()
        self._changes.tell_all()

    async def _live(self) -> None:
        making = self._make()  # keys and certificates are read while the skills are
        try:
            await self._publication.first()
        except asyncio.CancelledError:
            making.cancel()
            raise
        agent = await self._begin(making)
        self._tasks.append(asyncio.create_task(self._hear(agent)))
        while True:
            self._wake.clear()
            try:
                await self._tend(agent)
            except Exception:  # noqa: BLE001  # nobody else would hear of it, and it may pass
                self._log.exception("the LAN could not be told")
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.figures.heartbeat_interval):
                    await self._wake.wait()

    def _make(self) -> asyncio.Task[Agent]:
        return asyncio.create_task(asyncio.to_thread(self._make_agent, self.settings, self._announcer.status))

    async def _begin(self, making: asyncio.Task[Agent]) -> Agent:
        """Return an agent that has begun, as soon as one can."""
        while True:
            try:
                agent = await making
                await agent.start()
            except Exception as error:  # noqa: BLE001  # whatever it is, the HTTP server goes on
                self._tell_trouble(error)
                await asyncio.sleep(_AGAIN)
                making = self._make()
                continue
            self.trouble, self._agent = "", agent
            self._log.info("on the LAN", agent=agent.agent_id)
            for note in agent.notes:
                tell = self._log.info if note in self.settings.notes else self._log.warning
                tell("on the LAN, but", note=note)
            return agent

    def _tell_trouble(self, error: Exception) -> None:
        """Say why there is no network, once for each reason."""
        reason = error.message if isinstance(error, SkillwireError) else type(error).__name__
        if reason != self.trouble:
            code = error.code if isinstance(error, SkillwireError) else "INTERNAL"
            trace: dict[str, object] = {} if isinstance(error, SkillwireError | OSError) else {"exc_info": error}
            if isinstance(error, SkillwireError):
                trace |= {"fix": error.diagnostics().fix} | ({"place": str(error.place)} if error.place else {})
            self._log.warning("not on the LAN", code=code, reason=reason, again_in=_AGAIN, **trace)
        self.trouble = reason

    async def _hear(self, agent: Agent) -> None:
        while True:
            try:
                async for _ in agent.listen():
                    self._changes.tell()
            except Exception:  # noqa: BLE001  # as above; pages would stand still
                self._log.exception("changes of the LAN could not be heard")
                await asyncio.sleep(_AGAIN)
                self._changes.tell()  # what happened meanwhile
            else:
                return  # the agent has ended

    async def _tend(self, agent: Agent) -> None:
        """Announce what is published now, and report which skills are otherwise than they were."""
        if self._endpoint is not None and await self._announcer.look(agent.agent_id, self._endpoint, self.scenes):
            await self._open_secrets(agent)  # before it is announced that there are any
            self._announcer.tell(agent)

    async def _open_secrets(self, agent: Agent) -> None:
        """Begin to hand out connection secrets, once somebody may want one."""
        is_wanted = self._announcer.has_scenes and self._secrets is None
        if self._make_secrets is None or not is_wanted or self._endpoint is None:
            return
        self._secrets = self._make_secrets(self.settings, self._announcer.skill_name)
        self.tls_port = await self._secrets.start(agent.trust, self._endpoint.host)

    async def _why(self) -> Reason:
        """Return why a server leaves that was told to end."""
        try:
            return await asyncio.to_thread(self.goodbye_reason)
        except SkillwireError as error:  # a file that was spoilt meanwhile
            self._log.warning("the goodbye is that of the beginning", code=error.code, reason=error.message)
            return self.settings.goodbye_reason

    async def _say_goodbye(self, agent: Agent, reason: Reason) -> None:
        try:
            async with asyncio.timeout(_GOODBYE):
                await agent.stop(reason)
        except TimeoutError:
            self._log.warning("left the LAN without a goodbye", reason="it took too long")
        except Exception as error:  # noqa: BLE001  # the server ends all the same
            self._log.warning("left the LAN without a goodbye", exc_info=error)


_TOLD: Final = 50
_EVENTS: Final = {
    "DISC_003": "not registered on the LAN",
    "LAN_NAME": "another agent has our name on the LAN",
    "LAN_UNHEARD": "an agent on the LAN speaks otherwise than we do",
}


class PeerWarnings:
    """Tells each trouble once."""

    def __init__(self) -> None:
        self._told: defaultdict[str, set[str]] = defaultdict(set)
        self._log = structlog.get_logger("skillwire.lan")

    def tell(self, error: SkillwireError) -> None:
        """Log a trouble, unless it was logged, or too many of its code were.

        Args:
            error: ``DISC_003``, ``LAN_NAME`` or ``LAN_UNHEARD``.
        """
        told = self._told[error.code]
        if error.message in told or len(told) >= _TOLD:
            return
        told.add(error.message)
        self._log.warning(_EVENTS[error.code], code=error.code, reason=error.message, fix=error.diagnostics().fix)
