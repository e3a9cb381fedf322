"""The use cases of the local network: flows between the agent, on a thread and loop of its own, and the two clients.

The network is asked first, and what was found before is used only without an answer. A datagram comes from an
untrusted peer and allows no connection: a found skill opens the address of its server, that port alone, and only once
the user uses it.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from skillwire.adapters.files.atomic import cache_directory, storage_error, write_atomically
from skillwire.adapters.files.keys import trust_digest
from skillwire.adapters.files.settings_file import read_discovery_file
from skillwire.client.lan_thread import LanThread
from skillwire.errors import FetchError, SkillwireError, SourceLocation, StorageError, UsageError
from skillwire.limits import LAN_CACHE_BYTES
from skillwire.model.lan import FoundVia, LanScene, members_of
from skillwire.model.skill import Finding
from skillwire.protocols.skill_discovery.scenes import group_id
from skillwire.protocols.skill_discovery.search import every_provider, one_provider
from skillwire.resolver.lan_settings import join_discovery
from skillwire.resolver.merge import read_origin
from skillwire.resolver.rank import rank
from skillwire.resolver.references import parse_source
from skillwire.resolver.sources.lan import Providers, http_url, in_call_order, matching, no_answer, unverified
from skillwire.resolver.sources.lan_cache import LanCache
from skillwire.wire.exchange import Work, work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.client.calls import CallArguments
    from skillwire.client.lan_thread import Live, MakeAgent
    from skillwire.client.session import ClientSession
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.lan import LanChange, LanSkill, LanSnapshot, SceneResult
    from skillwire.model.ref import SkillRef
    from skillwire.protocols.skill_discovery.search import StopCondition
    from skillwire.protocols.skill_discovery.settings import CacheSettings, LanSettings
    from skillwire.resolver.sources.lan import Stage
    from skillwire.wire.exchange import Flow


_NAME: Final = "lan.json"


class LanCacheFile:
    """One cache and its file. Changes come from the thread of the agent, questions from others.

    Args:
        settings: how much is kept, and how long.
        clock: seconds since the epoch.
        trust: returns a digest of whom we trust now.
    """

    def __init__(self, settings: CacheSettings, clock: Callable[[], float], trust: Callable[[], str]) -> None:
        self._settings = settings
        self._clock = clock
        self._trust = trust
        self._path = cache_directory() / _NAME
        self._lock = threading.Lock()
        self._cache: LanCache | None = None

    def skills(self) -> list[LanSkill]:
        """Return what is good now.

        Raises:
            StorageError: the file cannot be read.
        """
        with self._lock:
            cache = self._opened()
            cache.trust(self._trust())
            return cache.skills(self._clock())

    def put(self, skills: Iterable[LanSkill]) -> None:
        """Keep what was found, and write it down.

        Raises:
            StorageError: the file cannot be read or written.
        """
        with self._lock:
            cache = self._opened()
            cache.trust(self._trust())
            cache.put(skills, self._clock())
            self._write()

    def forget(self, skills: Iterable[LanSkill]) -> None:
        """Forget skills that no agent announces any more."""
        with self._lock:
            for skill in skills:
                self._opened().forget(skill.skill_id)
            self._write()

    def forget_all(self) -> None:
        """Forget everything, so that only the network answers."""
        with self._lock:
            self._opened().forget()

    def hear(self, change: LanChange) -> None:
        """Take what has happened on the network."""
        with self._lock:
            self._opened().hear(change)

    def wants_refresh(self) -> bool:
        """Whether something ends soon, and is to be asked for again."""
        with self._lock:
            return bool(self._opened().to_refresh(self._clock()))

    def write(self) -> None:
        """Write down what has changed."""
        with self._lock:
            self._write()

    def _opened(self) -> LanCache:
        if self._cache is None:
            self._cache = self._read()
        return self._cache

    def _read(self) -> LanCache:
        try:
            with self._path.open("rb") as file:
                data = file.read(LAN_CACHE_BYTES + 1)
        except FileNotFoundError:
            return LanCache(self._settings)
        except OSError as error:
            raise storage_error(error, self._path) from error
        # What is no cache is an empty one, and is written anew: nothing is lost that cannot be asked for.
        return LanCache.read(data, self._settings, self._clock(), str(self._path))

    def _write(self) -> None:
        if self._cache is not None and self._cache.is_changed and self._settings.enabled:
            write_atomically(self._path, self._cache.write(), mode=0o600)


_UNUSED_FIX: Final = "Nothing has to be done: the settings count as soon as there is something that uses them."
_LEAST_PAUSE: Final = 1.0  # seconds between two looks at what ends soon


class Names(Protocol):
    """Several names, in a list, a tuple, a set or the like.

    A text is a sequence of texts, too, so that one name would be taken letter by letter. It is not of this type: it
    does not say of everything whether it contains it.
    """

    def __contains__(self, value: object, /) -> bool:
        """Whether a name is among them."""

    def __iter__(self) -> Iterator[str]:
        """Return them, one after the other."""

    def __len__(self) -> int:
        """Return how many there are."""


def listed(what: str, names: Names) -> tuple[str, ...]:
    """Return the names that were given for ``what``.

    Raises:
        UsageError: ``USAGE``, it is one name that stands where several could, or holds something else than texts.
    """
    if isinstance(names, str):
        message, fix = f"{what} is a list of names, not one text", f"Write {what}=[{ascii(names)[:80]}]."
        raise UsageError("USAGE", message, fix=fix)
    if others := [one for one in names if not isinstance(one, str)]:
        raise UsageError("USAGE", f"{what} holds {ascii(others[0])[:80]}, which is no text", fix="Give texts alone.")
    return tuple(names)


class Filters(NamedTuple):
    """What is asked for; empty lets all pass. Spec: SDP §3.1."""

    capabilities: tuple[str, ...]
    scenes: tuple[str, ...]
    types: tuple[str, ...]
    refresh: bool = False


class LanAnswers(NamedTuple):
    """What the network has answered, and whether any agent answered, also one that offers something else."""

    skills: tuple[LanSkill, ...]
    is_anybody_there: bool


T = TypeVar("T")
ThreadT = TypeVar("ThreadT", bound=LanThread)


class LanFlows(Generic[ThreadT]):
    """The use cases of the local network, with what one client holds.

    Args:
        session: of the client; what its settings say of discovery is read now.
        make_thread: makes the thread on which the agent lives.
    """

    def __init__(self, session: ClientSession, make_thread: Callable[[MakeAgent, Live], ThreadT]) -> None:
        self.settings: LanSettings = join_discovery(session.settings.discovery, read_discovery_file)
        self._session = session
        self._context = session.context
        self._is_silent = False
        self.memory = LanCacheFile(self.settings.cache, self._context.clock, partial(trust_digest, self.settings))
        self.thread = make_thread(self.make_agent, self.live)
        for note in self.settings.notes:
            finding = Finding("DISCOVERY_CONFIGURATION", "note", note, SourceLocation("discovery"), _UNUSED_FIX)
            self._context.report(finding)

    def _use(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> Flow[T]:
        """Return what ``use`` does with the agent, which is started first."""
        result: T = yield Work(partial(self.thread.submit, use))
        return result

    def uses_unverified(self, *, wanted: bool | None) -> bool:
        """Whether skills without a certified key are used."""
        return self.settings.use_unverified if wanted is None else wanted

    @staticmethod
    def filters(capabilities: Names, scenes: Names = (), types: Names = (), *, refresh: bool = False) -> Filters:
        """Return what is asked for, checked."""
        return Filters(listed("capabilities", capabilities), listed("scenes", scenes), listed("types", types), refresh)

    def make_agent(self) -> LanAgent:
        """Make the agent, which asks and listens, and offers nothing."""
        from skillwire.adapters.lan.agent import LanAgent  # noqa: PLC0415  # sockets and cryptography are heavy
        from skillwire.protocols.skill_discovery.node import Role  # noqa: PLC0415  # same

        return LanAgent(self.settings, roles=frozenset({Role.END_AGENT, Role.OBSERVER}), keeps_state=False)

    async def live(self, agent: LanAgent) -> None:
        """Keep what was found as good as it can be, as long as the agent is there. Spec: SDP §11.1, §11.2."""
        refreshing = asyncio.ensure_future(self._refresh(agent))
        try:
            async for change in agent.listen():
                with suppress(StorageError):  # reading the cache reports it
                    self.memory.hear(change)
        finally:
            refreshing.cancel()

    async def _refresh(self, agent: LanAgent) -> None:
        """Ask again for what ends soon."""
        pause = max(_LEAST_PAUSE, self.settings.cache.refresh_before_expiry / 2)
        while True:
            await asyncio.sleep(pause)
            with suppress(SkillwireError):  # the next time it may be better
                if self.memory.wants_refresh():
                    self.memory.put(await agent.discover())

    def discover(
        self, query: str, filters: Filters, patience: float | None = None, quiet: float | None = None
    ) -> Flow[list[LanSkill]]:
        """Ask the network for all that it has; where it is silent, return what was kept."""
        enough = every_provider(self.settings.figures)
        if quiet is not None:
            enough = enough._replace(quiet=quiet)
        return (yield from self._discover(query, filters, patience, enough))

    def _discover(
        self, query: str, filters: Filters, patience: float | None, enough: StopCondition
    ) -> Flow[list[LanSkill]]:
        if self._context.offline:
            return (yield from self.kept(query, filters))
        try:
            heard = yield from self._use(lambda agent: self._ask(agent, filters, patience, enough))
        except FetchError as error:
            found = [] if filters.refresh else (yield from self.kept(query, filters))
            if not found:
                raise
            self._context.note(error)
            return found
        self._is_silent = not heard.is_anybody_there
        return (yield from self.answer(query, filters, heard))

    async def _ask(
        self, agent: LanAgent, filters: Filters, patience: float | None, enough: StopCondition
    ) -> LanAnswers:
        """Ask for what is wanted, and without an answer for any agent at all; ``patience`` is for both."""
        patience = self.settings.figures.patience if patience is None else patience
        wanted = {"capabilities": filters.capabilities, "scenes": filters.scenes, "types": filters.types}
        asking = asyncio.ensure_future(agent.discover(**wanted, patience=patience, enough=enough))
        others: asyncio.Future[tuple[LanSkill, ...]] | None = None
        try:
            if any(wanted.values()):
                alone = min(self.settings.figures.not_found_patience, patience / 3)  # who has it answers before
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

    def answer(self, query: str, filters: Filters, heard: LanAnswers) -> Flow[list[LanSkill]]:
        """Return what the network has answered, the best first, and keep it; or, where it is silent, what was kept."""
        if filters.refresh:
            yield from work(self.memory.forget_all)
        if heard.skills:
            yield from self._keep(heard.skills)
            return ranked(query, heard.skills)
        kept = yield from self.kept(query, filters)
        if kept and heard.is_anybody_there:  # who answers knows nothing of them
            yield from work(partial(self.memory.forget, kept))
            return []
        return kept

    def _keep(self, skills: Sequence[LanSkill]) -> Flow[None]:
        try:
            yield from work(partial(self.memory.put, skills))
        except StorageError as error:  # it was found all the same
            self._context.note(error)

    def kept(self, query: str, filters: Filters) -> Flow[list[LanSkill]]:
        """Return what was found before, as long as it is good."""
        kept = yield from work(self.memory.skills)
        return ranked(
            query, [skill for skill in kept if skill.fits(filters.capabilities, filters.scenes, filters.types)]
        )

    def locate(self, skill: LanSkill, *, use_unverified: bool | None) -> Flow[SkillRef]:
        """Find a skill at its server, which is the only address that is opened by it."""
        if not skill.is_verified and not self.uses_unverified(wanted=use_unverified):
            raise unverified(skill)
        url = http_url(skill)
        yield from work(partial(self._session.access.allow_lan_server, url, with_credential=skill.is_verified))
        found = yield from read_origin(parse_source(url), self._context._replace(refresh=True))
        return matching(skill, found)

    def providers(self, capability: str, *, use_unverified: bool | None) -> Flow[Providers]:
        """Ask who offers a capability.

        Raises:
            FetchError: ``DISC_001``, no agent has answered.
        """
        may_be = self.uses_unverified(wanted=use_unverified)
        enough = one_provider(self.settings.figures, use_unverified=may_be)
        found = yield from self._discover("", Filters((capability,), (), ()), None, enough)
        if not found and self._is_silent:
            raise no_answer(self.settings)
        return Providers(capability, found, use_unverified=may_be)

    def call(
        self, capability: str, inputs: Mapping[str, Any], options: CallArguments, *, use_unverified: bool | None
    ) -> Flow[RemoteExecution]:
        """Call the first provider that is well, or the next where that one fails."""
        providers = yield from self.providers(capability, use_unverified=use_unverified)
        while True:
            one, is_safe = providers.next(), False
            stage: Stage = "reading"
            try:
                ref = yield from self.locate(one, use_unverified=use_unverified)
                descriptor = yield from self._session.describe(ref)
                stage = "checking"
                prepared = yield from self._session.prepare_call(ref, descriptor, inputs, options)
                is_safe = prepared.method == "GET"
                stage = "calling"
                execution = yield from self._session.call(ref, descriptor, inputs, options)
            except SkillwireError as error:
                self._context.explain(error)
                providers.failed(one, error, stage, is_safe=is_safe)
            else:
                for passed in providers.passed:
                    place = SourceLocation(http_url(passed.skill))
                    fix = passed.error.diagnostics().fix
                    self._context.report(Finding(passed.error.code, "note", passed.reason, place, fix))
                return execution

    def request_scene(
        self, scene: str, capabilities: Names, *, join: bool, use_unverified: bool | None
    ) -> Flow[SceneResult]:
        """Ask for a scene; the agent leaves it again where its provider must not be used.

        Raises:
            FetchError: ``OFFLINE``; ``LAN_UNAVAILABLE`` where multicast is turned off, which scenes need.
        """
        wanted, may_be = listed("capabilities", capabilities), self.uses_unverified(wanted=use_unverified)
        if self._context.offline:
            raise FetchError("OFFLINE", "a scene cannot be joined offline")
        if not self.settings.multicast:
            message = "scenes require multicast, which the configuration disables"
            fix = "Set enabled = true in [discovery.udp]. Without it skills are found by mDNS, and called by name."
            raise FetchError("LAN_UNAVAILABLE", message, fix=fix)
        return (
            yield from self._use(lambda agent: agent.request_scene(scene, wanted, is_join=join, use_unverified=may_be))
        )

    def leave_scene(self, scene: str) -> Flow[None]:
        """Leave the group of a scene."""

        async def leave(agent: LanAgent) -> None:
            agent.leave_scene(scene)

        return self._use(leave)

    def scenes(self) -> Flow[list[LanScene]]:
        """Return the scenes there are."""
        return scenes_of((yield from self.discover("", Filters((), (), ()))))

    def snapshot(self) -> Flow[LanSnapshot]:
        """Return what the agent knows."""

        async def look(agent: LanAgent) -> LanSnapshot:
            return agent.snapshot()

        return self._use(look)

    @staticmethod
    def listen(agent: LanAgent) -> AsyncIterator[LanChange]:
        """Return the changes that the agent reports."""
        return agent.listen()

    def keep(self) -> Flow[None]:
        """Write down what is known by now."""
        try:
            yield from work(self.memory.write)
        except StorageError as error:
            self._context.note(error)


def ranked(query: str, skills: Sequence[LanSkill]) -> list[LanSkill]:
    """Return skills that match all words of ``query``, the best first; those that match alike, as they are tried."""
    ordered = in_call_order(skills)
    found = rank(query, ordered, lambda one: (one.skill_id, " ".join((*one.capabilities, *one.scenes))), needs_all=True)
    return [skill for skill, _ in found]


def scenes_of(found: Sequence[LanSkill]) -> list[LanScene]:
    """Return the scenes of what was found, with who provides each, by name."""
    registered = [skill for skill in found if skill.found_via is not FoundVia.MDNS]  # hints are in no group
    names = sorted({name for skill in registered for name in skill.scenes})
    return [
        LanScene(name, group_id(name), members_of(skill for skill in registered if name in skill.scenes))
        for name in names
    ]
