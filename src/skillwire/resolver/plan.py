"""Plans of installations: the changes that an installation would make, and the decisions that it needs.

The user consents to unknown origins and to overwriting foreign files; :mod:`skillwire.resolver.apply` then applies the
plan. An agent will follow the instructions of a skill, so the user or the settings permit its origin, never a default:
:class:`InstallPolicy`. :func:`plan_locked` installs the exact bytes of ``skills.lock`` without an
index. :func:`compare_with_origins` compares installed skills by digest, without fetching an artifact; an origin without
digests can only be fetched again.

Trust: a lock comes with a project, which may be an untrusted clone.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import quote

from skillwire.codes import CODES
from skillwire.errors import ConflictError, SkillwireError, SourceLocation, TrustError, UsageError, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.package import parse_requirement, version_order
from skillwire.model.ref import IndexedFile, InstallLocation, LockedSkill, Release, SkillRef
from skillwire.model.skill import SKILL_MD, Finding, is_version
from skillwire.model.url import parse_url
from skillwire.resolver.context import timestamp
from skillwire.resolver.lockfile import LOCK_NAME
from skillwire.resolver.sources import GIT, Lookup, open_source
from skillwire.resolver.sources.agent_skills import AgentSkills, is_namespace_at, usable_versions
from skillwire.wire.exchange import limit_time, run_all, work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from skillwire.folder.review import SkillReview
    from skillwire.model.ref import Files, Lock, OriginRecord
    from skillwire.model.skill import FileContent
    from skillwire.ports import OriginBook, SkillsFolder
    from skillwire.resolver.context import ResolveContext
    from skillwire.wire.exchange import Flow


State = Literal["new", "update", "unchanged", "conflict"]
#: Comparing more skills with their origins would cost a request each.
_RELEASES_ASKED: Final = 8
_RELEASE_SECONDS: Final = 5.0  # an origin that does not answer delays an installation from the cache no longer


class PlannedSkill(NamedTuple):
    """One skill of a plan, its locations and agents.

    ``locked`` is the row of the lock whose exact bytes must be installed, ``wanted`` the requested version or range.
    ``inspected`` is the review of its files, or the error of the inspection.
    """

    skill: SkillRef
    location: InstallLocation
    agents: tuple[str, ...]
    state: State = "new"
    reason: str = ""
    locked: LockedSkill | None = None
    wanted: str = ""
    requires: Mapping[str, str] = {}  # requirement → name of the skill that meets it
    required_by: str = ""  # the chain of skills that led to it; empty for a named one
    inspected: SkillReview | SkillwireError | None = None

    @property
    def content(self) -> list[FileContent] | SkillwireError | None:
        """The files of an inspection, or its error; None if the files have yet to be fetched."""
        if self.inspected is None or isinstance(self.inspected, SkillwireError):
            return self.inspected
        return list(self.inspected.files) or None


class InstallPlan(NamedTuple):
    """The effect of an ``add`` or ``update``. ``unknown_origins`` need the user's consent first."""

    skills: tuple[PlannedSkill, ...]
    unknown_origins: tuple[str, ...] = ()

    @property
    def conflicts(self) -> tuple[PlannedSkill, ...]:
        """The skills that would overwrite something."""
        return tuple(planned for planned in self.skills if planned.state == "conflict")

    @property
    def pending(self) -> tuple[PlannedSkill, ...]:
        """The skills that would change something."""
        return tuple(planned for planned in self.skills if planned.state != "unchanged")


