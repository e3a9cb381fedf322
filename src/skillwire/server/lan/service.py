"""The LAN service of a server: its agent announces the public skills, and follows their changes and health.

Every machine on the network can read a datagram, so only public skills are announced. A skill that does not fit into a
datagram is skipped, with the reason. The service reads the skills, starts the server of connection secrets if they need
it, and then announces them. A failed announcement is repeated at the next update; a failed status report is not, since
heartbeats carry the status too.

The service starts after the first revision, so that every announced skill is served. An unusable network is logged once
and retried while the HTTP server runs. Goodbyes are sent before the server closes its sockets.

On each link an agent announces the address that it sends from. A server that listens on all addresses is announced on
every link; a server that listens on one address, on the link of that address; a server without an IPv6 socket, on no
IPv6 link.

Any agent can refuse this agent's registrations, or use its name, any number of times. So each such warning is logged
once an hour, and the number of each kind is bounded (:class:`PeerWarnings`). Spec: SDP §2, §8, §9, §12.1; specs §0, §3.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import structlog

from skillwire import limits
from skillwire.errors import SkillwireError, ValidationError
from skillwire.protocols.skill_discovery.center import USUAL_TYPE
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.limits import ReportLimit
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Reason, Register, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer, check_record_size
from skillwire.server.background import wait_until_set
from skillwire.server.execution_service import Notifier
from skillwire.server.lan.health import GOOD, UNCHECKED, HealthReading, SkillHealth
from skillwire.server.monitoring import LanCount

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.adapters.lan.connection_secrets import SceneSecrets
    from skillwire.model.lan import LanSnapshot
    from skillwire.model.skill import Skill
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.background import BackgroundTasks
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.revision import Revision
    from skillwire.wire.node import Peer


class NetworkAgent(Protocol):
    """An agent that a server runs on a network."""

    async def start(self) -> object:
        """Start."""


AgentT = TypeVar("AgentT", bound=NetworkAgent)

#: The longest values of the fields that the agent fills in.
_LONGEST_ADDRESS: Final = "2001:1db8:1111:2222:3333:4444:5555:6666"
_LONGEST_SIGNATURE: Final = "A" * 96
_LONGEST_TIME: Final = 10**13 - 1


class Announcement(NamedTuple):
    """The offers by name of the skill, in order, and the skipped skills with their reasons."""

    offers: dict[str, Offer]
    skipped: dict[str, str]


def make_announcement(
    skills: Iterable[Skill], endpoint: Endpoint, agent_id: str, scenes: tuple[str, ...] = ()
) -> Announcement:
    """Return the announcement of public skills, up to the limit. Each joins ``scenes`` in addition to its own."""
    offers: dict[str, Offer] = {}
    skipped: dict[str, str] = {}
    for skill in skills:
        offer = make_offer(skill, endpoint)
        offer = offer._replace(scenes=tuple(dict.fromkeys((*offer.scenes, *scenes))))
        reason = _flaw(offer, agent_id)
        if reason is None and len(offers) >= limits.LAN_SKILLS_PER_AGENT:
            reason = f"an agent announces at most {int(limits.LAN_SKILLS_PER_AGENT):,} skills"
        if reason is None:
            offers[skill.name] = offer
        else:
            skipped[skill.name] = reason
    return Announcement(offers, skipped)


def make_offer(skill: Skill, endpoint: Endpoint) -> Offer:
    """Return the offer of a skill. Spec: SDP §2.1; specs §0."""
    return Offer(
        skill.identifiers.skill_discovery if skill.identifiers is not None else skill.name,
        skill.version,
        USUAL_TYPE if skill.skill_type is None else SkillType(skill.skill_type),
        endpoint,
        tuple(dict.fromkeys(skill.capabilities)),
        skill.scenes,
    )


def _flaw(offer: Offer, agent_id: str) -> str | None:
    """Return why an offer does not fit into a registration or an answer; None if it fits with any address."""
    endpoint = offer.endpoint if offer.endpoint.host else Endpoint(_LONGEST_ADDRESS, offer.endpoint.port)
    longest = Register(
        agent_id, *offer._replace(endpoint=endpoint), timestamp=_LONGEST_TIME, signature=_LONGEST_SIGNATURE
    )
    try:
        encode(longest)
        check_record_size(longest)
    except ValidationError as error:
        return error.message
    return None


#: Maximum number of skipped skills that the log names; further ones are counted.
_MAX_NAMED: Final = 5


def log_skipped(log: Any, where: str, skipped: Mapping[str, str]) -> None:
    """Log the skills that are not announced ``where``, the first ones with their reasons."""
    event = f"not announced {where}"
    for name, reason in list(skipped.items())[:_MAX_NAMED]:
        log.warning(event, skill=name, reason=reason)
    if len(skipped) > _MAX_NAMED:
        event = f"more are {event}"
        log.warning(event, skills=len(skipped) - _MAX_NAMED)


class Announcer:
    """Keeps the offers of an agent and their health."""

    def __init__(self, catalog: CatalogService, health: SkillHealth) -> None:
        self._catalog = catalog
        self._health = health
        self._seen: Revision | None = None
        self._announced: Revision | None = None
        self._skills: dict[str, Skill] = {}
        self._offers: dict[str, Offer] = {}
        self._found: dict[str, HealthReading] = {}
        self._reported: dict[str, HealthReading] = {}
        self._statuses: dict[str, HealthStatus] = {}
        self._skipped: dict[str, str] = {}
        self._log = structlog.get_logger("skillwire.lan")

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The current offers."""
        return tuple(self._offers.values())

    @property
    def has_scenes(self) -> bool:
        """Whether an offered skill takes part in a scene."""
        return any(offer.scenes for offer in self._offers.values())

    def status(self, skill_id: str) -> HealthStatus:
        """Return the status of a skill for its heartbeat."""
        return self._statuses.get(skill_id, HealthStatus.HEALTHY)

    def skill_name(self, skill_id: str, scene: str) -> str | None:
        """Return the name of the skill that is announced with this identifier in a scene; for any thread."""
        for name, offer in self._offers.items():
            if offer.skill_id == skill_id:
                return name if scene in offer.scenes else None
        return None

    async def look(self, agent_id: str, endpoint: Endpoint, scenes: tuple[str, ...]) -> bool:
        """Read the published skills and their health; return whether a revision is published."""
        revision = self._catalog.current
        if revision is None:
            return False
        if revision is not self._seen:
            await asyncio.to_thread(self._prepare, revision, agent_id, endpoint, scenes)
            self._seen = revision
        self._found = await self._health.look(self._skills, revision.broken)
        self._statuses = {self._offers[name].skill_id: one.status for name, one in self._found.items()}
        return True

    def announce(self, agent: LanAgent) -> None:
        """Announce the skills with ``agent``, and report changes of health; raise the first error at the end."""
        if self._announced is not self._seen:
            agent.announce(self._offers.values())
            self._announced = self._seen
        before, self._reported = self._reported, self._found
        failures = []
        for name, condition in self._found.items():
            if condition == before.get(name, GOOD):
                continue
            try:
                agent.report(self._offers[name].skill_id, condition.status, condition.detail)
            except Exception as error:  # noqa: BLE001  # raised below, after the other reports
                failures.append(error)
            else:
                was = before.get(name, GOOD)
                if condition == UNCHECKED or (was == UNCHECKED and condition == GOOD):
                    continue  # the first good check of a skill is not logged
                log = self._log.info if condition.status is HealthStatus.HEALTHY else self._log.warning
                reason = {"reason": condition.detail} if condition.detail else {}
                log("reported a skill's health on the LAN", skill=name, status=condition.status.value, **reason)
        if failures:
            raise failures[0]

    def _prepare(self, revision: Revision, agent_id: str, endpoint: Endpoint, scenes: tuple[str, ...]) -> None:
        """Create the offers of a revision; called in a thread."""
        announcement = make_announcement(revision.catalog.skills.values(), endpoint, agent_id, scenes)
        self._offers = announcement.offers
        self._skills = {name: revision.catalog.skills[name] for name in announcement.offers}
        if announcement.skipped != self._skipped:
            log_skipped(self._log, "on the LAN", announcement.skipped)
        self._skipped = announcement.skipped


