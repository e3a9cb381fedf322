"""The flows of a client from a reference to installed files: resolve, describe, plan, compare, inspect, apply.

The session opens the adapters that these flows use, and adds the flows that search and call.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

from skillwire import limits
from skillwire.errors import (
    DecodeError,
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    TrustError,
    UsageError,
    ValidationError,
    first_of,
)
from skillwire.model.package import parse_requirement
from skillwire.model.skill import is_version
from skillwire.resolver.agents import AGENTS, choose_agents, plan_placement
from skillwire.resolver.apply import (
    InstallReport,
    apply_install,
    fetch_contents,
    inspect_plan,
    no_digest,
    open_content,
)
from skillwire.resolver.context import ResolveContext, as_finding
from skillwire.resolver.lockfile import select
from skillwire.resolver.plan import (
    InstallPlan,
    InstallPolicy,
    PlannedSkill,
    UpdateComparison,
    check_release,
    compare_with_origins,
    conflicting,
    is_installed,
    meets_min_age,
    plan_install,
    plan_locked,
    ref_of_locked,
    release_warning,
    renamed,
    too_young,
    with_releases,
    without_young,
)
from skillwire.resolver.rank import check_digests, describe
from skillwire.resolver.references import Reference, at_version, parse_reference, reference_to, sharing_below
from skillwire.resolver.resolve import DependencySources, InstalledRequirement, select_skills
from skillwire.resolver.resolve import resolve as resolve_reference
from skillwire.resolver.review import check_accepted, compare_versions, hold_back
from skillwire.resolver.sources import AGENT_SKILLS, GIT, Lookup, open_source
from skillwire.resolver.sources.agent_skills import AgentSkills, usable_versions
from skillwire.wire.exchange import Flow, limit_time, work

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from skillwire.client.credentials import OriginAccess
    from skillwire.folder.review import SkillReview
    from skillwire.model.ref import Files, Lock, LockedSkill, SkillRef
    from skillwire.model.skill import Finding
    from skillwire.ports import SkillsFolder
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.resolver.ladder import RungTrace
    from skillwire.resolver.settings import Settings
    from skillwire.resolver.sources.git import GitSource
    from skillwire.resolver.which import Resolution
    from skillwire.wire.exchange import TimeLimit

T = TypeVar("T")
_NAMED: Final = 24  # skills in a message
#: Codes of what the index of one moment and the descriptor of another can cause.
_MAY_BE_STALE: Final = frozenset({"DIGEST_CONFLICT", "VERSION_NOT_FOUND"})


class InstallFlows:
    """The use cases around the lock of one project; the session sets what they use."""

    access: OriginAccess
    context: ResolveContext
    folder: SkillsFolder
    for_user: bool
    policy: InstallPolicy
    root: Path
    rungs: tuple[RungTrace, ...] = ()
    settings: Settings

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

    def resolve_one(
        self, text: str, *, refresh: bool = False, both: bool = False, is_typed: bool = True
    ) -> Flow[SkillRef]:
        """Return the one skill that a reference names; the arguments are those of :meth:`resolve`.

        Raises:
            UsageError: ``REFERENCE`` for several skills.
        """
        found = yield from self.resolve(text, refresh=refresh, both=both, is_typed=is_typed)
        if len(found) != 1:
            example = reference_to(found[0]) if found else f"{text}/name"
            message = f"{text} means {len(found)} skills: {first_of([skill.name for skill in found], _NAMED)}"
            raise UsageError("REFERENCE", message.rstrip(": "), fix=f"Name one, such as {example}.")
        return found[0]

    def describe(self, skill: SkillRef, reference: str = "") -> Flow[tuple[SkillRef, SkillDescriptor]]:
        """Return a skill and its checked Skill Descriptor, both read anew where cached copies contradict each other.

        The cache may have the index of one moment and the descriptor of another. ``reference`` is what the user typed.
        A descriptor that differs from the index is used, with a warning, where it cannot be read anew.
        """
        is_final = self.context.refresh or self.context.offline
        differing: list[Finding] = []

        def report(finding: Finding) -> None:
            is_held = finding.code == "INDEX_DIFFERS" and not is_final
            (differing.append if is_held else self.context.report)(finding)

        descriptor: SkillDescriptor | None = None
        try:
            descriptor = yield from self._limit_lookup(describe(skill, self.context._replace(report=report)))
        except (NotFoundError, TrustError) as error:
            if error.code not in _MAY_BE_STALE or is_final:
                raise
        if descriptor is not None and not differing:
            return skill, descriptor
        try:
            return (yield from self._describe_anew(skill, reference))
        except SkillwireError as error:
            if descriptor is None or isinstance(error, TrustError):
                raise
        for finding in differing:
            self.context.report(finding)
        return skill, descriptor

    def _describe_anew(self, skill: SkillRef, reference: str) -> Flow[tuple[SkillRef, SkillDescriptor]]:
        if skill.lan is None:  # else its index was not from the cache
            text, both = reference or reference_to(skill), skill.shared is not None
            skill = yield from self.resolve_one(text, refresh=True, both=both, is_typed=bool(reference))
        return skill, (yield from self._limit_lookup(describe(skill, self.context._replace(refresh=True))))

    def retry_with_current_inputs(
        self,
        skill: SkillRef,
        descriptor: SkillDescriptor | None,
        attempt: Callable[[SkillRef, SkillDescriptor | None], Flow[T]],
        reference: str,
        limit: TimeLimit,
    ) -> Flow[T]:
        """Return what ``attempt`` returns; refused inputs are tried again where a descriptor read anew is another one.

        The cache may have the descriptor of a version before, whose inputs are not those of the skill that runs. A call
        that was sent is sent again only to the same endpoint in the same way: the user's consent was for that one.
        """
        try:
            return (yield from attempt(skill, descriptor))
        except ValidationError as error:
            is_refused = error.code == "VALIDATION_ERROR" and error.may_be_accepted is False
            if not is_refused or descriptor is None or self.context.refresh or self.context.offline:
                raise
            refusal = error
        try:
            skill, present = yield from limit_time(self._describe_anew(skill, reference), limit.left())
        except SkillwireError:
            raise refusal from None
        was_sent = "errors" not in refusal.details  # the check before sending lists them, and no provider's refusal can
        if present == descriptor or (was_sent and _destination(present) != _destination(descriptor)):
            raise refusal
        return (yield from attempt(skill, present))

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
            python = f"client.show({reference_to(skill)!r}).open('SKILL.md')"
            raise UsageError("USAGE", message, place=SourceLocation(skill.rpc.endpoint), fix=fix, in_python=python)
        (fetched,) = yield from fetch_contents([skill], self.context)
        return (yield from work(partial(open_content, skill, fetched, self.context)))

    def versions(self, skill: SkillRef) -> Flow[list[SkillRef]]:
        """Return the versions of a skill of an index, the highest first; none where its origin has no readable list."""
        if skill.git is not None:
            return (yield from cast("GitSource", open_source(GIT, self.context)).versions(skill))
        try:
            return (yield from AgentSkills(self.context).versions(Lookup(skill.index_url, skill.name)))
        except (FetchError, DecodeError, ValidationError):  # the trace has the attempt, and the index lists the skill
            return []

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
            raise UsageError("USAGE", "nothing to add", fix=fix, in_python="client.apply(client.plan_locked())")
        in_use = yield from work(self.agents_in_use)
        chosen = choose_agents(agents or self.settings.agents, in_use, for_user=self.for_user)
        skills: dict[str, SkillRef] = {}
        wanted: dict[str, str] = {}
        tried: list[RungTrace] = []
        lock = yield from work(self.folder.read_lock)
        for reference in references or self.settings.skills:
            version = parse_reference(reference).version
            found: Sequence[SkillRef] = yield from self.resolve(reference, refresh=True, is_typed=bool(references))
            tried += self.rungs
            self.rungs = tuple(tried)
            yield from self._check_digests(found)
            found = found if choose is None else (yield from work(partial(choose, found)))
            for offered in found:
                skill = yield from self._with_min_age(offered, lock.skills.get(offered.name), version)
                known = skills.get(skill.name, skill)
                if any(getattr(known, fact) != getattr(skill, fact) for fact in ("origin", "url", "digest", "git")):
                    raise UsageError("USAGE", f"two references mean a skill named {skill.name}")
                skill = yield from self._with_former_origin(skill, lock.skills.get(skill.name))
                if skill.has_no_artifact:
                    raise no_digest(skill, is_logged_in=self.context.credential_for(skill.origin) is not None)
                check_release(skill, lock.skills.get(skill.name), version)
                skills[skill.name], wanted[skill.name] = skill, skill.git.ref if skill.git else version
        copy = self.settings.install == "copy" if copy is None else copy
        location = plan_placement(chosen, for_user=self.for_user, copy=copy)
        planned = [PlannedSkill(skill, location, chosen, wanted=wanted[name]) for name, skill in skills.items()]
        return (yield from self._plan_install([(row, [row.skill]) for row in planned], lock, copy=copy))

    def _check_digests(self, found: Sequence[SkillRef]) -> Flow[None]:
        """Raise ``DIGEST_CONFLICT`` where the cache has the site's index of Skill Sharing, and it disagrees."""
        if not found or not found[0].index_url or found[0].rpc is not None:
            return
        url = sharing_below(found[0].origin).url
        kept = yield from work(partial(self.context.cache.look_up, url, self.context.credential_for(url)))
        if kept is not None:
            yield from check_digests(found, self.context)

    def _with_min_age(self, skill: SkillRef, locked: LockedSkill | None, wanted: str) -> Flow[SkillRef]:
        """Return ``skill``, or its highest version that is old enough; raise ``VERSION_TOO_YOUNG`` without one."""
        is_exact = is_version(wanted) or wanted.startswith("sha256:") or (skill.git and wanted == skill.git.commit)
        is_locked = locked is not None and (
            locked.digest == skill.digest is not None
            if skill.git is None
            else locked.git is not None and locked.git.commit == skill.git.commit
        )
        if is_exact or is_locked or meets_min_age(skill, self.context):
            return skill
        versions = (yield from self.versions(skill)) if skill.index_url or skill.git else []
        listed = next((one for one in versions if (one.version, one.digest) == (skill.version, skill.digest)), skill)
        if meets_min_age(listed, self.context):
            return skill
        for other in usable_versions(versions, wanted):
            if meets_min_age(other, self.context):
                self.context.report(as_finding(too_young(listed)))
                return other
        raise too_young(listed)

    def _with_former_origin(self, skill: SkillRef, locked: LockedSkill | None) -> Flow[SkillRef]:
        """Return ``skill`` with the origin in the lock as its former one, where its own registry redirects that."""
        is_other = locked is not None and locked.origin != skill.origin and locked.git is None
        site = skill.origin.rpartition("/@")[0]
        if not (is_other and locked and site and locked.origin.rpartition("/@")[0] == site):
            return skill
        context = self.context._replace(refresh=True, report=lambda _: None, trace=lambda _: None)
        try:
            versions = yield from AgentSkills(context).versions(Lookup(locked.index, locked.name))
        except SkillwireError:  # then it was installed from another origin
            return skill
        is_moved = any((one.origin, one.name) == (skill.origin, skill.name) for one in versions)
        return skill._replace(former_origin=locked.origin) if is_moved else skill

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

    def compare(self, names: Sequence[str], to: str = "", *, is_shown: bool = False) -> Flow[list[UpdateComparison]]:
        """Compare installed skills, these or all, with their origins as they are now, or with a version ``to``.

        One that is only shown may be yanked if ``to`` names it exactly.
        """
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
                if locked.index and not locked.git and latest.name != locked.name:
                    raise renamed(locked, latest)
                latest = yield from self._with_min_age(latest, locked, to)
                is_exact = is_shown and is_version(to)
                check_release(latest, locked, str(latest.digest) if is_exact else to)
                is_same = is_installed(latest, locked)
                rows.append(UpdateComparison(locked, "current" if is_same else "changed", latest, wanted=to))
        else:
            rows = yield from compare_with_origins(skills, context)
            rows = yield from without_young(rows, context)
        return [row._replace(required_by=conflicting(lock, row)) for row in rows]

    def plan_update(self, comparisons: Sequence[UpdateComparison]) -> Flow[InstallPlan]:
        """Plan to install the changed skills in their present places, and to lock the version or range asked for."""
        changed = []
        for locked, state, latest, _, others, _, to in comparisons:
            if latest is not None and (to or state in {"changed", "unverifiable"}):
                row = PlannedSkill(latest, locked.placement, locked.agents, wanted=to)
                changed.append(
                    (row, [latest, *others, *([ref_of_locked(locked, self.root)] if locked.index and not to else [])])
                )
        return (yield from self._plan_install(changed, (yield from work(self.folder.read_lock))))

    def add(
        self, references: Sequence[str], agents: Sequence[str], *, consent: bool, overwrite: bool, copy: bool | None
    ) -> Flow[InstallReport]:
        """Plan and apply."""
        plan = yield from self.plan(references, agents, copy=copy)
        return (yield from self.apply(plan, consent=consent, overwrite=overwrite))

    def update(
        self, names: Sequence[str], accept: Collection[str], *, consent: bool, overwrite: bool
    ) -> Flow[InstallReport]:
        """Compare, plan, inspect and apply; updates that need permissions beyond ``accept`` are reported as failed."""
        comparisons = yield from self.compare(names)
        plan = yield from self.plan_update(comparisons)
        if plan.unknown_origins and not consent:
            return (yield from self.apply(plan, consent=consent, overwrite=overwrite))  # raises
        plan = yield from self.inspect(plan, consent=consent)
        plan, held = yield from self.withhold_updates(plan, accept)
        report = yield from self.apply(plan, consent=consent, overwrite=overwrite)
        current = (row.locked.name for row in comparisons if row.state == "current")
        return report._replace(unchanged=(*report.unchanged, *current), failed={**report.failed, **held})

    def outdated(self, names: Sequence[str]) -> Flow[list[UpdateComparison]]:
        """Return the comparisons that are not ``current``."""
        return [row for row in (yield from self.compare(names)) if row.state != "current"]

    def installed(self) -> Flow[list[LockedSkill]]:
        """Return the locked skills, by name."""
        return select((yield from work(self.folder.read_lock)), ())

    def agents_in_use(self) -> tuple[str, ...]:
        """Return the agents that have a folder of their own here."""
        return tuple(name for name, agent in AGENTS.items() if (self.root / agent.found_by).is_dir())

    def inspect(
        self, plan: InstallPlan, *, consent: bool = False, on_done: Callable[[], object] = lambda: None
    ) -> Flow[InstallPlan]:
        """Return a plan with a review of each skill, before a person decides about it."""
        yield from work(partial(self._allow_origins, plan, () if consent else plan.unknown_origins))
        return (yield from inspect_plan(plan, self.context, self.folder, on_done, consent=consent))

    def _allow_origins(self, plan: InstallPlan, but: Collection[str] = ()) -> None:
        """Allow to connect to the origins of a plan; its consent, new or old, permits it."""
        for origin in {planned.skill.origin for planned in plan.skills if not planned.skill.is_local}.difference(but):
            self.access.allow_url(origin)

    def withhold_updates(
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
            (row,) = yield from self.compare([text], version, is_shown=True)
            if row.latest is None:
                raise row.error or NotFoundError("SKILL_NOT_FOUND", f"{locked.origin} does not list {text} any more")
            new = row.latest
        else:
            new = yield from self.resolve_one(at_version(text, version) if version else text)
            old = (yield from self.resolve_one(text)) if version else None
            locked = None if version else lock.skills.get(new.name)
            if old is None and locked is None:
                fix = f"Name a version to compare with: skillwire diff {text} VERSION"
                message = f"{new.name} is not installed here, and one version is named"
                raise UsageError("USAGE", message, fix=fix, in_python=f"client.diff({text!r}, VERSION)")
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


def _destination(descriptor: SkillDescriptor) -> tuple[object, ...]:
    return descriptor.endpoint.url, descriptor.endpoint.method, descriptor.auth