def plan_install(
    skills: Sequence[PlannedSkill],
    *,
    folder: SkillsFolder,
    policy: InstallPolicy,
    origins: OriginBook,
) -> Flow[InstallPlan]:
    """Return what installing ``skills`` would do, each with its state; raise ``ORIGIN_REFUSED``."""
    former = {planned.skill.origin: planned.skill.former_origin for planned in skills if planned.skill.former_origin}

    def compare() -> tuple[PlannedSkill, ...]:
        lock = folder.read_lock()
        return tuple(compare_with_folder(planned, folder, lock) for planned in skills)

    rows = yield from work(compare)

    def find_unknown() -> tuple[str, ...]:
        """Consent to a namespace is also for its present name."""
        asked = unknown_origins(_bases(rows), policy, origins)
        return tuple(one for one in asked if one not in former or unknown_origins([former[one]], policy, origins))

    return InstallPlan(rows, (yield from work(find_unknown)))


def _bases(rows: Iterable[PlannedSkill]) -> set[str]:
    """Return what needs consent: origins, and other sites whose artifacts a lock names, which no index confirms."""
    remote = [row for row in rows if not row.skill.is_local]
    bases = {row.skill.origin for row in remote}
    locked = [row.skill for row in remote if row.skill.found_via == LOCK_NAME and row.state != "unchanged"]
    named = {parse_url(skill.url).origin for skill in locked}
    return bases | (named - {parse_url(base).origin for base in bases})


def unknown_origins(bases: Iterable[str], policy: InstallPolicy, origins: OriginBook) -> tuple[str, ...]:
    """Return the ``bases`` that need the user's consent; raise ``ORIGIN_REFUSED`` if the policy forbids one."""
    unknown = []
    for base in sorted(bases):
        decision = policy.decide(base, origins.look_up(base))
        if decision == "refuse":
            raise TrustError("ORIGIN_REFUSED", f"installing from {base} is not allowed", place=SourceLocation(base))
        if decision == "ask":
            unknown.append(base)
    return tuple(unknown)


def compare_with_folder(planned: PlannedSkill, folder: SkillsFolder, lock: Lock) -> PlannedSkill:
    """Return ``planned`` with its state, compared with the installed files; raise ``DOWNGRADE``."""
    skill, location = planned.skill, planned.location
    locked = lock.skills.get(skill.name)
    ours = {*locked.placement.folders, *locked.placement.links} if locked else set()
    others = tuple(place for place in (*location.folders, *location.links) if place not in ours)
    if folder.installed_files(InstallLocation(others), skill.name) is not None:
        reason = "a folder of that name is there, not installed by skillwire"
        return planned._replace(state="conflict", reason=reason)
    installed = folder.installed_files(locked.placement, skill.name) if locked else None
    if locked is None or installed is None:
        return planned._replace(state="new")
    if installed != locked.files:
        return planned._replace(state="conflict", reason="its files were changed since they were installed")
    if locked.origin not in {skill.origin, skill.former_origin}:
        return planned._replace(state="conflict", reason=f"it was installed from {locked.origin}")
    check_no_downgrade(locked, skill)
    whole = locked.placement == location and not folder.missing_places(locked.placement, skill.name)
    is_current = is_installed(skill, locked) and planned.wanted in {"", locked.wanted} and locked.origin == skill.origin
    return planned._replace(state="unchanged" if whole and is_current else "update")


def is_installed(skill: SkillRef, locked: LockedSkill) -> bool:
    """Whether the lock has the content of ``skill``."""
    if skill.files is not None:
        return hash_files(skill.files) == locked.files
    if skill.git is not None and locked.git is not None:
        return skill.git.tree == locked.git.tree
    return locked.digest is not None and locked.digest == skill.digest


def check_release(skill: SkillRef, locked: LockedSkill | None, wanted: str) -> None:
    """Refuse a withdrawn version: ``QUARANTINED``, or ``YANKED`` unless it is locked or requested by digest."""
    release = skill.release or Release()
    why = f"{skill.name} {skill.version}: {release.reason or 'no reason is given'}"
    instead = f"Use {release.successor} instead." if release.successor else None
    if release.status == "quarantined":
        raise TrustError("QUARANTINED", why, place=SourceLocation(skill.url), fix=instead)
    is_known = wanted.startswith("sha256:") or (locked is not None and locked.digest == skill.digest)
    if release.status == "yanked" and not is_known:
        raise TrustError("YANKED", why, place=SourceLocation(skill.url), fix=instead)


