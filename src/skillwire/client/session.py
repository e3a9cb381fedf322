"""The session of a client: one project's files, the settings, and every use case as a flow.

This is the only module of the package that makes adapters; others name their types.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from skillwire import limits
from skillwire.adapters.files.atomic import cache_directory, home_directory, state_directory
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.client_cache import FileOriginBook, FileResponseCache
from skillwire.adapters.files.credentials import bearer, find_password, find_token, open_store
from skillwire.adapters.files.install_folder import FileSkillsFolder
from skillwire.adapters.files.settings_file import load_settings, read_discovery_file, user_file
from skillwire.client.credentials import OriginAccess
from skillwire.errors import (
    DecodeError,
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.model.requirement import parse_requirement
from skillwire.model.skill import Finding, is_version
from skillwire.model.url import parse_url
from skillwire.resolver.agents import AGENTS, choose_agents, plan_placement
from skillwire.resolver.apply import apply_install, fetch_contents, inspect_plan, no_digest, open_content
from skillwire.resolver.context import GitMemory, ResolveContext, as_finding
from skillwire.resolver.dependencies import InstalledRequirement, select_skills
from skillwire.resolver.ladder import NAMED, Ladder, Query, Rung
from skillwire.resolver.lockfile import did_you_mean, select
from skillwire.resolver.plan import (
    InstallPolicy,
    PlannedSkill,
    UpdateComparison,
    check_release,
    compare_with_origins,
    conflicting,
    meets_min_age,
    plan_install,
    plan_locked,
    ref_of_locked,
    release_warning,
    too_young,
    with_releases,
    without_young,
)
from skillwire.resolver.references import Reference, at_version, parse_reference, parse_source, reference_to
from skillwire.resolver.resolve import DependencySources, find_skills
from skillwire.resolver.resolve import resolve as resolve_reference
from skillwire.resolver.review import check_accepted, compare_versions, hold_back
from skillwire.resolver.settings import seconds_of_age
from skillwire.resolver.sources import AGENT_SKILLS, GIT, Lookup
from skillwire.resolver.sources.agent_skills import AgentSkills, usable_versions
from skillwire.trust.address import REFUSED_ADDRESS, AddressPolicy
from skillwire.wire.exchange import limit_time, work

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.adapters.http.sync import SyncDriver
    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.client.calls import CallArguments, Calls, PreparedCall
    from skillwire.client.lan_flows import LanFlows, Names
    from skillwire.folder.review import SkillReview
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.install import Lock, LockedSkill, OriginRecord
    from skillwire.model.lan import SceneResult
    from skillwire.model.ref import Files, SkillRef
    from skillwire.protocols.skill_discovery.node import Role
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.ladder import RungTrace
    from skillwire.resolver.plan import InstallPlan
    from skillwire.resolver.settings import Settings
    from skillwire.resolver.sources.lan import Stage
    from skillwire.resolver.which import Resolution
    from skillwire.testing.publisher import SimulatedPublisher
    from skillwire.wire.exchange import Flow

SyncHttp: TypeAlias = "SyncDriver | SimulatedPublisher"
AsyncHttp: TypeAlias = "AsyncDriver"
HttpT = TypeVar("HttpT", SyncHttp, AsyncHttp)
RunnerT = TypeVar("RunnerT")
T = TypeVar("T")


def _upload_pack(path: str, request: bytes, max_bytes: int) -> bytes:
    from skillwire.adapters.git import upload_pack  # noqa: PLC0415  # few skills are in repositories of this machine

    return upload_pack(path, request, max_bytes)


#: Codes of a local network without an answer, which is no fault of a search.
_SILENT: Final = frozenset({"DISC_001", "DISC_002"})


class ClientSession:
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
        self.rungs: tuple[RungTrace, ...] = ()
        for source in self.settings.own_sources if settings is None else settings.sources:
            self.access.allow(parse_reference(source))
        self._calls: Calls | None = None
        self._lan: LanFlows | None = None

    def set_token(self, origin: str, token: str) -> None:
        """Send ``token`` with every request to ``origin``, and to no other."""
        self.access.prefer(origin, bearer(token))

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
        foreign = [source for source in self.settings.sources if source not in self.settings.own_sources]
        with suppress(SkillwireError):  # a source that cannot be read is an error of its own
            if error.details.get("host") in {parse_url(parse_source(source).url).host for source in foreign}:
                error.fix = (
                    "The project's skillwire.toml names it, and a project file may name only public addresses. If you "
                    f"trust the address, add it to sources in your own {user_file()}, or to SKILLWIRE_ALLOW."
                )

    def registry_url(self, url: str) -> str:
        """Return the URL of a registry, that of the settings for an empty one, and allow to connect to it."""
        chosen = url or self.settings.registry
        if not chosen:
            raise UsageError("REGISTRY_MISSING", "no registry is named")
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

    @property
    def calls(self) -> Calls:
        """The calls of the session, which has one circuit for each failing origin."""
        if self._calls is None:
            self._calls = self.make_calls()
        return self._calls

    @calls.setter
    def calls(self, calls: Calls) -> None:
        self._calls = calls

    def make_calls(self, **options: Any) -> Calls:
        """Return new calls; ``options`` are clock and chance."""
        from skillwire.client.calls import open_calls  # noqa: PLC0415  # installing does without

        return open_calls(state_directory() / "calls.json", self.context, self.access, **options)

    @property
    def lan(self) -> LanFlows:
        """The local network; raises ``DISCOVERY_CONFIGURATION`` for malformed settings."""
        if self._lan is None:
            from skillwire.client.lan_flows import open_lan  # noqa: PLC0415  # installing does without

            sources = self.settings.discovery
            self._lan = open_lan(sources, read_discovery_file, self.context, self.access, self.make_lan_agent)
        return self._lan

    def _discovery(self) -> LanFlows | None:
        """Return the rungs that find skills by what they are; None where no setting leads to one."""
        if "lan:" in self.settings.sources:
            return self.lan
        has_center = self.settings.discovery and self.lan.settings.uses_center and self.lan.settings.center_url
        return self.lan if has_center else None

    def _keep_rungs(self, rungs: Sequence[RungTrace]) -> None:
        self.rungs = tuple(rungs)

    @property
    def is_on_lan(self) -> bool:
        """Whether :attr:`lan` was used."""
        return self._lan is not None

    def make_lan_agent(self, settings: LanSettings, roles: frozenset[Role]) -> LanAgent:
        """Return an agent with these roles, which offers no skills."""
        from skillwire.adapters.lan.agent import LanAgent  # noqa: PLC0415  # sockets and cryptography are heavy

        return LanAgent(settings, roles=roles, keeps_state=False)

    def resolve(
        self, text: str, *, refresh: bool = False, both: bool = False, is_typed: bool = True
    ) -> Flow[list[SkillRef]]:
        """Return the skills that a reference names; ``refresh`` asks the origin even if the cache is fresh.

        One that is not typed but of a project's file allows no connection.
        """
        reference = parse_reference(text)
        if is_typed:
            yield from work(partial(self.access.allow, reference))
        context = self.context._replace(refresh=True) if refresh else self.context
        return (yield from self._limit_lookup(resolve_reference(reference, context, both=both), reference.name))

    def _limit_lookup(self, flow: Flow[T], bare_name: str | None = None) -> Flow[T]:
        """Bound all questions to a named origin, or to each source of a bare name, to the time of one request."""
        places = 1 if bare_name is None else max(len(self.context.sources), 1)
        return limit_time(flow, min(places * limits.HTTP_REQUEST_SECONDS, limits.CALL_WAIT_SECONDS))

    def resolve_one(self, text: str, *, both: bool = False) -> Flow[SkillRef]:
        """Return the one skill that a reference names; ``both`` adds the facts of Skill Sharing.

        Raises:
            UsageError: ``REFERENCE`` for several skills.
        """
        found = yield from self.resolve(text, both=both)
        if len(found) != 1:
            example = reference_to(found[0]) if found else f"{text}/name"
            raise UsageError("REFERENCE", f"{text} means {len(found)} skills", fix=f"name one, such as {example}")
        return found[0]

    def which(self, text: str, *, explain: bool) -> Flow[Resolution]:
        """Return the skills that a reference names, and how they were found; errors are part of the answer."""
        from skillwire.resolver.which import which  # noqa: PLC0415  # one command alone asks

        reference = parse_reference(text)
        yield from work(partial(self.access.allow, reference))
        addresses, policy, folder = self.access.addresses, self.policy, self.folder
        flow = which(reference, self.context, policy=policy, addresses=addresses, folder=folder, explain=explain)
        return (yield from self._limit_lookup(flow, reference.name))

    def files(self, skill: SkillRef) -> Flow[Files]:
        """Return the verified files of a skill."""
        if skill.rpc is not None:
            message = f"{skill.name} is at an endpoint of the Skills Protocol, which lists no files"
            fix = f"Read one that its SKILL.md names: skillwire cat {reference_to(skill)} SKILL.md"
            raise UsageError("USAGE", message, place=SourceLocation(skill.rpc.endpoint), fix=fix)
        (fetched,) = yield from fetch_contents([skill], self.context)
        return (yield from work(partial(open_content, skill, fetched, self.context)))

    def versions(self, skill: SkillRef) -> Flow[list[SkillRef]]:
        """Return the versions of a skill of an index, the highest first; none where its origin has no readable list."""
        if skill.git is not None:
            from skillwire.resolver.sources.git import GitSource  # noqa: PLC0415  # few skills are in repositories

            return (yield from GitSource(self.context).versions(skill))
        try:
            return (yield from AgentSkills(self.context).versions(Lookup(skill.index_url, skill.name)))
        except (FetchError, DecodeError, ValidationError):  # the trace has the attempt, and the index lists the skill
            return []

    def describe(self, skill: SkillRef) -> Flow[SkillDescriptor]:
        """Return the checked Skill Descriptor of a skill."""
        from skillwire.resolver.rank import describe  # noqa: PLC0415  # only where that protocol is spoken

        return self._limit_lookup(describe(skill, self.context))

    def prepare_call(
        self, skill: SkillRef, descriptor: SkillDescriptor | None, inputs: Mapping[str, Any], options: CallArguments
    ) -> Flow[PreparedCall]:
        """Check a call and return its request; a skill of an endpoint has no descriptor."""
        if descriptor is None:
            from skillwire.client import endpoint_calls  # noqa: PLC0415  # installing does without

            return endpoint_calls.prepare(skill, inputs, self.context, options)
        return self.calls.prepare(skill, descriptor, inputs, **options)

    def call(
        self, skill: SkillRef, descriptor: SkillDescriptor | None, inputs: Mapping[str, Any], options: CallArguments
    ) -> Flow[RemoteExecution]:
        """Call a skill; a skill of an endpoint has no descriptor."""
        if descriptor is None:
            from skillwire.client import endpoint_calls  # noqa: PLC0415  # installing does without

            return endpoint_calls.call(skill, inputs, self.context, options)
        return self.calls.call(skill, descriptor, inputs, **options)

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
                descriptor = yield from limit_time(self.describe(ref), providers.lookup_seconds())
                options = {**options, "timeout": providers.limit.left()}
                stage = "checking"
                prepared = yield from self.prepare_call(ref, descriptor, inputs, options)
                is_safe = prepared.method == "GET"
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
        from skillwire.resolver.sources.skill_sharing import read_bytes  # noqa: PLC0415  # only where that protocol is spoken

        yield from work(partial(self.access.allow_url, text))
        return (yield from read_bytes(text, self.context._replace(refresh=True)))

    def plan(
        self,
        references: Sequence[str],
        agents: Sequence[str],
        *,
        copy: bool | None,
        choose: Callable[[Sequence[SkillRef]], Sequence[SkillRef]] | None = None,
    ) -> Flow[InstallPlan]:
        """Return what adding would do, by indexes that are asked anew; of several skills those that are chosen."""
        if not (references or self.settings.skills):
            fix = "Name a skill, such as example.com/name, or give --frozen."
            raise UsageError("USAGE", "nothing to add", fix=fix)
        in_use = yield from work(self.agents_in_use)
        chosen = choose_agents(agents or self.settings.agents, in_use, for_user=self.for_user)
        skills: dict[str, SkillRef] = {}
        wanted: dict[str, str] = {}
        lock = yield from work(self.folder.read_lock)
        for reference in references or self.settings.skills:
            version = parse_reference(reference).version
            found: Sequence[SkillRef] = yield from self.resolve(reference, refresh=True, is_typed=bool(references))
            found = found if choose is None else (yield from work(partial(choose, found)))
            for offered in found:
                skill = yield from self._with_min_age(offered, lock.skills.get(offered.name), version)
                known = skills.get(skill.name, skill)
                if any(getattr(known, fact) != getattr(skill, fact) for fact in ("origin", "url", "digest", "git")):
                    raise UsageError("USAGE", f"two references mean a skill named {skill.name}")
                if skill.has_no_artifact:
                    raise no_digest(skill, is_logged_in=self.context.credential_for(skill.origin) is not None)
                check_release(skill, lock.skills.get(skill.name), version)
                skills[skill.name], wanted[skill.name] = skill, skill.git.ref if skill.git else version
        copy = self.settings.install == "copy" if copy is None else copy
        location = plan_placement(chosen, for_user=self.for_user, copy=copy)
        planned = [PlannedSkill(skill, location, chosen, wanted=wanted[name]) for name, skill in skills.items()]
        return (yield from self._plan_install([(row, [row.skill]) for row in planned], lock, copy=copy))

    def _with_min_age(self, skill: SkillRef, locked: LockedSkill | None, wanted: str) -> Flow[SkillRef]:
        """Return ``skill``, or its highest version that is old enough; raise ``VERSION_TOO_YOUNG`` without one."""
        is_exact = is_version(wanted) or wanted.startswith("sha256:") or (skill.git and wanted == skill.git.commit)
        is_locked = locked is not None and skill.digest is not None and locked.digest == skill.digest
        if is_exact or is_locked or meets_min_age(skill, self.context):
            return skill
        versions = (yield from self.versions(skill)) if skill.index_url or skill.git else []
        listed = next((one for one in versions if one.digest == skill.digest), skill)
        if meets_min_age(listed, self.context):
            return skill
        for other in usable_versions(versions, wanted):
            if meets_min_age(other, self.context):
                self.context.report(as_finding(too_young(listed)))
                return other
        raise too_young(listed)

    def _plan_install(
        self, named: Sequence[tuple[PlannedSkill, Sequence[SkillRef]]], lock: Lock, *, copy: bool | None = None
    ) -> Flow[InstallPlan]:
        """Plan to install one of the alternatives of each row, and what these require, in the places of the row.

        Each skill also stays where it is installed.
        """
        rows = {row.skill.name: row for row, _ in named}
        others = [locked for locked in lock.skills.values() if locked.name not in rows]
        kept = [
            InstalledRequirement(locked.name, parse_requirement(text), name)
            for locked in others
            for text, name in locked.requires.items()
        ]
        sources = DependencySources(self.context._replace(refresh=True), lock.skills, self.settings.registry)
        flow = select_skills([alternatives for _, alternatives in named], sources.find, kept)
        selection = yield from limit_time(flow, limits.DEPENDENCY_SECONDS)
        for name, skill in selection.skills.items():
            if finding := release_warning(skill):
                self.context.report(finding)
            chain = [*selection.chain(name)]
            row = rows.get(name) or rows[chain[0].partition(" ")[0]]._replace(wanted="", required_by=" -> ".join(chain))
            row = row._replace(skill=skill, requires=selection.met.get(name, {}))
            before = [agent for agent in (lock.skills[name].agents if name in lock.skills else ()) if agent in AGENTS]
            if not set(before) <= set(row.agents):
                agents = tuple(dict.fromkeys((*before, *row.agents)))
                copy = self.settings.install == "copy" if copy is None else copy
                location = plan_placement(agents, for_user=self.for_user, copy=copy)
                row = row._replace(agents=agents, location=location)
            rows[name] = row
        return (
            yield from plan_install(
                [*rows.values()], folder=self.folder, policy=self.policy, origins=self.context.origins
            )
        )

    def plan_locked(self, names: Sequence[str]) -> Flow[InstallPlan]:
        """Plan to install exactly the lock: these skills, or all; raise ``LOCK_MISSING``, ``NOT_INSTALLED``."""
        lock = yield from work(self.folder.read_lock)
        if not lock.skills:
            raise NotFoundError("LOCK_MISSING", f"{self.folder.lock_path} holds no skills")
        skills = select(lock, names)
        return (yield from plan_locked(skills, folder=self.folder, policy=self.policy, origins=self.context.origins))

    def compare(self, names: Sequence[str], to: str = "") -> Flow[list[UpdateComparison]]:
        """Compare installed skills, these or all, with their origins as they are now, or with a version ``to``."""
        lock = yield from work(self.folder.read_lock)
        skills = select(lock, names)

        def allow_accepted() -> None:
            """Allow the origins that the user has agreed to; a lock alone allows none."""
            for origin in {skill.origin for skill in skills if skill.index}:
                if self.policy.decide(origin, self.context.origins.look_up(origin)) == "allow":
                    self.access.allow_url(origin)

        yield from work(allow_accepted)
        context = self.context._replace(refresh=True)
        if to:
            rows = []
            for locked in skills:
                source, name = (GIT, locked.git.path) if locked.git else (AGENT_SKILLS, locked.name)
                url = locked.index or str(self.root / locked.url)
                reference = Reference(locked.name, (Lookup(url, name or None, source=source, version=to),), version=to)
                (latest,) = yield from resolve_reference(reference, context)
                check_release(latest, locked, to)
                rows.append(UpdateComparison(locked, "changed", latest, wanted=to))
        else:
            rows = yield from compare_with_origins(skills, context)
            rows = yield from without_young(rows, context)
        return [row._replace(required_by=conflicting(lock, row)) for row in rows]

    def plan_update(self, comparisons: Sequence[UpdateComparison]) -> Flow[InstallPlan]:
        """Plan to install the changed skills in their present places."""
        changed = []
        for locked, state, latest, _, others, _, to in comparisons:
            if latest is not None and state in {"changed", "unverifiable"}:
                row = PlannedSkill(latest, locked.placement, locked.agents, wanted=to)
                changed.append(
                    (row, [latest, *others, *([ref_of_locked(locked, self.root)] if locked.index and not to else [])])
                )
        return (yield from self._plan_install(changed, (yield from work(self.folder.read_lock))))

    def scene_skills(
        self, scene: str, capabilities: Sequence[str], origins: Sequence[str] = ()
    ) -> Flow[list[SkillRef]]:
        """Return installable skills for a scene: of the SkillCenter and the cache, then of ``origins`` or the sources.

        Those that declare the scene come first, then those that match its words. Spec: SDP §4.2.
        """
        query, words = Query(capabilities=tuple(capabilities), scenes=(scene,)), " ".join((scene, *capabilities))
        rungs = [] if origins else self.lan.rungs(query, asks_lan=False)
        places = [place for place in origins or self.settings.sources if place != "lan:"]

        def find_named(_: float) -> Flow[list[SkillRef]]:
            found = yield from self._read_places(places, None, are_typed=bool(origins))
            declaring = [skill for skill in found if scene in skill.scenes]
            declaring.sort(key=lambda skill: -sum(able in skill.capabilities for able in capabilities))
            return [*declaring, *(skill for skill, _ in _ranked(words, found))]

        if places:
            rungs.append(Rung(NAMED, find_named, is_always=True))
        by_reference: dict[str, SkillRef] = {}
        for skill in (yield from self._climb("", rungs)):
            if not skill.has_no_artifact:
                by_reference.setdefault(reference_to(skill), skill)
        return list(by_reference.values())

    def _climb(self, question: object, rungs: Sequence[Rung[SkillRef]]) -> Flow[list[SkillRef]]:
        """Return what the first rungs have, nothing of a silent network; keep how each ended, and report failures."""
        climb = self.context.open_ladder().climb(question, rungs)
        found: list[SkillRef] = []
        try:
            found = yield from climb.next()
        except SkillwireError:
            if not {error.code for error in climb.errors} <= _SILENT:
                raise
        finally:
            self._keep_rungs(climb.traces)
        from skillwire.resolver.rank import conflicting_digests  # noqa: PLC0415  # only searches have several sources

        if conflict := conflicting_digests(found):
            self.context.report(as_finding(conflict)._replace(level="error"))
        for error in climb.errors:
            if error.code not in _SILENT:
                self.context.report(as_finding(error)._replace(level="warning"))
        return found

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
        found = yield from self.scene_skills(scene, tuple(capabilities))
        chosen = (yield from work(partial(choose, found))) if found else None
        if chosen is None:
            return result
        plan = yield from self.plan([reference_to(chosen)], (), copy=None)
        yield from self.apply(plan, consent=True, overwrite=False)
        lock = yield from work(self.folder.read_lock)
        folder = self.root / lock.skills[chosen.name].placement.folders[0] / chosen.name
        return (yield from self.lan.provide_scene(folder, scene, capabilities))

    def add(
        self, references: Sequence[str], agents: Sequence[str], *, consent: bool, overwrite: bool, copy: bool | None
    ) -> Flow[InstallReport]:
        """Plan and apply."""
        plan = yield from self.plan(references, agents, copy=copy)
        return (yield from self.apply(plan, consent=consent, overwrite=overwrite))

    def update(
        self, names: Sequence[str], accept: Collection[str], *, consent: bool, overwrite: bool
    ) -> Flow[InstallReport]:
        """Compare, plan, inspect and apply; updates that ask for more than ``accept`` names are failures."""
        comparisons = yield from self.compare(names)
        plan = yield from self.plan_update(comparisons)
        if plan.unknown_origins and not consent:
            return (yield from self.apply(plan, consent=consent, overwrite=overwrite))  # raises
        plan = yield from self.inspect(plan, consent=consent)
        plan, held = yield from self.hold_back(plan, accept)
        report = yield from self.apply(plan, consent=consent, overwrite=overwrite)
        return report._replace(failed={**report.failed, **held})

    def outdated(self, names: Sequence[str]) -> Flow[list[UpdateComparison]]:
        """Return the comparisons that are not ``current``."""
        return [row for row in (yield from self.compare(names)) if row.state != "current"]

    def installed(self) -> Flow[list[LockedSkill]]:
        """Return the locked skills, by name."""
        return select((yield from work(self.folder.read_lock)), ())

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
                'Name an origin: skillwire find --from example.com, or set sources = ["example.com"] in skillwire.toml.'
            )
            raise UsageError("NO_SOURCES", "no origin to search is named, and no sources are configured", fix=fix)
        return _ranked(query, (yield from self._climb("", rungs)))

    def _read_places(
        self, places: Sequence[str], capability_type: str | None, *, are_typed: bool
    ) -> Flow[list[SkillRef]]:
        """Return the skills of all places; report those that cannot be read, and raise the first error if none can."""
        skills: list[SkillRef] = []
        failures: list[SkillwireError] = []
        for place in places:
            try:
                if are_typed:
                    skills += yield from self._find_at_reference(place, capability_type)
                else:  # a source of a project's file allows neither connecting nor sending secrets
                    skills += yield from self._limit_lookup(
                        find_skills(parse_source(place), self.context, capability_type)
                    )
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
            return (yield from self._limit_lookup(find_skills(location, self.context, capability_type)))
        found = yield from self.resolve(text, both=capability_type is not None)
        if capability_type is None:
            return found
        return [skill for skill in found if skill.shared and skill.shared.capability_type == capability_type]

    def agents_in_use(self) -> tuple[str, ...]:
        """Return the agents that have a folder of their own here."""
        return tuple(name for name, agent in AGENTS.items() if (self.root / agent.found_by).is_dir())

    def inspect(
        self, plan: InstallPlan, *, consent: bool = False, on_done: Callable[[], object] = lambda: None
    ) -> Flow[InstallPlan]:
        """Return a plan with a review of each skill, before a person decides about it."""
        yield from work(partial(self._allow_origins, plan, () if consent else plan.unknown_origins))
        return (yield from inspect_plan(plan, self.context, self.folder, on_done))

    def _allow_origins(self, plan: InstallPlan, but: Collection[str] = ()) -> None:
        """Allow to connect to the origins of a plan; its consent, new or old, permits it."""
        for origin in {planned.skill.origin for planned in plan.skills if not planned.skill.is_local}.difference(but):
            self.access.allow_url(origin)

    def hold_back(
        self, plan: InstallPlan, accepted: Collection[str], declined: Collection[str] = ()
    ) -> Flow[tuple[InstallPlan, dict[str, SkillwireError]]]:
        """Return an inspected plan without the updates that ask for more and were not accepted, and why."""
        lock = yield from work(self.folder.read_lock)
        return hold_back(plan, {check_accepted(one) for one in accepted}, declined, lock)

    def diff(self, text: str, version: str) -> Flow[SkillReview]:
        """Return what changes from an installed skill to its origin's, or from one version to another."""
        lock = yield from work(self.folder.read_lock)
        locked, old = lock.skills.get(text), None
        if locked is not None:
            (row,) = yield from self.compare([text], version)
            if row.latest is None:
                raise row.error or NotFoundError("SKILL_NOT_FOUND", f"{locked.origin} does not list {text} any more")
            new = row.latest
        else:
            new = yield from self.resolve_one(at_version(text, version) if version else text)
            old = (yield from self.resolve_one(text)) if version else None
            locked = None if version else lock.skills.get(new.name)
            if old is None and locked is None:
                fix = f"Name a version to compare with: skillwire diff {text} VERSION"
                raise UsageError("USAGE", f"{new.name} is not installed here, and one version is named", fix=fix)
        new_content, *old_content = yield from fetch_contents([new, *([old] if old else [])], self.context)

        def compare() -> SkillReview:
            files = open_content(new, new_content, self.context)
            old_files = open_content(old, old_content[0], self.context) if old else ()
            old_files = self.folder.read_files(locked) if locked is not None else old_files
            return compare_versions(new, files, old or locked, old_files, self.context.report)

        return (yield from work(compare))

    def apply(
        self, plan: InstallPlan, *, consent: bool, overwrite: bool, on_done: Callable[[], object] = lambda: None
    ) -> Flow[InstallReport]:
        """Apply a plan; raise ``ORIGIN_UNKNOWN`` without the consent that it needs."""
        if plan.unknown_origins and not consent:
            raise TrustError("ORIGIN_UNKNOWN", f"you have not agreed to install from {plan.unknown_origins[0]} yet")
        yield from work(partial(self._allow_origins, plan))
        rows = [row for row in plan.skills if row.locked is not None]
        skills = yield from with_releases([row.skill for row in rows], self.context._replace(refresh=True))
        for row, skill in zip(rows, skills, strict=True):
            check_release(skill, row.locked, "")
            if finding := release_warning(skill):
                self.context.report(finding)
        return (yield from apply_install(plan, self.context, self.folder, overwrite=overwrite, on_done=on_done))


def _ranked(query: str, skills: Sequence[SkillRef]) -> list[tuple[SkillRef, float]]:
    from skillwire.resolver.rank import rank  # noqa: PLC0415  # only a search ranks

    return rank(query, skills, lambda skill: (skill.name, skill.description))


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
    def rungs(self) -> tuple[RungTrace, ...]:
        """The sources that were tried for the last answer, in order: how each ended, after what time, and why."""
        return self._session.rungs

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
            ValidationError: ``origin`` is not a URL such as ``https://example.com``.
            UsageError: a header cannot hold ``token``.
        """
        self._session.set_token(origin, token)
