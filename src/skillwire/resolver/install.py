"""Installing, as a plan: what would happen, and what a person must decide first.

That is consent to an origin, and the overwriting of something that is not ours. Nothing is changed here;
:mod:`skillwire.resolver.apply` does what a plan says.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from skillwire.errors import Place, TrustError
from skillwire.model.install import LockedSkill, Placement
from skillwire.resolver.flow import work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.model.install import Lock
    from skillwire.ports import OriginBook, SkillsFolder
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.locate import Files, LocatedSkill
    from skillwire.resolver.policy import InstallPolicy

State = Literal["new", "update", "unchanged", "conflict"]


class Target(NamedTuple):
    """Where a skill is to stand, and for which agents."""

    placement: Placement
    agents: tuple[str, ...]


class PlannedSkill(NamedTuple):
    """One skill of a plan: what would happen to it, and, for a conflict, what is in the way.

    ``frozen`` is the row of the lock whose files must come out, byte for byte.
    """

    skill: LocatedSkill
    state: State
    target: Target
    reason: str = ""
    frozen: LockedSkill | None = None


class Plan(NamedTuple):
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


def plan_install(
    skills: Sequence[tuple[LocatedSkill, Target]], *, folder: SkillsFolder, policy: InstallPolicy, origins: OriginBook
) -> Flow[Plan]:
    """Decide what installing ``skills`` would do, without changing anything.

    Raises:
        TrustError: ``ORIGIN_REFUSED``.
    """
    bases = {skill.ref.origin for skill, _ in skills if not skill.is_local}
    unknown = yield from work(partial(unknown_origins, bases, policy, origins))
    planned = yield from work(lambda: _compare(skills, folder))
    return Plan(planned, unknown)


def unknown_origins(bases: Iterable[str], policy: InstallPolicy, origins: OriginBook) -> tuple[str, ...]:
    """Return those of ``bases`` that someone has to agree to first. A folder of this machine is none of them.

    Raises:
        TrustError: ``ORIGIN_REFUSED`` when the policy forbids one.
    """
    unknown = []
    for base in sorted(bases):
        decision = policy.decide(base, origins.look_up(base))
        if decision == "refuse":
            raise TrustError("ORIGIN_REFUSED", f"installing from {base} is not allowed", place=Place(base))
        if decision == "ask":
            unknown.append(base)
    return tuple(unknown)


def _compare(skills: Sequence[tuple[LocatedSkill, Target]], folder: SkillsFolder) -> tuple[PlannedSkill, ...]:
    lock = folder.read_lock()
    return tuple(compare_with_folder(skill, target, folder, lock) for skill, target in skills)


def compare_with_folder(skill: LocatedSkill, target: Target, folder: SkillsFolder, lock: Lock) -> PlannedSkill:
    """Decide what installing ``skill`` would do to what stands there now.

    Raises:
        TrustError: ``DOWNGRADE``.
    """
    name = skill.ref.name
    locked = lock.skills.get(name)
    ours = {*locked.placement.folders, *locked.placement.links} if locked else set()
    others = tuple(place for place in (*target.placement.folders, *target.placement.links) if place not in ours)
    if folder.installed_files(Placement(others), name) is not None:
        return PlannedSkill(skill, "conflict", target, "a folder of that name is there, not installed by skillwire")
    standing = folder.installed_files(locked.placement, name) if locked else None
    if locked is None or standing is None:
        return PlannedSkill(skill, "new", target)
    if standing != locked.files:
        return PlannedSkill(skill, "conflict", target, "its files were changed since they were installed")
    if locked.origin != skill.ref.origin:
        return PlannedSkill(skill, "conflict", target, f"it was installed from {locked.origin}")
    check_no_downgrade(locked, skill)
    whole = locked.placement == target.placement and not folder.missing_places(locked.placement, name)
    return PlannedSkill(skill, "unchanged" if whole and _has_same_bytes(skill, locked) else "update", target)


def check_no_downgrade(locked: LockedSkill, skill: LocatedSkill) -> None:
    """Refuse to replace what was verified by what cannot be: the lock remembers on every machine.

    Raises:
        TrustError: ``DOWNGRADE``.
    """
    if locked.digest is not None and skill.ref.digest is None and not skill.is_local:
        message = f"{locked.name} was installed with a digest, and {locked.origin} gives none now"
        raise TrustError("DOWNGRADE", message, place=Place(skill.index_url))


def _has_same_bytes(skill: LocatedSkill, locked: LockedSkill) -> bool:
    """Whether it is known, without fetching, that ``skill`` is what is installed."""
    if skill.files is not None:
        return hash_files(skill.files) == locked.files
    return locked.digest is not None and locked.digest == skill.ref.digest


def hash_files(files: Files) -> dict[str, str]:
    """Return ``path → SHA-256`` in hexadecimal, as the lock holds it."""
    return {file.path: hashlib.sha256(file.content).hexdigest() for file in files}