def with_releases(skills: Sequence[SkillRef], context: ResolveContext) -> Flow[list[SkillRef]]:
    """Return locked skills with their release states, from the list of versions of each skill that has a version.

    An index has the states of the versions that it lists, and a lock may name another version. A skill without such a
    list, or whose list does not arrive in time, is returned unchanged: most publishers have no list.
    """
    source = AgentSkills(context)

    def look_up(skill: SkillRef) -> Flow[SkillRef]:
        if (
            skill.git is not None
            or skill.version is None
            or skill.digest is None
            or skill.release is not None
            or not skill.index_url
        ):
            return skill
        lists = yield from source.versions(Lookup(skill.index_url, skill.name))
        return skill._replace(release=next((one.release for one in lists if one.digest == skill.digest), None))

    flow = run_all([limit_time(look_up(skill), _RELEASE_SECONDS) for skill in skills], lambda: None)
    found = yield from flow
    return [known if isinstance(one, SkillwireError) else one for known, one in zip(skills, found, strict=True)]


def meets_min_age(skill: SkillRef, context: ResolveContext) -> bool:
    """Whether a version is at least as old as the setting ``min_age``; a version without a date is not."""
    published = skill.release.published if skill.release is not None else None
    is_old = published is not None and published <= context.clock() - context.min_age
    return is_old or not context.min_age or skill.is_local


def too_young(skill: SkillRef) -> TrustError:
    """Return the error for a version that is younger than ``min_age``."""
    published = skill.release.published if skill.release is not None else None
    when = "its origin does not say when" if published is None else timestamp(published)
    message = f"{skill.name} {skill.version or ''} was published too recently for min_age: {when}"
    return TrustError("VERSION_TOO_YOUNG", message, place=SourceLocation(skill.origin))


def without_young(rows: Sequence[UpdateComparison], context: ResolveContext) -> Flow[list[UpdateComparison]]:
    """Return comparisons whose latest version is old enough, with state ``young`` if there is none."""
    if not context.min_age:
        return list(rows)
    changed = [row for row in rows if row.latest is not None and row.state in {"changed", "unverifiable"}]
    undated = [row.latest._replace(release=None) for row in changed if row.latest is not None]
    known = {one.name: one for one in (yield from with_releases(undated, context))}
    found = []
    for row in rows:
        if row not in changed or row.latest is None:
            found.append(row)
            continue
        old = [one for one in (known[row.locked.name], *row.others) if meets_min_age(one, context)]
        error = row.error or too_young(known[row.locked.name])
        young = row._replace(state="young", error=error)
        found.append(row._replace(latest=old[0], others=tuple(old[1:])) if old else young)
    return found


def release_warning(skill: SkillRef) -> Finding | None:
    """Return a warning about an archived or deprecated skill, or a yanked version that is locked or named by digest."""
    status, reason, successor, *_ = skill.release or Release()
    code = {"archived": "ARCHIVED", "deprecated": "DEPRECATED", "yanked": "YANKED"}.get(status)
    if code is None:
        return None
    message = f"{skill.name} {skill.version} is {status}{': ' * bool(reason)}{reason}"
    fix = f"Use {successor} instead." if successor else CODES[code].fix
    return Finding(code, "warning", message, SourceLocation(skill.origin), fix)


def check_no_downgrade(locked: LockedSkill, skill: SkillRef) -> None:
    """Raise ``DOWNGRADE`` if a skill that was locked with a digest now lacks one."""
    if locked.digest is not None and skill.digest is None and skill.git is None and not skill.is_local:
        message = f"{locked.name} was installed with a digest, and {locked.origin} gives none now"
        raise TrustError("DOWNGRADE", message, place=SourceLocation(skill.index_url))


