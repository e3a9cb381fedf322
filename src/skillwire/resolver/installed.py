"""What is installed: has it changed, here or at its origin; take it away; bring it up to date.

An origin that gives digests is compared by them alone, without fetching an artifact. One that gives none can
only be fetched again; it is planned as an update and turns out unchanged when the same files come.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import quote

from skillwire.errors import NotFoundError, SkillwireError
from skillwire.model.digest import Digest
from skillwire.model.ref import SkillRef
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.messages import IndexedFile, IndexEntry
from skillwire.resolver.flow import work
from skillwire.resolver.install import Plan, PlannedSkill, Target, check_no_downgrade, hash_files, unknown_origins
from skillwire.resolver.local import load_local
from skillwire.resolver.locate import LocatedSkill, read_index
from skillwire.resolver.reference import IndexLocation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skillwire.model.install import Lock, LockedSkill
    from skillwire.ports import OriginBook, SkillsFolder
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import Session
    from skillwire.resolver.policy import InstallPolicy


@dataclass(frozen=True, slots=True)
class Comparison:
    """An installed skill beside what its origin has now.

    ``state`` is ``current``, ``changed``, ``unverifiable`` (the origin gives no digests), ``gone`` (its index does
    not list it any more) or ``unreachable``, with the error.
    """

    locked: LockedSkill
    state: Literal["current", "changed", "unverifiable", "gone", "unreachable"]
    latest: LocatedSkill | None = None
    error: SkillwireError | None = None


class Deviation(NamedTuple):
    """One thing that is not as the lock says."""

    name: str
    path: str
    problem: Literal["missing", "changed", "added"]


def select(lock: Lock, names: Sequence[str]) -> list[LockedSkill]:
    """Return the locked skills of these names, or all.

    Raises:
        NotFoundError: ``NOT_INSTALLED``.
    """
    for name in names:
        if name not in lock.skills:
            raise NotFoundError("NOT_INSTALLED", f"{name} is not installed here")
    return [lock.skills[name] for name in (names or sorted(lock.skills))]


def compare(
    skills: Sequence[LockedSkill], session: Session, load_local: Callable[[LockedSkill], LocatedSkill]
) -> Flow[list[Comparison]]:
    """Compare installed skills with their origins; each index is read once.

    ``load_local`` reads a skill that came from a folder of this machine anew.
    """
    comparisons: dict[str, Comparison] = {}
    by_index: dict[str, list[LockedSkill]] = {}
    for locked in skills:
        if not locked.index:
            comparisons[locked.name] = yield from work(partial(_compare_local, locked, load_local))
        else:
            by_index.setdefault(locked.index, []).append(locked)
    for index, members in by_index.items():
        for comparison in (yield from _compare_with_index(index, members, session)):
            comparisons[comparison.locked.name] = comparison
    return [comparisons[locked.name] for locked in skills]


def _compare_local(locked: LockedSkill, load_local: Callable[[LockedSkill], LocatedSkill]) -> Comparison:
    try:
        latest = load_local(locked)
    except SkillwireError as error:
        return Comparison(locked, "gone", error=error)
    return Comparison(locked, "current" if hash_files(latest.files or ()) == locked.files else "changed", latest)


def _compare_with_index(index: str, members: Sequence[LockedSkill], session: Session) -> Flow[list[Comparison]]:
    try:
        found = yield from read_index(IndexLocation(index, None), session)
    except SkillwireError as error:
        return [Comparison(locked, "unreachable", error=error) for locked in members]
    comparisons = []
    for locked in members:
        entry = found.index.entries.get(locked.name)
        if entry is None:
            comparisons.append(Comparison(locked, "gone"))
            continue
        latest = found.locate(entry, was_named=False)
        try:
            check_no_downgrade(locked, latest)
        except SkillwireError as error:
            comparisons.append(Comparison(locked, "unreachable", error=error))
            continue
        if entry.digest is None:
            comparisons.append(Comparison(locked, "unverifiable", latest))
        else:
            comparisons.append(Comparison(locked, "current" if entry.digest == locked.digest else "changed", latest))
    return comparisons


def plan_frozen(
    skills: Sequence[LockedSkill], *, folder: SkillsFolder, policy: InstallPolicy, origins: OriginBook
) -> Flow[Plan]:
    """Plan to install exactly what the lock says, from where it says.

    A lock comes with a project, so its origins need the same consent as those that a user types, and so do the
    origins of artifacts: an index would have vouched for those, and none is asked here.
    """

    def plan() -> Plan:
        planned = tuple(_frozen(locked, folder) for locked in skills)
        remote = [row for row in skills if row.artifact_type != "folder"]
        artifacts = {str(parse_url(row.url).origin) for row in remote if not row.url.startswith(f"{row.origin}/")}
        bases = {row.origin for row in remote} | {
            origin for origin in artifacts if not any(row.origin.startswith(origin) for row in remote)
        }
        return Plan(planned, unknown_origins(bases, policy, origins))

    return (yield from work(plan))


def _frozen(locked: LockedSkill, folder: SkillsFolder) -> PlannedSkill:
    skill = load_local(locked, folder.root) if locked.artifact_type == "folder" else _locate_locked(locked)
    target = Target(locked.placement, locked.agents)
    standing = folder.installed_files(locked.placement, locked.name)
    if standing is None:
        return PlannedSkill(skill, "new", target, frozen=locked)
    if standing != locked.files:
        return PlannedSkill(skill, "conflict", target, "its files are not those of the lock", locked)
    whole = not folder.missing_places(locked.placement, locked.name)
    return PlannedSkill(skill, "unchanged" if whole else "update", target, frozen=locked)


def _locate_locked(locked: LockedSkill) -> LocatedSkill:
    """Return a locked skill as its index entry was."""
    digest = Digest(locked.digest) if locked.digest is not None else None
    files: tuple[IndexedFile, ...] = ()
    if locked.artifact_type == "files":
        base = locked.url.removesuffix("SKILL.md")
        files = tuple(
            IndexedFile(path, base + quote(path), Digest(f"sha256:{hexadecimal}"))
            for path, hexadecimal in locked.files.items()
        )
    entry = IndexEntry(locked.name, "", locked.artifact_type, locked.url, digest, files, locked.version)  # type: ignore[arg-type]  # one of the three, says the lock's codec
    ref = SkillRef(locked.name, locked.origin, "", locked.version, digest, "skills.lock", 0.0)
    return LocatedSkill(ref, entry, locked.index)


def verify(folder: SkillsFolder, names: Sequence[str]) -> Flow[tuple[list[LockedSkill], list[Deviation]]]:
    """Compare what stands on disk with the lock; return what was compared, and every deviation."""

    def look() -> tuple[list[LockedSkill], list[Deviation]]:
        skills = select(folder.read_lock(), names)
        return skills, [deviation for locked in skills for deviation in _deviations(locked, folder)]

    return (yield from work(look))


def _deviations(locked: LockedSkill, folder: SkillsFolder) -> list[Deviation]:
    standing = folder.installed_files(locked.placement, locked.name)
    if standing is None:
        return [Deviation(locked.name, ".", "missing")]
    return [
        *(Deviation(locked.name, place, "missing") for place in folder.missing_places(locked.placement, locked.name)),
        *(Deviation(locked.name, path, "missing") for path in locked.files.keys() - standing.keys()),
        *(Deviation(locked.name, path, "added") for path in standing.keys() - locked.files.keys()),
        *(Deviation(locked.name, path, "changed") for path in _changed(locked.files, standing)),
    ]


def _changed(locked: Mapping[str, str], standing: Mapping[str, str]) -> list[str]:
    return [path for path, digest in locked.items() if path in standing and standing[path] != digest]


def remove(folder: SkillsFolder, names: Sequence[str]) -> Flow[list[LockedSkill]]:
    """Take skills away, and out of the lock; as a whole."""

    def take_away() -> list[LockedSkill]:
        change = folder.change()
        try:
            lock = folder.read_lock()
            skills = select(lock, names) if names else []
            for locked in skills:
                change.take_away(locked.name, locked.placement)
            change.commit(lock.without(names))
        finally:
            change.close()
        return skills

    return (yield from work(take_away))
