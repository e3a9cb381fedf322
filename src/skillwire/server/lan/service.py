"""The LAN service of a server: its agent announces what the server publishes, follows its changes, and unregisters it.

The service starts with the first revision, so that announced skills are there. An unusable network is logged once and
retried; the HTTP server goes on meanwhile. Goodbyes are sent while the server still answers, before its sockets close.

On each link an agent announces the address that it sends from. So a server that listens on every address is announced
on every link, one that listens on one address on the link of that address, and one without an IPv6 socket on no IPv6
link.

Any agent can refuse our registrations, or use our name, as often as it likes. So each such warning is logged once, and
the number of each kind is bounded (:class:`PeerWarnings`). Spec: SDP §2, §8, §9, §12.1.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from skillwire.errors import SkillwireError
from skillwire.protocols.skill_discovery.messages import Endpoint, Reason
from skillwire.server.execution_service import Notifier
from skillwire.server.lan.announcements import Announcer
from skillwire.server.metrics import LanCount

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.model.lan import LanChange, LanSnapshot
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.route_agent import Offer
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.lan.announcements import Agent
    from skillwire.server.lan.health import SkillHealth


def advertised_address(settings: LanSettings, addresses: Sequence[tuple[str, int]]) -> tuple[Endpoint, LanSettings]:
    """Return the endpoint to announce for a server that listens on ``addresses``, and the settings that fit.

    An empty host stands for the address that a datagram is sent from.
    """
    host, port = addresses[0]
    hosts = [host for host, _ in addresses]
    if "::" in hosts:
        return Endpoint("", port), settings
    if "0.0.0.0" in hosts:  # noqa: S104  # compared with
        return Endpoint("", port), replace(settings, group6="")
    return Endpoint(host, port), settings if settings.interfaces else replace(settings, interfaces=(host,))


class KeyServer(Protocol):
    """Hands out connection secrets; see :class:`skillwire.adapters.lan.connection_secrets.SceneSecrets`."""

    async def start(self, trust: LanTrust | None, host: str) -> int:
        """Start, and return the port; 0 for none."""

    async def stop(self) -> None:
        """Stop."""


#: Makes the server of connection secrets, by the settings and a lookup: skill ID and scene → name of the skill.
MakeSecrets = Callable[["LanSettings", Callable[[str, str], "str | None"]], "KeyServer"]
#: Seconds until an unusable network is tried again.
_AGAIN: Final = 5.0
#: Seconds that goodbyes may take: three of one skill take 0.25 s, those of very many 2.5 s.
_GOODBYE: Final = 6.0


class LanService:
    """Keeps an agent on the local network for a server.

    ``make_agent`` gets the fitting settings and a function that returns the status of a skill; it and
    ``goodbye_reason`` are called in a thread. Every skill joins ``scenes`` beside its own. ``trouble`` is the reason
    why there is no network, ``tls_port`` the port of connection secrets or 0.
    """

    def __init__(
        self,
        settings: LanSettings,
        catalog: CatalogService,
        health: SkillHealth,
        make_agent: Callable[[LanSettings, Callable[[str], HealthStatus]], Agent],
        make_secrets: MakeSecrets | None = None,
    ) -> None:
        self.settings = settings
        self.scenes: tuple[str, ...] = ()
        self.goodbye_reason: Callable[[], Reason] = lambda: self.settings.goodbye_reason
        self.trouble = ""
        self.tls_port = 0
        self._catalog = catalog
        self._health = health
        self._make_agent = make_agent
        self._make_secrets = make_secrets
        self._secrets: KeyServer | None = None
        self._endpoint: Endpoint | None = None
        self._agent: Agent | None = None
        self._changes = Notifier()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._has_left = False
        self._announcer = Announcer(catalog, health)
        health.follow(self._wake.set)
        self._log = structlog.get_logger("skillwire.lan")

    @property
    def agent_id(self) -> str:
        """The name of our agent; empty until it has started."""
        return "" if self._agent is None else self._agent.agent_id

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The announced skills."""
        return self._announcer.offers

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of the agent."""
        return {} if self._agent is None else self._agent.counters

    def snapshot(self) -> LanSnapshot | None:
        """Return the network as our agent knows it; None until it has started."""
        return None if self._agent is None else self._agent.snapshot()

    def listen(self) -> AsyncIterator[LanChange] | None:
        """Return the changes from now on; None until the agent has started."""
        return None if self._agent is None else self._agent.listen()

    def count(self) -> LanCount | None:
        """Return the metrics of the network; None until the agent has started."""
        if self._agent is None:
            return None
        statuses = Counter(skill.status for skill in self._agent.snapshot().skills)
        return LanCount(statuses, self._agent.received, self._agent.counters)

    async def changed(self, since: int, seconds: float) -> int:
        """Return the number of the last change, as soon as it exceeds ``since``, or after ``seconds``."""
        return await self._changes.beyond(since, seconds)

    def reached_at(self, *addresses: tuple[str, int]) -> None:
        """Set the hosts and ports on which this server listens; before :meth:`start`."""
        self._endpoint, self.settings = advertised_address(self.settings, addresses)

    def start(self) -> None:
        """Start, once, on the event loop."""
        if self._tasks or self._has_left:
            return
        if self._endpoint is None:
            self.trouble = "the address of this server is not set"
            self._log.warning("not on the LAN", reason=self.trouble)
            return
        loop = asyncio.get_running_loop()

        def wake(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._wake.set)

        self._catalog.follows.append(wake)
        self._tasks.append(asyncio.create_task(self._live()))

    def close_streams(self) -> None:
        """End the streams of changes, because the server stops."""
        self._changes.close()

    async def unregister(self, *, has_failed: bool = False) -> None:
        """Unregister every skill, and stop, within a bounded time; once. Spec: SDP §9.1."""
        if self._has_left:
            return
        self._has_left = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._health.close()
        agent, self._agent = self._agent, None
        if agent is not None:
            reason = Reason.ERROR if has_failed else await self._regular_reason()
            try:
                async with asyncio.timeout(_GOODBYE):
                    await agent.stop(reason)
            except TimeoutError:
                self._log.warning("left the LAN without goodbyes", reason="it took too long")
            except Exception as error:  # noqa: BLE001  # the server ends nevertheless
                self._log.warning("left the LAN without goodbyes", exc_info=error)
        self.tls_port = 0
        if self._secrets is not None:
            await self._secrets.stop()
        self._changes.tell_all()

    async def _live(self) -> None:
        making = self._make()  # reads keys and certificates meanwhile
        try:
            await self._catalog.first()
        except asyncio.CancelledError:
            making.cancel()
            raise
        agent = await self._begin(making)
        self._tasks.append(asyncio.create_task(self._follow(agent)))
        while True:
            self._wake.clear()
            try:
                await self._update(agent)
            except Exception:  # noqa: BLE001  # it may pass, and is reported nowhere else
                self._log.exception("could not announce skills on the LAN")
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.figures.heartbeat_interval):
                    await self._wake.wait()

    def _make(self) -> asyncio.Task[Agent]:
        return asyncio.create_task(asyncio.to_thread(self._make_agent, self.settings, self._announcer.status))

    async def _begin(self, making: asyncio.Task[Agent]) -> Agent:
        """Return the agent once it has started; an unusable network is tried again."""
        while True:
            try:
                agent = await making
                await agent.start()
            except Exception as error:  # noqa: BLE001  # the HTTP server goes on in any case
                self._log_trouble(error)
                await asyncio.sleep(_AGAIN)
                making = self._make()
                continue
            self.trouble, self._agent = "", agent
            self._log.info("on the LAN", agent=agent.agent_id)
            for note in agent.notes:
                log = self._log.info if note in self.settings.notes else self._log.warning
                log("LAN agent has a note", note=note)
            return agent

    def _log_trouble(self, error: Exception) -> None:
        """Log why there is no network, once for each reason."""
        reason = error.message if isinstance(error, SkillwireError) else type(error).__name__
        if reason != self.trouble:
            code = error.code if isinstance(error, SkillwireError) else "INTERNAL"
            trace: dict[str, object] = {} if isinstance(error, SkillwireError | OSError) else {"exc_info": error}
            if isinstance(error, SkillwireError):
                trace |= {"fix": error.diagnostics().fix} | ({"place": str(error.place)} if error.place else {})
            self._log.warning("not on the LAN", code=code, reason=reason, again_in=_AGAIN, **trace)
        self.trouble = reason

    async def _follow(self, agent: Agent) -> None:
        while True:
            try:
                async for _ in agent.listen():
                    self._changes.tell()
            except Exception:  # noqa: BLE001  # as above
                self._log.exception("could not follow changes of the LAN")
                await asyncio.sleep(_AGAIN)
                self._changes.tell()  # for the changes meanwhile
            else:
                return  # the agent has ended

    async def _update(self, agent: Agent) -> None:
        """Announce the published skills, and report changes of their health."""
        if self._endpoint is None or not await self._announcer.look(agent.agent_id, self._endpoint, self.scenes):
            return
        if self._make_secrets is not None and self._secrets is None and self._announcer.has_scenes:
            self._secrets = self._make_secrets(self.settings, self._announcer.skill_name)
            self.tls_port = await self._secrets.start(agent.trust, self._endpoint.host)
        self._announcer.announce(agent)

    async def _regular_reason(self) -> Reason:
        """Return the reason of goodbyes at a regular end."""
        try:
            return await asyncio.to_thread(self.goodbye_reason)
        except SkillwireError as error:  # the configuration became invalid
            self._log.warning(
                "goodbyes have the reason that was set at the start", code=error.code, reason=error.message
            )
            return self.settings.goodbye_reason


_LOGGED: Final = 50
_EVENTS: Final = {
    "DISC_003": "not registered on the LAN",
    "LAN_NAME": "another agent has our name on the LAN",
    "LAN_UNHEARD": "an agent on the LAN has another profile or group key",
}


class PeerWarnings:
    """Logs each warning about other agents once."""

    def __init__(self) -> None:
        self._logged: defaultdict[str, set[str]] = defaultdict(set)
        self._log = structlog.get_logger("skillwire.lan")

    def log(self, error: SkillwireError) -> None:
        """Log ``DISC_003``, ``LAN_NAME`` or ``LAN_UNHEARD``, unless it or too many of its code were logged."""
        logged = self._logged[error.code]
        if error.message in logged or len(logged) >= _LOGGED:
            return
        logged.add(error.message)
        self._log.warning(_EVENTS[error.code], code=error.code, reason=error.message, fix=error.diagnostics().fix)