def hash_files(files: Files) -> dict[str, str]:
    """Return ``path → SHA-256`` in hexadecimal, as in the lock."""
    return {file.path: hashlib.sha256(file.content).hexdigest() for file in files}


Decision = Literal["allow", "ask", "refuse"]


class _TrustedOrigins(NamedTuple):
    trusted_origins: frozenset[str]
    only_trusted: bool


class InstallPolicy(_TrustedOrigins):
    """The origins to install from.

    Args:
        trusted_origins: origins (``https://example.com``) or hosts (``example.com``) that need no consent.
        only_trusted: refuse every other origin instead of asking.

    Raises UsageError (``SETTING_FORM``) for a malformed trusted origin, which would silently match no origin.
    """

    __slots__ = ()

    def __new__(cls, trusted_origins: Iterable[str] = (), only_trusted: bool = False) -> Self:  # noqa: FBT001, FBT002  # the value's own fields, as a tuple takes them
        """Normalize the origins."""
        return super().__new__(cls, frozenset(map(_read_trusted, trusted_origins)), only_trusted)

    def decide(self, base: str, record: OriginRecord | None) -> Decision:
        """Return the decision about ``base``, a publisher's URL without the well-known part, and its record."""
        url = parse_url(base)
        if {base, str(url.origin), url.host, url.authority} & self.trusted_origins:
            return "allow"
        if self.only_trusted:
            return "refuse"
        return "allow" if record is not None and record.accepted else "ask"


def _read_trusted(text: str) -> str:
    """Return an origin, a scope or a host, normalized."""
    try:
        if "://" in text:
            return str(parse_url(text)).removesuffix("/")
        url = parse_url(f"https://{text}")
    except ValidationError as error:
        raise UsageError("SETTING_FORM", f"trusted_origins: {error.message}", fix=error.fix) from error
    return url.authority + url.path.removesuffix("/")


def plan_locked(
    skills: Sequence[LockedSkill], *, folder: SkillsFolder, policy: InstallPolicy, origins: OriginBook
) -> Flow[InstallPlan]:
    """Plan to install the exact bytes of the lock from its URLs.

    Its origins need the same consent as typed ones. So do the origins of artifacts, which no index confirms.
    """

    def plan() -> InstallPlan:
        planned = tuple(_plan_locked(locked, folder) for locked in skills)
        return InstallPlan(planned, unknown_origins(_bases(planned), policy, origins))

    return work(plan)


def _plan_locked(locked: LockedSkill, folder: SkillsFolder) -> PlannedSkill:
    planned = PlannedSkill(ref_of_locked(locked, folder.root), locked.placement, locked.agents, locked=locked)
    installed = folder.installed_files(locked.placement, locked.name)
    if installed is None:
        return planned
    if installed != locked.files:
        return planned._replace(state="conflict", reason="its files are not those of the lock")
    whole = not folder.missing_places(locked.placement, locked.name)
    return planned._replace(state="unchanged" if whole else "update")


def ref_of_locked(locked: LockedSkill, root: Path) -> SkillRef:
    """Return the reference of a locked skill; a skill of a folder is read anew."""
    if locked.artifact_type == "folder":
        from skillwire.resolver.sources.folder import load_local  # noqa: PLC0415  # most skills are not of folders

        return load_local(locked, root)
    digest = Digest(locked.digest) if locked.digest is not None else None
    files: tuple[IndexedFile, ...] = ()
    if locked.artifact_type == "files":
        base = locked.url.removesuffix(SKILL_MD)
        files = tuple(
            IndexedFile(path, base + quote(path), Digest(f"sha256:{hexadecimal}"))
            for path, hexadecimal in locked.files.items()
        )
    return SkillRef(
        name=locked.name,
        origin=locked.origin,
        description="",
        version=locked.version,
        digest=digest,
        found_via=LOCK_NAME,
        fetched_at=0.0,
        artifact_type=locked.artifact_type,
        url=locked.url,
        index_url=locked.index,
        indexed_files=files,
        capabilities=locked.capabilities,
        requires=tuple(locked.requires),
        git=locked.git,
    )


