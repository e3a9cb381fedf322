"""The session of a client: one project's files, the settings, and the use cases that search and call, as flows.

This is the only module of the package that makes adapters; others name their types.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from skillwire import limits
from skillwire.adapters.files.atomic import cache_directory, home_directory, state_directory
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.client_cache import FileOriginBook, FileResponseCache
from skillwire.adapters.files.credentials import bearer, find_password, find_token, open_store
from skillwire.adapters.files.install_folder import FileSkillsFolder
from skillwire.adapters.files.settings_file import load_settings, own_discovery, read_discovery_file, user_file
from skillwire.client.credentials import OriginAccess
from skillwire.client.installing import InstallFlows
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, UsageError, did_you_mean
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.resolver.context import GitMemory, ResolveContext, as_finding
from skillwire.resolver.ladder import LAN, NAMED, SILENT, Ladder, Query, Rung, RungTrace
from skillwire.resolver.plan import InstallPolicy
from skillwire.resolver.rank import conflicting_digests, rank
from skillwire.resolver.references import lan_capability, parse_reference, parse_source, reference_to, registry_address
from skillwire.resolver.resolve import find_skills
from skillwire.resolver.settings import Settings, join_discovery, seconds_of_age
from skillwire.resolver.sources.skill_sharing import read_bytes
from skillwire.trust.address import REFUSED_ADDRESS, AddressPolicy
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, TimeLimit, limit_time, share_time, work
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.adapters.dht.agent import DhtAgent
    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.adapters.http.sync import SyncDriver
    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.client.calls import CallArguments, Calls, PreparedCall
    from skillwire.client.endpoint_calls import EndpointCalls
    from skillwire.client.lan_flows import LanFlows, Names
    from skillwire.model.lan import SceneResult
    from skillwire.model.ref import OriginRecord, SkillRef
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.resolver.sources.lan import Stage
    from skillwire.testing.publisher import AsyncSimulatedPublisher, SimulatedPublisher

SyncHttp: TypeAlias = "SyncDriver | SimulatedPublisher"
AsyncHttp: TypeAlias = "AsyncDriver | AsyncSimulatedPublisher"
HttpT = TypeVar("HttpT", SyncHttp, AsyncHttp)
RunnerT = TypeVar("RunnerT")
T = TypeVar("T")


def _upload_pack(path: str, request: bytes, max_bytes: int) -> bytes:
    from skillwire.adapters.git import upload_pack  # noqa: PLC0415  # few skills are in repositories of this machine

    return upload_pack(path, request, max_bytes)


class ClientSession(InstallFlows):
    """The state that both clients share. The arguments are those of :class:`skillwire.Client`."""

    def __init__(
        self,
        project: Path | str,
        *,
        for_user: bool,
        tokens: Mapping[str, str],
        settings: Settings | None,
        policy: InstallPolicy | None,
        offline: bool | None,
        refresh: bool,
        report: Callable[[Finding], object],
        on_traffic: Callable[[str, int], object],
    ) -> None:
        project = Path(project)
        self.settings = settings if settings is not None else load_settings(project, os.environ)
        self.for_user = for_user
        self.on_traffic = on_traffic
        self._report_to, self._reported = report, set[Finding]()
        self.root = home_directory() if for_user else project
        self.folder = FileSkillsFolder(self.root, self.root / ".agents/skills.lock" if for_user else None, report)
        self.policy = policy or InstallPolicy(frozenset(self.settings.trusted_origins), self.settings.only_trusted)
        policy_of_addresses = AddressPolicy(allow=self.settings.allow)
        self.access = OriginAccess(
            policy_of_addresses, open_store(), find_token=find_token, find_password=find_password
        )
        for origin, token in tokens.items():
            self.set_token(origin, token)
        cache = cache_directory()
        self._book = FileOriginBook(state_directory() / "origins.json")
        self.context = ResolveContext(
            cache=FileResponseCache(cache / "responses"),
            blobs=FileBlobs(cache / "blobs"),
            origins=self._book,
            credentials=self.access.credentials,
            clock=time.time,
            report=self._report,
            sources=self.settings.sources,
            offline=self.settings.offline if offline is None else offline,
            refresh=refresh,
            min_age=seconds_of_age(self.settings.min_age),
            addresses=lambda: self.access.addresses,
            explain=self.explain,
            root=self.root,
            git=GitMemory({}, {}),
            upload_pack=_upload_pack,
            discovery=self._discovery,
            ladder=Ladder(time.monotonic),
            on_climb=self._keep_rungs,
        )
        self.limit = TimeLimit(None)
        for source in self.settings.own_sources if settings is None else settings.sources:
            self.access.allow(parse_reference(source))

    def set_token(self, origin: str, token: str) -> None:
        """Send ``token`` with every request to ``origin``, and to no other."""
        self.access.prefer(origin if "://" in origin else parse_source(origin).url, bearer(token))

    def _report(self, finding: Finding) -> None:
        """Report a finding; a folder that cannot be written once, whatever was to be kept in it."""
        alike = finding._replace(place=SourceLocation(""), message="")
        if finding.code != "STORAGE" or alike not in self._reported:
            self._reported.add(alike)
            self._report_to(finding)

    def explain(self, error: SkillwireError) -> None:
        """Complete an error with the credential that was sent, or with the project's file that names the address."""
        self.access.explain(error)
        if error.code not in REFUSED_ADDRESS:
            return
        named = set[str]()
        for text in {*self.settings.sources, *self.settings.skills} - self.settings.own_sources:
            with suppress(SkillwireError):  # one that cannot be read is an error of its own
                named.update(parse_url(lookup.url).host for lookup in parse_reference(text).lookups)
        fix, reason = error.diagnostics().fix, "The project's skillwire.toml names it"
        if error.details.get("host") in named and not fix.startswith(reason):
            fix = fix.replace("skillwire.toml", str(user_file()))
            error.fix = f"{reason}, and a project file may name only public addresses. {fix}"

    def fetch_named(self, url: str, make: Callable[[str | None], HttpRequest]) -> Flow[HttpResponse]:
        """Return the answer of an address that the user named to the request that ``make`` returns for a credential."""
        yield from work(partial(self.access.allow_url, url))
        return (yield from fetch(make(self.context.credential_for(url))))

    def registry_url(self, url: str) -> str:
        """Return the URL of a registry, that of the settings for an empty one, and allow to connect to it."""
        chosen = url or self.settings.registry
        if not chosen:
            raise UsageError("REGISTRY_MISSING", "no registry is named")
        chosen = registry_address(chosen)
        self.access.allow_url(chosen)
        return chosen

    def open_http(self) -> SyncHttp:
        """Return a driver for blocking requests."""
        from skillwire.adapters.http.sync import SyncDriver  # noqa: PLC0415  # not every command connects

        return SyncDriver(self.access.addresses)

    def open_async_http(self) -> AsyncHttp:
        """Return a driver for requests on the event loop."""
        from skillwire.adapters.http.asynchronous import AsyncDriver  # noqa: PLC0415  # asyncio is heavy

        return AsyncDriver(self.access.addresses)

    def configure(self, driver: HttpT) -> HttpT:
        """Return ``driver`` with the present address policy."""
        driver.policy = self.access.addresses
        driver.on_traffic = self.on_traffic
        return driver

    @cached_property
    def calls(self) -> Calls:
        """The calls of the session, which has one circuit for each failing origin."""
        return self.make_calls()

    def make_calls(self, **options: Any) -> Calls:
        """Return new calls; ``options`` are clock and chance."""
        from skillwire.adapters.files.calls import FileCalls  # noqa: PLC0415  # installing does without
        from skillwire.client.calls import Calls  # noqa: PLC0415  # same

        book = FileCalls(state_directory() / "calls.json", self.context.clock)
        return Calls(self.context, self.access, book, **options)

    @cached_property
    def endpoint_calls(self) -> EndpointCalls:
        """The calls of skills at endpoints of the Skills Protocol."""
        from skillwire.client.endpoint_calls import EndpointCalls  # noqa: PLC0415  # installing does without

        return EndpointCalls(self.context)

    @cached_property
    def lan(self) -> LanFlows:
        """The local network; raises ``DISCOVERY_CONFIGURATION`` for malformed settings."""
        from skillwire.adapters.files.lan_cache_file import LanCacheFile  # noqa: PLC0415  # installing does without
        from skillwire.client.lan_flows import LanFlows  # noqa: PLC0415  # same

        settings = join_discovery(self.settings.discovery, read_discovery_file)
        memory = LanCacheFile(settings, self.context.clock)
        return LanFlows(settings, self.context, self.access, self.make_lan_agent, self.make_dht_agent, memory=memory)

    def _discovery(self) -> LanFlows | None:
        """Return the rungs that find skills by what they are; None where no setting leads to one."""
        if "lan:" in self.settings.sources:
            return self.lan
        if not self.settings.discovery:
            return None
        settings = self.lan.settings
        has_center = settings.uses_center and settings.center_url
        return self.lan if has_center or (settings.dht.enabled and settings.dht.bootstrap) else None

    def _keep_rungs(self, rungs: Sequence[RungTrace]) -> None:
        self.rungs = tuple(rungs)

    @property
    def is_on_lan(self) -> bool:
        """Whether :attr:`lan` was used."""
        return "lan" in vars(self)

    own_discovery = staticmethod(own_discovery)

    @staticmethod
    def make_lan_agent(settings: LanSettings) -> LanAgent:
        """Return an agent that asks and listens, and offers no skills."""
        from skillwire.adapters.lan.agent import ASKING, LanAgent  # noqa: PLC0415  # sockets and cryptography are heavy

        return LanAgent(settings, roles=ASKING, keeps_state=False)

    @staticmethod
    def make_dht_agent(settings: LanSettings) -> DhtAgent:
        """Return a node of the DHT that asks, and stores nothing for others."""
        from skillwire.adapters.dht.agent import DhtAgent  # noqa: PLC0415  # sockets and cryptography are heavy

        return DhtAgent(settings, is_client=True)

    def prepare_call(
        self, skill: SkillRef, descriptor: SkillDescriptor | None, inputs: Mapping[str, Any], options: CallArguments
    ) -> Flow[PreparedCall]:
        """Check a call and return its request; a skill of an endpoint has no descriptor."""
        if descriptor is None:
            return self.endpoint_calls.prepare(skill, inputs, options)
        return self.calls.prepare(skill, descriptor, inputs, options)

    def _check_call(
        self, skill: SkillRef, descriptor: SkillDescriptor | None, inputs: Mapping[str, Any], options: CallArguments
    ) -> Flow[tuple[SkillRef, SkillDescriptor | None, PreparedCall]]:
        return skill, descriptor, (yield from self.prepare_call(skill, descriptor, inputs, options))

    def call(
        self, skill: SkillRef, descriptor: SkillDescriptor | None, inputs: Mapping[str, Any], options: CallArguments
    ) -> Flow[RemoteExecution]:
        """Call a skill; a skill of an endpoint has no descriptor."""
        if descriptor is None:
            return self.endpoint_calls.call(skill, inputs, options)
        return self.calls.call(skill, descriptor, inputs, options)

    def call_reference(
        self,
        reference: str,
        inputs: Mapping[str, Any],
        options: CallArguments,
        *,
        use_unverified: bool | None = None,
        is_followed: bool = False,
    ) -> Flow[RemoteExecution]:
        """Call the skill that ``reference`` names; all requests end within the timeout of ``options``.

        An execution that ``is_followed`` is returned when it was accepted, except by an endpoint of the Skills
        Protocol, which answers at the end.
        """
        limit = TimeLimit(options.get("timeout"))
        options = {**options, "wait": False} if is_followed else options
        if (capability := lan_capability(reference)) is not None:
            return (yield from self.call_capability(capability, inputs, options, use_unverified=use_unverified))
        ref = yield from limit_time(self.resolve_one(reference), limit.seconds)
        descriptor = None
        if ref.rpc is None:
            ref, descriptor = yield from limit_time(self.describe(ref, reference), limit.left())
        if is_followed and descriptor is None:
            options = {**options, "wait": True}

        def call(skill: SkillRef, found: SkillDescriptor | None) -> Flow[RemoteExecution]:
            return self.call(skill, found, inputs, {**options, "timeout": limit.left()})

        return (yield from self.retry_with_current_inputs(ref, descriptor, call, reference, limit))

    def call_capability(
        self, capability: str, inputs: Mapping[str, Any], options: CallArguments, *, use_unverified: bool | None
    ) -> Flow[RemoteExecution]:
        """Call the first healthy provider of a capability on the local network, or the next if that one fails."""
        timeout = options.get("timeout")
        providers = self.lan.providers(capability, use_unverified=use_unverified, timeout=timeout)
        while True:
            one = yield from providers.next()
            stage: Stage = "reading"
            is_safe = False
            try:
                ref = yield from limit_time(
                    self.lan.read(one, use_unverified=use_unverified), providers.lookup_seconds()
                )
                ref, described = yield from limit_time(self.describe(ref), providers.lookup_seconds())
                options = {**options, "timeout": providers.limit.left()}
                stage = "checking"
                check = partial(self._check_call, inputs=inputs, options=options)
                lookup = TimeLimit(providers.lookup_seconds())
                flow = self.retry_with_current_inputs(ref, described, check, "", lookup)
                ref, descriptor, prepared = yield from flow
                is_safe = prepared.method == "GET"
                options = {**options, "timeout": providers.limit.left()}
                stage = "calling"
                execution = yield from self.call(ref, descriptor, inputs, options)
            except SkillwireError as error:
                self.explain(error)
                providers.failed(one, error, stage, is_safe=is_safe)
                continue
            for skipped in providers.passed:
                place = SourceLocation(skipped.ref.origin)
                fix = skipped.error.diagnostics().fix
                self.context.report(Finding(skipped.error.code, "note", skipped.reason, place, fix))
            return execution

    def sharing_document(self, text: str) -> Flow[bytes]:
        """Return the bytes of a document of Skill Sharing, unread."""
        yield from work(partial(self.access.allow_url, text))
        return (yield from read_bytes(text, self.context._replace(refresh=True)))

    def scene_skills(
        self,
        scene: str,
        capabilities: Sequence[str],
        origins: Sequence[str] = (),
        after: Sequence[RungTrace] = (),
    ) -> Flow[list[SkillRef]]:
        """Return installable skills for a scene: of the SkillCenter and the cache, then of ``origins`` or the sources.

        Where the settings of discovery name no SkillCenter, the user's registry is it.
        Those that declare the scene come first, then those that match its words. ``after`` are the rungs of the request
        that had no provider. Spec: SDP §4.2.
        """
        query, words = Query(capabilities=tuple(capabilities), scenes=(scene,)), " ".join((scene, *capabilities))
        center = registry_address(self.settings.registry) if self.settings.registry else ""
        rungs = [] if origins else self.lan.rungs(query, asks_lan=False, asks_dht=False, center=center)
        rungs = [rung for rung in rungs if rung.name != LAN]
        places = [place for place in origins or self.settings.sources if place != "lan:"]

        def find_named(_: float) -> Flow[list[SkillRef]]:
            found = yield from self._read_places(places, None, are_typed=bool(origins))
            declaring = [skill for skill in found if scene in skill.scenes]
            declaring.sort(key=lambda skill: -sum(able in skill.capabilities for able in capabilities))
            return [*declaring, *(skill for skill, _ in _ranked(words, found))]

        if places:
            rungs.append(Rung(NAMED, find_named, is_always=True))
        by_reference: dict[str, SkillRef] = {}
        for skill in (yield from self._climb("", rungs, after)):
            if not skill.has_no_artifact:
                by_reference.setdefault(reference_to(skill), skill)
        return list(by_reference.values())

    def _climb(
        self, question: object, rungs: Sequence[Rung[SkillRef]], after: Sequence[RungTrace] = ()
    ) -> Flow[list[SkillRef]]:
        """Return what the first rungs have, each skill once, nothing of a silent network; keep how each rung ended."""
        climb = self.context.open_ladder().climb(question, rungs)
        found: list[SkillRef] = []
        try:
            found = yield from climb.next()
        except SkillwireError as raised:
            if not {raised.code, *(one.code for one in climb.errors)} <= SILENT:  # climb.errors has no UsageError
                raise
        finally:
            self._keep_rungs((*after, *climb.traces))
        if conflict := conflicting_digests(found):
            self.context.report(as_finding(conflict)._replace(level="error"))
        for error in climb.errors:
            if error.code not in SILENT:
                self.context.report(as_finding(error)._replace(level="warning"))
        rows: dict[object, SkillRef] = {}
        for one in found:
            key = (one.origin, one.name, one.version, one.digest, one.lan and one.lan.agent_id)
            rows[key] = one if one.shared else rows.get(key, one)  # with the facts that one of them has
        return list(rows.values())

    def request_scene(
        self,
        scene: str,
        capabilities: Names,
        choose: Callable[[Sequence[SkillRef]], SkillRef | None] | None,
        *,
        join: bool,
        use_unverified: bool | None,
    ) -> Flow[SceneResult]:
        """Request a scene; without a provider install the skill that ``choose`` returns, serve it, and join."""
        result = yield from self.lan.request_scene(scene, capabilities, join=join, use_unverified=use_unverified)
        if result.is_joined or choose is None:
            return result
        found = yield from self.scene_skills(scene, tuple(capabilities), after=self.rungs)
        asked = self.rungs
        chosen = (yield from work(partial(choose, found))) if found else None
        if chosen is None:
            return result
        plan = yield from self.plan([reference_to(chosen)], (), copy=None)
        yield from self.apply(plan, consent=True, overwrite=False)
        lock = yield from work(self.folder.read_lock)
        folder = self.root / lock.skills[chosen.name].placement.folders[0] / chosen.name
        result = yield from self.lan.provide_scene(folder, scene, capabilities)
        self._keep_rungs(asked)
        return result

    def trusted_origins(self) -> Flow[dict[str, OriginRecord]]:
        """Return the records of the origins that the user agreed to."""
        records = yield from work(self._book.records)
        return {base: record for base, record in records.items() if record.accepted}

    def revoke_trust(self, text: str, *, dry_run: bool) -> Flow[list[str]]:
        """Withdraw the consent to the origin that ``text`` names; raise ``ORIGIN_NOT_ACCEPTED`` with similar ones."""
        accepted = yield from self.trusted_origins()
        meant = {text, *(lookup.base for lookup in parse_reference(text).lookups if lookup.name is None)}
        found = [base for base in accepted if base in meant or base.partition("://")[2] in meant]
        if not found:
            message = f"you have not agreed to install from {ascii(text)[1:-1][:120]}"
            raise NotFoundError("ORIGIN_NOT_ACCEPTED", message, fix=did_you_mean(text, accepted))
        for base in () if dry_run else found:
            yield from work(partial(self._book.withdraw, base))
        return found

    def search(
        self, query: str, origins: Sequence[str] | str, capability_type: str | None
    ) -> Flow[list[tuple[SkillRef, float]]]:
        """Search ``origins``, or the configured sources, in both protocols; return skills and scores, best first.

        An origin that cannot be read is reported; when none can be read, the first error is raised.
        """
        origins = [origins] if isinstance(origins, str) else origins
        places = list(origins or self.settings.sources)
        named = [place for place in places if place != "lan:"]
        rungs: list[Rung[SkillRef]] = []
        if capability_type is None and ("lan:" in places or not origins) and (self._discovery() or "lan:" in places):
            rungs = self.lan.rungs(Query(query), asks_lan="lan:" in places)
        if named:
            ask = partial(self._read_places, named, capability_type, are_typed=bool(origins))
            rungs.append(Rung(NAMED, lambda _: ask(), is_always=True))
        if not rungs and not places:
            fix = (
                'Name an origin: skillwire find --from example.com, or set sources = ["example.com"] in '
                "skillwire.toml. On the local network: skillwire find --lan."
            )
            raise UsageError("NO_SOURCES", "no origin to search is named, and no sources are configured", fix=fix)
        return _ranked(query, (yield from self._climb("", rungs)))

    def _read_places(
        self, places: Sequence[str], capability_type: str | None, *, are_typed: bool
    ) -> Flow[list[SkillRef]]:
        """Return the skills of all places; report those that cannot be read, and raise the first error if none can."""
        skills: list[SkillRef] = []
        failures: list[SkillwireError] = []
        for number, place in enumerate(places, 1):
            try:
                if are_typed:
                    flow = self._find_at_reference(place, capability_type)
                else:  # a source of a project's file allows neither connecting nor sending secrets
                    flow = find_skills(parse_source(place), self.context, capability_type)
                skills += yield from share_time(flow, limits.HTTP_REQUEST_SECONDS, is_last=number == len(places))
            except SkillwireError as error:
                self.explain(error)
                failures.append(error)
        if failures and len(failures) == len(places):
            raise failures[0]
        for failure in failures:
            self.context.report(as_finding(failure)._replace(level="warning"))
        return skills

    def _find_at_reference(self, text: str, capability_type: str | None) -> Flow[list[SkillRef]]:
        """Return the skills of a typed place: an origin's in both protocols, or those that a reference names."""
        reference = parse_reference(text)
        location = reference.registry if capability_type is not None else None
        if len(reference.lookups) == 1 and reference.lookups[0].name is None:
            location = reference.lookups[0]
        if location is not None:
            yield from work(partial(self.access.allow, reference))
            return (yield from find_skills(location, self.context, capability_type))
        found = yield from self.resolve(text, both=capability_type is not None)
        if capability_type is None:
            return found
        return [skill for skill in found if skill.shared and skill.shared.capability_type == capability_type]


