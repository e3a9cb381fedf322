"""The use cases of the local network: flows between the agent, on a thread and loop of its own, and the two clients.

Skills are found by the ladder, whose first rungs are the network and the DHT. A datagram comes from an untrusted peer
and allows no connection: a found skill opens the address of its server, that port alone, only when the user uses it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypedDict, TypeVar, Unpack

from skillwire.client.agent_thread import AgentThread, LanThread
from skillwire.errors import (
    DecodeError,
    FetchError,
    NotFoundError,
    SkillwireError,
    StorageError,
    UsageError,
    ValidationError,
    in_seconds,
)
from skillwire.model.lan import FoundVia, LanMember, LanScene, LanSkill, LanSnapshot, SceneResult, members_of
from skillwire.model.ref import SkillRef
from skillwire.model.url import parse_url, without_zone
from skillwire.protocols.skill_discovery.codec import is_identifier, read_identifier
from skillwire.protocols.skill_discovery.scenes import group_id
from skillwire.protocols.skill_discovery.search import StopCondition, every_provider, one_provider
from skillwire.resolver.ladder import CACHE, CENTER, DHT, LADDER, LAN, SILENT, Query, Rung
from skillwire.resolver.rank import read_origin
from skillwire.resolver.references import parse_source
from skillwire.resolver.sources import dht
from skillwire.resolver.sources.lan import (
    Providers,
    answers,
    http_url,
    matching,
    no_answer,
    not_joined,
    ref_of,
    revoked,
    search_center,
    unusable,
)
from skillwire.wire.exchange import Flow, TimeLimit, Work, follow, work

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from skillwire.adapters.dht.agent import DhtAgent
    from skillwire.adapters.files.lan_cache_file import LanCacheFile
    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.client.credentials import OriginAccess
    from skillwire.model.lan import DhtAnswer
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.context import ResolveContext

T = TypeVar("T")
_RETRIED: Final = 1.5  # times the patience: a silent network is asked once more, for half as long
_LEAST_PAUSE: Final = 1.0  # seconds between two checks for skills that expire soon
_END_SECONDS: Final = 10.0  # of a process that provides a scene
#: Such a process. It ends with its input, so also when its parent is killed.
_PROGRAM: Final = """
import os, signal, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
from skillwire.cli.main import main
main()
"""


class Names(Protocol):
    """Several names, in a list, a tuple, a set or the like; not one text, whose ``__contains__`` takes texts only."""

    def __contains__(self, value: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


def checked_names(what: str, names: Names) -> tuple[str, ...]:
    """Return the identifiers of the argument ``what``; raise ``USAGE`` or ``DATAGRAM_FIELD`` for anything else."""
    if isinstance(names, str):
        message, fix = f"{what} is a list of names, not one text", f"Write {what}=[{ascii(names)[:80]}]."
        raise UsageError("USAGE", message, fix=fix)
    if others := [one for one in names if not isinstance(one, str)]:
        raise UsageError("USAGE", f"{what} holds {ascii(others[0])[:80]}, which is no text", fix="Give texts alone.")
    try:
        return tuple(map(read_identifier, names))
    except DecodeError as error:
        raise ValidationError("DATAGRAM_FIELD", f"{what}: {error.message}") from None


class DiscoverOptions(TypedDict, total=False):
    """The options of :meth:`LanFlows.discover`. Spec: SDP §3.1."""

    capabilities: Names
    scenes: Names
    types: Names
    patience: float | None
    quiet: float | None
    refresh: bool


def _start(thread: AgentThread[Any]) -> Flow[None]:
    """Wait until an agent has started."""

    async def started(_: object) -> None:
        pass

    yield Work(partial(thread.submit, started))


class LanFlows:
    """The use cases of the local network, for one client."""

    def __init__(
        self,
        settings: LanSettings,
        context: ResolveContext,
        access: OriginAccess,
        make_agent: Callable[[LanSettings], LanAgent],
        make_dht_agent: Callable[[LanSettings], DhtAgent],
        *,
        memory: LanCacheFile,
    ) -> None:
        self.settings = settings
        self.ladder = context.open_ladder()
        self.ladder.hedges = settings.hedges
        self.memory = memory
        self.thread = LanThread(partial(make_agent, settings), self.live)
        self.dht = AgentThread(partial(make_dht_agent, settings), name="skillwire-dht")
        self._context = context
        self._access = access
        self._providers: list[SceneProvider] = []
        self._warnings: tuple[SkillwireError, ...] = ()
        self._revoked: Mapping[str, str] = {}
        self._reported: set[str] = set()

    def _use(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> Flow[T]:
        """Return the result of ``use`` with the agent, which is started first; report new warnings of the network."""

        async def using(agent: LanAgent) -> T:
            try:
                return await use(agent)
            finally:
                self._warnings, self._revoked = agent.warnings, agent.revoked

        try:
            result: T = yield Work(partial(self.thread.submit, using))
        finally:
            for warning in self._warnings:
                if warning.message not in self._reported:
                    self._reported.add(warning.message)
                    self._context.note(warning)
        return result

    def _silence(self, scene: str = "") -> SkillwireError:
        """Return the error for a silent network; where only loopback is up, agents of this machine were silent."""
        if (lost := next((one for one in self._warnings if one.code == "DISC_005"), None)) is None:
            return no_answer(self.settings, scene)
        waited = in_seconds(self.settings.discovery.patience)
        return FetchError(lost.code, f"no agent on this machine answered within {waited}", fix=lost.fix)

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
        asked = Query(
            query,
            checked_names("capabilities", options.get("capabilities", ())),
            checked_names("scenes", options.get("scenes", ())),
            checked_names("types", options.get("types", ())),
        )
        patience, quiet, is_fresh = options.get("patience"), options.get("quiet"), options.get("refresh", False)
        is_fresh = is_fresh and not self._context.offline
        rungs = self.rungs(asked, quiet=quiet, patience=patience, asks_dht=False, asks_center=False)
        climb = self.ladder.climb("", [rung for rung in rungs if not (is_fresh and rung.name == CACHE)])
        found: list[SkillRef] = []
        try:
            found = yield from climb.next()
        except SkillwireError as error:
            if error.code not in SILENT:
                raise
        else:
            for failure in climb.errors:
                if failure.code not in SILENT:
                    self._context.note(failure)
        finally:
            self._context.on_climb(climb.traces)
        skills = [ref.lan for ref in found if ref.lan is not None]
        if is_fresh:
            yield from work(self.memory.forget_all)
            yield from self._context.try_change(partial(self.memory.put, skills))
        return skills

    def rungs(
        self,
        query: Query,
        enough: StopCondition | None = None,
        *,
        quiet: float | None = None,
        patience: float | None = None,
        asks_lan: bool = True,
        asks_dht: bool = True,
        asks_center: bool = True,
        center: str = "",
    ) -> list[Rung[SkillRef]]:
        """Return the rungs that find skills by what they are, with the settings of each. Spec: SDP §12.2, §13.2.

        ``center`` is the SkillCenter where the settings of discovery name none.
        """
        settings = self.settings if self.settings.center_url else replace(self.settings, center_url=center)
        discovery = settings.discovery
        if enough is None:
            enough = every_provider(discovery)
            enough = enough if quiet is None else enough._replace(quiet=quiet)
        offline = "offline" if self._context.offline else ""
        has_center = asks_center and settings.uses_center and settings.center_url
        no_lan = "" if settings.multicast or settings.mdns else "discovery.udp and discovery.mdns are not enabled"
        row = LADDER[LAN]._replace(deadline=discovery.patience * _RETRIED)
        if patience is not None:
            row = row._replace(deadline=patience, attempts=1)
        center_off = (
            "not asked for" if not asks_center
            else "discovery.skillCenter is not enabled" if settings.center_url
            else "discovery.skillCenter has no url"
        )  # fmt: skip
        return [
            Rung(
                LAN, partial(self._ask_network, query, enough), offline or no_lan, row, partial(_start, self.thread)
            ) if asks_lan
            else Rung(LAN, off="no source names lan:"),
            Rung(
                DHT, partial(self._ask_dht, query), offline or self._why_no_dht(query, asks_dht=asks_dht),
                start=partial(_start, self.dht),
            ),
            Rung(
                CENTER, partial(self._ask_center, settings, query), offline or ("" if has_center else center_off),
                LADDER[CENTER]._replace(deadline=settings.center_timeout),
            ),
            Rung(
                CACHE, partial(self._ask_cache, query, asks_lan=asks_lan, center=settings if has_center else None),
                "a fresh answer was asked for" if self._context.refresh else
                "" if settings.cache.enabled else "discovery.cache is not enabled",
            ),
        ]  # fmt: skip

    def _why_no_dht(self, query: Query, *, asks_dht: bool) -> str:
        """Return why the DHT is not asked; empty if it is."""
        settings = self.settings.dht
        if not settings.enabled:
            return "discovery.dht is not enabled"
        if not settings.bootstrap:
            return "discovery.dht has no bootstrapNodes"
        if not asks_dht:
            return "not asked for"
        return "" if query.capabilities or query.words or query.name else "it is asked for capabilities and names alone"

    def _marked(self, skills: Iterable[LanSkill]) -> list[LanSkill]:
        """Return skills with those marked that only others mention, or the cache, at the address of a revoked agent."""

        def marked(skill: LanSkill) -> LanSkill:
            agent_id = self._revoked.get(without_zone(skill.host), "")
            is_of_it = agent_id and not skill.is_verified and skill.agent_id in {"", agent_id}
            return skill._replace(agent_id=agent_id, is_revoked=True) if is_of_it else skill

        return list(map(marked, skills))

    def _ask_network(self, query: Query, enough: StopCondition, seconds: float) -> Flow[list[SkillRef]]:
        asked = yield from self._use(lambda agent: self._ask(agent, query, seconds, enough))
        heard, others = map(self._marked, asked)
        if not (heard or others):
            raise self._silence()
        if heard:
            yield from self._context.try_change(
                partial(self.memory.put, [skill for skill in heard if not skill.is_revoked])
            )
        found = answers(heard or others, query)
        if not found:  # no agent that answered announces them
            cached = yield from work(self.memory.skills)
            yield from self._context.try_change(partial(self.memory.forget, answers(cached, query)))
            wanted = query.words or query.name or ", ".join((*query.capabilities, *query.scenes, *query.types))
            message = f"no skill on the local network offers '{wanted}', or has this name"
            raise NotFoundError("DISC_002", message, fix="List names and capabilities: skillwire find --lan.")
        return [ref_of(skill) for skill in found]

    def _ask_dht(self, query: Query, seconds: float) -> Flow[list[SkillRef]]:
        """Look up every capability, or else every word as a capability and as a name. Spec: SDP §6.3."""
        settings, able = self.settings.dht, query.capabilities or tuple(query.words.split())
        names = (query.name,) if query.name else () if query.capabilities else able
        match: Literal["all", "any"] = "all" if query.capabilities else "any"

        async def look_up(agent: DhtAgent) -> list[DhtAnswer]:
            questions = [agent.find_by_name(name, seconds=seconds) for name in names if is_identifier(name)]
            if asked := tuple(filter(is_identifier, able)):
                questions.append(agent.find_by_capability(asked, match=match, seconds=seconds))
            return await asyncio.gather(*questions)

        got: list[DhtAnswer] = yield Work(partial(self.dht.submit, look_up))
        dht.check_answers(got, settings)
        heard = dht.skills_of(got, self._context.clock())
        if heard:
            yield from self._context.try_change(partial(self.memory.put, heard))
        found = answers(heard, query)
        if not found:
            wanted = ", ".join(dict.fromkeys((*able, *names, *query.scenes, *query.types)))
            raise dht.not_offered(f"offers {wanted}, or has this name", got)
        if any(answer.keys_without_answer for answer in got):
            message = f"the answer of the DHT may not be complete{dht.unreached(got)}"
            self._context.note(FetchError("DHT_UNREACHABLE", message))
        return [ref_of(skill) for skill in found]

    def _ask_center(self, settings: LanSettings, query: Query, seconds: float) -> Flow[list[SkillRef]]:
        del seconds
        yield from work(partial(self._access.allow_url, settings.center_url))
        return (yield from search_center(settings, query, self._context))

    def _ask_cache(
        self, query: Query, seconds: float, *, asks_lan: bool, center: LanSettings | None
    ) -> Flow[list[SkillRef]]:
        del seconds
        skills = yield from work(self.memory.skills)
        kept = self._marked([one for one in skills if asks_lan or one.url])
        found = [ref_of(skill) for skill in answers(kept, query)]
        if center is not None:
            context = self._context._replace(offline=True, report=lambda _: None)
            # One step, since each step of many questions at once waits for a thread. Offline there are no requests.
            found += yield from work(partial(follow, search_center(center, query, context), ()))
        return found

    async def _ask(
        self, agent: LanAgent, query: Query, patience: float, enough: StopCondition
    ) -> tuple[Sequence[LanSkill], Sequence[LanSkill]]:
        """Return the skills that answer and, without one, those of any agent, within ``patience`` seconds in all."""
        filters = {"capabilities": query.capabilities, "scenes": query.scenes, "types": query.types}
        asking = asyncio.ensure_future(agent.discover(**filters, patience=patience, enough=enough))
        others: asyncio.Future[tuple[LanSkill, ...]] | None = None
        try:
            if any(filters.values()):
                alone = min(self.settings.discovery.not_found_patience, patience / 3)  # a provider answers before
                await asyncio.wait({asking}, timeout=alone)
                if not (asking.done() and asking.result()):
                    any_agent = enough._replace(is_one=False)
                    others = asyncio.ensure_future(agent.discover(patience=patience - alone, enough=any_agent))
                    await asyncio.wait({asking, others}, return_when=asyncio.FIRST_COMPLETED)
            found = await asking
            return found, () if found or others is None else await others
        finally:
            tasks = [asking] if others is None else [asking, others]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def resolve(self, skill: LanSkill, *, use_unverified: bool | None = None) -> Flow[SkillRef]:
        """Return a skill as its server publishes it; this allows connecting to that address only.

        What the server publishes may differ from its announcement; the announced version and health are kept in
        ``lan``.
        """
        if skill.is_revoked:
            raise revoked(skill.agent_id, skill.skill_id, http_url(skill))
        if not skill.is_verified and not self.uses_unverified(use_unverified):
            raise unusable(skill)
        url = http_url(skill)
        yield from work(partial(self._access.allow_lan_server, url, with_credential=skill.is_verified))
        found = yield from read_origin(parse_source(url), self._context._replace(refresh=True))
        return matching(skill, found)

    def read(self, found: LanSkill | SkillRef, *, use_unverified: bool | None = None) -> Flow[SkillRef]:
        """Return a skill of the network as its server publishes it; one of another source as it is."""
        skill = found.lan if isinstance(found, SkillRef) else found
        if skill is not None:
            return (yield from self.resolve(skill, use_unverified=use_unverified))
        assert isinstance(found, SkillRef)  # noqa: S101  # else it is the skill
        return found

    def named(self, name: str, *, asks_lan: bool) -> list[Rung[SkillRef]]:
        """Return the rungs that find the skill called ``name``, read at its publisher."""

        def read_first(rung: Rung[SkillRef], seconds: float) -> Flow[list[SkillRef]]:
            failure: SkillwireError | None = None
            is_of_dht = False
            for ref in (yield from rung.ask(seconds)) if rung.ask else ():
                try:
                    return [(yield from self.read(ref))]
                except SkillwireError as error:  # another provider may have it, and a certified key
                    if not isinstance(error, FetchError) and error.code != "DISC_004":
                        raise
                    is_of_dht = is_of_dht if failure else bool(ref.lan and ref.lan.url)
                    failure = failure or error
            if failure is not None and failure.code == "DISC_004" and is_of_dht:
                failure.fix, failure.details = dht.NAME_FIX.format(place=failure.place), {"source": DHT}
            if failure is not None:
                raise failure
            return []

        rungs = self.rungs(Query(name=name), asks_lan=asks_lan)
        return [one if one.ask is None else one._replace(ask=partial(read_first, one)) for one in rungs]

    def providers(self, capability: str, *, use_unverified: bool | None, timeout: float | None = None) -> Providers:
        """Return the providers of a capability, or the skills of that name; nothing is asked yet."""
        may_be, limit = self.uses_unverified(use_unverified), TimeLimit(timeout)
        enough = one_provider(self.settings.discovery, use_unverified=may_be)
        rungs = self.rungs(Query(capabilities=(capability,), name=capability), enough)
        climb = self.ladder.climb("", rungs, limit.seconds)
        return Providers(capability, climb, use_unverified=may_be, limit=limit, on_climb=self._context.on_climb)

    def request_scene(
        self, scene: str, capabilities: Names, *, join: bool, use_unverified: bool | None
    ) -> Flow[SceneResult]:
        """Request a scene. Raises FetchError: ``OFFLINE``; ``LAN_UNAVAILABLE`` without multicast."""
        (scene,), names = checked_names("scene", (scene,)), checked_names("capabilities", capabilities)
        may_be = self.uses_unverified(use_unverified)
        if self._context.offline:
            raise FetchError("OFFLINE", "a scene cannot be joined offline")
        if not self.settings.multicast:
            message = "scenes require multicast, which the configuration disables"
            fix = "Set enabled = true in [discovery.udp]. Without it skills are found by mDNS, and called by name."
            raise FetchError("LAN_UNAVAILABLE", message, fix=fix)
        results: list[SceneResult] = []

        def ask(seconds: float) -> Flow[list[SceneResult]]:
            del seconds  # the agent has times of its own for each step
            result = yield from self._use(
                lambda agent: agent.request_scene(scene, names, is_join=join, use_unverified=may_be)
            )
            results.append(result)
            if result.is_joined:
                return results
            raise not_joined(result, names, self.settings) if result.is_missing else self._silence(scene)

        climb = self.ladder.climb("", [Rung(LAN, ask, row=LADDER[LAN]._replace(attempts=1))])
        try:
            yield from climb.next()
        except SkillwireError:
            if not results or (self._warnings and not results[0].is_missing):
                raise
        finally:
            self._context.on_climb(climb.traces)
        return results[0]

    def provide_scene(
        self, folder: Path, scene: str, capabilities: Names, *, port: int = 0, logs: bool = False
    ) -> Flow[SceneResult]:
        """Serve the skill in ``folder`` for a scene, in a process that ends with :meth:`close`, and join the scene.

        Another agent that provides it meanwhile needs a certified key, unless the settings accept others.
        """
        provider = yield from work(partial(SceneProvider, folder, scene, port, logs=logs))
        self._providers.append(provider)
        result = yield from self.request_scene(scene, capabilities, join=False, use_unverified=True)
        if result.is_joined and result.connection_info.get("port") != provider.port:
            return (yield from self.request_scene(scene, capabilities, join=True, use_unverified=None))
        return result

    def close(self) -> None:
        """End the agents and the processes of :meth:`provide_scene`."""
        self.thread.end()
        self.dht.end()
        while self._providers:
            self._providers.pop().close()

    def scenes(self, found: Sequence[LanSkill] | None) -> Flow[list[LanScene]]:
        """Return the scenes of the network, or of found skills, each in the order of a registry that answers."""
        skills = (yield from self.discover("")) if found is None else found
        scenes = scenes_of(skills, {})
        if self._context.offline or all(skill.found_via is not FoundVia.MULTICAST for skill in skills):
            return scenes
        orders = yield from self._use(lambda agent: agent.group_orders(scene.name for scene in scenes))
        return scenes_of(skills, orders)

    def snapshot(self) -> Flow[LanSnapshot]:
        """Return the network as the agent knows it."""

        async def look(agent: LanAgent) -> LanSnapshot:
            return agent.snapshot()

        return self._use(look)

    def save(self) -> Flow[None]:
        """Write the cache."""
        return self._context.try_change(self.memory.write)


def scenes_of(found: Sequence[LanSkill], orders: Mapping[str, list[tuple[str, str]]]) -> list[LanScene]:
    """Return the scenes of the skills, by name; ``orders`` rank the providers of each that are trusted alike."""
    hints = [skill for skill in found if skill.found_via is not FoundVia.MULTICAST and not skill.is_trust_known]
    registered = [skill for skill in found if skill not in hints]  # hints are in no group
    names = sorted({name for skill in registered for name in skill.scenes})

    def rank_in(name: str, one: LanSkill) -> tuple[object, ...]:
        order = orders.get(name, [])
        place = order.index(one[:2]) if one[:2] in order else len(order)
        return not one.is_verified, place, one.status == "UNKNOWN", one.agent_id, one.skill_id

    def members(name: str) -> tuple[LanMember, ...]:
        return members_of([skill for skill in registered if name in skill.scenes], partial(rank_in, name))

    return [LanScene(name, group_id(name), members(name)) for name in names]


class SceneProvider:
    """A process that serves the skill in ``folder`` for ``scene``, until its client is closed, or ends. Spec: SDP §4.2.

    Raises FetchError (``DISC_006``) if it ends before.
    """

    def __init__(self, folder: Path, scene: str, port: int, *, logs: bool) -> None:
        arguments = ["serve", str(folder), "--lan", "--scene", scene, "--port", str(port), "--json"]
        self._process = subprocess.Popen(  # noqa: S603  # our own program, with a folder that we have installed
            [sys.executable, "-c", _PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if logs else subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the parent, which ends this process in its turn
        )
        assert self._process.stdout is not None  # noqa: S101  # a pipe was asked for
        line = self._process.stdout.readline()
        try:
            self.port = parse_url(str(json.loads(line)["address"])).port
        except (ValueError, KeyError, SkillwireError) as error:
            self.close()
            fix = f"Run it to see why: skillwire serve {folder} --lan --scene {scene}"
            raise FetchError("DISC_006", "the process that serves the skill has ended", fix=fix) from error

    def close(self) -> None:
        """End the process, which says goodbye to the network."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