ComparisonState = Literal["current", "changed", "unverifiable", "gone", "unreachable", "young"]


class UpdateComparison(NamedTuple):
    """An installed skill, compared with the current one of its origin.

    ``state``: ``changed`` also if only the name of its namespace did, ``unverifiable`` if the origin gives no digests,
    ``gone`` if its index no longer lists the skill or its package was renamed, ``young`` if no other version is as old
    as the setting ``min_age`` demands. ``others`` are lower versions that fit, highest first. ``required_by`` names
    installed skills that require another version than ``latest``. ``wanted`` is the version or range of future updates.
    """

    locked: LockedSkill
    state: ComparisonState
    latest: SkillRef | None = None
    error: SkillwireError | None = None
    others: tuple[SkillRef, ...] = ()
    required_by: tuple[str, ...] = ()
    wanted: str = ""


def compare_with_origins(skills: Sequence[LockedSkill], context: ResolveContext) -> Flow[list[UpdateComparison]]:
    """Compare installed skills with their origins; each index is read once, and each local skill from its folder.

    A skill of a namespace, or one requested by a range, is compared with the list of its versions.
    """
    source = AgentSkills(context)
    indexes: dict[str, dict[str, SkillRef] | SkillwireError] = {}
    comparisons: list[UpdateComparison] = []
    replaced: list[SkillRef] = []  # installed versions whose states the index lacks
    for locked in skills:
        if locked.git is not None:
            comparisons.append((yield from _compare_git(locked, context)))
            continue
        if not locked.index:
            comparisons.append((yield from work(partial(_compare_local, locked, context.root))))
            continue
        try:
            if is_namespace_at(locked.origin) or locked.wanted:
                versions = yield from source.versions(Lookup(locked.index, locked.name))
                if versions:
                    comparisons.append(_compare_versions(locked, versions, context))
                    continue
            if locked.index not in indexes:
                indexes[locked.index] = yield from _read_index(source, locked.index)
        except SkillwireError as error:
            context.explain(error)
            indexes[locked.index] = error
        index = indexes[locked.index]
        if isinstance(index, SkillwireError):
            comparisons.append(UpdateComparison(locked, "unreachable", error=index))
        else:
            row = _compare_locked(locked, index.get(locked.name))
            comparisons.append(row)
            if row.state in {"changed", "gone"}:
                replaced.append(ref_of_locked(locked, context.root))
    releases = {ref.name: ref for ref in (yield from with_releases(replaced[:_RELEASES_ASKED], context))}
    return [_with_release(row, releases.get(row.locked.name, row.latest), context) for row in comparisons]


def renamed(locked: LockedSkill, skill: SkillRef) -> ConflictError:
    """Return the error of an installed skill whose package is called ``skill`` now."""
    fix = f"Run skillwire add {skill.origin}/{skill.name}, then skillwire remove {locked.name}."
    python = f"client.add('{skill.origin}/{skill.name}'); client.remove('{locked.name}')"
    message = f"{locked.name} is called {skill.name} now"
    return ConflictError("RENAMED", message, place=SourceLocation(locked.origin), fix=fix, in_python=python)


def _compare_git(locked: LockedSkill, context: ResolveContext) -> Flow[UpdateComparison]:
    """Compare with the current commit of the branch, or of the best tag in the range."""
    assert locked.git is not None  # noqa: S101  # the caller has checked it
    is_pinned = is_version(locked.wanted) or locked.wanted.startswith("sha256:") or locked.wanted == locked.git.commit
    if is_pinned:
        return UpdateComparison(locked, "current", ref_of_locked(locked, context.root))
    url = locked.url if locked.index else str(context.root / locked.url)
    lookup = Lookup(url, locked.git.path or None, source=GIT, version=locked.wanted)
    try:
        found = yield from open_source(GIT, context).resolve(lookup)
    except SkillwireError as error:
        context.explain(error)
        return UpdateComparison(locked, "gone" if error.code == "SKILL_NOT_FOUND" else "unreachable", error=error)
    latest = next((one for one in found if one.name == locked.name), None)
    if latest is None or latest.git is None:
        return UpdateComparison(locked, "gone")
    return UpdateComparison(locked, "current" if latest.git.tree == locked.git.tree else "changed", latest)


