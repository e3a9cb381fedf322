"""Installing, as a plan and its execution.

``plan`` says what would happen and what a person must decide first: consent to an origin, the overwriting of
something that is not ours. ``apply`` does it: everything is fetched, verified, unpacked and staged before the
first folder is put in place, and the lock is written last, so that a failure or an interruption at any point
leaves what was there before.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillwire.errors import ConflictError, Place, SkillwireError, TrustError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.model.finding import Finding
from skillwire.model.install import LockedSkill, StagedSkill
from skillwire.model.origin_record import OriginRecord
from skillwire.resolver.content import read_contents
from skillwire.resolver.flow import work
from skillwire.resolver.locate import timestamp
from skillwire.trust.hidden_text import find_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.model.install import Lock, Placement
    from skillwire.ports import OriginBook, SkillsFolder
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import Files, LocatedSkill, Session
    from skillwire.resolver.policy import InstallPolicy

State = Literal["new", "update", "unchanged", "conflict"]
_SKILL_MD: Final = "SKILL.md"


class Target(NamedTuple):
    """Where a skill is to stand, and for which agents."""

    placement: Placement
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedSkill:
    """One skill of a plan: what would happen to it, and, for a conflict, what is in the way.

    ``frozen`` is the row of the lock whose files must come out, byte for byte.
    """

    skill: LocatedSkill
    state: State
    target: Target
    reason: str = ""
    frozen: LockedSkill | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What an ``add`` or ``update`` would do. ``unknown_origins`` need someone's consent first."""

    skills: tuple[PlannedSkill, ...]
    unknown_origins: tuple[str, ...] = ()

    @property
    def conflicts(self) -> tuple[PlannedSkill, ...]:
        """The skills that something else stands in the way of."""
        return tuple(planned for planned in self.skills if planned.state == "conflict")

    @property
    def pending(self) -> tuple[PlannedSkill, ...]:
        """The skills that would change something."""
        return tuple(planned for planned in self.skills if planned.state != "unchanged")


