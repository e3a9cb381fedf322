"""Doing what a plan says.

Everything is fetched, verified, unpacked and staged before the first folder is put in place, and the lock is written
last, so that a failure or an interruption at any point leaves what was there before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import ConflictError, Place, SkillwireError, TrustError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.model.finding import Finding
from skillwire.model.install import LockedSkill, Placement, StagedSkill
from skillwire.model.origin_record import OriginRecord
from skillwire.resolver.content import fetch_contents, open_content
from skillwire.resolver.document import noted
from skillwire.resolver.flow import work
from skillwire.resolver.install import compare_with_folder, hash_files
from skillwire.resolver.locate import timestamp
from skillwire.resolver.reference import reference_to
from skillwire.trust.hidden_text import find_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.model.ref import SkillRef
    from skillwire.ports import SkillsFolder, SkillsFolderChange
    from skillwire.resolver.content import Fetched
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.install import Plan, PlannedSkill
    from skillwire.resolver.locate import Files, Session

_SKILL_MD: Final = "SKILL.md"
_SKILL_TOML: Final = "skill.toml"
_TOLD: Final = 6  # hosts and secrets that one line names
_AT_ONCE: Final = 8  # skills fetched before they are staged: bounds memory to as many artifacts


class Report(NamedTuple):
    """What was done: what was put in place, which of it took the place of an earlier one, and what failed."""

    installed: tuple[LockedSkill, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    failed: Mapping[str, SkillwireError] = {}


def apply_install(
    plan: Plan,
    session: Session,
    folder: SkillsFolder,
    *,
    overwrite: bool = False,
    on_done: Callable[[], object] = lambda: None,
) -> Flow[Report]:
    """Do what ``plan`` says. The caller has the consent that ``plan.unknown_origins`` asks for.

    Skills are fetched a few at a time and staged, so that memory stays bounded; when all are staged they are put in
    place together. A skill that was asked for by name and cannot be had ends it all, and nothing is changed; one
    that came with the others of its index is left out and reported.

    Raises:
        ConflictError: ``SKILL_CONFLICT`` unless ``overwrite``.
    """
    if plan.conflicts and not overwrite:
        raise _conflict(plan.conflicts[0])
    unchanged = tuple(planned.skill.ref.name for planned in plan.skills if planned.state == "unchanged")
    if not plan.pending:
        return Report((), (), unchanged, {})
    change = yield from work(folder.change)
    try:
        staged = yield from work(lambda: _Staged(plan, session, folder, change, overwrite=overwrite))
        for start in range(0, len(plan.pending), _AT_ONCE):
            batch = plan.pending[start : start + _AT_ONCE]
            fetched = yield from fetch_contents([planned.skill for planned in batch], session, on_done)
            yield from work(partial(staged.add_all, batch, fetched))
        yield from work(staged.commit)
    except BaseException:
        change.close()
        raise
    yield from work(change.close)
    for base in plan.unknown_origins:
        yield from work(partial(_accept, base, session))
    return staged.report(unchanged)


def _conflict(planned: PlannedSkill) -> ConflictError:
    return ConflictError("SKILL_CONFLICT", f"{planned.skill.ref.name}: {planned.reason}")


class _Staged:
    """The skills that are ready to be put in place, and those that could not be had."""

    def __init__(
        self, plan: Plan, session: Session, folder: SkillsFolder, change: SkillsFolderChange, *, overwrite: bool
    ) -> None:
        self._plan, self._session, self._change = plan, session, change
        self._lock = folder.read_lock()
        self._installed: list[LockedSkill] = []
        self._failed: dict[str, SkillwireError] = {}
        if not overwrite:
            self._check_still_so(folder)

    def _check_still_so(self, folder: SkillsFolder) -> None:
        """Compare once more, now that nobody else can change anything: the plan may be minutes old."""
        for planned in self._plan.pending:
            if planned.frozen is None:
                now = compare_with_folder(planned.skill, planned.target, folder, self._lock)
                if now.state == "conflict":
                    raise _conflict(now)

    def add_all(self, batch: Sequence[PlannedSkill], fetched: Sequence[Fetched]) -> None:
        """Open, check and stage each, one after the other."""
        for planned, content in zip(batch, fetched, strict=True):
            try:
                self._add(planned, content)
            except SkillwireError as error:
                if planned.skill.was_named:
                    raise
                self._failed[planned.skill.ref.name] = error

    def _add(self, planned: PlannedSkill, content: Fetched) -> None:
        name = planned.skill.ref.name
        files = open_content(planned.skill, content, self._session)
        check_loadable(name, files, self._session.report)
        _tell_code(planned.skill.ref, files, self._session.report)
        if planned.frozen is not None and hash_files(files) != planned.frozen.files:
            place = Place(planned.skill.entry.url)
            raise TrustError("LOCK_MISMATCH", f"{name}: the files are not those of the lock", place=place)
        self._change.stage(StagedSkill(name, files, planned.target.placement))
        before = self._lock.skills.get(name)
        self._installed.append(_locked(planned, files, before, self._session))
        _take_away_old(before, planned.target.placement, self._change.take_away)

    def commit(self) -> None:
        """Put everything in place and write the lock; raise the first failure when there is nothing to put."""
        if self._installed:
            self._change.commit(self._lock.with_skills(self._installed))
        elif self._failed:
            raise next(iter(self._failed.values()))

    def report(self, unchanged: tuple[str, ...]) -> Report:
        """Return what was done."""
        names = {locked.name for locked in self._installed}
        updated = [row.skill.ref.name for row in self._plan.skills if row.state == "update"]
        return Report(tuple(self._installed), tuple(name for name in updated if name in names), unchanged, self._failed)


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


def _take_away_old(
    before: LockedSkill | None, placement: Placement, take_away: Callable[[str, Placement], object]
) -> None:
    """Remove the skill from folders that it stood in and does not stand in any more."""
    if before is None:
        return
    now = {*placement.folders, *placement.links}
    old = before.placement._replace(
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


def _tell_code(ref: SkillRef, files: Files, report: Callable[[Finding], object]) -> None:
    """Say of an action that it brings code which would run, and what it asks for."""
    name = ref.name
    content = next((file.content for file in files if file.path == _SKILL_TOML), None)
    if content is None:
        return
    from skillwire.folder.manifest import read_manifest  # noqa: PLC0415  # few skills have one

    try:
        manifest, _ = read_manifest(bytes(content), source=f"{name}/{_SKILL_TOML}")
    except SkillwireError as error:
        report(noted(error))
        return
    if manifest.runtime is None:
        return
    wanted = [*manifest.network, *manifest.secrets]
    asks = f", and asks for {', '.join(wanted[:_TOLD])}{' and more' if len(wanted) > _TOLD else ''}" if wanted else ""
    message = f"{name} is an action: its code would run when something calls it{asks}"
    fix = f"Nothing was run. Read it first: skillwire cat {reference_to(ref)} {manifest.runtime.entrypoint}"
    report(Finding("CODE_INSTALLED", "note", message, Place(f"{name}/{_SKILL_TOML}"), fix))


def _accept(base: str, session: Session) -> None:
    record = session.origins.look_up(base) or OriginRecord(first_seen=timestamp(session.clock()))
    session.origins.record(base, record._replace(accepted=True))