def _with_release(row: UpdateComparison, present: SkillRef | None, context: ResolveContext) -> UpdateComparison:
    """Add the error of a withdrawn installed version; report an archived or deprecated one."""
    if present is None or present.digest != row.locked.digest:
        return row
    try:
        check_release(present, None, "")
    except TrustError as error:
        is_replaced = row.latest is not None and row.latest.digest != row.locked.digest
        return row._replace(state="changed" if is_replaced else "gone", error=error)
    if finding := release_warning(present):
        context.report(finding)
    return row


def _read_index(source: AgentSkills, url: str) -> Flow[dict[str, SkillRef]]:
    found = yield from source.find(Lookup(url), None)
    return {skill.name: skill._replace(requested_by_name=False) for skill in found}


def _compare_versions(locked: LockedSkill, versions: Sequence[SkillRef], context: ResolveContext) -> UpdateComparison:
    """Compare with the versions in the requested range; only a withdrawn version is updated to a lower one."""
    if versions[0].name != locked.name:
        return UpdateComparison(locked, "gone", error=renamed(locked, versions[0]))
    usable = usable_versions(versions, locked.wanted)
    present = next((one for one in versions if one.digest == locked.digest), None)
    if present is None:  # it was removed, or its version has other bytes now
        return _compare_locked(locked, next(iter(usable), None))
    usable = [] if is_version(locked.wanted) or locked.wanted.startswith("sha256:") else usable
    try:
        check_release(present, None, "")
    except TrustError as error:
        state: Literal["changed", "gone"] = "changed" if usable else "gone"
        return UpdateComparison(locked, state, next(iter(usable), None), error, tuple(usable[1:]))
    before = str(present.version)
    newer = [one for one in usable if version_order(str(one.version)) > version_order(before)]
    newer = [one for one in newer if "-" not in str(one.version) or "-" in before]
    if not newer:
        return UpdateComparison(locked, "changed" if present.former_origin else "current", present)
    if finding := release_warning(present):
        context.report(finding)
    return UpdateComparison(locked, "changed", newer[0], others=tuple(newer[1:]))


def conflicting(lock: Lock, row: UpdateComparison) -> tuple[str, ...]:
    """Return the installed skills that require another version than the latest one of ``row``."""
    latest, name = row.latest, row.locked.name
    rows = [(one.name, text) for one in lock.skills.values() for text, met in one.requires.items() if met == name]
    return tuple(
        f"{requirer} ({text})"
        for requirer, text in rows
        if latest is not None and latest.version not in parse_requirement(text).versions
    )


def _compare_local(locked: LockedSkill, root: Path) -> UpdateComparison:
    try:
        latest = ref_of_locked(locked, root)
    except SkillwireError as error:
        return UpdateComparison(locked, "gone", error=error)
    return UpdateComparison(locked, "current" if hash_files(latest.files or ()) == locked.files else "changed", latest)


def _compare_locked(locked: LockedSkill, latest: SkillRef | None) -> UpdateComparison:
    if latest is None:
        return UpdateComparison(locked, "gone")
    try:
        check_no_downgrade(locked, latest)
    except SkillwireError as error:
        return UpdateComparison(locked, "unreachable", error=error)
    if latest.digest is None:
        return UpdateComparison(locked, "unverifiable", latest)
    return UpdateComparison(locked, "current" if latest.digest == locked.digest else "changed", latest)