def _ranked(query: str, skills: Sequence[SkillRef]) -> list[tuple[SkillRef, float]]:
    return rank(query, skills, lambda skill: (skill.name, " ".join((skill.description, *skill.tags))))


class ClientBase(Generic[RunnerT]):
    """What both clients share: the constructor, and what needs no flow."""

    _runner_class: ClassVar[type[Any]]

    def __init__(
        self,
        project: Path | str = ".",
        *,
        for_user: bool = False,
        tokens: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        policy: InstallPolicy | None = None,
        offline: bool | None = None,
        refresh: bool = False,
        report: Callable[[Finding], object] = lambda _: None,
        on_traffic: Callable[[str, int], object] = lambda *_: None,
    ) -> None:
        self._session = ClientSession(
            project,
            for_user=for_user,
            tokens=tokens or {},
            settings=settings,
            policy=policy,
            offline=offline,
            refresh=refresh,
            report=report,
            on_traffic=on_traffic,
        )
        self._runner: RunnerT = self._runner_class(self._session)

    @property
    def root(self) -> Path:
        """The project, or the user's home; the paths of installed skills are relative to it."""
        return self._session.root

    @property
    def lock_path(self) -> Path:
        """The lock of the installed skills."""
        return self._session.folder.lock_path

    @property
    def rungs(self) -> tuple[RungTrace, ...]:
        """The sources that were tried for the last answer, in order: how each ended, after what time, and why."""
        return self._session.rungs

    @property
    def limit(self) -> TimeLimit:
        """The time limit for all requests from now on together; a program sets another ``TimeLimit``."""
        return self._session.limit

    @limit.setter
    def limit(self, limit: TimeLimit) -> None:
        self._session.limit = limit

    @property
    def driver(self) -> Any:
        """The driver of requests; None until the first one. Tests set a simulated publisher."""
        runner: Any = self._runner
        return runner.driver

    @driver.setter
    def driver(self, driver: Any) -> None:
        runner: Any = self._runner
        runner.driver = driver

    def set_token(self, origin: str, token: str) -> None:
        """Send ``token`` with every request to ``origin`` from now on, and to no other.

        Raises:
            UsageError, ValidationError: ``origin`` is no origin as :meth:`Client.show` takes it.
            UsageError: a header cannot hold ``token``.
        """
        self._session.set_token(origin, token)