@dataclass(frozen=True, slots=True)
class Report:
    """What was done: what was put in place, which of it took the place of an earlier one, and what failed."""

    installed: tuple[LockedSkill, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    failed: Mapping[str, SkillwireError] = field(default_factory=dict)


def plan_install(
    skills: Sequence[tuple[LocatedSkill, Target]], *, folder: SkillsFolder, policy: InstallPolicy, origins: OriginBook
) -> Flow[Plan]:
    """Decide what installing ``skills`` would do, without changing anything.

    Raises:
        TrustError: ``ORIGIN_REFUSED``.
    """
    unknown = yield from work(partial(unknown_origins, [skill for skill, _ in skills], policy, origins))
    planned = yield from work(lambda: _compare(skills, folder))
    return Plan(planned, unknown)


def unknown_origins(skills: Sequence[LocatedSkill], policy: InstallPolicy, origins: OriginBook) -> tuple[str, ...]:
    """Return the origins of ``skills`` that someone has to agree to first.

    Raises:
        TrustError: ``ORIGIN_REFUSED`` when the policy forbids one.
    """
    unknown = []
    # A folder of this machine needs no consent: the user typed its path, and its bytes are theirs already.
    for base in sorted({skill.ref.origin for skill in skills if not skill.is_local}):
        decision = policy.decide(base, origins.look_up(base))
        if decision == "refuse":
            raise TrustError("ORIGIN_REFUSED", f"installing from {base} is not allowed", place=Place(base))
        if decision == "ask":
            unknown.append(base)
    return tuple(unknown)


def _compare(skills: Sequence[tuple[LocatedSkill, Target]], folder: SkillsFolder) -> tuple[PlannedSkill, ...]:
    lock = folder.read_lock()
    return tuple(_compare_one(skill, target, folder, lock) for skill, target in skills)


def _compare_one(skill: LocatedSkill, target: Target, folder: SkillsFolder, lock: Lock) -> PlannedSkill:
    locked = lock.skills.get(skill.ref.name)
    standing = folder.installed_files(target.placement, skill.ref.name)
    if locked is not None and locked.placement != target.placement:
        # It moves: what matters is the state of where it stands now, and that nothing foreign is where it goes.
        before = folder.installed_files(locked.placement, skill.ref.name)
        standing = before if standing is None or before == standing else standing
    if standing is None:
        return PlannedSkill(skill, "new", target)
    if locked is None:
        return PlannedSkill(skill, "conflict", target, "a folder of that name is there, not installed by skillwire")
    if standing != locked.files:
        return PlannedSkill(skill, "conflict", target, "its files were changed since they were installed")
    if locked.origin != skill.ref.origin:
        return PlannedSkill(skill, "conflict", target, f"it was installed from {locked.origin}")
    same = locked.placement == target.placement and _has_same_bytes(skill, locked)
    return PlannedSkill(skill, "unchanged" if same else "update", target)


def _has_same_bytes(skill: LocatedSkill, locked: LockedSkill) -> bool:
    """Whether it is known, without fetching, that ``skill`` is what is installed."""
    if skill.files is not None:
        return hash_files(skill.files) == locked.files
    return locked.digest is not None and locked.digest == skill.ref.digest


def apply_install(
    plan: Plan,
    session: Session,
    folder: SkillsFolder,
    *,
    overwrite: bool = False,
    on_done: Callable[[], object] = lambda: None,
) -> Flow[Report]:
    """Do what ``plan`` says, as a whole. The caller has the consent that ``plan.unknown_origins`` asks for.

    A skill that cannot be had is left out and reported; when none can be had, its error is raised.

    Raises:
        ConflictError: ``SKILL_CONFLICT`` unless ``overwrite``.
    """
    if plan.conflicts and not overwrite:
        first = plan.conflicts[0]
        raise ConflictError("SKILL_CONFLICT", f"{first.skill.ref.name}: {first.reason}")
    unchanged = tuple(planned.skill.ref.name for planned in plan.skills if planned.state == "unchanged")
    contents = yield from read_contents([planned.skill for planned in plan.pending], session, on_done)
    installed, failed = yield from work(lambda: _put_in_place(plan, contents, session, folder))
    for base in plan.unknown_origins:
        yield from work(partial(_accept, base, session))
    names = {locked.name for locked in installed}
    updated = tuple(row.skill.ref.name for row in plan.skills if row.state == "update" and row.skill.ref.name in names)
    return Report(installed, updated, unchanged, failed)


def _put_in_place(
    plan: Plan, contents: Sequence[Files | SkillwireError], session: Session, folder: SkillsFolder
) -> tuple[tuple[LockedSkill, ...], dict[str, SkillwireError]]:
    installed: list[LockedSkill] = []
    failed: dict[str, SkillwireError] = {}
    change = folder.change()
    try:
        lock = folder.read_lock()
        for planned, content in zip(plan.pending, contents, strict=True):
            name = planned.skill.ref.name
            try:
                files = _check(planned, content, session)
                change.stage(StagedSkill(name, files, planned.target.placement))
            except SkillwireError as error:
                failed[name] = error
                continue
            before = lock.skills.get(name)
            installed.append(_locked(planned, files, before, session))
            _take_away_old(before, planned.target.placement, change.take_away)
        if failed and not installed:
            raise next(iter(failed.values()))
        if installed:
            change.commit(lock.with_skills(installed))
    finally:
        change.close()
    return tuple(installed), failed


def _check(planned: PlannedSkill, content: Files | SkillwireError, session: Session) -> Files:
    """Return the files that may be installed, or raise why not."""
    if isinstance(content, SkillwireError):
        raise content
    name = planned.skill.ref.name
    check_loadable(name, content, session.report)
    if planned.frozen is not None and hash_files(content) != planned.frozen.files:
        place = Place(planned.skill.entry.url)
        raise TrustError("LOCK_MISMATCH", f"{name}: the files are not those of the lock", place=place)
    return content


def _locked(planned: PlannedSkill, content: Files, before: LockedSkill | None, session: Session) -> LockedSkill:
    ref, entry, files = planned.skill.ref, planned.skill.entry, hash_files(content)
    known = planned.frozen or before
    same = known is not None and known.files == files and known.origin == ref.origin
    return LockedSkill(
        name=ref.name,
        origin=ref.origin,
        index=planned.skill.index_url,
        url=entry.url,
        digest=entry.digest,
        artifact_type="folder" if planned.skill.is_local else entry.artifact_type,
        version=ref.version,
        first_seen=known.first_seen if known is not None and same else timestamp(session.clock()),
        agents=planned.target.agents,
        placement=planned.target.placement,
        files=files,
    )


def hash_files(files: Files) -> dict[str, str]:
    """Return ``path → SHA-256`` in hexadecimal, as the lock holds it."""
    return {file.path: hashlib.sha256(file.content).hexdigest() for file in files}


def _take_away_old(
    before: LockedSkill | None, placement: Placement, take_away: Callable[[str, Placement], object]
) -> None:
    """Remove the skill from folders that it stood in and does not stand in any more."""
    if before is None:
        return
    now = {*placement.folders, *placement.links}
    old = replace(
        before.placement,
        folders=tuple(folder for folder in before.placement.folders if folder not in now),
        links=tuple(link for link in before.placement.links if link not in now),
    )
    if old.folders or old.links:
        take_away(before.name, old)


def check_loadable(name: str, files: Files, report: Callable[[Finding], object]) -> None:
    """Check that an agent can load the skill: leniently, since we did not publish it; report what is doubtful.

    Raises:
        DecodeError, ValidationError: no frontmatter, or no description in it.
    """
    content = next(file.content for file in files if file.path == _SKILL_MD)
    source = f"{name}/{_SKILL_MD}"
    skill_md = parse_skill_md(bytes(content), source=source)
    if skill_md.name != name:
        message = f"SKILL.md names itself {skill_md.name!r}, the index {name!r}"
        report(Finding("NAME_MISMATCH", "warning", message, skill_md.place("name"), "Tell the publisher."))
    if hidden := find_hidden(bytes(content).decode()):
        message = f"SKILL.md holds {sum(run.length for run in hidden)} hidden characters, such as a {hidden[0].name}"
        fix = f"Read it with skillwire cat before an agent does; they are shown there as escapes: {name}"
        report(Finding("HIDDEN_TEXT", "warning", message, Place(source), fix))


def _accept(base: str, session: Session) -> None:
    record = session.origins.look_up(base) or OriginRecord(first_seen=timestamp(session.clock()))
    session.origins.record(base, replace(record, accepted=True))