def advertised_address(settings: LanSettings, addresses: Sequence[tuple[str, int]]) -> tuple[Endpoint, LanSettings]:
    """Return the endpoint to announce for a server that listens on ``addresses``, and the matching settings.

    An empty host stands for the address that a datagram is sent from.
    """
    host, port = addresses[0]
    hosts = [host for host, _ in addresses]
    if "::" in hosts:
        return Endpoint("", port), settings
    if "0.0.0.0" in hosts:  # noqa: S104  # compared with
        return Endpoint("", port), replace(settings, group6="")
    return Endpoint(host, port), settings if settings.interfaces else replace(settings, interfaces=(host,))


#: Seconds until an unusable network is tried again.
_RETRY_SECONDS: Final = 5.0


class NetworkService(Generic[AgentT]):
    """Runs an agent for a server: starts it, retries after a failure, and wakes it at each new revision.

    ``task`` names it among the background tasks, and ``where`` names its network in the log. ``trouble`` is the reason
    why no agent runs.
    """

    def __init__(self, task: str, where: str, catalog: CatalogService, background: BackgroundTasks) -> None:
        self.trouble = ""
        self._task, self._where = task, where
        self._catalog = catalog
        self._background = background
        self._agent: AgentT | None = None
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopped = False
        self._log = structlog.get_logger("skillwire.lan")

    def _start(self, live: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine ``live``, and wake it at each revision."""
        loop = asyncio.get_running_loop()

        def wake(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._wake.set)

        self._catalog.follows.append(wake)
        self._tasks.append(asyncio.create_task(live))

    async def _start_agent(self, make: Callable[[], AgentT]) -> AgentT:
        """Create the agent by ``make``, in a thread; return it started, once a revision is published."""
        making = asyncio.create_task(
            asyncio.to_thread(make)
        )  # it reads keys and certificates, while the first revision is made
        try:
            await self._catalog.first()
        except asyncio.CancelledError:
            making.cancel()
            raise
        while True:
            try:
                agent = await making
                await agent.start()
            except Exception as error:  # noqa: BLE001  # the HTTP server runs in any case
                code, reason = "INTERNAL", type(error).__name__
                more: dict[str, object] = {} if isinstance(error, OSError) else {"exc_info": error}
                if isinstance(error, SkillwireError):
                    code, reason, more = error.code, error.message, {"fix": error.diagnostics().fix}
                    more |= {"place": str(error.place)} if error.place else {}
                if reason != self.trouble:
                    self._log.warning(f"not {self._where}", code=code, reason=reason, again_in=_RETRY_SECONDS, **more)
                self.trouble = reason
                await self._background.failed(self._task, error, is_logged=False)
                await asyncio.sleep(_RETRY_SECONDS)
                making = asyncio.create_task(asyncio.to_thread(make))
                continue
            self.trouble, self._agent = "", agent
            await self._background.recovered(self._task)
            return agent

    async def _stop_tasks(self) -> AgentT | None:
        """Stop the tasks; return the agent, if it has started, so that the caller unregisters its skills."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        agent, self._agent = self._agent, None
        return agent

    async def _repeat(self, task: str, do: Callable[[], Awaitable[object]], every: float) -> None:
        """Call ``do`` at each revision, and after ``every`` seconds."""

        async def awake() -> None:
            self._wake.clear()
            await do()

        await self._background.repeat(task, awake, partial(wait_until_set, self._wake), every, lambda: self._is_stopped)


#: Seconds for goodbyes; the three of one skill take 0.25 s, those of very many skills 2.5 s.
_GOODBYE_SECONDS: Final = 6.0


class LanService(NetworkService["LanAgent"]):
    """Runs an agent on the local network for a server.

    ``make_agent`` gets the settings and a function that returns the status of a skill; it and ``goodbye_reason`` are
    called in a thread. ``make_secrets`` gets the settings and a lookup: skill ID and scene → name of the skill. Every
    skill joins ``scenes`` in addition to its own. ``tls_port`` is the port of connection secrets, or 0.
    """

    def __init__(
        self,
        settings: LanSettings,
        catalog: CatalogService,
        health: SkillHealth,
        make_agent: Callable[[LanSettings, Callable[[str], HealthStatus]], LanAgent],
        make_secrets: Callable[[LanSettings, Callable[[str, str], str | None]], SceneSecrets] | None = None,
        *,
        background: BackgroundTasks,
    ) -> None:
        super().__init__("lan", "on the LAN", catalog, background)
        self.settings = settings
        self.scenes: tuple[str, ...] = ()
        self.goodbye_reason: Callable[[], Reason] = lambda: self.settings.goodbye_reason
        self.tls_port = 0
        self._health = health
        self._make_agent = make_agent
        self._make_secrets = make_secrets
        self._secrets: SceneSecrets | None = None
        self._endpoint: Endpoint | None = None
        self._changes = Notifier()
        self._announcer = Announcer(catalog, health)
        health.follow(self._wake.set)

    @property
    def agent_id(self) -> str:
        """The name of the agent; empty until it has started."""
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
        """Return the network as the agent knows it; None until it has started."""
        return None if self._agent is None else self._agent.snapshot()

    def count(self) -> LanCount | None:
        """Return the metrics of the network; None until the agent has started."""
        if self._agent is None:
            return None
        statuses = Counter[str](skill.status for skill in self._agent.snapshot().skills)
        return LanCount(statuses, self._agent.received, self._agent.counters)

    async def changed(self, since: int, seconds: float) -> int:
        """Return the number of the last change, as soon as it exceeds ``since``, or after ``seconds``."""
        return await self._changes.beyond(since, seconds)

    def exchange_dht(self, port: int) -> tuple[Peer, ...]:
        """Publish the port of the server's DHT node by mDNS; return the nodes that other servers publish."""
        return () if self._agent is None else self._agent.exchange_dht(port)

    def reached_at(self, *addresses: tuple[str, int]) -> None:
        """Set the hosts and ports on which this server listens; call it before :meth:`start`."""
        self._endpoint, self.settings = advertised_address(self.settings, addresses)

    def start(self) -> None:
        """Start on the event loop; further calls do nothing."""
        if self._tasks or self._is_stopped:
            return
        if self._endpoint is None:
            self.trouble = "the address of this server is not set"
            self._log.warning("not on the LAN", reason=self.trouble)
            return
        self._start(self._live())

    async def unregister(self, *, has_failed: bool = False) -> None:
        """Unregister every skill, and stop, within a bounded time; further calls do nothing. Spec: SDP §9.1."""
        if self._is_stopped:
            return
        agent = await self._stop_tasks()
        await self._health.close()
        if agent is not None:
            reason = Reason.ERROR if has_failed else self.settings.goodbye_reason
            if not has_failed:
                try:
                    reason = await asyncio.to_thread(self.goodbye_reason)
                except SkillwireError as error:  # the configuration became invalid
                    message = "goodbyes have the reason that was set at the start"
                    self._log.warning(message, code=error.code, reason=error.message)
            try:
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await agent.stop(reason)
            except TimeoutError:
                self._log.warning("left the LAN without goodbyes", reason="it took too long")
            except Exception as error:  # noqa: BLE001  # the server stops in any case
                self._log.warning("left the LAN without goodbyes", exc_info=error)
        self.tls_port = 0
        if self._secrets is not None:
            await self._secrets.stop()
        self._changes.notify_all()

    async def _live(self) -> None:
        agent = await self._start_agent(lambda: self._make_agent(self.settings, self._announcer.status))
        self._log.info("on the LAN", agent=agent.agent_id)
        for note in agent.notes:
            self._log.warning("LAN agent has a note", note=note)
        self._tasks.append(asyncio.create_task(self._follow(agent)))

        async def announce() -> None:
            if self._endpoint and await self._announcer.look(agent.agent_id, self._endpoint, self.scenes):
                if self._make_secrets is not None and self._secrets is None and self._announcer.has_scenes:
                    self._secrets = self._make_secrets(self.settings, self._announcer.skill_name)
                    self.tls_port = await self._secrets.start(agent.trust, self._endpoint.host)
                self._announcer.announce(agent)

        await self._repeat("announcements", announce, self.settings.discovery.heartbeat_interval)

    async def _follow(self, agent: LanAgent) -> None:
        while True:
            try:
                async for _ in agent.listen():
                    self._changes.notify()
            except Exception:  # noqa: BLE001  # as above
                self._log.exception("could not follow changes of the LAN")
                await asyncio.sleep(_RETRY_SECONDS)
                self._changes.notify()  # changes may have been missed
            else:
                return  # the agent has ended


_MAX_LOGGED: Final = 50
_EVENTS: Final = {
    "DISC_003": "not registered on the LAN",
    "LAN_REFUSED": "refused a registration on the LAN",
    "LAN_UNHEARD": "an agent on the LAN has another profile or group key",
}


class PeerWarnings:
    """Logs each warning about other agents, and its end, at most once an hour."""

    def __init__(self) -> None:
        self._limit = ReportLimit(len(_EVENTS) + 1, _MAX_LOGGED)
        self._log = structlog.get_logger("skillwire.lan")

    def log(self, error: SkillwireError) -> None:
        """Log ``DISC_003`` or one of the ``LAN_`` codes, unless this warning or too many of its code were logged."""
        if self._limit.allows(error.code, error.message, time.monotonic()):
            self._log.warning(_EVENTS[error.code], code=error.code, reason=error.message, fix=error.diagnostics().fix)

    def log_recovery(self, host: str, skill_id: str, refusal: str) -> None:
        """Log that a host registers a skill of this agent after a refusal, once an hour for each refusal."""
        if self._limit.allows("recovery", refusal, time.monotonic()):
            self._log.info("registered on the LAN again", skill=skill_id, by=host)
