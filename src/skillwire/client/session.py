"""What both clients hold and neither shows: one project's files, the settings, and every use case as a flow.

What is known of a skill at its origin, and what is read out of its files once they are here.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skillwire.adapters.files.atomic import cache_directory, state_directory
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.client_cache import FileOriginBook, FileResponseCache
from skillwire.adapters.files.install_folder import FileSkillsFolder
from skillwire.adapters.files.settings_file import load_settings
from skillwire.client.credentials import OriginAccess
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, TrustError, UsageError
from skillwire.resolver.agents import AGENTS, choose_agents, plan_placement
from skillwire.resolver.apply import apply_install, fetch_contents, no_digest, open_content
from skillwire.resolver.context import ResolveContext, as_finding
from skillwire.resolver.lockfile import did_you_mean, remove, select, verify
from skillwire.resolver.plan import InstallPolicy, PlannedSkill, compare_with_origins, plan_install, plan_locked
from skillwire.resolver.references import parse_reference, parse_source, reference_to
from skillwire.resolver.resolve import find_skills
from skillwire.resolver.resolve import resolve as resolve_reference
from skillwire.resolver.sources.folder import load_folders, load_local
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.client.calls import CallArguments, Calls, PreparedCall
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.install import LockedSkill, OriginRecord
    from skillwire.model.ref import Files, SkillRef
    from skillwire.model.skill import Finding
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.lockfile import Verification
    from skillwire.resolver.plan import InstallPlan, UpdateComparison
    from skillwire.resolver.settings import Settings
    from skillwire.resolver.which import Resolution
    from skillwire.wire.exchange import Flow


T = TypeVar("T")


class ClientSession:
    """The files of one project, the settings, and every use case as a flow.

    The arguments are those of :class:`skillwire.AsyncClient`.
    """

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
        self.root = Path.home() if for_user else project
        self.folder = FileSkillsFolder(self.root, self.root / ".agents/skills.lock" if for_user else None, report)
        self.policy = policy or InstallPolicy(frozenset(self.settings.trusted_origins), self.settings.only_trusted)
        self.access = OriginAccess(AddressPolicy(allow=self.settings.allow))
        for origin, token in tokens.items():
            self.access.set_token(origin, token)
        cache = cache_directory()
        self._book = FileOriginBook(state_directory() / "origins.json")
        self.context = ResolveContext(
            cache=FileResponseCache(cache / "responses"),
            blobs=FileBlobs(cache / "blobs"),
            origins=self._book,
            credentials=self.access.credentials,
            clock=time.time,
            report=report,
            sources=self.settings.sources,
            offline=self.settings.offline if offline is None else offline,
            refresh=refresh,
            addresses=lambda: self.access.addresses,
            explain=self.access.explain,
        )
        for source in self.settings.own_sources if settings is None else settings.sources:
            self.access.allow(parse_reference(source))
        self._calls: Calls | None = None

    @property
    def calls(self) -> Calls:
        """Makes calls and follows them; one as long as the session, since it knows which origins fail."""
        if self._calls is None:
            from skillwire.client.calls import Calls  # noqa: PLC0415  # installing does without

            self._calls = Calls(self.context, self.access)
        return self._calls

    @calls.setter
    def calls(self, calls: Calls) -> None:
        self._calls = calls

    def resolve(self, text: str, *, refresh: bool = False) -> Flow[list[SkillRef]]:
        """Find what a reference means: one skill, or all of an index or of a folder of folders.

        With ``refresh`` the origin is asked even where the cache is fresh.
        """
        reference = parse_reference(text)
        if reference.path is not None:
            return (yield from load_folders(Path(reference.path).expanduser(), self.root))
        yield from work(partial(self.access.allow, reference))
        return (
            yield from resolve_reference(reference, self.context._replace(refresh=True) if refresh else self.context)
        )

    def resolve_one(self, text: str, *, both: bool = False) -> Flow[SkillRef]:
        """Find the one skill that a reference means; with ``both`` ask Skill Sharing, too, what it says of it.

        Raises:
            UsageError: ``REFERENCE`` when it means several.
        """
        found = yield from self.resolve(text)
        if len(found) != 1:
            example = reference_to(found[0]) if found else f"{text}/name"
            raise UsageError("REFERENCE", f"{text} means {len(found)} skills", fix=f"name one, such as {example}")
        if both:
            from skillwire.resolver.merge import add_facts  # noqa: PLC0415  # installing does without

            found = yield from add_facts(found, self.context)
        return found[0]

    def which(self, text: str, *, explain: bool) -> Flow[Resolution]:
        """Find what a reference means, and how it was found; what went wrong is part of the answer."""
        from skillwire.resolver.which import which  # noqa: PLC0415  # one command alone asks

        reference = parse_reference(text)
        yield from work(partial(self.access.allow, reference))
        addresses = self.access.addresses
        return (
            yield from which(
                reference,
                self.context,
                policy=self.policy,
                addresses=addresses,
                folder=self.folder,
                explain=explain,
            )
        )

    def files(self, skill: SkillRef) -> Flow[Files]:
        """Return the verified files of a skill."""
        if skill.rpc is not None:
            message = f"{skill.name} is at an endpoint of the Skills Protocol, which lists no files"
            fix = f"Read one that its SKILL.md names: skillwire cat {reference_to(skill)} SKILL.md"
            raise UsageError("USAGE", message, place=SourceLocation(skill.rpc.endpoint), fix=fix)
        (fetched,) = yield from fetch_contents([skill], self.context)
        return (yield from work(partial(open_content, skill, fetched, self.context)))

    def describe(self, skill: SkillRef) -> Flow[SkillDescriptor]:
        """Return the checked Skill Descriptor of a skill."""
        from skillwire.resolver.merge import describe  # noqa: PLC0415  # only where that protocol is spoken

        return (yield from describe(skill, self.context))

    def prepare_call(
        self, skill: SkillRef, descriptor: SkillDescriptor | None, inputs: Mapping[str, Any], options: CallArguments
    ) -> Flow[PreparedCall]:
        """Check a call and return the request that would be sent; a skill of an endpoint has no descriptor."""
        if descriptor is None:
            from skillwire.client import endpoint_calls  # noqa: PLC0415  # installing does without

            return (yield from endpoint_calls.prepare(skill, inputs, self.context, options))
        return (yield from self.calls.prepare(skill, descriptor, inputs, **options))

    def call(
        self, skill: SkillRef, descriptor: SkillDescriptor | None, inputs: Mapping[str, Any], options: CallArguments
    ) -> Flow[RemoteExecution]:
        """Call a skill; a skill of an endpoint has no descriptor."""
        if descriptor is None:
            from skillwire.client import endpoint_calls  # noqa: PLC0415  # installing does without

            return (yield from endpoint_calls.call(skill, inputs, self.context, options))
        return (yield from self.calls.call(skill, descriptor, inputs, **options))

    def sharing_document(self, text: str) -> Flow[bytes]:
        """Return the bytes of a document of Skill Sharing, whatever they are."""
        from skillwire.resolver.sources.skill_sharing import read_bytes  # noqa: PLC0415  # only where that protocol is spoken

        yield from work(partial(self.access.allow_url, text))
        return (yield from read_bytes(text, self.context._replace(refresh=True)))

    def plan(self, references: Sequence[str], agents: Sequence[str], *, copy: bool | None) -> Flow[InstallPlan]:
        """Decide what adding would do, by indexes that are asked about anew."""
        in_use = yield from work(self.agents_in_use)
        chosen = choose_agents(agents or self.settings.agents, in_use, for_user=self.for_user)
        skills: dict[str, SkillRef] = {}
        for reference in references:
            for skill in (yield from self.resolve(reference, refresh=True)):
                known = skills.get(skill.name, skill)
                if (known.origin, known.url, known.digest) != (skill.origin, skill.url, skill.digest):
                    raise UsageError("USAGE", f"two references mean a skill named {skill.name}")
                if skill.has_no_artifact:
                    has_credential = self.context.credential_for(skill.origin) is not None
                    raise no_digest(skill, is_logged_in=has_credential)
                skills[skill.name] = skill
        as_copy = self.settings.install == "copy" if copy is None else copy
        location = plan_placement(chosen, for_user=self.for_user, copy=as_copy)
        planned = [PlannedSkill(skill, location, chosen) for skill in skills.values()]
        return (yield from plan_install(planned, folder=self.folder, policy=self.policy, origins=self.context.origins))

    def plan_locked(self, names: Sequence[str]) -> Flow[InstallPlan]:
        """Plan to install exactly what the lock says: these skills, or all.

        Raises:
            NotFoundError: ``LOCK_MISSING``; ``NOT_INSTALLED`` for a name that the lock does not have.
        """
        lock = yield from work(self.folder.read_lock)
        if not lock.skills:
            raise NotFoundError("LOCK_MISSING", f"{self.folder.lock_path} holds no skills")
        plan = yield from plan_locked(
            select(lock, names), folder=self.folder, policy=self.policy, origins=self.context.origins
        )
        return plan

    def compare(self, names: Sequence[str]) -> Flow[list[UpdateComparison]]:
        """Compare installed skills, these or all, with what their origins have now: each index is asked about anew."""
        lock = yield from work(self.folder.read_lock)
        skills = select(lock, names)
        yield from work(partial(self._allow_locked, skills))
        return (
            yield from compare_with_origins(
                skills, self.context._replace(refresh=True), lambda locked: load_local(locked, self.root)
            )
        )

    def plan_update(self, comparisons: Sequence[UpdateComparison]) -> Flow[InstallPlan]:
        """Plan to install what has changed, where it stands now."""
        changed = [
            PlannedSkill(comparison.latest, comparison.locked.placement, comparison.locked.agents)
            for comparison in comparisons
            if comparison.latest is not None and comparison.state in {"changed", "unverifiable"}
        ]
        return plan_install(changed, folder=self.folder, policy=self.policy, origins=self.context.origins)

    def add(
        self,
        references: Sequence[str],
        agents: Sequence[str],
        *,
        consent: bool,
        overwrite: bool,
        copy: bool | None,
    ) -> Flow[InstallReport]:
        """Plan and apply."""
        plan = yield from self.plan(references, agents, copy=copy)
        return (yield from self.apply(plan, consent=consent, overwrite=overwrite))

    def update(self, names: Sequence[str], *, consent: bool, overwrite: bool) -> Flow[InstallReport]:
        """Compare, plan and apply."""
        comparisons = yield from self.compare(names)
        plan = yield from self.plan_update(comparisons)
        return (yield from self.apply(plan, consent=consent, overwrite=overwrite))

    def outdated(self, names: Sequence[str]) -> Flow[list[UpdateComparison]]:
        """Return the comparisons that are not ``current``."""
        return [row for row in (yield from self.compare(names)) if row.state != "current"]

    def installed(self) -> Flow[list[LockedSkill]]:
        """Return what the lock says is installed, by name."""
        lock = yield from work(self.folder.read_lock)
        return select(lock, ())

    def verify(self, names: Sequence[str]) -> Flow[Verification]:
        """Compare what stands on disk, these skills or all, with the lock."""
        return verify(self.folder, names)

    def remove(self, names: Sequence[str]) -> Flow[list[LockedSkill]]:
        """Take the skills of these names away, and out of the lock."""
        return remove(self.folder, names)

    def trusted_origins(self) -> Flow[dict[str, OriginRecord]]:
        """Return what is remembered of the origins that someone agreed to."""
        records = yield from work(self._book.records)
        return {base: record for base, record in records.items() if record.accepted}

    def revoke_trust(self, text: str, *, dry_run: bool) -> Flow[list[str]]:
        """Take back the consent to the origin that ``text`` names, with or without its scheme.

        Raises:
            NotFoundError: ``ORIGIN_NOT_ACCEPTED``, with those that look alike.
        """
        accepted = yield from self.trusted_origins()
        meant = {text, *(lookup.base for lookup in parse_reference(text).lookups if lookup.name is None)}
        found = [base for base in accepted if base in meant or base.partition("://")[2] in meant]
        if not found:
            message = f"nobody has agreed to install from {ascii(text)[1:-1][:120]}"
            raise NotFoundError("ORIGIN_NOT_ACCEPTED", message, fix=did_you_mean(text, accepted))
        for base in () if dry_run else found:
            yield from work(partial(self._book.withdraw, base))
        return found

    def search(
        self, query: str, origins: Sequence[str] | str, capability_type: str | None
    ) -> Flow[list[tuple[SkillRef, float]]]:
        """Search the indexes of ``origins``, or of the configured sources; best first.

        Both protocols of a place are asked; a capability type narrows it to what Skill Sharing lists as such.
        An origin that cannot be read is reported; when none can be, the first error is raised.
        """
        from skillwire.resolver.rank import rank  # noqa: PLC0415  # only a search ranks

        origins = [origins] if isinstance(origins, str) else origins
        places = list(origins or self.settings.sources)
        if not places:
            raise UsageError("NO_SOURCES", "no place to search is named, and no sources are configured")
        skills: list[SkillRef] = []
        failures: list[SkillwireError] = []
        for place in places:
            try:
                find_all = self._find_at_reference if origins else self._find_at_source
                skills += yield from find_all(place, capability_type)
            except SkillwireError as error:
                self.access.explain(error)
                failures.append(error)
        if failures and len(failures) == len(places):
            raise failures[0]
        for failure in failures:
            self.context.report(as_finding(failure)._replace(level="warning"))
        return rank(query, skills, lambda skill: (skill.name, skill.description))

    def _find_at_reference(self, text: str, capability_type: str | None) -> Flow[list[SkillRef]]:
        """Find the skills of a place that was typed: an origin's by both protocols, or what else a reference means."""
        reference = parse_reference(text)
        location = reference.registry if capability_type is not None else None
        if len(reference.lookups) == 1 and reference.lookups[0].name is None:
            location = reference.lookups[0]
        if location is not None:
            yield from work(partial(self.access.allow, reference))
            return (yield from find_skills(location, self.context, capability_type))
        found = yield from self.resolve(text)
        return found if capability_type is None else [skill for skill in found if _is_of(skill, capability_type)]

    def _find_at_source(self, source: str, capability_type: str | None) -> Flow[list[SkillRef]]:
        """Find the skills of a source. One that a project sets allows neither connecting nor sending secrets."""
        return find_skills(parse_source(source), self.context, capability_type)

    def agents_in_use(self) -> tuple[str, ...]:
        """Return the agents that have a folder of their own here."""
        return tuple(name for name, agent in AGENTS.items() if (self.root / agent.found_by).is_dir())

    def apply(
        self, plan: InstallPlan, *, consent: bool, overwrite: bool, on_done: Callable[[], object] = lambda: None
    ) -> Flow[InstallReport]:
        """Do what a plan says.

        Raises:
            TrustError: ``ORIGIN_UNKNOWN`` when consent is needed and not given.
        """
        if plan.unknown_origins and not consent:
            raise TrustError("ORIGIN_UNKNOWN", f"nobody has agreed to install from {plan.unknown_origins[0]} yet")
        yield from work(partial(self._allow_planned, plan))
        return (yield from apply_install(plan, self.context, self.folder, overwrite=overwrite, on_done=on_done))

    def _allow_planned(self, plan: InstallPlan) -> None:
        """Take the consent to a plan, just given or of long ago, as permission to connect to its origins."""
        for origin in {planned.skill.origin for planned in plan.skills if not planned.skill.is_local}:
            self.access.allow_url(origin)

    def _allow_locked(self, skills: Sequence[LockedSkill]) -> None:
        """Allow the origins of installed skills that the user has agreed to; a lock alone allows nothing."""
        for origin in {skill.origin for skill in skills if skill.index}:
            record = self.context.origins.look_up(origin)
            if self.policy.decide(origin, record) == "allow":
                self.access.allow_url(origin)


def _is_of(skill: SkillRef, capability_type: str) -> bool:
    return skill.shared is not None and skill.shared.capability_type == capability_type
