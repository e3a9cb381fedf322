"""What is installed: choose from it, compare it on disk with the lock, take it away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from skillwire.errors import NotFoundError
from skillwire.resolver.flow import work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.model.install import Lock, LockedSkill
    from skillwire.ports import SkillsFolder
    from skillwire.resolver.flow import Flow


class Deviation(NamedTuple):
    """One thing that is not as the lock says."""

    name: str
    path: str
    problem: Literal["missing", "changed", "added"]


class Verification(NamedTuple):
    """What was compared with the lock, and everything that is not as it says."""

    skills: list[LockedSkill]
    deviations: list[Deviation]


def select(lock: Lock, names: Sequence[str]) -> list[LockedSkill]:
    """Return the locked skills of these names, or all.

    Raises:
        NotFoundError: ``NOT_INSTALLED``.
    """
    for name in names:
        if name not in lock.skills:
            fix = did_you_mean(name, lock.skills)
            raise NotFoundError("NOT_INSTALLED", f"{ascii(name)[1:-1][:120]} is not installed here", fix=fix)
    return [lock.skills[name] for name in (names or sorted(lock.skills))]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the question after a name that is not ``known``; None when none of those looks like it."""
    import difflib  # noqa: PLC0415  # only an error needs it

    close = difflib.get_close_matches(name, list(known), n=3)
    return f"Did you mean {' or '.join(close)}?" if close else None


def verify(folder: SkillsFolder, names: Sequence[str]) -> Flow[Verification]:
    """Compare what stands on disk with the lock; return what was compared, and every deviation."""

    def look() -> Verification:
        skills = select(folder.read_lock(), names)
        return Verification(skills, [row for locked in skills for row in _deviations(locked, folder)])

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
