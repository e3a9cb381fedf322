"""The use cases of the local network: flows between the agent, on a thread and loop of its own, and the two clients.

The network is asked first, and the cache is used only without an answer. A datagram comes from an untrusted peer and
allows no connection: a found skill opens the address of its server, that port alone, only when the user uses it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

from skillwire.client.lan_thread import LanThread
from skillwire.errors import FetchError, SkillwireError, SourceLocation, StorageError, UsageError
from skillwire.model.lan import FoundVia, LanScene, members_of
from skillwire.model.skill import Finding
from skillwire.protocols.skill_discovery.scenes import group_id
from skillwire.protocols.skill_discovery.search import every_provider, one_provider
from skillwire.resolver.merge import read_origin
from skillwire.resolver.rank import rank
from skillwire.resolver.references import parse_source
from skillwire.resolver.sources.lan import Providers, http_url, in_call_order, matching, no_answer, unverified
from skillwire.wire.exchange import Work, work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from skillwire.adapters.files.lan_cache_file import LanCacheFile
    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.client.credentials import OriginAccess
    from skillwire.client.lan_thread import MakeAgent
    from skillwire.model.lan import LanChange, LanSkill, LanSnapshot, SceneResult
    from skillwire.model.ref import SkillRef
    from skillwire.protocols.skill_discovery.search import StopCondition
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.context import ResolveContext
    from skillwire.wire.exchange import Flow

T = TypeVar("T")
_UNUSED_FIX: Final = "Nothing has to be done: the settings apply as soon as a command uses them."
_LEAST_PAUSE: Final = 1.0  # seconds between two checks for skills that expire soon


class Names(Protocol):
    """Several names, in a list, a tuple, a set or the like; not one text, whose ``__contains__`` takes texts only."""

    def __contains__(self, value: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


def checked_names(what: str, names: Names) -> tuple[str, ...]:
    """Return the names of the argument ``what``; raise ``USAGE`` for a single text, or values that are no texts."""
    if isinstance(names, str):
        message, fix = f"{what} is a list of names, not one text", f"Write {what}=[{ascii(names)[:80]}]."
        raise UsageError("USAGE", message, fix=fix)
    if others := [one for one in names if not isinstance(one, str)]:
        raise UsageError("USAGE", f"{what} holds {ascii(others[0])[:80]}, which is no text", fix="Give texts alone.")
    return tuple(names)


class DiscoverOptions(TypedDict, total=False):
    """The options of :meth:`Lan.discover`. Spec: SDP §3.1."""

    capabilities: Names
    scenes: Names
    types: Names
    patience: float | None
    quiet: float | None
    refresh: bool


class _Filters(NamedTuple):
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class LanAnswers(NamedTuple):
    """The answers of the network; ``has_agents``: any agent answered, even one without a matching skill."""

    skills: tuple[LanSkill, ...]
    has_agents: bool


class LanFlows:
    """The use cases of the local network, for one client.

    Args:
        settings: of discovery.
        context: of the client.
        access: the origins that the user allows.
        memory: the file of the cache.
        make_agent: makes an agent that offers no skills.
    """

    def __init__(
        self,
        settings: LanSettings,
        context: ResolveContext,
        access: OriginAccess,
        memory: LanCacheFile,
        make_agent: MakeAgent,
    ) -> None:
        self.settings = settings
        self.memory = memory
        self.thread = LanThread(make_agent, self.live)
        self._context = context
        self._access = access
        self._is_silent = False
        for note in settings.notes:
            context.report(Finding("DISCOVERY_CONFIGURATION", "note", note, SourceLocation("discovery"), _UNUSED_FIX))

    def _use(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> Flow[T]:
        """Return the result of ``use`` with the agent, which is started first."""
        result: T = yield Work(partial(self.thread.submit, use))
        return result

    def uses_unverified(self, choice: bool | None) -> bool:  # noqa: FBT001  # the caller's argument of that name
        """Whether skills without a certified key are used; by default as the settings say."""
        return self.settings.use_unverified if choice is None else choice

    async def live(self, agent: LanAgent) -> None:
        """Keep the cache current as long as the agent lives. Spec: SDP §11.1, §11.2."""
        refreshing = asyncio.ensure_future(self._refresh(agent))
        try:
            async for change in agent.listen():
                with suppress(StorageError):  # reading the cache reports it
                    self.memory.hear(change)
        finally:
            refreshing.cancel()

    async def _refresh(self, agent: LanAgent) -> None:
        """Ask again for skills that expire soon."""
        pause = max(_LEAST_PAUSE, self.settings.cache.refresh_before_expiry / 2)
        while True:
            await asyncio.sleep(pause)
            with suppress(SkillwireError):  # the next attempt may succeed
                if self.memory.is_refresh_due():
                    self.memory.put(await agent.discover())

    def discover(self, query: str, **options: Unpack[DiscoverOptions]) -> Flow[list[LanSkill]]:
        """Return every matching skill of the network; of a silent network, those of the cache."""
        filters = _Filters(
            checked_names("capabilities", options.get("capabilities", ())),
            checked_names("scenes", options.get("scenes", ())),
            checked_names("types", options.get("types", ())),
        )
        enough = every_provider(self.settings.figures)
        if (quiet := options.get("quiet")) is not None:
            enough = enough._replace(quiet=quiet)
        is_fresh = options.get("refresh", False)
        return self._discover(query, filters, enough, options.get("patience"), is_fresh=is_fresh)

    def _discover(
        self, query: str, filters: _Filters, enough: StopCondition, patience: float | None, *, is_fresh: bool
    ) -> Flow[list[LanSkill]]:
        if self._context.offline:
            return (yield from self._cached(query, filters))
        try:
            heard = yield from self._use(lambda agent: self._ask(agent, filters, patience, enough))
        except FetchError as error:
            found = [] if is_fresh else (yield from self._cached(query, filters))
            if not found:
                raise
            self._context.note(error)
            return found
        self._is_silent = not heard.has_agents
        if is_fresh:
            yield from work(self.memory.forget_all)
        return (yield from self._answer(query, filters, heard))

    async def _ask(
        self, agent: LanAgent, filters: _Filters, patience: float | None, enough: StopCondition
    ) -> LanAnswers:
        """Ask for the filtered skills and, without an answer, for any agent, within ``patience`` seconds in all."""
        patience = self.settings.figures.patience if patience is None else patience
        selection = filters._asdict()
        asking = asyncio.ensure_future(agent.discover(**selection, patience=patience, enough=enough))
        others: asyncio.Future[tuple[LanSkill, ...]] | None = None
        try:
            if any(selection.values()):
                alone = min(self.settings.figures.not_found_patience, patience / 3)  # a provider answers before
                await asyncio.wait({asking}, timeout=alone)
                if not (asking.done() and asking.result()):
                    any_agent = enough._replace(is_one=False)
                    others = asyncio.ensure_future(agent.discover(patience=patience - alone, enough=any_agent))
                    await asyncio.wait({asking, others}, return_when=asyncio.FIRST_COMPLETED)
            found = await asking
            return LanAnswers(found, bool(found or (others is not None and await others)))
        finally:
            tasks = [asking] if others is None else [asking, others]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _answer(self, query: str, filters: _Filters, heard: LanAnswers) -> Flow[list[LanSkill]]:
        """Return and cache the answers, best first; of a silent network, return the cache."""
        if heard.skills:
            yield from self._note(partial(self.memory.put, heard.skills))
            return ranked(query, heard.skills)
        cached = yield from self._cached(query, filters)
        if cached and heard.has_agents:  # no agent that answered announces them
            yield from work(partial(self.memory.forget, cached))
            return []
        return cached

    def _cached(self, query: str, filters: _Filters) -> Flow[list[LanSkill]]:
        cached = yield from work(self.memory.skills)
        return ranked(query, [skill for skill in cached if skill.fits(*filters)])

    def locate(self, skill: LanSkill, *, use_unverified: bool | None = None) -> Flow[SkillRef]:
        """Return a skill as its server publishes it; this allows connecting to that address only."""
        if not skill.is_verified and not self.uses_unverified(use_unverified):
            raise unverified(skill)
        url = http_url(skill)
        yield from work(partial(self._access.allow_lan_server, url, with_credential=skill.is_verified))
        found = yield from read_origin(parse_source(url), self._context._replace(refresh=True))
        return matching(skill, found)

    def providers(self, capability: str, *, use_unverified: bool | None) -> Flow[Providers]:
        """Return the providers of a capability; raise ``DISC_001`` if no agent answers."""
        may_be = self.uses_unverified(use_unverified)
        enough = one_provider(self.settings.figures, use_unverified=may_be)
        found = yield from self._discover("", _Filters((capability,)), enough, None, is_fresh=False)
        if not found and self._is_silent:
            raise no_answer(self.settings)
        return Providers(capability, found, use_unverified=may_be)

    def request_scene(
        self, scene: str, capabilities: Names, *, join: bool, use_unverified: bool | None
    ) -> Flow[SceneResult]:
        """Request a scene; the agent leaves it again if its provider must not be used.

        Raises:
            FetchError: ``OFFLINE``; ``LAN_UNAVAILABLE`` without multicast, which scenes need.
        """
        names, may_be = checked_names("capabilities", capabilities), self.uses_unverified(use_unverified)
        if self._context.offline:
            raise FetchError("OFFLINE", "a scene cannot be joined offline")
        if not self.settings.multicast:
            message = "scenes require multicast, which the configuration disables"
            fix = "Set enabled = true in [discovery.udp]. Without it skills are found by mDNS, and called by name."
            raise FetchError("LAN_UNAVAILABLE", message, fix=fix)
        return (
            yield from self._use(lambda agent: agent.request_scene(scene, names, is_join=join, use_unverified=may_be))
        )

    def leave_scene(self, scene: str) -> Flow[None]:
        """Leave the group of a scene."""

        async def leave(agent: LanAgent) -> None:
            agent.leave_scene(scene)

        return self._use(leave)

    def scenes(self) -> Flow[list[LanScene]]:
        """Return the scenes of the network."""
        return scenes_of((yield from self.discover("")))

    def snapshot(self) -> Flow[LanSnapshot]:
        """Return the network as the agent knows it."""

        async def look(agent: LanAgent) -> LanSnapshot:
            return agent.snapshot()

        return self._use(look)

    def save(self) -> Flow[None]:
        """Write the cache."""
        return self._note(self.memory.write)

    def _note(self, change: Callable[[], object]) -> Flow[None]:
        try:
            yield from work(change)
        except StorageError as error:
            self._context.note(error)


def listen(agent: LanAgent) -> AsyncIterator[LanChange]:
    """Return the changes that the agent reports."""
    return agent.listen()


def ranked(query: str, skills: Sequence[LanSkill]) -> list[LanSkill]:
    """Return the skills that match all words of ``query``, best first; equal ones in call order."""
    ordered = in_call_order(skills)
    found = rank(query, ordered, lambda one: (one.skill_id, " ".join((*one.capabilities, *one.scenes))), needs_all=True)
    return [skill for skill, _ in found]


def scenes_of(found: Sequence[LanSkill]) -> list[LanScene]:
    """Return the scenes of the skills, with the providers of each, by name."""
    registered = [skill for skill in found if skill.found_via is not FoundVia.MDNS]  # hints are in no group
    names = sorted({name for skill in registered for name in skill.scenes})
    return [
        LanScene(name, group_id(name), members_of(skill for skill in registered if name in skill.scenes))
        for name in names
    ]
